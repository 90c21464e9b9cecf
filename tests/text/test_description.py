"""The summary that a page gives of itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text.extract import HEAD, meta_description


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<meta name="description" content="水务局 的通知">', "水务局 的通知"),
        ("<META CONTENT='a\n  b' NAME=description>", "a b"),
        ('<meta name="description" content="a &lt;b&gt;"/>', "a <b>"),
        ('<meta name="keywords" content="x"><meta name="description" content="y">', "y"),
        ('<meta property="og:description" content="x">', ""),
        ('<meta name="description">', ""),
        ("<p>description</p>", ""),
        ("", ""),
    ],
)
def test_description_is_found(page: str, expected: str) -> None:
    """In any order of attributes, with references resolved; None of it: nothing."""
    assert meta_description(page) == expected
    assert meta_description(page.encode()) == expected


def test_bytes_are_decoded() -> None:
    """By the charset of the header, or the one that the page declares."""
    page = '<meta charset="gbk"><meta name="description" content="图书馆公布通知">'
    assert meta_description(page.encode("gbk")) == "图书馆公布通知"
    assert meta_description(page.encode("gb18030"), "gb18030") == "图书馆公布通知"


def test_only_the_head_is_looked_at() -> None:
    """Text beyond it costs nothing."""
    assert meta_description(" " * HEAD + '<meta name="description" content="x">') == ""


@given(st.text(alphabet="<meta nodscripu=\"'>& ", max_size=300), st.binary(max_size=100))
def test_nothing_raises(text: str, raw: bytes) -> None:
    """Any text and any bytes give a string."""
    assert isinstance(meta_description(text), str)
    assert isinstance(meta_description(raw), str)
