"""The interface of every index, and what all of them share.

An index knows buckets, page records and claims. It knows nothing of similarity: a client judges the
candidates that the index returns. One operation writes, and it is atomic::

    made = await index.propose(entry, distance, lease)      # Claimed for most pages, else
    ... judge made.pages; no page is like this one: they are known from now on
    made = await index.propose(entry, distance, lease, known=Known(made.pages))
    ... stored:      await index.commit(made.claim)
    ... not stored:  await index.release(made.claim)
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.forgetting import STORED_LEASE, Forgetting
from dedup_middleware.index.pages import Pages
from dedup_middleware.index.parameters import (
    WHOLE,
    Parameters,
    Window,
    record_parameter,
    window_parameter,
)
from dedup_middleware.model.buckets import (
    KEY_TABLE,
    BucketKey,
    hash_bucket_key,
    keys_of_stored,
    most_met,
)
from dedup_middleware.model.claims import (
    EVERYTHING,
    NOTHING_KNOWN,
    Candidates,
    Claim,
    Claimed,
    Entry,
    Known,
    Proposed,
)
from dedup_middleware.model.records import PageRecords, State, chosen

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_JUDGED = 2048  # candidates of a page that are judged
_LAST = 256  # page ids among which the newest page is
#: called now and then with what is being read and how much of it so far
Progress = Callable[[str, int], None]


@attrs.frozen(kw_only=True)
class IndexStats:
    """State of an index at one moment.

    ``committed``, ``pending`` and ``released`` are numbers of pages (a pending page whose lease
    has run out counts as released), ``buckets`` the number of buckets that hold a record,
    ``bytes`` the memory or the disk the index takes (an estimate from samples on Redis),
    ``corrupt`` the page records this process found damaged, ``overflow`` the records left out
    because their bucket was full.
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
    """Which texts of pages are wanted, as the scripts ``look`` take it."""

    NOTHING = 0
    ALL = 1
    ADDRESSES = 2


@attrs.frozen(eq=False)
class Seen:
    """Page records, and the addresses (None: none is kept) and payloads of the same pages."""

    records: PageRecords
    addresses: list[str | None]
    payloads: list[bytes]

    def chosen(self, rows: Sequence[int]) -> Seen:
        """Some of the pages, by their positions."""
        return Seen(
            chosen(self.records, np.array(rows, np.intp)),
            [self.addresses[row] for row in rows],
            [self.payloads[row] for row in rows],
        )

    def texts(self) -> tuple[dict[int, str | None], dict[int, bytes]]:
        """Addresses and payloads by page id."""
        ids = self.records.page_ids.tolist()
        return dict(zip(ids, self.addresses, strict=True)), dict(
            zip(ids, self.payloads, strict=True)
        )


class Index(Forgetting):
    """Buckets, page records and claims, shared by all processes that open the same address.

    Every coroutine may raise :class:`~dedup_middleware.base.errors.IndexUnavailableError` (try
    again later) and nothing else, but for ``open``, which may also raise
    :class:`~dedup_middleware.base.errors.IndexRefusedError`.
    """

    corrupt = 0  #: damaged page records that this process has met
    record = WHOLE  #: what is kept of a page
    _window = Window()
    _on_round_trip: Callable[[], None] = staticmethod(lambda: None)
    _report_scanned: Callable[[int], None] = staticmethod(lambda _: None)

    @abstractmethod
    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Connect, and agree on the parameters of the fingerprints.

        A new index stores ``parameters`` (and a random ``hash_key`` unless one is given). One that
        exists compares them, all but ``hash_key``: any difference is refused.

        :param parameters: names and values that decide whether two fingerprints can be compared
        :returns: the parameters stored in the index, ``hash_key`` among them
        :raises IndexRefusedError: the index was made with others; names each difference
        """

    @property
    def window(self) -> float:
        """Seconds that a page is remembered; 0: for ever."""
        return self._window.seconds

    def _with_own(self, parameters: Parameters) -> dict[str, str]:
        """Parameters of fingerprints with those of the index."""
        return {**record_parameter(parameters), **window_parameter(self.window)}

    @abstractmethod
    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists, whatever its parameters are; nothing is created.

        :returns: its parameters
        :raises IndexRefusedError: no index exists at the address, or something else does
        """

    def watch_round_trips(self, report: Callable[[], None]) -> None:
        """Call ``report`` for each round trip from now on, in the thread of the event loop.

        Concurrent calls share one. On Redis it is an exchange with a server (retries count,
        connecting does not), on SQLite a transaction; in memory there are none.
        """
        self._on_round_trip = report

    def watch_scans(self, report: Callable[[int], None]) -> None:
        """Call ``report`` with the number of SimHash records that the Hamming kernel compared.

        It is called after each proposal and each search for candidates, in the thread of the event
        loop. On SQLite few records are compared without the kernel; they don't count.
        """
        self._report_scanned = report

    def warm(self) -> None:
        """Compile the kernels that decisions need, or load them; blocks for seconds at worst."""
        from dedup_middleware.index import scan  # numba stays lazy

        scan.warm()

    @abstractmethod
    async def close(self) -> None:
        """Give back connections and files. Claims stay as they are."""

    @abstractmethod
    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        """What each bucket holds, in all live generations, the oldest first.

        For checks and maintenance, and where a page has more candidates than one reply holds; no
        claim depends on it.
        """

    @abstractmethod
    async def look(self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL) -> Seen:
        """Records, addresses and payloads of pages; a page that does not exist has state FREE.

        What is read of a page is read at one moment: a server that comes back in an older state
        gives its id to another page, whose payload must not be judged with this one's state.

        :param texts: what is wanted besides the records; the rest is empty
        """

    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        """Page records of pages; one that does not exist has state FREE."""
        return (await self.look(np.asarray(page_ids, np.uint64), texts=Wanted.NOTHING)).records

    async def addresses(self, page_ids: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""
        return (await self.look(np.array(page_ids, np.uint64), texts=Wanted.ADDRESSES)).addresses

    async def payloads(self, page_ids: Sequence[int]) -> list[bytes]:
        """Payloads of pages, b"" where there is none."""
        return (await self.look(np.array(page_ids, np.uint64))).payloads

    @abstractmethod
    async def count(self) -> int:
        """Number of committed pages."""

    @abstractmethod
    def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """All buckets that hold a record, ascending, each once.

        Other processes may write meanwhile: records written before the walk are included, records
        added during it may or may not be.

        :returns: the bucket (``table << 16 | prefix``) and its bytes of all live generations,
            the oldest first
        """

    @abstractmethod
    async def page_ids(self) -> range:
        """Page ids that may exist: none below, none beyond."""

    async def last_page_ids(self) -> NDArray[np.uint64]:
        """Page ids that were given last, some of which may be those of no page."""
        every = await self.page_ids()
        return np.arange(max(every.start, every.stop - _LAST), every.stop, dtype=np.uint64)

    @abstractmethod
    async def stats(self) -> IndexStats:
        """State of the index: pages, buckets, bytes, parameters."""

    def propose(
        self,
        entry: Entry,
        distance: int,
        lease: float,
        probes: tuple[BucketKey, ...] = (),
        known: Known = NOTHING_KNOWN,
    ) -> Coroutine[Any, Any, Claimed | Candidates]:
        """Claim a page, unless it shares a band, key or exact record with a page that is not known.

        Look-up and claim are one step. So of two like pages that share a record, proposed at the
        same time, the later one is given the earlier one as its candidate, never both each other.
        Candidates of the SimHash tables do not block a claim and come with it. So do pages that
        the same process has claimed just before, where the page knows others: of many pages of one
        template that are under way, only one could be claimed at a time otherwise.

        Over many masters no step spans two of them: a page is announced first, and its candidates
        then come with its claim (:attr:`.Claimed.is_mutual`), but for released ones.

        :param distance: bits up to which SimHashes are neighbours
        :param lease: seconds until the claim runs out
        :param probes: further bucket keys to look into, which get no record
        :param known: candidates that are no reason not to claim
        :raises ValueError: the page has a payload, and the index keeps none
        """
        self.record.check(entry.payload)
        return self._propose_one(Proposed(entry, distance, lease, probes, known))

    @abstractmethod
    async def _propose_one(self, page: Proposed) -> Claimed | Candidates:
        """See :meth:`propose`."""

    async def load(self, pages: Pages) -> int:
        """Enter many pages that are stored already, as committed ones; none of them is judged.

        They go in by parts, each as a whole or not at all, and into the newest generation. If it is
        broken off, the parts before are in.

        :returns: number of pages entered, all of them
        :raises ValueError: one has a payload, and the index keeps none
        """
        self.record.check(max(pages.payloads, default=b""))
        await self._load(pages)
        return len(pages)

    @abstractmethod
    async def _load(self, pages: Pages) -> None:
        """See :meth:`load`."""

    async def candidates(
        self, bucket_keys: Sequence[BucketKey], distance: int, most: int = MOST_JUDGED
    ) -> Candidates:
        """All candidates of a page with these bucket keys; nothing is claimed.

        :param bucket_keys: buckets to read, probes among them
        :param distance: bits up to which SimHashes are neighbours
        :param most: of more candidates than these, those found in most tables have their page
            records with them (``more``); ``near`` holds all of them
        """
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        near = neighbours(bucket_keys, await self.read_buckets(bucket_keys), distance)
        self._report_scanned(near.scanned)
        if not len(near):
            return Candidates(near)
        best = most_met(near, most).page_ids
        seen = await self.look(best)
        return Candidates(near, seen.records, *seen.texts(), more=len(best) < len(near))

    @abstractmethod
    async def commit(self, claim: Claim) -> bool:
        """Make a claimed page committed. False: the lease had run out or the claim is gone."""

    @abstractmethod
    async def release(self, claim: Claim) -> bool:
        """Give a claim back: the page was not stored. False: there was nothing to release."""

    @abstractmethod
    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases by ``lease`` seconds from now. False: that one had run out."""

    @abstractmethod
    async def expiring(self, page_id: int) -> bool:
        """Whether a page is in the generation that expires next: a hit should enter it anew.

        Always False in an index without a window.
        """

    async def is_entered_anew(self, page_id: int) -> bool:
        """Whether a page that expires next is in a later generation, too; hits name the old id."""
        page = await self.fetch(np.array([page_id], np.uint64))
        there = await self.of_key(int(page.content["key"][0]))
        same = (there.content == page.content[0]) & (there.states == State.COMMITTED)
        return not all([await self.expiring(one) for one in there.page_ids[same].tolist()])

    async def refresh(self, page_id: int, bucket_keys: Sequence[BucketKey]) -> bool:
        """Enter a committed page anew, so that it lives for a whole window from now.

        It gets a new page id; page record, address and payload are copied. The old id expires as
        before. This is refused while another text with its key is pending: that may be a later
        version, for which this one is forgotten, and it must not come back under another id.

        :param bucket_keys: those of the page that hit it; key and SimHash of the stored page
            replace theirs
        :returns: False: it has expired or is not committed, or another text with its key is pending
        """
        own_id = np.array([page_id], np.uint64)
        seen = await self.look(own_id)
        found, (address,), (payload,) = seen.records, seen.addresses, seen.payloads
        if found.states[0] != State.COMMITTED:
            return False
        key_hash = int(found.content["key"][0])

        def is_replaced(there: PageRecords) -> bool:
            # One with this text is this page, entered anew for another copy at the same time.
            others = there.content != found.content[0]
            is_stored = page_id in there.page_ids[there.states == State.COMMITTED]
            return not is_stored or bool((others & (there.states == State.PENDING)).any())

        if is_replaced(await self.of_key(key_hash)):
            return False
        places = keys_of_stored(found.content, bucket_keys)
        entry = Entry(places, found.content[0].tobytes(), address, payload)
        claim = await self.claim_stored(entry, key_hash, is_replaced)
        if claim is None or not await self.commit(claim):
            return False
        if (await self.fetch(own_id)).states[0] == State.COMMITTED:
            return True
        # It was forgotten meanwhile: no storage holds it any more.
        await self.forget([claim.page_id])
        return False

    async def claim_stored(
        self, entry: Entry, key_hash: int, is_replaced: Callable[[PageRecords], bool]
    ) -> Claim | None:
        """Claim a page that is stored already, whatever is like it.

        Another text under its key has been there before, and is found here, or waits for this claim
        and then finds a stored page.

        :param key_hash: keyed 64-bit hash of its document key
        :param is_replaced: whether storage may have one of these other pages in its place
        :returns: None: it may have
        """
        made = await self.propose(entry, 0, STORED_LEASE, known=EVERYTHING)
        if not isinstance(made, Claimed):
            return None
        claim = made.claim
        try:
            there = await self.settled_of_key(key_hash)
        except BaseException:  # like pages would wait for it until its lease ends
            forget_outcome(asyncio.ensure_future(self.release(claim)))
            raise
        if is_replaced(chosen(there, there.page_ids != np.uint64(claim.page_id))):
            await self.release(claim)
            return None
        return claim

    @abstractmethod
    async def compact(self, progress: Progress | None = None) -> int:
        """Take the records of pages that are gone out of all buckets.

        Others may work meanwhile.

        :returns: number of records taken out
        """

    async def of_key(self, key_hash: int) -> PageRecords:
        """The page records with a key, whatever their state."""
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        bucket_key = hash_bucket_key(KEY_TABLE, key_hash)
        near = neighbours([bucket_key], await self.read_buckets([bucket_key]), 0)
        found = await self.fetch(near.page_ids)
        return chosen(found, found.content["key"] == np.uint64(key_hash))

    async def settled_of_key(self, key_hash: int) -> PageRecords:
        """The same for a caller with a claim of that key.

        A page that is missing here, because it is on its way, finds the caller's claim.
        """
        return await self.of_key(key_hash)

    async def lookup(self, key_hash: int) -> tuple[int, ...]:
        """Numbers of the committed pages with a key, ascending.

        :param key_hash: keyed 64-bit hash of the document key
        """
        found = await self.of_key(key_hash)
        return tuple(found.page_ids[found.states == State.COMMITTED].tolist())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
