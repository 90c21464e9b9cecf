"""Compiles the kernels into an extension module, which a wheel for one platform carries.

``python -m dedup_middleware.base.aot FOLDER`` writes it to a folder; it belongs into the package's
own. The kernels are those of numba, compiled by its `numba.pycc`_ for a baseline processor and
linked with its runtime by the C compiler that built Python. :mod:`.compiled` loads the module.

.. _numba.pycc: https://numba.readthedocs.io/en/stable/user/pycc.html
"""

from __future__ import annotations

import importlib.util
import pkgutil
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dedup_middleware.base import compiled, jit
from dedup_middleware.base.kernels import PARTS_ARE_KNOWN

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


def build(folder: Path) -> Path:
    """Compile the kernels for this machine's baseline.

    :param folder: where the extension module is written
    :returns: the extension module
    :raises RuntimeError: there is no baseline for this machine, or this process uses compiled
        kernels
    """
    cpu = BASELINES.get(platform.machine())
    if cpu is None:
        known = ", ".join(sorted(BASELINES))
        raise RuntimeError(f"no kernels are compiled for {platform.machine()}; only for {known}")
    if compiled.kernels():
        raise RuntimeError("this installation has compiled kernels: set DEDUP_COMPILE=1")
    from numba.core import codegen
    from numba.core.pythonapi import PythonAPI
    from numba.pycc import CC, compiler

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
    with jit.garbage_kept():
        module.compile()
    return folder / str(module.output_file)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
