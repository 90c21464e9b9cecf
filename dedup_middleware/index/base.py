"""What every index does, whatever keeps its bytes.

An index knows buckets, satellites and claims. It knows nothing of similarity: the
:class:`~dedup_middleware.deduplicator.Deduplicator` reads, judges and claims; the index makes the
claim atomic by comparing every bucket with what was read.

The order of a decision::

    proposal = await index.propose(entry, distance, lease)      # a Claim for most pages, else

    reading = await index.read(slots)
    ... judge the neighbours in reading.data ...
    outcome = await index.claim(entry, reading)      # Claim, or a Reading of what has grown
    ... stored:      await index.commit(claim)
    ... not stored:  await index.release(claim)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index import maintenance, verification
from dedup_middleware.index.layout import PAYLOAD_LIMIT
from dedup_middleware.index.pages import Pages
from dedup_middleware.index.records import Satellites, State
from dedup_middleware.index.stats import IndexStats
from dedup_middleware.index.tables import KEY_TABLE, NOBODY, Neighbours, Slot, Slots, narrow_slot
from dedup_middleware.index.verification import Progress, Verification

if TYPE_CHECKING:
    from typing_extensions import Self

SCHEMA = 2
_REFRESH_LEASE = 10.0  # seconds
_FORGET = 100_000  # pages forgotten at once
Parameters = Mapping[str, str]


@attrs.frozen(eq=False)
class Reading:
    """What some buckets held at one moment.

    ``data[i]`` are the bytes of the bucket of ``slots[i]`` that are new to the reader: all of them
    in a first reading, only the tail in one that a claim returns. ``lengths[i]`` is the whole
    length known by now and ``versions`` is opaque to all but the index (it tells a bucket that
    was rewritten from one that has grown).
    """

    slots: tuple[Slot, ...]
    data: tuple[bytes, ...]
    lengths: tuple[int, ...]
    versions: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class Entry:
    """A page that asks to be stored.

    ``content`` is one CONTENT record (see :mod:`.records`) as bytes, ``address`` the document key
    kept to name the page in later verdicts (None: not kept), ``slots`` the places that get a
    record of it; they must be among the slots of the reading. ``payload`` is whatever else a
    method keeps of a page, of any length up to 65,536 bytes; the index does not look into it.
    ``exact`` says that a stored page with the same text settles the decision: of all duplicates it
    is the one to name, unless the key is that of another. The text is the same if size, SimHash,
    exact hash, figures and sketch are.

    :raises ValueError: the payload is too long
    """

    slots: tuple[Slot, ...] | Slots
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
    """A page's number, on lease until it is committed or released."""

    number: int
    token: int  # distinguishes this claim from any other one of the same number


@attrs.frozen(eq=False)
class Proposal:
    """What an index says of a page that asks to be stored, all of one moment.

    ``claim``: the page's claim, if nobody stood beside it in a narrow table. ``near``: the full
    buckets that the page met, and the pages beside it; those of the narrow tables alone, and
    perhaps not all, unless ``whole``. Where an exact copy settles an entry, ``near`` may be that
    copy alone. What the index could say of them on the way: ``satellites`` and ``addresses``;
    ``reading``: what was read, ready for :meth:`Index.claim`.
    """

    claim: Claim | None
    near: Neighbours = NOBODY
    whole: bool = True
    satellites: Satellites | None = None
    addresses: Mapping[int, str | None] = attrs.field(factory=dict)
    reading: Reading | None = None


@attrs.frozen(eq=False)
class Proposed:
    """A page that waits for its answer, with others; see :meth:`Index.propose`."""

    entry: Entry
    distance: int
    lease: float
    probes: tuple[Slot, ...] = ()

    @property
    def slots(self) -> Sequence[Slot]:
        """All places to look into; those of the entry come first."""
        return (*self.entry.slots, *self.probes) if self.probes else self.entry.slots


class Index(ABC):
    """Buckets, satellites and claims, shared by whoever opens the same address.

    Every coroutine may raise :class:`~dedup_middleware.errors.IndexUnavailableError` (try again
    later) and nothing else, but for ``open``, which may also raise
    :class:`~dedup_middleware.errors.IndexRefusedError`.
    """

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
    @abstractmethod
    def window(self) -> float:
        """Seconds that a page is remembered, as it was opened with; 0: for ever."""

    @abstractmethod
    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists, whatever its parameters are; nothing is created.

        :returns: its parameters
        :raises IndexRefusedError: there is none, or it is none
        """

    def watch_round_trips(self, tell: Callable[[], None]) -> None:  # noqa: B027
        """Have ``tell`` called for each round trip from now on, in the thread of the event loop.

        Calls made at the same time share one. On Redis it is an exchange with a server, be it the
        first try or a further one; connecting is none. On SQLite it is a batch handed to the
        thread that owns the file, which runs it in one transaction. In memory there is none.
        """

    def warm(self) -> None:
        """Compile the kernels that decisions need, or load them; blocks for seconds at worst.

        Without it the first page that needs one would hold up all others.
        """
        from dedup_middleware.index import scan  # numba stays lazy

        scan.warm()

    @abstractmethod
    async def close(self) -> None:
        """Give back connections and files. Claims stay as they are."""

    @abstractmethod
    async def read(self, slots: Sequence[Slot]) -> Reading:
        """The buckets of all ``slots`` as they are now, in one round trip."""

    @abstractmethod
    async def fetch(self, numbers: NDArray[np.uint64]) -> Satellites:
        """Satellites of pages; one that does not exist has state FREE."""

    @abstractmethod
    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""

    @abstractmethod
    async def payloads(self, numbers: Sequence[int]) -> list[bytes]:
        """Payloads of pages, b"" where there is none."""

    @abstractmethod
    async def claim(self, entry: Entry, reading: Reading, lease: float) -> Claim | Reading:
        """Take the place of a page, if no bucket has changed since ``reading``. Atomic.

        :param lease: seconds until the claim runs out
        :returns: the claim; or, if any bucket differs in length or version, nothing is written
            and a Reading of the same slots is returned: ``data`` holds the tails that are new
            (everything, for a bucket that was rewritten), ``lengths`` and ``versions`` are current
        """

    @abstractmethod
    async def load(self, pages: Pages) -> int:
        """Enter many pages that are stored already, as committed ones; none of them is judged.

        They go in by parts, each as a whole or not at all, and into the newest generation; others
        may read and claim meanwhile. If it is broken off, the parts before are in.

        :returns: number of pages entered, all of them
        """

    async def propose(
        self, entry: Entry, distance: int, lease: float, probes: tuple[Slot, ...] = ()
    ) -> Proposal:
        """Take the place of a page at once if nobody stands beside it: read, scan and claim in one.

        A claim may come with neighbours in the SimHash tables; it must be released if one of them
        makes the page a duplicate. Of two like pages proposed at the same time the later one is
        told of the earlier one, never both of each other.

        :param distance: bits up to which SimHashes are neighbours
        :param lease: seconds until the claim runs out
        :param probes: further slots to look into, which get no record
        """
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        reading = await self.read((*entry.slots, *probes))
        while True:
            near = neighbours(reading.slots, reading.data, distance)
            if len(near) or near.corrupt:
                return Proposal(None, near, reading=reading)
            outcome = await self.claim(entry, reading, lease)
            if isinstance(outcome, Claim):
                return Proposal(outcome, near)
            reading = outcome

    @abstractmethod
    async def commit(self, claim: Claim) -> bool:
        """The page is stored. False: the lease had run out or the claim is gone."""

    @abstractmethod
    async def release(self, claim: Claim) -> bool:
        """The page was not stored; nobody waits for it any more. False: nothing to release."""

    @abstractmethod
    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases by ``lease`` seconds from now. False: that one had run out."""

    @abstractmethod
    async def count(self) -> int:
        """Number of committed pages."""

    async def expiring(self, numbers: Sequence[int]) -> list[bool]:
        """Whether pages will be the next to expire: a hit should enter them anew.

        Always False in an index without a window.
        """
        return [False] * len(numbers)

    async def refresh(self, number: int, slots: Sequence[Slot]) -> bool:
        """Enter a committed page anew, so that it lives for a whole window from now.

        It gets a new number; satellite, address and payload are copied. The old one expires as it
        would.

        :param slots: places of the page that hit it; the key of the stored page replaces theirs
        :returns: False: it has expired or is not committed
        """
        found = await self.fetch(np.array([number], np.uint64))
        if found.states[0] != State.COMMITTED:
            return False
        (address,) = await self.addresses([number])
        (payload,) = await self.payloads([number])
        own = narrow_slot(KEY_TABLE, int(found.content["key"][0]))
        places = (own, *(slot for slot in slots if slot.table != KEY_TABLE))
        entry = Entry(places, found.content[0].tobytes(), address, payload)
        outcome: Claim | Reading = await self.read(places)
        while isinstance(outcome, Reading):
            outcome = await self.claim(entry, outcome, _REFRESH_LEASE)
        return await self.commit(outcome)

    @abstractmethod
    def pages(self) -> AsyncIterator[Satellites]:
        """All pages by ascending number, many at a time; numbers that are FREE are left out."""

    @abstractmethod
    def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """All buckets that hold a record, ascending, each once.

        Others may write meanwhile: what stood in a bucket before the walk is met, what is added
        during it may or may not be.

        :returns: the bucket (``table << 16 | prefix``) and its bytes of all live generations,
            the oldest first
        """

    @abstractmethod
    async def forget(self, numbers: Sequence[int]) -> int:
        """Let committed pages read as released: like pages may be stored again.

        :returns: how many of them were committed
        """

    @abstractmethod
    async def compact(self, progress: Progress | None = None) -> int:
        """Take the records of pages that are gone out of all buckets.

        Others may work meanwhile: a reading of a bucket that is rewritten no longer fits it.

        :param progress: called now and then with what is being read and how much of it so far
        :returns: number of records taken out
        """

    async def forget_addresses(self, wanted: Callable[[str], bool]) -> int:
        """Forget all committed pages with an address that is wanted, for example those of a host.

        :returns: how many there were
        """
        forgotten = 0
        chosen: list[int] = []
        async for numbers, addresses in self.committed_addresses():
            mask = [wanted(address.decode("utf-8", "replace")) for address in addresses]
            chosen += numbers[np.array(mask, np.bool_)].tolist()
            if len(chosen) >= _FORGET:
                forgotten += await self.forget(chosen)
                chosen = []
        return forgotten + await self.forget(chosen)

    async def forget_span(self, since: float, until: float) -> int:
        """Forget all pages that were committed in a span of time.

        :param since: seconds since 1970 by the index's own clock
        :param until: the same, not included; times are kept in whole seconds
        :returns: how many there were
        """
        forgotten = 0
        async for pages in self.pages():
            chosen = (pages.states == State.COMMITTED) & (pages.times >= since)
            forgotten += await self.forget(pages.numbers[chosen & (pages.times < until)].tolist())
        return forgotten

    async def committed_addresses(self) -> AsyncIterator[tuple[NDArray[np.uint64], list[bytes]]]:
        """Numbers and addresses (UTF-8) of all committed pages that have one, many at a time."""
        async for pages in self.pages():
            numbers = pages.numbers[pages.states == State.COMMITTED]
            addresses = await self.addresses(numbers.tolist())
            known = np.array([bool(address) for address in addresses], np.bool_)
            yield numbers[known], [address.encode() for address in addresses if address]

    @abstractmethod
    async def numbers(self) -> range:
        """Page numbers that may exist: none below, none beyond."""

    async def lookup(self, key_hash: int) -> tuple[int, ...]:
        """Numbers of the committed pages with a key, ascending.

        :param key_hash: keyed 64-bit hash of the document key
        """
        return await maintenance.lookup(self, key_hash)

    async def sample(self, count: int, seed: int = 0) -> Satellites:
        """Committed pages drawn at random, all with the same chance, none twice.

        A small share of a large index is drawn by number, without reading the rest.

        :param count: how many; all, if there are no more
        :param seed: the same one draws the same pages from an index that has not changed
        :returns: the pages by ascending number
        """
        return await maintenance.sample(self, count, seed)

    async def verify(self, progress: Progress | None = None) -> Verification:
        """Read every bucket and every satellite and say what does not fit; nothing is changed.

        Others may write meanwhile: what looks wrong is looked at once more before it is told, and
        pages that come in after the beginning are left out.

        :param progress: called now and then with what is being read and how much of it so far
        """
        return await verification.verify(self, progress)

    @abstractmethod
    async def stats(self) -> IndexStats:
        """State of the index: pages, buckets, bytes, parameters."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def differences(stored: Parameters, wanted: Parameters) -> list[str]:
    """Lines that name each parameter in which two indexes differ.

    >>> differences({"w": "3", "bands": "8"}, {"w": "2", "bands": "8"})
    ["w: the index has '3', the settings ask for '2'"]
    """
    return [
        f"{name}: the index has {stored.get(name)!r}, the settings ask for {wanted.get(name)!r}"
        for name in sorted({*stored, *wanted})
        if stored.get(name) != wanted.get(name)
    ]
