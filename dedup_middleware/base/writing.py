"""Writes files and standard output safely.

In a folder that others can write to, another user may have put a link under the name of a new file.
So a file is made with ``O_EXCL``, which fails if the name exists, and with ``O_NOFOLLOW``. Its mode
is what the umask leaves, but 0600 for indexes, journals and exported indexes. A file that
replaces another one gets no permission that the old one lacked. Failures raise OSError where
nothing else is said.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from dedup_middleware.base.errors import DedupError, os_errors

_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PRIVATE: Final = 0o600
SHARED: Final = 0o666  # less the umask
NO_OUTPUT: Final = "standard output can't be written"


def make(path: Path, mode: int = SHARED) -> BinaryIO:
    """Make an empty file and open it for writing; the name must be free."""
    return os.fdopen(os.open(path, _NEW, mode), "w+b")


def make_private(path: Path) -> None:
    """Make a file for this user alone, unless it exists; for code that opens it by name later.

    A link of another user is refused (OSError).
    """
    real = path
    if path.is_symlink():
        owner = path.lstat().st_uid
        if owner not in {0, os.geteuid()}:
            raise PermissionError(f"{path} is a link of another user ({owner})")
        real = Path(os.path.realpath(path))
    with contextlib.suppress(FileExistsError), make(real, PRIVATE):
        pass


def lock(file: int) -> bool:
    """Lock an open file for this process until it is closed; False if another process has the lock.

    True on a file system without locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass
    return True


def write_whole(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a file completely or not at all.

    :param replace: replace an existing file; else FileExistsError is raised
    """
    # A file name has at most 255 bytes, and a character up to four.
    part = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.part")
    try:
        with make(part) as file:
            if replace:
                _keep_private(file, path)
            file.write(data)
        if replace:
            part.replace(path)
        else:
            _rename_new(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _keep_private(file: BinaryIO, replaced: Path) -> None:
    """Take away the rights that the file to be replaced does not give."""
    given = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    with contextlib.suppress(OSError):  # there is none, or it can't be looked at
        mode = given & replaced.stat().st_mode
        if mode != given:
            os.fchmod(file.fileno(), mode)


def write_new(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file as :func:`write_whole` does.

    :raises DedupError: the file exists or can't be written
    """
    with os_errors(f"{path} can't be written"):
        try:
            write_whole(path, data, replace=replace)
        except FileExistsError:
            raise DedupError(f"{path} exists: name a new file") from None


def is_replaceable(path: Path, head: bytes) -> bool:
    """Whether a name is free, or that of a file that is empty or begins with ``head``."""
    if not path.is_file():
        return not path.exists()
    with path.open("rb") as file:
        return file.read(len(head)) in {b"", head}


def to_json(value: Any, *, ascii_only: bool = False) -> bytes:
    """One line of JSON in UTF-8; lone surrogates, which UTF-8 can't encode, become escapes."""
    text = json.dumps(value, ensure_ascii=ascii_only, default=str)
    return text.encode("utf-8", "backslashreplace")


def _rename_new(part: Path, path: Path) -> None:
    """Rename a file; FileExistsError if the new name exists."""
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):  # no hard links on this file system or platform
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists") from None
        part.replace(path)
    else:
        part.unlink()


def flush_output() -> None:
    """Flush standard output, if there is one.

    :raises OSError: it can't be written
    """
    if callable(flush := getattr(sys.stdout, "flush", None)):
        flush()


def write_output(data: bytes) -> None:
    """Write bytes to standard output and flush it.

    :raises DedupError: they can't be written, or there is no standard output that takes bytes
    """
    with os_errors(NO_OUTPUT):
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            raise OSError(errno.EBADF, "There is no standard output to write to: name a file by -o")
        stream.write(data)
        flush_output()


def discard_output() -> None:
    """Flush standard output, or discard its buffer if it can't be written.

    Otherwise Python would try again when it exits, and fail with exit code 120.
    """
    try:
        flush_output()
    except ValueError:  # it was closed
        return
    except OSError:
        # An object in place of standard output may have no descriptor.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            descriptor = sys.stdout.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, descriptor)
            finally:
                os.close(nowhere)
