"""Files of every format, well-formed and not, through the reader and its processes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import docx
import psutil
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from fpdf import FPDF
from fpdf.enums import EncryptionMethod
from PIL import Image

from rag.adapters.readers import FileReader, accepted_extensions, accepted_formats
from rag.domain import ExtractedText
from rag.errors import (
    DocumentError,
    DocumentTooLarge,
    NoText,
    UnreadableDocument,
    UnsupportedFormat,
)

FILES = Path(__file__).parent / "files"
MIB = 1 << 20


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    found = FileReader(seconds=60, memory_mb=1024, max_bytes=20 * MIB)
    yield found
    found.close()


# PDF

Draw = Callable[[FPDF], None]


def pdf(*pages: Draw | None, user_password: str | None = None) -> bytes:
    document = FPDF()
    for draw in pages:
        document.add_page()
        if draw is not None:
            draw(document)
    if user_password is not None:
        document.set_encryption("owner", user_password, EncryptionMethod.RC4)
    return bytes(document.output())


def words(text: str, heading: str = "") -> Draw:
    def draw(document: FPDF) -> None:
        if heading:
            document.set_font("helvetica", "B", 24)
            document.cell(0, 14, heading, new_x="LMARGIN", new_y="NEXT")
        document.set_font("helvetica", size=12)
        document.multi_cell(0, 6, text)

    return draw


def rows(document: FPDF) -> None:
    document.set_font("helvetica", size=12)
    document.cell(0, 6, "Before the table.", new_x="LMARGIN", new_y="NEXT")
    with document.table() as table:
        for row in (("Name", "Age", "City"), ("Ann", "31", "Oslo"), ("Bob", "42", "Rome")):
            table.row(row)
    document.ln(5)
    document.cell(0, 6, "After the table.")


def picture(document: FPDF) -> None:
    document.image(Image.new("RGB", (200, 200), "gray"))


def pages_of(found: ExtractedText) -> list[str]:
    return [found.text[a:b] for a, b in pairwise([*found.page_starts, len(found.text)])]


def test_pdf_pages_hold_their_own_words(reader: FileReader) -> None:
    unique = ["quokka café", "walrus déjà", "heron über", "ocelot"]
    found = reader.read("a.pdf", pdf(*(words(f"The {word} lives here.") for word in unique)))
    assert found.media_type == "application/pdf"
    assert found.page_starts[0] == 0
    assert [page.strip() for page in pages_of(found)] == [f"The {w} lives here." for w in unique]
    assert found.warnings == ()


def test_pdf_headings_stand_where_they_say(reader: FileReader) -> None:
    body = "It says § something plain and goes on for a while about it. " * 12
    found = reader.read("a.pdf", pdf(words(body, "Introduction"), words(body, "Café rules")))
    assert [heading.title for heading in found.headings] == ["Introduction", "Café rules"]
    for heading, page in zip(found.headings, found.page_starts, strict=True):
        assert heading.start == page
        assert found.text[heading.start :].startswith("#" * heading.level + f" {heading.title}\n")


def test_pdf_words_are_not_marked_up_or_escaped(reader: FileReader) -> None:
    line = "5*4*3 snake_case_name [1] C:\\dir <b> & $5 # no | bar 100% `tick` ~x~"
    assert reader.read("a.pdf", pdf(words(line))).text == line


def test_pdf_tables_are_rows_in_reading_order(reader: FileReader) -> None:
    assert reader.read("a.pdf", pdf(rows)).text == (
        "Before the table.\n\n"
        "| Name | Age | City |\n| --- | --- | --- |\n| Ann | 31 | Oslo |\n| Bob | 42 | Rome |\n\n"
        "After the table."
    )


def test_pdf_pages_without_text_are_named(reader: FileReader) -> None:
    one = words("text")
    found = reader.read("a.pdf", pdf(one, None, one, picture, None, picture, one))
    assert found.warnings == ("Pages 2, 4-6 of 7 have no text; they are blank or scans.",)
    assert [page.strip() for page in pages_of(found)] == ["text", "", "text", "", "", "", "text"]
    assert reader.read("a.pdf", pdf(one, None)).warnings == (
        "Page 2 of 2 has no text; it is blank or a scan.",
    )


@pytest.mark.parametrize("page", [None, picture])
def test_pdf_without_text_is_refused_as_a_scan(reader: FileReader, page: Draw | None) -> None:
    with pytest.raises(NoText, match=r"scan\.pdf has no text on its 3 pages: .*a scan.*OCR"):
        reader.read("scan.pdf", pdf(page, page, page))


def test_damaged_pdfs_are_read_or_refused_in_a_sentence(reader: FileReader) -> None:
    good = pdf(*(words(f"unique{n} " + "lorem ipsum " * 40, f"Part {n}") for n in range(3)))
    cut = [good[: len(good) * n // 20] for n in range(1, 20)]
    overwritten = [
        good[:at] + b"\xff\x00garbage\x1b"[:10] * 20 + good[at + 200 :]
        for at in range(40, len(good) - 200, len(good) // 15)
    ]
    texts: list[str] = []
    refusals: list[str] = []
    for data in [b"%PDF-1.7", b"%PDF-1.7\n%%EOF", *cut, *overwritten]:
        try:
            texts.append(reader.read("bad.pdf", data).text)
        except DocumentError as error:
            refusals.append(str(error))
    assert all("unique" in text for text in texts)
    assert len(refusals) > 10
    assert all(re.fullmatch(r"bad\.pdf (is|has) [^\n:]+(: .+)?\.", text) for text in refusals)
    with pytest.raises(UnreadableDocument, match=r"is damaged .* save or print it"):
        reader.read("bad.pdf", b"%PDF-1.7")


def test_pdf_protection(reader: FileReader) -> None:
    assert reader.read("a.pdf", pdf(words("sesame"), user_password="")).text == "sesame"
    aes = (FILES / "aes-256-empty-password.pdf").read_bytes()
    assert reader.read("a.pdf", aes).text == "sesame opens"
    for locked in (
        pdf(words("sesame"), user_password="secret"),
        (FILES / "aes-256-password.pdf").read_bytes(),
    ):
        with pytest.raises(UnreadableDocument, match="protected with a password"):
            reader.read("a.pdf", locked)


# Word

TEXT_BOX = (
    "<w:r {ns}><w:pict xmlns:v='urn:schemas-microsoft-com:vml'><v:shape><v:textbox>"
    "<w:txbxContent><w:p><w:r><w:t>OTTER</w:t></w:r></w:p></w:txbxContent>"
    "</v:textbox></v:shape></w:pict></w:r>"
)
TRACKED = (
    "<w:ins {ns} w:id='1' w:author='a'><w:r><w:t>INSERTED</w:t></w:r></w:ins>",
    "<w:del {ns} w:id='2' w:author='a'><w:r><w:delText>DELETED</w:delText></w:r></w:del>",
)


def xml(template: str) -> object:
    return parse_xml(template.format(ns=nsdecls("w")))


def saved(document: docx.document.Document) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def replaced(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return a ZIP file with one member changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", 8) as new:
        for member in old.namelist():
            content = old.read(member)
            new.writestr(member, change(content) if member == name else content)
    return buffer.getvalue()


def test_docx_holds_everything_in_order(reader: FileReader) -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "HERON"
    document.sections[0].footer.paragraphs[0].text = "FALCON"
    document.add_heading("Größe", 1)
    paragraph = document.add_paragraph("Plain ")
    paragraph.add_run("bo").bold = True
    paragraph.add_run("ld, 5*4*3 and snake_case_name, # no, C:\\dir <b> & 1|2")
    document.add_paragraph("# not a heading")
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Name", "a|b", "ZEBRA", "two\nlines"), strict=True):
        cell.text = text
    document.add_heading("Second", 2)
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet")
    document.add_paragraph("first", style="List Number")
    document.add_paragraph("box ")._p.append(xml(TEXT_BOX))
    changed = document.add_paragraph("tracked ")
    for change in TRACKED:
        changed._p.append(xml(change))
    broken = document.add_paragraph("line one")
    broken.runs[0].add_break()
    broken.add_run("line two")
    found = reader.read("a.docx", saved(document))
    assert found.media_type.endswith("wordprocessingml.document")
    assert found.text == (
        "HERON\n\n# Größe\n\nPlain bold, 5*4*3 and snake_case_name, # no, C:\\dir <b> & 1|2\n\n"
        "# not a heading\n\n"
        "| Name | a\\|b |\n| --- | --- |\n| ZEBRA | two lines |\n\n"
        "## Second\n\n- one\n- two\n\n1. first\n\nOTTER\n\nbox \n\ntracked INSERTED\n\n"
        "line one\nline two\n\nFALCON"
    )
    assert [(h.level, h.title) for h in found.headings] == [(1, "Größe"), (2, "Second")]
    assert [found.text[h.start :].split("\n")[0] for h in found.headings] == [
        "# Größe",
        "## Second",
    ]
    assert found.page_starts == ()


def test_docx_pages_are_known_from_the_breaks_in_it(reader: FileReader) -> None:
    document = docx.Document()
    document.add_paragraph("éins")
    document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    document.add_paragraph("zwei")
    rendered = document.add_paragraph("drei ")
    rendered._p.append(xml("<w:r {ns}><w:lastRenderedPageBreak/><w:t>more</w:t></w:r>"))
    document.add_paragraph("vier")
    found = reader.read("a.docx", saved(document))
    assert [page.split() for page in pages_of(found)] == [
        ["éins"],
        ["zwei", "drei", "more"],
        ["vier"],
    ]


def test_docx_notes_and_long_tables(reader: FileReader) -> None:
    document = docx.Document()
    document.add_paragraph("Claim")._p.append(
        xml("<w:r {ns}><w:footnoteReference w:id='2'/></w:r>")
    )
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    body = "".join(
        f"<w:tr>{cell.format(f'r{n}')}{cell.format(f'v{n}')}</w:tr>" for n in range(3000)
    )
    document.element.body.insert(0, xml("<w:tbl {ns}><w:tblPr/>" + body + "</w:tbl>"))
    data = saved(document)
    notes = (
        f"<w:footnotes {nsdecls('w')}><w:footnote w:id='2'><w:p><w:r><w:t>FOOTNOTE</w:t></w:r>"
        "</w:p></w:footnote></w:footnotes>"
    )
    buffer = io.BytesIO(
        replaced(
            data,
            "word/_rels/document.xml.rels",
            lambda old: old.replace(
                b"</Relationships>",
                b"<Relationship Id='rId99' Target='footnotes.xml' Type='http://schemas."
                b"openxmlformats.org/officeDocument/2006/relationships/footnotes'/>"
                b"</Relationships>",
            ),
        )
    )
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("word/footnotes.xml", notes)
    text = reader.read("a.docx", buffer.getvalue()).text
    assert "| r2999 | v2999 |" in text
    assert text.endswith("Claim[^2]\n\n[^2]: FOOTNOTE")


def test_damaged_docx_files_are_refused_in_a_sentence(reader: FileReader) -> None:
    document = docx.Document()
    document.add_paragraph("text")
    good = saved(document)
    broken = replaced(good, "word/document.xml", lambda old: old[: len(old) // 2])
    for data in [good[: len(good) * n // 10] for n in range(1, 10)] + [broken]:
        with pytest.raises(UnreadableDocument, match=r"^a\.docx is damaged.*\.$"):
            reader.read("a.docx", data)
    with pytest.raises(NoText, match="has no text"):
        reader.read("a.docx", saved(docx.Document()))
    bomb = replaced(good, "word/document.xml", lambda old: old + b" " * (300 * MIB))
    with pytest.raises(DocumentTooLarge, match="too large when it is unpacked"):
        reader.read("a.docx", bomb)


# HTML


def html(reader: FileReader, page: str, encoding: str = "utf-8") -> str:
    return reader.read("page.html", page.encode(encoding)).text


def test_html_words_are_separated_at_blocks_and_nowhere_else(reader: FileReader) -> None:
    page = "<p>Alpha</p><p>Beta</p><td>1</td><td>2</td><div>one<br>two</div><b>bo</b>ld <i>x</i>y"
    assert html(reader, page) == "Alpha\n\nBeta\n\n1 2\n\none\ntwo\n\nbold xy"
    assert html(reader, "<select><option>a<option>b</select><button>c</button>") == "a b c"


def test_html_machinery_is_left_out(reader: FileReader) -> None:
    page = (
        "<!doctype html><head><style>.SECRET{}</style><script>SECRET=1</script></head><p>seen"
        "<svg><style>.SECRET{}</style><text>SECRET</text></svg><noscript>SECRET</noscript>"
        f"<img alt=picture src='data:image/png;base64,{'SECRET' * 50_000}'><!-- SECRET -->"
        "<template>SECRET</template><a href='javascript:SECRET'>link</a><iframe>SECRET</iframe>"
    )
    assert html(reader, page) == "seen picture link"


def test_html_structure(reader: FileReader) -> None:
    page = """<title>Site</title><h1>Top &amp; <em>more</em></h1><ol start=3><li>three<li>four
      <ul><li>sub</ul></ol><table><caption>Ages</caption><tr><th>Name<th colspan=2>Age|x
      <tr><td rowspan=2>Ann<td>3<br>1<td>z<tr><td>b<td>c</table>
      <pre>  # code
&lt;b&gt;</pre><blockquote>quoted</blockquote><h2>Under</h2>after"""
    found = reader.read("page.html", page.encode())
    assert found.text == (
        "Site\n\n# Top & more\n\n3. three\n4. four\n  - sub\n\nAges\n\n"
        "| Name | Age\\|x |  |\n| --- | --- | --- |\n| Ann | 3 1 | z |\n|  | b | c |\n\n"
        "```\n  # code\n<b>\n```\n\n> quoted\n\n## Under\n\nafter"
    )
    assert [(h.level, h.title) for h in found.headings] == [(1, "Top & more"), (2, "Under")]
    assert found.media_type == "text/html"


def test_html_title_is_a_heading_where_there_is_none(reader: FileReader) -> None:
    assert html(reader, "<title>Name</title><p>x") == "# Name\n\nx"
    assert html(reader, "<title>Same</title><h1>same</h1>x") == "# same\n\nx"


def test_html_layout_tables_are_read_as_blocks(reader: FileReader) -> None:
    page = "<table><tr><td><h2>Menu</h2>a</td><td><table><tr><td>1<td>2</table></td></table>end"
    assert html(reader, page) == "## Menu\n\na\n\n| 1 | 2 |\n| --- | --- |\n\nend"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<![bad x<p>seen", "seen"),
        ("<![CDATA[a <b> c]]>", "a <b> c"),
        ("a<![if !x]>b<![endif]>c", "abc"),
        ("x<svg><p>unclosed", "x\n\nunclosed"),
        ("x<noscript><p>unclosed", "x\n\nunclosed"),
        ("</td></table></ul></p>x", "x"),
        ("<table><tr><td><pre>code</td><td>t</table><p>end", "```\ncode\n```\n\nt\n\nend"),
        ("&nbsp;<p>&#0;&#xD800;x&unknown;", "\ufffd\ufffdx&unknown;"),
    ],
)
def test_html_that_is_not_well_formed(reader: FileReader, page: str, text: str) -> None:
    assert html(reader, page) == text


def test_html_script_without_end(reader: FileReader) -> None:
    found = reader.read("a.html", b"<p>seen<script>never closed")
    assert found.text == "seen"
    assert found.warnings == ("A <script> element has no end; what follows it was not read.",)


RUSSIAN = "Привет, мир! Программа читает файлы и отвечает на вопросы."


@pytest.mark.parametrize(
    "head",
    [
        "<meta charset=windows-1251>",
        '<meta http-equiv="Content-Type" content="text/html; charset=Windows-1251">',
        "<!-- none declared -->",
        "<meta charset=utf-8>",
    ],
)
def test_html_encodings(reader: FileReader, head: str) -> None:
    page = f"<html><head>{head}</head><body><p>{RUSSIAN}</p></body></html>"
    for encoding in ("cp1251", "utf-8", "utf-16"):
        assert html(reader, page, encoding) == RUSSIAN
    western = page.replace(RUSSIAN, "Mädchen aßen süße Äpfel – für 5 €")
    if "1251" not in head:
        assert html(reader, western, "cp1252") == "Mädchen aßen süße Äpfel – für 5 €"


def test_a_declared_encoding_is_no_guess(reader: FileReader) -> None:
    declared = "<meta charset=windows-1251><p>Да".encode("cp1251")
    assert reader.read("a.html", declared).warnings == ()
    assert reader.read("a.html", declared).text == "Да"
    guessed = reader.read("a.html", f"<p>{RUSSIAN}".encode("cp1251"))
    assert "a guess" in guessed.warnings[0]
    xhtml = "<?xml version='1.0' encoding='windows-1251'?><html><p>Да</p></html>".encode("cp1251")
    assert reader.read("a.xhtml", xhtml).text == "Да"


# text and Markdown


def test_text_is_kept_exactly(reader: FileReader) -> None:
    text = "  # no heading\r\n\r\nZoë\n\ttab \rlone\u2028\u00a0end  \n\n"
    found = reader.read("a.txt", text.encode())
    assert found == ExtractedText(text=text, media_type="text/plain")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"])
def test_text_encodings(reader: FileReader, encoding: str) -> None:
    text = "Name;Zoë\r\nDas Mädchen aß süße Äpfel\r\n"
    found = reader.read("a.txt", text.encode(encoding))
    assert found.text == text
    assert ("a guess" in "".join(found.warnings)) == (encoding == "cp1252")


def test_what_cannot_be_stored_is_left_out_with_a_warning(reader: FileReader) -> None:
    assert reader.read("a.txt", b"A\0B tail").text == "AB tail"
    found = reader.read("a.md", "bad \ud83d x\0\0".encode("utf-8", "surrogatepass"))
    assert found.text == "bad  x"
    assert found.warnings[0].startswith("3 characters that cannot be stored")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_markdown_is_kept_exactly_and_its_headings_are_known(
    reader: FileReader, newline: str
) -> None:
    text = newline.join(
        ["---", "title: x", "---", "# Été", "", "```", "# no", "```", "", "Two", "===", "**b** \\*"]
    )
    found = reader.read("a.md", b"\xef\xbb\xbf" + text.encode())
    assert found.text == text
    assert found.media_type == "text/markdown"
    assert [(h.level, h.title) for h in found.headings] == [(1, "Été"), (1, "Two")]
    assert [found.text[h.start :].split(newline)[0] for h in found.headings] == ["# Été", "Two"]


def test_markdown_pictures_are_left_out_with_a_warning(reader: FileReader) -> None:
    data = f"# T\n\n![a](data:image/png;base64,{'QUJD' * 50_000}) after".encode()
    found = reader.read("a.md", data)
    assert found.text == "# T\n\n![a](data:image/png;base64,) after"
    assert found.warnings == ("1 picture written into the text left out.",)


# names, kinds and limits


def test_the_content_decides_and_case_does_not_matter(reader: FileReader) -> None:
    document = docx.Document()
    document.add_paragraph("word")
    for data, kind in (
        (pdf(words("word")), "application/pdf"),
        (b"\r\nmail header\r\n" + pdf(words("word")), "application/pdf"),
        (saved(document), "wordprocessingml.document"),
        (b"<!DOCTYPE html><p>word", "text/html"),
        (b"\xef\xbb\xbf <?xml version='1.0'?><!-- c --><HTML><p>word", "text/html"),
        ("<html><p>word".encode("utf-16"), "text/html"),
    ):
        for name in ("a.txt", "a.md", "a.PDF", "a.html", "a.xls", "a", ".pdf", "a.b/c"):
            found = reader.read(name, data)
            assert found.media_type.endswith(kind)
            assert found.text == "word"
    for name, kind in (
        ("a.MD", "text/markdown"),
        ("a.TxT", "text/plain"),
        ("a.HTM", "text/html"),
        ("a.unknown", "text/plain"),
        ("README", "text/plain"),
    ):
        assert reader.read(name, b"word").media_type == kind


def test_text_about_a_format_is_not_of_that_format(reader: FileReader) -> None:
    for name, data in (
        ("a.md", b"<div align=center><h1>Readme</h1></div>\n\n# Title"),
        ("a.md", b"<!-- badge -->\n# Title"),
        ("a.txt", b"A PDF starts with %PDF-1.7 and ends with %%EOF."),
        ("a.txt", b"<p>this is how to write a paragraph</p>"),
        ("a.txt", b"PK is how a ZIP file begins"),
    ):
        assert reader.read(name, data).text == data.decode()
    assert reader.read("a.xls", b"<table><tr><td>1<td>2</table>").media_type == "text/html"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "it is a PNG image"),
        (b"\x1f\x8b\x08" + b"\0" * 50, "it is a gzip archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "older Microsoft Office"),
        (b"{\\rtf1 text}", "it is a Rich Text document"),
        (bytes(range(256)) * 9, "can be read. Save"),
    ],
)
def test_unknown_kinds_are_refused_with_what_is_accepted(
    reader: FileReader, data: bytes, what: str
) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        reader.read("thing.txt", data)
    assert str(caught.value).startswith("thing.txt is not a kind of file that can be read")
    assert what in str(caught.value)
    assert accepted_formats() in str(caught.value)


@pytest.mark.parametrize(
    ("member", "what"), [("xl/workbook.xml", "an Excel workbook"), ("a.txt", "a ZIP archive")]
)
def test_other_zip_files_are_named(reader: FileReader, member: str, what: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, "x")
    with pytest.raises(UnsupportedFormat, match=what):
        reader.read("a.docx", buffer.getvalue())


def test_a_protected_word_document_is_named_as_such(reader: FileReader) -> None:
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500
    with pytest.raises(UnreadableDocument, match="protected with a password"):
        reader.read("a.docx", ole + "EncryptedPackage".encode("utf-16-le") + b"\0" * 500)


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.html", "a.md", "a.txt", "a"])
def test_empty_files(reader: FileReader, name: str) -> None:
    with pytest.raises(NoText, match=rf"^{name} is empty\. Add"):
        reader.read(name, b"")
    for blank in (b" \r\n\t\n", b"\xef\xbb\xbf", b"\xff\xfe"):
        with pytest.raises(NoText, match=rf"^{name} has no text"):
            reader.read(name, blank)


def test_files_beyond_the_limit() -> None:
    small = FileReader(seconds=60, memory_mb=1024, max_bytes=1000)
    with pytest.raises(DocumentTooLarge, match=r"1,001 bytes, more than the 1,000 bytes accepted"):
        small.read("a.txt", b"x" * 1001)
    assert small.read("a.txt", b"x" * 1000).text == "x" * 1000
    small.close()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("漢" * 90 + ".txt", "漢" * 90 + ".txt"),
        ("a" * 5000 + ".txt", "a" * 5000 + ".txt"),
        ("../../etc/x.txt", "../../etc/x.txt"),
        ("**_$ `x` <b>.txt", "**_$ `x` <b>.txt"),
        ("two\nlines\t\0.txt", "two lines .txt"),
        ("\ud83d.txt", "?.txt"),
        ("اسم الملف.txt", "اسم الملف.txt"),
        ("", "The file"),
    ],
)
def test_names_are_shown_and_never_used(reader: FileReader, name: str, shown: str) -> None:
    assert reader.read(name, b"text").text == "text"
    with pytest.raises(UnsupportedFormat) as caught:
        reader.read(name, b"GIF89a")
    assert str(caught.value).startswith(f"{shown} is not a kind")
    str(caught.value).encode()


def test_long_lines_do_not_take_long(reader: FileReader) -> None:
    line = "x" * (5 * MIB)
    for name in ("a.txt", "a.md", "a.html"):
        assert reader.read(name, line.encode()).text == line


def test_accepted_extensions() -> None:
    accepted = accepted_extensions()
    assert {".pdf", ".docx", ".html", ".htm", ".md", ".txt"} <= set(accepted)
    assert len(set(accepted)) == len(accepted)
    assert all(extension == extension.lower() and extension[0] == "." for extension in accepted)


def test_the_same_file_gives_the_same_text_in_another_process(reader: FileReader) -> None:
    document = docx.Document()
    for text in ("One", "Two"):
        document.add_section().header.paragraphs[0].text = f"header {text}"
        document.add_heading(text, 1)
    files = {"a.docx": saved(document), "a.pdf": pdf(words("text", "Title"), rows)}
    other = FileReader(seconds=60, memory_mb=1024, max_bytes=MIB)
    for name, data in files.items():
        assert reader.read(name, data) == other.read(name, data) == other.read(name, data)
    other.close()


# processes

FAULTS = """
import os, sys, time
sys.path.append(sys.argv[1])
from rag.adapters.readers import child
from rag.domain import ExtractedText

def reader(source):
    order = source.data.decode()
    if order == "sleep":
        time.sleep(600)
    if order == "die":
        os._exit(3)
    if order == "raise":
        raise RuntimeError("a fault of the parser")
    if order == "hoard":
        hoard = [bytearray(1 << 26) for _ in range(1000)]
    if order == "print":
        print("noise", flush=True)
        os.system("echo noise")
    if order == "modules":
        order = " ".join(sorted(sys.modules))
    if order == "environment":
        order = " ".join(sorted(os.environ))
    if order == "lie":
        return ExtractedText("text", "text/plain", page_starts=(0, 99))
    if order == "die second":
        if reader.reads:
            os._exit(3)
        order = "read by a new process"
    reader.reads += 1
    return ExtractedText(f"{os.getpid()} {order}", "text/plain")

reader.reads = 0
child.main(int(sys.argv[2]), reader)
"""


@pytest.fixture
def faulty() -> Iterator[Callable[..., FileReader]]:
    """Make readers whose processes do what the file tells them."""
    made: list[FileReader] = []

    def make(seconds: float = 60, memory_mb: int = 256) -> FileReader:
        command = (sys.executable, "-P", "-c", FAULTS)
        made.append(
            FileReader(seconds=seconds, memory_mb=memory_mb, max_bytes=MIB, command=command)
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def process_of(reader: FileReader) -> int:
    return int(reader.read("a", b"pid").text.split()[0])


def gone(pid: int) -> bool:
    """Wait for a process to end."""
    try:
        psutil.Process(pid).wait(timeout=60)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_process_is_kept_for_further_files(faulty: Callable[..., FileReader]) -> None:
    reader = faulty()
    assert len({process_of(reader) for _ in range(5)}) == 1


def test_time_is_limited(faulty: Callable[..., FileReader]) -> None:
    reader = faulty(seconds=0.5)
    with pytest.raises(UnreadableDocument, match=r"^a\.pdf could not be read within 0\.5 seconds"):
        reader.read("a.pdf", b"sleep")
    assert reader.read("a", b"fine").text.endswith("fine")


@pytest.mark.parametrize("fault", [b"die", b"raise"])
def test_a_process_that_breaks_down_takes_one_file_with_it(
    faulty: Callable[..., FileReader], fault: bytes
) -> None:
    reader = faulty()
    for _ in range(2):
        before = process_of(reader)
        with pytest.raises(UnreadableDocument, match=r"^a\.pdf could not be read: .*damaged"):
            reader.read("a.pdf", fault)
        assert gone(before)
        assert process_of(reader) != before


def test_files_before_do_not_decide(faulty: Callable[..., FileReader]) -> None:
    reader = faulty()
    process_of(reader)
    assert reader.read("a", b"die second").text.endswith("read by a new process")


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no such limit")
def test_memory_is_limited(faulty: Callable[..., FileReader]) -> None:
    reader = faulty(memory_mb=256)
    for _ in range(2):
        with pytest.raises(UnreadableDocument, match=r"needs more than 256 MiB of memory"):
            reader.read("a.pdf", b"hoard")
        assert process_of(reader)


def test_killed_from_outside(faulty: Callable[..., FileReader]) -> None:
    reader = faulty()
    pid = process_of(reader)
    outcome: list[Exception] = []

    def read() -> None:
        try:
            reader.read("a.pdf", b"sleep")
        except DocumentError as error:
            outcome.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    # The process is replaced once, since it had read before; then the fault is the file's.
    killed: set[int] = set()
    for _ in range(2):
        deadline = time.monotonic() + 60
        while not (busy := set(sleeping(reader)) - killed) and time.monotonic() < deadline:
            time.sleep(0.01)
        killed |= busy
        for each in busy:
            os.kill(each, signal.SIGTERM)
    assert len(killed) == 2
    thread.join(60)
    assert [type(error) for error in outcome] == [UnreadableDocument]
    assert process_of(reader) != pid


def sleeping(reader: FileReader) -> list[int]:
    """Return the processes that are reading a file, as the reader itself knows them."""
    with reader._lock:
        return [child._process.pid for child in reader._busy if child.reads]


def test_noise_does_not_get_among_the_replies(faulty: Callable[..., FileReader]) -> None:
    assert faulty().read("a", b"print").text.endswith("print")


def test_replies_are_not_trusted(faulty: Callable[..., FileReader]) -> None:
    with pytest.raises(UnreadableDocument, match="no sensible answer"):
        faulty().read("a.pdf", b"lie")


GOOD_REPLY = {"media_type": "text/plain", "page_starts": [], "headings": [], "warnings": []}


@pytest.mark.parametrize(
    "reply",
    [
        b"not json",
        b"[" * 100_000,
        json.dumps({"error": "SystemExit", "message": "x"}).encode(),
        json.dumps({"media_type": "text/plain", "page_starts": "x"}).encode(),
        json.dumps({"media_type": "x", "page_starts": [], "headings": [], "warnings": []}).encode(),
        json.dumps(
            {
                "media_type": "text/plain",
                "page_starts": [],
                "headings": [[0, 9, "x"]],
                "warnings": [],
            }
        ).encode(),
    ],
)
def test_replies_that_make_no_sense(reply: bytes, tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    answer.write_bytes(reply)
    command = (
        sys.executable,
        "-P",
        "-c",
        "import pathlib, sys; sys.path.append(sys.argv[1]); out = sys.stdout.buffer\n"
        "from rag.adapters.readers.frames import read_frame, write_frame\n"
        "write_frame(out, b'ready'); read_frame(sys.stdin.buffer, 1 << 30)\n"
        f"write_frame(out, pathlib.Path({str(answer)!r}).read_bytes())\n"
        "write_frame(out, b'text'); sys.stdin.read()",
    )
    reader = FileReader(seconds=60, memory_mb=256, max_bytes=MIB, command=command)
    with pytest.raises(UnreadableDocument, match=r"^a\.pdf could not be read"):
        reader.read("a.pdf", b"x")
    reader.close()


def test_a_process_that_does_not_start() -> None:
    for command in (("/no/such/program",), (sys.executable, "-c", "raise SystemExit(1)")):
        reader = FileReader(seconds=60, memory_mb=256, max_bytes=MIB, command=command)
        with pytest.raises(UnreadableDocument, match="does not start"):
            reader.read("a.txt", b"x")
        reader.close()


def test_the_process_loads_nothing_heavy_and_sees_no_keys(
    faulty: Callable[..., FileReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("FENESTRA_API_KEY", "sk-secret")
    reader = faulty()
    modules = set(reader.read("a", b"modules").text.split())
    assert not modules & {"torch", "chromadb", "streamlit", "numpy", "openai", "sqlalchemy"}
    assert "KEY" not in reader.read("a", b"environment").text


def test_threads_read_at_once(faulty: Callable[..., FileReader]) -> None:
    reader = faulty()
    found: list[str] = []

    def read(number: int) -> None:
        found.extend(reader.read("a", f"{number}-{i}".encode()).text for i in range(20))

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    orders = sorted(text.split()[1] for text in found)
    assert orders == sorted(f"{n}-{i}" for n in range(4) for i in range(20))


def test_closing_ends_everything(faulty: Callable[..., FileReader]) -> None:
    reader = faulty()
    pid = process_of(reader)
    reader.close()
    reader.close()
    assert gone(pid)
    with pytest.raises(UnreadableDocument, match="reading was stopped"):
        reader.read("a.txt", b"x")


def test_closing_ends_a_file_that_is_being_read(faulty: Callable[..., FileReader]) -> None:
    reader = faulty()
    outcome: list[str] = []

    def read() -> None:
        try:
            reader.read("a.pdf", b"sleep")
        except UnreadableDocument as error:
            outcome.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    deadline = time.monotonic() + 60
    while not sleeping(reader) and time.monotonic() < deadline:
        time.sleep(0.01)
    reader.close()
    thread.join(60)
    assert len(outcome) == 1
    assert "reading was stopped" in outcome[0]


def test_a_forgotten_reader_leaves_no_process(faulty: Callable[..., FileReader]) -> None:
    command = (sys.executable, "-P", "-c", FAULTS)
    reader = FileReader(seconds=60, memory_mb=256, max_bytes=MIB, command=command)
    pid = process_of(reader)
    del reader
    assert gone(pid)


def test_no_process_outlives_the_application(tmp_path: Path) -> None:
    """The application is killed while one process is idle and another in the middle of a file."""
    script = tmp_path / "application.py"
    script.write_text(
        "import sys, threading\n"
        "from rag.adapters.readers import FileReader\n"
        f"FAULTS = {FAULTS!r}\n"
        "reader = FileReader(seconds=600, memory_mb=256, max_bytes=1000,\n"
        "                    command=(sys.executable, '-P', '-c', FAULTS))\n"
        "print(reader.read('a', b'pid').text.split()[0], flush=True)\n"
        "reader._idle, idle = [], reader._idle\n"
        "threading.Thread(target=reader.read, args=('a', b'sleep')).start()\n"
        "while not any(child.reads for child in list(reader._busy)): pass\n"
        "print(next(iter(reader._busy))._process.pid, flush=True)\n"
        "threading.Event().wait()\n"
    )
    application = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert application.stdout is not None
    children = [int(application.stdout.readline()) for _ in range(2)]
    application.kill()
    application.wait()
    application.stdout.close()
    assert len(set(children)) == 2
    assert all(gone(pid) for pid in children)
