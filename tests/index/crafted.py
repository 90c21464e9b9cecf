"""Pages whose SimHashes are crafted into one bucket.

An attacker would need the index's hash key to make them; here they are simply written down.
"""

from __future__ import annotations

import numpy as np

from dedup_middleware.index.pages import Pages, packed_simhash_keys, starts_of
from dedup_middleware.model.buckets import FIRST_BAND_TABLE, KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.records import CONTENT


def crafted(count: int, prefix: int, *, bands: int = 0, seed: int = 1) -> Pages:
    """Stored pages that have nothing in common but the first 16 bits of their SimHashes."""
    rng = np.random.default_rng(seed)

    def words() -> np.ndarray:
        return rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)

    content = np.zeros(count, CONTENT)
    content["size"], content["key"], content["exact"] = 400, words(), words()
    content["simhash"] = words() >> np.uint64(16) | np.uint64(prefix << 48)
    content["sketch"] = rng.integers(0, 1 << 64, (count, 8), np.uint64, endpoint=False)
    places = [_place(KEY_TABLE, content["key"])]
    for table in SIMHASH_TABLES:
        places.append(packed_simhash_keys(content["simhash"], np.full(count, table, np.uint64)))
    places += [_place(FIRST_BAND_TABLE + band, words()) for band in range(bands)]
    counts = np.full(count, len(places), np.int64)
    return Pages(
        content,
        [None] * count,
        [b""] * count,
        np.zeros(count, np.uint32),
        np.stack(places, axis=1).ravel(),
        starts_of(counts),
    )


def _place(table: int, values: np.ndarray) -> np.ndarray:
    return np.uint64(table << 40) | values >> np.uint64(24)
