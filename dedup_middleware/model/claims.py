"""Arguments and results of an index: entries, claims, candidates, page records with their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

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
from dedup_middleware.model.records import NO_PAGES, PAGE_ID_MASK, PageRecords, State, chosen

MOST_KNOWN = 4096  # pages that one proposal can name


@attrs.frozen(eq=False, slots=False)  # with slots it takes longer to make
class Entry:
    """A page to be proposed to an index.

    ``content`` is one CONTENT record (see :mod:`.records`) as bytes, ``address`` the document key
    that names the page in later verdicts (None: not kept), ``bucket_keys`` the buckets that get its
    records. ``payload`` is other data of the method, up to 65,536 bytes. ``exact``: a stored page
    may settle the decision if its content differs in key, host and title at most, unless it has
    another title on the same host, or another page has the key of this one.

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
    token: int  # distinguishes this claim from any other of the same id


@attrs.frozen(eq=False, slots=False)  # with slots it takes longer to make
class Candidates:
    """Pages that an index finds for one page, all read at the same moment.

    ``near``: their ids and tables; a SimHash table finds SimHashes within the distance, any other
    table equal suffixes. ``pages``: their page records, ascending; those of pages found by SimHash
    tables alone may be missing. ``addresses`` and ``payloads``: those that came with the reply.
    ``more``: there are more candidates than one reply holds; see ``Index.candidates``. An exact
    copy that settles an entry may be the only candidate.
    """

    near: Neighbours = NO_NEIGHBOURS
    pages: PageRecords = NO_PAGES
    addresses: Mapping[int, str | None] = attrs.field(factory=dict)
    payloads: Mapping[int, bytes] = attrs.field(factory=dict)
    more: bool = False


NO_CANDIDATES = Candidates()


@attrs.frozen(eq=False)
class Claimed:
    """The claim of a page, with candidates that did not prevent it.

    They were found by SimHash tables alone, or were claimed by the same process just before. The
    claim must be released if one of them makes the page a duplicate. ``is_mutual``: they may have
    this page as a candidate too, whatever their ids. Of two similar pages that found each other,
    the one with the greater id releases its claim; the other keeps its claim until the first is
    settled.
    """

    claim: Claim
    candidates: Candidates = NO_CANDIDATES
    is_mutual: bool = False


@attrs.frozen(eq=False)
class Known:
    """Candidates that the client has judged already, and that must not prevent the claim again.

    ``pages``: their records as judged, in any order. Such a page prevents the claim after all if
    its id has other content by now (a server that lost its last second assigns ids twice), or if it
    was judged as released and is pending or committed now. ``wanted``: candidates whose page record
    the client lacks; the reply holds it, even with a claim. ``upto``: all pages up to this id count
    as known, since there were too many to judge them all.

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
        """Ids of the pages that have not changed since they were judged, ascending.

        :param now: current records of ``pages``, in the same order
        """
        gone = (self.pages.states == State.RELEASED) | (self.pages.states == State.FREE)
        same = np.where(gone, ~now.alive, now.content == self.pages.content)
        return np.sort(self.pages.page_ids[same])


NOTHING_KNOWN = Known()


EVERYTHING = Known(upto=PAGE_ID_MASK)  # the page is claimed whatever is stored


@attrs.frozen(eq=False, slots=False)  # with slots it takes longer to make
class Proposed:
    """A proposal that is sent together with others; see :meth:`Index.propose`."""

    entry: Entry
    distance: int
    lease: float
    probes: tuple[BucketKey, ...] = ()
    known: Known = NOTHING_KNOWN

    @property
    def bucket_keys(self) -> Sequence[BucketKey]:
        """All buckets to read; those of the entry come first."""
        return (*self.entry.bucket_keys, *self.probes) if self.probes else self.entry.bucket_keys


@attrs.frozen(kw_only=True)
class IndexStats:
    """Statistics of an index at one moment.

    ``committed``, ``pending`` and ``released`` are page counts (a pending page whose lease has
    expired counts as released), ``buckets`` the number of non-empty buckets, ``bytes`` the memory
    or disk space used (estimated from samples on Redis), ``corrupt`` the number of page records
    that this process found damaged, ``overflow`` the number of records not written because their
    bucket was full.
    """

    committed: int
    pending: int
    released: int
    buckets: int
    bytes: int
    corrupt: int
    overflow: int
    parameters: Mapping[str, str]


class Wanted(IntEnum):
    """Which texts ``Index.look`` returns; the values are arguments of the ``look`` scripts."""

    NOTHING = 0
    ALL = 1
    ADDRESSES = 2


@attrs.frozen(eq=False)
class Seen:
    """Page records with the addresses (None: not stored) and payloads of the same pages."""

    records: PageRecords
    addresses: list[str | None]
    payloads: list[bytes]

    def chosen(self, rows: Sequence[int]) -> Seen:
        """The subset of pages at these positions."""
        return Seen(
            chosen(self.records, np.array(rows, np.intp)),
            [self.addresses[row] for row in rows],
            [self.payloads[row] for row in rows],
        )

    def texts(self) -> tuple[dict[int, str | None], dict[int, bytes]]:
        """Dictionaries from page id to address, and from page id to payload."""
        ids = self.records.page_ids.tolist()
        return dict(zip(ids, self.addresses, strict=True)), dict(
            zip(ids, self.payloads, strict=True)
        )
