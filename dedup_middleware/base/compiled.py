"""Loads kernels that an installation has as machine code, in extension modules.

A wheel for one platform holds them (see :mod:`.aot`). They need no cache and neither numba nor
LLVM, which then stay unloaded. The name of a module is made from the sources of the kernels: after
a change of a source it is not found, and numba compiles the kernels. Further modules hold the
kernels that are faster with 512-bit vectors, for processors that have them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

from dedup_middleware.base.kerneltypes import Array, Signature
from dedup_middleware.base.settingfields import to_bool

logger = logging.getLogger(__name__)

PACKAGE: Final = Path(__file__).parents[1]
#: folders with kernels, or with code and constants that are compiled into kernels
FOLDERS: Final = (
    "base", "index", "index/memory", "methods", "methods/literature", "model", "signature",
    "text", "text/extraction",
)  # fmt: skip
# Features of x86-64 level 3 (psABI), as Linux names them: Intel since Haswell, AMD since Excavator.
_X86_64_V3: Final = frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
# Features of level 4: Intel's servers since 2017 (Skylake), AMD since 2022 (Zen 4).
_X86_64_V4: Final = _X86_64_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
#: features that a processor needs for the x86-64 modules, by suffix of the module, fastest first
VARIANTS: Final = {
    "_v4_popcnt": _X86_64_V4 | {"avx512_vpopcntdq"},  # Intel since 2019 (Ice Lake), AMD Zen 4
    "_v4": _X86_64_V4,
    "": _X86_64_V3,
}


def source_digest(*folders: str) -> str:
    """Digest of the sources in folders of the package, and of data compiled in as constants."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in folders:
        place = PACKAGE / folder
        for path in sorted([*place.glob("*.py"), *place.glob("data/*.txt")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def module_name() -> str:
    """Name of the extension module made from the current sources, without a suffix."""
    return f"_kernels_{source_digest(*FOLDERS)}"


def zmm_enabled() -> bool:
    """Whether the operating system enables 512-bit registers, by NumPy's test of the processor.

    A virtual machine may list AVX-512 without enabling it. False if NumPy lacks the test.
    """
    features = getattr(getattr(np, "_core", None), "_multiarray_umath", None)
    return bool(getattr(features, "__cpu_features__", {}).get("AVX512F", False))


def variants(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """Suffixes of the modules that this processor can run, the fastest first.

    The last is "", for the module with all kernels. No suffixes: the processor can run none.

    :param cpuinfo: Linux's list of processors; only flags that all of them have count
    """
    if platform.machine() not in {"x86_64", "AMD64"}:
        return ("",)
    if sys.platform != "linux":
        return ()
    try:
        text = cpuinfo.read_text("ascii", "replace")
    except OSError:
        return ()
    lines = (line.partition(":") for line in text.splitlines())
    each = [set(flags.split()) for name, _, flags in lines if name.strip() == "flags"]
    flags = set.intersection(*each) if each else set()
    if not zmm_enabled():
        flags = {flag for flag in flags if not flag.startswith("avx512")}
    return tuple(variant for variant, needed in VARIANTS.items() if flags >= needed)


@functools.cache
def _modules() -> tuple[ModuleType, ...]:
    """Import the extension modules for this processor, the one with all kernels last; or none."""
    # Checked first, because computing the name takes 10 ms.
    if _asks_for_numba() or not any(PACKAGE.glob("_kernels_*")):
        return ()
    names = [f"dedup_middleware.{module_name()}{variant}" for variant in variants()]
    found = [module for name in names if (module := _imported(name))]
    return tuple(found) if found and found[-1].__name__ == names[-1] else ()


def _asks_for_numba() -> bool:
    value = os.environ.get("DEDUP_COMPILE", "")
    try:
        return to_bool(value)
    except ValueError:
        logger.warning("DEDUP_COMPILE=%r is ignored: use 1 or 0", value)
        return False


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError as error:  # other sources, another Python, another NumPy
        logger.debug("no compiled kernels: %s", error)
        return None


def kernels() -> ModuleType | None:
    """The extension module with all kernels; None if numba has to compile them."""
    modules = _modules()
    return modules[-1] if modules else None


def code(name: str) -> Callable[..., Any]:
    """A kernel by its name in the extension modules, in the fastest version for this processor."""
    holder = next(module for module in _modules() if hasattr(module, name))
    return cast("Callable[..., Any]", getattr(holder, name))


def exported_name(function: Callable[..., Any]) -> str:
    """The name of a kernel in the extension module."""
    module = function.__module__.removeprefix(f"{PACKAGE.name}.")
    return f"{module}.{function.__qualname__}".replace(".", "__")


def checked(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Wrap a compiled kernel, so that it raises TypeError for arrays of another type.

    Unwrapped, it would read any array as if that had the right type.
    """
    arrays = tuple(
        (place, one.numpy_dtype, one.ndim, one.readonly)
        for place, one in enumerate(signature.arguments)
        if isinstance(one, Array)
    )

    def kernel(*arguments: Any) -> Any:
        for place, dtype, ndim, readonly in arrays:
            try:
                array = arguments[place]
                flags = array.flags
                fits = (
                    (array.dtype is dtype or array.dtype == dtype)
                    and array.ndim == ndim
                    and flags.c_contiguous
                    and (readonly or flags.writeable)
                )
            except (AttributeError, IndexError):
                fits = False
            if not fits:
                raise TypeError(f"argument {place} must be an array of {dtype}, {ndim}-dimensional")
        return function(*arguments)

    return kernel
