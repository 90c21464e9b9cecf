"""Caches compiled kernels and built tables in a folder that only this user can change.

The first of these folders that can be written is used:

1. `DEDUP_CACHE_DIR`, if the environment sets it;
2. `$XDG_CACHE_HOME/dedup-middleware`, else `~/.cache/dedup-middleware`;
3. `dedup-middleware-<user id>` in the temporary directory.

Without any of them each process builds tables in memory and compiles kernels, after a warning.

Compiled kernels are kept as pickles, and a pickle runs code when it is loaded. So a folder that
another user can change is not used. At each access :class:`TrustedFolder` checks that

* the folder belongs to this user, is no link, and neither its group nor others can write to it;
* every folder above it belongs to this user or to root, and only they can change what is in it: no
  others can write to it, or its sticky bit is set, as in ``/tmp``. A link in the path must lie in
  such a folder and belong to this user or to root. A group with no other member than this user
  counts as this user;
* a file belongs to this user, is a plain file, and no other user can write to it.

No other user can then replace a folder that has been checked. It is still opened only once, without
following links, and the opened folder is checked again; its files are opened relative to it.

A table is built once and mapped into the memory of every process. Its file is `DEDUPTBL | crc32 |
length of the header | header | arrays`; the checksum covers everything after it. A file that is cut
off, damaged or of another version is never trusted: the table is built anew, and the file replaced
in one step, so that processes that start together don't disturb each other.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import mmap
import os
import secrets
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.writing import lock

logger = logging.getLogger(__name__)

_LONGEST_WAIT: Final = 120.0  # seconds


def cache_candidates() -> Iterator[Path]:
    """Yield the folders that the module's docstring lists, in order; they need not exist."""
    chosen = _chosen()
    if chosen is not None:
        yield chosen
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        yield Path(base) / "dedup-middleware"
    else:
        try:
            yield Path.home() / ".cache" / "dedup-middleware"
        except RuntimeError:  # a user id without a home directory
            logger.debug("no home directory: its cache is left out")
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:  # no temporary directory can be written
        return
    yield Path(temporary) / f"dedup-middleware-{os.getuid()}"


def _chosen() -> Path | None:
    return _named_folder(os.environ.get("DEDUP_CACHE_DIR", "").strip())


@functools.cache  # one warning; and a process that changes its working directory keeps the folder
def _named_folder(name: str) -> Path | None:
    """The folder that the user named; None without a name, or after a warning."""
    if not name:
        return None
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no working directory, no home of this user
        logger.warning("%s is not used as a cache: %s", name, error)
        return None


@functools.lru_cache(maxsize=1)
def cache_directory() -> Path | None:
    """The first candidate that exists or can be made, and that this user alone can write to; None
    after a warning. Chosen once per process."""
    for directory in cache_candidates():
        try:
            TrustedFolder(directory).make()
            with tempfile.TemporaryFile(dir=directory):
                return directory
        except UntrustedError as error:
            logger.warning("%s is not used as a cache: %s", directory, error)
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
            level = logging.WARNING if directory == _chosen() else logging.DEBUG
            logger.log(level, "%s can't be used as a cache: %s", directory, error)
    logger.warning(
        "No cache directory can be written: dictionaries are built in every process, and kernels "
        "compiled unless the installation has them (about 25 s). Set DEDUP_CACHE_DIR to a "
        "directory that belongs to you."
    )
    return None


@contextlib.contextmanager
def taking_turns(folder: str | None, name: str) -> Iterator[None]:
    """Hold a lock while compiling a kernel: other processes with this cache wait, then load it.

    Otherwise eight spiders that start together would compile everything eight times. The lock ends
    with its process. A process waits two minutes at most, and not at all without a cache folder.
    """
    with contextlib.ExitStack() as stack:
        try:
            if folder is not None:
                file = stack.enter_context(TrustedFolder(Path(folder)).lock_file(f"{name}.lock"))
                deadline = time.monotonic() + _LONGEST_WAIT
                while not lock(file.fileno()) and time.monotonic() < deadline:
                    time.sleep(0.05)
        except OSError as error:
            logger.debug("no lock for %s: %s", name, error)
        yield


_MOST_LINKS: Final = 40  # as many as Linux follows
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe in the place of a file must not wait.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UntrustedError(OSError):
    """Another user can change a folder or file; the message says which and why."""


@attrs.frozen
class TrustedFolder:
    """Reads and writes files in a folder, which is checked each time as the module describes.

    The folder need not exist yet. All methods raise :class:`UntrustedError` if another user can
    change the folder or the file, and other OSErrors as file operations do.
    """

    path: Path

    def make(self) -> None:
        """Make the folder and missing parents, with access for this user alone."""
        while True:
            here, missing = _walked(self.path)
            if not missing:
                break
            # Another process of this user may be making it too.
            with contextlib.suppress(FileExistsError):
                folder = here / missing[0]
                folder.mkdir(0o700)
                folder.chmod(0o700)  # whatever the umask took away
        with self._opened():
            pass

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._file(name) as file:
            return file.read()

    def mapped(self, name: str) -> mmap.mmap:
        """Map a file into read-only memory; raises ValueError if it is empty."""
        with self._file(name) as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, which appears in one step and is accessible to this user alone."""
        temporary = f"{name}.{secrets.token_hex(8)}.tmp"
        with self._opened() as folder:
            try:
                with os.fdopen(os.open(temporary, _NEW, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    @contextlib.contextmanager
    def lock_file(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for locking; it is made if need be, and stays empty."""
        with self._file(name, _LOCK, "r+b", buffering=0) as file:
            yield file

    @contextlib.contextmanager
    def _file(
        self, name: str, flags: int = _FILE, mode: str = "rb", buffering: int = -1
    ) -> Iterator[IO[bytes]]:
        with self._opened() as folder:
            file = os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), mode, buffering)
        with file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UntrustedError(f"{self.path / name} is no plain file")
            _check_own(status, self.path / name)
            yield file

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder and check it; yields its descriptor."""
        here, missing = _walked(self.path)
        if missing:
            raise FileNotFoundError(f"there is no folder {self.path}")
        folder = os.open(here, _FOLDER)
        try:
            _check_own(os.fstat(folder), self.path)
            yield folder
        finally:
            os.close(folder)


def _check_own(status: os.stat_result, path: Path) -> None:
    """Check that this user owns an open folder or file and that no other user can write to it."""
    if status.st_uid != os.geteuid():
        raise UntrustedError(f"{path} belongs to user {status.st_uid}, not to this one")
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise UntrustedError(f"{path} can be written to by others (mode {mode:04o})")


def _walked(path: Path) -> tuple[Path, list[str]]:
    """Follow a path and check each step; returns the last folder that exists and the names that are
    missing below it. A path that ends in a link is refused."""
    whole = Path.cwd() / path
    here = Path(whole.anchor)
    names = list(reversed(whole.parts[1:]))
    _check_step(here, here.lstat())
    links = 0
    while names:
        name = names.pop()
        if name == os.pardir:
            here = here.parent
            continue
        step = here / name
        try:
            status = step.lstat()
        except FileNotFoundError:
            return here, [name, *reversed(names)]
        if stat.S_ISLNK(status.st_mode):
            links += 1
            _check_owner(step, status)
            if not names or links > _MOST_LINKS:
                raise UntrustedError(f"{step} is a link: name the folder that it leads to")
            target = step.readlink()
            if target.is_absolute():
                here = Path(target.anchor)
            names += reversed([part for part in target.parts if part != target.anchor])
            continue
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{step} is no folder")
        _check_step(step, status)
        here = step
    return here, []


def _check_step(step: Path, status: os.stat_result) -> None:
    """Check that only this user and root can replace an entry of a folder on the path."""
    _check_owner(step, status)
    writers = status.st_mode & _OTHERS
    if not writers or status.st_mode & stat.S_ISVTX:
        return
    if writers == stat.S_IWGRP and _is_own_group(status.st_gid, os.geteuid()):
        return
    mode = stat.S_IMODE(status.st_mode)
    raise UntrustedError(f"{step} can be written to by others (mode {mode:04o})")


def _check_owner(step: Path, status: os.stat_result) -> None:
    if status.st_uid not in {0, os.geteuid()}:
        raise UntrustedError(f"{step} belongs to user {status.st_uid}, not to this one or root")


@functools.cache
def _is_own_group(group: int, user: int) -> bool:
    """Whether a group is the user's private group, as many systems make one for each user."""
    import grp
    import pwd

    try:
        found, me = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return group == me.pw_gid and found.gr_name == me.pw_name and {*found.gr_mem} <= {me.pw_name}


Arrays = Mapping[str, NDArray[Any]]
_MAGIC: Final = b"DEDUPTBL"
_PREAMBLE: Final = struct.Struct("<8sII")
_CHECKED_FROM: Final = 12  # the checksum covers what follows it
_ALIGNMENT: Final = 64


def dump(arrays: Arrays) -> bytes:
    """Pack arrays into the bytes of a table file."""
    places = {}
    payload = bytearray()
    for name, array in arrays.items():
        payload += bytes(-len(payload) % _ALIGNMENT)
        places[name] = [array.dtype.str, len(payload), array.size]
        payload += np.ascontiguousarray(array).tobytes()
    header = json.dumps(places).encode()
    header += b" " * (-(len(header) + _PREAMBLE.size) % _ALIGNMENT)
    body = struct.pack("<I", len(header)) + header + payload
    return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def load(buffer: bytes | mmap.mmap) -> Arrays:
    """Unpack the arrays of a table file, as read-only views of `buffer`.

    :raises ValueError: the file is cut off or damaged
    """
    view = memoryview(buffer)
    if len(view) < _PREAMBLE.size:
        raise ValueError("cut off")
    magic, checksum, length = _PREAMBLE.unpack_from(view)
    if magic != _MAGIC or zlib.crc32(view[_CHECKED_FROM:]) != checksum:
        raise ValueError("damaged")
    start = _PREAMBLE.size + length
    header: dict[str, tuple[str, int, int]] = json.loads(bytes(view[_PREAMBLE.size : start]))
    arrays = {}
    for name, (dtype, offset, size) in header.items():
        array = np.frombuffer(view, np.dtype(dtype), size, start + offset)
        array.flags.writeable = False
        arrays[name] = array
    return arrays


def _map(directory: Path, name: str) -> Arrays | None:
    try:
        return load(TrustedFolder(directory).mapped(name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.info("%s can't be used: %s", directory / name, error)
        return None


def load_or_build(name: str, build: Callable[[], Arrays]) -> Arrays:
    """Load the table `name` from the first cache that holds it, else build and cache it.

    :param name: file name; everything that the content depends on must be part of it
    """
    for directory in cache_candidates():
        found = _map(directory, name)
        if found is not None:
            return found
    data = dump(build())
    if (own := cache_directory()) is not None:
        try:
            TrustedFolder(own).write(name, data)
        except OSError as error:
            logger.warning("%s can't be written, it is kept in memory: %s", own / name, error)
        else:
            return _map(own, name) or load(data)
    return load(data)
