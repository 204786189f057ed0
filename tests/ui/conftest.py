"""The pages in Streamlit's own test harness, on a real library with quick models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from streamlit.testing.v1 import AppTest

from rag.compose import open_library
from rag.library import Library
from rag.settings import load_settings
from rag.testing import HashEmbedder, ScriptedChat
from rag.ui import resources, server


class Shown(HTMLParser):
    """What a browser makes of some HTML: the text it shows, and the tags it builds."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


class Pages(AppTest):
    """The whole application, with what its tests ask of it."""

    def shown(self, kind: str) -> list[str]:
        """The texts of all pieces of HTML that begin with, or hold, elements of a class."""
        pieces = [item.value for item in self.get("html")]
        return [Shown(piece).text for piece in pieces if f'class="{kind}"' in piece]

    def go(self, page: str) -> Pages:
        """Go to a page by the name of its file."""
        self.switch_page(f"views/{page}.py").run()
        return self

    def ask(self, question: str) -> Pages:
        """Type a question and send it."""
        self.chat_input(key="question").set_value(question).run()
        return self

    def drop(self, *files: tuple[str, bytes]) -> Pages:
        """Drop files on the Documents page, and wait until all are done."""
        self.get("file_uploader")[0].set_value([(*file, "") for file in files]).run()
        worker = resources.opened().worker
        deadline = time.monotonic() + 60
        while worker.busy():
            assert time.monotonic() < deadline, "the worker is still busy after a minute"
            time.sleep(0.01)
        self.run()
        return self


@pytest.fixture
def shown() -> Callable[[str], Shown]:
    return Shown


@pytest.fixture
def open_pages(home: object) -> Iterator[Callable[..., Pages]]:
    """Opens the application with a model; without one, another visit to what is open."""

    def open_(chat: ScriptedChat | None = None, **query: str) -> Pages:
        if chat is not None:
            embedder, settings = HashEmbedder(), load_settings()
            resources.use(lambda: open_library(settings, embedder=embedder, chat=chat))
        pages = Pages(server.MAIN, default_timeout=60)
        pages.query_params.update(query)
        pages.run()
        assert not pages.exception
        return pages

    yield open_
    resources.use(None)


@pytest.fixture
def chat() -> ScriptedChat:
    return ScriptedChat("Under Settings > API Keys [1].")


@pytest.fixture
def pages(open_pages: Callable[..., Pages], chat: ScriptedChat) -> Pages:
    return open_pages(chat)


@pytest.fixture
def library(pages: Pages) -> Library:
    return resources.opened().library
