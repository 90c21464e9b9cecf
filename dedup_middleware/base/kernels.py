"""Decorators that compile kernels with numba, and the cache of their machine code.

numba caches kernels as pickles, opens them by path, and does not check their owner. Here each
kernel has one file, read and written by :class:`.TrustedFolder`. A kernel whose file can't be
trusted or is damaged is compiled anew; each folder that can't be used is logged once.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from dedup_middleware.base.cachefolder import TrustedFolder, cache_directory
from dedup_middleware.base.compiled import PACKAGE, source_digest
from dedup_middleware.base.errors import OptionsError

logger = logging.getLogger(__name__)
# numba logs whole functions at DEBUG, which is Scrapy's default level.
if (_numba_logger := logging.getLogger("numba")).level == logging.NOTSET:
    _numba_logger.setLevel(logging.INFO)

if numba.config.DISABLE_JIT:  # then numba's decorators return plain functions
    fix = "unset it: no compiled kernels are installed, or DEDUP_COMPILE is set"
    raise OptionsError("NUMBA_DISABLE_JIT", numba.config.DISABLE_JIT, fix)

_F = TypeVar("_F", bound=Callable[..., Any])
_PART: Final[dict[str, Any]] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_KERNEL: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy"}
#: first and last version of numba that :mod:`.parts` is tested with; other versions compile without
#: it, which takes twice as long
_TESTED: Final = ((0, 61), (0, 68))
#: whether this numba is such a version
PARTS_ARE_KNOWN: Final = _TESTED[0] <= numba.version_info.short <= _TESTED[1]
if PARTS_ARE_KNOWN:
    from dedup_middleware.base.parts import KernelCompiler, PartCompiler

    _PART["pipeline_class"] = PartCompiler
    _KERNEL.update(no_cfunc_wrapper=True, pipeline_class=KernelCompiler)
#: folders whose functions and constants are compiled into kernels of other folders
SOURCES: Final = ("base", "index", "model", "signature", "text")


@functools.cache
def _compiler_digest() -> str:
    versions = (numba.__version__, llvmlite.__version__, np.__version__)
    return hashlib.blake2b(" ".join(versions).encode(), digest_size=4).hexdigest()


def kernel(function: _F) -> _F:
    """Compile `function` with numba on first use; it runs without the interpreter lock.

    Machine code is kept in the cache directory (or in `NUMBA_CACHE_DIR`, if set). A kernel may use
    functions and constants of its own folder and of `SOURCES` only: the cache is named by the
    content of the sources there, so all installations of one version share it.
    """
    dispatcher = numba.njit(**_KERNEL)(function)
    if PARTS_ARE_KNOWN:
        dispatcher = _called_as_part(dispatcher)
    _keep(dispatcher, Path(function.__code__.co_filename))
    return cast(_F, dispatcher)


def _keep(dispatcher: Any, source: Path) -> None:
    """Cache the machine code of a kernel on disk, if a folder can be used."""
    function = dispatcher.py_func
    if function.__closure__ is not None:
        return
    directory = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else cache_directory()
    if directory is None:
        return
    name, folders = "others", {*SOURCES}
    try:
        content = source.read_bytes()
        if source.is_relative_to(PACKAGE):
            own = source.parent.relative_to(PACKAGE)
            name, content = ".".join(own.parts), b""
            folders.add(own.as_posix())
        # A kernel contains functions and constants of these folders, which may have changed.
        sources = _digest_once(*sorted(folders))
    except OSError as error:  # there is no file, as in a console, or it can't be read any more
        logger.debug("%s is compiled in every process: %s", function.__qualname__, error)
        return
    folder = TrustedFolder(directory / f"kernels-{sources}-{_compiler_digest()}" / name)
    try:
        folder.make()
        place = f"{function.__qualname__}-{function.__code__.co_firstlineno}"
        dispatcher._cache = _Cache(folder, f"{source.stem}.{place}", content)
    except OSError as error:
        _report(folder.path, error)


_digest_once: Final = functools.cache(source_digest)


def _called_as_part(dispatcher: Any) -> Any:
    """Let other kernels call a kernel as they call subkernels; returns the kernel."""
    part = subkernel(dispatcher.py_func, allocates=True)
    dispatcher.get_call_template = part.get_call_template
    dispatcher.get_overload = part.get_overload
    return dispatcher


def _widened(dispatcher: Any) -> Any:
    """Make a subkernel compile once for constant and variable integers. By itself numba compiles it
    anew, with all that it calls, for the constant 0 with which many loops start."""
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


class _Cache:
    """Cache of one kernel's machine code, in place of numba's own.

    :param name: name of the kernel, with its line: a file may have several of one name
    :param content: content of its source, if the folder's name does not depend on that
    """

    def __init__(self, folder: TrustedFolder, name: str, content: bytes) -> None:
        self.cache_path = str(folder.path)
        self._folder, self._name, self._content = folder, name, content

    def _file(self, signature: object, codegen: Any) -> str:
        python = sys.implementation.cache_tag, getattr(sys, "abiflags", "")
        made_for = str(signature), codegen.magic_tuple(), python, self._content
        digest = hashlib.blake2b(repr(made_for).encode(), digest_size=8).hexdigest()
        return f"{self._name}.{digest}.nbc"

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Load the kernel; None if the cache has nothing that can be used."""
        try:
            # Without this line numba loads its whole compiler first, in a quarter of a second.
            rtsys.initialize(target_context)
            kept = pickle.loads(self._folder.read(self._file(sig, target_context.codegen())))
            return CompileResult._rebuild(target_context, *kept)
        except FileNotFoundError:
            pass
        except OSError as error:
            _report(self._folder.path, error)
        except Exception as error:  # a damaged pickle may raise anything
            logger.info("The kernel %s is compiled anew: %r", self._name, error)
        # The cache has a folder for each version of the sources, and in it one for each package.
        _announce(self._folder.path.parents[1])
        return None

    def save_overload(self, sig: object, result: Any) -> None:
        """Cache a compiled kernel if possible."""
        if result.library.has_dynamic_globals:  # it holds addresses of this process
            return
        try:
            self._folder.make()
            self._folder.write(self._file(sig, result.codegen), dumps(result._reduce()))
        except OSError as error:
            _report(self._folder.path, error)
