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
    ("is a directory", "it is a directory; name a file in it", True),
    ("not a directory", "a part of its path is a file; name a path of folders", True),
    ("file exists", "a part of its path is a file; name a path of folders", True),
    ("link of another user", "it is a link of another user; name the file itself", True),
    ("permission denied", "there is no right to it; check the folder and the rights to it", True),
    ("read-only file system", "it can't be written to; name a file elsewhere", True),
    ("name too long", "its name is too long; name a shorter one", True),
    ("embedded null", "its name holds a NUL character; take it out", True),
    ("locked", "another process has kept it locked for longer than DEDUP_TIMEOUT", False),
    ("full", "the disk is full", False),
    ("disk i/o", "the disk fails or is full", False),
)

# What reading raises where something else has put values of another type, which SQLite lets it.
DAMAGED_VALUE = (TypeError, ValueError, OverflowError)


def as_error(error: Exception, path: str, *, opening: bool) -> DedupError:
    """The error that is raised to the user.

    :param opening: raise IndexRefusedError where it applies; later calls always raise
        IndexUnavailableError
    """
    text = str(error)
    for part, meaning, refused in _MEANINGS:
        if part in text.lower():
            kind = IndexRefusedError if refused and opening else IndexUnavailableError
            return kind(f"the index DEDUP_INDEX_URL=sqlite:{path} can't be used: {meaning}")
    if isinstance(error, DAMAGED_VALUE):
        text = f"a value in it is damaged ({text}); restore a copy, or remove it to begin anew"
        return IndexUnavailableError(
            f"the index DEDUP_INDEX_URL=sqlite:{path} can't be used: {text}"
        )
    return IndexUnavailableError(
        f"the index DEDUP_INDEX_URL=sqlite:{path} can't be used: {type(error).__name__}: {text}"
    )


def retryable(error: Exception) -> bool:
    """Whether another process's lock was in the way."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
