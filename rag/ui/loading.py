"""Loading the sample documents while a page watches."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from rag.domain import Added
from rag.errors import RagError
from rag.library import Library
from rag.samples import load_samples, sample_collections
from rag.ui import render


def missing(library: Library, names: Sequence[str] | None = None) -> dict[str, int]:
    """Number of files of each sample collection that is not wholly there.

    Args:
        library: where to look.
        names: of sample collections; all of them if ``None``.
    """
    present = {collection.name for collection in library.collections()}
    return {
        sample.name: len(sample.files)
        for sample in sample_collections()
        if (names is None or sample.name in names)
        and not (
            sample.name in present and len(library.documents(sample.name)) >= len(sample.files)
        )
    }


def load(library: Library, names: Sequence[str] | None = None) -> bool:
    """Load the sample collections that are missing, showing progress; whether all went well."""
    errors = []
    slot = st.empty()
    try:
        wanted = missing(library, names)
        total, done = sum(wanted.values()), 0
        for event in load_samples(library, list(wanted)):
            if isinstance(event, Added):
                done += 1
                if event.error:
                    errors.append(event.error)
            else:
                message = f"Loading sample {done + 1} of {total}: {event.message}"
                slot.html(render.progress(message, (done + (event.fraction or 0)) / total))
    except RagError as error:
        errors.append(str(error))
    slot.empty()
    for message in errors:
        st.error(render.literal(message), icon=":material/error:")
    return not errors
