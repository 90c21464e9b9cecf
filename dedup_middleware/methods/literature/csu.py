"""The pipeline of a patent: shingles, sample, min-wise fingerprint, classes, SIMD comparison.

龙军, 张祖平, 袁鑫攀, 罗跃逸: patent CN102024065, 基于SIMD优化的网页去重并行方法 (2011).

1. Title and body, segmented by forward maximum matching, become shingles of w tokens.
2. About n of them are sampled and hashed to M min-wise values of 16 bits.
3. Pages that share a value form a class; only pages of one class are compared.
4. Equal values are counted by one SIMD instruction: similarity = equal / M.

Ours: n, the threshold, and the verification by the Jaccard index of all shingles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any, ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import compiler, kernel, operation
from dedup_middleware.base.kerneltypes import U8
from dedup_middleware.base.settingfields import one_of, whole
from dedup_middleware.methods.literature.base import KeyedMethod, MethodInput, share
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.signature.minhash import MinHasher, jaccards, sketch
from dedup_middleware.text.hashing import mixed

# Shingles, and the two ways to sample them.

HASH: Final = "hash"
POSITION: Final = "position"

_BASE: Final = np.uint64(0x9E3779B97F4A7C15)


def shingle_hashes(tokens: Sequence[str], width: int, hash_key: int) -> NDArray[np.uint64]:
    """Return a hash of each run of ``width`` tokens, in order, with repetitions.

    Fewer tokens form one shingle; no tokens, none.
    """
    if not tokens:
        return np.empty(0, np.uint64)
    hashed = cache(partial(keyed_hash, hash_key=hash_key))
    values = np.array([hashed(token) for token in tokens], np.uint64)
    width = min(width, len(values))
    rolled = np.zeros(len(values) - width + 1, np.uint64)
    for i in range(width):
        rolled = rolled * _BASE + values[i : i + len(rolled)]
    hashes: NDArray[np.uint64] = mixed(rolled)
    return hashes


def sampling_step(shingles: int, wanted: int) -> int:
    """Return the step L / n, at least 1, that selects about ``wanted`` of L shingles.

    >>> sampling_step(1000, 300), sampling_step(10, 300)
    (3, 1)
    """
    return max(1, shingles // wanted)


def sample(shingles: NDArray[np.uint64], wanted: int, mode: str) -> NDArray[np.uint64]:
    """Select about ``wanted`` of L shingles.

    ``position`` takes every L/n-th shingle, as in the patent: an extra token at the front changes
    all samples. ``hash`` (ours) takes shingles whose hash is a multiple of L/n, the smallest if
    there is none.
    """
    step = sampling_step(len(shingles), wanted)
    if mode == POSITION:
        return shingles[::step]
    chosen = shingles[shingles % np.uint64(step) == 0]
    return chosen if len(chosen) else np.sort(shingles)[:1]


# Min-wise fingerprints, 16 bits per position.

POSITION_BITS: Final = 16
FINGERPRINT_SEED: Final = 1
VERIFICATION_SEED: Final = 2
VERIFICATION_MINIMA: Final = 512


def fold16(minima: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return 16 bits of each 32-bit minimum.

    Minima are small and their lowest bits are correlated across positions, so they are mixed first
    (MurmurHash3's finaliser, bit for bit), and the high half is kept.
    """
    values = (minima ^ minima >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    values = (values ^ values >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    # `values ^ values >> 16` has the same high half as `values`.
    return np.asarray(values >> np.uint32(16), np.uint16)


@lru_cache(maxsize=8)
def _hasher(minima: int, seed: int) -> MinHasher:
    return MinHasher(minima, seed)


def fingerprint(sample: NDArray[np.uint64], positions: int) -> NDArray[np.uint16]:
    """Return the fingerprint of a non-empty sample with M positions, uint16[M]."""
    features = np.ascontiguousarray(sample)  # sampling by position returns a strided view
    return fold16(_hasher(positions, FINGERPRINT_SEED).of_features(features))


def verification_sketch(shingles: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a sketch of all shingles, uint64[8], by permutations of its own."""
    return sketch(_hasher(VERIFICATION_MINIMA, VERIFICATION_SEED).of_features(shingles))


# Counting equal positions.

(ir,) = compiler("llvmlite.ir")
LANES: Final = 8  # positions in a register

_R16: Final = types.Array(types.uint16, 1, readonly=True)
_ZERO = np.uint64(0)
_LANES = np.uint64(LANES)


@operation("uint64")
def _equal_lanes(builder: Any, array: Any, start: Any, query: Any, offset: Any) -> Any:
    """Count the elements of ``array[start:start + 8]`` equal to those of ``query[offset:]``."""
    lanes = ir.VectorType(ir.IntType(16), LANES)
    loaded = []
    for values, first in ((array, start), (query, offset)):
        pointer = builder.gep(values.data, [first])
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
    # Indices are unsigned: signed ones would be checked for wrap-around at every step.
    for row in range(count):
        total = _ZERO
        for unit in range(_ZERO, width, _LANES):
            total += _equal_lanes(rows, row * width + unit, query, unit)
        out[row] = total
    return out


def registers(fingerprints: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Pad fingerprints, shape (n, M), with zeros to whole registers."""
    count, positions = fingerprints.shape
    if positions % LANES == 0:
        return np.ascontiguousarray(fingerprints, np.uint16)
    filled = np.zeros((count, -(-positions // LANES) * LANES), np.uint16)
    filled[:, :positions] = fingerprints
    return filled


def equal_positions(
    fingerprints: NDArray[np.uint16], query: NDArray[np.uint16]
) -> NDArray[np.uint8]:
    """Return the number of positions at which each fingerprint equals the query, uint8[n].

    :param fingerprints: uint16, shape (n, M)
    :param query: uint16, shape (M,), M from 1 to 255
    :raises ValueError: the shapes do not fit
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


# The method.


def class_keys(
    values: NDArray[np.uint16], any_position: bool = False
) -> tuple[tuple[int, int], ...]:
    """Return the classes of a fingerprint as keys: pages with a common key are in one class. With
    ``any_position``, as in the patent, so are pages that share a value at different positions."""
    pairs = {
        (0 if any_position else j, value << 64 - POSITION_BITS)
        for j, value in enumerate(values.tolist())
    }
    return tuple(sorted(pairs))


@attrs.frozen
class Csu(KeyedMethod):
    """Compares equal positions of min-wise fingerprints, verified by the Jaccard index.

    The similarity is equal / M if the estimated Jaccard index is at least ``verify``, otherwise 0.
    Payload: M values ``<u2``, then the sketch, 8 words ``<u8``.

    :param threshold: share of positions that must be equal
    :param verify: least Jaccard index of a duplicate's shingles; 0: no verification
    :param positions: M, 7 to 10
    :param width: tokens in a shingle, 2 to 4 in the patent; 5 is for comparison
    :param samples: n, approximate number of sampled shingles
    :param sampling: ``hash``, or the patent's ``position``
    :param any_position: also put pages with equal values at different positions into one class
    """

    name: ClassVar[str] = "csu"
    used_to_compare: ClassVar[frozenset[str]] = frozenset({"threshold", "verify"})
    segmenter: ClassVar[str | None] = "fmm"
    threshold: float = share(0.5)
    verify: float = share(0.7)
    positions: int = attrs.field(default=8, validator=whole(7, 10, " positions"))
    width: int = attrs.field(default=3, validator=whole(2, 5, " tokens"))
    samples: int = attrs.field(default=1024, validator=whole(1, 1 << 30, " shingles"))
    sampling: str = attrs.field(default=HASH, validator=one_of(HASH, POSITION))
    any_position: bool = False

    def sign(self, page: MethodInput) -> Signature | None:
        # No token contains the separator of title and body.
        parts = (page.title_tokens, page.tokens)
        shingles = np.concatenate([shingle_hashes(p, self.width, self.hash_key) for p in parts])
        if not len(shingles):
            return None
        values = fingerprint(sample(shingles, self.samples, self.sampling), self.positions)
        sketch = verification_sketch(shingles)
        payload = values.astype("<u2").tobytes() + sketch.astype("<u8").tobytes()
        return Signature(class_keys(values, self.any_position), payload)

    def compare(self, a: Signature, b: Signature) -> float:
        return float(self.similarities(a, self.gather([b.payload]))[0])

    def gather(self, payloads: Sequence[bytes]) -> tuple[int, list[int], NDArray[np.void]]:
        """Return the number of pages, the positions of the valid payloads, and these as records."""
        record = np.dtype([("values", "<u2", (self.positions,)), ("sketch", "<u8", (8,))])
        valid = [i for i, payload in enumerate(payloads) if len(payload) == record.itemsize]
        return len(payloads), valid, np.frombuffer(b"".join(payloads[i] for i in valid), record)

    def similarities(
        self, own: Signature, gathered: tuple[int, list[int], NDArray[np.void]]
    ) -> NDArray[np.float64]:
        pages, valid, records = gathered
        similarity = np.zeros(pages, np.float64)
        page = self.gather([own.payload])[2]
        if len(page) and len(records):
            equal = equal_positions(records["values"], page["values"][0]) / self.positions
            verified = jaccards(page["sketch"][0], records["sketch"]) >= self.verify
            similarity[valid] = np.where(verified, equal, 0.0)
        return similarity
