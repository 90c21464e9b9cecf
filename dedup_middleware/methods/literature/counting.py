"""Two comparisons of many pages that count bits of whole registers.

**Scalar products** of vectors of small counts. A vector is a sum of bit sets: plane i holds bit i
of every count. The product of two vectors is the sum of ``2**(i + j) * popcount(a_i & b_j)`` over
the planes, exact in integers. A page's counts have about five bits, so a pair takes some 25 * 59
words instead of two arrays of 3764 integers.

**Equal positions** of fingerprints: eight positions of 16 bits fill a register of 128 bits; one
instruction compares them all, as in the patent of :mod:`.csu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, compiler, kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, I64, R8, R64, RI64, U8, U64
from dedup_middleware.signature._vector import ones, operation

WORDS: Final = 59  # in a plane: 3764 positions
POSITIONS: Final = 64 * WORDS

_PLANES = types.Tuple((U64, I64, I64))
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)


@attrs.frozen(eq=False)
class Planes:
    """The bit planes of n packed vectors.

    :param words: uint64, planes of 59 words
    :param firsts: int64[n + 1], the first plane of each vector; none for bytes that are no vector
    :param squares: int64[n], product of each vector with itself
    """

    words: NDArray[np.uint64]
    firsts: NDArray[np.int64]
    squares: NDArray[np.int64]

    @classmethod
    def of(cls, packed: Sequence[bytes]) -> Planes:
        """The planes of vectors packed as :func:`.charset.pack` does."""
        starts = np.zeros(len(packed) + 1, np.int64)
        np.cumsum([len(data) for data in packed], out=starts[1:])
        return cls(*_planes(np.frombuffer(b"".join(packed), np.uint8), starts))

    def tanimoto(self, others: Planes) -> NDArray[np.float64]:
        """Tanimoto coefficient of this one vector with each of others, 0 where both are zero."""
        return _tanimotos(self.words, self.squares, others.words, others.firsts, others.squares)


@subkernel
def _count_width(data: NDArray[np.uint8], start: Word, stop: Word) -> Word:
    """Bytes of a count of the packed vector data[start:stop]; 0 if it is none."""
    if start >= stop:
        return np.int64(0)
    width = np.int64(data[start])
    # 1, 2 or 4
    if width == 0 or 4 % width != 0 or (stop - start - 1) % (2 + width) != 0:
        return np.int64(0)
    for i in range((stop - start - 1) // (2 + width)):
        if _position(data, start, i) >= POSITIONS:
            return np.int64(0)
    return width


@subkernel
def _position(data: NDArray[np.uint8], start: Word, i: Word) -> Word:
    place = start + 1 + 2 * i
    return np.int64(data[place]) | np.int64(data[place + 1]) << 8


@subkernel
def _count(data: NDArray[np.uint8], start: Word, entries: Word, width: Word, i: Word) -> Word:
    place = start + 1 + 2 * entries + width * i
    count = np.int64(0)
    for j in range(width):
        count |= np.int64(data[place + j]) << (8 * j)
    return count


@kernel(_PLANES(R8, RI64))
def _planes(
    data: NDArray[np.uint8], starts: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    vectors = starts.size - 1
    firsts = np.zeros(vectors + 1, np.int64)
    squares = np.zeros(vectors, np.int64)
    for row in range(vectors):
        start, stop = starts[row], starts[row + 1]
        width = _count_width(data, start, stop)
        bits = np.int64(0)
        if width != 0:
            entries = (stop - start - 1) // (2 + width)
            for i in range(entries):
                count = _count(data, start, entries, width, i)
                squares[row] += count * count
                while count >> bits != 0:
                    bits += 1
        firsts[row + 1] = firsts[row] + bits
    words = np.zeros(firsts[vectors] * WORDS, np.uint64)
    for row in range(vectors):
        if firsts[row] == firsts[row + 1]:
            continue
        start, stop = starts[row], starts[row + 1]
        width = np.int64(data[start])
        entries = (stop - start - 1) // (2 + width)
        for i in range(entries):
            count = np.uint64(_count(data, start, entries, width, i))
            position = np.uint64(_position(data, start, i))
            place = np.uint64(firsts[row] * WORDS) + (position >> _SIX)
            while count != 0:
                words[place] |= (count & _ONE) << (position & _LOW)
                count >>= _ONE
                place += np.uint64(WORDS)
    return words, firsts, squares


@kernel(F64(R64, RI64, R64, RI64, RI64))
def _tanimotos(
    own: NDArray[np.uint64],
    own_square: NDArray[np.int64],
    words: NDArray[np.uint64],
    firsts: NDArray[np.int64],
    squares: NDArray[np.int64],
) -> NDArray[np.float64]:
    out = np.zeros(squares.size, np.float64)
    width = np.uint64(WORDS)
    for row in range(np.uint64(squares.size)):
        product = np.uint64(0)
        first = np.uint64(firsts[row])
        # Unsigned indices: signed ones would be checked for wrap-around in every turn.
        for i in range(np.uint64(own.size) // width):
            for j in range(np.uint64(firsts[row + _ONE]) - first):
                shared = np.uint64(0)
                for word in range(width):
                    shared += ones(own[i * width + word] & words[(first + j) * width + word])
                product += shared << (i + j)
        total = own_square[0] + squares[row] - np.int64(product)
        if total > 0:
            out[row] = np.int64(product) / total
    return out


(ir,) = compiler("llvmlite.ir")
LANES: Final = 8  # positions in a register

_R16: Final = types.Array(types.uint16, 1, readonly=True)
_ZERO = np.uint64(0)
_LANES = np.uint64(LANES)


@operation("uint64")
def _equal_lanes(builder: Any, array: Any, start: Any, query: Any, offset: Any) -> Any:
    """How many of ``array[start:start + 8]`` equal their counterpart in ``query[offset:]``."""
    lanes = ir.VectorType(ir.IntType(16), LANES)
    loaded = []
    for one, first in ((array, start), (query, offset)):
        pointer = builder.gep(one.data, [first])
        register = builder.load(builder.bitcast(pointer, lanes.as_pointer()))
        register.align = 2
        loaded.append(register)
    equal = builder.bitcast(builder.icmp_unsigned("==", *loaded), ir.IntType(8))
    return builder.zext(builder.ctpop(equal), ir.IntType(64))


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
