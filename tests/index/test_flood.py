"""Pages crafted into one bucket cost little, are noticed, and hide no honest page."""

from __future__ import annotations

import asyncio
import logging

import attrs
import numpy as np
import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.core.driver import Driver
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.core.judge import Ruling
from dedup_middleware.index.base import MOST_JUDGED, Index
from dedup_middleware.index.pages import Pages, packed_simhash_keys, pages_of, starts_of
from dedup_middleware.index.redis.scripts import SHOWN
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import (
    BUCKET_LIMIT,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import Claim, Claimed, Entry
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import CONTENT, State
from tests.index.claiming import entered
from tests.index.harness import Harness, RedisHarness, bucket_keys_of, entry, in_steps
from tests.outages import Counts
from tests.servers import RedisServer
from tests.texts import article

OPTIONS = Options(index_url="memory:")
FLOOD = 100_000  # more than fit: the bucket is as full as any larger flood could make it
FITS = BUCKET_LIMIT // 11


def page_of(seed: int, host: str = "a") -> Fingerprint:
    """An honest page."""
    return Fingerprinter(OPTIONS, 1)(Document(key=f"https://{host}/{seed}", text=article(seed)))


async def decide(driver: Driver, page: Fingerprint) -> tuple[Ruling, Claim | None]:
    """Decide a page, and commit it if it is new."""
    entry = Entry(driver.method.bucket_keys(page), content_record(page).tobytes(), page.key)
    ruling, claim = await driver.decide(page, entry)
    if claim is not None:
        assert await driver.index.commit(claim)
    return ruling, claim


def driver_of(index: Index) -> tuple[Driver, Counts]:
    """The default method on an index, and what it counts."""
    counts = Counts()
    return Driver(index, choose_method(OPTIONS), counts), counts


@pytest.mark.slow
async def test_flood_in_one_prefix(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """When one bucket is flooded, pages elsewhere meet nothing of it; honest pages of that bucket
    are stored and found by their other tables; each page that meets it rings the alarm once, and
    one message is logged for them all. The bucket grows no further."""
    index = await harness.client()
    driver, counts = driver_of(index)
    before, inside = page_of(1), page_of(2)
    await decide(driver, before)
    assert inside.simhash is not None
    prefix = inside.simhash >> 48
    await index.load(crafted(FLOOD, prefix))
    stats = await index.stats()
    assert stats.overflow == FLOOD - FITS
    elsewhere = page_of(3)
    for page in (elsewhere, page_of(1, "b"), page_of(3, "b")):
        await decide(driver, page)
    assert counts.of["flood"] == 0
    with caplog.at_level(logging.WARNING, "dedup_middleware.core.driver"):
        _, claim = await decide(driver, inside)
        assert claim is not None
        assert (await index.stats()).overflow == stats.overflow + 1
        for host in "bc":
            ruling, claim = await decide(driver, page_of(2, host))
            assert claim is None
            assert ruling.match is not None
            assert ruling.match.key == "https://a/2"
            assert "simhash/0" not in ruling.match.tables
        far = attrs.evolve(page_of(4), simhash=prefix << 48 | (~inside.simhash & (1 << 48) - 1))
        assert (await decide(driver, far))[1] is not None
    assert counts.of["flood"] == 4
    assert [record.name for record in caplog.records] == ["dedup_middleware.core.driver"]
    assert "https://a/2 met 1 full buckets" in caplog.text
    await grows_no_further(index, prefix)


async def grows_no_further(index: Index, prefix: int) -> None:
    """However many claims meet in a full bucket, its bytes stay bounded and the rest is counted."""
    bucket_key = simhash_bucket_keys(prefix << 48)[0]
    overflow, committed = (await index.stats()).overflow, await index.count()
    claims = []
    for _ in range(20):
        (raw,) = await index.read_buckets((bucket_key,))
        assert BUCKET_LIMIT - 11 < len(raw) <= BUCKET_LIMIT
        claims.append(await entered(index, Entry((bucket_key,), bytes(CONTENT.itemsize), None)))
    assert (await index.stats()).overflow == overflow + 20
    found = await index.fetch(np.array([claims[-1].page_id], np.uint64))
    assert found.states.tolist() == [State.PENDING]
    assert await index.count() == committed
    if not in_steps(index):
        assert claims[-1].page_id == claims[0].page_id + 19


async def test_more_candidates_than_are_compared(harness: Harness) -> None:
    """A page with more candidates than are compared is reported once, however often it is
    judged, and meets its own copy all the same."""
    index = await harness.client()
    driver, counts = driver_of(index)
    page = page_of(1)
    band = int(page.bands[0])
    entries = []
    for number in range(MOST_JUDGED + 500):
        content = np.zeros(1, CONTENT)
        content["size"], content["key"] = 400, number + 1
        bucket_keys = (
            hash_bucket_key(0, (number + 1) << 24),
            hash_bucket_key(FIRST_BAND_TABLE, band),
        )
        entries.append(Entry(bucket_keys, content.tobytes(), None))
    await index.load(pages_of(entries))
    ruling, claim = await decide(driver, page)
    assert claim is not None
    assert ruling.match is None
    assert counts.of["flood"] == 1
    assert counts.of["candidates/cut"] >= 1
    assert counts.of["candidates"] <= MOST_JUDGED * counts.of["candidates/cut"]
    ruling, claim = await decide(driver, page_of(1, "b"))
    assert claim is None
    assert ruling.match is not None
    assert ruling.match.key == "https://a/1"
    assert counts.of["flood"] == 2


async def test_full_bucket_is_not_sent_whole(redis_server: RedisServer) -> None:
    """However many pages are crafted into a full bucket, a Redis server sends of it only the newest
    records for each; the page of a record that is left out is found by its other tables."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    pages = crafted(FLOOD, 0xBEEF)
    await index.load(pages)
    simhashes = pages.content["simhash"].tolist()
    table = 1 << simhash_bucket_keys(0)[0].table
    rest = 0b111 * (table << 1)
    newest = FITS - SHOWN // 11
    wanted = [newest + 1, FITS, *range(1, 31), *range(newest - 29, newest + 1)]
    before = harness.admin.info("stats")["total_net_output_bytes"]
    made = await asyncio.gather(
        *(
            index.propose(entry(bucket_keys_of(-i, simhashes[n - 1], ())), 0, 60.0)
            for i, n in enumerate(wanted, 1)
        )
    )
    sent = harness.admin.info("stats")["total_net_output_bytes"] - before
    assert sent < len(wanted) * SHOWN + BUCKET_LIMIT // 2
    for number, one in zip(wanted, made, strict=True):
        assert isinstance(one, Claimed)
        near = one.candidates.near
        assert near.full == 1
        found = dict(zip(near.page_ids.tolist(), near.tables.tolist(), strict=True))
        assert found[number] == rest | table * (number > newest)
    await harness.close()


def crafted(count: int, prefix: int, *, bands: int = 0, seed: int = 1) -> Pages:
    """Stored pages that have nothing in common but the first 16 bits of their SimHashes.

    An attacker would need the index's hash key to make them; here they are simply written down.
    """
    rng = np.random.default_rng(seed)

    def words() -> np.ndarray:
        return rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)

    content = np.zeros(count, CONTENT)
    content["size"], content["key"], content["exact"] = 400, words(), words()
    content["simhash"] = words() >> np.uint64(16) | np.uint64(prefix << 48)
    content["sketch"] = rng.integers(0, 1 << 64, (count, 8), np.uint64, endpoint=False)
    places = [_place(KEY_TABLE, content["key"])]
    for table in SIMHASH_TABLES:
        places.append(packed_simhash_keys(content["simhash"], np.full(count, table, np.uint64)))
    places += [_place(FIRST_BAND_TABLE + band, words()) for band in range(bands)]
    counts = np.full(count, len(places), np.int64)
    return Pages(
        content,
        [None] * count,
        [b""] * count,
        np.zeros(count, np.uint32),
        np.stack(places, axis=1).ravel(),
        starts_of(counts),
    )


def _place(table: int, values: np.ndarray) -> np.ndarray:
    return np.uint64(table << 40) | values >> np.uint64(24)
