"""What SQLite's complaints mean, and what to do about them."""

from __future__ import annotations

import sqlite3

from dedup_middleware.errors import DedupError, IndexRefusedError, IndexUnavailableError

# By the text of the message: Python 3.10 does not give SQLite's error codes.
_MEANINGS: tuple[tuple[str, str, bool], ...] = (
    ("file is not a database", "it is the file of another program; name another file", True),
    ("malformed", "the file is damaged; restore a copy, or remove it to begin anew", True),
    ("unable to open", "it can't be opened; check the folder and the rights to it", True),
    ("readonly", "it can't be written to; check the rights to the file and its folder", True),
    ("locked", "another process has kept it locked for longer than DEDUP_TIMEOUT", False),
    ("full", "the disk is full", False),
    ("disk i/o", "the disk fails or is full", False),
)


def as_error(error: Exception, path: str, *, opening: bool) -> DedupError:
    """The error a user meets.

    :param opening: whether a refusal may be told as such; later calls only tell "not now"
    """
    text = str(error)
    for part, meaning, refused in _MEANINGS:
        if part in text.lower():
            kind = IndexRefusedError if refused and opening else IndexUnavailableError
            return kind(f"the index DEDUP_INDEX_URL=sqlite:{path} can't be used: {meaning}")
    return IndexUnavailableError(
        f"the index DEDUP_INDEX_URL=sqlite:{path} can't be used: {type(error).__name__}: {text}"
    )


def retryable(error: Exception) -> bool:
    """Whether another process's lock was in the way."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
