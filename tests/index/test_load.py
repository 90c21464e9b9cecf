"""Entering many stored pages at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index import pages as pages_module
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.redis.index import RedisSteps
from dedup_middleware.index.scan import neighbours
from dedup_middleware.model.buckets import BUCKET_LIMIT, hash_bucket_key, record
from dedup_middleware.model.claims import Candidates, Known
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD, State, joined
from tests.index.bulk import (
    LEASE,
    all_buckets,
    page,
    some_pages,
    stored,
)
from tests.index.claiming import states
from tests.index.harness import (
    PARAMETERS,
    Harness,
    RedisHarness,
    SQLiteHarness,
    in_steps,
    payloads,
)
from tests.index.load_workers import load_articles, loaded_article, options_of
from tests.index.redis_use import claimed, opened
from tests.index.workers import decide, store_articles
from tests.servers import RedisServer, running_redis


async def test_loaded_pages_are_like_stored_ones(index: Index) -> None:
    """A loaded page is committed and found in all its tables, with its content, address, payload
    and time; other pages keep theirs, and numbers go on behind it."""
    first = await stored(index, page(10_000, 77, address="https://b"))
    pages = some_pages(700)
    assert await index.load(pages) == 700
    assert await index.load(pages.part(0, 0)) == 0
    last = await stored(index, page(10_001, 78))
    loaded = joined([some async for some in index.pages()])
    of_key = dict(zip(loaded.content["key"].tolist(), loaded.page_ids.tolist(), strict=True))
    numbers = np.array([of_key[one] for one in pages.content["key"].tolist()], np.uint64)
    if not in_steps(index):
        assert (first, last) == (1, 702)
        assert numbers.tolist() == list(range(2, 702))
    found = await index.fetch(numbers)
    assert (found.states == State.COMMITTED).all()
    assert found.content.tobytes() == pages.content.tobytes()
    known = pages.times > 0
    assert (found.times[known] == pages.times[known]).all()
    assert (found.times[~known] > 0).all()
    addresses = await index.addresses(numbers.tolist())
    assert addresses == [a.decode() if a else None for a in pages.addresses]
    assert await payloads(index, numbers.tolist()) == list(pages.payloads)
    for key in (1, 4, 333, 700):
        entry = page(key, key * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
        bucket_keys = (
            entry.bucket_keys if key % 4 else (entry.bucket_keys[0], hash_bucket_key(1, key << 33))
        )
        met = neighbours(bucket_keys, await index.read_buckets(bucket_keys), 0)
        tables = dict(zip(met.page_ids.tolist(), met.tables.tolist(), strict=True))
        own = tables[int(numbers[key - 1])]
        assert own == sum(1 << bucket_key.table for bucket_key in bucket_keys)
    stats = await index.stats()
    assert (stats.committed, stats.pending, stats.released, stats.overflow) == (702, 0, 0, 0)
    assert stats.buckets == len(await all_buckets(index))


async def test_full_buckets_take_no_more(harness: Harness, index: Index) -> None:
    """A bucket is filled to its limit by whole records; those left out are counted."""
    bucket_key = page(1, 5).bucket_keys[1]
    size = BUCKET_LIMIT - 2 * SIMHASH_RECORD - 3
    harness.put_bucket(bucket_key.bucket, bytes(size // SIMHASH_RECORD * SIMHASH_RECORD))
    free = (BUCKET_LIMIT - size // SIMHASH_RECORD * SIMHASH_RECORD) // SIMHASH_RECORD
    await index.load(pages_of([page(key, 5) for key in range(1, 9)]))
    raw = (await all_buckets(index))[bucket_key.bucket]
    assert len(raw) == BUCKET_LIMIT // SIMHASH_RECORD * SIMHASH_RECORD
    ids = joined([some async for some in index.pages()]).page_ids.tolist()
    added = [raw[at : at + SIMHASH_RECORD] for at in range(0, len(raw), SIMHASH_RECORD)][-free:]
    records = [record(bucket_key, one) for one in ids]
    assert added == (records[:free] if not in_steps(index) else [r for r in records if r in added])
    assert (await index.stats()).overflow == 8 - free


async def test_new_buckets_are_limited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that did not exist takes no more records than one that did."""
    monkeypatch.setattr("dedup_middleware.index.pages.BUCKET_LIMIT", 3 * SIMHASH_RECORD + 1)
    index = open_index(Options(index_url=f"sqlite:{tmp_path / 'index.db'}"))
    await index.open(PARAMETERS)
    bucket_key = page(1, 5).bucket_keys[1]
    for first in (1, 6):
        await index.load(pages_of([page(key, 5) for key in range(first, first + 5)]))
        raw = (await all_buckets(index))[bucket_key.bucket]
        assert raw == b"".join(record(bucket_key, number) for number in (1, 2, 3))
    # Four SimHash tables and a band are common to all ten pages, a bucket of the other band to
    # seven; four band records fit.
    assert (await index.stats()).overflow == 4 * 7 + 6 + 3
    await index.close()


async def test_generation_that_the_server_knows_first(redis_server: RedisServer) -> None:
    """A client whose clock is behind learns the newest generation and loads into that."""
    harness = RedisHarness(redis_server, 1000.0)
    index = await harness.client()
    index._ahead -= 600.0
    await index.load(pages_of([page(1, 5)]))
    other = await harness.client()
    assert await all_buckets(other) == await all_buckets(index) != {}
    newest = other.moment().generation.to_bytes(4, "big")
    names = harness.admin.keys(harness.prefix.replace(b"{", b"[{]") + b"b?????")
    assert {name[-4:] for name in names} == {newest}
    await harness.close()


async def test_a_claim_over_a_load_judges_again(harness: Harness) -> None:
    """A page that was judged before a load of its neighbours can't be claimed after it, not even
    where one was met while its load was under way."""
    index, other = await harness.client(), await harness.client()
    entry = page(1, 5)
    old = await stored(index, page(3, 5))
    before = await index.propose(entry, 0, LEASE)
    assert isinstance(before, Candidates)
    assert before.near.page_ids.tolist() == [old]
    await other.load(pages_of([page(2, 5)]))
    every = joined([some async for some in index.pages()]).page_ids.tolist()
    (new,) = set(every) - {old}
    assert in_steps(index) or new == old + 1
    found = await index.propose(entry, 0, LEASE, known=Known(before.pages))
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [new]
    # As it reads before the last step of its load.
    early = attrs.evolve(found.pages, states=np.full(1, State.RELEASED, np.uint8))
    found = await index.propose(entry, 0, LEASE, known=Known(joined([before.pages, early])))
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [new]
    assert found.pages.states.tolist() == [State.COMMITTED]


class StopError(Exception):
    """A process that ends at a step."""


@pytest.fixture(params=["sqlite", "redis"])
async def steps_harness(request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer):
    """A store of each kind that loads in steps."""
    harness: Harness
    harness = (
        SQLiteHarness(tmp_path / "index.db")
        if request.param == "sqlite"
        else RedisHarness(redis_server)
    )
    yield harness
    await harness.close()


def stopping(monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    """Let a load end at some call of a step, as if its process had died."""
    from dedup_middleware.index.redis.index import RedisSteps
    from dedup_middleware.index.sqlite.index import SQLiteSteps

    left = [calls]
    for kind in (RedisSteps, SQLiteSteps):
        plain = getattr(kind, name)

        def step(self: object, *arguments: object, plain: Callable = plain) -> object:
            if not left[0]:
                raise StopError
            left[0] -= 1
            return plain(self, *arguments)

        monkeypatch.setattr(kind, name, step)


@pytest.mark.parametrize(
    ("name", "calls", "seen"),
    [("enter", 0, 0), ("add", 0, 0), ("add", 5, 0), ("commit", 0, 0), ("end", 0, 60)],
)
async def test_broken_off_loads(
    steps_harness: Harness, monkeypatch: pytest.MonkeyPatch, name: str, calls: int, seen: int
) -> None:
    """A load that ends at any step leaves pages that are committed in all their tables, or pages
    that no reader sees; compaction removes what is left of those once the load's lease has run out,
    and no sooner."""
    index = await steps_harness.client()
    other = await stored(index, page(10_000, 77))
    clean = await all_buckets(index)
    with monkeypatch.context() as patch:
        stopping(patch, name, calls)
        with pytest.raises(StopError):
            await index.load(some_pages(60))
    assert await index.count() == 1 + seen
    states: list[int] = []
    async for pages in index.pages():
        states += pages.states[pages.page_ids != other].tolist()
    assert states == [State.COMMITTED] * seen or set(states) <= {State.RELEASED}
    dirty = await all_buckets(index)
    await index.compact()
    assert await all_buckets(index) == dirty
    forget_loads(steps_harness)
    await index.compact()
    assert await all_buckets(index) == (dirty if seen else clean)
    assert await index.load(some_pages(60)) == 60
    assert await index.count() == 61 + seen


def forget_loads(harness: Harness) -> None:
    """Let the leases of all loads run out."""
    if isinstance(harness, SQLiteHarness):
        harness.advance(pages_module.LEASE + 1)
    else:
        assert isinstance(harness, RedisHarness)
        loads = harness.prefix + b"loads"
        for token, raw in harness.admin.hgetall(loads).items():
            harness.admin.hset(loads, token, raw[:5] + (1).to_bytes(6, "little") + raw[11:])


async def test_load_that_was_given_up(
    steps_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that pauses for longer than its lease raises, and its pages stay invisible."""
    index = await steps_harness.client()
    from dedup_middleware.index.redis.index import RedisSteps
    from dedup_middleware.index.sqlite.index import SQLiteSteps

    for kind in (RedisSteps, SQLiteSteps):

        async def late(self: object, *arguments: object, plain: Callable = kind.commit) -> None:
            forget_loads(steps_harness)
            await plain(self, *arguments)

        monkeypatch.setattr(kind, "commit", late)
    with pytest.raises(IndexUnavailableError, match="interrupted for more than 300 seconds"):
        await index.load(some_pages(10))
    assert await index.count() == 0


async def test_compaction_beside_a_load(steps_harness: Harness) -> None:
    """Compactions while pages are loaded take none of their records."""
    index, other = await steps_harness.client(), await steps_harness.client()
    gone = await stored(other, page(10_000, 77))
    await other.forget([gone])
    done = asyncio.Event()

    async def compact() -> None:
        while not done.is_set():
            await other.compact()

    async def load() -> None:
        await index.load(some_pages(1200))
        done.set()

    await asyncio.gather(load(), compact())
    await index.compact()
    records = sum(
        len(raw) // (SIMHASH_RECORD if 2 <= bucket >> 16 <= 5 else BAND_RECORD)
        for bucket, raw in (await all_buckets(index)).items()
    )
    assert records == len(some_pages(1200).bucket_keys)
    assert await index.count() == 1200


async def test_call_repeated_after_a_lost_answer(redis_server: RedisServer) -> None:
    """A step whose reply gets lost is sent again and changes nothing the second time."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    plain = index.run

    async def twice(name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()) -> object:
        first = await plain(name, *arguments, more_keys=more_keys)
        again = await plain(name, *arguments, more_keys=more_keys)
        assert first == again
        return first

    index.run = twice
    await index.load(some_pages(40))
    index.run = plain
    stats = await index.stats()
    assert (stats.committed, stats.released) == (40, 0)
    assert sum(map(len, (await all_buckets(index)).values())) == sum(
        SIMHASH_RECORD if bucket_key >> 40 in (2, 3, 4, 5) else BAND_RECORD
        for bucket_key in some_pages(40).bucket_keys.tolist()
    )
    await harness.close()


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_load_beside_claims_of_other_processes(
    kind: str, tmp_path: Path, workers_server: RedisServer
) -> None:
    """While one process loads articles and another one is killed doing so, others store articles
    of their own: no page is lost, all tables hold every committed page, and what is stored after
    the load knows the loaded articles."""
    url = f"sqlite:{tmp_path / 'index.db'}" if kind == "sqlite" else workers_server.url
    log = tmp_path / "stored"
    log.touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.index.workers"])
    own, loaded = 40, 3000

    def start(target: Callable[..., None], *arguments: object):
        process = context.Process(target=target, args=(url, *arguments))
        process.start()
        return process

    stores = [start(store_articles, log, own, seed, 5.0) for seed in range(2)]
    loader = start(load_articles, 1_000_000, loaded)
    victim = start(load_articles, 2_000_000, 200_000)
    deadline = time.monotonic() + 60
    while len(log.read_text().split()) < own // 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    victim.kill()
    victim.join()
    for process in (*stores, loader):
        process.join(120)
        assert process.exitcode == 0

    async def check() -> None:
        index = open_index(options_of(url))
        await index.open(PARAMETERS)
        numbers, articles = [], []
        async for pages in index.pages():
            committed = pages.states == State.COMMITTED
            numbers += pages.page_ids[committed].tolist()
            articles += pages.content["exact"][committed].tolist()
        assert len(set(articles)) == len(articles) == await index.count()
        wanted = {*range(own), *range(1_000_000, 1_000_000 + loaded)}
        assert wanted <= set(articles)
        # Of the load that was killed, what is committed is whole.
        counts: dict[int, int] = dict.fromkeys(numbers, 0)
        async for bucket, raw in index.buckets():
            width = SIMHASH_RECORD if 2 <= bucket >> 16 <= 5 else BAND_RECORD
            for at in range(0, len(raw), width):
                number = int.from_bytes(raw[at : at + 5], "little")
                if number in counts:
                    counts[number] += 1
        assert set(counts.values()) == {5}
        assert await decide(index, 1_000_000, 5.0) is None
        await index.close()

    asyncio.run(check())


async def test_articles_of_the_workers(tmp_path: Path) -> None:
    """The processes load the articles that they would store."""
    index = open_index(Options(index_url=f"sqlite:{tmp_path / 'index.db'}"))
    await index.open(PARAMETERS)
    await index.load(pages_of([loaded_article(5)]))
    assert await decide(index, 5, LEASE) is None
    assert await decide(index, 6, LEASE) is not None
    await index.close()


async def test_a_load_stops_when_the_server_has_lost_a_part_of_it(tmp_path: Path) -> None:
    """The server comes back in an older state and gives ids of the load to other pages: these are
    on their way to storage, and the load must not commit them."""
    with running_redis(tmp_path, "--save", "") as server:
        index, crawl = await opened(server.url, retries=5), await opened(server.url, retries=5)
        pages = some_pages(4)
        load = RedisSteps(index)
        await load.enter(pages.part(0, 2))
        with server.client() as admin:
            admin.save()
        lost = await load.enter(pages.part(2, 4))
        server.kill()
        server.start()
        claim = await claimed(crawl)
        assert claim.page_id in lost.tolist()
        with pytest.raises(IndexUnavailableError, match="loaded again"):
            await load.commit(lost, pages.times[2:])
        assert await states(crawl, claim.page_id) == [State.PENDING]
        for one in (index, crawl):
            await one.close()


async def test_pages_with_many_bucket_keys(cluster_masters: list[RedisServer]) -> None:
    """Long pages of few shards are loaded in smaller parts: all values of a call must fit on the
    stack of Lua."""
    url = f"redis+cluster://127.0.0.1:{cluster_masters[0].port}"
    index = open_index(Options(index_url=url, namespace="many-keys", shards=1))
    await index.open(PARAMETERS)
    entries = []
    for key in range(64):
        hashes = [(key * 999 + i) * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for i in range(200)]
        anchors = [hash_bucket_key(6 + i % 4, one) for i, one in enumerate(hashes)]
        one = page(key, key << 40)
        entries.append(attrs.evolve(one, bucket_keys=(one.bucket_keys[0], *anchors)))
    await index.load(pages_of(entries, [0] * len(entries)))
    assert await index.count() == 64
    await index.close()


async def test_times_that_are_numbers_of_states(tmp_path: Path) -> None:
    """Odd times of an imported file make no pending or released pages."""
    harness = SQLiteHarness(tmp_path / "index.db")
    index = await harness.client()
    pages = attrs.evolve(some_pages(4), times=np.array([1, 2, 3, 4], np.uint32))
    await index.load(pages)
    assert await index.count() == 4
    assert await states(index, 1, 2, 3, 4) == [State.COMMITTED] * 4
