"""One behaviour for every embedder: the packaged model and the double."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag.adapters.sentence_transformer import SentenceTransformerEmbedder
from rag.errors import SettingsError
from rag.ports import Embedder
from rag.testing import HashEmbedder

MINILM = SentenceTransformerEmbedder()


@pytest.fixture(params=["minilm", "hash"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return MINILM if request.param == "minilm" else HashEmbedder()


def test_documents_become_unit_rows_in_order(embedder: Embedder) -> None:
    texts = ["The cat sleeps.", "Interest rates rose in March.", "A cat is asleep."]
    vectors = embedder.embed_documents(texts)
    assert vectors.shape == (3, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1]
    alone = embedder.embed_documents(texts[1:2])
    assert np.allclose(alone[0], vectors[1], atol=1e-5)


def test_a_question_finds_its_document(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(["The cat sleeps on the sofa.", "Rates rose in March."])
    question = embedder.embed_query("Where does the cat sleep?")
    assert question.shape == (1, embedder.dimensions)
    scores = (question @ vectors.T)[0]
    assert scores[0] > scores[1]


def test_nothing_is_embedded_as_nothing(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dimensions)


def test_offsets_and_counts_agree(embedder: Embedder) -> None:
    text = "Tokens expire after 90 days, e\u0301t\u00e9 \u6f22\u5b57 [SEP]."
    offsets = embedder.offsets(text)
    assert len(offsets) == embedder.count([text])[0]
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
    assert embedder.count(["", "   "]) == [0, 0]


def test_a_question_longer_than_the_model_reads_is_embedded_whole(embedder: Embedder) -> None:
    text = "harmless words " * 300 + "volcano eruption lava"
    vector = embedder.embed_query(text)
    assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5
    assert not np.allclose(vector, embedder.embed_query("harmless words " * 300), atol=1e-4)


def test_the_packaged_model_is_what_it_says() -> None:
    assert MINILM.model == "all-MiniLM-L6-v2@53aa51172d14"
    assert (MINILM.dimensions, MINILM.max_tokens) == (384, 254)


def test_no_document_is_cut_silently() -> None:
    with pytest.raises(ValueError, match="254"):
        MINILM.embed_documents(["word " * 300])


def test_a_folder_that_holds_no_model_is_named(tmp_path: Path) -> None:
    embedder = SentenceTransformerEmbedder(str(tmp_path))
    with pytest.raises(SettingsError, match="FENESTRA_EMBEDDING_MODEL"):
        _ = embedder.model
    with pytest.raises(SettingsError, match=r"tokenizer\.json"):
        embedder.count(["x"])


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in MINILM.folder.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes()[:10_000_000])
    embedder = SentenceTransformerEmbedder()
    embedder.folder = folder  # type: ignore[misc]
    with pytest.raises(SettingsError, match="damaged"):
        embedder.load()
