"""From bytes to characters."""

from __future__ import annotations

import random

import pytest

from rag.adapters.readers.characters import NotText, clean, decode, removal_warnings

SAMPLES = {
    "cp1252": "Le café était fermé à midi, mais l’hôtel reste ouvert jusqu’à l’été.",
    "cp1251": "Программа читает файлы и отвечает на вопросы. Токен действует девяносто дней.",
    "koi8-r": "Программа читает файлы и отвечает на вопросы. Токен действует девяносто дней.",
    "cp1250": "Zażółć gęślą jaźń. Wczoraj pojechaliśmy nad morze, żeby odpocząć.",
    "cp1253": "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί. Καλημέρα σας.",
    "cp1254": "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul büyük ve güzel bir şehir, çok "
    "sıcak.",
    "cp1255": "שלום עולם, זהו טקסט בעברית שנכתב כדי לבדוק את הקידוד של הקובץ הזה.",
    "cp1256": "مرحبا بالعالم، هذا نص عربي مكتوب لاختبار ترميز الملف وقراءة المستندات.",
    "cp932": "これは日本語のテキストです。文字コードの判定を確認するための文章です。",
    "cp949": "안녕하세요. 이것은 한국어 텍스트입니다. 인코딩을 확인하기 위한 문장입니다.",
    "gb18030": "这是一个用于检测文件编码的中文文本。我们需要确认系统能够正确读取文档内容。",
    "big5": "這是一個用於檢測檔案編碼的繁體中文文本。我們需要確認系統能夠正確讀取內容。",
    "cp874": "สวัสดีชาวโลก นี่คือข้อความภาษาไทยสำหรับทดสอบการเข้ารหัสไฟล์",
}


@pytest.mark.parametrize("encoding", SAMPLES)
def test_encodings_are_guessed_and_the_guess_is_stated(encoding: str) -> None:
    text = SAMPLES[encoding] + "\r\n"
    found = decode(text.encode(encoding))
    assert found.text == text
    assert len(found.warnings) == 1
    assert "a guess" in found.warnings[0]


@pytest.mark.parametrize(
    "text",
    ["Café fermé", "It’s a “quoted” phrase – with dashes — and a price of €5.", "Räksmörgås på ån"],
)
def test_short_western_text(text: str) -> None:
    assert decode(text.encode("cp1252")).text == text


def test_the_whole_file_decides_not_its_beginning() -> None:
    text = "id,name\n" + "123,abc\n" * 1000 + "9,日本語のテキスト\n"
    assert decode(text.encode("cp932")).text == text
    assert decode(text.encode()).text == text
    assert decode(text.encode()).warnings == ()


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"],
)
def test_unicode_with_and_without_a_mark(encoding: str) -> None:
    text = "Name;Age\r\nZoë;31\n" * 4
    found = decode(text.encode(encoding))
    assert found.text == text
    assert found.warnings == ()


def test_a_bad_byte_does_not_make_utf8_another_encoding() -> None:
    data = bytearray(("Zażółć gęślą jaźń. " * 20).encode())
    data[3] = 0xFF
    found = decode(bytes(data))
    assert found.text.startswith("Za\ufffd")
    assert found.text.endswith("Zażółć gęślą jaźń. ")
    assert "not valid UTF-8" in found.warnings[0]


@pytest.mark.parametrize("declared", ["windows-1251", "CP1251", " Windows-1251 ", "x-cp1251"])
def test_a_declared_encoding_is_honoured(declared: str) -> None:
    found = decode("Да".encode("cp1251"), declared)
    assert found.text == "Да"
    assert found.warnings == ()


@pytest.mark.parametrize("declared", ["", "no-such", "base64", "unicode_escape", "utf-8", "\0"])
def test_a_declaration_that_cannot_be_is_not(declared: str) -> None:
    text = SAMPLES["cp1251"]
    assert decode(text.encode("cp1251"), declared).text == text
    assert decode(b"plain \\u0041", declared).text == "plain \\u0041"


def test_utf8_is_recognised_under_a_false_declaration() -> None:
    assert decode("Да".encode(), "windows-1251").text == "Да"


def test_latin_1_means_windows_1252() -> None:
    assert decode("5 €".encode("cp1252"), "ISO-8859-1").text == "5 €"


def test_binary_data_is_no_text() -> None:
    rng = random.Random(7)
    for size in (200, 5000):
        with pytest.raises(NotText):
            decode(rng.randbytes(size))
    with pytest.raises(NotText):
        decode(bytes(range(256)))


def test_what_cannot_be_stored_is_removed_and_counted() -> None:
    assert clean("A\0B tail") == ("AB tail", 1)
    assert clean("bad \ud83d x\udc00\0") == ("bad  x", 3)
    assert clean("good \U0001f600") == ("good \U0001f600", 0)
    assert removal_warnings(0) == ()
    assert removal_warnings(1)[0].startswith("1 character that")
    assert removal_warnings(3000)[0].startswith("3,000 characters that")


def test_zero_bytes_and_lone_surrogates_are_still_text() -> None:
    assert decode(b"A\0B tail").text == "A\0B tail"
    assert decode("bad \ud83d x".encode("utf-8", "surrogatepass")).text == "bad \ud83d x"
    assert decode("bad \ud83d x".encode("utf-16", "surrogatepass")).text == "bad \ud83d x"
