"""Document keys, and keyed hashes."""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b


def keyed_hash(text: str, hash_key: int) -> int:
    """Keyed 64-bit hash of a text (BLAKE2b), which may have lone surrogates."""
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
# Keeps the signs of C++, C# and A+, as segmentation does (see `text/boundaries.py`).
_LETTERS = re.compile(
    r"[^\W_]+(?:(?<=[^\W\d])(?:\+\+(?![+a-z])|\+(?![+\w])|(?<![a-z0-9][a-z])#(?![#a-z])))?"
)
_TITLE_CHARS = 500
_LINE_CHARS = 1000


def host_of(key: str) -> str:
    """The host in a document key, in lower case and without "www."; "" if there is none.

    >>> host_of("https://www.One.example:8080/a/1"), host_of("isbn 1")
    ('one.example', '')
    >>> host_of("http://[2001:db8::1]:8080/a")
    '[2001:db8::1]'
    """
    found = _HOST.match(key)
    return found[1].lower() if found else ""


def in_a_line(key: str) -> str:
    """Escape and cut a key for one line of the log: keys that pages choose may hold line ends,
    terminal escape sequences or lone surrogates, and have any length.

    >>> print(in_a_line("https://a.example/1\\n\\x1b[2J"))
    https://a.example/1\\n\\x1b[2J
    """
    start = key if len(key) <= _LINE_CHARS else f"{key[:_LINE_CHARS]}..."
    return start if start.isprintable() else repr(start)[1:-1]


def letters_of(title: str) -> str:
    """Reduce a title to its letters and digits in lower case, with the signs of C++, C# and A+.

    >>> letters_of("News： Today!") == letters_of("news:today")
    True
    >>> letters_of("C++ or C#? + more"), letters_of("item# a+b")
    ('c++orc#more', 'itemab')
    """
    return "".join(_LETTERS.findall(unicodedata.normalize("NFKC", title[:_TITLE_CHARS]).lower()))


def content_key(text: str | bytes) -> str:
    """Key for a page that has none: a hash of its content."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _CONTENT_KEY + blake2b(raw, digest_size=16).hexdigest()


def is_content_key(key: str) -> bool:
    """Whether a key was made by :func:`content_key`, so that it has no versions.

    >>> is_content_key(content_key("some text")), is_content_key("text:17")
    (True, False)
    """
    return (
        key.startswith(_CONTENT_KEY) and _CONTENT_HASH.fullmatch(key, len(_CONTENT_KEY)) is not None
    )
