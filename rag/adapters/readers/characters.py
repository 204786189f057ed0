"""From bytes to characters: which encoding a text file is in, and what cannot be kept.

UTF-8 is tried first, over the whole file, since no other encoding passes for it. What is not
UTF-8 is guessed by charset-normalizer from every line that holds a non-ASCII byte, wherever in
the file it stands, and a guess is always stated.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from dataclasses import dataclass

# In order of preference where several fit equally well. Fewer candidates make better guesses.
_ENCODINGS = {
    "cp1252": "Windows-1252 (Western European)",
    "cp1251": "Windows-1251 (Cyrillic)",
    "cp1250": "Windows-1250 (Central European)",
    "cp932": "Shift-JIS (Japanese)",
    "gb18030": "GB18030 (Chinese)",
    "cp949": "EUC-KR (Korean)",
    "big5": "Big5 (Chinese)",
    "euc_jp": "EUC-JP (Japanese)",
    "koi8-r": "KOI8-R (Cyrillic)",
    "koi8-u": "KOI8-U (Cyrillic)",
    "cp1253": "Windows-1253 (Greek)",
    "cp1254": "Windows-1254 (Turkish)",
    "cp1255": "Windows-1255 (Hebrew)",
    "cp1256": "Windows-1256 (Arabic)",
    "cp1257": "Windows-1257 (Baltic)",
    "cp874": "Windows-874 (Thai)",
    "iso8859-2": "ISO 8859-2 (Central European)",
    "iso8859-5": "ISO 8859-5 (Cyrillic)",
    "cp866": "code page 866 (Cyrillic)",
    "mac-roman": "Mac Roman (Western European)",
}
# What these names mean on the web (and in practice) is the larger Windows encoding.
_MEANS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "big5hkscs": "big5hkscs",
    "iso2022_jp": "iso2022_jp",
    "utf-8": "utf-8",
}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(b for b in range(32) if b not in b"\0\b\t\n\v\f\r\x1a\x1b") + b"\x7f"
_SAMPLE = 65_536
_GUESS_BYTES = 262_144
MOST_BLANKS = 500
"""A longer run of white space says nothing more, and would fill whole chunks."""
_LONG_BLANKS = re.compile(rf"(\s{{{MOST_BLANKS}}})\s+")
_UNKEEPABLE = re.compile("[\0\ud800-\udfff]")


class NotText(ValueError):
    """The bytes are not text in any encoding."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Characters, and what should be said about how they were found."""

    text: str
    warnings: tuple[str, ...] = ()


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Turn the bytes of a text file into characters; a byte order mark is left out.

    Args:
        data: the whole file.
        declared: the encoding that the file itself claims, in any spelling.

    Raises:
        NotText: the bytes are not text.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode_as(data[len(mark) :], encoding)
    wide = _without_mark(data[:_SAMPLE])
    if wide is not None:
        return _decode_as(data, wide)
    if _looks_binary(data):
        raise NotText
    claimed = _known(declared)
    if data.isascii() and claimed != "iso2022_jp":
        return Decoded(data.decode("ascii"))
    utf8 = _utf8(data)
    if utf8 is not None and not data.isascii():
        return utf8
    if claimed is not None and claimed != "utf-8":
        believed = _decode_as(data, claimed)
        if believed.text.count("\ufffd") * 200 <= len(believed.text):
            return believed
    return _guess(data)


def clean(text: str) -> tuple[str, int]:
    """Remove what cannot be stored, NUL and lone surrogates; return the rest and their number."""
    return _UNKEEPABLE.subn("", text)


def shorten_blanks(text: str) -> tuple[str, int]:
    """Cut runs of white space to ``MOST_BLANKS`` characters; return the text and the runs cut."""
    return _LONG_BLANKS.subn(r"\1", text)


def blank_warnings(shortened: int) -> tuple[str, ...]:
    """Say that :func:`shorten_blanks` cut something, if it did."""
    if not shortened:
        return ()
    what = "1 run" if shortened == 1 else f"{shortened:,} runs"
    return (f"{what} of more than {MOST_BLANKS} blank characters shortened.",)


def removal_warnings(removed: int) -> tuple[str, ...]:
    """Say that :func:`clean` removed characters, if it did."""
    if not removed:
        return ()
    what = "1 character" if removed == 1 else f"{removed:,} characters"
    return (f"{what} that cannot be stored (NUL or broken Unicode) left out.",)


def _decode_as(data: bytes, encoding: str) -> Decoded:
    for errors in ("strict", "surrogatepass") if encoding.startswith("utf") else ("strict",):
        with contextlib.suppress(UnicodeDecodeError):
            return Decoded(data.decode(encoding, errors))
    text = data.decode(encoding, "replace")
    label = _ENCODINGS.get(encoding, encoding.upper())
    return Decoded(text, (f"Some bytes are not valid {label}; they show as \ufffd.",))


def _utf8(data: bytes) -> Decoded | None:
    """Decode UTF-8; a few bad bytes among many good ones do not make it another encoding."""
    for errors in ("strict", "surrogatepass"):
        with contextlib.suppress(UnicodeDecodeError):
            # Lone surrogates are kept for `clean`, which counts them.
            return Decoded(data.decode("utf-8", errors))
    text = data.decode("utf-8", "surrogateescape")
    bad = len(re.findall("[\udc80-\udcff]", text))
    good = len(re.findall("[^\0-\x7f\udc80-\udcff]", text))
    return _decode_as(data, "utf-8") if good >= 4 * bad else None


def _without_mark(sample: bytes) -> str | None:
    """Recognise UTF-16 and UTF-32 without a mark by where their zero bytes stand."""
    if len(sample) < 4 or sample.count(0) * 4 < len(sample):
        return None
    shares = [sample[i::4].count(0) / len(sample[i::4]) for i in range(4)]
    if shares[0] < 0.1 and min(shares[2:]) > 0.9:
        return "utf-32-le"
    if shares[3] < 0.1 and min(shares[:2]) > 0.9:
        return "utf-32-be"
    if max(shares[0], shares[2]) < 0.1 and min(shares[1], shares[3]) > 0.4:
        return "utf-16-le"
    if max(shares[1], shares[3]) < 0.1 and min(shares[0], shares[2]) > 0.4:
        return "utf-16-be"
    return None


def _looks_binary(data: bytes) -> bool:
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return controls * 50 > len(data) or data.count(0) * 3 > len(data)


def _known(name: str | None) -> str | None:
    """Return the codec for a declared name; None for names of nothing or of no text encoding."""
    plain = (name or "").strip().lower().removeprefix("x-")
    for spelling in (plain, plain.replace("windows-", "cp")):
        try:
            found = codecs.lookup(spelling).name
        except (LookupError, ValueError):
            continue
        codec = _MEANS.get(found, found)
        if codec in _ENCODINGS or codec in _MEANS.values() or codec.startswith("iso8859"):
            return codec
    return None


def _codec(name: str) -> str:
    return codecs.lookup(name).name


def _guess(data: bytes) -> Decoded:
    from charset_normalizer import from_bytes

    lines = [line for line in data.splitlines(keepends=True) if not line.isascii()]
    # Whole lines only: a character cut in two would rule its encoding out.
    stride = -(-sum(map(len, lines)) // _GUESS_BYTES)
    sample = b"".join(lines[::stride])
    matches = list(from_bytes(sample, cp_isolation=list(_ENCODINGS)))
    close = [match for match in matches if match.chaos <= matches[0].chaos + 0.04]
    coherence = max((match.coherence for match in close), default=0.0)
    fitting = {
        encoding
        for match in close
        if match.coherence >= coherence - 0.02
        for encoding in map(_codec, match.could_be_from_charset)
    }
    best = next((encoding for encoding in _ENCODINGS if encoding in fitting), "cp1252")
    found = _decode_as(data, best)
    said = f"The encoding is not stated in the file; read as {_ENCODINGS[best]}, a guess."
    return Decoded(found.text, (said, *found.warnings))
