"""The interface of every index back end, and the code that all of them share.

An index holds buckets, page records and claims. It does not compute similarity: the client judges
the candidates that the index returns. Pages enter it by one atomic operation, ``propose``::

    made = await index.propose(entry, distance, lease)      # Claimed for most pages, or Candidates
    ... judge made.pages; if none of them is similar, propose the page again with them as known:
    made = await index.propose(entry, distance, lease, known=Known(made.pages))
    ... stored:      await index.commit(made.claim)
    ... not stored:  await index.release(made.claim)

A page may be refreshed under a new id while it is being forgotten (:meth:`.Index.refresh`); it is
then forgotten under the new id as well.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.batching import forget_outcome
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
    IndexStats,
    Known,
    Proposed,
    Seen,
    Wanted,
)
from dedup_middleware.model.records import PageRecords, State, chosen

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_JUDGED = 2048  # maximum number of candidates judged for a page
STORED_LEASE = 10.0  # seconds; lease of a claim for a page that is stored already
_SETTLED, _POLL = STORED_LEASE, 0.02  # seconds to wait for such claims, and between two polls
_BATCH = 1_000  # pages whose records or addresses are read at once
_LAST = 256  # number of most recent page ids that ``last_page_ids`` returns
#: progress callback: what is being read ("pages", "buckets"), and how many so far
Progress = Callable[[str, int], None]


class Index(ABC):
    """Buckets, page records and claims, shared by all processes that open the same address.

    Every coroutine may raise :class:`~dedup_middleware.base.errors.IndexUnavailableError` (try
    again later); ``open`` and ``attach`` may also raise
    :class:`~dedup_middleware.base.errors.IndexRefusedError`.
    """

    corrupt = 0  #: number of damaged page records that this process has read
    record = WHOLE  #: layout of the stored page records
    _window = Window()
    _on_round_trip: Callable[[], None] = staticmethod(lambda: None)
    _report_scanned: Callable[[int], None] = staticmethod(lambda _: None)

    @abstractmethod
    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Connect, and check that the fingerprint parameters match those of the index.

        A new index stores ``parameters`` (and a random ``hash_key`` unless one is given). An
        existing index keeps its ``hash_key`` and refuses any other difference.

        :param parameters: names and values that decide whether two fingerprints can be compared
        :returns: the parameters stored in the index, including ``hash_key``
        :raises IndexRefusedError: the parameters differ; the message names each difference
        """

    @property
    def window(self) -> float:
        """Seconds for which a page is remembered; 0: for ever."""
        return self._window.seconds

    def _with_own(self, parameters: Parameters) -> dict[str, str]:
        """Add the parameters of the index (record layout, window) to those of the fingerprints."""
        return {**record_parameter(parameters), **window_parameter(self.window)}

    @abstractmethod
    async def attach(self) -> dict[str, str]:
        """Connect to an existing index, whatever its parameters, and return them.

        :raises IndexRefusedError: there is no index at the address, or something that is no index
        """

    def watch_round_trips(self, report: Callable[[], None]) -> None:
        """Call ``report`` for each round trip from now on, in the event loop's thread.

        Concurrent calls share a round trip. On Redis it is an exchange with a server (retries
        count, connecting does not), on SQLite a batch of calls; in memory there are none.
        """
        self._on_round_trip = report

    def watch_scans(self, report: Callable[[int], None]) -> None:
        """Call ``report`` with the number of SimHash records that the Hamming kernel compared.

        It is called after each proposal and each search for candidates, in the event loop's thread.
        SQLite compares small numbers of records without the kernel; those do not count.
        """
        self._report_scanned = report

    def warm(self) -> None:
        """Load or compile the kernels that decisions need; may block for seconds."""
        from dedup_middleware.index import scan  # numba stays lazy

        scan.warm()

    @abstractmethod
    async def close(self) -> None:
        """Close connections and files. Open claims keep their leases."""

    @abstractmethod
    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        """Bytes of each bucket in all live generations, oldest first; not atomic with claims."""

    @abstractmethod
    async def look(self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL) -> Seen:
        """Records, addresses and payloads of pages; a page that does not exist has state FREE.

        All parts of a page are read atomically: a server restored to an older state may give its id
        to another page, whose payload must not be paired with this record.

        :param texts: which texts to read besides the records; the others are returned empty
        """

    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        """The page records of these ids; a page that does not exist has state FREE."""
        return (await self.look(np.asarray(page_ids, np.uint64), texts=Wanted.NOTHING)).records

    async def addresses(self, page_ids: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is stored."""
        return (await self.look(np.array(page_ids, np.uint64), texts=Wanted.ADDRESSES)).addresses

    @abstractmethod
    async def count(self) -> int:
        """Number of committed pages."""

    @abstractmethod
    def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """Iterate over all buckets that hold a record, in ascending order, each once.

        Records written by other processes during the iteration may be missing.

        :returns: pairs of the bucket (``table << 16 | prefix``) and its bytes in all live
            generations, the oldest first
        """

    @abstractmethod
    def pages(self) -> AsyncIterator[PageRecords]:
        """Iterate over all pages in batches, by ascending page id; FREE ids are left out."""

    @abstractmethod
    async def page_ids(self) -> range:
        """Range that contains the ids of all existing pages."""

    async def last_page_ids(self) -> NDArray[np.uint64]:
        """The most recently issued page ids; some may belong to no page."""
        every = await self.page_ids()
        return np.arange(max(every.start, every.stop - _LAST), every.stop, dtype=np.uint64)

    @abstractmethod
    async def stats(self) -> IndexStats:
        """Read the statistics of the index."""

    def propose(
        self,
        entry: Entry,
        distance: int,
        lease: float,
        probes: tuple[BucketKey, ...] = (),
        known: Known = NOTHING_KNOWN,
    ) -> Coroutine[Any, Any, Claimed | Candidates]:
        """Claim a page, unless it shares a record with a page that is not in ``known``.

        Only records in key, exact, band and anchor tables block a claim; candidates from the
        SimHash tables are returned with it. Look-up and claim are one atomic step: of two similar
        pages that share a record and are proposed concurrently, only the later one gets the other
        as its candidate. If ``known`` is not empty, pages claimed earlier in the same batch do not
        block the claim but are returned with it: otherwise only one page of a template could be
        claimed at a time.

        A cluster has no atomic step across masters: there a page is announced first, and its
        candidates, except released ones, are returned with its claim (:attr:`.Claimed.is_mutual`).

        :param distance: maximum Hamming distance of SimHash neighbours
        :param lease: seconds until the claim expires
        :param probes: further buckets to search, in which the page gets no record
        :param known: candidates judged already, which do not block the claim
        :raises ValueError: the page has a payload, but the index stores none
        """
        self.record.check(entry.payload)
        return self._propose_one(Proposed(entry, distance, lease, probes, known))

    @abstractmethod
    async def _propose_one(self, page: Proposed) -> Claimed | Candidates:
        """See :meth:`propose`."""

    async def load(self, pages: Pages) -> int:
        """Add pages that are stored already as committed pages, without judging them.

        They are written in parts to the newest generation, each part all or nothing. If the load
        is interrupted, the parts before remain.

        :returns: number of pages added, which is all of them
        :raises ValueError: a page has a payload, but the index stores none
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

        :param bucket_keys: buckets to read, including probes
        :param distance: maximum Hamming distance of SimHash neighbours
        :param most: maximum number of page records returned; if there are more candidates, those
            found in most tables are chosen and ``more`` is set, while ``near`` holds all
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
        """Commit a claimed page. False: its lease has expired, or the claim is gone."""

    @abstractmethod
    async def release(self, claim: Claim) -> bool:
        """Release a claim, as the page was not stored. False: there was nothing to release."""

    @abstractmethod
    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases to ``lease`` seconds from now. False for each claim that has expired."""

    @abstractmethod
    async def expiring(self, page_id: int) -> bool:
        """Whether a hit should refresh a page, as it is in the oldest generation of a window."""

    async def is_entered_anew(self, page_id: int) -> bool:
        """Whether an expiring page was refreshed under another id; hits may name the old one."""
        page = await self.fetch(np.array([page_id], np.uint64))
        there = await self.of_key(int(page.content["key"][0]))
        same = (there.content == page.content[0]) & (there.states == State.COMMITTED)
        return not all([await self.expiring(one) for one in there.page_ids[same].tolist()])

    async def refresh(self, page_id: int, bucket_keys: Sequence[BucketKey]) -> bool:
        """Enter a committed page again, so that it is remembered for a whole window from now.

        Page record, address and payload are copied under a new page id; the old id expires as
        before. A refresh is refused while a different text with the same key is pending, as that
        may replace this page: the replaced version must not reappear under another id.

        :param bucket_keys: bucket keys of the page that hit the stored one; those of key and
            SimHash are replaced by the stored page's own
        :returns: False: the page has expired or is not committed, or another text with its key is
            pending
        """
        own_id = np.array([page_id], np.uint64)
        seen = await self.look(own_id)
        found, (address,), (payload,) = seen.records, seen.addresses, seen.payloads
        if found.states[0] != State.COMMITTED:
            return False
        key_hash = int(found.content["key"][0])

        def is_replaced(there: PageRecords) -> bool:
            # A record with the same text is this page, refreshed concurrently for another copy.
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
        # The page was forgotten meanwhile: storage no longer holds it.
        await self.forget([claim.page_id])
        return False

    async def claim_stored(
        self, entry: Entry, key_hash: int, is_replaced: Callable[[PageRecords], bool]
    ) -> Claim | None:
        """Claim a page that is stored already, whatever pages resemble it.

        A different text with the same key was either claimed before, and is passed to
        ``is_replaced``, or waits for this claim and then finds a stored page.

        :param key_hash: keyed 64-bit hash of the document key
        :param is_replaced: whether storage may hold one of the given pages with this key instead
        :returns: the claim; None if ``is_replaced`` returned True
        """
        made = await self.propose(entry, 0, STORED_LEASE, known=EVERYTHING)
        if not isinstance(made, Claimed):
            return None
        claim = made.claim
        try:
            there = await self.settled_of_key(key_hash)
        except BaseException:
            release_soon(self, claim)
            raise
        if is_replaced(chosen(there, there.page_ids != np.uint64(claim.page_id))):
            await release_surely(self, claim)
            return None
        return claim

    @abstractmethod
    async def forget(self, page_ids: Sequence[int]) -> int:
        """Mark committed pages as released, so that similar ones are stored; returns how many."""

    async def forget_wholly(self, page_ids: Sequence[int]) -> int:
        """Forget pages, including the copies that concurrent refreshes make (:meth:`refresh`).

        A caller that holds a claim of the pages' key needs only :meth:`forget`, as its claim blocks
        refreshes.

        :returns: how many of the pages were committed, not counting refreshed copies
        """
        forgotten = await self.forget(page_ids)
        for start in range(0, len(page_ids) if self.window else 0, _BATCH):
            gone = await self.fetch(np.array(page_ids[start : start + _BATCH], np.uint64))
            contents = gone.content[gone.states == State.RELEASED]
            await asyncio.gather(*map(self._forget_renewed, contents))
        return forgotten

    async def _forget_renewed(self, content: np.void, since: float = 0.0) -> None:
        """Forget all pages with the content of a forgotten one, and wait for pending ones to end.

        A process that refreshes the page may have read it before it was forgotten, and die before
        it checks the page again.

        :param since: keep pages that were committed before this time
        """
        ends = time.monotonic() + _SETTLED
        while True:
            there = await self.of_key(int(content["key"]))
            there = chosen(there, there.content == content)
            await self.forget(there.page_ids[_committed_in(there, since, math.inf)].tolist())
            if not (there.states == State.PENDING).any() or time.monotonic() > ends:
                return
            await asyncio.sleep(_POLL)

    async def forget_addresses(self, wanted: Callable[[str], bool]) -> int:
        """Forget all committed pages whose address satisfies ``wanted``; returns how many."""
        forgotten = 0
        async for page_ids in self._committed_between():
            named = zip(page_ids, await self.addresses(page_ids), strict=True)
            meant = [page_id for page_id, address in named if address and wanted(address)]
            forgotten += await self.forget_wholly(meant)
        return forgotten

    async def _committed_between(
        self, since: float = 0.0, until: float = math.inf
    ) -> AsyncIterator[list[int]]:
        """Iterate over the ids of the pages committed in a span of time, in batches."""
        batch: list[int] = []
        async for pages in self.pages():
            batch += pages.page_ids[_committed_in(pages, since, until)].tolist()
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        yield batch

    async def forget_span(self, since: float = 0.0, until: float = math.inf) -> int:
        """Forget all pages committed in a span of time, including copies made by refreshes.

        :param since: seconds since 1970 by the index's own clock
        :param until: end of the span, exclusive; times are stored in whole seconds
        :returns: how many pages were forgotten, not counting refreshed copies
        """
        if not self.window:
            return await self._forget_span(since, until)
        meant = [np.empty(0, np.uint64)]
        async for pages in self.pages():
            meant.append(_names(pages.content)[_committed_in(pages, since, until)])
        forgotten = await self._forget_span(since, until)
        names = np.unique(np.concatenate(meant))
        # Pages forgotten by now can't start a refresh, so every refresh under way has its id.
        async for pages in self.pages():
            # Copies of pages in the span were committed after its start.
            later = (pages.states == State.PENDING) | _committed_in(pages, since, math.inf)
            renewed = pages.content[later]
            renewed = renewed[_among(_names(renewed), names)]
            for start in range(0, len(renewed), _BATCH):
                part = renewed[start : start + _BATCH]
                await asyncio.gather(*(self._forget_renewed(one, since) for one in part))
        return forgotten

    async def _forget_span(self, since: float, until: float) -> int:
        """Forget pages committed in the span; copies made by concurrent refreshes may remain."""
        batches = self._committed_between(since, until)
        return sum([await self.forget(page_ids) async for page_ids in batches])

    @abstractmethod
    async def compact(self, progress: Progress = lambda *_: None) -> int:
        """Remove the records of dead pages, while others may write; returns how many records."""

    async def of_key(self, key_hash: int) -> PageRecords:
        """The page records with a key, whatever their state."""
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        bucket_key = hash_bucket_key(KEY_TABLE, key_hash)
        near = neighbours([bucket_key], await self.read_buckets([bucket_key]), 0)
        found = await self.fetch(near.page_ids)
        return chosen(found, found.content["key"] == np.uint64(key_hash))

    async def settled_of_key(self, key_hash: int) -> PageRecords:
        """The page records with a key, for a caller that holds a claim of that key: any page
        proposed concurrently that is not in the result yet will find that claim."""
        return await self.of_key(key_hash)

    async def lookup(self, key_hash: int) -> tuple[int, ...]:
        """Ascending ids of the committed pages with this keyed 64-bit hash of the document key."""
        found = await self.of_key(key_hash)
        return tuple(found.page_ids[found.states == State.COMMITTED].tolist())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _committed_in(pages: PageRecords, since: float, until: float) -> NDArray[np.bool_]:
    wanted: NDArray[np.bool_] = pages.states == State.COMMITTED
    wanted &= (pages.times >= since) & (pages.times < until)
    return wanted


def _names(content: NDArray[np.void]) -> NDArray[np.uint64]:
    """uint64[n], a hash of key and text of each page."""
    names: NDArray[np.uint64] = content["key"] ^ content["exact"]
    return names


def release_soon(index: Index, claim: Claim) -> None:
    """Release a claim in the background: until its lease ends it would block similar pages."""
    forget_outcome(asyncio.ensure_future(index.release(claim)))


async def release_surely(index: Index, claim: Claim) -> None:
    """Release a claim even if this call is cancelled, when the release may not have been sent.

    :raises IndexUnavailableError: the claim may be left to its lease
    """
    try:
        await index.release(claim)
    except asyncio.CancelledError:
        release_soon(index, claim)
        raise


def _among(names: NDArray[np.uint64], ascending: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mask of the names in a sorted array; ``np.isin`` would sort it again for each batch."""
    at = np.searchsorted(ascending, names)
    found = np.zeros(len(names), np.bool_)
    inside = at < len(ascending)
    found[inside] = ascending[at[inside]] == names[inside]
    return found
