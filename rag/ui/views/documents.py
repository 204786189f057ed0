"""The documents: bring files in, see what is there, take them out again."""

import math

import streamlit as st

from rag.adapters.readers import accepted_extensions
from rag.domain import DEFAULT_COLLECTION, Document
from rag.errors import RagError
from rag.jobs import FINISHED
from rag.ui import loading, render, resources

PER_PAGE = 20
ALL = "All collections"

opened = resources.opened()
library, worker = opened.library, opened.worker


def take_files(key: str) -> None:
    """Hand what was dropped to the worker, once, and empty the drop zone."""
    taken = st.session_state["taken"]
    for file in st.session_state[key] or ():
        # Streamlit calls this again if the run after it was cut short.
        if file.file_id not in taken:
            taken.add(file.file_id)
            worker.submit(file.name, file.getvalue(), st.session_state["into"], library.owner)
    # Another key is another drop zone: a rerun finds no file to submit again, and the bytes go.
    st.session_state["drop"] += 1


def want_samples() -> None:
    """Remember that the samples are wanted; this run loads them."""
    st.session_state["load_samples"] = True


def say(message: str) -> None:
    """Tell what was done, after the page has been drawn anew."""
    st.session_state["said"] = message


def finished() -> int:
    """How many files the worker is done with."""
    return sum(job.state in FINISHED for job in worker.jobs(library.owner))


@st.fragment(run_every=0.5 if worker.busy(library.owner) else None)
def progress(finished_before: int) -> None:
    """How far each file is; the whole page is drawn anew whenever one is done."""
    jobs = worker.jobs(library.owner)
    if finished() > finished_before:
        if not worker.busy(library.owner):
            failed = sum(job.state == "failed" for job in jobs)
            say(f"{failed} of {len(jobs)} files failed." if failed else "All files are done.")
        st.rerun()
    if not jobs:
        return
    with st.container(border=True):
        for job in jobs:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.html(render.job(job))
                if job.state in FINISHED:
                    st.empty()  # takes the place of the button at once
                else:
                    st.button(
                        "Cancel", key=f"cancel-{job.id}", on_click=worker.cancel, args=(job.id,)
                    )
        if not worker.busy(library.owner):
            st.button(
                "Clear this list",
                key="forget",
                icon=":material/close:",
                on_click=worker.forget_finished,
                args=(library.owner,),
            )


def delete(document: Document) -> None:
    """Delete a document, and tell."""
    try:
        library.remove([document.id])
        say(f"Deleted: {document.name}")
    except RagError as error:
        st.session_state["failed"] = str(error)


@st.dialog("Delete this document?")
def confirm(document: Document) -> None:
    """Ask before a document is deleted."""
    st.html(render.name(document.name))
    st.markdown("Its text leaves this library. The file it came from is not touched.")
    with st.container(horizontal=True):
        answered = st.button(
            "Delete",
            key="sure",
            type="primary",
            icon=":material/delete:",
            on_click=delete,
            args=(document,),
        )
        answered |= st.button("Keep it", key="keep")
    if answered:
        st.rerun()


def add_files() -> None:
    """Where files are dropped, and what becomes of them."""
    names = [collection.name for collection in library.collections()]
    if DEFAULT_COLLECTION not in names:
        names.append(DEFAULT_COLLECTION)
    limit = library.settings.max_file_mb
    key = f"files-{st.session_state['drop']}"
    st.selectbox(
        "Add to collection",
        names,
        index=names.index(DEFAULT_COLLECTION),
        key="into",
        persist_state="session",
        accept_new_options=True,
        help="A collection is a set of documents that is searched together. Choose one, or type "
        "a name for a new one.",
        width=340,
    )
    st.file_uploader(
        f"Files, up to {limit} MiB each",
        type=accepted_extensions(),
        accept_multiple_files=True,
        key=key,
        on_change=take_files,
        args=(key,),
        max_upload_size=limit,
        help="The limit is the setting FENESTRA_MAX_FILE_MB. A proxy in between may have its own.",
    )
    progress(finished())


def listing() -> None:
    """All documents, a page at a time."""
    documents = library.documents()
    collections = {collection.id: collection.name for collection in library.collections()}
    if not documents:
        st.info(
            "There are no documents yet. Drop some above, or load the samples to try things out.",
            icon=":material/info:",
        )
        return
    used = [
        name
        for id_, name in collections.items()
        if any(document.collection_id == id_ for document in documents)
    ]
    shown = st.selectbox("Show", [ALL, *used], key="shown", width=340) if len(used) > 1 else ALL
    documents = [d for d in documents if shown in (ALL, collections[d.collection_id])]
    pages = math.ceil(len(documents) / PER_PAGE)
    page = st.pagination(pages, key="page") if pages > 1 else 1
    for document in documents[(page - 1) * PER_PAGE : page * PER_PAGE]:
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            st.html(render.document(document, collections[document.collection_id]))
            if st.button("Delete", key=f"delete-{document.id}", icon=":material/delete:"):
                confirm(document)


st.session_state.setdefault("drop", 0)
st.session_state.setdefault("taken", set())
st.title("Documents", anchor=False)
if said := st.session_state.pop("said", ""):
    st.toast(render.literal(said), icon=":material/info:")
if failed := st.session_state.pop("failed", ""):
    st.error(render.literal(failed), icon=":material/error:")
add_files()
if st.session_state.pop("load_samples", False) and loading.load(library):
    say("The sample documents are loaded.")
    st.rerun()
listing()
if loading.missing(library):
    st.button("Load the sample documents", icon=":material/library_books:", on_click=want_samples)
