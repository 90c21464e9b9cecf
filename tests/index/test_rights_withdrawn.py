"""A right that is taken from a user of Redis while a crawl runs, and given back."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence

import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.redis import index as redis_index
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.scripts import RowLayout, Script, script
from dedup_middleware.index.verification import Verification, verify
from dedup_middleware.model.buckets import SIMHASH_TABLES
from dedup_middleware.model.documents import DUPLICATE, NEW, UNCHECKED, Verdict
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD
from tests.docblocks import ROOT
from tests.index.harness import shorten_leases
from tests.index.redis_use import RIGHTS
from tests.outages import Counts
from tests.servers import RedisServer
from tests.texts import article

COMMANDS = [right.removeprefix("+") for right in RIGHTS.split()]
STORED, LATER = range(8), range(10, 18)
LARGE = 4096 // 8 + 1  # records of a bucket that is a key of its own


def page(name: str, number: int) -> Document:
    """A document with the text of a number."""
    return Document(key=f"https://{name}/{number}", text=article(number, 12))


async def decide_all(dedup: Deduplicator, name: str, numbers: Sequence[int]) -> list[Verdict]:
    """Verdicts of pages that come at the same time."""
    return list(await asyncio.gather(*(dedup.decide(page(name, n)) for n in numbers)))


async def verified(server: RedisServer) -> Verification:
    """Verify with all rights, and return the result."""
    index = RedisIndex(Options(index_url=server.url))
    await index.attach()
    found = await verify(index)
    await index.close()
    return found


async def compacted(server: RedisServer) -> None:
    """Compact by a user with all rights."""
    index = RedisIndex(Options(index_url=server.url))
    await index.attach()
    await index.compact()
    await index.close()


def allow(server: RedisServer, *rights: str) -> None:
    """Change the rights of the user."""
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "crawler", *rights)


def enlarge(server: RedisServer) -> None:
    """Make keys of their own of all buckets, as they are in a large index, with records of the
    released page 1."""
    with server.client() as admin:
        for key in admin.keys("{dedup}b*"):
            for field, value in admin.hgetall(key).items():
                width = SIMHASH_RECORD if key[len("{dedup}b")] in SIMHASH_TABLES else BAND_RECORD
                filler = (b"\1" + bytes(width - 1)) * LARGE
                admin.set(key + field, value + filler)
                admin.hset(key, field, b"")


@pytest.mark.parametrize("knows", [True, False], ids=["redis 7", "redis 6"])
@pytest.mark.parametrize("command", COMMANDS)
async def test_right_withdrawn(
    own_server: RedisServer, command: str, knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each right is withdrawn while pages are claimed, committed and given back. Nothing is dropped
    but copies of stored pages; when it is given back the crawl goes on, all pages stored are known,
    and what is left in the index is what docs/redis.md says, gone after a compaction."""
    if not knows:
        forget_how_to_check(monkeypatch)
    allow(own_server, "reset", "on", ">pw", "~{dedup}*", *RIGHTS.split())
    url = f"redis://crawler:pw@127.0.0.1:{own_server.port}/0"
    options = Options(index_url=url, retries=0, pending_wait=0.2, lease=60.0)
    counts = Counts()
    dedup = Deduplicator(options, count=counts)
    async with dedup:
        # The same texts come again below, and so their buckets.
        for name, numbers in (("x", range(90, 91)), ("y", range(30, 36))):
            for verdict in await decide_all(dedup, name, numbers):
                await dedup.release(verdict)
        enlarge(own_server)
        for verdict in await decide_all(dedup, "a", STORED):
            assert verdict.outcome == NEW
            assert await dedup.commit(verdict)
        to_commit = await decide_all(dedup, "b", LATER)
        to_release = await decide_all(dedup, "c", range(20, 24))
        allow(own_server, f"-{command}")
        kept: list[Verdict] = []
        for wave in range(3):
            dedup._outage.breaker.worked()
            copies = await decide_all(dedup, f"d{wave}", STORED)
            assert {copy.outcome for copy in copies} <= {DUPLICATE, UNCHECKED}
            dedup._outage.breaker.worked()
            kept += await decide_all(dedup, f"e{wave}", range(30 + 4 * wave, 34 + 4 * wave))
            dedup._outage.breaker.worked()
        for verdict in to_commit:
            dedup._outage.breaker.worked()
            await dedup.commit(verdict)
        for verdict in to_release:
            dedup._outage.breaker.worked()
            await dedup.release(verdict)
        for verdict in kept:
            assert verdict.outcome in (NEW, UNCHECKED)
            dedup._outage.breaker.worked()
            await dedup.commit(verdict)
        allow(own_server, f"+{command}")
        with own_server.client() as admin:
            shorten_leases(admin, b"{dedup}", 60)  # claims that could not be released run out
        dedup._outage.breaker.worked()
        await dedup._settlement.catch_up()
        stored = (*STORED, *LATER, *range(30, 42))
        copies = await decide_all(dedup, "f", stored)
        assert [copy.outcome for copy in copies] == [DUPLICATE] * len(stored)
        again = await decide_all(dedup, "g", range(20, 24))
        assert [verdict.outcome for verdict in again] == [NEW] * 4
        for verdict in again:
            assert await dedup.commit(verdict)
    assert counts.of["error/internal"] == counts.of["unchecked/forgotten"] == 0
    found = await verified(own_server)
    left = what_is_left(found)
    assert left <= documented(command)
    if left - {"committed"}:
        await compacted(own_server)
        found = await verified(own_server)
        assert what_is_left(found) <= documented(command) & {"committed"}
    assert found.lacking_pages == 0


def forget_how_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scripts run as on a server that can't say beforehand what a user may do."""

    def old(name: str, layout: RowLayout) -> Script:
        text = b"local redis = setmetatable({acl_check_cmd = false}, {__index = redis})\n"
        text += script(name, layout).text
        return Script(text, hashlib.sha1(text).hexdigest().encode())

    monkeypatch.setattr(redis_index, "script", old)


def what_is_left(found: Verification) -> set[str]:
    """Names of the faults that a verification finds."""
    left = {line.split(":")[0] for line in found.counters}
    for table in found.tables:
        left |= {name for name in ("unknown", "misplaced", "junk") if getattr(table, name)}
    if found.damaged or found.leases:
        left.add("damaged" if found.damaged else "leases")
    return left


def documented(command: str) -> set[str]:
    """What docs/redis.md says may be left without a right."""
    text = (ROOT / "docs" / "redis.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]+) \| ([^|]+) \|$", text, re.M)
    for names, left, _ in rows:
        if f"`{command}`" in names:
            return {word for word in ("buckets", "committed") if f"counter of {word}" in left}
    return set()
