"""The compiler of functions that exist only inside kernels.

numba optimises every function by itself, with all that it calls, makes machine code of it, and does
both again for each caller. A function five calls deep is optimised six times, and of the machine
code of a part nothing is ever run. Here a part stays as it was lowered; only the kernel that
contains it is optimised, once, with all its parts in one module, which LLVM inlines from the bottom
up as before.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of one part, for linking into kernels only."""

    def _optimize_final_module(self) -> None:
        """Leave optimisation to the kernels."""

    def _finalize_final_module(self) -> None:
        """Take the module as it is; the engine that makes machine code gets only its variables."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        # numba writes the address of each function's environment into a variable, which must
        # therefore have an address. Parts raise nothing and make no Python objects: none reads it.
        names = (v.name for v in self._final_module.global_variables if "NumbaEnv" in v.name)
        text = "\n".join(f'@"{name}" = common global i64 0' for name in names)
        variables = binding.parse_assembly(text)
        variables.data_layout = self._codegen._data_layout
        self._codegen._add_module(variables)
        self._finalized = True


class PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, whose result can be linked and not called."""

    def define_pipelines(self) -> Any:
        """numba's own passes; what differs is what becomes of the LLVM code they make."""
        if self.state.library is None:
            codegen = self.state.targetctx.codegen()
            self.state.library = _PartLibrary(codegen, self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()
