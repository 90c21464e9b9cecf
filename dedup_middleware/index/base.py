"""What every index does, whatever keeps its bytes.

An index knows buckets, satellites and claims. It knows nothing of similarity: the
:class:`~dedup_middleware.deduplicator.Deduplicator` reads, judges and claims; the index makes the
claim atomic by comparing every bucket with what was read.

The order of a decision::

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

from dedup_middleware.index.records import Satellites, State
from dedup_middleware.index.stats import IndexStats
from dedup_middleware.index.tables import KEY_TABLE, Slot, narrow_slot

if TYPE_CHECKING:
    from typing_extensions import Self

SCHEMA = 1
_REFRESH_LEASE = 10.0  # seconds
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
    record of it; they must be among the slots of the reading.
    """

    slots: tuple[Slot, ...]
    content: bytes
    address: str | None


@attrs.frozen
class Claim:
    """A page's number, on lease until it is committed or released."""

    number: int
    token: int  # distinguishes this claim from any other one of the same number


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

    @abstractmethod
    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists, whatever its parameters are; nothing is created.

        :returns: its parameters
        :raises IndexRefusedError: there is none, or it is none
        """

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
    async def claim(self, entry: Entry, reading: Reading, lease: float) -> Claim | Reading:
        """Take the place of a page, if no bucket has changed since ``reading``. Atomic.

        :param lease: seconds until the claim runs out
        :returns: the claim; or, if any bucket differs in length or version, nothing is written
            and a Reading of the same slots is returned: ``data`` holds the tails that are new
            (everything, for a bucket that was rewritten), ``lengths`` and ``versions`` are current
        """

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

        It gets a new number; satellite and address are copied. The old one expires as it would.

        :param slots: places of the page that hit it; the key of the stored page replaces theirs
        :returns: False: it has expired or is not committed
        """
        found = await self.fetch(np.array([number], np.uint64))
        if found.states[0] != State.COMMITTED:
            return False
        (address,) = await self.addresses([number])
        own = narrow_slot(KEY_TABLE, int(found.content["key"][0]))
        places = (own, *(slot for slot in slots if slot.table != KEY_TABLE))
        entry = Entry(places, found.content[0].tobytes(), address)
        outcome: Claim | Reading = await self.read(places)
        while isinstance(outcome, Reading):
            outcome = await self.claim(entry, outcome, _REFRESH_LEASE)
        return await self.commit(outcome)

    @abstractmethod
    def pages(self) -> AsyncIterator[Satellites]:
        """All pages by ascending number, many at a time; numbers that are FREE are left out."""

    @abstractmethod
    async def forget(self, numbers: Sequence[int]) -> int:
        """Let committed pages read as released: like pages may be stored again.

        :returns: how many of them were committed
        """

    @abstractmethod
    async def compact(self) -> int:
        """Take the records of pages that are gone out of all buckets.

        Others may work meanwhile: a reading of a bucket that is rewritten no longer fits it.

        :returns: number of records taken out
        """

    async def forget_addresses(self, wanted: Callable[[str], bool]) -> int:
        """Forget all committed pages with an address that is wanted, for example those of a host.

        :returns: how many there were
        """
        forgotten = 0
        async for pages in self.pages():
            numbers = pages.numbers[pages.states == State.COMMITTED].tolist()
            addresses = await self.addresses(numbers)
            chosen = [
                number
                for number, address in zip(numbers, addresses, strict=True)
                if address is not None and wanted(address)
            ]
            forgotten += await self.forget(chosen)
        return forgotten

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
