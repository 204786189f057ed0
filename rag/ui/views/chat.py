"""Ask a question and read two answers to it, side by side."""

import streamlit as st

from rag.errors import RagError
from rag.samples import Example, examples
from rag.ui import columns, controls, loading, render, resources
from rag.ui.state import Side, Turn
from rag.ui.style import SCROLL_TO_QUESTION

opened = resources.opened()
library = opened.library
turns: list[Turn] = st.session_state.setdefault("turns", [])
for turn in turns:
    turn.settle()


@st.fragment(run_every=1.0)
def model_status() -> None:
    """Say how far the language model is, until it is ready."""
    if opened.readiness.ready:
        st.rerun()
    if opened.readiness.error is not None:
        st.warning(render.literal(opened.readiness.error), icon=":material/cloud_off:")
    elif (progress := opened.readiness.progress) is not None:
        st.html(render.progress(progress.message, progress.fraction))


def choose(example: Example) -> None:
    """Remember the example that was clicked; this run loads what it needs and asks it."""
    st.session_state["example"] = example


def load_all() -> None:
    """Remember that all samples are wanted."""
    st.session_state["load_samples"] = True


def welcome() -> None:
    """What this page does, for somebody who has never seen it."""
    with st.container(width=760):
        st.title("Ask your documents", anchor=False)
        st.markdown(
            "Fenestra looks for the pieces of your documents that match your question and gives "
            "them to a language model. It asks **twice**: once with the matching pieces alone, "
            "and once with the text **around** each match as well. Both answers appear side by "
            "side, with exactly what each of them was given."
        )
        st.markdown("**Try an example.** It loads the sample documents it needs, then asks.")
        with st.container(horizontal=True):
            for number, example in enumerate(examples()):
                st.button(
                    render.literal(example.question),
                    key=f"example-{number}",
                    on_click=choose,
                    args=(example,),
                    wrap=True,
                )
        st.page_link(
            "views/documents.py",
            label="Or add documents of your own",
            icon=":material/upload_file:",
        )


def nothing_to_ask() -> None:
    """A question came before any document."""
    st.info(
        "There is no document to look in yet. Add documents of your own, or load the samples; "
        "then ask again.",
        icon=":material/info:",
    )
    with st.container(horizontal=True):
        if st.button("Add documents", icon=":material/upload_file:", type="primary"):
            st.switch_page("views/documents.py")
        st.button("Load the samples", icon=":material/library_books:", on_click=load_all)


example: Example | None = st.session_state.pop("example", None)
samples_wanted: bool = st.session_state.pop("load_samples", False)
# Whatever stands in an empty goes at once when it is not drawn again, not only at a run's end.
status, intro = st.empty(), st.empty()
row, room, work = st.container(), st.container(key="turns"), st.container()
with st.container(key="ask"):
    # In a container it does not make the page stick to its end, away from what is being read.
    question = st.chat_input(
        "Ask a question about your documents", key="question", submit_mode="stop", max_chars=8000
    )

opened.readiness.check()
if not (example or samples_wanted or question) and not opened.readiness.ready:
    with status.container():
        model_status()

if example is not None:
    with work:
        if loading.load(library, [example.collection]):
            controls.choose(example.collection, example.window, example.top_n)
            question = example.question
elif samples_wanted:
    with work:
        loading.load(library)

with row:
    chosen = controls.show(
        [collection.name for collection in library.collections()], library.settings.default_top_n
    )

with room:
    for turn in turns:
        columns.show(turn, library, live=False)
    if question is not None and not library.documents():
        with intro.container():
            nothing_to_ask()
    elif question is not None and chosen.collection is not None:
        try:
            left, right = chosen.selections()
            with work, st.spinner("Looking for matching passages…"):
                pair = library.pair(question, chosen.collection, left, right)
            turn = Turn(question, (Side(left, pair[0]), Side(right, pair[1])))
        except RagError as error:
            turn = Turn(question, error=str(error))
        turns.append(turn)
        columns.show(turn, library, live=True)
        if len(turns) > 1:
            with work:
                st.html(SCROLL_TO_QUESTION, unsafe_allow_javascript=True)
    elif not turns:
        with intro.container():
            welcome()
