# ruff: noqa: ARG001 - numba calls an intrinsic with types; their names document the operation
"""Asking memory for what will be read soon, in a ``@kernel``."""

from __future__ import annotations

from typing import Any

from dedup_middleware.base.jit import compiler, intrinsic

ir, types, cgutils = compiler("llvmlite.ir", "numba.types", "numba.core.cgutils")

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)


def prefetch_line(builder: Any, pointer: Any) -> None:
    """Write the code for it; of memory past the end of an array nothing is read."""
    raw = builder.bitcast(pointer, _I8.as_pointer())
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [raw.type, _I32, _I32, _I32]),
        "llvm.prefetch.p0",
    )
    # To read (0), into all levels (3), data (1).
    builder.call(function, [raw, _I32(0), _I32(3), _I32(1)])


@intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``; nothing waits for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = context.make_array(signature.args[0])(context, builder, args[0]).data
        prefetch_line(builder, builder.gep(base, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen
