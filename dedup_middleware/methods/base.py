"""The interface of all methods: the buckets of a page, and which candidates make it a duplicate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.buckets import (
    EXACT_TABLE,
    KEY_TABLE,
    BucketKey,
    BucketKeys,
    anchor_bucket_keys,
    band_bucket_keys,
    hash_bucket_key,
    simhash_bucket_keys,
    table_name,
)
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import CONTENT

# Reasons that the rules on content give, and their codes within kernels.
#: all reasons by their codes; a page with one of the first two is a duplicate
REASONS: Final = (
    "exact-copy",
    "near-duplicate",
    "too-short-to-compare",
    "too-little-in-common",
    "other-figures",
    "turned-round",
    "other-title",
    "common-on-host",
)
EXACT, CONTAINED, TOO_SHORT, TOO_LITTLE, OTHER_FIGURES, TURNED, OTHER_TITLE, COMMON = REASONS
EXACT_CODE, CONTAINED_CODE, TOO_SHORT_CODE, TOO_LITTLE_CODE = range(4)
OTHER_FIGURES_CODE, TURNED_CODE, OTHER_TITLE_CODE, COMMON_CODE = range(4, 8)

LONG: Final = 128  # shingles of a page below which it needs more than the threshold
#: least threshold for a page of the same host under another title
SAME_HOST: Final = 0.95


Records = NDArray[np.void]  # CONTENT[n], see `model.records`
Payloads = Sequence[bytes]


@attrs.frozen(eq=False)
class Judgement:
    """Judgement of a method on n candidates.

    ``duplicate`` bool[n]; ``similarity`` float64[n], 0 to 1, how much of the new page the
    candidate holds; ``jaccard`` float64[n]; ``reasons`` names the rule that made each a duplicate
    or kept it apart. ``shared`` int64[n] estimates the shingles in common, ``figures`` int64[n]
    counts the places with other figures, ``turned`` int64[n] the parts with a clause that says the
    opposite, ``held`` bool[n] whether the new page, the longer one, holds nearly all of the
    candidate's words; None where the method does not compare these.
    """

    duplicate: NDArray[np.bool_]
    similarity: NDArray[np.float64]
    jaccard: NDArray[np.float64]
    reasons: tuple[str, ...]
    shared: NDArray[np.int64] | None = None
    figures: NDArray[np.int64] | None = None
    turned: NDArray[np.int64] | None = None
    held: NDArray[np.bool_] | None = None


class Method(ABC):
    """A rule that decides; frozen and without state, so that all processes decide alike."""

    name: ClassVar[str]
    #: whether :meth:`judge` needs the payloads of the candidates, which are then fetched
    keeps_payload: ClassVar[bool] = False
    #: whether a stored page with the same text makes a page a duplicate whatever else is stored,
    #: unless its title is another one on the same host; see :class:`~.claims.Entry`
    settles_exact: ClassVar[bool] = False
    #: fields of CONTENT by which it judges; an index keeps no others
    fields: ClassVar[tuple[str, ...]] = CONTENT.names or ()
    scan_distance: int
    min_features: int
    #: least similarity of a duplicate; other rules may keep a page that reaches it
    threshold: float

    @abstractmethod
    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:
        """Judge a page against candidates, n pages that were stored before it.

        :param payloads: theirs, if :attr:`keeps_payload`
        """

    def bucket_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Bucket keys of a page: its key; its exact text if it is short, else its content."""
        key = hash_bucket_key(KEY_TABLE, page.key_hash)
        if self.is_short(page):
            return (key, hash_bucket_key(EXACT_TABLE, page.exact))
        return (key, *self.content_keys(page))

    def is_short(self, page: Fingerprint) -> bool:
        """Whether a page has so few shingles that only an equal text is a copy of it."""
        return page.simhash is None or page.size < self.min_features

    def content_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Bucket keys of what a page that is not short says: SimHash, bands and anchors."""
        bands, anchors = band_bucket_keys(page.bands), anchor_bucket_keys(page.anchors.tolist())
        return (*simhash_bucket_keys(page.simhash or 0), *bands, *anchors)

    def bucket_key_array(self, page: Fingerprint) -> BucketKeys:
        """The same as :meth:`bucket_keys`, as numbers."""
        return BucketKeys.of(self.bucket_keys(page))

    @property
    def keeps_sketch(self) -> bool:
        """Whether it judges by the sketch, so that an index keeps it."""
        return "sketch" in self.fields

    def probes(self, page: Fingerprint) -> tuple[BucketKey, ...]:  # noqa: ARG002 - for subclasses
        """Further buckets to search for like pages, in which this one is not entered."""
        return ()

    def table_name(self, table: int) -> str:
        """Name of one of its tables for people, to say which one found a page."""
        return table_name(table)


def probe_bucket_keys(simhash: int, volatile: Iterable[int]) -> tuple[BucketKey, ...]:
    """Bucket keys of a SimHash with one bit of a block flipped, in the table of that block.

    A SimHash whose block differs in just that bit has its record there (multi-probe LSH: Q. Lv et
    al., VLDB 2007).

    :param volatile: positions of bits, 0 to 63

    >>> [hex(key.bucket) for key in probe_bucket_keys(0, (63, 0))]
    ['0x28000', '0x50001']
    """
    places = simhash_bucket_keys(simhash)[::-1]  # the table of the lowest block is the last one
    return tuple(
        BucketKey(places[bit // 16].bucket ^ 1 << bit % 16, places[bit // 16].suffix)
        for bit in volatile
    )


def content_record(page: Fingerprint, *, sketched: bool = True) -> NDArray[np.void]:
    """CONTENT[1] of a page: what an index keeps of it and a method judges by.

    :param sketched: with its sketch, which takes longest to make; else that is 0
    """
    return np.frombuffer(bytearray(content_bytes(page, sketched=sketched)), CONTENT)


def content_bytes(page: Fingerprint, *, sketched: bool = True) -> bytes:
    """The bytes of :func:`content_record`."""
    return _CONTENT.pack(
        page.size, page.host, page.title, page.simhash or 0, page.exact, page.key_hash,
        page.figures.tobytes(), page.clauses.tobytes(), page.sketch.tobytes() if sketched else b"",
    )  # fmt: skip


# CONTENT: a tuple is packed six times as fast as the fields of a record are assigned.
_CONTENT = Struct("<I2H3Q48s36s64s")
