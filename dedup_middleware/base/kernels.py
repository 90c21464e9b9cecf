"""Where compiled kernels and built tables are cached, and the decorator that compiles kernels.

One rule for both: the first of these that can be written is used.

1. `DEDUP_CACHE_DIR`, if the environment sets it;
2. `$XDG_CACHE_HOME/dedup-middleware`, else `~/.cache/dedup-middleware`;
3. `dedup-middleware-<user id>` in the temporary directory.

Compiled kernels are code: a directory that somebody else can change is not used, see
:mod:`.trustedfolder`. When none can be used everything still works: tables are built in memory and
kernels are compiled in every process. One warning says so.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib.util
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.np import linalg

from dedup_middleware.base import shipped
from dedup_middleware.base.kernelcache import folder_name, keep_in, load_first_from
from dedup_middleware.base.trustedfolder import TrustedFolder, UntrustedError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)
# numba writes whole functions at the level DEBUG, which is Scrapy's default.
if (_numba_logger := logging.getLogger("numba")).level == logging.NOTSET:
    _numba_logger.setLevel(logging.INFO)

_F = TypeVar("_F", bound=Callable[..., Any])
_PART: Final[dict[str, Any]] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_KERNEL: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy"}
#: the versions of numba, first and last, whose compiler :mod:`.parts` is tested with; another one
#: compiles as it does by itself, which takes twice as long
_TESTED: Final = ((0, 61), (0, 68))
_HAS_PARTS: Final = _TESTED[0] <= numba.version_info.short <= _TESTED[1]
if _HAS_PARTS:
    from dedup_middleware.base.parts import KernelCompiler, PartCompiler

    _PART["pipeline_class"] = PartCompiler
    _KERNEL.update(no_cfunc_wrapper=True, pipeline_class=KernelCompiler)
_LONGEST_TURN: Final = 120.0  # seconds
_PACKAGE: Final = Path(__file__).parents[1]
_NAMED_BY_CONTENT: Final = 0  # the version of a source whose content is in the folder's name
#: folders whose functions and constants are compiled into kernels of others
SOURCES: Final = ("base", "index", "model", "signature", "text")


def _without_blas() -> None:
    """Import the part of numba that would import scipy.linalg to learn whether it is there.

    Looking for it takes no time, importing it a third of a warm start. Where there is work for
    BLAS numba asks once more, and imports it then.
    """

    def is_there() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("scipy is required for linear algebra")

    module = cast("Any", linalg)
    asked = getattr(module, "ensure_blas", None)
    if asked is None or "numba.np.arraymath" in sys.modules:
        return
    module.ensure_blas = is_there
    try:
        cast("Any", importlib.import_module("numba.np.arraymath")).ensure_blas = asked
    finally:
        module.ensure_blas = asked


_without_blas()


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


@functools.cache
def _source_digest(folder: Path) -> str:
    # numba looks only at the file of the outermost kernel; what that inlines, and constants that it
    # takes from other modules, may have changed.
    digest = hashlib.blake2b(digest_size=8)
    for part in sorted({folder, *(_PACKAGE / name for name in SOURCES)}):
        # Arrays made of data files are constants in kernels.
        for path in sorted([*part.glob("*.py"), *part.glob("data/*.txt")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _compilers() -> str:
    versions = (numba.__version__, llvmlite.__version__, np.__version__)
    return hashlib.blake2b(" ".join(versions).encode(), digest_size=4).hexdigest()


@contextlib.contextmanager
def taking_turns(folder: str | None, name: str) -> Iterator[None]:
    """Of the processes that share a cache one compiles a kernel, the others wait and load it.

    Without it eight spiders that start together would compile everything eight times. The lock
    ends with its process. Without file locks, and after two minutes, no process waits.

    :param folder: the cache, None if there is none
    :param name: of the kernel
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


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Suspend the cyclic garbage collector, which takes a seventh of the time of a compilation:
    numba makes millions of objects and keeps nearly all of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # what was made counts as old: it is not searched now
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def kernel(function: _F) -> _F:
    """Compile `function` with numba on first use; it runs without the interpreter lock.

    Machine code is kept on disk in the cache directory (`NUMBA_CACHE_DIR`, if set, wins), so
    a package directory or a home that is read-only is no error. A kernel may use functions and
    constants of its own folder and of `SOURCES`: the cache is named by the content of the sources
    there, so all installations of one version share it, wherever they are.
    """
    dispatcher = numba.njit(**_KERNEL)(function)
    if _HAS_PARTS:
        dispatcher = _called_as_part(dispatcher)
    _keep(dispatcher, Path(function.__code__.co_filename))
    return cast(_F, dispatcher)


def _keep(dispatcher: Any, source: Path) -> None:
    """Let a kernel of a source file keep its machine code on disk, if there is a place for it."""
    if numba.config.CACHE_DIR:
        keep_in(dispatcher, Path(numba.config.CACHE_DIR) / folder_name(str(source)))
        return
    if not source.exists():
        return
    sources = _source_digest(source.parent)
    directory = cache_directory()
    versioned = None if directory is None else directory / f"kernels-{sources}-{_compilers()}"
    if source.is_relative_to(_PACKAGE):
        name = ".".join(source.parent.relative_to(_PACKAGE).parts)
        if versioned is not None:
            keep_in(dispatcher, versioned / name, stamp=_NAMED_BY_CONTENT)
        if about := shipped.usable():
            folder = shipped.FOLDER / sources / name
            load_first_from(dispatcher, folder, about.target, stamp=_NAMED_BY_CONTENT)
    elif versioned is not None:
        keep_in(dispatcher, versioned / folder_name(str(source)))


def _called_as_part(dispatcher: Any) -> Any:
    """The same kernel; other kernels that call it link it as they do a subkernel."""
    part = allocating_subkernel(dispatcher.py_func)
    dispatcher.get_call_template = part.get_call_template
    dispatcher.get_overload = part.get_overload
    return dispatcher


def _widened(dispatcher: Any) -> Any:
    """The same kernel, compiled once for integers: numba would compile it anew for the constant 0
    with which many loops start, and with it everything it calls."""
    call_template = dispatcher.get_call_template

    def for_wide_types(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return call_template(tuple(map(numba.types.unliteral, args)), keywords)

    dispatcher.get_call_template = for_wide_types
    return dispatcher


def subkernel(function: _F) -> _F:
    """Compile `function` as part of the kernels that call it; Python itself can't call it.

    It may not make arrays. So it needs no reference counts, which would cost two atomic
    operations for each array it is given, in every call. Without them, without entry points for
    Python and C and without a cache of their own, subkernels also compile in half the time.
    """
    return cast(_F, _widened(numba.njit(_nrt=False, **_PART)(function)))


def allocating_subkernel(function: _F) -> _F:
    """The same for a function that makes arrays."""
    return cast(_F, _widened(numba.njit(**_PART)(function)))
