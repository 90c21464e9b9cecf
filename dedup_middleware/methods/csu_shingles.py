"""Shingles of the patent, and the two ways to sample them.

龙军, 张祖平, 袁鑫攀, 罗跃逸: patent CN102024065, 基于SIMD优化的网页去重并行方法 (2011).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import keyed_hash

HASH: Final = "hash"
POSITION: Final = "position"

_BASE: Final = np.uint64(0x9E3779B97F4A7C15)


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer, a permutation of the 64-bit numbers, element by element."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ values >> np.uint64(31), np.uint64)


def token_hashes(tokens: Iterable[str], hash_key: int) -> NDArray[np.uint64]:
    """Keyed 64-bit hash of each token, in order."""
    known: dict[str, int] = {}
    hashes = []
    for token in tokens:
        if token not in known:
            known[token] = keyed_hash(token, hash_key)
        hashes.append(known[token])
    return np.array(hashes, np.uint64)


def shingle_hashes(tokens: Sequence[str], width: int, hash_key: int) -> NDArray[np.uint64]:
    """Hash of each run of ``width`` tokens, in order, repetitions included.

    Fewer tokens than that are one shingle; no token gives none.
    """
    if not tokens:
        return np.empty(0, np.uint64)
    values = token_hashes(tokens, hash_key)
    width = min(width, len(values))
    rolled = np.zeros(len(values) - width + 1, np.uint64)
    for i in range(width):
        rolled = rolled * _BASE + values[i : i + len(rolled)]
    return mix64(rolled)


def page_shingles(
    title: Sequence[str], body: Sequence[str], width: int, hash_key: int
) -> NDArray[np.uint64]:
    """Shingles of title and body; the separator between them is in none."""
    parts = [shingle_hashes(part, width, hash_key) for part in (title, body)]
    return np.concatenate(parts)


def sampling_step(shingles: int, wanted: int) -> int:
    """Step L / n that takes about ``wanted`` of L shingles, at least 1.

    >>> sampling_step(1000, 300), sampling_step(10, 300)
    (3, 1)
    """
    return max(1, shingles // wanted)


def sample_by_position(shingles: NDArray[np.uint64], wanted: int) -> NDArray[np.uint64]:
    """Every L/n-th shingle, as the patent puts it.

    One token more at the front moves all positions: pages that have 99.7 % of their shingles in
    common then have none of their samples in common.
    """
    return shingles[:: sampling_step(len(shingles), wanted)]


def sample_by_hash(shingles: NDArray[np.uint64], wanted: int) -> NDArray[np.uint64]:
    """The shingles whose hash is a multiple of the step L/n (our resolution).

    What stands before a shingle does not matter, so that the samples are as alike as the pages,
    unless L lies on two sides of a multiple of n: the steps then differ, and with them the
    samples. The smallest hash stands for a page that has no such shingle.
    """
    if not len(shingles):
        return shingles
    step = np.uint64(sampling_step(len(shingles), wanted))
    chosen = shingles[shingles % step == 0]
    return chosen if len(chosen) else np.sort(shingles)[:1]


def sample(shingles: NDArray[np.uint64], wanted: int, mode: str) -> NDArray[np.uint64]:
    """About ``wanted`` shingles, chosen by ``position`` or ``hash``."""
    if mode == POSITION:
        return sample_by_position(shingles, wanted)
    return sample_by_hash(shingles, wanted)
