"""Synthetic fingerprints, the same pages for our indexes and for every peer.

Sizes are log-normal around 400 shingles, as in news pages. Minima of different pages are
independent, so unrelated pages share a band as rarely as real ones without a common template. A
copy is an edited page: its Jaccard index with the original is uniform between 0.85 and 1; each
minimum stays with that probability, and each bit of the SimHash flips with probability arccos(c) /
pi (Charikar 2002), where c = 2J / (1 + J) is the cosine of two sets of one size. Bands and sketches
are computed from the minima. An exact copy has the same numbers and another key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.pages import Pages, packed_simhash_keys, starts_of
from dedup_middleware.model.buckets import (
    FIRST_BAND_TABLE,
    SIMHASH_TABLES,
    BucketKeys,
    band_bucket_keys,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import CONTENT

if TYPE_CHECKING:
    from datasketch import MinHash

BANDS, ROWS = 8, 3
PERMUTATIONS = BANDS * ROWS
LOWEST = 0.85  # least Jaccard index of a copy with its original
_SKETCH = 512
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
Words = NDArray[np.uint64]


@attrs.frozen(eq=False)
class Fingerprints:
    """Columns of n pages: uint32[n, 24] minima, uint64[n] SimHashes and keys, CONTENT[n]."""

    minima: NDArray[np.uint32]
    simhashes: Words
    keys: Words
    content: NDArray[np.void]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def bands(self) -> Words:
        """uint64[n, 8]: hashes of three minima each."""
        minima = self.minima.astype(np.uint64).reshape(len(self), BANDS, ROWS)
        mixed = np.zeros((len(self), BANDS), np.uint64)
        for row in range(ROWS):
            mixed = (mixed ^ minima[:, :, row]) * np.uint64(_MIX[row])
            mixed ^= mixed >> np.uint64(29)
        return np.asarray(mixed * np.uint64(_MIX[0]), np.uint64)

    def address(self, i: int) -> str:
        """Return the address of a page, 80 characters."""
        return f"https://www.example.com/{int(self.keys[i]):056d}"

    def entries(self) -> list[Entry]:
        """Return the pages as entries, to decide them one by one."""
        bands = self.bands.tolist()
        hashes = self.simhashes.tolist()
        keys = self.keys.tolist()
        return [
            Entry(
                BucketKeys.of(
                    (
                        hash_bucket_key(0, keys[i]),
                        *simhash_bucket_keys(hashes[i]),
                        *band_bucket_keys(bands[i]),
                    )
                ),
                self.content[i].tobytes(),
                self.address(i),
                exact=True,
            )
            for i in range(len(self))
        ]

    def pages(self) -> Pages:
        """Return the pages in the form for bulk loading."""
        count = len(self)
        columns = [self.keys >> np.uint64(24)]
        columns += [
            packed_simhash_keys(self.simhashes, np.full(count, table, np.uint64))
            for table in SIMHASH_TABLES
        ]
        columns += [
            np.uint64(FIRST_BAND_TABLE + i << 40) | band >> np.uint64(24)
            for i, band in enumerate(self.bands.T)
        ]
        return Pages(
            self.content,
            [self.address(i).encode() for i in range(count)],
            [b""] * count,
            np.full(count, 1_750_000_000, np.uint32),
            np.stack(columns, axis=1).ravel(),
            starts_of(np.full(count, len(columns), np.int64)),
        )

    def minhashes(self) -> list[MinHash]:
        """Return the pages as datasketch's signatures."""
        from datasketch import MinHash  # loads SciPy, which only datasketch needs

        return [
            MinHash(num_perm=PERMUTATIONS, scheme="affine32", hashvalues=row) for row in self.minima
        ]


def fresh(count: int, seed: int) -> Fingerprints:
    """Generate unrelated pages."""
    rng = np.random.default_rng(seed)
    content = np.zeros(count, CONTENT)
    content["size"] = rng.lognormal(np.log(400), 0.7, count).clip(8, 50_000)
    content["sketch"] = rng.integers(0, 1 << 64, (count, 8), dtype=np.uint64)
    simhashes = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    keys = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    content["simhash"], content["key"] = simhashes, keys
    minima = rng.integers(0, 1 << 32, (count, PERMUTATIONS), dtype=np.uint32)
    content["exact"] = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    return Fingerprints(minima, simhashes, keys, content)


def copies(pages: Fingerprints, which: Sequence[int], seed: int) -> Fingerprints:
    """Generate edited copies of some pages, under their own keys."""
    rng = np.random.default_rng(seed)
    chosen = np.asarray(which)
    other = fresh(len(chosen), seed + 1)
    jaccard = rng.uniform(LOWEST, 1.0, len(chosen))
    kept = rng.random((len(chosen), PERMUTATIONS)) < jaccard[:, None]
    turned = (
        rng.random((len(chosen), 64)) < (np.arccos(2 * jaccard / (1 + jaccard)) / np.pi)[:, None]
    )
    # A bit of the sketch differs if its minimum does and the bits differ by chance.
    edited = rng.random((len(chosen), _SKETCH)) < ((1 - jaccard) / 2)[:, None]
    content = pages.content[chosen].copy()
    simhashes = pages.simhashes[chosen] ^ _packed(turned).ravel()
    content["sketch"] ^= _packed(edited)
    content["simhash"], content["key"] = simhashes, other.keys
    content["exact"] = other.content["exact"]
    minima = np.where(kept, pages.minima[chosen], other.minima)
    return Fingerprints(minima, simhashes, other.keys, content)


def exact_copies(pages: Fingerprints, which: Sequence[int], seed: int) -> Fingerprints:
    """Generate exact copies of some pages, under their own keys."""
    chosen = np.asarray(which)
    keys = fresh(len(chosen), seed).keys
    content = pages.content[chosen].copy()
    content["key"] = keys
    return Fingerprints(pages.minima[chosen], pages.simhashes[chosen], keys, content)


def mixed(parts: Sequence[Fingerprints], seed: int) -> Fingerprints:
    """Return the pages of all parts in random order."""
    order = np.random.default_rng(seed).permutation(sum(map(len, parts)))
    return Fingerprints(
        np.concatenate([one.minima for one in parts])[order],
        np.concatenate([one.simhashes for one in parts])[order],
        np.concatenate([one.keys for one in parts])[order],
        np.concatenate([one.content for one in parts])[order],
    )


def _packed(bits: NDArray[np.bool_]) -> Words:
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
