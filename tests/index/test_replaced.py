"""The index is emptied, removed, or replaced by another one while crawls use it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.base import databasefiles
from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.sqlite import file as sqlite_file
from dedup_middleware.index.sqlite.file import SQLiteFile
from dedup_middleware.index.verification import verify
from dedup_middleware.model.claims import Claim, Claimed
from dedup_middleware.model.documents import DUPLICATE, NEW, UNCHECKED
from dedup_middleware.model.records import PageRecords, State
from tests.index.claiming import BUCKET_KEYS, states
from tests.index.harness import RedisHarness, SQLiteHarness, bucket_keys_of, entry
from tests.index.redis_use import LEASE, claimed, opened, refusal
from tests.outages import Counts
from tests.servers import RedisServer, running_redis
from tests.texts import article


@attrs.frozen
class Place:
    """Where an index is, and how it is emptied."""

    url: str
    empty: Callable[[], object]

    def crawl(self, counts: Counts | None = None, **more: Any) -> Deduplicator:
        """A deduplicator that makes no retries."""
        return Deduplicator(Options(index_url=self.url, retries=0, **more), count=counts)


@pytest.fixture(params=["redis", "sqlite", "sqlite, its file alone"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place of each kind."""
    if request.param == "redis":
        with running_redis(tmp_path) as server, server.client() as admin:
            yield Place(server.url, admin.flushall)
    else:
        file = tmp_path / "index.db"
        ends = ("", "-wal", "-shm") if request.param == "sqlite" else ("",)

        def remove() -> None:
            for end in ends:
                Path(f"{file}{end}").unlink(missing_ok=True)

        yield Place(f"sqlite:{file}", remove)


def page(name: str, number: int) -> Document:
    """A document with the text of a number."""
    return Document(key=f"https://{name}", text=article(number, 12))


async def store(dedup: Deduplicator, name: str, number: int) -> str:
    """Decide a page and commit it; returns the outcome."""
    verdict = await dedup.decide(page(name, number))
    assert await dedup.commit(verdict)
    return verdict.outcome


async def test_emptied_while_crawls_run(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Each crawl logs it once and goes on: nothing fails, pages that were stored before are stored
    once more and then known to all, and no claim from before is taken for a new one."""
    caplog.set_level(logging.WARNING)
    async with place.crawl() as one, place.crawl() as two:
        for number in range(5):
            assert await store(one, f"a/{number}", number) == NEW
            assert await store(two, f"b/{number}", number) == DUPLICATE
        held = await one.decide(page("a/9", 9))
        assert held.outcome == NEW
        place.empty()
        for number in range(5):
            assert await store(two, f"c/{number}", number) == NEW
            assert await store(one, f"d/{number}", number) == DUPLICATE
        assert await one.commit(held)
        assert await store(two, "e/9", 9) == DUPLICATE
        assert len([line for line in caplog.messages if "was emptied" in line]) == 2
        assert len(caplog.messages) == 2
    async with place.crawl() as later:
        for number in (*range(5), 9):
            assert await store(later, f"f/{number}", number) == DUPLICATE


@pytest.mark.parametrize("committed", ["AB", "BA"])
@pytest.mark.parametrize("written", ["AB", "BA"])
@pytest.mark.parametrize("is_stored", [False, True])
async def test_emptied_while_two_texts_of_a_page_are_on_their_way(
    place: Place,
    caplog: pytest.LogCaptureFixture,
    written: str,
    committed: str,
    is_stored: bool,
) -> None:
    """Two crawls fetch a page, and the index is emptied between their claims. Each crawl says so
    once, one claim counts as lost, and the index calls no text stored that the row has lost."""
    key, row, counts = "https://a/1", "", Counts()
    texts = {"A": article(1, 12), "B": article(2, 12)}
    crawls = {name: place.crawl(counts=counts, pending_wait=60.0) for name in texts}
    async with crawls["A"], crawls["B"]:
        verdicts = {}
        for name in "BA" if is_stored else "AB":
            if is_stored and not verdicts:  # B takes the place of a stored page
                assert await crawls[name].commit(
                    await crawls[name].decide(Document(key, text=article(3, 12)))
                )
            verdicts[name] = await crawls[name].decide(Document(key, text=texts[name]))
            if len(verdicts) == 1:
                place.empty()
        for name in written:
            row = name
        await asyncio.gather(*(crawls[name].commit(verdicts[name]) for name in committed))
        assert counts.of["claim/lost"] == 1
        assert len([line for line in caplog.messages if "was emptied" in line]) == 2
    async with place.crawl() as later:
        for name, text in texts.items():
            verdict = await later.decide(Document(f"https://b/{name}", text=text))
            assert name == row or not verdict.is_duplicate


async def test_set_up_anew_with_another_key(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A crawl whose index was removed and set up by another one, with another key, logs that once
    and goes on with that key: each of them finds what the other one stores."""
    caplog.set_level(logging.WARNING)
    async with place.crawl() as one:
        assert await store(one, "a/0", 0) == NEW
        held, failed = await one.decide(page("a/8", 8)), await one.decide(page("a/9", 9))
        place.empty()
        async with place.crawl() as two:
            for number in range(5):
                assert await store(two, f"b/{number}", number) == NEW
            for number in range(5):
                assert await store(one, f"c/{number}", number) == DUPLICATE
            assert await one.commit(held)
            await one.release(failed)
            assert await store(two, "d/8", 8) == DUPLICATE
            assert await store(one, "c/6", 6) == NEW
            assert await store(two, "d/6", 6) == DUPLICATE
            assert await store(two, "d/9", 9) == NEW
        assert [line for line in caplog.messages if "another one than before" in line]
        assert len(caplog.messages) == 1


@pytest.mark.parametrize("ends", [("-wal", "-shm"), ("-wal",), ("-shm",)])
async def test_files_next_to_the_database_are_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ends: tuple[str, ...]
) -> None:
    """Crawls that use the index, and those that open it from then on, see each other's pages."""
    caplog.set_level(logging.WARNING)
    place = Place(f"sqlite:{tmp_path / 'index.db'}", lambda: None)
    async with place.crawl() as one:
        assert await store(one, "a/0", 0) == NEW
        for end in ends:
            Path(f"{tmp_path / 'index.db'}{end}").unlink()
        assert await store(one, "a/1", 1) == NEW
        async with place.crawl() as two:
            for number in range(4):
                assert await store(two, f"b/{number}", number) != UNCHECKED
                assert await store(one, f"c/{number}", number) == DUPLICATE
    assert [line for line in caplog.messages if "was emptied" not in line] == []
    async with place.crawl() as later:
        for number in range(4):
            assert await store(later, f"d/{number}", number) == DUPLICATE


async def test_set_up_anew_with_other_parameters(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl whose index was removed and set up with other parameters stores nothing unseen: its
    pages are unchecked, and the warning names the difference."""
    caplog.set_level(logging.WARNING)
    async with place.crawl() as one:
        assert await store(one, "a/0", 0) == NEW
        place.empty()
        async with place.crawl(bands=4, rows=4) as two:
            assert await store(two, "b/1", 1) == NEW
            for number in range(5):
                verdict = await one.decide(page(f"c/{number}", 1))
                assert verdict.outcome == UNCHECKED
            assert await store(two, "d/1", 1) == DUPLICATE
    assert "bands: the index has '4x4'" in caplog.text
    assert "Traceback" not in caplog.text


async def test_many_pages_under_way(place: Place) -> None:
    """Pages that are being decided while the index is set up anew with another key are stored, each
    at most once more, and copies of them are found afterwards."""
    counts = Counts()
    one = Deduplicator(Options(index_url=place.url), count=counts)
    await one.open()
    async with one:
        work = [asyncio.create_task(store(one, f"a/{n}", n)) for n in range(60)]
        await asyncio.sleep(0.01)
        place.empty()
        async with place.crawl() as two:
            await store(two, "b/100", 100)
            outcomes = await asyncio.gather(*work)
            assert set(outcomes) <= {NEW, UNCHECKED}
            await asyncio.sleep(1)
            assert await store(one, "a/101", 101) == NEW
            await asyncio.sleep(0.2)
            for number in (100, 101):
                assert (await two.decide(page(f"c/{number}", number))).outcome == DUPLICATE
            # The index has lost the pages stored before it was emptied, and has all others.
            again = [await store(one, f"d/{n}", n) for n in range(60)]
            assert set(again) <= {NEW, DUPLICATE}
            for number in range(60):
                assert (await two.decide(page(f"e/{number}", number))).outcome == DUPLICATE
    assert counts.of["error/internal"] == 0


async def test_side_files_of_the_new_file_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl whose file was removed does not remove the -wal file of the next one, though it got
    the number of a file that was removed: pages of both crawls are known to both."""
    place = Place(f"sqlite:{tmp_path / 'index.db'}", (tmp_path / "index.db").unlink)
    begun, closed = threading.Event(), threading.Event()
    begin_file, disconnect = sqlite_file.begin_file, SQLiteFile._disconnect
    file_at = databasefiles.file_at

    def begin_slowly(path: Path) -> None:
        begin_file(path)
        begun.set()
        closed.wait(5)

    def disconnect_slowly(file: SQLiteFile) -> None:
        disconnect(file)
        if begun.is_set() and not closed.is_set():
            closed.set()
            time.sleep(0.3)  # the other crawl makes its -wal file

    def of_a_removed_file(path: Path) -> tuple[int, int] | None:
        found = file_at(path)
        return number if closed.is_set() and found and path.name.endswith("-wal") else found

    one, two = place.crawl(), place.crawl()
    async with one:
        assert await store(one, "a/0", 0) == NEW
        number = file_at(tmp_path / "index.db-wal")
        place.empty()
        monkeypatch.setattr(databasefiles, "file_at", of_a_removed_file)
        monkeypatch.setattr(sqlite_file, "begin_file", begin_slowly)
        monkeypatch.setattr(SQLiteFile, "_disconnect", disconnect_slowly)
        opening = asyncio.create_task(two.open())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        assert await store(one, "a/1", 1) == NEW
        await opening
        assert closed.is_set()
        async with two:
            for number in (2, 3):
                assert await store(two, f"b/{number}", number) == NEW
                assert await store(one, f"c/{number}", number) == DUPLICATE


async def test_upkeep_does_not_touch_another_index(own_server: RedisServer) -> None:
    """Page numbers read from one index mean nothing in the next: forgetting and compacting
    end with a clear error if it was set up anew in between, with whatever key."""
    index = await opened(own_server.url)
    assert await index.commit(await claimed(index))
    with own_server.client() as admin:
        admin.flushall()
    other = await opened(own_server.url)
    kept = await claimed(other)
    assert await other.commit(kept)
    for call in (
        lambda: index.forget([kept.page_id]),
        lambda: index.forget_span(0, 1 << 31),
        index.compact,
    ):
        with pytest.raises(IndexUnavailableError, match=r"set up anew|another key"):
            await call()  # type: ignore[operator]
    assert await states(other, kept.page_id) == [State.COMMITTED]
    assert [len(raw) for raw in await other.read_buckets(BUCKET_KEYS)] == [
        bucket_key.width for bucket_key in BUCKET_KEYS
    ]
    await index.close()
    await other.close()


async def test_contents_of_a_file_replaced_in_place(tmp_path: Path) -> None:
    """A backup of another index put into the same file is another index."""
    url = f"sqlite:{tmp_path / 'index.db'}"
    async with Deduplicator(Options(index_url=f"sqlite:{tmp_path / 'other.db'}")) as other:
        assert await store(other, "o/1", 1) == NEW
    async with Deduplicator(Options(index_url=url)) as one:
        assert await store(one, "a/2", 2) == NEW
        source, target = (sqlite3.connect(tmp_path / name) for name in ("other.db", "index.db"))
        source.backup(target)
        source.close()
        target.close()
        assert await store(one, "a/1", 1) == DUPLICATE
        assert await store(one, "b/2", 2) == NEW


async def test_file_replaced_by_something_else(tmp_path: Path) -> None:
    """A file that is no index any more makes pages unchecked, and is left as it is; when the index
    is back the crawl goes on."""
    file = tmp_path / "index.db"
    async with Deduplicator(Options(index_url=f"sqlite:{file}", timeout=0.1)) as one:
        assert await store(one, "a/1", 1) == NEW
        db = sqlite3.connect(file)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        file.rename(tmp_path / "kept.db")
        file.write_bytes(b"not a database at all" * 100)
        assert (await one.decide(page("b/1", 1))).outcome == UNCHECKED
        assert file.read_bytes() == b"not a database at all" * 100
        (tmp_path / "kept.db").replace(file)
        one._outage.breaker.worked()
        assert await store(one, "c/1", 1) == DUPLICATE


async def test_command_makes_no_file(tmp_path: Path) -> None:
    """Operations that only read an index do not create one when it is removed meanwhile."""
    file = tmp_path / "index.db"
    async with Deduplicator(Options(index_url=f"sqlite:{file}")) as one:
        await store(one, "a/1", 1)
    index = open_index(Options(index_url=f"sqlite:{file}"))
    await index.attach()
    file.unlink()
    with pytest.raises(IndexUnavailableError, match="there is no index"):
        await index.count()
    assert not file.exists()
    await index.close()


async def test_number_is_never_given_twice(redis_server: RedisServer) -> None:
    """If the counter of pages is lower than the ids in use, none of these is given again: claims
    are refused with a clear error, and ``verify`` names both."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    claims = [
        await claimed(index, bucket_keys_of(n, n << 60, (n << 50, n << 51))) for n in range(1, 6)
    ]
    for claim in claims:
        assert await index.commit(claim)
    key = harness.prefix + b"counters"
    raw = harness.admin.get(key)
    before = harness.admin.get(harness.prefix + b"s" + bytes(4))
    for last in (0, 2, 4):
        harness.admin.set(key, last.to_bytes(6, "little") + raw[6:])
        with pytest.raises(IndexUnavailableError, match="counter of pages is lower"):
            await claimed(index, bucket_keys_of(9))
        with pytest.raises(IndexUnavailableError, match="counter of pages is lower"):
            await index.propose(entry(bucket_keys_of(9)), 3, LEASE)
        found = await verify(index)
        assert not found.is_sound
        assert any(f"the counter says {last}, records name 5" in line for line in found.counters)
    assert harness.admin.get(harness.prefix + b"s" + bytes(4)) == before
    harness.admin.set(key, raw)
    assert isinstance(await claimed(index), Claim)
    await harness.close()


async def test_number_of_a_short_sequence(tmp_path: Path) -> None:
    """A SQLite file whose sequence was set back goes on behind its last page."""
    harness = SQLiteHarness(tmp_path / "index.db")
    index = await harness.client()
    claims = [
        await claimed(index, bucket_keys_of(n, n << 60, (n << 50, n << 51))) for n in range(1, 6)
    ]
    harness.execute("UPDATE sqlite_sequence SET seq = 1")
    made = await index.propose(entry(bucket_keys_of(9)), 0, LEASE)
    assert isinstance(made, Claimed)
    assert made.claim.page_id == claims[-1].page_id + 1
    assert (await index.stats()).released == 0
    await harness.close()


@pytest.mark.parametrize("gone", ["parameters", "counters", "schema", "short", "key", "no key"])
async def test_parts_of_a_server_gone(own_server: RedisServer, gone: str) -> None:
    """An index without its parameters, its counters or its key is refused with what is gone."""
    await (await opened(own_server.url)).close()
    with own_server.client() as admin:
        if gone == "short":
            admin.set("{dedup}counters", b"\0" * 7)
        elif gone == "key":
            admin.hset("{dedup}parameters", "hash_key", "zz")
        elif gone == "no key":
            admin.hdel("{dedup}parameters", "hash_key")
        else:
            admin.delete("{dedup}" + gone)
    named = {"short": "counters", "key": "hash_key", "no key": "hash_key"}.get(gone, gone)
    assert named in await refusal(own_server.url)
    index = RedisIndex(Options(index_url=own_server.url))
    with pytest.raises((IndexRefusedError, IndexUnavailableError)):
        await index.attach()
    await index.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM parameter",
        "DELETE FROM parameter WHERE name = 'hash_key'",
        "UPDATE parameter SET value = 'zz' WHERE name = 'hash_key'",
    ],
)
async def test_parameters_of_a_file_gone(tmp_path: Path, statement: str) -> None:
    """A file without its parameters, or its key, is refused with what is gone."""
    harness = SQLiteHarness(tmp_path / "index.db")
    await harness.client()
    harness.execute(statement)
    with pytest.raises(IndexRefusedError, match="hash_key is"):
        await harness.client()
    with pytest.raises(IndexRefusedError, match="hash_key is"):
        await harness.client(None)
    await harness.close()


async def test_counters_of_a_file_gone(tmp_path: Path) -> None:
    """A file without its counters can be verified, which names them."""
    harness = SQLiteHarness(tmp_path / "index.db")
    index = await harness.client()
    assert await index.commit(await claimed(index))
    harness.execute("DELETE FROM counter")
    found = await verify(index)
    assert not found.is_sound
    assert any(line.startswith("committed: the counter says 0") for line in found.counters)
    await harness.close()


async def test_setting_up_that_was_broken_off(own_server: RedisServer) -> None:
    """What is left by a user who had no right to set up an index does not keep others from it."""
    with own_server.client() as admin:
        admin.set("{dedup}counters", bytes(38))
        index = await opened(own_server.url)
        assert await index.commit(await claimed(index))
        await index.close()
        admin.delete("{dedup}schema")
        assert "it has no schema" in await refusal(own_server.url)


async def test_an_id_that_is_given_again_is_judged_by_its_own_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page waits for a similar one; meanwhile the server comes back in an older state and gives
    the id of that one to another page, which is stored. The page that waited is new, no copy."""
    (tmp_path / "server").mkdir()
    with running_redis(tmp_path / "server", "--save", "") as server:
        async with contextlib.AsyncExitStack() as stack:
            first, second, third = [
                await stack.enter_async_context(Deduplicator(Options(index_url=server.url)))
                for _ in range(3)
            ]
            with server.client() as admin:
                admin.save()
            held = await first.decide(page("one.example/1", 1))
            assert held.claim is not None
            waits, goes_on = asyncio.Event(), asyncio.Event()
            fetch = second._index.fetch

            async def late_fetch(page_ids: NDArray[np.uint64]) -> PageRecords:
                waits.set()
                await goes_on.wait()
                return await fetch(page_ids)

            monkeypatch.setattr(second._index, "fetch", late_fetch)
            copy = asyncio.ensure_future(second.decide(page("two.example/1", 1)))
            await asyncio.wait_for(waits.wait(), 30)
            server.kill()
            server.start()
            other = await third.decide(page("three.example/2", 2))
            assert other.claim is not None
            assert other.claim.page_id == held.claim.page_id
            assert await third.commit(other)
            goes_on.set()
            verdict = await copy
            assert (verdict.outcome, verdict.match) == (NEW, None)
            assert await second.commit(verdict)
