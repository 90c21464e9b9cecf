"""Compiles the kernels into an extension module, for a wheel of one platform or for a checkout.

``python -m dedup_middleware.base.aot FOLDER`` writes it to a folder; it belongs into the package's
own. The kernels are those of numba, compiled by its `numba.pycc`_ for a baseline processor and
linked with its runtime by the C compiler that built Python. :mod:`.compiled` loads the module.
Where the folder has the module of these sources nothing is done, and modules of others are removed.

.. _numba.pycc: https://numba.readthedocs.io/en/stable/user/pycc.html
"""

from __future__ import annotations

import importlib.util
import pkgutil
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dedup_middleware.base import compiled, jit

#: LLVM's names of the least processor that compiled kernels run on
BASELINES: Final = {
    "x86_64": "x86-64-v3",
    "AMD64": "x86-64-v3",
    "aarch64": "generic",
    "arm64": "apple-m1",
}
_PACKAGES: Final = ("signature", "text", "index", "methods")


def declared_kernels() -> dict[str, Any]:
    """All kernels of the package, by the names that they have in the extension module."""
    modules = [_alone("spark.pairing")]
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


def _alone(name: str) -> ModuleType:
    """A module without its package, whose other modules need PySpark."""
    whole = f"{compiled.PACKAGE.name}.{name}"
    if whole in sys.modules:
        return sys.modules[whole]
    file = compiled.PACKAGE / f"{name.replace('.', '/')}.py"
    spec = importlib.util.spec_from_file_location(whole, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[whole] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ensure(folder: Path) -> Path:
    """Compile the kernels into a folder, unless it has them already.

    The module appears in one step, so that no process loads half of it. Modules of other sources
    are removed; those of these sources for another Python stay.

    :param folder: of the package, or any other
    :returns: the extension module
    :raises RuntimeError: as :func:`build` does
    :raises OSError: the folder can't be written to
    """
    name = compiled.module_name()
    module = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not module.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".kernels-") as place:
            build(Path(place)).replace(module)
    for old in folder.glob("_kernels_*"):
        if not old.name.startswith(f"{name}."):
            old.unlink(missing_ok=True)
    return module


def build(folder: Path) -> Path:
    """Compile the kernels for this machine's baseline.

    :param folder: where the extension module is written
    :returns: the extension module
    :raises RuntimeError: there is no baseline for this machine, no compiler, or this process uses
        compiled kernels
    """
    cpu = BASELINES.get(platform.machine())
    if cpu is None:
        known = ", ".join(sorted(BASELINES))
        raise RuntimeError(f"no kernels are compiled for {platform.machine()}; only for {known}")
    if compiled.kernels():
        raise RuntimeError("this installation has compiled kernels: set DEDUP_COMPILE=1")
    try:
        module = _module(folder, cpu)
        with jit.garbage_kept():
            module.compile()
    # setuptools' errors have no base class of their own; numba.pycc needs setuptools.
    except Exception as error:
        raise RuntimeError(f"the kernels can't be compiled: {error}") from error
    return folder / str(module.output_file)


def _module(folder: Path, cpu: str) -> Any:
    """numba's compiler of an extension module, with all kernels."""
    from numba.core import codegen
    from numba.core.pythonapi import PythonAPI
    from numba.pycc import CC, compiler

    from dedup_middleware.base.kernels import PARTS_ARE_KNOWN

    if PARTS_ARE_KNOWN:
        from dedup_middleware.base.parts import ModuleLibrary, unserialize_once

        codegen.AOTCPUCodegen._library_class = ModuleLibrary
        PythonAPI.unserialize = unserialize_once

    numba_flags = compiler.Flags

    def flags() -> Any:
        """Those of numba's own compilation of kernels; pycc has no option for them."""
        made = numba_flags()
        made.release_gil, made.error_model = True, "numpy"
        return made

    compiler.Flags = flags
    module = CC(compiled.module_name(), source_module=__name__)
    module.target_cpu = cpu
    module.output_dir = str(folder)
    for name, kernel in declared_kernels().items():
        module.export(name, kernel.declared)(kernel.py_func)
    return module


def main(folder: Path) -> int:
    """Compile the kernels, or say in one line why that is not possible; the exit code."""
    try:
        ensure(folder)
    except (OSError, RuntimeError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
