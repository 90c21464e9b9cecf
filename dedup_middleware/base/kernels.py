"""The decorators that compile kernels with numba, and keep their machine code on disk."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import llvmlite
import numba
import numpy as np

from dedup_middleware.base.cachefolder import cache_directory
from dedup_middleware.base.compiled import PACKAGE, source_digest
from dedup_middleware.base.kernelcache import folder_name, keep_in

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
        name, stamp, folders = folder_name(str(source)), None, {*SOURCES}
    else:
        own = source.parent.relative_to(PACKAGE)
        name, stamp = ".".join(own.parts), _NAMED_BY_CONTENT
        folders = {own.as_posix(), *SOURCES}
    # numba looks only at the file of the outermost kernel; what that inlines, and constants that it
    # takes from other modules, may have changed.
    sources = _digest_once(*sorted(folders))
    keep_in(dispatcher, directory / f"kernels-{sources}-{_compilers()}" / name, stamp=stamp)


_digest_once: Final = functools.cache(source_digest)


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
