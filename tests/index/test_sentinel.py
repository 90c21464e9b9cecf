"""Sentinels name the master; when they choose another one, work goes on there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.servers import split_address
from dedup_middleware.model.claims import Candidates, Claim, Known
from dedup_middleware.model.records import State
from tests.index.claiming import BUCKET_KEYS, entered, met, states, unlike
from tests.index.harness import PARAMETERS, entry
from tests.index.redis_use import LEASE, claimed, opened, refusal
from tests.servers import RedisServer, SentinelServer, Watched, free_port, watched_redis


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A master, a replica and three sentinels."""
    with watched_redis(tmp_path) as servers:
        yield servers


@pytest.mark.parametrize("protocol", [2, 3])
async def test_master_dies(watched: Watched, protocol: int) -> None:
    """Calls made while the master is dead get their answer from the next one; what was stored
    before is known there, and an open claim can be committed."""
    index = await opened(f"{watched.url}?protocol={protocol}", retries=20)
    stored, held = await claimed(index), await claimed(index)
    await index.commit(stored)
    watched.master.await_replica()
    watched.master.kill()
    assert await index.commit(held)
    watched.await_failover(1)
    assert await states(index, stored.page_id, held.page_id) == [State.COMMITTED] * 2
    assert await index.count() == 2
    assert isinstance(await claimed(index), Claim)
    await index.close()


async def test_master_that_was_only_paused(watched: Watched) -> None:
    """Work goes on with the next master, and stays there when the former one wakes up, which has
    not heard of it."""
    index = await opened(watched.url, retries=20, timeout=1.0)
    held = await claimed(index)
    watched.master.await_replica()
    with watched.master.frozen():
        assert await index.commit(held)
        watched.await_failover(1)
    later = [await entered(index, entry(BUCKET_KEYS)) for _ in range(3)]
    assert [await index.commit(one) for one in later] == [True] * 3
    ids = [one.page_id for one in (held, *later)]
    with watched.replica.client() as client:
        assert client.info("replication")["role"] == "master"
    await index.close()
    again = await opened(watched.replica.url)
    assert await states(again, *ids) == [State.COMMITTED] * 4
    await again.close()


async def test_next_master_lacks_the_last_second(tmp_path: Path) -> None:
    """What a replica has not received before it becomes the master is lost: the claim in it can't
    be committed, the page that gets its id blocks pages that knew the lost one, and all else is
    there."""
    rights = ["--user", "copier", "on", ">pw", "+psync", "+replconf", "+ping"]
    with watched_redis(tmp_path, *rights, "--masteruser", "copier", "--masterauth", "pw") as both:
        index = await opened(both.url, retries=30)
        known = await claimed(index)
        assert await index.commit(known)
        both.master.await_replica()
        with both.master.client() as admin:
            admin.acl_deluser("copier")  # the replica is cut off and can't come back
        lost = await claimed(index)
        assert await index.commit(await claimed(index))
        before = await met(index, entry(BUCKET_KEYS))
        both.master.kill()
        assert not await index.commit(lost)
        assert await states(index, known.page_id) == [State.COMMITTED]
        assert await index.count() == 1
        # Another page gets one of the lost ids, and is not taken for the one judged.
        another = await entered(index, unlike(entry(BUCKET_KEYS)))
        assert another.page_id == known.page_id + 1
        blocked = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(before.pages))
        assert isinstance(blocked, Candidates)
        assert blocked.near.page_ids.tolist() == [another.page_id]
        await index.close()


async def test_planned_failover(watched: Watched) -> None:
    """The former master, now a replica, is not used any more; nothing is stored on it."""
    index = await opened(watched.url, retries=20)
    stored = await claimed(index)
    await index.commit(stored)
    watched.master.await_replica()
    with watched.sentinels[0].client() as sentinel:
        sentinel.execute_command("SENTINEL FAILOVER", "mymaster")
    work = [asyncio.ensure_future(_store_one(index)) for _ in range(20)]
    await asyncio.to_thread(watched.await_failover)
    kept = sum(await asyncio.gather(*work))
    assert kept == 20
    assert await states(index, stored.page_id) == [State.COMMITTED]
    # Those committed on the old master in its last moments may be gone with it.
    with watched.replica.client() as client:
        assert client.get("{dedup}committed") is not None
    assert isinstance(await claimed(index), Claim)
    await index.close()


async def _store_one(index: RedisIndex) -> bool:
    while True:
        await index.commit(await entered(index, entry(BUCKET_KEYS)))
        return True


async def test_dead_sentinels_are_passed_over(watched: Watched) -> None:
    """As long as one sentinel answers the master is found."""
    for sentinel in watched.sentinels[:2]:
        sentinel.kill()
    index = await opened(watched.url, retries=0)
    assert await index.count() == 0
    await index.close()


async def test_no_sentinel_to_ask() -> None:
    """No sentinel up: the message names them all and why they can't be asked."""
    ports = [free_port(), free_port()]
    url = f"redis+sentinel://:s3cret@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/mymaster"
    message = await refusal(url, IndexUnavailableError, retries=0)
    assert f"none of the sentinels 127.0.0.1:{ports[0]}, 127.0.0.1:{ports[1]}" in message
    assert "s3cret" not in message


async def test_master_of_another_name(tmp_path: Path, redis_server: RedisServer) -> None:
    """The error on a name that the sentinels do not know gives the name."""
    sentinel = SentinelServer(tmp_path, redis_server)
    try:
        sentinel.start()
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/other"
        message = await refusal(url, IndexUnavailableError, retries=0)
    finally:
        sentinel.kill()
    assert "know no master 'other'" in message


async def test_sentinel_in_the_place_of_a_server(tmp_path: Path, redis_server: RedisServer) -> None:
    """A sentinel runs no scripts, and waiting would not help: the message says how to name
    sentinels."""
    sentinel = SentinelServer(tmp_path, redis_server)
    try:
        sentinel.start()
        url = f"redis://127.0.0.1:{sentinel.port}/0"
        message = await refusal(url, IndexRefusedError, retries=0)
    finally:
        sentinel.kill()
    assert "begin it with redis+sentinel://" in message
    assert "EVALSHA" not in message


async def test_passwords_of_sentinel_and_server(tmp_path: Path) -> None:
    """The sentinels and the servers may each have a password of their own."""
    (tmp_path / "server").mkdir()
    (tmp_path / "sentinel").mkdir()
    server = RedisServer(tmp_path / "server", ["--requirepass", "one"])
    settings = ["requirepass two", "sentinel auth-pass mymaster one"]
    sentinel = SentinelServer(tmp_path / "sentinel", server, settings=settings)
    try:
        server.start()
        sentinel.start()
        url = f"redis+sentinel://:one@127.0.0.1:{sentinel.port}/mymaster"
        index = await opened(f"{url}?sentinel_password=two")
        assert await index.count() == 0
        await index.close()
        for wrong in (url, f"{url}?sentinel_password=one"):
            message = await refusal(wrong, retries=0)
            assert "none of the sentinels" in message
            assert "correct sentinel_username and sentinel_password" in message
        wrong = f"redis+sentinel://:bad@127.0.0.1:{sentinel.port}/mymaster?sentinel_password=two"
        message = await refusal(wrong, retries=0)
        assert "does not accept this user and password" in message
    finally:
        sentinel.kill()
        server.kill()


async def test_tls_for_both(tmp_path: Path, certificates: Path) -> None:
    """``rediss+sentinel://`` asks the sentinels and the server over TLS, by one authority."""
    cert, key = certificates / "cert.pem", certificates / "key.pem"
    (tmp_path / "server").mkdir()
    (tmp_path / "sentinel").mkdir()
    ports = free_port(), free_port()
    common = [f"tls-cert-file {cert}", f"tls-key-file {key}", "tls-auth-clients no"]
    common += [f"tls-ca-cert-file {cert}", "tls-replication yes"]
    lines = [*common, f"tls-port {ports[0]}"]
    arguments = [word for line in lines for word in f"--{line}".split()]
    server = RedisServer(tmp_path / "server", arguments)
    sentinel = SentinelServer(
        tmp_path / "sentinel",
        server,
        settings=[*common, f"tls-port {ports[1]}"],
        master_port=ports[0],
    )
    try:
        try:
            server.start()
        except RuntimeError as error:
            if "Bad directive" not in str(error) and "TLS support" not in str(error):
                raise
            pytest.fail("this server is built without TLS: install redis-server of apt")
        sentinel.start()
        where = f"127.0.0.1:{ports[1]}/mymaster"
        trusted = f"ssl_ca_certs={cert}&ssl_check_hostname=false"
        index = await opened(f"rediss+sentinel://{where}?{trusted}")
        assert await index.count() == 0
        await index.close()
        message = await refusal(f"rediss+sentinel://{where}", IndexRefusedError, retries=0)
        assert "none of the sentinels" in message
        assert "certificate" in message
    finally:
        sentinel.kill()
        server.kill()


@pytest.mark.parametrize(
    ("url", "hosts", "service"),
    [
        ("redis+sentinel://a/news", (("a", 26379),), "news"),
        ("redis+sentinel://a:1,b:2,c/news/3", (("a", 1), ("b", 2), ("c", 26379)), "news"),
        ("rediss+sentinel://bob:x%2Cy@[::1]:7,b/m", (("::1", 7), ("b", 26379)), "m"),
    ],
)
def test_addresses(url: str, hosts: tuple[tuple[str, int], ...], service: str) -> None:
    """Any number of sentinels, each with or without a port, and the name of the master."""
    watch = split_address(url)[1]
    assert watch.hosts == hosts
    assert watch.service == service


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("redis+sentinel://:s3cret@a:1", "name the sentinels and the master"),
        ("redis+sentinel://:s3cret@a:1/", "name the sentinels and the master"),
        ("redis+sentinel://:s3cret@a:x/m", "HOST:PORT"),
        ("redis+sentinel://:s3cret@a,,b/m", "HOST:PORT"),
        (
            "redis+sentinel://:s3cret@a/m/one",
            "what follows the port must be the number of a database",
        ),
        ("redis+sentinel://:s3cret@a/m?timeout=3", "no option 'timeout'"),
        ("redis+sentinel://:s3cret@a/m?ssl_ca_certs=x", "no option 'ssl_ca_certs'"),
    ],
)
def test_unusable_addresses(url: str, fix: str) -> None:
    """Errors name the setting and the way to write it, never with the password."""
    with pytest.raises(OptionsError) as caught:
        RedisIndex(Options(index_url=url))
    assert fix in str(caught.value)
    assert "DEDUP_INDEX_URL" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_index_of_a_watched_server_is_the_same(watched: Watched) -> None:
    """The address of the master itself and that of its sentinels lead to one index."""
    one, two = await opened(watched.url), await opened(watched.master.url)
    assert await one.commit(await claimed(one))
    assert await two.count() == 1
    assert await one.open(PARAMETERS) == await two.open(PARAMETERS)
    await one.close()
    await two.close()
