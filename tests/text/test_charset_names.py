"""A page may name anything as its charset: what is none is ignored, and nothing raises."""

from __future__ import annotations

import codecs
import encodings
import pkgutil
from encodings.aliases import aliases

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.core.fingerprinter import read
from dedup_middleware.model.documents import Document
from dedup_middleware.text.decode import codec_of, decode
from dedup_middleware.text.extract import extract, meta_description

NO_CHARSETS = (
    "base64 bz2 hex quopri rot13 uu zlib idna punycode undefined unicode_escape raw_unicode_escape"
).split()
CHARSETS = "utf-8 gb2312 big5 shift_jis euc-kr iso-8859-1 windows-1251 koi8-r".split()
# Every name that Python knows, and names that are none.
KNOWN = sorted(
    {*aliases, *aliases.values(), *(one.name for one in pkgutil.iter_modules(encodings.__path__))}
)
NONSENSE = (
    "", " ", "x" * 100_000, "utf-8\0", "\0", "\ud800", "é", "..", "../utf_8", "os", "__init__",
    "base64\n", "UTF-8;q=1", "%s", "１２３", "-", "_",
)  # fmt: skip
WORDS = "Die Brücke über den Fluß wird im Frühjahr erneuert, sagte die Bürgermeisterin am Montag."
PAGE = (
    f"<html><head><title>Brücke</title></head><body><p>{WORDS}</p><p>{WORDS}</p></body></html>"
).encode("cp1252")


def with_meta(data: bytes, charset: str) -> bytes:
    """The page with a declaration of its own."""
    name = charset.encode("utf-8", "surrogatepass")
    return data.replace(b"<head>", b'<head><meta charset="' + name + b'">', 1)


@pytest.mark.parametrize("charset", NO_CHARSETS)
def test_a_codec_that_is_no_charset_is_ignored(charset: str) -> None:
    """The page is read as if nothing was declared, by header and by meta element."""
    expected = extract(PAGE)
    assert WORDS in expected.text
    assert codec_of(charset) is None
    assert extract(PAGE, charset=charset) == expected
    assert extract(with_meta(PAGE, charset)) == expected
    document = Document("https://one.example/1", html=PAGE, charset=charset)
    assert WORDS in (read(document, "balanced").text or "")


@pytest.mark.parametrize("charset", CHARSETS)
def test_a_charset_of_pages_is_known(charset: str) -> None:
    """What pages are written in passes, also with white space and in capitals."""
    codec = codec_of(charset)
    assert codec is not None
    assert codec_of(f" {charset.upper()}\n") == codec
    assert codecs.lookup(codec)


@pytest.mark.slow
def test_no_name_raises() -> None:
    """Every name that Python knows, and nonsense, as header and in the page."""
    for charset in (*KNOWN, *NONSENSE):
        assert extract(PAGE, charset=charset).text, charset
        assert extract(with_meta(PAGE, charset)).title, charset
        assert meta_description(PAGE, charset) == "", charset


NAMES = st.sampled_from([*KNOWN, *NONSENSE]) | st.text(max_size=30)
BYTES = (
    st.binary(max_size=300)
    | st.just(PAGE)
    | st.builds(lambda head, tail: head + tail, st.binary(max_size=20), st.just(PAGE))
    | st.builds(lambda text, codec: text.encode(codec, "replace"), st.text(max_size=80),
                st.sampled_from(["utf-8", "gb18030", "big5", "shift_jis", "utf-16", "utf-32"]))
)  # fmt: skip


@settings(max_examples=300)
@given(BYTES, NAMES | st.none(), NAMES | st.none())
def test_nothing_raises(data: bytes, header: str | None, meta: str | None) -> None:
    """Any bytes under any two declarations give a title and a text that can be encoded again."""
    if meta is not None:
        data = with_meta(b"<head>" + data, meta)
    assert isinstance(decode(data, header).text, str)
    page = extract(data, charset=header)
    (page.title + page.text).encode()
    document = Document("https://one.example/1", html=data, charset=header)
    assert read(document, "fast").text is not None


@settings(max_examples=100)
@given(st.text(st.characters(), max_size=200), NAMES | st.none())
def test_no_text_raises(html: str, header: str | None) -> None:
    """Text that was decoded before, lone surrogates and NULs among it, does not raise either."""
    page = extract(html, charset=header)
    (page.title + page.text).encode()
