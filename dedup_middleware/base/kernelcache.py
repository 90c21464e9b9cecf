"""numba's cache of compiled kernels, kept in a folder that only this user can change.

numba keeps kernels as pickles, opens them by their path, and looks at no owner. This is numba's own
cache in its own format, whose files go through :class:`.TrustedFolder`. What can't be trusted, or
is damaged, is compiled anew; a warning says so once for each folder.
"""

from __future__ import annotations

import functools
import inspect
import logging
import pickle
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core.runtime import rtsys

from dedup_middleware.base.trustedfolder import TrustedFolder

logger = logging.getLogger(__name__)
_reported: set[Path] = set()


def folder_name(source: str) -> str:
    """Name of the folder for the kernels of a source file, as numba names it."""
    name: str = caching._CacheLocator.get_suitable_cache_subpath(source)
    return name


def keep_in(dispatcher: Any, folder: Path, stamp: object = None) -> None:
    """Keep a kernel's machine code in a folder, and load it from there.

    :param dispatcher: the kernel as numba made it, not compiled yet
    :param folder: made if it is missing; where it can't be trusted, nothing is kept
    :param stamp: version of the source; None: its size and the time of its last change
    """
    try:
        TrustedFolder(folder).make()
        dispatcher._cache = _Cache(dispatcher.py_func, folder, stamp)
    except OSError as error:
        _report(folder, error)


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
        "The functions that compare pages are compiled for this processor (10 to 60 s). This "
        "happens once for each version of the package; later starts load them from %s.",
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
            # numba would load all that it compiles with, a quarter of a second; this is enough.
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
