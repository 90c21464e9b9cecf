"""The log against which a run is checked: it knows nothing of the index.

One file for all processes. Every record is one write behind the end of the file and is on disk
before its writer goes on, so the order of the records is the order of what happened: a page that
was dropped for another is in order only if the other's record comes first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

STORED = "stored"  # the page is on disk
DROPPED = "dropped"  # for the page named in ``more``
FAILED = "failed"  # the storage raised an error
KEPT_OUT = "kept-out"  # dropped for another reason, which ``more`` tells
_BEGIN, _END = "\n", "\t."


@attrs.frozen
class Record:
    """What a process did with a page; ``place`` orders the records of a ledger."""

    place: int
    what: str
    process: int
    url: str
    more: str = ""


class Ledger:
    """Writes records of one process.

    :param process: number of the process; each start has a number of its own
    """

    def __init__(self, path: Path, process: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._process = process

    def write(self, what: str, url: str, more: str = "") -> None:
        """Add a record; it is on disk when this returns."""
        line = "\t".join((what, str(self._process), url, more))
        # A process may be killed in the middle of a write: without its end a record is none.
        os.write(self._file, f"{_BEGIN}{line}{_END}".encode())
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def records(path: Path) -> Iterator[Record]:
    """The whole records of a ledger, in their order."""
    if not path.exists():
        return
    for place, line in enumerate(path.read_text(encoding="utf-8").split(_BEGIN)):
        if line.endswith(_END):
            parts = line.removesuffix(_END).split("\t")
            if len(parts) == 4:
                what, process, url, more = parts
                yield Record(place, what, int(process), url, more)
