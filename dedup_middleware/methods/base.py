"""Interface of every method: the bucket keys of a page, and the judgement of its candidates."""

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

# The reasons of the method ``content``, and the codes that its kernels return for them.
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

LONG: Final = 128  # shingles; a shorter page needs a similarity above the threshold
#: lowest similarity that makes a page a duplicate of one of the same host under another title
SAME_HOST: Final = 0.95


Records = NDArray[np.void]  # CONTENT[n], see `model.records`
Payloads = Sequence[bytes]


@attrs.frozen(eq=False)
class Judgement:
    """A method's judgement of n candidates.

    ``duplicate`` bool[n]; ``similarity`` float64[n], 0 to 1, as the method defines it; ``jaccard``
    float64[n], estimated; ``reasons``, n names of the rule that made the page a duplicate of the
    candidate or kept it. A method that does not compute the following leaves them None: ``shared``
    int64[n], estimated number of common shingles; ``figures`` int64[n], number of places with
    different figures; ``held`` bool[n], whether the longer new page holds nearly all shingles of
    the candidate; ``alone`` bool[n], whether the page would be a duplicate of the candidate, or
    may be one, without some other candidates.
    """

    duplicate: NDArray[np.bool_]
    similarity: NDArray[np.float64]
    jaccard: NDArray[np.float64]
    reasons: tuple[str, ...]
    shared: NDArray[np.int64] | None = None
    figures: NDArray[np.int64] | None = None
    held: NDArray[np.bool_] | None = None
    alone: NDArray[np.bool_] | None = None


class Method(ABC):
    """A rule that judges candidates. Frozen and stateless, so that all processes decide alike."""

    name: ClassVar[str]
    #: whether :meth:`judge` needs the candidates' payloads, which the index then fetches
    keeps_payload: ClassVar[bool] = False
    #: whether a stored page with the same text makes a page a duplicate whatever other candidates
    #: there are, unless both are of one host under different titles; see :class:`~.claims.Entry`
    settles_exact: ClassVar[bool] = False
    #: fields of CONTENT that :meth:`judge` reads; an index stores no others
    fields: ClassVar[tuple[str, ...]] = CONTENT.names or ()
    scan_distance: int
    min_features: int
    #: lowest similarity of a duplicate; other rules may keep a page that reaches it
    threshold: float

    @abstractmethod
    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:
        """Judge a page against n candidates that were stored before it.

        :param payloads: one for each candidate, if :attr:`keeps_payload`
        """

    def bucket_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Bucket keys for a page's document key, and for its exact text if it is short, else for
        its content."""
        key = hash_bucket_key(KEY_TABLE, page.key_hash)
        if self.is_short(page):
            return (key, hash_bucket_key(EXACT_TABLE, page.exact))
        return (key, *self.content_keys(page))

    def is_short(self, page: Fingerprint) -> bool:
        """Whether a page has too few shingles, so that only its exact text is compared."""
        return page.simhash is None or page.size < self.min_features

    def content_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Bucket keys of the content of a page that is not short: SimHash, bands and anchors."""
        bands, anchors = band_bucket_keys(page.bands), anchor_bucket_keys(page.anchors.tolist())
        return (*simhash_bucket_keys(page.simhash or 0), *bands, *anchors)

    def bucket_key_array(self, page: Fingerprint) -> BucketKeys:
        """The keys of :meth:`bucket_keys`, in the same order, as an array."""
        return BucketKeys.of(self.bucket_keys(page))

    @property
    def keeps_sketch(self) -> bool:
        """Whether :meth:`judge` reads the sketch, so that an index has to store it."""
        return "sketch" in self.fields

    def probes(self, page: Fingerprint) -> tuple[BucketKey, ...]:  # noqa: ARG002 - for subclasses
        """Further buckets in which to look for candidates; the page gets no record in them."""
        return ()

    def table_name(self, table: int) -> str:
        """Readable name of a table."""
        return table_name(table)


def probe_bucket_keys(simhash: int, volatile: Iterable[int]) -> tuple[BucketKey, ...]:
    """Bucket keys that find SimHashes with one given bit flipped, in the table of that bit's block.

    Multi-probe LSH (Q. Lv et al., VLDB 2007): a SimHash that differs in only that bit of the block
    has its record in this bucket.

    :param volatile: positions of the bits to flip, 0 to 63

    >>> [hex(key.bucket) for key in probe_bucket_keys(0, (63, 0))]
    ['0x28000', '0x50001']
    """
    keys = simhash_bucket_keys(simhash)[::-1]  # the table of the lowest block is the last one
    return tuple(
        BucketKey(keys[bit // 16].bucket ^ 1 << bit % 16, keys[bit // 16].suffix)
        for bit in volatile
    )


def content_record(page: Fingerprint, *, sketched: bool = True) -> NDArray[np.void]:
    """CONTENT[1] of a page: the record that an index stores and a method judges by.

    :param sketched: fill in the sketch, which takes longest to compute; else it is 0
    """
    return np.frombuffer(bytearray(content_bytes(page, sketched=sketched)), CONTENT)


def content_bytes(page: Fingerprint, *, sketched: bool = True) -> bytes:
    """The bytes of :func:`content_record`."""
    return _CONTENT.pack(
        page.size, page.host, page.title, page.simhash or 0, page.exact, page.key_hash,
        page.figures.tobytes(), page.clauses.tobytes(), page.sketch.tobytes() if sketched else b"",
    )  # fmt: skip


# Layout of CONTENT. Packing a tuple takes a sixth of the time of assigning the record's fields.
_CONTENT = Struct("<I2H3Q48s36s64s")
