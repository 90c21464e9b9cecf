"""Who may use a Redis index: passwords, rights, certificates."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.redis.expiry import remove_expired
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.records import State
from tests.index.claiming import BUCKET_KEYS, entered, states
from tests.index.harness import PARAMETERS, entry, shorten_leases
from tests.index.redis_use import LEASE, RIGHTS, claimed, opened, refusal
from tests.servers import (
    RedisServer,
    cluster_port,
    free_port,
    knows_all_slots,
    running_cluster,
    running_redis,
)


@pytest.mark.parametrize("policy", ["wrong password", "no password", "unknown user"])
async def test_refused_sign_on(
    tmp_path: Path, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused password is reported at once, and no message or log line holds the secret."""
    caplog.set_level(logging.DEBUG)
    user = {"wrong password": ":s3cret@", "no password": "", "unknown user": "bob:s3cret@"}[policy]
    with running_redis(tmp_path, "--requirepass", "right") as server:
        url = f"redis://{user}127.0.0.1:{server.port}/0"
        message = await refusal(url, retries=100)
    assert "DEDUP_INDEX_URL" in message
    assert "password" in message
    assert "s3cret" not in message + caplog.text


async def test_server_with_a_renamed_command(tmp_path: Path) -> None:
    """The message says that the configuration has renamed a command."""
    with running_redis(tmp_path, "--rename-command", "EVALSHA", "OTHER") as server:
        message = await refusal(server.url, retries=0)
    assert "rename-command" in message


async def test_user_with_the_smallest_rights(own_server: RedisServer) -> None:
    """The rights that the documentation lists are enough for everything but the size."""
    with own_server.client() as admin:
        admin.execute_command(
            "ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup}*", *RIGHTS.split()
        )
    index = await opened(f"redis://crawler:pw@127.0.0.1:{own_server.port}/0")
    held, given_back = await claimed(index), await claimed(index)
    assert await index.renew([held], LEASE) == [True]
    assert await index.commit(held)
    assert await index.release(given_back)
    assert await index.addresses([held.page_id]) == [None]
    stats = await index.stats()
    assert (stats.committed, stats.released) == (1, 1)
    assert stats.bytes > 0
    # A changed page whose row is replaced is forgotten by the crawl itself.
    assert await index.forget([held.page_id]) == 1
    stats = await index.stats()
    assert (stats.committed, stats.released) == (0, 2)
    await index.close()


async def test_rights_for_upkeep(own_server: RedisServer) -> None:
    """A window, forgetting and compacting need six more rights."""
    with own_server.client() as admin:
        rights = [*RIGHTS.split(), "+scan", "+unlink", "+decrby", "+hexists", "+hlen", "+mget"]
        admin.execute_command("ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup}*", *rights)
    url = f"redis://crawler:pw@127.0.0.1:{own_server.port}/0"
    index = RedisIndex(Options(index_url=url), window=1000.0)
    await index.open(PARAMETERS)
    claim = await claimed(index)
    await index.commit(claim)
    assert not await index.expiring(claim.page_id)
    assert await index.forget([claim.page_id]) == 1
    assert await index.compact() == len(BUCKET_KEYS)
    await remove_expired(index, 1 << 31)
    assert (await index.stats()).buckets == 0
    await index.close()


async def test_rights_for_exact_bytes_and_another_database(own_server: RedisServer) -> None:
    """Four more rights let the size be measured, and one leads to a database other than 0."""
    with own_server.client() as admin:
        rights = [*RIGHTS.split(), "+select"]
        admin.execute_command("ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup}*", *rights)
        index = await opened(f"redis://crawler:pw@127.0.0.1:{own_server.port}/3")
        await claimed(index)
        without = (await index.stats()).bytes
        admin.execute_command(
            "ACL", "SETUSER", "crawler", "+scan", "+hscan", "+hlen", "+memory|usage"
        )
        assert (await index.stats()).bytes > without > 0
        await index.close()


async def test_user_without_a_right(own_server: RedisServer) -> None:
    """A missing right is named, at start as well as later."""
    with own_server.client() as admin:
        admin.execute_command(
            "ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup}*", *RIGHTS.split()
        )
        url = f"redis://crawler:pw@127.0.0.1:{own_server.port}/0"
        index = await opened(url)
        admin.execute_command("ACL", "SETUSER", "crawler", "-hset")
        with pytest.raises(IndexUnavailableError, match="lacks a right"):
            await claimed(index)
        await index.close()
        admin.execute_command("ACL", "SETUSER", "crawler", "-eval", "-evalsha")
        assert "lacks a right" in await refusal(url)
        elsewhere = await refusal(url, namespace="elsewhere")
        assert "lacks a right" in elsewhere


async def test_clock_went_back_and_the_user_may_not_write_leases(own_server: RedisServer) -> None:
    """A client that reads a lease that is too long shortens it; one without the right leaves it as
    it is."""
    with own_server.client() as admin:
        admin.execute_command(
            "ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup}*", *RIGHTS.split()
        )
        index = await opened(f"redis://crawler:pw@127.0.0.1:{own_server.port}/0")
        claim = await claimed(index)
        shorten_leases(admin, b"{dedup}", -3_600)
        lease = admin.hgetall("{dedup}leases")
        admin.execute_command("ACL", "SETUSER", "crawler", "-hset")
        assert await states(index, claim.page_id) == [State.PENDING]
        assert admin.hgetall("{dedup}leases") == lease
        admin.execute_command("ACL", "SETUSER", "crawler", "+hset")
        assert await states(index, claim.page_id) == [State.PENDING]
        assert admin.hgetall("{dedup}leases") != lease
        assert await index.commit(claim)
        await index.close()


async def test_clock_of_a_replica_is_behind(own_server: RedisServer, tmp_path: Path) -> None:
    """What only reads may be sent there, as long as no lease has run out."""
    index = await opened(own_server.url)
    claim = await claimed(index)
    with running_redis(tmp_path) as replica, own_server.client() as admin:
        shorten_leases(admin, b"{dedup}", -3_600)
        with replica.client() as client:
            client.replicaof("127.0.0.1", own_server.port)
        own_server.await_replica()
        reader = RedisIndex(Options(index_url=replica.url, retries=0))
        await reader.attach()
        assert await states(reader, claim.page_id) == [State.PENDING]
        await reader.close()
    await index.close()


@pytest.fixture
def tls_server(tmp_path: Path, certificates: Path) -> Iterator[tuple[int, int]]:
    """A server: its port without TLS, and that with it."""
    cert, key = certificates / "cert.pem", certificates / "key.pem"
    server = RedisServer(
        tmp_path,
        ["--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-auth-clients", "no"],
    )
    port = free_port()
    server._arguments += ["--tls-port", str(port)]
    try:
        server.start()
    except RuntimeError as error:
        if "Bad directive" not in str(error) and "TLS support" not in str(error):
            raise
        pytest.fail("this server is built without TLS: install redis-server of apt")
    yield server.port, port
    server.kill()


async def test_tls(tls_server: tuple[int, int], certificates: Path) -> None:
    """``rediss://`` works with the right certificate; a wrong one, a name that is not in it, or an
    address that speaks TLS where the port does not, or the reverse, is refused at once."""
    plain, port = tls_server
    trusted = f"ssl_ca_certs={certificates / 'cert.pem'}"
    index = await opened(f"rediss://localhost:{port}/0?{trusted}")
    assert isinstance(await claimed(index), Claim)
    await index.close()
    index = await opened(f"rediss://127.0.0.1:{port}/0?{trusted}&ssl_check_hostname=false")
    await index.close()
    for wrong in (f"rediss://localhost:{port}/0", f"rediss://127.0.0.1:{port}/0?{trusted}"):
        assert "certificate" in await refusal(wrong, retries=50)
    assert "begin it with rediss://" in await refusal(f"redis://localhost:{port}/0")
    assert "begin it with redis://" in await refusal(f"rediss://localhost:{plain}/0")


async def test_tls_of_clusters_and_sentinels(tls_server: tuple[int, int]) -> None:
    """An address of a cluster or of sentinels gets the same message; one that needs a certificate
    is told so."""
    plain, tls = tls_server
    for kind, rest in (("cluster", ""), ("sentinel", "/news/0")):
        text = await refusal_at_start(f"rediss+{kind}://localhost:{plain}{rest}")
        assert f"speaks no TLS, and the address begins with rediss+{kind}://" in text
        assert f"begin it with redis+{kind}://" in text
        text = await refusal_at_start(f"redis+{kind}://localhost:{tls}{rest}")
        assert f"begin it with rediss+{kind}://" in text
    assert "certificate" in await refusal_at_start(f"rediss+cluster://localhost:{tls}")
    assert "?ssl_ca_certs=" in await refusal_at_start(f"rediss+sentinel://localhost:{tls}/news/0")


async def test_error_of_a_cluster_is_not_that_of_a_server_without_one(tmp_path: Path) -> None:
    """A node that refuses the user names the right; one that is busy is waited for."""
    with running_redis(
        tmp_path, "--cluster-enabled", "yes", "--busy-reply-threshold", "100"
    ) as server:
        address = f"127.0.0.1:{server.port}"
        with Redis(port=server.port) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            client.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-cluster")
            text = await refusal_at_start(f"redis+cluster://u:p@{address}")
            assert "right" in text
            assert "leave +cluster out" not in text
            busy = threading.Thread(target=_loop, args=(server.port,))
            busy.start()
            try:
                await asyncio.sleep(0.5)
                index = open_index(Options(index_url=f"redis+cluster://{address}", retries=0))
                with pytest.raises(IndexUnavailableError, match="busy with a script"):
                    await index.open({"a": "b"})
                await index.close()
            finally:
                client.script_kill()
                busy.join()


def _loop(port: int) -> None:
    """Run a script that does not end by itself."""
    with Redis(port=port) as client, contextlib.suppress(ResponseError):
        client.eval("while true do end", 0)


async def test_server_of_another_kind(tmp_path: Path) -> None:
    """A server that is no cluster, no sentinel or no Redis, or that does not accept the password,
    is refused at the start: waiting would not help."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"<html>")
        await reader.read()  # until the client is gone
        writer.close()

    with running_redis(tmp_path, "--requirepass", "right") as server:
        place = f"127.0.0.1:{server.port}"
        text = await refusal_at_start(f"redis+cluster://:right@{place}")
        assert "not a node of a cluster: leave +cluster out" in text
        text = await refusal_at_start(f"redis+cluster://:s3cret@{place}")
        assert "password: correct" in text
        assert "s3cret" not in text
        address = f"redis+sentinel://{place}/news/0"
        assert "correct sentinel_username and sentinel_pass" in await refusal_at_start(address)
        address += "?sentinel_password=right"
        assert "name sentinels, whose port" in await refusal_at_start(address)
    web = await asyncio.start_server(page, "127.0.0.1", 0)
    async with web:
        place = f"127.0.0.1:{web.sockets[0].getsockname()[1]}"
        text = await refusal_at_start(f"redis+cluster://{place}")
        assert "not that of a Redis server" in text
        text = await refusal_at_start(f"redis+sentinel://{place}/news/0")
        assert "name sentinels" in text


async def test_one_node_is_down_and_one_of_another_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The node of a wrong kind is named, in whatever order they are tried; a node that is down may
    come back, and is skipped. If one leads to the cluster it is used, and the log says once why the
    others are not."""
    down = f"127.0.0.1:{free_port()}"
    (tmp_path / "node").mkdir()
    with (
        running_redis(tmp_path, "--requirepass", "right") as server,
        running_redis(tmp_path / "node", "--cluster-enabled", "yes") as node,
    ):
        other = f"127.0.0.1:{server.port}"
        for _ in range(3):  # redis-py asks in random order
            text = await refusal_at_start(f"redis+cluster://:right@{down},{other}")
            assert f"{other}: it is not a node of a cluster" in text
            assert "correct its host and port" in text
            text = await refusal_at_start(f"redis+cluster://:wrong@{other},{down}")
            assert f"{other}: it does not accept this user and password" in text
        index = open_index(Options(index_url=f"redis+cluster://{down},{down}", retries=0))
        with pytest.raises(IndexUnavailableError, match="Start the server"):
            await index.open({"a": "b"})
        await index.close()
        with Redis(port=node.port) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            client.execute_command("CONFIG", "SET", "requirepass", "right")
        good = f"127.0.0.1:{node.port}"
        for _ in range(3):
            address = f"redis+cluster://:right@{down},{other},{good}"
            # It takes a moment until the node finds that all slots are there.
            index = open_index(Options(index_url=address, retries=20))
            caplog.clear()
            await index.open({"a": "b"})
            assert await index.count() == 0
            await index.close()
            first, second = (one.getMessage() for one in caplog.records)
            assert first.startswith(f"The node {down} of DEDUP_INDEX_URL=")
            assert second.startswith(f"The node {other} of DEDUP_INDEX_URL=")
            assert "not a node of a cluster" in second
            assert "right@" not in first + second


async def test_nodes_of_two_clusters(tmp_path: Path) -> None:
    """They are refused, as it would be up to chance which cluster is used."""
    with contextlib.ExitStack() as stack:
        ports = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            masters = stack.enter_context(running_cluster(tmp_path / name, 2))
            ports.append([server.port for server in masters])
        (one, same), (two, _) = ports
        address = f"redis+cluster://127.0.0.1:{one},localhost:{same},127.0.0.1:{two}"
        text = await refusal_at_start(address)
        assert f"127.0.0.1:{one} and 127.0.0.1:{two} are nodes of different clusters" in text
        index = open_index(Options(index_url=address.rpartition(",")[0]))
        await index.open({"a": "b"})
        await index.close()


async def test_first_master_is_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The others of its cluster can be used, so that one of another cluster among them is refused
    as always, and an index whose parts they hold opens."""
    with contextlib.ExitStack() as stack:
        (tmp_path / "other").mkdir()
        options = "--cluster-require-full-coverage", "no"
        first, *others = stack.enter_context(running_cluster(tmp_path, 3, *options))
        (strange,) = stack.enter_context(running_cluster(tmp_path / "other", 1))
        places = [f"127.0.0.1:{server.port}" for server in (first, *others, strange)]
        first.kill()
        for some in (places, places[1:]):
            text = await refusal_at_start("redis+cluster://" + ",".join(some))
            assert f"{places[1]} and {places[3]} are nodes of different clusters" in text
        with strange.client() as client:
            assert client.dbsize() == 0
        name = next(f"n{i}" for i in range(100) if key_slot(b"{n%d:0}" % i) > 5461)
        address = "redis+cluster://" + ",".join(places[:3])
        index = open_index(Options(index_url=address, namespace=name, shards=1, retries=0))
        await index.open(PARAMETERS)
        assert await index.commit(await entered(index, entry(BUCKET_KEYS)))
        await index.close()
    (said,) = caplog.messages
    assert said.startswith(f"The node {places[0]} of DEDUP_INDEX_URL=")


async def test_unusable_node_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However often the opening is tried; and not before it works: the crawl goes on then."""
    (tmp_path / "server").mkdir()
    with (
        running_cluster(tmp_path, 3) as masters,
        running_redis(tmp_path / "server") as server,
    ):
        places = [f"127.0.0.1:{one.port}" for one in (*masters, server)]
        address = "redis+cluster://" + ",".join(places)
        index = open_index(Options(index_url=address, retries=0))
        masters[2].kill()
        for _ in range(3):
            with pytest.raises(IndexUnavailableError):
                await index.open(PARAMETERS)
        assert not caplog.messages
        masters[2].start()
        with masters[2].client() as client:
            while not knows_all_slots(client):
                await asyncio.sleep(0.05)
        for _ in range(2):
            await index.open(PARAMETERS)
        await index.close()
    (said,) = caplog.messages
    assert said.startswith(f"The node {places[3]} of DEDUP_INDEX_URL=")


async def test_slow_nodes_hold_up_no_start(
    cluster_masters: list[RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    """A node of the address has a few seconds for all its replies together."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                await asyncio.sleep(0.7)
                writer.write(b"+OK\r\n" * 2)
                await writer.drain()
        writer.close()

    answering: list[asyncio.Task[None] | None] = []

    slow = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with slow:
        place = f"127.0.0.1:{slow.sockets[0].getsockname()[1]}"
        hosts = ",".join((place, *(f"127.0.0.1:{one.port}" for one in cluster_masters)))
        options = Options(index_url=f"redis+cluster://{hosts}", namespace="slow", timeout=1)
        index = open_index(options)
        await index.open(PARAMETERS)
        await index.close()
        await asyncio.gather(*filter(None, answering))
    (said,) = caplog.messages
    assert f"The node {place} of DEDUP_INDEX_URL=" in said
    assert "no answer within 1 seconds" in said


async def test_cluster_without_slots(tmp_path: Path) -> None:
    """If no node has slots a crawl reports that the cluster is down."""
    with running_redis(tmp_path, "--cluster-enabled", "yes", port=cluster_port()) as node:
        place = f"127.0.0.1:{node.port}"
        for address in (place, f"{place},localhost:{node.port}"):
            index = open_index(Options(index_url=f"redis+cluster://{address}", retries=0))
            with pytest.raises(IndexUnavailableError, match="the cluster is down"):
                await index.open(PARAMETERS)
            await index.close()


async def refusal_at_start(url: str) -> str:
    """Return the message with which a crawl refuses an address of any kind."""
    index = open_index(Options(index_url=url, retries=2))
    try:
        with pytest.raises(IndexRefusedError) as caught:
            await index.open(PARAMETERS)
    finally:
        await index.close()
    return str(caught.value)
