"""A crawl moves from one index to another: pages of the former index still count."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import Deduplicator, IndexUnavailableError, Options
from dedup_middleware.base.errors import IndexRefusedError, OptionsError
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.documents import DUPLICATE, NEW, REVISIT, UNCHECKED
from tests.moving import Move, outcome
from tests.outages import page, stored
from tests.texts import article, english

OPTIONS = Options(pending_wait=5.0)


@pytest.fixture
async def move() -> AsyncIterator[Move]:
    """A crawl that moves, with the options by default."""
    made = Move()
    yield made
    for dedup in made.open:
        await dedup.close()


async def test_copy_of_a_page_of_the_former_index_is_a_duplicate(move: Move) -> None:
    """The verdict names it, and that it was found by asking the former index."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    verdict = await dedup.decide(page("b/1", "本报讯 " + article(1)))
    assert verdict.is_duplicate
    assert verdict.match is not None
    assert verdict.match.key == "https://a/1"
    assert verdict.match.tables[0] == "former"
    assert move.counts.of["former/found"] == move.counts.of["former/carried"] == 1


async def test_later_text_of_a_page_that_changed_twice_while_the_former_index_was_away(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page changes again while the former index is asked to forget its other texts, and that
    fails: the text to keep is the later one, not the one that was noted first."""
    old = await move.before()
    await stored(old, page("a/1", article(1)))
    dedup = await move.moving()
    former = dedup._former
    assert former is not None
    fingerprint = dedup._fingerprinter
    assert fingerprint is not None
    first, later = (fingerprint(page("a/1", article(n))) for n in (1, 2))
    of_key = move.former.of_key

    async def fails(key_hash: int) -> Any:
        former.forget_later(later)
        raise IndexUnavailableError("cut off by the test")

    monkeypatch.setattr(move.former, "of_key", fails)
    await former.forget_others(first)
    monkeypatch.setattr(move.former, "of_key", of_key)
    await former.close()
    assert await move.former.count() == 0


async def test_page_that_decides_is_carried_over_once(move: Move) -> None:
    """It is in the current index from then on, also when the former one is left out; others are
    not."""
    old = await move.before()
    await stored(old, page("a/1", article(1)))
    await stored(old, page("a/2", article(2)))
    dedup = await move.moving()
    for name in ("b", "c", "d"):
        assert await outcome(dedup, page(f"{name}/1", article(1))) == DUPLICATE
    assert move.counts.of["former/carried"] == 1
    assert await move.now.count() == 1
    alone = await move.after()
    verdict = await alone.decide(page("e/1", article(1)))
    assert verdict.match is not None
    assert verdict.match.key == "https://a/1"
    assert "former" not in verdict.match.tables
    assert await outcome(alone, page("e/2", article(2))) == NEW


async def test_many_copies_at_once_carry_one_page_over(move: Move) -> None:
    """None of them is stored, whichever of them comes first."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    pages = [page(f"b/{n}", article(1)) for n in range(40)]
    assert await asyncio.gather(*(outcome(dedup, one) for one in pages)) == [DUPLICATE] * 40
    assert await move.now.count() == 1


async def test_new_page_is_claimed_in_the_index_of_now_only(move: Move) -> None:
    """The former index gets neither a claim nor a page."""
    old = await move.before()
    await stored(old, page("a/1", article(1)))
    dedup = await move.moving()
    await stored(dedup, page("a/2", article(2)))
    assert await outcome(dedup, page("b/2", article(2))) == DUPLICATE
    stats = await move.former.stats()
    assert (stats.committed, stats.pending, stats.released) == (1, 0, 0)


async def test_unchanged_page_is_a_revisit(move: Move) -> None:
    """Under its own key, as with one index; the page is carried over."""
    await stored(await move.before(), page("a/1", article(1)))
    verdict = await (await move.moving()).decide(page("a/1", article(1)))
    assert verdict.outcome == REVISIT
    assert verdict.reason == "unchanged"
    assert await move.now.count() == 1


async def test_changed_page_replaces_its_version_in_both(move: Move) -> None:
    """A copy of the earlier text is stored again, since storage has it no more; the verdict names
    the earlier version."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    verdict = await dedup.decide(page("a/1", article(2)))
    assert (verdict.outcome, verdict.reason) == (NEW, "changed")
    assert verdict.previous is not None
    assert await move.former.count() == 0  # before the page goes on to storage
    await dedup.commit(verdict)
    assert await outcome(dedup, page("b/1", article(1))) == NEW
    assert await outcome(dedup, page("b/2", article(2))) == DUPLICATE


async def test_text_that_was_replaced_stays_forgotten_if_its_page_is_lost(move: Move) -> None:
    """A process dies between storing the new text and its commit, and what it left is taken out:
    the earlier text is not called stored."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    verdict = await dedup.decide(page("a/1", article(2)))
    assert verdict.claim is not None
    await move.now.release(verdict.claim)
    await move.now.compact()
    assert await outcome(dedup, page("b/1", article(1))) == NEW


async def test_both_versions_count_where_storage_keeps_both() -> None:
    """With DEDUP_VERSIONS = "keep" the former index forgets nothing."""
    move = Move(versions="keep")
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    verdict = await dedup.decide(page("a/1", article(2)))
    assert (verdict.outcome, verdict.reason) == (NEW, "changed")
    await dedup.commit(verdict)
    assert await move.former.count() == 1
    assert await outcome(dedup, page("b/1", article(1))) == DUPLICATE
    assert await outcome(dedup, page("b/2", article(2))) == DUPLICATE


async def test_newer_version_in_the_index_of_now_wins(move: Move) -> None:
    """The former index was away when the page changed, so it still calls the earlier text stored: a
    copy of that is stored again, and the page itself too when it changes back."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    move.former.down = True
    await stored(dedup, page("a/1", article(2)))
    other = await move.moving()  # another process, which owes the former index nothing
    move.former.down = False
    assert await move.former.count() == 1
    assert await outcome(other, page("b/1", article(1))) == NEW
    assert await outcome(other, page("a/1", article(1))) == DUPLICATE  # of b/1


async def test_claim_of_a_newer_version_is_enough(move: Move) -> None:
    """The former version does not count while the newer one is on its way, nor when that was given
    back: storage may hold it."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    move.former.down = True
    verdict = await dedup.decide(page("a/1", article(2)))
    assert verdict.claim is not None
    other = await move.moving()
    move.former.down = False
    assert await outcome(other, page("b/1", article(1))) == NEW
    await move.now.forget(await move.now.lookup(0))
    await move.now.release(verdict.claim)
    assert await outcome(other, page("c/1", article(1))) == DUPLICATE  # of b/1


async def test_former_index_that_is_away_holds_up_nothing(
    move: Move, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages pass on to the current index, counted and logged once; it forgets later what was
    replaced meanwhile."""
    old = await move.before()
    await stored(old, page("a/1", article(1)))
    await stored(old, page("a/2", article(2)))
    dedup = await move.moving()
    move.former.down = True
    await stored(dedup, page("a/1", article(3)))
    await stored(dedup, page("b/2", article(2)))
    for n in range(4, 10):
        await stored(dedup, page(f"b/{n}", article(n)))
    assert move.counts.of["former/skipped"] == 8
    assert move.counts.of["former/error"] == 1
    warnings = [one for one in caplog.records if one.levelname == "WARNING"]
    assert len([one for one in warnings if "former index" in one.getMessage()]) == 1
    move.former.down = False
    await dedup.close()
    move.open.remove(dedup)
    assert await move.former.count() == 1  # a/1 was replaced; a/2 was not
    assert move.counts.of["former/forgotten"] == 1


async def test_errors_of_the_former_index_name_its_setting(
    move: Move, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those of a former index that was open already, and not the setting of the new one."""
    await move.before()
    dedup = await move.moving()

    async def candidates(*_: Any) -> Any:
        raise IndexUnavailableError("the index at DEDUP_INDEX_URL=redis://old can't be used")

    monkeypatch.setattr(move.former, "candidates", candidates)
    await stored(dedup, page("b/1", article(1)))
    assert "the index at DEDUP_FORMER_INDEX_URL=redis://old can't be used" in caplog.text


async def test_a_former_index_that_goes_while_it_is_opened(
    move: Move, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its pages are counted last; the error names its setting, too."""
    await move.before()

    async def count() -> int:
        raise IndexUnavailableError("the index at DEDUP_INDEX_URL=redis://old can't be used")

    monkeypatch.setattr(move.former, "count", count)
    with pytest.raises(IndexUnavailableError, match="DEDUP_FORMER_INDEX_URL=redis://old"):
        await move.moving()


async def test_pages_that_wait_for_one_connection_go_on_together(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that wait for a former index that refuses slowly share one attempt to connect."""
    await move.before()
    await move.moving()  # both exist
    attempts = 0

    async def attach() -> dict[str, str]:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0.05)
        raise IndexUnavailableError("it takes its time")

    monkeypatch.setattr(move.former, "attach", attach)
    dedup = await move.moving()
    dedup._former._breaker.worked()  # type: ignore[union-attr]  # the pause is over
    attempts = 0
    pages = [page(f"b/{n}", article(n)) for n in range(20)]
    assert await asyncio.gather(*[outcome(dedup, one) for one in pages]) == [NEW] * 20
    assert attempts == 1


async def test_start_without_the_former_index(move: Move) -> None:
    """An index that exists is used alone until the former one is back; a new one is not made,
    since its hash key would be another one."""
    await stored(await move.before(), page("a/1", article(1)))
    move.former.down = True
    with pytest.raises(IndexUnavailableError, match="is not made yet"):
        await move.moving()
    verdict = await move.open[-1].decide(page("b/1", article(1)))
    assert verdict.outcome == UNCHECKED
    move.former.down = False
    move.open[-1]._outage.breaker.worked()  # the pauses are over
    move.open[-1]._former._breaker.worked()  # type: ignore[union-attr]
    assert await outcome(move.open[-1], page("b/1", article(1))) == DUPLICATE
    move.former.down = True
    dedup = await move.moving()
    assert await outcome(dedup, page("a/3", article(3))) == NEW


async def test_a_current_index_that_is_refused_without_the_former_one(move: Move) -> None:
    """The crawl does not start; it is not taken for an index that is not made yet."""
    await stored(await move.before(), page("a/1", article(1)))
    await move.moving()
    await move.open.pop().close()
    move.former.down = True
    dedup = Deduplicator(Options(shingle_width=4), index=move.now, former=move.former)
    with pytest.raises(IndexRefusedError, match="DEDUP_SHINGLE_WIDTH"):
        await dedup.open()
    await dedup.close()


async def test_page_held_by_a_fuller_one_is_superseded_in_both() -> None:
    """With DEDUP_ON_FULLER = "replace" the report takes the place of the flash that the former
    index holds."""
    move = Move(on_fuller="replace")
    flash = article(1, 20)
    await stored(await move.before(), page("a/1", flash))
    dedup = await move.moving()
    verdict = await dedup.decide(page("b/1", flash + article(2, 30)))
    assert [one.key for one in verdict.supersedes] == ["https://a/1"]
    await dedup.commit(verdict)
    assert await dedup.superseded(verdict) == ["https://a/1"]
    assert await move.former.count() == 0
    assert await move.now.count() == 1


async def test_revisit_that_is_kept_counts_once() -> None:
    """A page stored again unchanged (DEDUP_REVISIT=keep), and one stored although it is a
    duplicate: what storage replaces is forgotten in both."""
    move = Move(revisit="keep")
    old = await move.before()
    await stored(old, page("a/1", article(1)))
    await stored(old, page("a/2", article(2)))
    dedup = await move.moving()
    verdict = await dedup.supersede(await dedup.decide(page("a/1", article(1))))
    assert verdict.outcome == REVISIT
    await dedup.commit(verdict)
    assert (await move.former.count(), await move.now.count()) == (2, 1)
    verdict = await dedup.supersede(await dedup.decide(page("a/2", article(1))))
    assert verdict.outcome == DUPLICATE
    await dedup.commit(verdict)
    assert await move.former.count() == 1
    assert await outcome(dedup, page("b/2", article(2))) == NEW


async def test_page_forgotten_while_it_is_carried_over(move: Move) -> None:
    """A page that is forgotten while it is carried over does not reappear."""
    await stored(await move.before(), page("a/1", article(1)))
    dedup = await move.moving()
    commit = move.now.commit

    async def forgets_before(claim: Any) -> bool:
        await move.former.forget([1])
        return await commit(claim)

    move.now.commit = forgets_before  # type: ignore[method-assign]
    assert await outcome(dedup, page("b/1", article(1))) == NEW
    assert await move.now.count() == 1


@pytest.mark.parametrize("on_fuller", ["keep", "replace"])
async def test_page_that_the_former_index_has_renewed(on_fuller: str) -> None:
    """It has two ids there and is carried over as one page, which a changed or a fuller page
    replaces although another candidate is found with it."""
    now = 1_000_000.0
    former, target = (
        MemoryIndex(window=200.0, clock=lambda: now, wall=lambda: now) for _ in range(2)
    )
    options = Options(pending_wait=5.0, window=200.0, on_fuller=on_fuller)
    async with Deduplicator(options, index=former) as dedup:
        await stored(dedup, page("a/1", article(1)))
        now += 200.0
        assert await outcome(dedup, page("a/1", article(1))) == REVISIT
    assert await former.count() == 2
    later = article(2)
    key, text = ("a/1", later) if on_fuller == "keep" else ("b/1", article(1) + later)
    async with Deduplicator(options, index=target, former=former) as dedup:
        await stored(dedup, page("d/1", article(5) + later[: len(later) // 2]))
        verdict = await dedup.decide(page(key, text))
        assert verdict.outcome == NEW
        assert (len(verdict.earlier), len(verdict.supersedes)) == (
            (1, 0) if on_fuller == "keep" else (0, 1)
        )
        await dedup.commit(verdict)
        assert (await former.count(), await target.count()) == (0, 2)


async def test_expired_page_of_the_former_index_does_not_count() -> None:
    """Its own window holds, whatever that of the current index is; a page that was seen again is in
    that, and lives on."""
    now = 1_000_000.0
    former = MemoryIndex(window=100.0, clock=lambda: now, wall=lambda: now)
    target = MemoryIndex(window=1000.0, clock=lambda: now, wall=lambda: now)
    old = Options(pending_wait=5.0, window=100.0)
    new = Options(pending_wait=5.0, window=1000.0)
    async with Deduplicator(old, index=former) as dedup:
        await stored(dedup, page("a/1", article(1)))
        await stored(dedup, page("a/2", article(2)))
    async with Deduplicator(new, index=target, former=former) as dedup:
        assert await outcome(dedup, page("b/1", article(1))) == DUPLICATE
        now += 200.0
        assert await outcome(dedup, page("c/1", article(1))) == DUPLICATE
        assert await outcome(dedup, page("c/2", article(2))) == NEW


async def test_other_parameters_are_refused(move: Move) -> None:
    """The message names the setting, the value and the fix."""
    await stored(await move.before(), page("a/1", article(1)))
    options = Options(shingle_width=4)
    dedup = Deduplicator(options, index=move.now, former=move.former)
    with pytest.raises(IndexRefusedError) as caught:
        await dedup.open()
    await dedup.close()
    for text in ("DEDUP_FORMER_INDEX_URL", "DEDUP_SHINGLE_WIDTH", "Restore these settings"):
        assert text in str(caught.value)


async def test_index_with_another_hash_key_is_refused(move: Move) -> None:
    """It was made without the setting; a given key that differs is refused too."""
    await stored(await move.before(), page("a/1", article(1)))
    await move.after()
    with pytest.raises(IndexRefusedError, match="another hash key"):
        await move.moving()
    dedup = Deduplicator(Options(hash_key="77"), index=MemoryIndex(), former=move.former)
    with pytest.raises(IndexRefusedError, match="leave DEDUP_HASH_KEY out"):
        await dedup.open()
    await dedup.close()


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    """The index itself, a reset, an index in memory, and a namespace without an address are
    refused."""
    url = f"sqlite:{tmp_path / 'index.db'}"
    with pytest.raises(OptionsError, match="it is the index itself"):
        Deduplicator(Options(index_url=url, former_index_url=url))
    with pytest.raises(OptionsError, match="leave that out, or DEDUP_RESET"):
        Deduplicator(Options(former_index_url=url, reset=True))
    with pytest.raises(OptionsError, match="ends with its crawl"):
        Options(former_index_url="memory:")
    with pytest.raises(OptionsError, match="DEDUP_FORMER_INDEX_URL too"):
        Options(former_namespace="old")


async def test_former_index_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A slip in its address is an error at the start."""
    dedup = Deduplicator(Options(former_index_url=f"sqlite:{tmp_path / 'none.db'}"))
    with pytest.raises(IndexRefusedError, match=r"DEDUP_FORMER_INDEX_URL.*no index") as caught:
        await dedup.open()
    assert "DEDUP_INDEX_URL" not in str(caught.value)
    await dedup.close()
    assert not (tmp_path / "none.db").exists()


async def test_former_index_that_was_left_empty(move: Move) -> None:
    """Every page passes on."""
    await move.before()
    assert await outcome(await move.moving(), page("a/1", english(1))) == NEW


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
async def test_no_page_is_dropped_whose_text_storage_has_not(seed: int) -> None:
    """Pages change, texts move between addresses and come again, processes die before their
    commit, items are not stored, the former index is away for a while: a page is dropped only
    while storage, which has one text a key, has its text. What the dead leave is taken out, but
    not if one died that owed the former index something (`scrapy dedup compact` refuses)."""
    rng = random.Random(seed)
    dropped = lost = 0
    for _ in range(8):
        move = Move()
        storage: dict[str, int] = {}
        old = await move.before()
        for n in range(5):
            await stored(old, page(f"a/{n}", article(n)))
            storage[f"a/{n}"] = n
        dedup = await move.moving()
        owed = False
        for _ in range(20):
            move.former.down = rng.random() < 0.2
            assert dedup._former is not None
            dedup._former._breaker.worked()
            key, text = f"a/{rng.randrange(5)}", rng.randrange(8)
            verdict = await dedup.decide(page(key, article(text)))
            if verdict.claim is None:
                assert verdict.outcome in (DUPLICATE, REVISIT)
                assert text in storage.values(), f"{key} says {text}, of {storage}"
                dropped += 1
                continue
            fate = rng.random()
            if fate < 0.1:
                await dedup.release(verdict)
                continue
            storage[key] = text
            if fate > 0.6:
                await dedup.commit(verdict)
                continue
            # It dies, and its lease runs out.
            dedup._claims.settle(verdict.claim)
            await move.now.release(verdict.claim)
            owed = owed or bool(dedup._former._to_forget)
            if not owed:
                await move.now.compact()
            dedup = await move.moving()
            lost += 1
        move.former.down = False
        for one in move.open:
            await one.close()
    assert dropped
    assert lost
