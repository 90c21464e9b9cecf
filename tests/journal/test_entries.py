"""Values of the journal."""

from __future__ import annotations

from urllib.parse import urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from dedup_middleware.journal.entries import host_of

PARTS = st.sampled_from(
    [
        *"://?#@[]% \t\n\\\0℀ａ",
        "//",
        "[::1]",
        "http",
        "HTTPS",
        "ftp+x",
        "1a",
        "News.Example",
        "user:pass",
        ":80",
        ":x",
        "新闻",
        "",
    ]
)
ADDRESSES = st.lists(PARTS, max_size=9).map("".join)


@given(ADDRESSES | st.text() | ADDRESSES.map("http://a.example/".__add__))
@example("HTTP://User@News.Example:8080/a?b#c")
@example("ht\ttp://news.example/1")
@example("http://[news.example/1")
@example("http://news.example/[1")
def test_host_is_that_of_the_whole_address(key: str) -> None:
    """Only the part of an address up to its path is looked at; the host is as urllib reads it."""
    try:
        wanted = urlsplit(key).hostname or ""
    except ValueError:
        wanted = ""
    assert host_of(key) == wanted
