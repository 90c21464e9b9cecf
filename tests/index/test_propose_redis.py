"""Proposals on Redis: round trips, calls whose replies get lost, and the arguments of a call."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import numpy as np
import pytest

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.parameters import Window
from dedup_middleware.index.redis import index as redis_index
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.link import Call, Result
from dedup_middleware.index.redis.propose import batches, new_tokens, proposals, request
from dedup_middleware.index.redis.scripts import RowLayout, claimed_row, script
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Known, Proposed
from dedup_middleware.model.records import CONTENT, PageRecords
from tests.index.claiming import candidates_of, entered
from tests.index.harness import RedisHarness, bucket_keys_of, entry
from tests.index.proxy import Proxy
from tests.index.redis_use import DISTANCE, LEASE, opened, proposed, stored
from tests.servers import RedisServer


async def test_repeated_call_gives_what_it_claimed_together(redis_server: RedisServer) -> None:
    """A call whose answer got lost claimed pages that met each other: sent again it gives each its
    claim with those before it, and a page that came later is given to none."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="together")
        first = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
        await stored(index, first)
        places = [bucket_keys_of(i, i << 20, (5 << 50, i << 51)) for i in (2, 3, 4)]
        found = await proposed(index, places[0])
        assert isinstance(found, Candidates)
        known = Known(found.pages)
        for with_wanted in (False, True):
            if with_wanted:
                known = Known(found.pages, np.array([1], np.uint64))
                places = [bucket_keys_of(i, i << 20, (5 << 50, i << 51)) for i in (5, 6, 7)]
                everything = await index.fetch(np.arange(1, 5, dtype=np.uint64))
                known = attrs.evolve(known, pages=everything)
            proxy.cut_at_answer = True
            made = await asyncio.gather(*(proposed(index, one, known=known) for one in places))
            numbers = [one.claim.page_id for one in made if isinstance(one, Claimed)]
            assert numbers == [5, 6, 7] if with_wanted else numbers == [2, 3, 4]
            for i, one in enumerate(made):
                met = candidates_of(one).pages.page_ids.tolist()
                assert met == [1] * with_wanted + numbers[:i]
        await index.close()


async def count_round_trips(index: RedisIndex) -> list[int]:
    """Return a list that from now on gets the number of commands of each round trip."""
    trips: list[int] = []
    exchange = index._link._servers.exchange

    async def counted(connection, commands):  # type: ignore[no-untyped-def]
        trips.append(len(commands))
        return await exchange(connection, commands)

    index._link._servers.exchange = counted  # type: ignore[method-assign]
    return trips


async def test_round_trips(redis_server: RedisServer) -> None:
    """A new page takes one round trip before it is committed; so does a copy, whose original is
    named; 64 pages at once take no more than one page."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    bucket_keys = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
    await stored(index, bucket_keys)
    trips = await count_round_trips(index)
    made = await proposed(index, bucket_keys_of(2, 1 << 40, (8 << 50, 9 << 50)))
    assert isinstance(made, Claimed)
    assert trips == [1]
    copy = await proposed(index, bucket_keys_of(3, 7, (5 << 50, 6 << 50)))
    assert isinstance(copy, Candidates)
    assert len(copy.pages) == 1
    assert list(copy.addresses.values()) == [f"https://a/{bucket_keys[0].suffix}"]
    assert trips == [1, 1]
    trips.clear()
    many = [
        bucket_keys_of(i, i * 0x9E3779B97F4A7C15 % (1 << 64), (i << 40, i << 50))
        for i in range(10, 74)
    ]
    together = await asyncio.gather(*(proposed(index, one) for one in many))
    assert trips == [1]
    claims = [one.claim for one in together if isinstance(one, Claimed)]
    assert len(claims) == 64
    assert all(await asyncio.gather(*map(index.commit, claims)))
    assert len(trips) == 2
    await harness.close()


async def test_repeated_call_finds_its_own_claims(redis_server: RedisServer) -> None:
    """A call whose answer got lost is sent again: it gives the same claims, no second ones."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    pages = [
        Proposed(entry(bucket_keys_of(i, i << 60, (i << 50, i << 52))), DISTANCE, LEASE)
        for i in (1, 2, 3)
    ]
    sent = request(pages, new_tokens(pages), index.prefix, [b""], index.layout)
    names = [index.prefix + name for name in (b"leases", b"counters", b"generations")]
    names += sent.keys
    arguments: tuple[bytes | int, ...] = (60_000, 0, 0, 1, *sent.arguments)
    call = Call(
        arguments,
        names,
        script("propose", index.layout),
        index._session,
    )
    claims: list[list[Claim]] = []
    for _ in range(2):
        answer = await index._link.submit(call)
        made = proposals(answer.reply, pages, sent, index.layout)
        claims.append([one.claim for one in made if isinstance(one, Claimed)])
    assert claims[0] == claims[1]
    assert len(claims[0]) == 3
    assert (await index.stats()).pending == 3
    await harness.close()


async def test_emptied_server_is_opened_again(own_server: RedisServer) -> None:
    """Nothing is proposed to a server that has lost the index before the index is opened again."""
    index = await opened(own_server.url)
    await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50)))
    own_server.client().flushall()
    assert await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50))) == 1
    assert (await index.stats()).committed == 1
    await index.close()


def test_calls_are_bounded() -> None:
    """Pages with many bucket keys are proposed in several calls, those of other leases in calls of
    their own; all in order."""
    bucket_keys = tuple(BucketKey(table << 16, 1) for table in range(6, 56))
    pages = [Proposed(entry(bucket_keys), DISTANCE, LEASE + (i == 99)) for i in range(100)]
    groups = batches(pages, 1)
    assert [one for group in groups for one in group] == pages
    assert [len(group) for group in groups] == [40, 40, 19, 1]
    many = PageRecords(
        np.arange(1500, dtype=np.uint64), np.zeros(1500, CONTENT), np.ones(1500, "u1")
    )
    knowing = [attrs.evolve(pages[0], known=Known(many)) for _ in range(5)]
    assert [len(group) for group in batches(knowing, 1)] == [2, 2, 1]


async def test_leases_are_a_table_not_a_list(redis_server: RedisServer) -> None:
    """Redis keeps a small hash as a list and searches it from its start; the leases of a busy crawl
    are kept as a table, which holds nothing but leases."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    pages = [entry(bucket_keys_of(i, i << 60 ^ i << 7, (i << 50, i << 52))) for i in range(1, 9)]
    made = await asyncio.gather(*(index.propose(page, 0, LEASE) for page in pages))
    claims = [one.claim for one in made if isinstance(one, Claimed)]
    leases = harness.prefix + b"leases"
    assert harness.admin.object("encoding", leases) == b"hashtable"
    numbers = [one.page_id for one in claims]
    assert len(numbers) == 8
    assert sorted(harness.admin.hkeys(leases)) == sorted(n.to_bytes(5, "little") for n in numbers)
    await asyncio.gather(*map(index.commit, claims))
    assert not harness.admin.exists(leases)
    await harness.close()


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_buckets_are_named_once(seconds: float) -> None:
    """Each bucket is a field sent once, table by table, as the client packs it; places of a page
    are those of its buckets; hashes are named for all live generations, newest first."""
    pages = [
        Proposed(entry(bucket_keys_of(i, i << 40, (i << 50, i << 52)[: i % 3])), DISTANCE, LEASE)
        for i in (1, 2, 3)
    ]
    index = RedisIndex(Options(index_url="redis://none", window=seconds), window=seconds)
    live = Window(seconds).at(1_000_000.0).live
    ends = index.ends(reversed(live))
    sent = request(pages, new_tokens(pages), b"{some}", ends, RowLayout())
    buckets = sorted({bucket_key.bucket for page in pages for bucket_key in page.bucket_keys})
    tables = sorted({bucket >> 16 for bucket in buckets})
    assert ends == ([one.to_bytes(4, "big") for one in reversed(live)] if seconds else [b""])
    assert sent.keys == [b"{some}b" + bytes((table,)) + end for end in ends for table in tables]
    reported, counts = sent.arguments[0][:4], np.frombuffer(sent.arguments[0][4:], "<u2").tolist()
    assert counts == [sum(bucket >> 16 == table for bucket in buckets) for table in tables]
    assert reported == bytes(4)  # exact copies of none of these settle a page
    _, fields, tokens, suffixes, places, known, *rest = sent.arguments
    assert known == b""
    assert fields == b"".join((bucket & 0xFFFF).to_bytes(2, "big") for bucket in buckets)
    bucket_keys = [bucket_key for page in pages for bucket_key in page.bucket_keys]
    assert tokens == sent.tokens
    assert suffixes == b"".join(one.suffix.to_bytes(one.width - 5, "little") for one in bucket_keys)
    firsts = {table: min(b for b in buckets if b >> 16 == table) for table in tables}
    for i, one in zip(np.frombuffer(places, "<u2").tolist(), bucket_keys, strict=True):
        assert buckets[buckets.index(firsts[one.table]) + i - 1] == one.bucket
    record = RowLayout().record
    for page, row, sizes, text in zip(pages, rest[::3], rest[1::3], rest[2::3], strict=True):
        assert (row, text) == claimed_row(page.entry, record)
        own_tables = bytes(tables.index(bucket_key.table) + 1 for bucket_key in page.bucket_keys)
        assert (
            sizes
            == bytes(48 + bucket_key.width - 5 for bucket_key in page.bucket_keys) + own_tables
        )


async def test_no_room_for_texts(redis_server: RedisServer) -> None:
    """Where a text begins is a number of 40 bits: a page beyond it is refused, not stored with the
    address of another page."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    counters = bytearray(harness.admin.get(harness.prefix + b"counters"))
    assert counters[6:12] == bytes(6)
    counters[6:12] = (2**40 - 10).to_bytes(6, "little")
    harness.admin.set(harness.prefix + b"counters", bytes(counters))
    last = await entered(index, entry(bucket_keys_of(1), address="https://a/" + "x" * 50), LEASE)
    assert await index.addresses([last.page_id]) == ["https://a/" + "x" * 50]
    with pytest.raises(IndexUnavailableError, match="choose another DEDUP_NAMESPACE"):
        await entered(index, entry(bucket_keys_of(2, 9 << 50, (7, 8)), address="https://b/"), LEASE)
    await harness.close()


async def test_another_generation_gets_the_same_tokens(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal whose answer got lost at the end of a generation finds its claim in the next."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    seen: list[bytes] = []
    submit = index._link.submit

    def noting(pages: Any, tokens: bytes, *others: Any, **more: Any) -> Any:
        seen.append(tokens)
        return request(pages, tokens, *others, **more)

    def turning(call: Call) -> asyncio.Future[Result]:
        if len(seen) != 1:
            return submit(call)
        answered = asyncio.get_running_loop().create_future()
        answered.set_result(Result(0))  # the number of another generation
        return answered

    monkeypatch.setattr(redis_index, "request", noting)
    monkeypatch.setattr(index._link, "submit", turning)
    await entered(index, entry(bucket_keys_of(1)), LEASE)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    await harness.close()
