"""The decorators that compile kernels with numba, and the cache of their machine code.

numba keeps kernels as pickles, opens them by their path, and looks at no owner. This is numba's own
cache in its own format, whose files go through :class:`.TrustedFolder`. What can't be trusted, or
is damaged, is compiled anew; a warning says so once for each folder.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import pickle
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core import caching
from numba.core.runtime import rtsys

from dedup_middleware.base.cachefolder import TrustedFolder, cache_directory
from dedup_middleware.base.compiled import PACKAGE, source_digest

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
#: whether this is such a version
PARTS_ARE_KNOWN: Final = _TESTED[0] <= numba.version_info.short <= _TESTED[1]
if PARTS_ARE_KNOWN:
    from dedup_middleware.base.parts import KernelCompiler, PartCompiler

    _PART["pipeline_class"] = PartCompiler
    _KERNEL.update(no_cfunc_wrapper=True, pipeline_class=KernelCompiler)
_NAMED_BY_CONTENT: Final = 0  # the version of a source whose content is in the folder's name
#: folders whose functions and constants are compiled into kernels of others
SOURCES: Final = ("base", "index", "model", "signature", "text")


@functools.cache
def _compilers() -> str:
    versions = (numba.__version__, llvmlite.__version__, np.__version__)
    return hashlib.blake2b(" ".join(versions).encode(), digest_size=4).hexdigest()


def kernel(function: _F) -> _F:
    """Compile `function` with numba on first use; it runs without the interpreter lock.

    Machine code is kept on disk in the cache directory (`NUMBA_CACHE_DIR`, if set, wins), so
    a package directory or a home that is read-only is no error. A kernel may use functions and
    constants of its own folder and of `SOURCES`: the cache is named by the content of the sources
    there, so all installations of one version share it, wherever they are.
    """
    dispatcher = numba.njit(**_KERNEL)(function)
    if PARTS_ARE_KNOWN:
        dispatcher = _called_as_part(dispatcher)
    _keep(dispatcher, Path(function.__code__.co_filename))
    return cast(_F, dispatcher)


def _keep(dispatcher: Any, source: Path) -> None:
    """Let a kernel of a source file keep its machine code on disk, if there is a place for it."""
    if not source.exists():
        return
    directory = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else cache_directory()
    if directory is None:
        return
    if not source.is_relative_to(PACKAGE):
        name = caching._CacheLocator.get_suitable_cache_subpath(str(source))
        stamp, folders = None, {*SOURCES}
    else:
        own = source.parent.relative_to(PACKAGE)
        name, stamp = ".".join(own.parts), _NAMED_BY_CONTENT
        folders = {own.as_posix(), *SOURCES}
    # numba looks only at the file of the outermost kernel; what that inlines, and constants that it
    # takes from other modules, may have changed.
    sources = _digest_once(*sorted(folders))
    folder = directory / f"kernels-{sources}-{_compilers()}" / name
    try:
        TrustedFolder(folder).make()
        dispatcher._cache = _Cache(dispatcher.py_func, folder, stamp)
    except OSError as error:
        _report(folder, error)


_digest_once: Final = functools.cache(source_digest)


def _called_as_part(dispatcher: Any) -> Any:
    """The same kernel; other kernels that call it link it as they do a subkernel."""
    part = subkernel(dispatcher.py_func, allocates=True)
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


def subkernel(function: _F, *, allocates: bool) -> _F:
    """See :func:`.jit.subkernel` and :func:`.jit.allocating_subkernel`."""
    return cast(_F, _widened(numba.njit(_nrt=allocates, **_PART)(function)))


_reported: set[Path] = set()


def _report(folder: Path, error: Exception) -> None:
    if folder in _reported:
        return
    _reported.add(folder)
    logger.warning(
        "The kernels in %s are not used, they are compiled in every process (about 25 s): %s. "
        "Remove it, or set DEDUP_CACHE_DIR (or NUMBA_CACHE_DIR, if you set it) to a directory "
        "that only you can write to.",
        folder,
        error,
    )


@functools.cache
def _announce(cache: Path) -> None:
    logger.info(
        "The functions that compare pages are compiled for this processor (10 to 60 s; those that "
        "only some settings use take a few, when they are first used). Each is compiled once for "
        "a version of the package; later starts load it from %s.",
        cache,
    )


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]
    """Where the kernels of a function are, and the version of its source."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._py_file = inspect.getfile(function)
        self._lineno = function.__code__.co_firstlineno
        self._folder = folder

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        TrustedFolder(self._folder).make()


class _Results(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """What numba writes down of a compiled function."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Locator(function, folder)
        name = f"{Path(inspect.getfile(function)).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class _Files(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Index and data of one function; both are pickles."""

    def __init__(self, folder: Path, name: str, stamp: object) -> None:
        super().__init__(str(folder), name, stamp)
        self._folder = TrustedFolder(folder)

    def _load_index(self) -> dict[Any, str]:
        try:
            raw = BytesIO(self._folder.read(self._index_name))
            if pickle.load(raw) != self._version:
                return {}
            stamp, overloads = pickle.load(raw)
        except FileNotFoundError:
            return {}
        except OSError:
            raise
        except Exception as error:  # a damaged pickle may raise anything
            logger.info("%s is written anew: %r", self._index_path, error)
            return {}
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        try:
            raw = self._folder.read(name)
        except OSError as error:
            # numba passes over it in silence.
            if not isinstance(error, FileNotFoundError):
                _report(self._folder.path, error)
            raise
        return pickle.loads(raw)

    def _save_index(self, overloads: dict[Any, str]) -> None:
        version = pickle.dumps(self._version, protocol=-1)
        content = self._dump((self._source_stamp, overloads))
        self._folder.write(self._index_name, version + content)

    def _save_data(self, name: str, data: object) -> None:
        self._folder.write(name, self._dump(data))


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, in a folder of our choice."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: object) -> None:
        self._name = repr(function)
        self._py_func = function
        self._impl = _Results(function, folder)
        self._cache_path = str(folder)
        if stamp is None:
            stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Files(folder, self._impl.filename_base, stamp)
        self.enable()

    def load_overload(self, sig: object, target_context: object) -> Any:
        """What is kept of a function; None if there is nothing that can be used."""
        kept = self._load(sig, target_context)
        if kept is None:
            # Below it are a folder for each version of the sources and one for each package.
            _announce(Path(self._cache_path).parents[1])
        return kept

    def _load(self, sig: object, target_context: object) -> Any:
        try:
            # Without this line numba loads its whole compiler first: a quarter of a second.
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except OSError as error:
            _report(Path(self._cache_path), error)
        except Exception as error:  # a damaged pickle may raise anything
            logger.info("The kernel %s is compiled anew: %r", self._name, error)
        return None

    def save_overload(self, sig: object, data: object) -> None:
        """Keep a compiled function; where that can't be done it is used all the same."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _report(Path(self._cache_path), error)
