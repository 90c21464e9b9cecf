"""The files of a SQLite database that is removed or replaced while processes use it.

A database in write-ahead mode is three files: that of its name, and those with ``-wal`` and
``-shm`` behind it. If the first alone is removed, a process that makes a new one would share the
other two with those that still use the old one, and writes would be lost or fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from dedup_middleware.base.writing import make_private

_ENDS = ("-wal", "-shm")  # suffixes of the files that SQLite keeps next to a database
FileId = tuple[int, int]  # device and inode


def file_at(path: Path) -> FileId | None:
    """Device and inode of a file; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def begin_file(path: Path) -> None:
    """Make an empty database file for this user alone, unless the file exists.

    The -wal and -shm files that a deleted database has left are removed.

    :raises OSError: the file can't be made, or is a link of another user
    """
    if file_at(path) is not None:
        make_private(path)  # refuses a link of another user
        return
    with _taking_turns(path.parent):
        if file_at(path) is None:
            for end in _ENDS:
                Path(f"{path}{end}").unlink(missing_ok=True)
        make_private(path)


@attrs.frozen
class OpenFiles:
    """The files that a connection has open, to tell whether they are those of the path."""

    path: Path
    file: FileId | None
    side_files: Mapping[str, FileId | None]  # by suffix

    @classmethod
    def at(cls, path: Path, file: FileId | None) -> OpenFiles:
        """The files of a connection to ``file``, with the -wal and -shm files now at the path."""
        return cls(path, file, {end: file_at(Path(f"{path}{end}")) for end in _ENDS})

    def are_in_place(self) -> bool:
        """Whether the files at the path are still these. If the -wal or -shm file is missing, they
        are not: processes that open the database later would not share it."""
        own = {"": self.file, **self.side_files}
        return all(
            file is None or file_at(Path(f"{self.path}{end}")) == file for end, file in own.items()
        )

    def remove_left_over(self) -> None:
        """Remove the -wal and -shm files of a replaced database, which SQLite would use again.

        Call it while the connection is open, so that no new file gets the inode of one of these.
        """
        if not self.path.parent.is_dir():
            return
        with _taking_turns(self.path.parent):
            for end in _ENDS:
                side_file = Path(f"{self.path}{end}")
                if (known := self.side_files[end]) is not None and known == file_at(side_file):
                    side_file.unlink(missing_ok=True)


@contextlib.contextmanager
def _taking_turns(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock of a folder, among all processes."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
