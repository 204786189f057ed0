"""What start-up does so that no person has to: finishes what was cut off, checks the vector
index against the catalog, and rebuilds it from there when they disagree."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager

from rag import checkpoints
from rag.domain import Collection, Document, Progress, Status
from rag.errors import EmbeddingMismatch, IndexDamaged, IndexUnavailable, StoreError
from rag.ports import Catalog, Steps, VectorIndex, Vectors

_log = logging.getLogger(__name__)

_SAMPLES = 5
"""Documents of each collection whose vectors must find themselves."""
_SAME = 0.999
"""Cosine from which two vectors count as equal."""


def recover(catalog: Catalog, index: VectorIndex, *, index_lost: bool) -> Steps:
    """Bring catalog and index to a state in which every document is ready or gone.

    Args:
        index_lost: the index could not be opened and is empty now.

    Raises:
        IndexUnavailable: the disk or the system refuses what is needed; the index may lack
            vectors and must not be used. The documents that are ready can be.
        StoreError: the catalog cannot be read.
    """
    sound = not index_lost
    if sound:
        try:
            yield from _finish_all(catalog, index)
            sound = agrees(catalog, index)
        except (IndexDamaged, EmbeddingMismatch) as error:
            # Some damage shows only in use. The catalog holds all that a new index needs.
            _log.warning("the search index is rebuilt: %s", error)
            sound = False
    if not sound:
        yield from rebuild(catalog, index)
        yield from _finish_all(catalog, index)


def _finish_all(catalog: Catalog, index: VectorIndex) -> Steps:
    """Make every document that was on its way in ready, and take out those on their way out."""
    for owner in catalog.owners():
        collections = {collection.id: collection for collection in catalog.collections(owner)}
        for document in catalog.documents(owner, status=Status.INDEXING):
            yield Progress(f"Finishing {document.name}")
            _finish(catalog, index, collections[document.collection_id], document)
        for document in catalog.documents(owner, status=Status.DELETING):
            yield Progress(f"Finishing the removal of {document.name}")
            index.delete(collections[document.collection_id].space, document.id)
            with _written_later():
                catalog.delete_document(owner, document.id)


def _finish(
    catalog: Catalog, index: VectorIndex, collection: Collection, document: Document
) -> None:
    vectors = catalog.vectors(collection.owner, document.id)
    index.upsert(collection.space, document.id, range(len(vectors)), vectors)
    with _written_later():
        catalog.promote(collection.owner, document.id)


@contextmanager
def _written_later() -> Iterator[None]:
    """A catalog that cannot be written now, on a full disk say, can still be read.

    The index and it are at odds then, so it is the index that is put out of use.
    """
    try:
        yield
    except StoreError as error:
        raise IndexUnavailable(str(error)) from error


def agrees(catalog: Catalog, index: VectorIndex) -> bool:
    """Whether the index holds what the catalog says, and sampled vectors find themselves."""
    for owner in catalog.owners():
        for collection in catalog.collections(owner):
            ready = catalog.documents(owner, collection.id, Status.READY)
            if index.ids(collection.space) != {document.id: document.chunks for document in ready}:
                return False
            for document in ready[:: max(1, len(ready) // _SAMPLES)]:
                vectors = catalog.vectors(owner, document.id)
                place = len(vectors) // 2
                if not finds(index, collection.space, document.id, place, vectors):
                    return False
    return True


def finds(index: VectorIndex, space: str, document_id: str, place: int, vectors: Vectors) -> bool:
    """Whether the vector of a chunk finds itself, or others that are equal to it."""
    hits = index.query(space, vectors[place : place + 1], 5)
    return any(hit[:2] == (document_id, place) for hit in hits) or (
        len(hits) == 5 and all(cosine >= _SAME for _, _, cosine in hits)
    )


def rebuild(catalog: Catalog, index: VectorIndex) -> Steps:
    """Build a new index beside the old one from the catalog's vectors, then switch to it.

    Nothing is embedded again. Until the switch the old index answers.
    """
    # Closed whatever happens: what was given up half-way must not stay on the disk.
    with closing(index.begin_rebuild()) as fresh:
        checkpoints.reached("rebuild:started")
        work = [
            (collection, document)
            for owner in catalog.owners()
            for collection in catalog.collections(owner)
            for document in catalog.documents(owner, collection.id, Status.READY)
        ]
        for done, (collection, document) in enumerate(work):
            yield Progress(f"Rebuilding the search index: {document.name}", done / len(work))
            vectors = catalog.vectors(collection.owner, document.id)
            fresh.upsert(collection.space, document.id, range(len(vectors)), vectors)
        checkpoints.reached("rebuild:filled")
        index.switch(fresh)
    yield Progress("The search index is rebuilt", 1.0)
