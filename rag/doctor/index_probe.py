"""Opens a copy of a vector index and compares it with the catalog, in a process of its own.

``python -m rag.doctor.index_probe COPY HOME`` prints ``{"error", "agrees", "vectors"}`` as JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from rag.compose import catalog_url
from rag.domain import Status
from rag.errors import StoreError
from rag.recovery import agrees
from rag.settings import load_settings


def probe(copy: Path, home: Path) -> dict[str, object]:
    """Compare the index in ``copy`` with the catalog in ``home``."""
    from rag.adapters.catalog_sql.read_only import ReadOnlyCatalog
    from rag.adapters.chroma_index import ChromaIndex

    with ReadOnlyCatalog(catalog_url(load_settings(home))) as catalog:
        reading = catalog.reading
        try:
            index = ChromaIndex.open(copy)
            same = agrees(reading, index)
        except StoreError as error:
            return {"error": str(error), "agrees": False, "vectors": 0}
        vectors = sum(
            document.chunks
            for owner in reading.owners()
            for document in reading.documents(owner, status=Status.READY)
        )
        index.close()
    return {"error": None, "agrees": same, "vectors": vectors}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = probe(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(json.dumps(found))
