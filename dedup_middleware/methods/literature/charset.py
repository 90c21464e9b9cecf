"""Pages as vectors of character frequencies: by a list of characters, or by machine code.

李洪奇 et al.: 基于字集特征向量的网页消重改进算法, 计算机工程与应用 2017,53(2):53-57, doi
10.3778/j.issn.1002-8331.1503-0340.

Ours: the list of N = 3764 common characters, and that white space is not counted.

Vectors are compared as bit planes: plane i of a vector holds bit i of every count. The dot product
is the sum of ``2**(i + j) * popcount(a_i & b_j)`` over all planes, exact in integers. Counts have
about five bits, so a pair takes some 25 * 59 words instead of two arrays of 3764 integers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, I64, R8, R64, RI64, U64
from dedup_middleware.base.settingfields import one_of
from dedup_middleware.methods.literature.base import MethodInput, SignatureMethod, share
from dedup_middleware.methods.literature.digests import md5
from dedup_middleware.methods.literature.hashsets import bare
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.signature._vector import ones

SIZE: Final = 3764
KEY_BITS: Final = 16
UTF_16: Final = "utf-16"
GB2312: Final = "gb2312"
_DIGEST: Final = b"\0"  # a count width of zero marks a digest

# The most frequent Han characters outside GB2312 level 1 in the large Chinese word list of wordfreq
# 3.1.1 (R. Speer, 2022), where a word's frequency counts for each of its characters. The first is
# the one in the name of Shenzhen.
FREQUENT_OTHERS: Final = "圳嗯瞭浏矶稣魅咪妳"


def level_1() -> str:
    """Return the 3755 characters of GB2312 level 1, rows 16 to 55, in standard order."""
    codes = (bytes((row, cell)) for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF))
    # The last five cells of the last row are empty.
    return "".join(code.decode("gb2312", "ignore") for code in codes)


@lru_cache(maxsize=1)
def _character_positions() -> NDArray[np.int16]:
    """The list position of every code unit, -1 for those not in the list."""
    positions = np.full(1 << KEY_BITS, -1, np.int16)
    for i, character in enumerate(level_1() + FREQUENT_OTHERS):
        positions[ord(character)] = i
    positions.flags.writeable = False
    return positions


@lru_cache(maxsize=1)
def _machine_code_positions() -> NDArray[np.int16]:
    """The position of every 16-bit code, by bisection from its low bit: each bit chooses half of
    the range that the lower bits have left."""
    keys = np.arange(1 << KEY_BITS)
    positions = np.zeros(1 << KEY_BITS, np.int16)
    for j in range(KEY_BITS):
        positions += ((keys >> j & 1) * SIZE >> (j + 1)).astype(np.int16)
    positions.flags.writeable = False
    return positions


def machine_codes(text: str, encoding: str = UTF_16) -> NDArray[np.uint16]:
    """Return the 16-bit keys of a text: UTF-16 code units or GB2312 bytes, high byte first.

    In GB2312 an ASCII character is one byte; characters outside GB2312 are left out.

    >>> [hex(key) for key in machine_codes("啊a", "gb2312")]
    ['0xb0a1', '0x61']
    """
    if encoding == UTF_16:
        return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").astype(np.uint16)
    raw = np.frombuffer(text.encode("gb2312", "ignore"), np.uint8)
    high = raw >= 0x80
    keys = raw.astype(np.uint16)
    # Both bytes of a character are high, so high bytes come in pairs.
    first = np.flatnonzero(high)[::2]
    keys[first] = keys[first] << np.uint16(8) | keys[first + 1]
    high[first] = False
    return keys[~high]


def pack(vector: NDArray[np.int64]) -> bytes:
    """Pack a vector: the width w of a count (1, 2 or 4), positions ``<u2``, counts ``<u`` w.

    Only nonzero elements are stored, by ascending position.
    """
    positions = np.flatnonzero(vector)
    counts = vector[positions]
    largest = int(counts.max(initial=0))
    width = 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4
    return (
        bytes([width]) + positions.astype("<u2").tobytes() + counts.astype(f"<u{width}").tobytes()
    )


WORDS: Final = 59  # 64-bit words of a plane, enough for 3764 positions
POSITIONS: Final = 64 * WORDS

_PLANES = types.Tuple((U64, I64, I64))
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_MOST_SQUARE: Final = float(1 << 60)


@attrs.frozen(eq=False)
class Planes:
    """The bit planes of n packed vectors.

    :param words: uint64, planes of 59 words
    :param firsts: int64[n + 1], first plane of each vector; invalid vectors have none
    :param squares: int64[n], dot product of each vector with itself
    """

    words: NDArray[np.uint64]
    firsts: NDArray[np.int64]
    squares: NDArray[np.int64]

    @classmethod
    def of(cls, packed: Sequence[bytes]) -> Planes:
        """Unpack vectors packed by :func:`pack` into bit planes."""
        starts = np.zeros(len(packed) + 1, np.int64)
        np.cumsum([len(data) for data in packed], out=starts[1:])
        return cls(*_planes(np.frombuffer(b"".join(packed), np.uint8), starts))

    def tanimoto(self, others: Planes) -> NDArray[np.float64]:
        """Return the Tanimoto coefficient of this single vector and each other; 0 if both are 0."""
        return _tanimotos(self.words, self.squares, others.words, others.firsts, others.squares)


@subkernel
def _count_width(data: NDArray[np.uint8], start: Word, stop: Word) -> Word:
    """Return the bytes per count of the packed vector data[start:stop], 0 if it is invalid."""
    if start >= stop:
        return np.int64(0)
    width = np.int64(data[start])
    # 1, 2 or 4
    if width == 0 or 4 % width != 0 or (stop - start - 1) % (2 + width) != 0:
        return np.int64(0)
    entries, square = (stop - start - 1) // (2 + width), np.float64(0)
    for i in range(entries):
        if _position(data, start, i) >= POSITIONS:
            return np.int64(0)
        square += np.float64(_count(data, start, entries, width, i)) ** 2
    # No page has larger counts (2 ** 30 of one character); sums of their products would wrap.
    return width if square < _MOST_SQUARE else np.int64(0)


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
        # Indices are unsigned: signed ones would be checked for wrap-around at every step.
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


@attrs.frozen
class _ByVector(SignatureMethod):
    """Compares two vectors by their Tanimoto coefficient.

    Payload: :func:`pack`. A page with a zero vector matches only pages with the same normalised
    text; its payload is a zero byte and the MD5 of that text.
    """

    reads_tokens: ClassVar[bool] = False
    threshold: float = share(0.9)

    @property
    def has_keys(self) -> bool:
        """False: frequencies have no keys, so the usual candidates are compared."""
        return False

    @abstractmethod
    def vector(self, text: str) -> NDArray[np.int64]:
        """Return the frequencies in a text, int64[3764]."""

    def sign(self, page: MethodInput) -> Signature | None:
        vector = self.vector(page.text)
        if vector.any():
            return Signature((), pack(vector))
        normalised = bare(page.text)
        return Signature((), _DIGEST + md5(normalised)) if normalised else None

    def compare(self, a: Signature, b: Signature) -> float:
        return float(self.similarities(a, self.gather([b.payload]))[0])

    def gather(self, payloads: Sequence[bytes]) -> tuple[tuple[bytes, ...], Planes]:
        """Return the payloads of many pages, and the bit planes of those that are vectors."""
        return tuple(payloads), Planes.of(payloads)

    def similarities(
        self, own: Signature, gathered: tuple[tuple[bytes, ...], Planes]
    ) -> NDArray[np.float64]:
        payloads, planes = gathered
        if own.payload[:1] == _DIGEST:
            return np.array([payload == own.payload for payload in payloads], np.float64)
        return Planes.of([own.payload]).tanimoto(planes)


@attrs.frozen
class CharacterSet(_ByVector):
    """Tanimoto coefficient of common character frequencies (字集特征向量)."""

    name: ClassVar[str] = "charset"

    def vector(self, text: str) -> NDArray[np.int64]:
        positions = _character_positions()[machine_codes(text)]
        return np.bincount(positions[positions >= 0], minlength=SIZE)


@attrs.frozen
class MachineCode(_ByVector):
    """Tanimoto coefficient of machine code frequencies (机内码特征向量).

    :param encoding: with Chinese text ``utf-16`` fills 2048 positions, ``gb2312`` only 752
    """

    name: ClassVar[str] = "machine-code"
    encoding: str = attrs.field(default=UTF_16, validator=one_of(UTF_16, GB2312))

    def vector(self, text: str) -> NDArray[np.int64]:
        keys = machine_codes("".join(text.split()), self.encoding)
        return np.bincount(_machine_code_positions()[keys], minlength=SIZE)
