# ruff: noqa: ARG001 - numba calls an intrinsic with types; their names document the operation
"""Vector operations that numba has no name for, to be called in a ``@kernel``.

They are written as LLVM vectors of a fixed width, because the loop vectoriser
stops at half the register on many processors, and at nothing for loops that
keep several minima or look for a few hits. LLVM breaks the vectors down to
whatever the processor has, so they are right everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, cast

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

_P = ParamSpec("_P")

_I1 = ir.IntType(1)
_I8 = ir.IntType(8)
_I16 = ir.IntType(16)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
LANES32 = 16  # 32-bit lanes of the widest register
LANES64 = 8
MINIMA = 64  # minima a block keeps in registers: 4 x 512 or 8 x 256 bits
NEAR = 64  # codes a block of the scan looks at
# Codes that the scan asks memory for in advance: what the processor guesses by itself comes late.
_AHEAD = 256


def intrinsic(function: Callable[Concatenate[Any, _P], Any]) -> Callable[_P, Any]:
    """An operation for kernels: the function gets its types and writes its code."""
    return cast("Callable[_P, Any]", extending.intrinsic(function))


def _data(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    return context.make_array(array_type)(context, builder, value).data


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    vector = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _I32(0))
    mask = ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def _load(builder: Any, pointer: Any, element: Any, lanes: int) -> Any:
    vector = ir.VectorType(element, lanes)
    loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
    loaded.align = element.width // 8
    return loaded


def _store(builder: Any, value: Any, pointer: Any, align: int) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def _ctpop(builder: Any, value: Any) -> Any:
    # llvmlite's own ctpop takes no vectors.
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(value.type, [value.type]), f"llvm.ctpop.v{LANES64}i64"
    )
    return builder.call(function, [value])


@intrinsic
def popcount(_: Any, value: Any) -> Any:
    """Number of one bits of a uint64."""

    def codegen(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def trailing_zeros(_: Any, value: Any) -> Any:
    """Position of the lowest one bit of a uint64 that is not zero."""

    def codegen(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.cttz(args[0], _I1(1))

    return types.uint64(types.uint64), codegen


@intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``; nothing waits for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        pointer = builder.bitcast(builder.gep(base, [args[1]]), _I8.as_pointer())
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32]),
            "llvm.prefetch.p0",
        )
        # To read (0), into all levels (3), data (1).
        builder.call(function, [pointer, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


@intrinsic
def near_mask8(_: Any, array: Any, start: Any, query: Any, distance: Any) -> Any:
    """Bit j of the result: ``array[start + j]`` is within the distance, j in 0..7."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        query = _splat(builder, args[2], LANES64)
        bound = _splat(builder, args[3], LANES64)
        near = _near(builder, builder.gep(base, [args[1]]), query, bound)
        return builder.zext(builder.bitcast(near, _I8), _I64)

    return types.uint64(array, types.uint64, types.uint64, types.uint64), codegen


@intrinsic
def near_mask64(_: Any, array: Any, start: Any, query: Any, distance: Any) -> Any:
    """Bit j of the result: ``array[start + j]`` is within the distance, j in 0..63.

    The bits are gathered only if there is one: hits are rare, and gathering
    costs a third of the comparison.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        query = _splat(builder, args[2], LANES64)
        bound = _splat(builder, args[3], LANES64)
        near = []
        for step in range(0, NEAR, LANES64):
            pointer = builder.gep(base, [builder.add(args[1], _I64(step))])
            near.append(_near(builder, pointer, query, bound))
        some = near[0]
        for part in near[1:]:
            some = builder.or_(some, part)
        result = cgutils.alloca_once_value(builder, _I64(0))
        with builder.if_then(
            cgutils.is_not_null(builder, builder.bitcast(some, _I8)), likely=False
        ):
            mask = _I64(0)
            for step, part in enumerate(near):
                bits = builder.zext(builder.bitcast(part, _I8), _I64)
                mask = builder.or_(mask, builder.shl(bits, _I64(step * LANES64)))
            builder.store(mask, result)
        return builder.load(result)

    return types.uint64(array, types.uint64, types.uint64, types.uint64), codegen


def _prefetch(builder: Any, pointer: Any) -> None:
    """Ask for a line of memory that will be read soon; past the end of an array it does nothing."""
    raw = builder.bitcast(pointer, ir.PointerType(_I8))
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [raw.type, _I32, _I32, _I32]),
        "llvm.prefetch.p0",
    )
    read, keep_near, data = _I32(0), _I32(3), _I32(1)
    builder.call(function, [raw, read, keep_near, data])


@intrinsic
def share_word64(_: Any, array: Any, start: Any, query: Any) -> Any:
    """Whether one of ``array[start:start + 64]`` equals the query in one of its four 16-bit words.

    Two codes that differ in at most three bits do (pigeonhole principle), others
    once in 16,384. One comparison instruction for eight codes, a ninth of a distance.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        lanes = 4 * LANES64
        query = builder.bitcast(_splat(builder, args[2], LANES64), ir.VectorType(_I16, lanes))
        some = None
        for step in range(0, NEAR, LANES64):
            pointer = builder.gep(base, [builder.add(args[1], _I64(step))])
            _prefetch(builder, builder.gep(pointer, [_I64(_AHEAD)]))
            loaded = builder.bitcast(_load(builder, pointer, _I64, LANES64), query.type)
            equal = builder.icmp_unsigned("==", loaded, query)
            some = equal if some is None else builder.or_(some, equal)
        return cgutils.is_not_null(builder, builder.bitcast(some, _I32))

    return types.boolean(array, types.uint64, types.uint64), codegen


def _near(builder: Any, pointer: Any, query: Any, bound: Any) -> Any:
    differing = builder.xor(_load(builder, pointer, _I64, LANES64), query)
    return builder.icmp_unsigned("<=", _ctpop(builder, differing), bound)


@intrinsic
def distances64(_: Any, array: Any, start: Any, query: Any, out: Any) -> Any:
    """Write the Hamming distances of ``array[start:start + 64]`` to ``out[start:start + 64]``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        target = _data(context, builder, signature.args[3], args[3])
        query = _splat(builder, args[2], LANES64)
        narrow = ir.VectorType(_I8, LANES64)
        for step in range(0, NEAR, LANES64):
            index = builder.add(args[1], _I64(step))
            loaded = _load(builder, builder.gep(base, [index]), _I64, LANES64)
            distance = builder.trunc(_ctpop(builder, builder.xor(loaded, query)), narrow)
            _store(builder, distance, builder.gep(target, [index]), 1)
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.uint64, out), codegen


@intrinsic
def row_distance8(_: Any, array: Any, start: Any, query: Any) -> Any:
    """Hamming distance of two codes of 512 bits, ``array[start:start + 8]`` and ``query[:8]``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        other = _data(context, builder, signature.args[2], args[2])
        row = _load(builder, builder.gep(base, [args[1]]), _I64, LANES64)
        counts = _ctpop(builder, builder.xor(row, _load(builder, other, _I64, LANES64)))
        add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_I64, [counts.type]),
            f"llvm.vector.reduce.add.v{LANES64}i64",
        )
        return builder.call(add, [counts])

    return types.uint64(array, types.uint64, query), codegen


@intrinsic
def minima64(_: Any, hashes: Any, factors: Any, offsets: Any, start: Any, out: Any) -> Any:
    """Minima of ``factor * hash + offset mod 2**32`` for 64 permutations over all hashes.

    The permutations are those at ``start .. start + 63``; so are the minima in
    ``out``. They stay in registers while the loop goes over the hashes.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pointers = [_data(context, builder, signature.args[i], args[i]) for i in (1, 2, 4)]
        factors, offsets, target = (builder.gep(p, [args[3]]) for p in pointers)
        vector = ir.VectorType(_I32, LANES32)
        parts = range(0, MINIMA, LANES32)
        a = [_load(builder, builder.gep(factors, [_I64(p)]), _I32, LANES32) for p in parts]
        b = [_load(builder, builder.gep(offsets, [_I64(p)]), _I32, LANES32) for p in parts]
        highest = ir.Constant(vector, [0xFFFFFFFF] * LANES32)
        minima = [cgutils.alloca_once_value(builder, highest) for _ in parts]
        with cgutils.for_range(builder, array.nitems) as loop:
            one = builder.load(builder.gep(array.data, [loop.index]))
            each = _splat(builder, one, LANES32)
            for factor, offset, slot in zip(a, b, minima, strict=True):
                value = builder.add(builder.mul(each, factor), offset)
                least = builder.load(slot)
                builder.store(
                    builder.select(builder.icmp_unsigned("<", value, least), value, least), slot
                )
        for part, slot in zip(parts, minima, strict=True):
            _store(builder, builder.load(slot), builder.gep(target, [_I64(part)]), 4)
        return context.get_dummy_value()

    return types.void(hashes, factors, offsets, types.uint64, out), codegen


@intrinsic
def count_bits(_: Any, features: Any, start: Any, stop: Any, counts: Any) -> Any:
    """Write to ``counts[p]`` how many of ``features[start:stop]`` have bit p; 255 at most."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        target = _data(context, builder, signature.args[3], args[3])
        bits = ir.VectorType(_I1, 64)
        counters = ir.VectorType(_I8, 64)
        slot = cgutils.alloca_once_value(builder, ir.Constant(counters, [0] * 64))
        with cgutils.for_range(builder, args[2], start=args[1]) as loop:
            feature = builder.load(builder.gep(base, [loop.index]))
            ones = builder.zext(builder.bitcast(feature, bits), counters)
            builder.store(builder.add(builder.load(slot), ones), slot)
        _store(builder, builder.load(slot), target, 1)
        return context.get_dummy_value()

    return types.void(features, types.uint64, types.uint64, counts), codegen


@intrinsic
def add_weights(_: Any, features: Any, weights: Any, sums: Any) -> Any:
    """Write to ``sums[p]`` the total weight of the features that have bit p."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        weights = _data(context, builder, signature.args[1], args[1])
        target = _data(context, builder, signature.args[2], args[2])
        bits = ir.VectorType(_I1, 64)
        totals = ir.VectorType(_I64, 64)
        zero = ir.Constant(totals, [0] * 64)
        slot = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, array.nitems) as loop:
            feature = builder.load(builder.gep(array.data, [loop.index]))
            weight = builder.load(builder.gep(weights, [loop.index]))
            each = _splat(builder, builder.zext(weight, _I64), 64)
            chosen = builder.select(builder.bitcast(feature, bits), each, zero)
            builder.store(builder.add(builder.load(slot), chosen), slot)
        _store(builder, builder.load(slot), target, 8)
        return context.get_dummy_value()

    return types.void(features, weights, sums), codegen
