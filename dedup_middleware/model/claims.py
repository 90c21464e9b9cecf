"""Arguments and results of an index: entries, claims, candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.buckets import (
    NO_NEIGHBOURS,
    PAYLOAD_LIMIT,
    BucketKey,
    BucketKeys,
    Neighbours,
)
from dedup_middleware.model.records import NO_PAGES, PAGE_ID_MASK, PageRecords, State

MOST_KNOWN = 4096  # pages that one proposal can name


@attrs.frozen(eq=False, slots=False)  # with slots it takes longer to make
class Entry:
    """A page to be proposed to an index.

    ``content`` is one CONTENT record (see :mod:`.records`) as bytes, ``address`` the document key
    kept to name the page in later verdicts (None: not kept), ``bucket_keys`` the buckets that get a
    record of it. ``payload`` is whatever else a method keeps of a page, up to 65,536 bytes.
    ``exact``: a stored page with the same size, SimHash, exact hash, figures and sketch settles the
    decision, unless another one has the page's key.

    :raises ValueError: the payload is too long
    """

    bucket_keys: tuple[BucketKey, ...] | BucketKeys
    content: bytes
    address: str | None
    payload: bytes = b""
    exact: bool = False

    def __attrs_post_init__(self) -> None:
        if len(self.payload) > PAYLOAD_LIMIT:
            raise ValueError(
                f"payload has {len(self.payload)} bytes: an index keeps at most {PAYLOAD_LIMIT} of "
                "a page; shorten it"
            )


@attrs.frozen
class Claim:
    """A page's id, on lease until it is committed or released."""

    page_id: int
    token: int  # distinguishes this claim from any other one of the same id


@attrs.frozen(eq=False, slots=False)  # with slots it takes longer to make
class Candidates:
    """Stored pages that a page shares a bucket with, all of one moment.

    ``near``: their ids, and the tables in which they were found; equal suffixes in the band, key
    and exact tables, SimHashes within the distance in the others. ``pages``: their page records,
    ascending; those of the SimHash tables alone may be missing (``missing``). ``addresses``: those
    that came with the reply, ``payloads`` theirs, if the index keeps any. ``more``: there are more
    candidates than one reply holds; see ``Index.candidates``. Where an exact copy settles an
    entry, it may be the only candidate.
    """

    near: Neighbours = NO_NEIGHBOURS
    pages: PageRecords = NO_PAGES
    addresses: Mapping[int, str | None] = attrs.field(factory=dict)
    payloads: Mapping[int, bytes] = attrs.field(factory=dict)
    more: bool = False

    @property
    def missing(self) -> NDArray[np.uint64]:
        """Ids of candidates without a page record, ascending."""
        if len(self.pages) == len(self.near):
            return self.near.page_ids[:0]
        return np.setdiff1d(self.near.page_ids, self.pages.page_ids, assume_unique=True)


NO_CANDIDATES = Candidates()


@attrs.frozen(eq=False)
class Claimed:
    """The claim of a page, and the pages that it met in the SimHash tables alone, or that were
    claimed just before it by the same process.

    The claim must be released if one of those makes the page a duplicate. ``is_mutual``: they may
    have met this claim, too, whatever their ids are. Of two like pages that have met each other
    that with the greater id gives its claim back; that with the smaller id keeps its own until the
    other one is settled.
    """

    claim: Claim
    candidates: Candidates = NO_CANDIDATES
    is_mutual: bool = False


@attrs.frozen(eq=False)
class Known:
    """Pages that a client has judged and found to be unlike the one that it proposes.

    ``pages``: their records as they were judged, in any order. A page of them blocks a claim again
    if its id belongs to other content by now (a server that lost its last second gives ids twice),
    or if it is alive although it was judged as a released one. ``wanted``: candidates whose page
    record the client lacks; it comes with the reply, even with a claim. ``upto``: every page up to
    this id counts as known: after a flood, of which only a part was judged.

    :raises ValueError: more pages than :data:`MOST_KNOWN`
    """

    pages: PageRecords = NO_PAGES
    wanted: NDArray[np.uint64] = NO_PAGES.page_ids
    upto: int = 0

    def __attrs_post_init__(self) -> None:
        if len(self.pages) > MOST_KNOWN:
            raise ValueError(
                f"{len(self.pages)} pages are known: a proposal can name at most {MOST_KNOWN}; "
                "give the last id of all as upto"
            )

    def __bool__(self) -> bool:
        return bool(len(self.pages) or len(self.wanted) or self.upto)

    def still(self, now: PageRecords) -> NDArray[np.uint64]:
        """Ids of the pages that still are what was judged, ascending.

        :param now: the records of ``pages`` at this moment, in their order
        """
        gone = (self.pages.states == State.RELEASED) | (self.pages.states == State.FREE)
        same = np.where(gone, ~now.alive, now.content == self.pages.content)
        return np.sort(self.pages.page_ids[same])


NOTHING_KNOWN = Known()


EVERYTHING = Known(upto=PAGE_ID_MASK)  # the claim of a page that is entered whatever is stored


@attrs.frozen(eq=False, slots=False)  # with slots it takes longer to make
class Proposed:
    """A page that waits for its reply, with others; see :meth:`Index.propose`."""

    entry: Entry
    distance: int
    lease: float
    probes: tuple[BucketKey, ...] = ()
    known: Known = NOTHING_KNOWN

    @property
    def bucket_keys(self) -> Sequence[BucketKey]:
        """All buckets to read; those of the entry come first."""
        return (*self.entry.bucket_keys, *self.probes) if self.probes else self.entry.bucket_keys
