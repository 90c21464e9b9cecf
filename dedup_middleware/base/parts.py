"""How numba's compiler is used: subkernels become machine code only within kernels.

By itself numba optimises and translates every function, optimises it again in each function that
calls it, and in each that calls that. Subkernels are called by kernels only. So they are compiled
to LLVM code without optimisation; a kernel links the code of all that it calls, and all of it is
optimised and translated there, once.

These are internals of numba: after an upgrade run the kernel tests.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from numba import _dynfunc, types
from numba.core import codegen, typed_passes, untyped_passes
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass

#: Passes for what kernels do not use: closures, `with`, computed exceptions, loops over types.
_NOT_NEEDED: Final = frozenset(
    {
        untyped_passes.WithLifting,
        untyped_passes.InlineClosureLikes,
        untyped_passes.MakeFunctionToJitFunction,
        untyped_passes.InlineInlinables,
        untyped_passes.FindLiterallyCalls,
        untyped_passes.LiteralUnroll,
        untyped_passes.LiteralPropagationSubPipelinePass,
        typed_passes.InlineOverloads,
    }
)


class _PartLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of a subkernel, not optimised, without the code of what it calls."""

    _linking_libraries: list[Any]

    def _optimize_functions(self, module: Any) -> None:
        """Left to the kernel."""
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Nothing is left to do."""
        self._finalized = True

    def with_calls(self, seen: dict[Any, None]) -> None:
        """Add this library, and those of all that it calls, to `seen`."""
        seen[self] = None
        _collect(self._linking_libraries, seen)


class _KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code of a kernel and of all that it calls."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        """Take in the code of subkernels, then optimise and translate all of it."""
        libraries: dict[Any, None] = {}
        _collect(self._linking_libraries, libraries)
        self._linking_libraries = list(libraries)
        super().finalize()

    def _optimize_final_module(self) -> None:
        """Optimise once: numba's cheap passes before it would inline loops not yet vectorised."""
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)


def _collect(libraries: list[Any], seen: dict[Any, None]) -> None:
    for library in libraries:
        if library in seen:
            continue
        if isinstance(library, _PartLibrary):
            library.with_calls(seen)
        else:
            seen[library] = None


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Makes the LLVM code of a kernel."""

    _name = "dedup_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower and translate."""
        library = _KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        state.library = library
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Makes the LLVM code of a subkernel and lets kernels call it."""

    _name = "dedup_part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, and register the code."""
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        description = lowered.fndesc
        # numba keeps functions by their entry point; this one is never called, it has no code.
        entry_point = _dynfunc.make_function(
            description.lookup_module(), description.qualname, "", 0, lowered.env, (state.library,)
        )
        state["cr"] = lowered._replace(cfunc=entry_point)
        state.targetctx.insert_user_function(entry_point, description, [state.library])
        # numba 0.61 has none
        state.reload_init.extend(getattr(state.library, "_reload_init", ()))
        return True


class _CachedTyping:
    """A typing context that resolves a call of one of numba's own functions once.

    numba tries every overload of an operator for each use; that was two fifths of type inference.

    :param flags: those of the compilation; signatures may depend on them
    """

    def __init__(self, context: Any, flags: str) -> None:
        self._context = context
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """The signature of a call, None if there is none."""
        if type(function) is not types.Function:
            return self._context.resolve_function_type(function, args, keywords)
        call = (function, tuple(args), tuple(sorted(keywords.items())), self._flags)
        found = _signatures.get(call)
        if found is None:
            found = self._context.resolve_function_type(function, args, keywords)
            if found is not None:
                _signatures[call] = found
        return found


_signatures: dict[Any, Any] = {}


@register_pass(mutates_CFG=True, analysis_only=False)
class _Typing(typed_passes.NopythonTypeInference):  # type: ignore[misc]
    """Type inference with :class:`_CachedTyping`."""

    _name = "dedup_type_inference"

    def run_pass(self, state: Any) -> bool:
        """Infer types."""
        context = state.typingctx
        state.typingctx = _CachedTyping(context, state.flags.summary())
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = context


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler with another last step."""

    lowering: ClassVar[type] = _KernelLowering

    def define_pipelines(self) -> list[Any]:
        """numba's passes, the lowering replaced."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        replaced = {
            typed_passes.NativeLowering: self.lowering,
            typed_passes.NopythonTypeInference: _Typing,
        }
        pipeline.passes[:] = [
            (replaced.get(one, one), text)
            for one, text in pipeline.passes
            if one not in _NOT_NEEDED
        ]
        pipeline.finalize()
        return [pipeline]


class PartCompiler(KernelCompiler):
    """The same up to LLVM code."""

    lowering: ClassVar[type] = _PartLowering
