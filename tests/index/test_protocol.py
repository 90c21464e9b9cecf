"""The claim protocol under interleaved clients, crashes and time, against a sequential model."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dedup_middleware.index.base import Claim, Entry, Index, Reading
from dedup_middleware.index.layout import record
from dedup_middleware.index.records import CONTENT, State
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.tables import Slot, narrow_slot
from tests.index.harness import (
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
    entry,
    slots_of,
)
from tests.servers import RedisServer

_T = TypeVar("_T")
CLIENTS = st.integers(0, 3)
# Leases end between the steps of the clock, so real seconds that pass decide nothing.
LEASES = st.sampled_from([1500.0, 3500.0])
FAMILIES = 3  # pages of one family are near-duplicates of each other
VARIANTS = 3
SIMHASHES = (0, 0x0001_0001_0001_0001, 0xFFFF_0000_0000_0000)  # families 0 and 2 share buckets


def page_slots(family: int, variant: int):
    """Near-duplicates share every SimHash bucket and one band, never the key."""
    bands = (family << 60, (family * VARIANTS + variant) << 50)
    return slots_of(1 + family * VARIANTS + variant, SIMHASHES[family], bands)


def page_entry(family: int, variant: int) -> Entry:
    """A page whose content says its family and its key."""
    key = (1 + family * VARIANTS + variant) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    slots = page_slots(family, variant)
    assert slots[0] == narrow_slot(0, key)
    return entry(slots, size=family + 1, key=key)


@attrs.define
class Page:
    """A page as the model knows it."""

    family: int
    variant: int
    state: State
    until: float
    origin: int  # the page that this one is a refreshed copy of, or itself


@attrs.define
class Client:
    """A spider's work on one page. What it has seen is what its readings told it."""

    index: Index
    family: int = 0
    variant: int = 0
    reading: Reading | None = None
    seen: set[int] = attrs.field(factory=set)
    claim: Claim | None = None


class Protocol(RuleBasedStateMachine):
    """Clients read, judge, claim, commit, release, renew, refresh, forget and die, in any order."""

    make: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        self.harness: Harness = type(self).make(self.folder)
        self.now = 0.0
        self.pages: dict[int, Page] = {}
        self.buckets: dict[int, bytes] = {}

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        self.clients = [Client(self.run(self.harness.client())) for _ in range(4)]
        self.observer = self.clients[0].index

    def live(self, number: int) -> bool:
        page = self.pages[number]
        if page.state is State.PENDING and page.until <= self.now:
            page.state = State.RELEASED
        return page.state in {State.PENDING, State.COMMITTED}

    def take(self, client: Client, reading: Reading) -> None:
        """Remember every page of one's own family in what was read."""
        client.reading = reading
        client.seen.update(neighbours(reading.slots, reading.data, 0).numbers.tolist())

    @rule(who=CLIENTS, family=st.integers(0, FAMILIES - 1), variant=st.integers(0, VARIANTS - 1))
    def read(self, who: int, family: int, variant: int) -> None:
        """A client turns to another page; one that held a claim has crashed before."""
        client = Client(self.clients[who].index, family, variant)
        self.clients[who] = client
        self.take(client, self.run(client.index.read(page_slots(family, variant))))
        assert client.reading is not None
        for slot, data in zip(client.reading.slots, client.reading.data, strict=True):
            assert data == self.buckets.get(slot.bucket, b"")

    @precondition(lambda self: any(client.reading for client in self.clients))
    @rule(lease=LEASES, together=st.booleans(), order=st.permutations(range(4)))
    def claim(self, lease: float, together: bool, order: list[int]) -> None:
        """Clients that see nobody of their family alive claim, one of them or all at once."""
        ready = [self.clients[i] for i in order if self.clients[i].reading]
        ready = [one for one in ready if one.claim is None and self.may_claim(one)]
        ready = ready if together else ready[:1]
        outcomes = self.run(self.claim_all(ready, lease))
        # Any order of claims made together is right.
        self.enter_in_order(ready, outcomes, lease)

    async def claim_all(self, ready: list[Client], lease: float) -> list[Claim | Reading]:
        return await asyncio.gather(
            *(
                one.index.claim(
                    page_entry(one.family, one.variant),
                    one.reading,
                    lease,
                )
                for one in ready
                if one.reading
            )
        )

    def may_claim(self, client: Client) -> bool:
        """What a deduplicator does: judge all candidates by their satellites."""
        numbers = np.array(sorted(client.seen), np.uint64)
        found = self.run(client.index.fetch(numbers))
        alive = (found.states == State.PENDING) | (found.states == State.COMMITTED)
        return not (alive & (found.content["size"] == client.family + 1)).any()

    def follow(self, client: Client, outcome: Claim | Reading, lease: float) -> None:
        """Do the same in the model and compare."""
        assert client.reading is not None
        if isinstance(outcome, Reading):
            # Among claims made together the loser may have come before the last winner.
            assert any(outcome.data)
            for slot, old, new, data in zip(
                outcome.slots, client.reading.lengths, outcome.lengths, outcome.data, strict=True
            ):
                assert self.buckets.get(slot.bucket, b"")[old:new] == data
                assert new == old + len(data)
            self.take(client, outcome)
            return
        for slot, length in zip(client.reading.slots, client.reading.lengths, strict=True):
            assert len(self.buckets.get(slot.bucket, b"")) == length
        self.enter(client, outcome, lease)

    def enter(self, client: Client, claim: Claim, lease: float) -> None:
        """The model's part of a claim that was granted."""
        page = Page(client.family, client.variant, State.PENDING, self.now + lease, claim.number)
        self.add(claim.number, page, page_slots(client.family, client.variant))
        client.claim = claim

    def add(self, number: int, page: Page, slots: tuple[Slot, ...]) -> None:
        """A page under a number that nobody has had, and its records."""
        assert number > max(self.pages, default=0)
        self.pages[number] = page
        for slot in slots:
            self.buckets[slot.bucket] = self.buckets.get(slot.bucket, b"") + record(slot, number)

    @rule(
        who=CLIENTS,
        family=st.integers(0, FAMILIES - 1),
        variant=st.integers(0, VARIANTS - 1),
        lease=LEASES,
    )
    def propose(self, who: int, family: int, variant: int, lease: float) -> None:
        """A client asks for a place without having read anything: it gets one if nobody of the
        family has ever had one, else it is told of all of them."""
        client = Client(self.clients[who].index, family, variant)
        self.clients[who] = client
        made = self.run(client.index.propose(page_entry(family, variant), 0, lease))
        family_pages = {number for number, one in self.pages.items() if one.family == family}
        if made.claim is not None:
            assert not family_pages
            assert len(made.near) == 0
            self.enter(client, made.claim, lease)
        elif made.whole:
            assert set(made.near.numbers.tolist()) == family_pages
            assert family_pages
        else:
            assert len(family_pages) > 3  # too many to be told one by one
        if made.reading is not None:
            self.take(client, made.reading)

    def holds(self, claim: Claim) -> bool:
        return self.live(claim.number) and self.pages[claim.number].state is State.PENDING

    @rule(who=CLIENTS, stored=st.booleans())
    def finish(self, who: int, stored: bool) -> None:
        """Storage has succeeded or failed, perhaps after the lease; perhaps told twice."""
        claim = self.clients[who].claim
        if claim is None:
            return
        expected = self.holds(claim)
        index = self.clients[who].index
        assert self.run(index.commit(claim) if stored else index.release(claim)) == expected
        if expected:
            self.pages[claim.number].state = State.COMMITTED if stored else State.RELEASED

    @precondition(lambda self: self.pages)
    @rule(who=CLIENTS, picks=st.sets(st.integers(0, 20), min_size=1))
    def forget(self, who: int, picks: set[int]) -> None:
        """Somebody forgets pages in bulk; those that are not committed stay as they are."""
        numbers = [list(self.pages)[pick % len(self.pages)] for pick in picks]
        assert self.run(self.clients[who].index.forget(numbers)) == self.forgotten(numbers)

    def forgotten(self, numbers: list[int]) -> int:
        """The model's part of forgetting pages."""
        hit = [one for one in set(numbers) if self.pages[one].state is State.COMMITTED]
        for one in hit:
            self.pages[one].state = State.RELEASED
        return len(hit)

    @precondition(lambda self: self.pages)
    @rule(
        who=CLIENTS,
        pick=st.integers(0, 20),
        variant=st.integers(0, VARIANTS - 1),
        forgetting=st.booleans(),
        racing=st.booleans(),
        lease=LEASES,
    )
    def refresh(
        self, who: int, pick: int, variant: int, forgetting: bool, racing: bool, lease: float
    ) -> None:
        """A page that was hit by a like one is entered anew, perhaps while it is forgotten and
        while others claim."""
        number = list(self.pages)[pick % len(self.pages)]
        old = self.pages[number]
        was_committed = old.state is State.COMMITTED
        hit = page_slots(old.family, variant)
        ready = [one for one in self.clients if racing and one.reading and one.claim is None]
        ready = [one for one in ready if self.may_claim(one)]

        async def work() -> tuple[bool, int, list[Claim | Reading]]:
            return await asyncio.gather(
                self.clients[who].index.refresh(number, hit),
                self.observer.forget([number] if forgetting else []),
                self.claim_all(ready, lease),
            )

        refreshed, forgotten, outcomes = self.run(work())
        # Forgotten in time, it has no copy.
        assert refreshed == was_committed or (was_committed and forgetting)
        assert forgotten == (was_committed and forgetting)
        own = page_slots(old.family, old.variant)[0]
        reading = self.run(self.observer.read(hit))
        found = set(neighbours(reading.slots, reading.data, 0).numbers.tolist())
        claims = [one.number for one in outcomes if isinstance(one, Claim)]
        copies = sorted(found - self.pages.keys() - set(claims))
        assert len(copies) == refreshed
        if copies:
            page = Page(old.family, old.variant, State.COMMITTED, 0.0, old.origin)
            self.enter_in_order(ready, outcomes, lease, (copies[0], page, (own, *hit[1:])))
        else:
            self.enter_in_order(ready, outcomes, lease)
        if forgetting:
            self.forgotten([number])

    def enter_in_order(
        self,
        ready: list[Client],
        outcomes: list[Claim | Reading],
        lease: float,
        copy: tuple[int, Page, tuple[Slot, ...]] | None = None,
    ) -> None:
        """The model's part of claims, and of a copy, made together: numbers tell the order."""
        pairs = list(zip(ready, outcomes, strict=True))
        pairs.sort(key=lambda pair: pair[1].number if isinstance(pair[1], Claim) else 1 << 60)
        for client, outcome in pairs:
            number = outcome.number if isinstance(outcome, Claim) else 1 << 60
            if copy is not None and copy[0] < number:
                self.add(*copy)
                copy = None
            self.follow(client, outcome, lease)
        if copy is not None:
            self.add(*copy)

    @rule(lease=LEASES, strangers=st.booleans())
    def renew(self, lease: float, strangers: bool) -> None:
        """Heartbeats of all clients in one call, perhaps with tokens that nobody was given."""
        claims = [client.claim for client in self.clients if client.claim]
        if strangers:
            wrong = [attrs.evolve(claim, token=claim.token ^ 1) for claim in claims]
            assert self.run(self.observer.renew(wrong, 9 * lease)) == [False] * len(wrong)
        expected = [self.holds(claim) for claim in claims]
        assert self.run(self.observer.renew(claims, lease)) == expected
        for claim, alive in zip(claims, expected, strict=True):
            if alive:
                self.pages[claim.number].until = self.now + lease

    @rule(who=CLIENTS)
    def crash(self, who: int) -> None:
        """A client dies between two steps: whatever it knew is gone, its claim is not."""
        self.clients[who] = Client(self.clients[who].index)

    @rule(thousands=st.integers(1, 3))
    def wait(self, thousands: int) -> None:
        """Time passes."""
        self.now += 1000 * thousands
        self.harness.advance(1000 * thousands)

    @invariant()
    def agrees_with_model(self) -> None:
        """States are those of the model, and no family has two pages alive, copies aside."""
        if not self.pages:
            return
        alive = {
            page.family: page.origin for number, page in self.pages.items() if self.live(number)
        }
        origins = {page.origin for number, page in self.pages.items() if self.live(number)}
        assert len(alive) == len(origins)
        found = self.run(self.observer.fetch(np.array(list(self.pages), np.uint64)))
        assert found.states.tolist() == [int(page.state) for page in self.pages.values()]
        assert found.content.dtype == CONTENT

    def teardown(self) -> None:
        if hasattr(self, "clients"):
            states = [page.state for page in self.pages.values()]
            stats = self.run(self.observer.stats())
            assert stats.committed == states.count(State.COMMITTED)
            assert stats.pending == states.count(State.PENDING)
            assert stats.released == states.count(State.RELEASED)
            assert stats.buckets == len(self.buckets)
        self.run(self.harness.close())
        self.loop.close()
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_protocol(kind: str, redis_server: RedisServer) -> None:
    """Whatever clients do and when they die, every answer is that of a sequential index, and of
    near-duplicates never two are pending or committed at the same time."""
    makers = {
        "memory": lambda _: MemoryHarness(),
        "sqlite": lambda folder: SQLiteHarness(folder / "index.db"),
        "redis": lambda _: RedisHarness(redis_server),
    }
    machine = type(f"{kind}Protocol", (Protocol,), {"make": staticmethod(makers[kind])})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100 if kind == "memory" else 40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
