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
    """Make an empty database file for this user alone, unless there is one, and remove the -wal and
    -shm files of a deleted one.

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
        """Those of a connection to ``file``: the -wal and -shm files are those of the path now."""
        return cls(path, file, {end: file_at(Path(f"{path}{end}")) for end in _ENDS})

    def are_in_place(self) -> bool:
        """Whether they are still those of the path. Processes that open the database later could
        not share it if the -wal or -shm file were missing."""
        own = {"": self.file, **self.side_files}
        return all(
            file is None or file_at(Path(f"{self.path}{end}")) == file for end, file in own.items()
        )

    def remove_left_over(self) -> None:
        """Remove the -wal and -shm files of a database that was replaced, which SQLite would use
        for the new one.

        Call it while the connection is open: no new file can get the inode of a removed one.
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
