"""Kernels that an installation has as machine code, in an extension module.

A wheel for one platform holds them (see :mod:`.aot`). They need neither numba nor LLVM, which then
stay unloaded, and no cache. The module is named by the sources it was made of: where one of these
was changed it is not found, and kernels are compiled by numba as without it.
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
from typing import Any, Final

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


def runs_here(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this processor has what the kernels of a wheel use.

    :param cpuinfo: what Linux says of the processors
    """
    if platform.machine() not in {"x86_64", "AMD64"}:
        return True
    if sys.platform != "linux":
        return False
    try:
        text = cpuinfo.read_text("ascii", "replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(flags.split()) >= _X86_64_V3


@functools.cache
def kernels() -> ModuleType | None:
    """The extension module, or None: kernels are compiled by numba."""
    # To name it takes 10 ms.
    if os.environ.get("DEDUP_COMPILE") or not any(PACKAGE.glob("_kernels_*")):
        return None
    try:
        return importlib.import_module(f"dedup_middleware.{module_name()}") if runs_here() else None
    except ImportError as error:  # other sources, another Python, another NumPy
        logger.debug("no compiled kernels: %s", error)
        return None


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
