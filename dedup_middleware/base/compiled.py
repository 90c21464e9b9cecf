"""Kernels that an installation has as machine code, in an extension module.

A wheel for one platform holds them (see :mod:`.aot`). They need neither numba nor LLVM, which then
stay unloaded, and no cache. The module is named by the sources it was made of: where one of these
was changed it is not found, and kernels are compiled by numba as without it. Further modules hold
those kernels that gain by vectors of 512 bits, for processors that have them.
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

logger = logging.getLogger(__name__)

PACKAGE: Final = Path(__file__).parents[1]
#: folders that hold kernels, or what is compiled into them
FOLDERS: Final = (
    "base", "index", "index/memory", "methods", "methods/literature", "model", "signature",
    "spark", "text", "text/extraction",
)  # fmt: skip
# What level 3 of the psABI's x86-64 has beyond AVX2, as Linux names it: Intel since 2013 (Haswell),
# AMD since 2015 (Excavator).
_X86_64_V3: Final = frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
# The same of level 4: Intel's servers since 2017 (Skylake), AMD since 2022 (Zen 4).
_X86_64_V4: Final = _X86_64_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
#: what a processor must have for the modules of x86-64, by the ends of their names, best ones first
VARIANTS: Final = {
    "_v4_popcnt": _X86_64_V4 | {"avx512_vpopcntdq"},  # Intel since 2019 (Ice Lake), AMD Zen 4
    "_v4": _X86_64_V4,
    "": _X86_64_V3,
}


def source_digest(*folders: str) -> str:
    """Digest of the sources in folders of the package, and of the data made into constants."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in folders:
        place = PACKAGE / folder
        for path in sorted([*place.glob("*.py"), *place.glob("data/*.txt")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def module_name() -> str:
    """Name of the extension module with the kernels of these sources."""
    return f"_kernels_{source_digest(*FOLDERS)}"


def zmm_enabled() -> bool:
    """Whether the operating system keeps registers of 512 bits, by what NumPy asked the processor.

    A virtual machine may name AVX-512 and not let it be used. Where NumPy does not say, it is no.
    """
    features = getattr(getattr(np, "_core", None), "_multiarray_umath", None)
    return bool(getattr(features, "__cpu_features__", {}).get("AVX512F", False))


def variants(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """Ends of the names of the modules that this processor can run, the best first; if any, the
    last is that with all kernels.

    :param cpuinfo: what Linux says of the processors; flags that it does not list are not used
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
    """The extension modules for this processor, the one with all kernels last; or none."""
    # To name it takes 10 ms.
    if os.environ.get("DEDUP_COMPILE") or not any(PACKAGE.glob("_kernels_*")):
        return ()
    names = [f"dedup_middleware.{module_name()}{variant}" for variant in variants()]
    found = [module for name in names if (module := _imported(name))]
    return tuple(found) if found and found[-1].__name__ == names[-1] else ()


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError as error:  # other sources, another Python, another NumPy
        logger.debug("no compiled kernels: %s", error)
        return None


def kernels() -> ModuleType | None:
    """The extension module with all kernels, or None: kernels are compiled by numba."""
    modules = _modules()
    return modules[-1] if modules else None


def code(name: str) -> Callable[..., Any]:
    """A kernel by its name in the extension modules, as compiled best for this processor."""
    holder = next(module for module in _modules() if hasattr(module, name))
    return cast("Callable[..., Any]", getattr(holder, name))


def exported_name(function: Callable[..., Any]) -> str:
    """The name of a kernel in the extension module."""
    module = function.__module__.removeprefix(f"{PACKAGE.name}.")
    return f"{module}.{function.__qualname__}".replace(".", "__")


def checked(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """A compiled kernel, which by itself reads any array as if it were of the right type.

    :raises TypeError: by the kernel: an argument of another type
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
