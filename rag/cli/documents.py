"""The commands about documents: add, documents, remove, show."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from rag.cli.arguments import Arguments
from rag.cli.console import Console
from rag.cli.exits import OK, SOME_FAILED
from rag.cli.files import Entry, expand
from rag.cli.session import open_session
from rag.cli.shapes import Shape, added_shape, document_shape, shown_shape
from rag.domain import DEFAULT_COLLECTION, Added, Progress

if TYPE_CHECKING:
    from rag.library import Library


def add(arguments: Arguments, console: Console) -> int:
    """Add files and folders. Returns 3 if some of them failed."""
    collection = arguments.collection or DEFAULT_COLLECTION
    entries = list(expand(arguments.paths))
    if not entries:
        console.note("There is no file in what was named. Name files, or a folder with files.")
    rows: list[Shape] = []
    with open_session(arguments, console) as library:
        library.ensure_collection(collection, arguments.chunking)
        for number, entry in enumerate(entries, 1):
            stage = f"[{number}/{len(entries)}] {entry.path}"
            row = _add_one(library, entry, collection, stage, console)
            rows.append(row)
            _say_added(row, console)
    counts = Counter(row["status"] for row in rows)
    console.write(
        f"{counts['ready']} added, {counts['unchanged']} already there, {counts['failed']} failed."
    )
    console.result({"documents": rows})
    return SOME_FAILED if counts["failed"] else OK


def _add_one(
    library: Library, entry: Entry, collection: str, stage: str, console: Console
) -> Shape:
    path, name = str(entry.path), entry.path.name
    if entry.error is not None:
        return added_shape(path, name, "failed", None, entry.error)
    added: Added | None = None
    with closing(library.add_path(entry.path, collection)) as events:
        for event in events:
            if isinstance(event, Progress):
                console.progress(event, stage)
            else:
                added = event
    assert added is not None, "adding a file always ends with what became of it"
    return added_shape(path, added.name, added.status, added.document, added.error)


def _say_added(row: Shape, console: Console) -> None:
    if row["error"]:
        console.write(f"failed     {row['path']}")
        console.note(row["error"])
        return
    console.write(f"{row['status']:<10} {row['path']}  ({row['chunks']} chunks, id {row['id']})")
    for warning in row["warnings"]:
        console.note(f"{row['path']}: {warning}")


def list_documents(arguments: Arguments, console: Console) -> int:
    """List the documents of one collection, or all."""
    with open_session(arguments, console) as library:
        documents = library.documents(arguments.collection)
    for document in documents:
        console.write(
            f"{document.id}  {document.status.value:<8} {document.chunks:>6} chunks "
            f"{document.tokens:>8} tokens  {document.name}"
        )
    if not documents:
        console.write("No documents yet. Add some with `fenestra add PATH…`.")
    console.result({"documents": [document_shape(document) for document in documents]})
    return OK


def remove(arguments: Arguments, console: Console) -> int:
    """Remove documents; none of them if an id is unknown."""
    with open_session(arguments, console) as library:
        removed = library.remove(list(dict.fromkeys(arguments.ids)))
    for document_id in removed:
        console.write(f"removed {document_id}")
    console.result({"removed": removed})
    return OK


def show(arguments: Arguments, console: Console) -> int:
    """Show one document: its text, and its chunks if asked for."""
    with open_session(arguments, console) as library:
        document, text, chunks = library.show(arguments.id)
    console.write(f"{document.name}  ({document.media_type}, {document.pages or 'no'} pages)")
    for warning in document.warnings:
        console.write(f"Note: {warning}")
    if arguments.chunks:
        for chunk in chunks:
            place = f"chunk {chunk.index}, {chunk.start}-{chunk.end}, {chunk.tokens} tokens"
            page = f", page {chunk.page}" if chunk.page else ""
            section = f", {chunk.section}" if chunk.section else ""
            console.heading(place + page + section)
            console.write(chunk.text.strip("\n"))
    else:
        console.write()
        console.write(text.text)
    console.result(shown_shape(document, text, chunks if arguments.chunks else None))
    return OK
