"""What a proposal says of a page becomes a ruling; a page that is like another keeps no place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pytest

from dedup_middleware.fingerprint import Document, Fingerprint, Fingerprinter
from dedup_middleware.index.base import Claim, Entry, Index
from dedup_middleware.index.records import State
from dedup_middleware.judging import FIRST, Judge, Ruling, Search
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.options import Options
from tests.index.harness import Harness, MemoryHarness, RedisHarness, SQLiteHarness
from tests.servers import RedisServer, running_redis
from tests.texts import article

OPTIONS = Options(index_url="memory:")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server for this file."""
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(params=["memory", "sqlite", "redis"])
def harness(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> Harness:
    """A fresh store of each kind."""
    if request.param == "memory":
        return MemoryHarness()
    return RedisHarness(server) if request.param == "redis" else SQLiteHarness(tmp_path / "i.db")


def fingerprint(key: str, seed: int = 1) -> Fingerprint:
    """A page with the text of a seed."""
    return Fingerprinter(OPTIONS, 1)(Document(key=key, text=article(seed)))


def other_bands(page: Fingerprint, key: str) -> Fingerprint:
    """The same page, but for its key and for bands in which nothing stands beside it."""
    bands = page.bands ^ np.uint64(0xFFFF << 40)
    return attrs.evolve(page, key=key, key_hash=page.key_hash ^ 0xFFFF << 40, bands=bands)


async def propose(index: Index, page: Fingerprint) -> tuple[Search, Ruling, Claim | None]:
    """What the default method says of a page."""
    method = choose_method(OPTIONS)
    judge = Judge(index, method, lambda _name, _n: None)
    entry = Entry(method.slots(page), content_record(page).tobytes(), page.key)
    return await judge.propose(page, entry, 60.0)


async def pending(index: Index) -> int:
    """Pages that are on lease."""
    return (await index.stats()).pending


async def test_first_page_is_claimed(harness: Harness) -> None:
    """Nothing is like it: the page has its claim with the first answer."""
    index = await harness.client()
    _, ruling, claim = await propose(index, fingerprint("https://a/1"))
    assert ruling == Ruling(FIRST)
    assert claim is not None
    assert await index.commit(claim)
    await harness.close()


async def test_copy_found_by_the_simhash_alone_keeps_no_place(harness: Harness) -> None:
    """A copy that no narrow table finds is a duplicate, and its claim, if it had one, is over."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, _, claim = await propose(index, original)
    assert claim is not None
    await index.commit(claim)
    _, ruling, second = await propose(index, other_bands(original, "https://b/1"))
    assert second is None
    assert ruling.match is not None
    assert ruling.match.key == "https://a/1"
    assert ruling.match.number == claim.number
    assert set(ruling.match.tables) == {"simhash/0", "simhash/16", "simhash/32", "simhash/48"}
    assert await pending(index) == 0
    await harness.close()


async def test_like_page_under_way_is_awaited_without_a_place(harness: Harness) -> None:
    """A like page is pending: it is named to be awaited, and the page waits without a claim, so
    that nobody waits for it in turn."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, _, claim = await propose(index, original)
    assert claim is not None
    for page in (other_bands(original, "https://b/1"), attrs.evolve(original, key_hash=5)):
        search, ruling, second = await propose(index, page)
        assert second is None
        assert ruling.pending == {claim.number}
        assert await pending(index) == 1
        await index.renew([claim], 60.0)
        assert (await search.rule()).pending == {claim.number}
    await index.commit(claim)
    assert (await search.rule()).match is not None
    await harness.close()


async def test_strange_neighbour_does_not_take_the_place_away(harness: Harness) -> None:
    """A page beside another one that says something else is new."""
    index = await harness.client()
    first, second = fingerprint("https://a/1", 1), fingerprint("https://a/2", 2)
    _, _, claim = await propose(index, first)
    assert claim is not None
    await index.commit(claim)
    near = attrs.evolve(second, simhash=first.simhash)
    search, ruling, mine = await propose(index, near)
    assert ruling.match is None
    assert not ruling.pending
    if mine is None:
        if search.reading is None:
            await search.read()
        assert (await search.rule()).match is None
        assert search.reading is not None
        entry = Entry(search.slots, content_record(near).tobytes(), near.key)
        outcome = await index.claim(entry, search.reading, 60.0)
        assert isinstance(outcome, Claim)
        mine = outcome
    numbers = np.array([mine.number], np.uint64)
    assert (await index.fetch(numbers)).states.tolist() == [State.PENDING]
    await harness.close()


async def test_failure_while_judging_gives_the_claim_back(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When neighbours can't be fetched, no claim is left that nobody knows of."""
    index = await harness.client()
    original = fingerprint("https://a/1")
    _, _, claim = await propose(index, original)
    assert claim is not None
    await index.commit(claim)

    async def cut_off(_: object) -> None:
        raise OSError("cut off by the test")

    with monkeypatch.context() as patched:
        patched.setattr(Search, "rule", cut_off)
        with pytest.raises(OSError, match="cut off"):
            await propose(index, other_bands(original, "https://b/1"))
    for _ in range(3000):
        if not await pending(index):
            break
        await asyncio.sleep(0.01)
    assert await pending(index) == 0
    await harness.close()
