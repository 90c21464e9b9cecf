"""Names of pages, and keyed hashes of names."""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b


def keyed_hash(text: str, hash_key: int) -> int:
    """Keyed 64-bit hash of a name (BLAKE2b); lone surrogates are no error."""
    digest = blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=8, key=hash_key.to_bytes(8, "little")
    )
    return int.from_bytes(digest.digest(), "little")


def short_hash(text: str, hash_key: int) -> int:
    """:func:`keyed_hash` in 16 bits, 1 to 65535; 0 for no text."""
    return max(1, keyed_hash(text, hash_key) & 0xFFFF) if text else 0


_CONTENT_KEY = "text:"
_CONTENT_HASH = re.compile("[0-9a-f]{32}")
_HOST = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?(?:www\.)?(\[[^/?#\]]*\]|[^/?#:]+)", re.I
)
# With the signs of C++, C# and A+, as the words of the text have them (see `text/boundaries.py`).
_LETTERS = re.compile(
    r"[^\W_]+(?:(?<=[^\W\d])(?:\+\+(?![+a-z])|\+(?![+\w])|(?<![a-z0-9][a-z])#(?![#a-z])))?"
)
_TITLE_CHARS = 500
_LINE_CHARS = 1000


def host_of(key: str) -> str:
    """The host in a document key, in small letters and without "www."; "" if there is none.

    >>> host_of("https://www.One.example:8080/a/1"), host_of("isbn 1")
    ('one.example', '')
    >>> host_of("http://[2001:db8::1]:8080/a")
    '[2001:db8::1]'
    """
    found = _HOST.match(key)
    return found[1].lower() if found else ""


def in_a_line(key: str) -> str:
    """A key for a line of the log. One that a page names may have line ends, escape sequences of
    terminals or lone surrogates in it, and any length.

    >>> print(in_a_line("https://a.example/1\\n\\x1b[2J"))
    https://a.example/1\\n\\x1b[2J
    """
    start = key if len(key) <= _LINE_CHARS else f"{key[:_LINE_CHARS]}..."
    return start if start.isprintable() else repr(start)[1:-1]


def letters_of(title: str) -> str:
    """A title without white space, punctuation and case, so that small differences do not count;
    the signs of C++ and C# do.

    >>> letters_of("News： Today!") == letters_of("news:today")
    True
    >>> letters_of("C++ or C#? + more"), letters_of("item# a+b")
    ('c++orc#more', 'itemab')
    """
    return "".join(_LETTERS.findall(unicodedata.normalize("NFKC", title[:_TITLE_CHARS]).lower()))


def content_key(text: str | bytes) -> str:
    """Key of a page that has no name: a hash of what it says."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _CONTENT_KEY + blake2b(raw, digest_size=16).hexdigest()


def is_content_key(key: str) -> bool:
    """Whether a key was made from the page's content, so that it names no page.

    >>> is_content_key(content_key("some text")), is_content_key("text:17")
    (True, False)
    """
    return (
        key.startswith(_CONTENT_KEY) and _CONTENT_HASH.fullmatch(key, len(_CONTENT_KEY)) is not None
    )
