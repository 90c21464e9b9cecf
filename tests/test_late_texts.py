"""Texts of one page that were stored while the index was away: none counts as stored unless storage
surely has it."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from dedup_middleware import Deduplicator, IndexUnavailableError
from dedup_middleware.index.base import release_surely
from dedup_middleware.index.batching import stop
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import DUPLICATE, EMPTY, NEW, REVISIT, Document
from dedup_middleware.model.keys import content_key
from tests.outages import (
    OPTIONS,
    Counts,
    Impatient,
    ScriptedIndex,
    deduplicator,
    page,
)
from tests.texts import article

TEXTS = [article(number, 12) for number in range(30)]
LONG = article(40, 60)


class Unheard(ScriptedIndex):
    """An index that carries out commits and then loses the reply."""

    async def commit(self, claim: Claim) -> bool:
        done = await MemoryIndex.commit(self, claim)
        await self._turn_of_others()
        return done


@pytest.mark.parametrize(
    ("kind", "claimed"), [(ScriptedIndex, False), (ScriptedIndex, True), (Unheard, True)]
)
async def test_page_that_changed_while_the_index_was_away(
    kind: type[ScriptedIndex], claimed: bool
) -> None:
    """Storage has one of the texts of a page that changed during an outage, and which one is not
    known: while they are entered one after the other, no copy of either is dropped."""
    down = [not claimed]
    index, counts = kind(lambda: down[0]), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    for text in TEXTS[:2]:
        verdict = await dedup.decide(page("a/1", text))
        down[0] = True
        assert await dedup.commit(verdict)
    down[0] = False
    settlement = dedup._settlement
    assert len(settlement.backlog) == 2
    while len(settlement.backlog):
        await settlement._enter_next()
        for number, text in enumerate(TEXTS[:2]):
            copy = await dedup._examine(page(f"b/{number}", text))
            assert copy.outcome == NEW
            await dedup.release(copy)
    assert counts.of["unchecked/settled"] == 2
    await dedup.close()


async def test_page_under_way_elsewhere_that_changed_while_the_index_was_away() -> None:
    """Another crawl writes a text of a page and commits it when two later texts, which are
    copies of stored pages, are entered: no row has that text, so no copy of it is dropped."""
    down = [False]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    options = attrs.evolve(OPTIONS, pending_wait=30.0)
    other = Deduplicator(options, index=index)
    dedup = Deduplicator(options, index=index, count=counts)
    dedup._outage.breaker = Impatient()
    await other.open()
    await dedup.open()
    for number in (0, 1):
        await dedup.commit(await dedup.decide(page(f"x/{number}", TEXTS[number])))
    pending = await other.decide(page("a/1", TEXTS[2]))
    assert pending.outcome == NEW
    down[0] = True
    for number in (0, 1):
        await dedup.commit(await dedup.decide(page("a/1", TEXTS[number])))
    down[0] = False
    entering = asyncio.create_task(dedup._settlement.catch_up())
    await asyncio.sleep(0.3)
    assert not entering.done()
    await other.commit(pending)
    await asyncio.wait_for(entering, 30)
    assert counts.of["unchecked/settled"] == 2
    copy = await dedup.decide(page("b/1", TEXTS[2]))
    assert copy.outcome == NEW
    await dedup.release(copy)
    await dedup.close()
    await other.close()


async def test_page_that_came_twice_and_changed_before_it_was_entered() -> None:
    """The row has the new text. Entering the first one of two equal pages makes the index forget
    that text; entering the second one must not make it call the old text stored."""
    down = [True]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    dedup, other = deduplicator(index, counts), Deduplicator(OPTIONS, index=index)
    await dedup.open()
    await other.open()
    for _ in range(2):
        await dedup.commit(await dedup.decide(page("a/1", TEXTS[0])))
    down[0] = False
    await other.commit(await other.decide(page("a/1", TEXTS[1])))
    await dedup._settlement.catch_up()
    assert counts.of["unchecked/settled"] == 2
    assert (await dedup._examine(page("b/1", TEXTS[0]))).outcome == NEW
    await dedup.close()
    await other.close()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("before", "texts", "order"),
    [
        (None, (2, 0), (1, 0)),  # the row has a copy of a stored page, which is entered first
        (None, (2, 5), (1, 0)),  # it has no text
        (2, (2, 3), (1, 0)),  # the index calls the other text stored since before the outage
        (None, (2, 3), (0, 1)),
        (None, (2, 3, 4), (0, 2, 1)),  # the row's text is called stored and forgotten again
        (3, (3, 0, 2), (2, 0, 1)),
        (2, (2, 6), (1, 0)),  # the row has an excerpt of the text that was stored before
        (None, (2, 2, 6), (0, 2, 1)),
    ],
)
async def test_page_that_several_processes_stored_while_the_index_was_away(
    before: int | None, texts: tuple[int, ...], order: tuple[int, ...], *, together: bool
) -> None:
    """In whatever order they enter it, only the text that its row has may count as stored."""
    down, said = [False], [*TEXTS[:5], "", TEXTS[2][: len(TEXTS[2]) // 2]]
    index = ScriptedIndex(lambda: down[0])
    options = attrs.evolve(OPTIONS, pending_wait=0.05)
    dedups = [Deduplicator(options, index=index) for _ in texts]
    for dedup in dedups:
        dedup._outage.breaker = Impatient()
        await dedup.open()
    for number in (0, 1):
        await dedups[0].commit(await dedups[0].decide(page(f"x/{number}", said[number])))
    if before is not None:
        await dedups[0].commit(await dedups[0].decide(page("a/1", said[before])))
    down[0] = True
    for dedup, text in zip(dedups, texts, strict=True):
        await dedup.commit(await dedup.decide(page("a/1", said[text])))
    down[0] = False
    for turn in range(3):
        entering = [dedups[one]._settlement.catch_up() for one in order]
        if together and not turn:
            await asyncio.gather(*entering)
        else:
            for one in entering:
                await one
    assert not any(len(dedup._settlement.backlog) for dedup in dedups)
    for number in {2, 3, 4} - {texts[-1]}:
        copy = await dedups[0]._examine(page(f"b/{number}", said[number]))
        assert copy.outcome == NEW
        await dedups[0].release(copy)
    for dedup in dedups:
        await dedup.close()


@pytest.mark.parametrize("number", [0, 5])
async def test_copy_or_empty_page_is_stored_before_an_earlier_text_is_entered(number: int) -> None:
    """The row no longer has the text that was stored during the outage, so no copy of it is
    dropped."""
    down, said = [False], [*TEXTS[:5], ""]
    index = ScriptedIndex(lambda: down[0])
    dedup = deduplicator(index, Counts())
    await dedup.open()
    await dedup.commit(await dedup.decide(page("x/0", TEXTS[0])))
    down[0] = True
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[2])))
    down[0] = False
    verdict = await dedup._examine(page("a/1", said[number]))
    assert verdict.outcome in (DUPLICATE, EMPTY)
    await dedup.commit(verdict)
    await dedup._settlement.catch_up()
    assert (await dedup._examine(page("b/1", TEXTS[2]))).outcome == NEW
    await dedup.close()


async def test_row_that_a_fuller_page_has_superseded_meanwhile() -> None:
    """Another process has deleted the row, and then the fuller page has changed: the text that was
    stored in that row during the outage is in no row when it is entered."""
    down = [False]
    index = ScriptedIndex(lambda: down[0])
    options = attrs.evolve(OPTIONS, on_fuller="replace", hash_key="5eed")
    dedup, other = Deduplicator(options, index=index), Deduplicator(options, index=index)
    dedup._outage.breaker = Impatient()
    await dedup.open()
    await other.open()
    await other.commit(await other.decide(page("a/1", TEXTS[0])))
    down[0] = True
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[0])))
    down[0] = False
    fuller = await other.decide(page("b/1", TEXTS[0] + TEXTS[3]))
    await other.commit(fuller)
    keys = await other.superseded(fuller)
    assert keys == ["https://a/1"]
    await other.deleted(keys)
    await other.commit(await other.decide(page("b/1", TEXTS[1])))
    await dedup._settlement.catch_up()
    assert (await dedup._examine(page("c/1", TEXTS[0]))).outcome == NEW
    await dedup.close()
    await other.close()


async def test_deletion_of_rows_is_noted_later_if_the_call_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call notes all of them at the same time, so that they share exchanges with Redis."""
    index, counts, asked = ScriptedIndex(), Counts(), [0]
    dedup = deduplicator(index, counts)
    await dedup.open()
    keys = [f"a/{number}" for number in range(3)]
    for key, text in zip(keys, TEXTS, strict=False):
        await dedup.commit(await dedup.decide(page(key, text)))

    async def stall(*_: Any, **__: Any) -> Any:
        asked[0] += 1
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(index, "propose", stall)
        call = asyncio.create_task(dedup.deleted([f"https://{key}" for key in keys]))
        await asyncio.sleep(0.1)
        assert asked == [3]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await dedup._settlement.catch_up()
    assert counts.of["unchecked/settled"] == 3
    for number, text in enumerate(TEXTS[:3]):
        assert (await dedup._examine(page(f"b/{number}", text))).outcome == NEW
    await dedup.close()


async def test_deletion_of_rows_is_noted_if_the_call_is_cancelled_at_once() -> None:
    """Cancelled before the first exchange: the text that the row had meanwhile is not stored."""
    counts = Counts()
    dedup = deduplicator(ScriptedIndex(), counts)
    await dedup.open()
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[0])))
    call = asyncio.create_task(dedup.deleted(["https://a/1"]))
    asyncio.get_running_loop().call_soon(call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
    await dedup._settlement.catch_up()
    assert (await dedup.decide(page("b/1", TEXTS[0]))).outcome == NEW
    await dedup.close()


async def test_a_release_that_is_cancelled_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is sent all the same: a page like this one need not wait for the end of the lease."""
    index = ScriptedIndex()
    dedup = deduplicator(index, Counts())
    await dedup.open()
    claim = (await dedup.decide(page("a/1", TEXTS[0]))).claim
    assert claim is not None

    async def stall(_: Claim) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(index, "release", stall)
        call = asyncio.create_task(release_surely(index, claim))
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await dedup.decide(page("b/1", TEXTS[0]))).outcome == NEW
    await dedup.close()


async def test_a_copy_does_not_wait_for_a_page_that_is_stored_already() -> None:
    """A commit that is cancelled before it is sent is sent again soon, so a copy of the page does
    not wait for it in vain."""
    dedup = deduplicator(ScriptedIndex(), Counts())
    await dedup.open()
    verdict = await dedup.decide(page("a/1", TEXTS[0]))
    call = asyncio.create_task(dedup.commit(verdict))
    asyncio.get_running_loop().call_soon(call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await dedup.decide(page("b/1", TEXTS[0]))).outcome == DUPLICATE
    await dedup.close()


async def test_a_later_text_is_not_lost_with_the_index() -> None:
    """The process remembers one text of a page and commits another, which the index then loses:
    the remembered one is not entered, as storage has the later one."""
    down = [False]
    index = ScriptedIndex(lambda: down[0])
    dedup = deduplicator(index, Counts())
    await dedup.open()
    first = await dedup.decide(page("a/1", TEXTS[0]))
    down[0] = True
    await dedup.commit(first)
    down[0] = False
    assert first.claim is not None
    await index.release(first.claim)  # its lease ends
    later = await dedup._examine(page("a/1", TEXTS[1]))
    await dedup.commit(later)
    assert later.claim is not None
    await index.forget([later.claim.page_id])
    await index.compact()  # the index has nothing of it any more
    await dedup._settlement.catch_up()
    assert (await dedup._examine(page("b/1", TEXTS[0]))).outcome == NEW
    await dedup.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_look_for_other_texts_fails_or_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """The claim made for a page that is entered late is not left open, and the next try enters the
    page: that the index could not be asked does not mean that it has another text."""
    down, counts = [True], Counts()
    index = ScriptedIndex(lambda: down[0])
    dedup = deduplicator(index, counts)
    await dedup.open()
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[2])))
    down[0] = False

    async def away(_: int) -> Any:
        if fails:
            raise IndexUnavailableError("cut off by the test")
        await asyncio.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr(index, "of_key", away)
        entering = asyncio.create_task(dedup._settlement.catch_up())
        await asyncio.sleep(0.05)
        await stop(entering)
    await asyncio.sleep(0.05)
    assert not len(dedup._claims)
    await dedup._settlement.catch_up()
    assert counts.of["unchecked/settled"] == await index.count() == 1
    await dedup.close()


async def test_page_under_way_for_longer_than_pages_wait() -> None:
    """A page whose row may have replaced that of a page under way is remembered until that is
    settled: else the index would call a text stored that no row has."""
    down = [False]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    options = attrs.evolve(OPTIONS, pending_wait=0.01)
    dedup, other = (
        Deduplicator(options, index=index, count=counts),
        Deduplicator(OPTIONS, index=index),
    )
    dedup._outage.breaker = Impatient()
    await other.open()
    await dedup.open()
    await other.commit(await other.decide(page("x/1", TEXTS[1])))
    pending = await other.decide(page("a/1", TEXTS[0]))
    down[0] = True
    await dedup.commit(await dedup.decide(page("a/1", TEXTS[1])))  # a copy of x/1
    down[0] = False
    for _ in range(3):
        await dedup._settlement.catch_up()
        # Only the first try leaves a record, however often it is repeated.
        assert (await index.stats()).released == 1
    assert [one.waited for one in dedup._settlement.backlog] == [True]  # the log says why
    await other.commit(pending)
    await dedup._settlement.catch_up()
    assert counts.of["unchecked/settled"] == 1
    assert (await dedup._examine(page("b/1", TEXTS[0]))).outcome == NEW
    await dedup.close()
    await other.close()


@pytest.mark.parametrize("key", ["https://a/1", content_key(LONG), content_key(TEXTS[0])])
async def test_text_under_two_titles_while_the_index_was_away(key: str) -> None:
    """It is one text, which storage has, whichever title came last. An item without a key of its
    own replaces nothing, so that of a short text it does not matter either."""
    down = [True]
    index, counts = ScriptedIndex(lambda: down[0]), Counts()
    dedup = deduplicator(index, counts)
    await dedup.open()
    text = TEXTS[0] if key == content_key(TEXTS[0]) else LONG
    for title, form in (("Storm (3 comments)", text), ("Storm (4 comments)", f" {text.upper()}\n")):
        await dedup.commit(await dedup.decide(Document(key=key, title=title, text=form)))
    down[0] = False
    await dedup._settlement.catch_up()
    assert counts.of["unchecked/settled"] == 2
    assert await index.count() == 1
    assert (await dedup.decide(page("b/1", text, "Storm"))).outcome == DUPLICATE
    await dedup.close()


async def test_revisit_that_is_stored_while_another_text_of_it_is_under_way() -> None:
    """Which of the two storage has last is known when the other one has ended; if the commit does
    not wait for that, the page is remembered."""
    options = attrs.evolve(OPTIONS, pending_wait=30.0)
    async with Deduplicator(options) as dedup:
        await dedup.commit(await dedup.decide(page("a/1", TEXTS[0])))
        again = await dedup.decide(page("a/1", TEXTS[0]))
        other = await dedup.decide(page("a/1", TEXTS[1]))
        assert (other.outcome, again.outcome, again.claim) == (NEW, REVISIT, None)
        committing = asyncio.create_task(dedup.commit(again))
        await asyncio.sleep(0.05)
        await stop(committing)
        assert committing.cancelled()
        assert [one.document.key for one in dedup._settlement.backlog] == ["https://a/1"]
