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

from dedup_middleware.index.base import Index
from dedup_middleware.model.buckets import BucketKey, hash_bucket_key, record
from dedup_middleware.model.claims import NOTHING_KNOWN, Candidates, Claim, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT, NO_PAGES, PageRecords, State, chosen, joined
from tests.index.claiming import candidates_of
from tests.index.harness import (
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
    bucket_keys_of,
    entry,
)
from tests.servers import RedisServer

_T = TypeVar("_T")
CLIENTS = st.integers(0, 3)
# Leases end between the steps of the clock, so real seconds that pass decide nothing.
LEASES = st.sampled_from([1500.0, 3500.0])
FAMILIES = 3  # pages of one family are near-duplicates of each other
VARIANTS = 4
SIMHASHES = (0, 0x0001_0001_0001_0001, 0xFFFF_0000_0000_0000)  # families 0 and 2 share buckets
SPAN = 50_000.0  # seconds of a generation: all that a run can begin are read
ALIVE = (State.PENDING, State.COMMITTED)
Answer = Claimed | Candidates


def page_bucket_keys(family: int, variant: int) -> tuple[BucketKey, ...]:
    """Near-duplicates share every SimHash bucket, never the key.

    Variants 0 and 1 share a band with each other, 1 and 2 one with those of other families, which
    are different pages on one template. Variant 3 is found by the SimHash alone.
    """
    own = 10 + family * VARIANTS + variant
    first = (family << 60, family << 60, own << 50, own << 50)[variant]
    second = (own << 50, 1 << 61, 1 << 61, own << 50)[variant]
    return bucket_keys_of(1 + family * VARIANTS + variant, SIMHASHES[family], (first, second))


def page_entry(family: int, variant: int) -> Entry:
    """A page whose content holds its family and its key."""
    key = (1 + family * VARIANTS + variant) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    bucket_keys = page_bucket_keys(family, variant)
    assert bucket_keys[0] == hash_bucket_key(0, key)
    return entry(bucket_keys, size=family + 1, key=key)


@attrs.define
class Page:
    """A page as the model knows it."""

    family: int
    variant: int
    state: State
    until: float
    origin: int  # the page that this one is a refreshed copy of, or itself
    bucket_keys: tuple[BucketKey, ...]
    kept: bool = False  # whether its claim was judged, and no like page came before it


@attrs.define
class Client:
    """The work of a spider on one page; its knowledge comes from the replies it got."""

    index: Index
    family: int = 0
    variant: int = 0
    works: bool = False
    known: PageRecords = NO_PAGES
    waits_for: frozenset[int] = frozenset()
    claim: Claim | None = None
    to_judge: Candidates | None = None  # what came with the claim

    @property
    def bucket_keys(self) -> tuple[BucketKey, ...]:
        """The places of its page."""
        return page_bucket_keys(self.family, self.variant)


def meets(bucket_keys: tuple[BucketKey, ...], others: tuple[BucketKey, ...]) -> tuple[bool, bool]:
    """Whether two pages share a record in a table of band records, and in any table."""
    shared = set(bucket_keys) & set(others)
    return any(not bucket_key.is_simhash for bucket_key in shared), bool(shared)


class Protocol(RuleBasedStateMachine):
    """Clients propose, judge, commit, release, renew, refresh, forget and die, in any order."""

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
        # Two processes: those of one share calls.
        indexes = [self.run(self.harness.client()) for _ in range(2)]
        self.clients = [Client(indexes[i // 2]) for i in range(4)]
        self.observer = self.clients[0].index

    def live(self, number: int) -> bool:
        page = self.pages[number]
        if page.state is State.PENDING and page.until <= self.now:
            page.state = State.RELEASED
        return page.state in ALIVE

    def add(self, number: int, page: Page) -> None:
        """A page under an id that no other page has had, and its records."""
        assert number > max(self.pages, default=0)
        self.pages[number] = page
        for bucket_key in page.bucket_keys:
            self.buckets[bucket_key.bucket] = self.buckets.get(bucket_key.bucket, b"") + record(
                bucket_key, number
            )

    @rule(who=CLIENTS, family=st.integers(0, FAMILIES - 1), variant=st.integers(0, VARIANTS - 1))
    def turn(self, who: int, family: int, variant: int) -> None:
        """A client turns to another page; one that held a claim has crashed before."""
        self.clients[who] = Client(self.clients[who].index, family, variant, works=True)

    @rule(who=CLIENTS, family=st.integers(0, FAMILIES - 1), variant=st.integers(0, VARIANTS - 1))
    def read(self, who: int, family: int, variant: int) -> None:
        """Check that buckets hold the records of the model, and that candidates are those of the
        model."""
        bucket_keys = page_bucket_keys(family, variant)
        index = self.clients[who].index
        data = self.run(index.read_buckets(bucket_keys))
        assert data == [self.buckets.get(bucket_key.bucket, b"") for bucket_key in bucket_keys]
        found = self.run(index.candidates(bucket_keys, 0))
        expected = [n for n, page in self.pages.items() if meets(bucket_keys, page.bucket_keys)[1]]
        assert found.near.page_ids.tolist() == expected
        self.check_states(found.pages)

    def ready(self) -> list[Client]:
        return [one for one in self.clients if one.works and one.claim is None]

    @precondition(lambda self: self.ready())
    @rule(lease=LEASES, together=st.booleans(), order=st.permutations(range(4)))
    def propose(self, lease: float, together: bool, order: list[int]) -> None:
        """Clients propose their pages, one of them or all at once, whatever they wait for."""
        some = [self.clients[i] for i in order if self.clients[i] in self.ready()]
        some = some if together else some[:1]
        self.follow(some, self.run(self.propose_all(some, lease)), lease)

    @rule(
        who=CLIENTS,
        family=st.integers(0, FAMILIES - 1),
        variant=st.integers(0, VARIANTS - 1),
        times=st.integers(1, 3),
        lease=LEASES,
        stored=st.none() | st.booleans(),
    )
    def try_page(
        self, who: int, family: int, variant: int, times: int, lease: float, stored: bool | None
    ) -> None:
        """A client proposes another page, judges, and proposes again, without a step between; its
        storage may succeed or fail at once."""
        self.turn(who, family, variant)
        client = self.clients[who]
        for _ in range(times):
            if client.works and client.claim is None:
                self.follow([client], self.run(self.propose_all([client], lease)), lease)
        self.judge_claim(who)
        if stored is not None:
            self.finish(who, stored)

    async def propose_all(self, some: list[Client], lease: float) -> list[Answer]:
        return await asyncio.gather(
            *(
                one.index.propose(
                    page_entry(one.family, one.variant), 0, lease, known=self.known(one)
                )
                for one in some
            )
        )

    def known(self, client: Client) -> Known:
        """No page that a client waits for is known to it."""
        assert not client.waits_for & set(client.known.page_ids.tolist())
        return Known(client.known) if len(client.known) else NOTHING_KNOWN

    def follow(
        self,
        some: list[Client],
        answers: list[Answer],
        lease: float,
        copy: tuple[int, Page] | None = None,
    ) -> None:
        """The model's part of proposals, and of a copy, made together: ids tell the order."""
        before = dict(self.pages)
        made = {
            answer.claim.page_id: client
            for client, answer in zip(some, answers, strict=True)
            if isinstance(answer, Claimed)
        }
        for number in sorted([*made, *([copy[0]] if copy else [])]):
            if copy is not None and number == copy[0]:
                self.add(*copy)
                continue
            one = made[number]
            until = self.now + lease
            page = Page(one.family, one.variant, State.PENDING, until, number, one.bucket_keys)
            self.add(number, page)
        for client, answer in zip(some, answers, strict=True):
            if isinstance(answer, Claimed):
                self.check_claim(client, answer, made)
                client.claim, client.to_judge = answer.claim, answer.candidates
                client.waits_for = frozenset()
            else:
                self.check_candidates(client, answer, before)
                self.judge(client, answer.pages)

    def unknown(self, client: Client, upto: int) -> tuple[set[int], set[int]]:
        """Pages up to an id unknown to a client: those that block it, and all its candidates."""
        known = set(client.known.page_ids.tolist())
        blocking, every = set(), set()
        for number, page in self.pages.items():
            narrow, any_table = meets(client.bucket_keys, page.bucket_keys)
            if number <= upto and number not in known:
                blocking |= {number} if narrow else set()
                every |= {number} if any_table else set()
        return blocking, every

    def check_claim(self, client: Client, answer: Claimed, made: dict[int, Client]) -> None:
        """Every page before it that shares a band record was known, or claimed by the same
        process at the same time; whatever it met and did not know comes with it."""
        blocking, every = self.unknown(client, answer.claim.page_id - 1)
        for number in blocking:
            assert made[number].index is client.index
            assert len(client.known)
        assert set(answer.candidates.near.page_ids.tolist()) == every

    def check_candidates(self, client: Client, answer: Candidates, before: dict[int, Page]) -> None:
        """All unknown pages of one moment, at least one of which blocks the claim."""
        assert not answer.more
        found = set(answer.near.page_ids.tolist())
        moments = [max(before, default=0), *(n for n in self.pages if n not in before)]
        looked = [self.unknown(client, moment) for moment in moments]
        assert any(blocking and every == found for blocking, every in looked)
        narrow = looked[-1][0]
        assert narrow & found <= set(answer.pages.page_ids.tolist())
        self.check_states(answer.pages)

    def check_states(self, pages: PageRecords) -> None:
        """Check that states are those of the model at this moment."""
        for number, state, size in zip(
            pages.page_ids.tolist(),
            pages.states.tolist(),
            pages.content["size"].tolist(),
            strict=True,
        ):
            self.live(number)
            assert state == self.pages[number].state
            assert size == self.pages[number].family + 1

    def judge(self, client: Client, pages: PageRecords) -> None:
        """What a deduplicator does: a stored like page ends the work, one on its way is awaited,
        all others are known from now on."""
        like = pages.content["size"] == client.family + 1
        pending = like & (pages.states == State.PENDING)
        if (like & (pages.states == State.COMMITTED)).any():
            client.works = False
        client.waits_for = frozenset(pages.page_ids[pending].tolist())
        client.known = joined([client.known, chosen(pages, ~pending)])

    @precondition(lambda self: any(one.to_judge for one in self.clients))
    @rule(who=CLIENTS)
    def judge_claim(self, who: int) -> None:
        """A client looks at the pages that came with its claim, as they are now; with a like
        page that is alive it gives the claim back, and may die before it has."""
        client = self.clients[who]
        if client.claim is None or client.to_judge is None:
            return
        found = self.run(client.index.fetch(client.to_judge.near.page_ids))
        self.check_states(found)
        alive = np.isin(found.states, np.array(ALIVE, np.uint8))
        like = found.content["size"] == client.family + 1
        client.to_judge = None
        if (like & alive).any():
            expected = self.holds(client.claim)
            assert self.run(client.index.release(client.claim)) == expected
            if expected:
                self.pages[client.claim.page_id].state = State.RELEASED
            client.claim = None
            self.judge(client, found)
        else:
            self.pages[client.claim.page_id].kept = True

    def holds(self, claim: Claim) -> bool:
        return self.live(claim.page_id) and self.pages[claim.page_id].state is State.PENDING

    @rule(who=CLIENTS, stored=st.booleans())
    def finish(self, who: int, stored: bool) -> None:
        """Storage has succeeded or failed, perhaps after the lease; perhaps reported twice."""
        client = self.clients[who]
        claim = client.claim
        if claim is None or client.to_judge is not None:
            return
        expected = self.holds(claim)
        work = client.index.commit(claim) if stored else client.index.release(claim)
        assert self.run(work) == expected
        if expected:
            self.pages[claim.page_id].state = State.COMMITTED if stored else State.RELEASED

    @precondition(lambda self: self.pages)
    @rule(who=CLIENTS, picks=st.sets(st.integers(0, 20), min_size=1), wholly=st.booleans())
    def forget(self, who: int, picks: set[int], wholly: bool) -> None:
        """Pages are forgotten in bulk, perhaps with what they were entered anew as; uncommitted
        ones stay as they are."""
        numbers = list({list(self.pages)[pick % len(self.pages)] for pick in picks})
        index = self.clients[who].index
        wholly = wholly and not any(map(self.is_awaited, numbers))
        forgotten = self.run((index.forget_wholly if wholly else index.forget)(numbers))
        assert forgotten == self.forgotten(numbers, wholly=wholly)

    def is_awaited(self, number: int) -> bool:
        """Whether who forgets a page wholly waits for another one's end, which is no step here."""
        return any(self.live(n) and page.state is State.PENDING for n, page in self.twins(number))

    def twins(self, number: int) -> list[tuple[int, Page]]:
        """All pages with the content of a page, among them those it was entered anew as."""
        own = self.pages[number]
        same = (own.family, own.variant)
        return [(n, one) for n, one in self.pages.items() if (one.family, one.variant) == same]

    def forgotten(self, numbers: list[int], *, wholly: bool = False) -> int:
        """The model's part of forgetting pages."""
        hit = [one for one in set(numbers) if self.pages[one].state is State.COMMITTED]
        for one in hit:
            self.pages[one].state = State.RELEASED
        for one in numbers if wholly and self.harness.window else []:
            for _, page in self.twins(one):
                page.state = State.RELEASED
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
        """A page that was hit by a like one is entered anew, perhaps while it is forgotten, or
        while others propose."""
        number = list(self.pages)[pick % len(self.pages)]
        old = self.pages[number]
        was_committed = old.state is State.COMMITTED
        hit = page_bucket_keys(old.family, variant)
        some = self.ready() if racing and not forgetting else []

        async def work() -> tuple[bool, int, list[Answer]]:
            return await asyncio.gather(
                self.clients[who].index.refresh(number, hit),
                self.observer.forget([number] if forgetting else []),
                self.propose_all(some, lease),
            )

        refreshed, forgotten, answers = self.run(work())
        # Forgotten first, it has no copy; forgotten meanwhile, its copy is given up and keeps its
        # records; forgotten last, its copy stays.
        assert refreshed == was_committed or (was_committed and forgetting)
        assert forgotten == (was_committed and forgetting)
        own = page_bucket_keys(old.family, old.variant)[0]
        bucket_keys = (own, *hit[1:])
        met = self.run(self.observer.candidates(bucket_keys, 0)).near.page_ids.tolist()
        claims = [one.claim.page_id for one in answers if isinstance(one, Claimed)]
        copies = sorted(set(met) - self.pages.keys() - set(claims))
        assert len(copies) == 1 if refreshed else len(copies) <= forgotten
        copy = None
        if copies:
            state = State.COMMITTED if refreshed else State.RELEASED
            page = Page(old.family, old.variant, state, 0.0, old.origin, bucket_keys, kept=True)
            copy = copies[0], page
            # Between its claim and its commit a copy is pending for all who find it.
            for client, answer in zip(some, answers, strict=True):
                states = candidates_of(answer).pages.states
                states[candidates_of(answer).pages.page_ids == copies[0]] = State.COMMITTED
                assert client.works
        self.follow(some, answers, lease, copy)
        if forgetting:
            self.forgotten([number])

    @rule(lease=LEASES, strangers=st.booleans())
    def renew(self, lease: float, strangers: bool) -> None:
        """Heartbeats of all clients in one call, perhaps with tokens that were never issued."""
        claims = [client.claim for client in self.clients if client.claim]
        if strangers:
            wrong = [attrs.evolve(claim, token=claim.token ^ 1) for claim in claims]
            assert self.run(self.observer.renew(wrong, 9 * lease)) == [False] * len(wrong)
        expected = [self.holds(claim) for claim in claims]
        assert self.run(self.observer.renew(claims, lease)) == expected
        for claim, alive in zip(claims, expected, strict=True):
            if alive:
                self.pages[claim.page_id].until = self.now + lease

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
        """States are those of the model, and no family has two pages that are kept, copies aside:
        stored, or judged and on their way."""
        if not self.pages:
            return
        kept = [page for n, page in self.pages.items() if self.live(n) and page.kept]
        families = {page.family for page in kept}
        assert len(families) == len({page.origin for page in kept})
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
            if not self.harness.window:
                assert stats.buckets == len(self.buckets)
        self.run(self.harness.close())
        self.loop.close()
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("window", [0.0, 2 * SPAN], ids=["for-ever", "window"])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_protocol(kind: str, window: float, redis_server: RedisServer) -> None:
    """Whatever clients do and when they die, every answer is that of a sequential index, and of
    near-duplicates never two are stored, or judged and on their way, at the same time."""
    makers = {
        "memory": lambda _: MemoryHarness(window),
        "sqlite": lambda folder: SQLiteHarness(folder / "index.db", window),
        "redis": lambda _: RedisHarness(redis_server, window),
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
