"""Where compiled kernels and built tables are cached.

One rule for both: the first of these that can be written is used.

1. `DEDUP_CACHE_DIR`, if the environment sets it;
2. `$XDG_CACHE_HOME/dedup-middleware`, else `~/.cache/dedup-middleware`;
3. `dedup-middleware-<user id>` in the temporary directory.

Compiled kernels are code: a directory that another user can change is not used, see
:mod:`.trustedfolder`. When none can be used everything still works: tables are built in memory and
kernels are compiled in every process. One warning says so.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from dedup_middleware.base.trustedfolder import TrustedFolder, UntrustedError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_LONGEST_TURN: Final = 120.0  # seconds


def cache_candidates() -> Iterator[Path]:
    """The directories of the rule above, in order; none of them need exist."""
    chosen = os.environ.get("DEDUP_CACHE_DIR")
    if chosen:
        yield Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        yield Path(base) / "dedup-middleware"
    else:
        try:
            yield Path.home() / ".cache" / "dedup-middleware"
        except RuntimeError:  # a user id without a home directory
            logger.debug("no home directory: its cache is left out")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:  # none can be written
        return
    yield Path(temporary) / f"dedup-middleware-{user}"


def writable_directory(candidates: Iterator[Path]) -> Path | None:
    """The first candidate that exists or can be made, is this user's alone and can be written."""
    for directory in candidates:
        try:
            TrustedFolder(directory).make()
            with tempfile.TemporaryFile(dir=directory):
                return directory
        except UntrustedError as error:
            logger.warning("%s is not used as a cache: %s", directory, error)
        except (OSError, ValueError) as error:  # the latter: a path with a NUL in it
            logger.debug("%s can't be used as a cache: %s", directory, error)
    return None


@functools.lru_cache(maxsize=1)
def cache_directory() -> Path | None:
    """The directory for tables and kernels, or None after one warning; asked once a process."""
    directory = writable_directory(cache_candidates())
    if directory is None:
        logger.warning(
            "No cache directory can be written: kernels are compiled and dictionaries built in "
            "every process (about 25 s). Set DEDUP_CACHE_DIR to a directory that belongs to you."
        )
    return directory


@contextlib.contextmanager
def taking_turns(folder: str | None, name: str) -> Iterator[None]:
    """Of the processes that share a cache one compiles a kernel, the others wait and load it.

    Without it eight spiders that start together would compile everything eight times. The lock
    ends with its process. Without file locks or a cache folder, and after two minutes, no process
    waits.
    """
    with contextlib.ExitStack() as stack:
        try:
            if folder is not None and fcntl is not None:
                lock = stack.enter_context(TrustedFolder(Path(folder)).lock_file(f"{name}.lock"))
                deadline = time.monotonic() + _LONGEST_TURN
                while not _locked(lock) and time.monotonic() < deadline:
                    time.sleep(0.05)
        except OSError as error:
            logger.debug("no lock for %s: %s", name, error)
        yield


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
