"""A real cluster that is disturbed: masters die, slots move, replicas take over."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import redis

from dedup_middleware.index.cluster.spread import Spread
from tests.servers import (
    RedisServer,
    cluster_port,
    knows_all_slots,
    running_cluster,
    running_redis,
)

QUICK = ("--cluster-node-timeout", "1500")  # to notice that a node is gone
_PATIENCE = 120.0  # seconds


class Cluster:
    """Masters, and a replica of each unless they keep a log.

    :param replicas: in the order of their masters
    """

    def __init__(self, masters: Sequence[RedisServer], replicas: Sequence[RedisServer]) -> None:
        self.masters = list(masters)
        self.replicas = list(replicas)

    @property
    def url(self) -> str:
        """The address that names all nodes."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (*self.masters, *self.replicas))
        return f"redis+cluster://{hosts}"

    def slots(self, spread: Spread) -> list[int]:
        """The slot of each shard of an index."""
        with self.masters[0].client() as client:
            return [
                client.execute_command("CLUSTER KEYSLOT", spread.prefix(shard))
                for shard in range(spread.shards)
            ]

    def has_all_slots(self) -> bool:
        """Whether all running nodes have the complete map of slots."""
        try:
            for server in self.masters:
                with server.client() as client:
                    if not knows_all_slots(client):
                        return False
        except redis.RedisError:
            return False
        return True

    def await_all_slots(self) -> None:
        """Wait until all running nodes have the complete map of slots."""
        _await(self.has_all_slots, "the cluster does not recover")

    def fail_over(self, number: int) -> None:
        """Kill a master and wait until its replica has its slots."""
        self.masters[number].kill()
        follower = self.replicas[number]

        def leads() -> bool:
            with follower.client() as client:
                return bool(client.info("replication")["role"] == "master")

        _await(leads, "the replica does not take over")
        self.masters[number] = follower
        self.await_all_slots()

    def move(self, slot: int, target: int) -> bool:
        """Move a slot to another master key by key, as the servers' own tools do.

        :returns: whether it moved; what a master that dies meanwhile interrupts is gone on with
        """
        began = time.monotonic()
        while True:
            with contextlib.suppress(redis.RedisError, OSError):
                return self._move(slot, target)
            if time.monotonic() > began + _PATIENCE:
                raise TimeoutError(f"slot {slot} does not move")
            time.sleep(0.1)

    def _move(self, slot: int, target: int) -> bool:
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(server.client(socket_timeout=10)) for server in self.masters
            ]
            names = [client.execute_command("CLUSTER MYID").decode() for client in clients]
            owners = [_owner(client, slot) for client in clients]
            # A move interrupted after the first SETSLOT NODE has ended only for its target.
            if owners[target] != names[target]:
                source = names.index(owners[target])
                importing = ("CLUSTER SETSLOT", slot, "IMPORTING", names[source])
                clients[target].execute_command(*importing)
                migrating = ("CLUSTER SETSLOT", slot, "MIGRATING", names[target])
                clients[source].execute_command(*migrating)
                self._move_keys(slot, clients[source], self.masters[target].port)
            elif all(owner == names[target] for owner in owners):
                return False
            for client in (clients[target], *clients):
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[target])
        return True

    def _move_keys(self, slot: int, source: redis.Redis, port: int) -> None:
        while keys := source.execute_command("CLUSTER GETKEYSINSLOT", slot, 20):
            for key in keys:
                # After an interruption both may have a key; its source then serves it.
                source.migrate("127.0.0.1", port, key, 0, 5000, replace=True)
                time.sleep(0.002)


def _owner(client: redis.Redis, slot: int) -> str:
    for first, last, node, *_ in client.execute_command("CLUSTER SLOTS"):
        if first <= slot <= last:
            return str(node[2].decode())
    raise redis.ClusterDownError(f"slot {slot} belongs to no node")


def _await(is_so: object, else_: str) -> None:
    assert callable(is_so)
    deadline = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if is_so():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(else_)
        time.sleep(0.05)


@contextlib.contextmanager
def logging_cluster(folder: Path, count: int = 3) -> Iterator[Cluster]:
    """Masters that write their append-only file to disk before they reply."""
    log = ("--appendonly", "yes", "--appendfsync", "always")
    with running_cluster(folder, count, *QUICK, *log) as masters:
        yield Cluster(masters, [])


@contextlib.contextmanager
def replicated_cluster(folder: Path, count: int = 3) -> Iterator[Cluster]:
    """Masters with a replica each."""
    with running_cluster(folder, count, *QUICK) as masters, contextlib.ExitStack() as stack:
        replicas = []
        for i, master in enumerate(masters):
            own = folder / f"replica-{i}"
            own.mkdir()
            options = ("--cluster-enabled", "yes", *QUICK)
            replica = stack.enter_context(running_redis(own, *options, port=cluster_port()))
            _follow(replica, master)
            replicas.append(replica)
        everybody = [*masters, *replicas]
        _await(lambda: all(_knows_all(one, everybody) for one in everybody), "nodes are missing")
        yield Cluster(masters, replicas)


def _follow(replica: RedisServer, master: RedisServer) -> None:
    with replica.client() as own, master.client() as other:
        name = other.execute_command("CLUSTER MYID").decode()
        own.execute_command("CLUSTER MEET", "127.0.0.1", master.port)

        def follows() -> bool:
            if own.info("replication")["role"] == "master":
                own.execute_command("CLUSTER REPLICATE", name)  # refused until it knows the node
            return bool(own.info("replication").get("master_link_status") == "up")

        _await(follows, "the replica does not follow")


def _knows_all(server: RedisServer, everybody: Sequence[RedisServer]) -> bool:
    with server.client() as client:
        nodes = client.execute_command("CLUSTER NODES")
        flags = [str(node["flags"]) for node in nodes.values()]
        return (
            knows_all_slots(client)
            and len(nodes) == len(everybody)
            and sum("slave" in one for one in flags) == len(everybody) // 2
        )


class Mover:
    """Moves slots between masters in a thread of its own, one after the other.

    :param slots: the slots to move
    :param pause: seconds between two moves
    :ivar done: how many have moved
    """

    def __init__(
        self, cluster: Cluster, slots: Sequence[int], *, pause: float = 0.5, seed: int = 1
    ) -> None:
        self.done: Counter[str] = Counter()
        self.error: Exception | None = None
        self.lock = threading.Lock()  # held while a slot moves
        self._cluster = cluster
        self._slots = itertools.cycle(slots)
        self._pause = pause
        self._dice = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Mover:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Finish the move that is under way, and move nothing more."""
        self._over.set()
        self._thread.join(2 * _PATIENCE)

    def _run(self) -> None:
        try:
            while not self._over.wait(self._pause):
                slot, masters = next(self._slots), len(self._cluster.masters)
                target = self._dice.randrange(masters)
                with self.lock:  # one of two masters does not have the slot yet
                    moved = any(self._cluster.move(slot, (target + i) % masters) for i in (0, 1))
                self.done["slots moved"] += moved
        except Exception as error:  # seen by the test when it ends
            self.error = error
