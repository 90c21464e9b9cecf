# ruff: noqa: ARG001 - numba calls an intrinsic with types; their names document the operation
"""Vector operations that numba has no name for, to be called in a ``@kernel``.

They are written as LLVM vectors of a fixed width, because the loop vectoriser
stops at half the register on many processors, and at nothing for loops that
keep several minima or look for a few hits. LLVM breaks the vectors down to
whatever the processor has, so they are right everywhere.
"""

from __future__ import annotations

from typing import Any

from dedup_middleware.base.jit import compiler, intrinsic, prefetch_line

ir, types, cgutils = compiler("llvmlite.ir", "numba.types", "numba.core.cgutils")

_I1 = ir.IntType(1)
_I8 = ir.IntType(8)
_I16 = ir.IntType(16)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
LANES32 = 16  # 32-bit lanes of the widest register
LANES64 = 8
MINIMA = 64  # minima a block keeps in registers: 4 x 512 or 8 x 256 bits
NEAR = 64  # codes a block of the scan looks at
RECORD = 11  # bytes of a SimHash record: page id (5), suffix of the SimHash (6), little-endian
SUFFIX = 48  # bits
# Codes that the scan asks memory for in advance: what the processor guesses by itself comes late.
_AHEAD = 256


def _data(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    return context.make_array(array_type)(context, builder, value).data


def _bytes(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    return builder.bitcast(_data(context, builder, array_type, value), _I8.as_pointer())


def _word_at(builder: Any, pointer: Any) -> Any:
    """The eight bytes at a pointer, which need not be aligned."""
    word = builder.load(builder.bitcast(pointer, _I64.as_pointer()))
    word.align = 1
    return word


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
def trailing_zeros(_: Any, value: Any) -> Any:
    """Position of the lowest one bit of a uint64 that is not zero."""

    def codegen(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.cttz(args[0], _I1(1))

    return types.uint64(types.uint64), codegen


@intrinsic
def ones(_: Any, value: Any) -> Any:
    """How many one bits a uint64 has."""

    def codegen(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def parity(_: Any, value: Any) -> Any:
    """1 if a uint64 has an odd number of one bits, else 0."""

    def codegen(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.and_(builder.ctpop(args[0]), _I64(1))

    return types.uint64(types.uint64), codegen


@intrinsic
def load_word(_: Any, array: Any, byte: Any) -> Any:
    """The uint64 that begins at any byte of an array, which must hold all eight bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _bytes(context, builder, signature.args[0], args[0])
        return _word_at(builder, builder.gep(base, [args[1]]))

    return types.uint64(array, types.uint64), codegen


@intrinsic
def near_words(_: Any, array: Any, start: Any, count: Any, query: Any, distance: Any) -> Any:
    """Bit j of the result: ``array[start + j]`` is within the distance, j below ``count`` (1..8).

    Words behind the count are not read.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        codes = _load_some(builder, builder.gep(base, [args[1]]), args[2])
        near = _within(builder, codes, args[3], args[4])
        return builder.and_(near, _lowest(builder, args[2]))

    return types.uint64(array, *[types.uint64] * 4), codegen


@intrinsic
def near_records8(_: Any, array: Any, byte: Any, query: Any, distance: Any) -> Any:
    """Bit j of the result: the suffix of record j is within the distance, j in 0..7.

    The first of the eight records begins at ``byte`` of the array.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _bytes(context, builder, signature.args[0], args[0])
        first = builder.gep(base, [args[1]])
        codes = _suffixes(builder, first, [_I64(RECORD * lane) for lane in range(LANES64)])
        return _within(builder, codes, args[2], args[3])

    return types.uint64(array, *[types.uint64] * 3), codegen


@intrinsic
def near_records(_: Any, array: Any, byte: Any, count: Any, query: Any, distance: Any) -> Any:
    """The same for ``count`` records, 1..8; bytes behind the last one are not read."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _bytes(context, builder, signature.args[0], args[0])
        last = builder.mul(builder.sub(args[2], _I64(1)), _I64(RECORD))
        places = [_I64(0)]
        for lane in range(1, LANES64):  # lanes without a record read the last one again
            place = _I64(RECORD * lane)
            places.append(builder.select(builder.icmp_unsigned("<", place, last), place, last))
        codes = _suffixes(builder, builder.gep(base, [args[1]]), places)
        near = _within(builder, codes, args[3], args[4])
        return builder.and_(near, _lowest(builder, args[2]))

    return types.uint64(array, *[types.uint64] * 4), codegen


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
            near.append(_near(builder, _load(builder, pointer, _I64, LANES64), query, bound))
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
            prefetch_line(builder, builder.gep(pointer, [_I64(_AHEAD)]))
            loaded = builder.bitcast(_load(builder, pointer, _I64, LANES64), query.type)
            equal = builder.icmp_unsigned("==", loaded, query)
            some = equal if some is None else builder.or_(some, equal)
        return cgutils.is_not_null(builder, builder.bitcast(some, _I32))

    return types.boolean(array, types.uint64, types.uint64), codegen


def _near(builder: Any, codes: Any, query: Any, bound: Any) -> Any:
    return builder.icmp_unsigned("<=", _ctpop(builder, builder.xor(codes, query)), bound)


def _within(builder: Any, codes: Any, query: Any, distance: Any) -> Any:
    """Mask of the eight codes within a distance of the query, an i64."""
    query, bound = (_splat(builder, one, LANES64) for one in (query, distance))
    near = _near(builder, codes, query, bound)
    return builder.zext(builder.bitcast(near, _I8), _I64)


def _suffixes(builder: Any, first: Any, places: list[Any]) -> Any:
    """Suffixes of eight records, each as a 64-bit lane.

    A lane is loaded from the last eight bytes of its record, so that nothing behind it is read;
    loads and inserts are faster than the gather instruction on most processors.
    """
    vector = ir.VectorType(_I64, LANES64)
    codes = ir.Constant(vector, ir.Undefined)
    for lane, place in enumerate(places):
        end = builder.add(place, _I64(RECORD - 8))
        codes = builder.insert_element(
            codes, _word_at(builder, builder.gep(first, [end])), _I32(lane)
        )
    return builder.lshr(codes, ir.Constant(vector, [64 - SUFFIX] * LANES64))


def _lowest(builder: Any, count: Any) -> Any:
    """The lowest ``count`` bits, 1..8."""
    return builder.lshr(_I64(0xFF), builder.sub(_I64(LANES64), count))


def _load_some(builder: Any, pointer: Any, count: Any) -> Any:
    """The first ``count`` of eight words, the others 0; memory behind them is not read."""
    vector = ir.VectorType(_I64, LANES64)
    bits = ir.VectorType(_I1, LANES64)
    mask = builder.bitcast(builder.trunc(_lowest(builder, count), _I8), bits)
    source = builder.bitcast(pointer, vector.as_pointer())
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [source.type, _I32, bits, vector]),
        f"llvm.masked.load.v{LANES64}i64.p0",
    )
    nothing = ir.Constant(vector, [0] * LANES64)
    return builder.call(function, [source, _I32(8), mask, nothing])


def _sum(builder: Any, lanes: Any) -> Any:
    add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_I64, [lanes.type]), f"llvm.vector.reduce.add.v{LANES64}i64"
    )
    return builder.call(add, [lanes])


@intrinsic
def bits_lacking(_: Any, array: Any, own: Any, other: Any) -> Any:
    """How many one bits eight words of an array have that eight others lack.

    Both are given by the place of their first word in memory, all rows counted.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        mine, theirs = (
            _load(builder, builder.gep(base, [first]), _I64, LANES64) for first in args[1:]
        )
        return _sum(builder, _ctpop(builder, builder.and_(mine, builder.not_(theirs))))

    return types.uint64(array, types.uint64, types.uint64), codegen


@intrinsic
def differing_groups(_: Any, array: Any, byte: Any, query: Any, bits: Any, lowest: Any) -> Any:
    """Groups of ``bits`` bits in which two codes of 512 bits differ.

    One begins at ``byte`` of the array, which need not be aligned, the other is ``query[:8]``.
    ``bits`` is 1, 2, 4 or 8, and ``lowest`` a word with the lowest bit of each group.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _bytes(context, builder, signature.args[0], args[0])
        other = _data(context, builder, signature.args[2], args[2])
        row = _load(builder, builder.gep(base, [args[1]]), _I64, LANES64)
        row.align = 1
        differing = builder.xor(row, _load(builder, other, _I64, LANES64))
        # Groups of fewer bits are folded by 0, which changes nothing.
        for step in (1, 2, 4):
            used = builder.icmp_unsigned(">", args[3], _I64(step))
            shift = _splat(builder, builder.select(used, _I64(step), _I64(0)), LANES64)
            differing = builder.or_(differing, builder.lshr(differing, shift))
        chosen = builder.and_(differing, _splat(builder, args[4], LANES64))
        return _sum(builder, _ctpop(builder, chosen))

    return types.uint64(array, types.uint64, query, types.uint64, types.uint64), codegen


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
