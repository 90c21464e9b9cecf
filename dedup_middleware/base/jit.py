"""Decorators that declare kernels, and functions that compile or load them."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import compiled
from dedup_middleware.base.cachefolder import taking_turns
from dedup_middleware.base.kerneltypes import Signature

_F = TypeVar("_F", bound=Callable[..., Any])
_P = ParamSpec("_P")
_Array = TypeVar("_Array", bound=NDArray[Any])
_compiling = threading.RLock()

# New objects before a collection: a process that loads compiled kernels makes 5,400, one that loads
# numba makes millions.
_RARELY = (20_000, 20, 20)

# A uint64 inside a kernel; NumPy's stubs have other types for numba's arithmetic with it.
Word = Any


def _refused() -> tuple[type[Exception], ...]:
    if compiled.kernels():
        return (TypeError,)
    from numba.core.errors import NumbaError

    return (TypeError, NumbaError)


# Errors that a kernel raises for arguments of other types; NumbaError for dtypes unknown to numba.
REFUSED = _refused()


def kernel(signature: Signature, *, check: bool = True) -> Callable[[_F], _F]:
    """``@kernel(signature)``: compile a function for these types alone, at the first call.

    Not at import, since a process needs only a few kernels. Other types raise one of ``REFUSED``
    and never start the compiler. Code of the installation or of the cache is used if there is any.

    :param check: whether kernels of the installation refuse arrays of other types, which takes
        .2 us per array; without it such arrays are read as if they had the right type
    """

    def declared(function: _F) -> _F:
        if compiled.kernels():
            found = compiled.code(compiled.exported_name(function))
            if not check:
                return cast("_F", found)
            return cast("_F", functools.wraps(function)(compiled.checked(found, signature)))
        from dedup_middleware.base import kernels

        dispatcher = cast("Any", kernels.kernel(function))
        dispatcher.declared = signature.to_numba()

        # numba calls this for types that it has no code for yet.
        def compile_for(*_: Any, **__: Any) -> Any:
            compile_now(dispatcher)
            return dispatcher

        dispatcher._compile_for_args = compile_for
        return cast("_F", dispatcher)

    return declared


def subkernel(function: _F) -> _F:
    """Compile `function` as part of the kernels that call it; Python itself can't call it.

    It must neither make arrays nor return any, not even in a tuple: the caller would release a
    reference that was never taken. So it needs no reference counts, which cost two atomic
    operations per array argument and call. Without these, without entry points for Python and C
    and without a cache of their own, subkernels also compile in half the time.
    """
    return _part(function, allocates=False)


def allocating_subkernel(function: _F) -> _F:
    """Like :func:`subkernel`, for a function that makes arrays."""
    return _part(function, allocates=True)


def _part(function: _F, *, allocates: bool) -> _F:
    if compiled.kernels():
        return function
    from dedup_middleware.base import kernels

    return kernels.subkernel(function, allocates=allocates)


class _Unloaded:
    """Placeholder for a module of the compiler where kernels come compiled: operations refer to it,
    but are not called."""

    def __getattr__(self, _: str) -> _Unloaded:
        return self

    def __call__(self, *_: Any) -> _Unloaded:
        return self


def compiler(*modules: str) -> tuple[Any, ...]:
    """Import modules of numba and llvmlite; placeholders where kernels come compiled."""
    if compiled.kernels():
        return (_Unloaded(),) * len(modules)
    return tuple(map(importlib.import_module, modules))


def compile_now(dispatcher: Any) -> None:
    """Compile a kernel for its types or load it from the cache, unless it is loaded already."""
    if compiled.kernels():
        return
    with _compiling:
        if dispatcher._can_compile:
            with taking_turns(dispatcher.stats.cache_path, dispatcher.__qualname__):
                dispatcher.compile(dispatcher.declared)
            dispatcher.disable_compile()


def compile_all(*kernels: Any) -> None:
    """Call :func:`compile_now` for several kernels."""
    for dispatcher in kernels:
        compile_now(dispatcher)


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect cyclic garbage less often: numba makes millions of objects, and searching them again
    and again takes a seventh of the time of a compilation. Without any collection a compilation
    takes 800 MB, not 450.

    Afterwards the objects count as old, so that the next collection does not search them. That
    resets the collector's counts, so it is done only if a collection ran meanwhile. Otherwise a
    process that enters here often would keep resetting the counts and never collect.
    """
    thresholds, before = gc.get_threshold(), gc.get_stats()[0]["collections"]
    # Not if the user has turned collection off (0) or made it rarer, nor in a second thread: the
    # first one sets the thresholds back.
    is_raised = 0 < thresholds[0] < _RARELY[0]
    if is_raised:
        gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        if is_raised:
            gc.set_threshold(*thresholds)
        if gc.get_stats()[0]["collections"] > before and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()


def constant(make: Callable[[], _Array]) -> _Array:
    """Make an array that is compiled into kernels and that nothing else reads.

    Empty where kernels come compiled: tables of listed words took a tenth of a start's CPU time.
    """
    return cast("_Array", np.empty(0)) if compiled.kernels() else make()


ir, types, cgutils = compiler("llvmlite.ir", "numba.types", "numba.core.cgutils")

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)


def operation(result: str) -> Callable[[Callable[Concatenate[Any, _P], Any]], Callable[_P, Any]]:
    """Decorator that turns a function that emits LLVM code into a numba intrinsic.

    The function gets LLVM's builder and the arguments: arrays as numba's structures with ``data``
    and ``nitems``, and 64-bit values.

    :param result: type that the intrinsic returns: uint64, boolean, or void for nothing
    """

    def declared(function: Callable[Concatenate[Any, _P], Any]) -> Callable[_P, Any]:
        emit: Any = function

        def define(_: Any, *arguments: Any) -> Any:
            kinds = [one if isinstance(one, types.Array) else types.uint64 for one in arguments]

            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                values: list[Any] = [
                    context.make_array(kind)(context, builder, value)
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(signature.args, args, strict=True)
                ]
                value = emit(builder, *values)
                return context.get_dummy_value() if value is None else value

            return getattr(types, result)(*kinds), codegen

        if compiled.kernels():
            return cast("Callable[_P, Any]", function)
        from numba import extending

        defined: Any = functools.update_wrapper(define, function)
        return cast("Callable[_P, Any]", extending.intrinsic(defined))

    return declared


def called(builder: Any, name: str, result: Any, *values: Any) -> Any:
    """Generate a call of LLVM's intrinsic ``llvm.{name}``, which llvmlite does not offer."""
    kind = ir.FunctionType(result, [value.type for value in values])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}")
    return builder.call(function, values)


def prefetch_line(builder: Any, pointer: Any) -> None:
    """Generate a prefetch of the cache line at a pointer, which may be past an array's end."""
    raw = builder.bitcast(pointer, _I8.as_pointer())
    # For reading (0), into all cache levels (3), data (1).
    called(builder, "prefetch.p0", ir.VoidType(), raw, _I32(0), _I32(3), _I32(1))


@operation("void")
def prefetch(builder: Any, array: Any, index: Any) -> None:
    """Prefetch the cache line of ``array[index]``, without waiting for it."""
    prefetch_line(builder, builder.gep(array.data, [index]))
