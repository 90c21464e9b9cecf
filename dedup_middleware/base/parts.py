"""Changes numba's compiler so that subkernels become machine code only as parts of kernels.

By itself numba optimises and translates every function, and optimises it again in all functions
that call it, directly or not. Only kernels call subkernels. So these are compiled to LLVM code
without optimisation; a kernel links all code that it calls, and optimises and translates it once.

This uses internals of numba: before `kernels` uses it with another version, run all tests.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any, ClassVar, Final, cast

from llvmlite import binding as llvm
from numba import _dynfunc, types
from numba.core import cgutils, codegen, targetconfig, typed_passes, untyped_passes
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel.models import OpaqueModel
from numba.core.datamodel.registry import register_default
from numba.core.pythonapi import PythonAPI

#: Passes for features that kernels do not use: closures, `with`, computed exceptions, loops over
#: types, expressions of whole arrays, listings of types.
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
        typed_passes.NopythonRewrites,
        typed_passes.AnnotateTypes,
    }
)


class _PartLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of a subkernel, not optimised, without the code of the functions that it calls."""

    _linking_libraries: list[Any]

    def _optimize_functions(self, module: Any) -> None:
        """Do not optimise; the kernel does."""
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Do not translate; the kernel does."""
        self._finalized = True


class _Whole:
    """Mixin for a library of numba: code of kernels and of all functions that they call."""

    _linking_libraries: list[Any]
    _codegen: Any
    _final_module: Any

    def _optimize_functions(self, module: Any) -> None:
        """Do not optimise; :meth:`finalize` does."""
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link the code of subkernels, then optimise and translate all of it."""
        libraries: dict[Any, None] = {}
        _collect(self._linking_libraries, libraries)
        self._linking_libraries = list(libraries)
        super().finalize()  # type: ignore[misc]

    def _optimize_final_module(self) -> None:
        """Optimise once: numba's cheap passes before this would inline loops not yet vectorised."""
        passes = self._codegen._module_pass_manager()
        if isinstance(passes, tuple):
            manager, builder = passes
            manager.run(self._final_module, builder)
        else:  # numba 0.61
            passes.run(self._final_module)


class _KernelLibrary(_Whole, codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code of one kernel."""

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Serialise for the cache. The LLVM code is slow to load and nothing links it, so it is cut
        down to the names of entry points, from which numba sees what the library has."""
        name, kind, (code, _) = super().serialize_using_object_code()
        entries = [one.name for one in self._final_module.functions if not one.is_declaration]
        names = "".join(f'define void @"{entry}"() {{ ret void }}\n' for entry in entries)
        return name, kind, (code, bytes(llvm.parse_assembly(names).as_bitcode()))


class ModuleLibrary(_Whole, codegen.AOTCodeLibrary):  # type: ignore[misc]
    """Code of all kernels of an extension module."""


_unserialize = PythonAPI.unserialize


def unserialize_once(self: Any, pointer: Any) -> Any:
    """Generate code that unpickles an object once. Otherwise each array that an extension module
    returns unpickles its class, which takes .3 us."""
    memo = cgutils.add_global_variable(self.module, self.pyobj, f"once{pointer.name}")
    memo.initializer, memo.linkage = memo.type.pointee(None), "internal"
    with self.builder.if_then(cgutils.is_null(self.builder, self.builder.load(memo))):
        self.builder.store(_unserialize(self, pointer), memo)
    found = self.builder.load(memo)
    self.incref(found)
    return found


def _collect(libraries: list[Any], seen: dict[Any, None]) -> None:
    """Add libraries to `seen`, each of a subkernel followed by the libraries that it calls."""
    for library in libraries:
        if library not in seen:
            seen[library] = None
            if isinstance(library, _PartLibrary):
                _collect(library._linking_libraries, seen)


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Makes the LLVM code of a kernel."""

    _name = "dedup_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower and translate."""
        library = _KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        state.library = library
        with _lowering(state):
            return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Makes the LLVM code of a subkernel and lets kernels call it."""

    _name = "dedup_part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, and register the code for kernels."""
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        with _lowering(state):
            super().run_pass(state)
        lowered = state["cr"]
        description = lowered.fndesc
        # numba registers functions by entry point; this one has no code and is never called.
        entry_point = _dynfunc.make_function(
            description.lookup_module(), description.qualname, "", 0, lowered.env, (state.library,)
        )
        state["cr"] = lowered._replace(cfunc=entry_point)
        state.targetctx.insert_user_function(entry_point, description, [state.library])
        # numba 0.61 has no _reload_init
        state.reload_init.extend(getattr(state.library, "_reload_init", ()))
        return True


class _CachedTyping:
    """Typing context that resolves equal calls of numba's own functions once.

    numba tries all overloads of an operator at each use: that took two fifths of type inference.

    :param flags: flags of the compilation, on which signatures may depend
    """

    def __init__(self, context: Any, flags: str) -> None:
        self._context = context
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """The signature of a call, None if there is none."""
        return self._resolved(function, args, keywords, self._context.resolve_function_type)

    def _resolved(self, function: Any, args: Any, keywords: Any, resolve: Any) -> Any:
        if type(function) is not types.Function:
            return resolve(function, args, keywords)
        call = (function, tuple(args), tuple(sorted(keywords.items())), self._flags)
        found = _signatures.get(call)
        if found is None:
            signature = resolve(function, args, keywords)
            if signature is None or signature.args not in function._impl_keys:
                return signature
            found = _signatures[call] = (signature, function._impl_keys[signature.args])
        # numba looks up the implementation in _impl_keys.
        signature, function._impl_keys[signature.args] = found
        return signature


class _LoweringTyping(_CachedTyping):
    """:class:`_CachedTyping` for lowering, which resolves operators again without the context."""

    def resolve_value_type(self, value: Any) -> Any:
        """The type of a global."""
        found = self._context.resolve_value_type(value)
        return _CachedFunction(found) if type(found) is types.Function else found

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """The signature of a call, None if there is none."""
        original = getattr(function, "original", function)
        return super().resolve_function_type(original, args, keywords)

    def call_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """The signature of a call, which exists."""

        def resolve(function: Any, args: Any, keywords: Any) -> Any:
            return function.get_call_type(self._context, args, keywords)

        return self._resolved(function, args, keywords, resolve)


class _CachedFunction(types.Function):  # type: ignore[misc]
    """One of numba's own functions, whose equal calls are resolved once."""

    def __init__(self, original: Any) -> None:
        self.__dict__.update(original.__dict__)
        self.original = original

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature of a call."""
        if isinstance(context, _LoweringTyping):
            return context.call_type(self.original, args, kws)
        return self.original.get_call_type(context, args, kws)


register_default(_CachedFunction)(OpaqueModel)
_signatures: dict[Any, Any] = {}
_common: dict[str, Any] = {}


def _common_flags(flags: Any) -> Any:
    """Flags without those for wrappers, so that kernels and subkernels share one set.

    numba compiles its own functions anew for each different set of flags.
    """
    summary = flags.summary()
    if summary not in _common:
        common = flags.copy()
        common.no_cpython_wrapper = common.no_cfunc_wrapper = True
        _common[summary] = _common.setdefault(common.summary(), common)
    return _common[summary]


@contextlib.contextmanager
def _lowering(state: Any) -> Iterator[None]:
    """Make lowering reuse types and sizes that were computed before."""
    target = state.targetctx  # a copy for this compilation
    typing, flags = target.typing_context, _common_flags(state.flags)
    target.typing_context = _LoweringTyping(typing, flags.summary())
    # numba parses LLVM code to compute a size.
    target.get_abi_sizeof = functools.cache(target.get_abi_sizeof)
    try:
        with targetconfig.ConfigStack().enter(flags):
            yield
    finally:
        target.typing_context = typing
        del target.get_abi_sizeof


@register_pass(mutates_CFG=True, analysis_only=False)
class _Typing(typed_passes.NopythonTypeInference):  # type: ignore[misc]
    """Type inference with :class:`_CachedTyping`."""

    _name = "dedup_type_inference"

    def run_pass(self, state: Any) -> bool:
        """Infer types."""
        context, flags = state.typingctx, _common_flags(state.flags)
        state.typingctx = _CachedTyping(context, flags.summary())
        try:
            with targetconfig.ConfigStack().enter(flags):
                return bool(super().run_pass(state))
        finally:
            state.typingctx = context


def _load_numba_without_blas() -> None:
    """Import ``numba.np.arraymath`` without importing SciPy, as numba does to see if it exists.

    Looking for SciPy takes no time, importing it a third of a second. If a function needs BLAS,
    numba checks again and imports SciPy then.
    """

    def check_scipy() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("scipy is required for linear algebra")

    if "numba.np.arraymath" in sys.modules:
        return
    linalg = cast("Any", importlib.import_module("numba.np.linalg"))
    original = getattr(linalg, "ensure_blas", None)
    if original is None:
        return
    linalg.ensure_blas = check_scipy
    try:
        cast("Any", importlib.import_module("numba.np.arraymath")).ensure_blas = original
    finally:
        linalg.ensure_blas = original


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler with cached typing, fewer passes and another lowering."""

    lowering: ClassVar[type] = _KernelLowering

    def __init__(self, *arguments: Any) -> None:
        _load_numba_without_blas()  # the next line loads all of numba
        super().__init__(*arguments)

    def define_pipelines(self) -> list[Any]:
        """numba's passes, with type inference and lowering replaced and unused passes left out."""
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
    """Compiler of subkernels, which ends with LLVM code."""

    lowering: ClassVar[type] = _PartLowering
