"""Vector operations for use in a ``@kernel``, which numba does not offer.

They are written as LLVM vectors of a fixed width, because LLVM's loop vectoriser fills only half of
a register on many processors, and does not vectorise loops that keep several minima or look for a
few hits. LLVM splits the vectors into the processor's registers, so results are equal everywhere.
"""

from __future__ import annotations

from typing import Any

from dedup_middleware.base.jit import called, compiler, operation, prefetch_line

ir, cgutils = compiler("llvmlite.ir", "numba.core.cgutils")

_I1 = ir.IntType(1)
_I8 = ir.IntType(8)
_I16 = ir.IntType(16)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
LANES32 = 16  # 32-bit lanes of the widest register
LANES64 = 8
MINIMA = 64  # minima of a block, kept in registers: 4 x 512 or 8 x 256 bits
NEAR = 64  # codes that the scan compares in one block
RECORD = 11  # bytes of a SimHash record: page id (5), suffix of the SimHash (6), little-endian
SUFFIX = 48  # bits
# How many codes ahead the scan prefetches: the hardware prefetcher alone is too late.
_AHEAD = 256


def _bytes(builder: Any, array: Any) -> Any:
    return builder.bitcast(array.data, _I8.as_pointer())


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
    # llvmlite's own ctpop does not accept vectors.
    return called(builder, f"ctpop.v{LANES64}i64", value.type, value)


@operation("uint64")
def trailing_zeros(builder: Any, value: Any) -> Any:
    """Position of the lowest set bit of a nonzero uint64."""
    return builder.cttz(value, _I1(1))


@operation("uint64")
def ones(builder: Any, value: Any) -> Any:
    """Number of set bits of a uint64."""
    return builder.ctpop(value)


@operation("uint64")
def parity(builder: Any, value: Any) -> Any:
    """1 if a uint64 has an odd number of set bits, else 0."""
    return builder.and_(builder.ctpop(value), _I64(1))


@operation("uint64")
def load_word(builder: Any, array: Any, byte: Any) -> Any:
    """The uint64 at any byte offset of an array; all eight bytes must be inside it."""
    return _word_at(builder, builder.gep(_bytes(builder, array), [byte]))


@operation("uint64")
def near_words(builder: Any, array: Any, start: Any, count: Any, query: Any, distance: Any) -> Any:
    """Mask whose bit j is set if ``array[start + j]`` is within the distance; only the ``count`` (1
    to 8) words are read."""
    codes = _load_some(builder, builder.gep(array.data, [start]), count)
    near = _within(builder, codes, query, distance)
    return builder.and_(near, _lowest(builder, count))


@operation("uint64")
def near_records8(builder: Any, array: Any, byte: Any, query: Any, distance: Any) -> Any:
    """Mask whose bit j is set if the suffix of record j is within the distance, j in 0..7; record 0
    begins at ``byte`` of the array."""
    first = builder.gep(_bytes(builder, array), [byte])
    codes = _suffixes(builder, first, [_I64(RECORD * lane) for lane in range(LANES64)])
    return _within(builder, codes, query, distance)


@operation("uint64")
def near_records(builder: Any, array: Any, byte: Any, count: Any, query: Any, distance: Any) -> Any:
    """As :func:`near_records8` for ``count`` records, 1..8; no byte behind the last one is read."""
    base = _bytes(builder, array)
    last = builder.mul(builder.sub(count, _I64(1)), _I64(RECORD))
    places = [_I64(0)]
    for lane in range(1, LANES64):  # lanes without a record read the last one again
        place = _I64(RECORD * lane)
        places.append(builder.select(builder.icmp_unsigned("<", place, last), place, last))
    codes = _suffixes(builder, builder.gep(base, [byte]), places)
    near = _within(builder, codes, query, distance)
    return builder.and_(near, _lowest(builder, count))


@operation("uint64")
def near_mask64(builder: Any, array: Any, start: Any, query: Any, distance: Any) -> Any:
    """Mask whose bit j is set if ``array[start + j]`` is within the distance, j in 0..63.

    The bits are gathered only if one is set: gathering takes a third of the time, and hits are
    rare.
    """
    query = _splat(builder, query, LANES64)
    bound = _splat(builder, distance, LANES64)
    near = []
    for step in range(0, NEAR, LANES64):
        pointer = builder.gep(array.data, [builder.add(start, _I64(step))])
        near.append(_near(builder, _load(builder, pointer, _I64, LANES64), query, bound))
    some = near[0]
    for part in near[1:]:
        some = builder.or_(some, part)
    result = cgutils.alloca_once_value(builder, _I64(0))
    with builder.if_then(cgutils.is_not_null(builder, builder.bitcast(some, _I8)), likely=False):
        mask = _I64(0)
        for step, part in enumerate(near):
            bits = builder.zext(builder.bitcast(part, _I8), _I64)
            mask = builder.or_(mask, builder.shl(bits, _I64(step * LANES64)))
        builder.store(mask, result)
    return builder.load(result)


@operation("boolean")
def share_word64(builder: Any, array: Any, start: Any, query: Any) -> Any:
    """Whether any of ``array[start:start + 64]`` equals the query in one of its four 16-bit words.

    Codes that differ in at most three bits do (pigeonhole principle), random ones once in 16,384.
    One comparison instruction for eight codes costs a ninth of their Hamming distances.
    """
    lanes = 4 * LANES64
    query = builder.bitcast(_splat(builder, query, LANES64), ir.VectorType(_I16, lanes))
    some = None
    for step in range(0, NEAR, LANES64):
        pointer = builder.gep(array.data, [builder.add(start, _I64(step))])
        prefetch_line(builder, builder.gep(pointer, [_I64(_AHEAD)]))
        loaded = builder.bitcast(_load(builder, pointer, _I64, LANES64), query.type)
        equal = builder.icmp_unsigned("==", loaded, query)
        some = equal if some is None else builder.or_(some, equal)
    return cgutils.is_not_null(builder, builder.bitcast(some, _I32))


def _near(builder: Any, codes: Any, query: Any, bound: Any) -> Any:
    return builder.icmp_unsigned("<=", _ctpop(builder, builder.xor(codes, query)), bound)


def _within(builder: Any, codes: Any, query: Any, distance: Any) -> Any:
    """i64 mask of the eight codes within a distance of the query."""
    query, bound = (_splat(builder, one, LANES64) for one in (query, distance))
    near = _near(builder, codes, query, bound)
    return builder.zext(builder.bitcast(near, _I8), _I64)


def _suffixes(builder: Any, first: Any, places: list[Any]) -> Any:
    """Suffixes of eight records, one in each 64-bit lane. Each is loaded from the last eight bytes
    of its record, so no byte behind it is read; single loads and inserts are faster than the gather
    instruction on most processors."""
    vector = ir.VectorType(_I64, LANES64)
    codes = ir.Constant(vector, ir.Undefined)
    for lane, place in enumerate(places):
        end = builder.add(place, _I64(RECORD - 8))
        codes = builder.insert_element(
            codes, _word_at(builder, builder.gep(first, [end])), _I32(lane)
        )
    return builder.lshr(codes, ir.Constant(vector, [64 - SUFFIX] * LANES64))


def _lowest(builder: Any, count: Any) -> Any:
    return builder.lshr(_I64(0xFF), builder.sub(_I64(LANES64), count))


def _load_some(builder: Any, pointer: Any, count: Any) -> Any:
    """The first ``count`` of eight words, the others 0; memory behind them is not read."""
    vector = ir.VectorType(_I64, LANES64)
    bits = ir.VectorType(_I1, LANES64)
    mask = builder.bitcast(builder.trunc(_lowest(builder, count), _I8), bits)
    source = builder.bitcast(pointer, vector.as_pointer())
    nothing = ir.Constant(vector, [0] * LANES64)
    load = f"masked.load.v{LANES64}i64.p0"
    return called(builder, load, vector, source, _I32(8), mask, nothing)


def _sum(builder: Any, lanes: Any) -> Any:
    return called(builder, f"vector.reduce.add.v{LANES64}i64", _I64, lanes)


@operation("uint64")
def bits_lacking(builder: Any, array: Any, own: Any, other: Any) -> Any:
    """Number of set bits in eight words of an array that are not set in eight others.

    :param own, other: index of the first word of each in the flattened array
    """
    mine, theirs = (
        _load(builder, builder.gep(array.data, [first]), _I64, LANES64) for first in (own, other)
    )
    return _sum(builder, _ctpop(builder, builder.and_(mine, builder.not_(theirs))))


@operation("uint64")
def differing_groups(
    builder: Any, array: Any, byte: Any, query: Any, bits: Any, lowest: Any
) -> Any:
    """Number of groups of ``bits`` bits (1, 2, 4 or 8) in which two codes of 512 bits differ.

    One code begins at ``byte`` of the array, which need not be aligned, the other is ``query[:8]``.
    ``lowest`` is a word with the lowest bit of each group set.
    """
    row = _load(builder, builder.gep(_bytes(builder, array), [byte]), _I64, LANES64)
    row.align = 1
    differing = builder.xor(row, _load(builder, query.data, _I64, LANES64))
    # Steps that smaller groups do not need shift by 0, which changes nothing.
    for step in (1, 2, 4):
        used = builder.icmp_unsigned(">", bits, _I64(step))
        shift = _splat(builder, builder.select(used, _I64(step), _I64(0)), LANES64)
        differing = builder.or_(differing, builder.lshr(differing, shift))
    chosen = builder.and_(differing, _splat(builder, lowest, LANES64))
    return _sum(builder, _ctpop(builder, chosen))


@operation("void")
def minima64(builder: Any, hashes: Any, factors: Any, offsets: Any, start: Any, out: Any) -> None:
    """Write the minima of ``factor * hash + offset mod 2**32`` over all hashes for 64 permutations.

    Permutations and minima have the indexes ``start .. start + 63``. All minima stay in registers.
    """
    factors, offsets, target = (builder.gep(p.data, [start]) for p in (factors, offsets, out))
    vector = ir.VectorType(_I32, LANES32)
    parts = range(0, MINIMA, LANES32)
    a = [_load(builder, builder.gep(factors, [_I64(p)]), _I32, LANES32) for p in parts]
    b = [_load(builder, builder.gep(offsets, [_I64(p)]), _I32, LANES32) for p in parts]
    highest = ir.Constant(vector, [0xFFFFFFFF] * LANES32)
    minima = [cgutils.alloca_once_value(builder, highest) for _ in parts]
    with cgutils.for_range(builder, hashes.nitems) as loop:
        each = _splat(builder, builder.load(builder.gep(hashes.data, [loop.index])), LANES32)
        for factor, offset, slot in zip(a, b, minima, strict=True):
            value = builder.add(builder.mul(each, factor), offset)
            least = builder.load(slot)
            builder.store(
                builder.select(builder.icmp_unsigned("<", value, least), value, least), slot
            )
    for part, slot in zip(parts, minima, strict=True):
        _store(builder, builder.load(slot), builder.gep(target, [_I64(part)]), 4)


@operation("void")
def count_bits(builder: Any, features: Any, start: Any, stop: Any, counts: Any) -> None:
    """Write to ``counts[p]`` how many of ``features[start:stop]``, 255 at most, have bit p."""
    bits = ir.VectorType(_I1, 64)
    counters = ir.VectorType(_I8, 64)
    slot = cgutils.alloca_once_value(builder, ir.Constant(counters, [0] * 64))
    with cgutils.for_range(builder, stop, start=start) as loop:
        feature = builder.load(builder.gep(features.data, [loop.index]))
        ones = builder.zext(builder.bitcast(feature, bits), counters)
        builder.store(builder.add(builder.load(slot), ones), slot)
    _store(builder, builder.load(slot), counts.data, 1)


@operation("void")
def add_weights(builder: Any, features: Any, weights: Any, sums: Any) -> None:
    """Write to ``sums[p]`` the total weight of the features that have bit p."""
    bits = ir.VectorType(_I1, 64)
    totals = ir.VectorType(_I64, 64)
    zero = ir.Constant(totals, [0] * 64)
    slot = cgutils.alloca_once_value(builder, zero)
    with cgutils.for_range(builder, features.nitems) as loop:
        feature = builder.load(builder.gep(features.data, [loop.index]))
        weight = builder.load(builder.gep(weights.data, [loop.index]))
        each = _splat(builder, builder.zext(weight, _I64), 64)
        chosen = builder.select(builder.bitcast(feature, bits), each, zero)
        builder.store(builder.add(builder.load(slot), chosen), slot)
    _store(builder, builder.load(slot), sums.data, 8)
