"""A proposal for a page becomes a ruling; a page that is like another one keeps no claim."""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs
import numpy as np
import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.core import driver as deciding
from dedup_middleware.core.driver import Driver
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.core.judge import FIRST, Ruling, judge
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import ANCHOR_TABLES, Neighbours
from dedup_middleware.model.claims import EVERYTHING, Candidates, Claim, Claimed, Entry
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import PageRecords, State, chosen
from tests.index.harness import PARAMETERS, Harness, MemoryHarness, RedisHarness, SQLiteHarness
from tests.texts import article

OPTIONS = Options(index_url="memory:")


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.services)])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """A fresh store of each kind."""
    if request.param == "memory":
        return MemoryHarness()
    if request.param == "sqlite":
        return SQLiteHarness(tmp_path / "i.db")
    return RedisHarness(request.getfixturevalue("redis_server"))


def fingerprint(key: str, seed: int = 1) -> Fingerprint:
    """A page with the text of a seed."""
    return Fingerprinter(OPTIONS, 1)(Document(key=key, text=article(seed)))


def other_bands(page: Fingerprint, key: str) -> Fingerprint:
    """The same page, but for its key and for bands and anchors that no other page shares."""
    other = np.uint64(0xFFFF << 40)
    bands, anchors = page.bands ^ other, page.anchors ^ other
    key_hash = page.key_hash ^ 0xFFFF << 40
    return attrs.evolve(page, key=key, key_hash=key_hash, bands=bands, anchors=anchors)


def driver_of(index: Index, **fields: object) -> Driver:
    """The default method on an index."""
    return Driver(index, choose_method(OPTIONS), lambda _name, _n: None, **fields)  # type: ignore[arg-type]


async def propose(index: Index, page: Fingerprint, **fields: object) -> tuple[Ruling, Claim | None]:
    """What the default method says of a page."""
    driver = driver_of(index, **fields)
    bucket_keys = driver.method.bucket_keys(page)
    return await driver.decide(page, Entry(bucket_keys, content_record(page).tobytes(), page.key))


async def pending(index: Index) -> int:
    """Pages that are on lease."""
    return (await index.stats()).pending


async def test_first_page_is_claimed(harness: Harness) -> None:
    """Nothing is like it: the page has its claim with the first answer."""
    index = await harness.client()
    ruling, claim = await propose(index, fingerprint("https://a/1"))
    assert ruling == Ruling(FIRST)
    assert claim is not None
    assert await index.commit(claim)
    await harness.close()


async def test_page_with_the_most_buckets(harness: Harness) -> None:
    """A page with as many anchors, bands and probed buckets as there can be is stored and found."""
    index = await harness.client()
    options = Options(index_url="memory:", bands=54, probes=16)
    text = " ".join(article(seed) for seed in range(60))
    pages = [
        Fingerprinter(options, 1)(Document(key=key, text=text))
        for key in ("https://a/1", "https://b/1")
    ]
    method = choose_method(options)
    driver = attrs.evolve(driver_of(index), method=method)
    bucket_keys = method.bucket_keys(pages[0])
    assert len(bucket_keys) + len(method.probes(pages[0])) > 200
    rulings = []
    for page in pages:
        entry = Entry(method.bucket_keys(page), content_record(page).tobytes(), page.key)
        ruling, claim = await driver.decide(page, entry)
        rulings.append(ruling)
        if claim is not None:
            assert await index.commit(claim)
    assert rulings[0] == Ruling(FIRST)
    assert rulings[1].match is not None
    await harness.close()


async def test_copy_found_by_the_simhash_alone_keeps_no_place(harness: Harness) -> None:
    """A copy that no narrow table finds is a duplicate, and its claim, if it had one, is over."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, claim = await propose(index, original)
    assert claim is not None
    await index.commit(claim)
    ruling, second = await propose(index, other_bands(original, "https://b/1"))
    assert second is None
    assert ruling.match is not None
    assert ruling.match.key == "https://a/1"
    assert ruling.match.number == claim.page_id
    assert set(ruling.match.tables) == {"simhash/0", "simhash/16", "simhash/32", "simhash/48"}
    assert await pending(index) == 0
    await harness.close()


async def test_like_page_under_way_is_awaited_without_a_place(harness: Harness) -> None:
    """A like page is pending: it is named to be awaited, and the page waits without a claim, so
    that no other page waits for it."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, claim = await propose(index, original)
    assert claim is not None
    copies = (other_bands(original, "https://b/1"), attrs.evolve(original, key_hash=5))
    for page in copies:
        ruling, second = await propose(index, page, pending_wait=0.0)
        assert second is None
        assert ruling.pending == {claim.page_id}
        assert await pending(index) == 1
    waiting = [asyncio.ensure_future(propose(index, page)) for page in copies]
    await asyncio.sleep(0.05)
    assert not any(one.done() for one in waiting)
    await index.commit(claim)
    for ruling, second in await asyncio.gather(*waiting):
        assert second is None
        assert ruling.match is not None
        assert ruling.match.key == "https://a/1"
    assert await pending(index) == 0
    await harness.close()


async def test_page_awaited_in_vain_is_proposed_again(harness: Harness) -> None:
    """A like page on its way is not stored after all: of the pages that waited for it, found by
    bands or by the SimHash alone, one is claimed. The others wait for that one."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, claim = await propose(index, original)
    assert claim is not None
    pages = [other_bands(original, "https://b/1"), attrs.evolve(original, key_hash=5)]
    waiting = [asyncio.ensure_future(propose(index, page)) for page in pages]
    await asyncio.sleep(0.05)
    assert await index.release(claim)
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    ((_, second),) = [one.result() for one in done]
    assert second is not None
    assert await index.commit(second)
    for one in rest:
        ruling, third = await one
        assert third is None
        assert ruling.match is not None
        assert ruling.match.number == second.page_id
    assert await pending(index) == 0
    await harness.close()


async def test_strange_neighbour_does_not_take_the_place_away(harness: Harness) -> None:
    """A page is new, and keeps its claim, if its neighbour has other content."""
    index = await harness.client()
    first, second = fingerprint("https://a/1", 1), fingerprint("https://a/2", 2)
    _, claim = await propose(index, first)
    assert claim is not None
    await index.commit(claim)
    near = attrs.evolve(second, simhash=first.simhash)
    ruling, mine = await propose(index, near)
    assert ruling.match is None
    assert not ruling.pending
    assert mine is not None
    numbers = np.array([mine.page_id], np.uint64)
    assert (await index.fetch(numbers)).states.tolist() == [State.PENDING]
    await harness.close()


async def test_failure_while_judging_gives_the_claim_back(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When neighbours can't be fetched, no claim is left behind."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, claim = await propose(index, original)
    assert claim is not None
    await index.commit(claim)

    def cut_off(*_: object) -> None:
        raise OSError("cut off by the test")

    with monkeypatch.context() as patched:
        patched.setattr(deciding, "judge", cut_off)
        with pytest.raises(OSError, match="cut off"):
            await propose(index, other_bands(original, "https://b/1"))
    for _ in range(3000):
        if not await pending(index):
            break
        await asyncio.sleep(0.01)
    assert await pending(index) == 0
    await harness.close()


async def test_claim_of_a_page_that_waits_is_kept_alive() -> None:
    """A page that waits with its claim is among the open claims, whose leases are extended, until
    it is decided."""
    index = MemoryIndex()
    await index.open(PARAMETERS)
    page = fingerprint("https://a/1")
    driver = driver_of(index)
    bucket_keys = driver.method.bucket_keys(page)
    mine = Entry(bucket_keys, content_record(page).tobytes(), page.key)
    propose, later = index.propose, []

    async def met_by_another(*_: object) -> Claimed:
        first, other = [await propose(mine, 0, 60.0, known=EVERYTHING) for _ in range(2)]
        assert isinstance(first, Claimed)
        assert isinstance(other, Claimed)
        later.append(other.claim)
        found = await index.candidates(bucket_keys, 0)
        keep = found.near.page_ids == np.uint64(other.claim.page_id)
        near = Neighbours(found.near.page_ids[keep], found.near.tables[keep])
        met = Candidates(near, chosen(found.pages, keep), found.addresses)
        return Claimed(first.claim, met, is_mutual=True)

    index.propose = met_by_another  # type: ignore[method-assign, assignment]
    deciding_now = asyncio.ensure_future(driver.decide(page, mine))
    for _ in range(3000):
        if len(driver.claims):
            break
        await asyncio.sleep(0.01)
    (waiting,) = driver.claims
    assert waiting.page_id < later[0].page_id
    await index.release(later[0])
    _, claim = await deciding_now
    assert claim == waiting
    assert not len(driver.claims)


def test_page_has_its_key_by_whatever_table_it_was_found() -> None:
    """On a cluster two texts under one key may each find the other one before its record in the
    table of keys is there. If neither waited, both would go on to storage, and the index would go
    on calling the one stored that was replaced if the other process died before its commit."""
    method = choose_method(OPTIONS)
    other, page = fingerprint("https://a/1", 1), fingerprint("https://a/1", 2)
    ids = np.array([7], np.uint64)
    by_an_anchor = Neighbours(ids, np.array([1 << ANCHOR_TABLES[0]], np.uint64))
    states = np.array([State.PENDING], np.uint8)
    records = PageRecords(ids, content_record(other), states)
    assert judge(method, page, by_an_anchor, records, {}).pending == {7}
