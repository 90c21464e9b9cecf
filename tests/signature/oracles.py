"""What the kernels must compute, written without them: plain Python and NumPy."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

WORD = (1 << 64) - 1

# Values where carries, signs and shifts go wrong come up as often as all others.
words = st.one_of(
    st.sampled_from([0, 1, 2, 1 << 31, 1 << 32, (1 << 32) - 1, 1 << 63, (1 << 63) - 1, WORD]),
    st.integers(0, WORD),
)
halves = st.one_of(
    st.sampled_from([0, 1, 1 << 31, (1 << 31) - 1, (1 << 32) - 1]), st.integers(0, (1 << 32) - 1)
)


def codes(max_size: int = 200) -> st.SearchStrategy[NDArray[np.uint64]]:
    """Arrays of fingerprints around the sizes where the kernels change their step."""
    return st.lists(words, max_size=max_size).map(lambda values: np.array(values, dtype=np.uint64))


def random_codes(size: int, seed: int) -> NDArray[np.uint64]:
    """Fingerprints without any structure."""
    return np.random.default_rng(seed).integers(0, 1 << 64, size, dtype=np.uint64)


def flipped(values: NDArray[Any], bits: int, seed: int) -> NDArray[Any]:
    """Each value with exactly ``bits`` of its bits flipped."""
    rng = np.random.default_rng(seed)
    out = values.copy()
    for i in range(values.size):
        for bit in rng.choice(64, bits, replace=False):
            out[i] ^= np.uint64(1) << np.uint64(bit)
    return np.asarray(out)


def clustered(size: int, seed: int) -> NDArray[np.uint64]:
    """Random fingerprints with neighbours at every distance from 0 to 6."""
    base = random_codes(size, seed)
    return np.concatenate([base, *(flipped(base[::7], bits, seed + bits) for bits in range(7))])


def mix(value: int, bits: int) -> int:
    """MurmurHash3's finalizer for 32 or 64 bits."""
    shifts, factors = {
        32: ((16, 13, 16), (0x85EBCA6B, 0xC2B2AE35)),
        64: ((33, 33, 33), (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)),
    }[bits]
    top = (1 << bits) - 1
    value ^= value >> shifts[0]
    value = value * factors[0] & top
    value ^= value >> shifts[1]
    value = value * factors[1] & top
    return value ^ value >> shifts[2]


def hamming(fingerprints: NDArray[np.uint64], query: int) -> NDArray[Any]:
    """The distance of each fingerprint to the query."""
    return np.asarray(np.bitwise_count(fingerprints ^ np.uint64(query)))


def within(fingerprints: NDArray[np.uint64], query: int, distance: int) -> list[int]:
    """The linear scan."""
    found: list[int] = np.flatnonzero(hamming(fingerprints, query) <= distance).tolist()
    return found


def differences(distance: int) -> NDArray[np.uint64]:
    """All words with at most so many bits: 43,745 for three."""
    masks = [
        sum(1 << bit for bit in chosen)
        for size in range(distance + 1)
        for chosen in combinations(range(64), size)
    ]
    return np.array(masks, dtype=np.uint64)


def query_expansion(
    fingerprints: NDArray[np.uint64], query: int, masks: NDArray[np.uint64]
) -> list[int]:
    """Look up every neighbour of the query among the fingerprints stored as they are."""
    positions: dict[int, list[int]] = {}
    for position, fingerprint in enumerate(fingerprints.tolist()):
        positions.setdefault(fingerprint, []).append(position)
    probes = (np.uint64(query) ^ masks).tolist()
    return sorted(found for probe in probes for found in positions.get(probe, ()))


def sums(features: list[int], weights: list[int]) -> list[int]:
    """SimHash's histogram, entry p for bit p."""
    return [
        sum(w if f >> p & 1 else -w for f, w in zip(features, weights, strict=True))
        for p in range(64)
    ]


def bands(minhash: list[int], count: int, rows: int) -> list[int]:
    """The hash of each band."""
    golden = 0x9E3779B97F4A7C15
    out = []
    for band in range(count):
        h = band * golden & WORD
        for value in minhash[band * rows : (band + 1) * rows]:
            h = mix(h ^ value, 64) + golden & WORD
        out.append(h)
    return out


def sketch(minhash: list[int], bits: int) -> list[int]:
    """The bits of 512 / ``bits`` minima, as eight words."""
    number = 0
    for i, value in enumerate(minhash[: 512 // bits]):
        number |= (mix(value, 32) >> (32 - bits)) << (i * bits)
    return [number >> (64 * word) & WORD for word in range(8)]


def bad_vectors(dtype: type[Any]) -> list[Any]:
    """What must be refused where an array of ``dtype`` with one dimension is wanted."""
    other = np.int64 if dtype is not np.int64 else np.float64
    return [
        [1, 2, 3],
        None,
        7,
        np.zeros(4, dtype=other),
        np.zeros(4, dtype=np.dtype(dtype).newbyteorder()),
        np.zeros((2, 2), dtype=dtype),
        np.zeros((), dtype=dtype),
        np.array(["a"]),
    ]


def awkward_views(values: NDArray[Any]) -> list[NDArray[Any]]:
    """The same values as arrays that are strided, reversed, read-only, unaligned or mapped."""
    strided = np.repeat(values, 2)[::2]
    backwards = values[::-1].copy()[::-1]
    frozen = values.copy()
    frozen.flags.writeable = False
    raw = np.frombuffer(b"\0" + values.tobytes(), dtype=np.uint8)[1:]
    record = np.zeros(values.size, dtype=[("pad", np.uint8), ("value", values.dtype)])
    record["value"] = values
    return [strided, backwards, frozen, raw.view(values.dtype), record["value"]]
