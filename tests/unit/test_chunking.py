"""Chunks are exact, bounded slices of any text."""

from __future__ import annotations

import itertools

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag.adapters.sentence_transformer import SentenceTransformerEmbedder
from rag.chunking import MAX_CHARS, chunk_text, measure, validate
from rag.domain import Chunk, ChunkSettings, Heading
from rag.errors import SettingsError

MINILM = SentenceTransformerEmbedder()

SCRIPTS = {
    "chinese": "数据库每天备份一次。备份保存三十天！过期的备份会自动删除吗？是的。",
    "chinese without marks": "数据库每天备份一次备份保存三十天过期的备份会自动删除",
    "japanese": "データベースは毎日バックアップされます。三十日間保存されます。",
    "thai": "ฐานข้อมูลจะถูกสำรองทุกวันและเก็บไว้สามสิบวัน",
    "hindi": "डेटाबेस का बैकअप हर दिन लिया जाता है। इसे तीस दिन तक रखा जाता है। ",
    "arabic": "يتم نسخ قاعدة البيانات كل يوم. هل تحفظ ثلاثين يوما؟ نعم. ",
    "korean": "데이터베이스는 매일 백업됩니다. 삼십일 동안 보관됩니다. ",
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w",
    "family": "👨‍👩‍👧‍👦",
    "accents": "e\u0301",
    "flags": "🇩🇪🇫🇷🇯🇵",
    "newlines": "\n",
    "minified": "function(a,b){return a[b]||(a[b]=new Map)};",
}


def check(text: str, size: int, overlap: int, chunks: list[Chunk]) -> None:
    """What holds for the chunks of every text."""
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert len(chunk.text) <= MAX_CHARS
        assert chunk.tokens <= size
    assert [chunk.tokens for chunk in chunks] == MINILM.count([c.text for c in chunks])
    for before, after in itertools.pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        if not overlap:
            assert text[before.end : after.start].strip() == ""
            if before.end < after.start:
                assert "\n" * 100 in text or " " * 100 in text
    outside = text[: chunks[0].start] + text[chunks[-1].end :] if chunks else text
    assert outside.strip() == ""


texts = st.one_of(
    st.text(max_size=1500),
    st.lists(
        st.sampled_from(
            [
                "word",
                "Two words.",
                "  ",
                "\n",
                "\r\n",
                "\n\n",
                ". ",
                "é",
                "漢字",
                "。",
                "[SEP]",
                "x" * 130,
                "- item",
                "| a | b |",
                "👨\u200d👩\u200d👧\u200d👦",
                "\u200d",
                "\t",
                "1.5",
                "ส" * 40,
            ]
        ),
        max_size=250,
    ).map("".join),
)


@settings(deadline=None, max_examples=150)
@example("002:0:0102::0:0000000000:" + "0" * 126 + ":ITEM0:0 0 0", 8, 1)
@given(texts, st.integers(8, 90), st.integers(0, 45))
def test_chunks_of_any_text(text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, size // 2)
    chunks = chunk_text(text, ChunkSettings(size, overlap), MINILM)
    check(text, size, overlap, chunks)


@settings(deadline=None, max_examples=150)
@given(texts, st.integers(8, 90))
def test_without_overlap_chunks_rebuild_the_text(text: str, size: int) -> None:
    chunks = chunk_text(text, ChunkSettings(size), MINILM)
    if text.strip():
        assert "".join(chunk.text for chunk in chunks) == text


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("size", [16, 64, 254])
def test_no_script_makes_a_giant_chunk(name: str, size: int) -> None:
    unit = SCRIPTS[name]
    text = "Start. " + unit * (5000 // len(unit)) + " End."
    chunks = chunk_text(text, ChunkSettings(size), MINILM)
    check(text, size, 0, chunks)
    assert max(len(chunk.text) for chunk in chunks) <= MAX_CHARS
    for chunk in chunks:
        first = chunk.text[0]
        assert not regex.match(r"[\p{M}\u200d\ufe0f\U0001F3FB-\U0001F3FF]", first), chunk


@pytest.mark.parametrize("name", ["chinese", "japanese", "hindi", "arabic", "korean"])
def test_chunks_end_after_sentence_marks_in_any_script(name: str) -> None:
    text = SCRIPTS[name] * 40
    chunks = chunk_text(text, ChunkSettings(64), MINILM)
    assert all(chunk.text.rstrip()[-1] in "。！？।.؟" for chunk in chunks)


def test_flags_are_not_cut_in_half() -> None:
    text = "🇩🇪🇫🇷🇯🇵" * 300
    chunks = chunk_text(text, ChunkSettings(16), MINILM)
    assert all(len(chunk.text) % 2 == 0 for chunk in chunks)


def test_a_paragraph_of_sentences_at_sentence_size() -> None:
    text = (
        "All API requests require authentication. Generate a bearer token from your dashboard "
        "under Settings > API Keys. Use the bearer token in the Authorization header. Tokens "
        "expire after 90 days and should be rotated regularly."
    )
    chunks = chunk_text(text, ChunkSettings(16), MINILM)
    assert [chunk.text.strip().split()[0] for chunk in chunks] == [
        "All",
        "Generate",
        "Use",
        "Tokens",
    ]


def test_paragraphs_come_before_sentences_and_sentences_before_words() -> None:
    paragraph = "The pump runs at night. It stops in the morning."
    text = f"{paragraph}\n\n{paragraph}\n\n{paragraph}\n\n{paragraph}"
    chunks = chunk_text(text, ChunkSettings(16), MINILM)
    assert [chunk.text.strip() for chunk in chunks] == [paragraph] * 4
    chunks = chunk_text(paragraph.replace("\n", " "), ChunkSettings(8), MINILM)
    assert [chunk.text for chunk in chunks] == [
        "The pump runs at night. ",
        "It stops in the morning.",
    ]
    words = "one two three four five six seven eight nine ten eleven twelve"
    assert all(
        c.text.split()[-1] in words.split() for c in chunk_text(words, ChunkSettings(8), MINILM)
    )


@pytest.mark.parametrize("abbreviation", ["Dr.", "e.g.", "No.", "J."])
def test_an_abbreviation_ends_no_sentence(abbreviation: str) -> None:
    text = (
        f"Ask them about it first. Then call {abbreviation} Smith in the office about the new pump."
    )
    chunks = chunk_text(text, ChunkSettings(14), MINILM)
    assert not any(chunk.text.rstrip().endswith(abbreviation) for chunk in chunks)


def test_repeated_text_keeps_its_own_offsets() -> None:
    paragraph = "Ha. Ha. Ha. The same paragraph again.\n\n"
    text = paragraph * 40
    chunks = chunk_text(text, ChunkSettings(12), MINILM)
    check(text, 12, 0, chunks)
    assert len({chunk.start for chunk in chunks}) == len(chunks)


def test_overlap_repeats_whole_words_and_makes_no_tail() -> None:
    text = " ".join(f"Sentence number {i} is here." for i in range(60))
    chunks = chunk_text(text, ChunkSettings(32, 12), MINILM)
    check(text, 32, 12, chunks)
    overlaps = [text[b.start : a.end] for a, b in itertools.pairwise(chunks)]
    assert any(overlaps)
    assert all(count <= 12 for count in MINILM.count(overlaps))
    assert all(chunk.text[0] == "S" for chunk in chunks)


def test_section_and_page_of_a_chunk() -> None:
    text = "# A\n\nFirst part.\n\n## B\n\nSecond part.\n\n# C\n\nThird part."
    headings = [Heading(0, 1, "A"), Heading(18, 2, "B"), Heading(38, 1, "C")]
    assert [text[h.start] for h in headings] == ["#"] * 3
    chunks = chunk_text(text, ChunkSettings(8), MINILM, headings=headings, page_starts=[0, 38])
    assert [(c.section, c.page) for c in chunks] == [("A", 1), ("A > B", 1), ("C", 2)]


def test_a_heading_stays_with_what_follows() -> None:
    text = "Intro text that fills the first chunk well.\n\n## Setup\n\nPlug it in and wait."
    start = text.index("##")
    chunks = chunk_text(text, ChunkSettings(16), MINILM, headings=[Heading(start, 2, "Setup")])
    assert [chunk.text.strip() for chunk in chunks] == [
        "Intro text that fills the first chunk well.",
        "## Setup\n\nPlug it in and wait.",
    ]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_newlines_do_not_move_borders(newline: str) -> None:
    text = (
        "One paragraph with a few words.\n\nAnother one that follows it.\n- an item\n- more\n" * 5
    )
    plain = chunk_text(text, ChunkSettings(16), MINILM)
    other = chunk_text(text.replace("\n", newline), ChunkSettings(16), MINILM)
    assert [c.text for c in plain] == [c.text.replace(newline, "\n") for c in other]


def test_text_that_spells_special_tokens_is_text() -> None:
    text = "The marks [SEP] and <|endoftext|> and [CLS] are plain words here. " * 20
    check(text, 16, 0, chunk_text(text, ChunkSettings(16), MINILM))


@pytest.mark.parametrize("text", ["", "   ", "\n\n\t", "\u00a0"])
def test_blank_text_has_no_chunks(text: str) -> None:
    assert chunk_text(text, ChunkSettings(), MINILM) == []


def test_a_run_of_white_space_is_no_chunk() -> None:
    text = "Before." + "\n" * 9000 + "After."
    chunks = chunk_text(text, ChunkSettings(), MINILM)
    check(text, 64, 0, chunks)
    assert "".join(chunk.text.strip() for chunk in chunks) == "Before.After."


@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 129, 640, 641])
def test_lengths_around_the_limit_lose_nothing(length: int) -> None:
    text = " ".join(["word"] * length)
    chunks = chunk_text(text, ChunkSettings(64), MINILM)
    assert "".join(chunk.text for chunk in chunks) == text
    assert len(chunks) == -(-length // 64)


@pytest.mark.parametrize(
    ("tokens", "overlap"), [(0, 0), (7, 0), (-1, 0), (255, 0), (64, -1), (64, 33), (100, 100)]
)
def test_settings_out_of_range_are_refused_with_the_range(tokens: int, overlap: int) -> None:
    with pytest.raises(SettingsError, match="Choose"):
        validate(ChunkSettings(tokens, overlap), MINILM.max_tokens)


@pytest.mark.parametrize(
    "settings", [ChunkSettings(100, 100), ChunkSettings(0), ChunkSettings(64, -1)]
)
def test_chunking_never_loops_on_bad_settings(settings: ChunkSettings) -> None:
    with pytest.raises(ValueError, match="out of range"):
        chunk_text("some text", settings, MINILM)


def test_the_last_words_of_a_full_chunk_are_embedded() -> None:
    text = " ".join(["plain filler words"] * 80) + " the secret colour is vermilion"
    chunks = chunk_text(text, ChunkSettings(MINILM.max_tokens), MINILM)
    assert all(chunk.tokens + 2 <= 256 for chunk in chunks)
    cut = chunks[-1].text.replace(" the secret colour is vermilion", "")
    whole, without = MINILM.embed_documents([chunks[-1].text, cut])
    assert float(whole @ without) < 0.999


@pytest.mark.parametrize("name", ["thai", "chinese without marks", "family", "base64", "accents"])
@pytest.mark.parametrize(("size", "overlap"), [(64, 32), (64, 8), (16, 4), (8, 4)])
def test_overlap_is_honoured_where_there_are_no_spaces(name: str, size: int, overlap: int) -> None:
    text = SCRIPTS[name] * (2000 // len(SCRIPTS[name]))
    chunks = chunk_text(text, ChunkSettings(size, overlap), MINILM)
    check(text, size, overlap, chunks)
    assert len(chunks) > 3
    shared = [before.end - after.start for before, after in itertools.pairwise(chunks)]
    assert sum(count > 0 for count in shared) > len(shared) / 2


@settings(deadline=None)
@given(texts)
def test_a_text_costs_at_least_its_tokens(text: str) -> None:
    assert measure(text, MINILM) >= MINILM.count([text])[0]


def test_ordinary_text_costs_its_tokens_and_hidden_bulk_costs_more() -> None:
    plain = SCRIPTS["chinese"] + "Tokens expire after 90 days and should be rotated regularly."
    assert measure(plain, MINILM) == MINILM.count([plain])[0]
    for bulk in (SCRIPTS["thai"].replace(" ", "") * 100, "0123456789abcdef" * 300, " " * 5000):
        assert MINILM.count([bulk])[0] <= 1
        assert measure(bulk, MINILM) > len(bulk) / 20
