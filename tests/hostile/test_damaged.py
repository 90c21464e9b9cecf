"""An index whose bytes something else has changed: a clear answer, never an error from inside."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from scrapy.settings import Settings

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import RecordLayout
from dedup_middleware.index.redis.expiry import hash_of
from dedup_middleware.index.redis.scripts import RowLayout
from dedup_middleware.index.verification import verify
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import SIMHASH_TABLES
from dedup_middleware.model.documents import NEW, UNCHECKED, Document, Verdict
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD
from dedup_middleware.plugin.notices import log_contents
from tests.servers import RedisServer, running_redis
from tests.texts import article


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that a test may damage."""
    with running_redis(tmp_path) as server:
        yield server


DAMAGES = {
    "page": ("UPDATE page SET stamp = 'text'", "UPDATE page SET content = 5"),
    "lease": ("UPDATE lease SET token = 2.5", "UPDATE lease SET until = x'00'"),
    "bucket": ("UPDATE bucket SET data = 7", "UPDATE bucket SET data = 'text'"),
    "counter": ("UPDATE counter SET value = x'00'",),
}


@pytest.mark.parametrize("table", DAMAGES)
async def test_values_of_another_type(table: str, tmp_path: Path) -> None:
    """SQLite keeps any type in any column: the pages concerned pass, and nothing is raised."""
    path = tmp_path / "index.db"
    options = Options(index_url=f"sqlite:{path}", pending_wait=0.01)
    for change in DAMAGES[table]:
        path.unlink(missing_ok=True)
        async with Deduplicator(options) as dedup:
            stored = await dedup.decide(Document(key="https://a/1", text=article(1)))
            await dedup.commit(stored)
            pending = await dedup.decide(Document(key="https://a/2", text=article(2)))
            with closing(sqlite3.connect(path, timeout=30)) as database, database:
                assert database.execute(change).rowcount > 0
            for number in (1, 2, 3):
                text = article(number) + "完。" * (number == 1)
                verdict = await dedup.decide(Document(key=f"https://b/{number}", text=text))
                # Of page 1 alone something is stored.
                assert verdict.outcome in {NEW, UNCHECKED} or number == 1, change
            await dedup.commit(pending)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE parameter SET value = x'00ff' WHERE name = 'bands'", "'bands' is b'\\x00\\xff'"),
        ("UPDATE parameter SET name = x'6e' WHERE name = 'hash_key'", "hash_key is gone"),
        ("UPDATE parameter SET value = 'zz' WHERE name = 'hash_key'", "hash_key"),
        ("DELETE FROM parameter WHERE name = 'hash_key'", "hash_key"),
        ("UPDATE parameter SET value = x'3161' WHERE name = 'hash_key'", "hash_key is not a hex"),
    ],
)
async def test_damaged_parameters(change: str, named: str, tmp_path: Path) -> None:
    """The refusal says that it is damaged and what to do."""
    path = tmp_path / "index.db"
    options = Options(index_url=f"sqlite:{path}")
    async with Deduplicator(options):
        pass
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(change).rowcount == 1
    with pytest.raises(IndexRefusedError) as caught:
        async with Deduplicator(options):
            pass
    assert named in str(caught.value)
    assert "damaged" in str(caught.value)
    assert "DEDUP_INDEX_URL" in str(caught.value)


@pytest.mark.parametrize("number", [-(1 << 62), -1, 0, 1 << 40, (1 << 63) - 1])
async def test_page_number_that_was_never_given(number: int, tmp_path: Path) -> None:
    """What an index holds is said at the start of a crawl, whatever number a damaged row has."""
    path = tmp_path / "index.db"
    options = Options(index_url=f"sqlite:{path}")
    index = open_index(options)
    async with Deduplicator(options, index=index) as dedup:
        for page in (1, 2):
            verdict = await dedup.decide(Document(key=f"https://a/{page}", text=article(page)))
            await dedup.commit(verdict)
        with closing(sqlite3.connect(path, timeout=30)) as database, database:
            database.execute("UPDATE page SET number = ? WHERE number = 2", (number,))
        await log_contents(index, options, Settings())
        assert await index.page_ids() == range(1, 2)
        await verify(index)


@pytest.mark.parametrize("stamp", [2, 77, 999_999_999])
@pytest.mark.parametrize("kind", ["exact", "near"])
async def test_stamp_that_no_script_writes(stamp: int, kind: str, own_redis: RedisServer) -> None:
    """A page that may or may not be stored makes nothing a duplicate, and the decision
    comes to its end."""
    async with Deduplicator(Options(index_url=own_redis.url)) as dedup:
        stored = await dedup.decide(Document(key="https://a/1", text=article(1, 30)))
        await dedup.commit(stored)
        write_stamp(own_redis, stored, stamp)
        text = article(1, 30) + ("" if kind == "exact" else "预算已经通过。")
        copy = Document(key="https://b/1", text=text)
        verdict = await asyncio.wait_for(dedup.decide(copy), 20)
        assert verdict.outcome in {NEW, UNCHECKED}
        assert verdict.reason != "pending-timeout"


def write_stamp(server: RedisServer, verdict: Verdict, stamp: int) -> None:
    """Overwrite the stamp of a page in the default namespace."""
    assert verdict.claim is not None
    fields = choose_method(Options(index_url="memory:")).fields
    layout = RowLayout(RecordLayout(fields))
    row = verdict.claim.page_id % layout.rows * layout.row.itemsize
    assert layout.row.fields is not None
    offset = row + layout.row.fields["stamp"][1]
    chunk = b"{dedup}s" + (verdict.claim.page_id // layout.rows).to_bytes(4, "little")
    with server.client() as client:
        client.setrange(chunk, offset, stamp.to_bytes(4, "little"))


@pytest.mark.parametrize("flipped", [1, 1 << 20, 1 << 38])
@pytest.mark.parametrize("kind", ["exact", "near"])
async def test_records_of_pages_that_never_were(
    flipped: int, kind: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    """A flipped bit in the page ids of all bucket records: the decision comes to its end."""
    path = tmp_path / "index.db"
    for url in (own_redis.url, f"sqlite:{path}"):
        async with Deduplicator(Options(index_url=url)) as dedup:
            stored = await dedup.decide(Document(key="https://a/1", text=article(1, 30)))
            await dedup.commit(stored)
            if url == own_redis.url:
                flip_in_redis(own_redis, flipped)
            else:
                flip_in_file(path, flipped)
            text = article(1, 30) + ("" if kind == "exact" else "预算已经通过。")
            copy = Document(key="https://b/1", text=text)
            verdict = await asyncio.wait_for(dedup.decide(copy), 20)
            assert verdict.outcome in {NEW, UNCHECKED}


def with_flipped_ids(bucket: bytes, table: int, bits: int) -> bytes:
    """A bucket in which bits of each page id are turned."""
    width = SIMHASH_RECORD if table in SIMHASH_TABLES else BAND_RECORD
    records = [bucket[at : at + width] for at in range(0, len(bucket), width)]
    return b"".join(
        (int.from_bytes(record[:5], "little") ^ bits).to_bytes(5, "little") + record[5:]
        for record in records
    )


def flip_in_redis(server: RedisServer, bits: int) -> None:
    """Turn bits of all page ids in the default namespace."""
    with server.client() as client:
        for table in range(64):
            name = hash_of(b"{dedup}", table)
            for field, value in client.hgetall(name).items():
                client.hset(name, field, with_flipped_ids(value, table, bits))


def flip_in_file(path: Path, bits: int) -> None:
    """Turn bits of all page ids in a file."""
    with closing(sqlite3.connect(path, timeout=30)) as database, database:
        for number, data in database.execute("SELECT id, data FROM bucket").fetchall():
            changed = with_flipped_ids(data, number >> 16 & 0xFF, bits)
            database.execute("UPDATE bucket SET data = ? WHERE id = ?", (changed, number))


@pytest.mark.parametrize("kind", ["exact", "near"])
async def test_pending_pages_without_leases(
    kind: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    """Without its lease a claim is gone: a like page is stored at once, and the commit of the first
    one is refused."""
    path = tmp_path / "index.db"
    for url in (own_redis.url, f"sqlite:{path}"):
        async with Deduplicator(Options(index_url=url)) as dedup:
            pending = await dedup.decide(Document(key="https://a/1", text=article(1, 30)))
            if url == own_redis.url:
                with own_redis.client() as client:
                    client.delete(b"{dedup}leases")
            else:
                with closing(sqlite3.connect(path, timeout=30)) as database, database:
                    database.execute("DELETE FROM lease")
            text = article(1, 30) + ("" if kind == "exact" else "预算已经通过。")
            copy = Document(key="https://b/1", text=text)
            verdict = await asyncio.wait_for(dedup.decide(copy), 20)
            assert verdict.outcome == NEW
            await dedup.commit(verdict)
            assert not await dedup.commit(pending)
