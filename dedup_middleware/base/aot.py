"""Compiles the kernels into an extension module, for a wheel of one platform or for a checkout.

``python -m dedup_middleware.base.aot FOLDER`` writes it to a folder, normally the package's own.
`numba.pycc`_ compiles the kernels for a baseline processor, and the C compiler that built Python
links them with numba's runtime. Kernels that are faster with 512-bit vectors are compiled again
into modules for such processors. :mod:`.compiled` loads the modules that fit. If the folder has the
module of the current sources, nothing is compiled; modules of other sources are removed.

.. _numba.pycc: https://numba.readthedocs.io/en/stable/user/pycc.html
"""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from dedup_middleware.base import compiled, jit

#: LLVM's name of the oldest processor that compiled kernels run on, by machine
BASELINES: Final = {
    "x86_64": "x86-64-v3",
    "AMD64": "x86-64-v3",
    "aarch64": "generic",
    "arm64": "apple-m1",
}
#: kernels that count bits in whole vectors, for which newer processors have an instruction
COUNTING: Final = frozenset(
    {
        "index__memory__bucket_kernels__look",
        "index__memory__bucket_kernels__propose",
        "index__pairing___pairs",
        "index__scan___gather",
        "index__scan___scan",
        "signature__hamming___within",
        "signature__minhash___jaccards",
    }
)
#: all kernels that are faster with 512-bit vectors; docs/decisions.md has the measurements
WIDE: Final = COUNTING | {"signature__minhash___minhash", "signature__simhash___weigh"}
# Modules for newer x86-64 processors, by suffix of the module name: LLVM's name of the oldest such
# processor, its required further features, and the kernels.
_BETTER: Final = {
    "_v4_popcnt": ("x86-64-v4", "+avx512vpopcntdq", COUNTING),
    "_v4": ("x86-64-v4", "", WIDE),
}
_PACKAGES: Final = ("signature", "text", "index", "methods")


def declared_kernels() -> dict[str, Any]:
    """Import all kernels of the package, and return them by their names in the extension module."""
    modules = []
    for name in _PACKAGES:
        package = importlib.import_module(f"{compiled.PACKAGE.name}.{name}")
        below = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        modules += [importlib.import_module(one.name) for one in below]
    return {
        compiled.exported_name(one.py_func): one
        for module in modules
        for one in vars(module).values()
        if hasattr(one, "declared")
    }


def build(folder: Path, variants: Collection[str] = compiled.VARIANTS.keys()) -> list[Path]:
    """Compile the kernels for this machine's baseline, and some of them for newer processors.

    :param variants: suffixes of the modules to compile; those for other machines are ignored
    :returns: the extension modules in the folder, the one with all kernels last
    :raises RuntimeError: this machine has no baseline or no compiler, a kernel can't be compiled,
        or this process uses compiled kernels
    """
    cpu = BASELINES.get(platform.machine())
    if cpu is None:
        known = ", ".join(sorted(BASELINES))
        raise RuntimeError(f"no kernels are compiled for {platform.machine()}; only for {known}")
    if compiled.kernels():
        raise RuntimeError("this installation has compiled kernels: set DEDUP_COMPILE=1")
    from numba.core import codegen

    try:
        compiler = _compiler()
        kernels = declared_kernels()
        targets = {**(_BETTER if cpu == "x86-64-v3" else {}), "": (cpu, "", kernels.keys())}
        built = []
        with jit.garbage_kept():
            for variant, (least, features, wanted) in targets.items():
                if variant not in variants:
                    continue
                module = compiler(f"{compiled.module_name()}{variant}", source_module=__name__)
                module.target_cpu, module.output_dir = least, str(folder)
                # pycc has no option for further processor features.
                codegen.AOTCPUCodegen._customize_tm_features = lambda _, more=features: more
                for name in sorted(wanted):
                    module.export(name, kernels[name].declared)(kernels[name].py_func)
                module.compile()
                built.append(folder / str(module.output_file))
    # setuptools' errors have no base class of their own; numba.pycc needs setuptools.
    except Exception as error:
        raise RuntimeError(f"the kernels can't be compiled: {error}") from error
    return built


Build = Callable[[Path], list[Path]]


def ensure(folder: Path, build: Build = build) -> Path:
    """Compile the kernels into a folder, unless it has them already.

    Each module appears in one step, so that no process loads half of it, and the one with all
    kernels last. Modules of other sources are removed; modules of these sources stay, also those
    for another Python.

    :param build: compiles the kernels into a temporary folder, as :func:`build` does
    :returns: the extension module with all kernels
    :raises RuntimeError: as :func:`build` does
    :raises OSError: the folder can't be written to
    """
    name = compiled.module_name()
    module = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not module.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".kernels-") as place:
            for built in build(Path(place)):
                built.replace(folder / built.name)
    for old in folder.glob("_kernels_*"):
        if not old.name.startswith((f"{name}.", f"{name}_")):
            old.unlink(missing_ok=True)
    return module


def _compiler() -> Any:
    """numba's compiler of extension modules, with flags of kernels and :class:`.ModuleLibrary`."""
    from numba.core import codegen
    from numba.core.pythonapi import PythonAPI
    from numba.pycc import CC, compiler
    from numba.pycc.platform import external_compiler_works

    if not external_compiler_works():
        raise RuntimeError("a C and a C++ compiler are needed (Debian: apt install gcc g++)")

    from dedup_middleware.base.kernels import PARTS_ARE_KNOWN

    if PARTS_ARE_KNOWN:
        from dedup_middleware.base.parts import ModuleLibrary, unserialize_once

        codegen.AOTCPUCodegen._library_class = ModuleLibrary
        PythonAPI.unserialize = unserialize_once

    numba_flags = compiler.Flags

    def flags() -> Any:
        """Flags as :mod:`.kernels` sets them; pycc has no option for them."""
        new = numba_flags()
        new.release_gil, new.error_model = True, "numpy"
        return new

    compiler.Flags = flags
    return CC


def main(folder: Path, build: Build = build) -> int:
    """Run :func:`ensure`; print an error in one line. Returns the exit code."""
    try:
        ensure(folder, build)
    except (OSError, RuntimeError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
