"""How the kernels of this package are compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import types
from numba.core.errors import NumbaError

from dedup_middleware.base import kernels

_F = TypeVar("_F", bound=Callable[..., Any])
_compiling = threading.RLock()

# What a kernel raises for arguments of other types; dtypes numba does not know raise the second.
REFUSED = (TypeError, NumbaError)
# A uint64 inside a kernel; NumPy's stubs mistake the arithmetic numba does with it.
Word = Any

U8 = types.Array(types.uint8, 1, "C")
U16 = types.Array(types.uint16, 1, "C")
U32 = types.Array(types.uint32, 1, "C")
U64 = types.Array(types.uint64, 1, "C")
I64 = types.Array(types.int64, 1, "C")
F64 = types.Array(types.float64, 1, "C")
# A read-only signature takes writable arrays too, never the other way round.
R8 = types.Array(types.uint8, 1, "C", readonly=True)
R8_2 = types.Array(types.uint8, 2, "C", readonly=True)
R32 = types.Array(types.uint32, 1, "C", readonly=True)
R32_2 = types.Array(types.uint32, 2, "C", readonly=True)
R64 = types.Array(types.uint64, 1, "C", readonly=True)
RI64 = types.Array(types.int64, 1, "C", readonly=True)
RI64_2 = types.Array(types.int64, 2, "C", readonly=True)
RF64 = types.Array(types.float64, 1, "C", readonly=True)
R64_2 = types.Array(types.uint64, 2, "C", readonly=True)


def kernel(signature: Any) -> Callable[[_F], _F]:
    """``@kernel(signature)``: compiled for these types alone, by the first call.

    Not by the import: a process loads what it needs, and that is a few of them. Other types raise
    one of ``REFUSED``, they never start the compiler. Code comes from the cache where it can; the
    package's rule says where that lies.
    """

    def declared(function: _F) -> _F:
        dispatcher = cast("Any", kernels.kernel(function))
        dispatcher.declared = signature

        # numba asks this what to call for types it has no code for yet.
        def compile_for(*_: Any, **__: Any) -> Any:
            compile_now(dispatcher)
            return dispatcher

        dispatcher._compile_for_args = compile_for
        return cast("_F", dispatcher)

    return declared


def compile_now(dispatcher: Any) -> None:
    """Compile a kernel for its types, or load it from the cache, unless that is done."""
    with _compiling:
        if dispatcher._can_compile:
            with kernels.taking_turns(dispatcher.stats.cache_path, dispatcher.__qualname__):
                dispatcher.compile(dispatcher.declared)
            dispatcher.disable_compile()


def compile_all(*kernels: Any) -> None:
    """Compile several kernels, or load them from the cache, unless that is done."""
    for dispatcher in kernels:
        compile_now(dispatcher)
