# ruff: noqa: ARG001 - numba calls an intrinsic with types; their names document the operation
"""Count equal positions of fingerprints, one 128-bit register at a time.

Eight positions of 16 bits fill a register; one instruction compares them all. This is the unit of
comparison of 龙军, 张祖平, 袁鑫攀, 罗跃逸: patent CN102024065, 基于SIMD优化的网页去重并行方法
(2011).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import compiler, intrinsic, kernel
from dedup_middleware.base.kerneltypes import U8

ir, numba_types = compiler("llvmlite.ir", "numba.types")
LANES: Final = 8  # positions in a register

_R16: Final = types.Array(types.uint16, 1, readonly=True)
_ZERO = np.uint64(0)
_LANES = np.uint64(LANES)


@intrinsic
def _equal_lanes(_: Any, array: Any, start: Any, query: Any, offset: Any) -> Any:
    """How many of ``array[start:start + 8]`` equal their counterpart in ``query[offset:]``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(16), LANES)
        loaded = []
        for i in (0, 2):
            data = context.make_array(signature.args[i])(context, builder, args[i]).data
            pointer = builder.gep(data, [args[i + 1]])
            register = builder.load(builder.bitcast(pointer, lanes.as_pointer()))
            register.align = 2
            loaded.append(register)
        equal = builder.bitcast(builder.icmp_unsigned("==", *loaded), ir.IntType(8))
        return builder.zext(builder.ctpop(equal), ir.IntType(64))

    word = numba_types.uint64
    return word(array, word, query, word), codegen


@kernel(U8(_R16, _R16))
def _equal_positions(rows: NDArray[np.uint16], query: NDArray[np.uint16]) -> NDArray[np.uint8]:
    width = np.uint64(query.size)
    count = np.uint64(rows.size) // width
    out = np.empty(count, np.uint8)
    # Unsigned indices: signed ones would be checked for wrap-around in every turn.
    for row in range(count):
        total = _ZERO
        for unit in range(_ZERO, width, _LANES):
            total += _equal_lanes(rows, row * width + unit, query, unit)
        out[row] = total
    return out


def registers(fingerprints: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Fingerprints, shape (n, M), with zeros behind them that fill the last register."""
    count, positions = fingerprints.shape
    if positions % LANES == 0:
        return np.ascontiguousarray(fingerprints, np.uint16)
    filled = np.zeros((count, -(-positions // LANES) * LANES), np.uint16)
    filled[:, :positions] = fingerprints
    return filled


def equal_positions(
    fingerprints: NDArray[np.uint16], query: NDArray[np.uint16]
) -> NDArray[np.uint8]:
    """Number of positions at which each fingerprint equals the query, uint8[n].

    :param fingerprints: uint16, shape (n, M)
    :param query: uint16, shape (M,), M from 1 to 255
    :raises ValueError: shapes that do not fit
    """
    if fingerprints.ndim != 2 or query.shape != fingerprints.shape[1:] or not 0 < query.size < 256:
        raise ValueError(
            "fingerprints must have shape (n, M) and query (M,) with M from 1 to 255, got "
            f"{fingerprints.shape} and {query.shape}"
        )
    rows, row = registers(fingerprints), registers(query[np.newaxis])
    padding = rows.shape[1] - len(query)
    equal = _equal_positions(rows.reshape(-1), row[0])
    return np.asarray(equal - np.uint8(padding), np.uint8)
