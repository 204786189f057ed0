"""From a question to hits, and from hits to the context that one side of a comparison sends."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rag.chunking import measure
from rag.domain import (
    Collection,
    Context,
    Document,
    Hit,
    Retrieval,
    Span,
    Status,
    Strategy,
)
from rag.errors import EmbeddingMismatch, NotFound, SettingsError
from rag.passages import build_passages
from rag.ports import Catalog, Embedder, VectorIndex, Vectors
from rag.prompt import build_messages
from rag.strategies import Choice, Chooser, merge_size, reach
from rag.window import merge_spans

MAX_QUESTION_CHARS = 8000
MAX_TOP_N = 200
MAX_WINDOW = 200
_SPARE = 16
"""Hits asked for beyond those wanted: some may belong to documents not, or no longer, ready."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How ranked chunks become passages.

    Attributes:
        strategy: how far around a hit is read.
        window: chunks in a window, the match included, 1 to 200.
        top_n: hits used, 1 to 200; ``None``: as many as the budget holds, or the default.
        budget: most tokens of passages, at least 1; ``None``: only the setting
            ``context_tokens`` limits them.
    """

    strategy: Strategy = Strategy.WINDOW
    window: int = 4
    top_n: int | None = None
    budget: int | None = None

    def __post_init__(self) -> None:
        """Raises ``SettingsError`` for a value out of range."""
        for name, value, most in (
            ("window size", self.window, MAX_WINDOW),
            ("top-n", self.top_n, MAX_TOP_N),
            ("token budget", self.budget, None),
        ):
            if value is not None and (value < 1 or (most is not None and value > most)):
                limits = f"from 1 to {most}" if most is not None else "of at least 1"
                raise SettingsError(
                    f"A {name} of {value} is not possible. Choose a whole number {limits}."
                )

    def hits_wanted(self, default_top_n: int) -> int:
        """How many hits to retrieve. It depends on nothing that differs between strategies."""
        if self.top_n is not None:
            return self.top_n
        if self.budget is not None:
            return min(MAX_TOP_N, max(10, self.budget // 8))
        return default_top_n


class Retriever:
    """Finds hits and reads what stands around them."""

    def __init__(
        self, catalog: Catalog, index: VectorIndex, embedder: Embedder, context_tokens: int
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._context_tokens = context_tokens

    def retrieve(self, collection: Collection, question: str, n: int) -> Retrieval:
        """Return the ``n`` best hits of ready documents, best first, ties in a fixed order.

        Raises:
            SettingsError: the question is blank or too long.
            NotFound: the collection holds no ready document.
            EmbeddingMismatch: it was indexed with another embedding model.
        """
        question = _clean(question)
        if collection.embedding_model != self._embedder.model:
            raise EmbeddingMismatch(
                f"The collection {collection.name!r} was indexed with "
                f"{collection.embedding_model}, but {self._embedder.model} is in use now. "
                "Set FENESTRA_EMBEDDING_MODEL back, or add its documents to a new collection."
            )
        if not self._catalog.documents(collection.owner, collection.id, Status.READY):
            raise NotFound(
                f"There is no document in the collection {collection.name!r} yet. "
                "Add documents to it, then ask again."
            )
        self._embedder.load()
        began = time.perf_counter()
        vector = self._embedder.embed_query(question)
        embedded = time.perf_counter()
        hits = self._nearest(collection, vector, n)
        found = time.perf_counter()
        timings = {"embed": (embedded - began) * 1000, "search": (found - embedded) * 1000}
        return Retrieval(question, collection, hits, timings)

    def _nearest(self, collection: Collection, vector: Vectors, n: int) -> tuple[Hit, ...]:
        asked = n + _SPARE
        while True:
            found = self._index.query(collection.space, vector, asked)
            ids = list(dict.fromkeys(document_id for document_id, _, _ in found))
            documents = self._catalog.documents_by_id(collection.owner, ids)
            ready = [
                Hit(document_id, index, similarity := min(1.0, max(0.0, cosine)), similarity)
                for document_id, index, cosine in found
                if document_id in documents and documents[document_id].status is Status.READY
            ]
            if len(ready) >= n or len(found) < asked:
                break
            asked *= 2
        ready.sort(key=lambda hit: (-hit.score, *_age(documents[hit.document_id]), hit.index))
        return tuple(ready[:n])

    def context(self, retrieval: Retrieval, selection: Selection, default_top_n: int) -> Context:
        """Return everything that one side sends for a retrieval."""
        began = time.perf_counter()
        hits = retrieval.hits[: selection.hits_wanted(default_top_n)]
        owner = retrieval.collection.owner
        documents = self._catalog.documents_by_id(owner, [hit.document_id for hit in hits])
        if any(hit.document_id not in documents for hit in hits):
            raise NotFound("A document that was found has just been removed. Ask again.")
        budget = min(selection.budget or self._context_tokens, self._context_tokens)
        reaches = [_reach(selection, documents[hit.document_id], hit, budget) for hit in hits]
        texts = self._catalog.read_spans(owner, _covering(hits, reaches))
        size = merge_size(selection.strategy, selection.window)
        chooser = Chooser(hits, reaches, texts, size, lambda text: measure(text, self._embedder))
        by_budget_alone = selection.top_n is None and selection.budget is not None
        choice = chooser.fill(budget) if by_budget_alone else chooser.all_hits(budget)
        read = time.perf_counter()
        passages = build_passages(
            choice.spans,
            [chooser.cut(span.document_id, span.first, span.last) for span in choice.spans],
            hits,
            documents,
            self._embedder,
            question=retrieval.question,
            clip=choice.clip,
        )
        messages = build_messages(retrieval.question, passages)
        done = time.perf_counter()
        timings = {
            **retrieval.timings_ms,
            "read": (read - began) * 1000,
            "prompt": (done - read) * 1000,
        }
        return Context(
            question=retrieval.question,
            strategy=selection.strategy,
            window=selection.window,
            hits=hits,
            passages=passages,
            messages=messages,
            token_count=sum(passage.tokens for passage in passages),
            dropped=_dropped(choice, budget, selection.budget),
            timings_ms={stage: round(ms, 3) for stage, ms in timings.items()},
        )


def _clean(question: str) -> str:
    """The question without what no part of the path can carry. Raises ``SettingsError``."""
    text = question.encode("utf-8", "ignore").decode().replace("\x00", "").strip()
    if not text:
        raise SettingsError("The question is empty. Type a question about your documents.")
    if len(text) > MAX_QUESTION_CHARS:
        raise SettingsError(
            f"The question has {len(text):,} characters; up to {MAX_QUESTION_CHARS:,} are read. "
            "Shorten it, or add the long text as a document and ask about it."
        )
    return text


def _age(document: Document) -> tuple[float, str, str]:
    return document.added_at, document.name, document.id


def _reach(selection: Selection, document: Document, hit: Hit, budget: int) -> range:
    limit = document.chunks
    if document.tokens > budget:
        # Twice the share of the document that fits: enough on whichever side text is denser.
        limit = min(limit, math.ceil(2 * budget * document.chunks / document.tokens) + 1)
    return reach(selection.strategy, document.chunks, hit.index, selection.window, limit)


def _covering(hits: Sequence[Hit], reaches: Sequence[range]) -> list[Span]:
    """The fewest spans that cover all reaches."""
    by_document: dict[str, list[range]] = {}
    for hit, wanted in zip(hits, reaches, strict=True):
        by_document.setdefault(hit.document_id, []).append(wanted)
    return [
        Span(document_id, span.start, span.stop - 1, ())
        for document_id, wanted in by_document.items()
        for span in merge_spans(wanted, 2)
    ]


def _dropped(choice: Choice, budget: int, asked: int | None) -> tuple[str, ...]:
    sentences = []
    if asked is not None and asked > budget:
        sentences.append(
            f"The budget of {asked} tokens is more than the setting FENESTRA_CONTEXT_TOKENS "
            f"allows; {budget} were used."
        )
    if choice.clip is not None:
        sentences.append(
            f"The best match alone is longer than {budget} tokens; "
            "it was cut to the part nearest to the question."
        )
    for count, what in (
        (choice.hits_left_out, ("match", "matches")),
        (choice.neighbours_left_out, ("neighbouring chunk", "neighbouring chunks")),
    ):
        if count:
            noun = what[0] if count == 1 else what[1]
            sentences.append(f"{count} {noun} did not fit into {budget} tokens.")
    return tuple(sentences)
