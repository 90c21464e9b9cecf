"""Pages that were stored while the index was away: each is entered later, or counted and logged."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware import Deduplicator, Options
from dedup_middleware.core import deduplicator as core
from dedup_middleware.core import settlement
from dedup_middleware.core.availability import Breaker, Unsettled
from dedup_middleware.index.batching import stop
from dedup_middleware.model.claims import Candidates, Claim, Claimed
from dedup_middleware.model.documents import NEW, UNCHECKED, Verdict
from tests.outages import (
    OPTIONS,
    Counts,
    Impatient,
    ScriptedIndex,
    deduplicator,
    loop_errors,
    page,
    unaccounted,
)
from tests.texts import article

TEXTS = [article(number, 12) for number in range(30)]


async def test_close_right_after_an_outage() -> None:
    """All pages that went by are entered by close itself, each once, though each of its decisions
    shows that the index is back."""
    down = [True]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    with loop_errors() as errors:
        for number in range(20):
            verdict = await dedup.decide(page(f"a/{number}", TEXTS[number]))
            assert verdict.outcome == UNCHECKED
            assert await dedup.commit(verdict)
        down[0] = False
        await dedup.close()
    assert index.closed == 1
    assert await index.count() == 20
    assert counts.of["unchecked/remembered"] == counts.of["unchecked/settled"] == 20
    assert counts.of["unchecked/forgotten"] == 0
    assert errors == []


async def test_outage_while_closing(caplog: pytest.LogCaptureFixture) -> None:
    """What can't be entered at the end is counted and logged, and the index is closed."""
    left = [11]

    def fails() -> bool:
        left[0] -= 1
        return left[0] < 0 or left[0] >= 6  # entering a page takes three calls

    index, counts = ScriptedIndex(fails), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    for number in range(5):
        await dedup.commit(await dedup.decide(page(f"a/{number}", TEXTS[number])))
    assert counts.of["unchecked/remembered"] == 5
    caplog.set_level(logging.WARNING)
    await dedup.close()
    assert index.closed == 1
    settled, forgotten = counts.of["unchecked/settled"], counts.of["unchecked/forgotten"]
    assert settled + forgotten == 5
    assert settled == await index.count() == 2
    assert f"{forgotten} pages" in caplog.text


@pytest.mark.parametrize(("timeout", "pause", "entered"), [(60.0, 0.01, 5), (0.05, 0.1, 0)])
async def test_index_that_comes_back_while_closing(
    monkeypatch: pytest.MonkeyPatch, timeout: float, pause: float, entered: int
) -> None:
    """Pages are entered after further tries, for as long as a call to an index that hangs may
    take; then they are counted as forgotten."""
    left = [10]

    def fails() -> bool:
        left[0] -= 1
        return left[0] >= 0

    monkeypatch.setattr(settlement, "_POLL", pause)
    index, counts = ScriptedIndex(fails), Counts()
    options = attrs.evolve(OPTIONS, timeout=timeout, retries=0)
    dedup = Deduplicator(options, index=index, count=counts)
    dedup._outage.breaker = Breaker(time.monotonic, first=0.01, longest=0.01)
    await dedup.open()
    for number in range(5):
        verdict = await dedup.decide(page(f"a/{number}", TEXTS[number]))
        assert verdict.outcome == UNCHECKED
        await dedup.commit(verdict)
    await asyncio.wait_for(dedup.close(), 60)
    assert counts.of["unchecked/settled"] == await index.count() == entered
    assert counts.of["unchecked/forgotten"] == 5 - entered
    assert index.closed == 1


async def test_close_that_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that is cut short gives back claims, closes the index and accounts for all pages."""
    down = [False]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    held = await dedup.decide(page("held", TEXTS[20]))
    assert held.claim is not None
    down[0] = True
    for number in range(5):
        await dedup.commit(await dedup.decide(page(f"a/{number}", TEXTS[number])))
    down[0] = False
    reached = asyncio.Event()

    async def never(*_: object) -> Claimed | Candidates:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(index, "propose", never)
    closing = asyncio.create_task(dedup.close())
    await asyncio.wait_for(reached.wait(), 60)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert index.closed == 1
    assert counts.of["unchecked/forgotten"] == 5
    assert (await index.stats()).pending == 0


async def test_error_of_our_own_while_catching_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A page that can't be entered for another reason than an outage is counted and logged, and the
    others are entered."""
    down = [True]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    for number in range(5):
        await dedup.commit(await dedup.decide(page(f"a/{number}", TEXTS[number])))
    down[0] = False
    propose = index.propose
    calls = iter([ZeroDivisionError, RuntimeError])

    async def broken(*arguments: Any) -> Claimed | Candidates:
        error = next(calls, None)
        if error is not None:
            raise error("made by the test")
        return await propose(*arguments)

    monkeypatch.setattr(index, "propose", broken)
    with loop_errors() as errors:
        await dedup.close()
    assert index.closed == 1
    assert counts.of["unchecked/settled"] == await index.count() == 3
    assert counts.of["unchecked/forgotten"] == counts.of["error/internal"] == 2
    assert "made by the test" in caplog.text
    assert errors == []


async def test_unresolved_claims_hold_up_no_catch_up() -> None:
    """A remembered copy of a page with an unknown outcome is entered at the end without waiting,
    since no signal for that page will come any more."""
    down = [False]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    dedup = Deduplicator(
        Options(index_url="memory:", pending_wait=600.0), index=index, count=counts
    )
    dedup._outage.breaker = Impatient()
    await dedup.open()
    unresolved = await dedup.decide(page("a/1", TEXTS[1]))
    assert unresolved.outcome == NEW
    down[0] = True
    await dedup.commit(await dedup.decide(page("b/1", TEXTS[1])))
    down[0] = False
    await asyncio.wait_for(dedup.close(), 30)
    assert counts.of["claim/unresolved"] == 1
    assert counts.of["unchecked/settled"] == await index.count() == 1


async def test_page_under_way_of_another_process_bounds_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Remembered copies of pages that another process holds are waited for once in all, not each,
    and are counted as forgotten."""
    down = [False]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    other = deduplicator(index, Counts())
    await other.open()
    for number in range(10):
        assert (await other.decide(page(f"o/{number}", TEXTS[number]))).outcome == NEW
    dedup = Deduplicator(Options(index_url="memory:", pending_wait=0.2), index=index, count=counts)
    dedup._outage.breaker = Impatient()
    await dedup.open()
    down[0] = True
    for number in range(10):
        await dedup.commit(await dedup.decide(page(f"a/{number}", TEXTS[number])))
    down[0] = False
    await asyncio.wait_for(dedup.close(), 60)
    assert counts.of["pending/wait"] < 10
    assert counts.of["unchecked/forgotten"] == 10
    assert "10 pages were stored without a check, because pages like them" in caplog.text
    assert "because the index could not be used" not in caplog.text


async def test_page_stored_after_the_end_is_counted() -> None:
    """A page that is stored when all is closed can't be entered any more, and is counted."""
    index, counts = ScriptedIndex(lambda: True), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    verdict = await dedup.decide(page("a/1", TEXTS[1]))
    await dedup.close()
    await dedup.commit(verdict)
    assert counts.of["unchecked/forgotten"] == counts.of["unchecked/remembered"] == 1


async def test_leases_that_cannot_be_extended_are_an_outage_of_the_index(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log line names the index, like those of other calls that can't reach it."""
    counts = Counts()
    dedup = deduplicator(ScriptedIndex(lambda: True), counts)
    dedup._claims.add(Claim(1, 1))
    beat = asyncio.create_task(dedup._settlement.keep_alive(0.03))
    while not counts.of["error/index"]:
        await asyncio.sleep(0.01)
    await stop(beat)
    assert "The index can't extend leases: " in caplog.text


PLANS = st.tuples(
    st.integers(0, 2**32),
    st.floats(0.0, 0.9),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 200)),
)


@given(PLANS)
@settings(max_examples=150)
def test_every_remembered_page_is_accounted_for(plan: tuple[int, float, bool, int | None]) -> None:
    """However calls fail and overlap, and however the end comes: pages remembered = settled + still
    remembered + forgotten, but for one that is being entered, at each call and at the end. The
    index is closed, no claim is left open unless it was away, and no page is entered twice."""
    asyncio.run(_overlap(*plan))


async def _overlap(seed: int, rate: float, down_at_end: bool, cancel_after: int | None) -> None:
    rng = random.Random(seed)
    state = {"rate": rate}
    counts = Counts()

    def fails() -> bool:
        assert unaccounted(counts, dedup) in (0, 1)
        return rng.random() < state["rate"]

    index = ScriptedIndex(fails)
    dedup = deduplicator(index, counts)
    with loop_errors() as errors:
        await dedup.open()

        async def arrive(number: int) -> None:
            for _ in range(rng.randrange(8)):
                await asyncio.sleep(0)
            # Some texts come twice.
            verdict: Verdict = await dedup.decide(page(f"a/{number}", TEXTS[number % 20]))
            for _ in range(rng.randrange(8)):
                await asyncio.sleep(0)
            if not verdict.is_duplicate:
                await dedup.commit(verdict)

        await asyncio.gather(*map(arrive, range(25)))
        remembered = counts.of["unchecked/remembered"]
        state["rate"] = rate if down_at_end else 0.0
        closing = asyncio.create_task(dedup.close())
        if cancel_after is not None:
            for _ in range(cancel_after):
                await asyncio.sleep(0)
            closing.cancel()
        cancelled = False
        try:
            await closing
        except asyncio.CancelledError:
            cancelled = True
        await asyncio.sleep(0)
    assert errors == []
    assert index.closed == 1
    assert len(dedup._settlement.backlog) == 0
    assert unaccounted(counts, dedup) == 0
    assert counts.of["unchecked/remembered"] >= remembered
    if not down_at_end:
        assert cancelled or (await index.stats()).pending == 0
        assert cancelled or counts.of["unchecked/forgotten"] == 0
    assert counts.of["error/internal"] == 0
    assert await index.count() == counts.of["committed"] <= 20


@pytest.mark.parametrize("step", ["commit", "release"])
async def test_settling_that_is_cancelled_leaves_no_claim(step: str) -> None:
    """A stored page is entered although its commit was cancelled; a claim is given back."""
    index = ScriptedIndex()
    async with Deduplicator(OPTIONS, index=index) as dedup:
        verdict = await dedup.decide(page("a", TEXTS[1]))
        settling = asyncio.create_task(getattr(dedup, step)(verdict))
        await asyncio.sleep(0)
        settling.cancel()
        await asyncio.wait([settling])
        assert settling.cancelled()
        await asyncio.sleep(0.01)
        other = await dedup.decide(page("b", TEXTS[2]))
        await dedup.release(other)
        await dedup._settlement.catch_up()
        counts = await index.stats()
        assert (counts.pending, counts.committed) == (0, int(step == "commit"))


async def test_claim_of_a_page_that_is_cancelled_while_what_it_holds_is_named() -> None:
    """A decision that is cancelled while the stored pages that it holds are named releases its
    claim."""

    class SlowAddresses(ScriptedIndex):
        """Names no page before the caller has gone away."""

        async def propose(self, *arguments: Any, **named: Any) -> Claimed | Candidates:
            made = await super().propose(*arguments, **named)
            if isinstance(made, Candidates):
                return attrs.evolve(made, addresses={})
            return made

        async def addresses(self, page_ids: Sequence[int]) -> list[str | None]:
            asked.set()
            await asyncio.sleep(3600)
            return await super().addresses(page_ids)

    asked, index = asyncio.Event(), SlowAddresses()
    async with Deduplicator(OPTIONS, index=index) as dedup:
        await dedup.commit(await dedup.decide(page("a", TEXTS[1])))
        deciding = asyncio.create_task(dedup.decide(page("b", TEXTS[1] + TEXTS[2])))
        await asyncio.wait_for(asked.wait(), 60)
        deciding.cancel()
        await asyncio.wait([deciding])
        await asyncio.sleep(0.01)
        assert (await index.stats()).pending == 0


async def test_texts_that_are_replaced_without_notice_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A page that changed while the index was away to the end: its earlier text still counts as
    stored there, and the log says how to have that forgotten."""
    fails = [False]
    index, counts = ScriptedIndex(lambda: fails[0]), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[0])))
    fails[0] = True
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[1])))
    caplog.set_level(logging.INFO)
    await dedup.close()
    assert await index.count() == 1
    (said,) = [one for one in caplog.messages if "without a check, because" in one]
    assert "1 pages were stored without a check" in said
    assert "earlier texts under their keys still count as stored" in said
    assert "scrapy dedup forget --key KEY" in said
    assert "https://a/1" not in said
    assert "Stored without a check: 'https://a/1'" in caplog.messages


def test_some_of_many_pages_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A long outage to the end of a crawl does not fill its log, nor does a key break its line."""
    counts = Counts()
    settlement = deduplicator(ScriptedIndex(), counts)._settlement
    for number in range(150):
        settlement.remember(Unsettled(page(f"a/{number}\n", TEXTS[0])))
    caplog.set_level(logging.INFO)
    settlement.end()
    named = [one for one in caplog.messages if one.startswith("Stored without a check: ")]
    assert named == [f"Stored without a check: 'https://a/{number}\\n'" for number in range(100)]
    assert counts.of["unchecked/forgotten"] == 150


async def test_a_claim_that_was_lost_is_kept_no_longer_than_its_verdict() -> None:
    """Otherwise the new page ids of lost claims, which a caller may never fetch, would fill the
    memory."""
    dedup = deduplicator(ScriptedIndex(), Counts())
    await dedup.open()
    verdict = await dedup.decide(page("a/1", TEXTS[1]))
    assert verdict.claim is not None
    await dedup._index.release(verdict.claim)
    assert await dedup.commit(verdict)
    assert dedup.page_id_of(verdict.claim) != verdict.claim.page_id
    assert len(dedup._settlement._anew) == 1
    del verdict
    assert len(dedup._settlement._anew) == 0
    await dedup.close()


async def test_closing_waits_once_for_an_index_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for one timeout, although a claim is open and a page is remembered."""
    now, down = [1000.0], [False]
    longest = OPTIONS.timeout * (1 + OPTIONS.retries)

    def clock() -> float:
        now[0] += 0.01
        return now[0]

    def fails() -> bool:
        now[0] += longest * down[0]
        return down[0]

    clocks = SimpleNamespace(monotonic=clock, perf_counter=clock)
    monkeypatch.setattr(settlement, "time", clocks)
    monkeypatch.setattr(core, "time", clocks)
    monkeypatch.setattr(settlement, "_POLL", 0.0)
    dedup = Deduplicator(OPTIONS, index=ScriptedIndex(fails), count=Counts())
    dedup._outage.breaker = Breaker(clock)
    await dedup.open()
    committed, opened = [await dedup.decide(page(f"a/{i}", TEXTS[i])) for i in range(2)]
    down[0] = True
    assert await dedup.commit(committed)
    assert opened.claim is not None
    began = now[0]
    await dedup.close()
    assert now[0] - began < 1.5 * longest
