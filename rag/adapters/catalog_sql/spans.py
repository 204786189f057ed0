"""The one query that reads spans: their chunks, and the text that they cover."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Row,
    Select,
    Text,
    and_,
    case,
    column,
    func,
    select,
    values,
)

from rag.adapters.catalog_sql.rows import to_chunk
from rag.adapters.catalog_sql.schema import chunks, document_texts
from rag.domain import Span, SpanText
from rag.errors import NotFound

SPANS_A_QUERY = 5_000
"""SQLite takes 32,766 values a query, and a span is four of them."""


def read_spans(connection: Connection, owner: str, spans: Sequence[Span]) -> list[SpanText]:
    """Read spans in the order asked for; one query for each ``SPANS_A_QUERY`` of them.

    Raises:
        NotFound: a document, or a first or last chunk, is missing.
    """
    texts: list[SpanText] = []
    for offset in range(0, len(spans), SPANS_A_QUERY):
        wanted = spans[offset : offset + SPANS_A_QUERY]
        rows: defaultdict[int, list[Row[Any]]] = defaultdict(list)
        for row in connection.execute(_query(owner, wanted)):
            rows[row.number].append(row)
        texts.extend(_span_text(span, rows[number]) for number, span in enumerate(wanted))
    return texts


def _query(owner: str, spans: Sequence[Span]) -> Select[Any]:
    wanted = (
        values(
            column("number", Integer),
            column("document_id", Text),
            column("first", Integer),
            column("last", Integer),
            name="wanted",
        )
        .data([(i, span.document_id, span.first, span.last) for i, span in enumerate(spans)])
        .cte("wanted")
    )
    last = chunks.alias("last_chunk")
    end = (
        select(last.c.char_end)
        .where(
            last.c.owner == owner,
            last.c.document_id == chunks.c.document_id,
            last.c.chunk_index == wanted.c.last,
        )
        .correlate(chunks, wanted)
        .scalar_subquery()
    )
    # Both engines count code points.
    text = (
        select(
            func.substr(document_texts.c.text, chunks.c.char_start + 1, end - chunks.c.char_start)
        )
        .where(
            document_texts.c.owner == owner,
            document_texts.c.document_id == chunks.c.document_id,
        )
        .correlate(chunks, wanted)
        .scalar_subquery()
    )
    return (
        select(
            wanted.c.number,
            chunks.c.chunk_index,
            chunks.c.char_start,
            chunks.c.char_end,
            chunks.c.tokens,
            chunks.c.page,
            chunks.c.section,
            # Once a span: with its first chunk.
            case((chunks.c.chunk_index == wanted.c.first, text)).label("text"),
        )
        .select_from(wanted)
        # With nothing but the spans and the chunks to join, both engines look up the range of
        # indices in the primary key, whatever they know or do not know about the tables' sizes.
        .join(
            chunks,
            and_(
                chunks.c.document_id == wanted.c.document_id,
                chunks.c.chunk_index.between(wanted.c.first, wanted.c.last),
            ),
        )
        .where(chunks.c.owner == owner)
        .order_by(wanted.c.number, chunks.c.chunk_index)
    )


def _span_text(span: Span, rows: Sequence[Row[Any]]) -> SpanText:
    if not rows or rows[0].text is None:
        raise NotFound(
            f"Chunks {span.first} to {span.last} of document {span.document_id} are not in the "
            "library. The document was removed or replaced: ask again."
        )
    text: str = rows[0].text
    start: int = rows[0].char_start
    return SpanText(
        document_id=span.document_id,
        chunks=tuple(to_chunk(row, text, start) for row in rows),
        text=text,
    )
