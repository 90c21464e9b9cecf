"""Damages an index behind its back: flipped bits, wrong types, cut and missing values."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from dedup_middleware.index.redis.scripts import COUNTER, COUNTERS
from dedup_middleware.model.records import PAGE_ID_MASK
from tests.servers import RedisServer

_IDENTITY = ("schema", "parameters")  # without them the index is refused, and the crawl not started

_COUNTERS = COUNTER * COUNTERS + 8  # bytes of the key that holds them, with the epoch


def _last_page(counters: bytes) -> int:
    return int.from_bytes(counters[:COUNTER], "little")


def _are_usable(counters: bytes, last: int) -> bool:
    """Whether the index can be opened with its counters, and take more pages: of another length
    each call finds them gone, too large ones leave no page id or no room for texts, and below the
    last page there is no id that none has."""
    text_end = int.from_bytes(counters[COUNTER : 2 * COUNTER], "little")
    has_room = last <= _last_page(counters) < PAGE_ID_MASK and text_end < PAGE_ID_MASK
    return len(counters) == _COUNTERS and has_room


def flipped(raw: bytes, rng: random.Random) -> bytes:
    """Some bytes with one to eight bits turned round."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 8) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


class RedisDamage:
    """Damages a random key of the namespace; what keeps everything from working is healed later.

    :ivar done: how often each kind of damage was done
    """

    def __init__(self, server: RedisServer, namespace: str = "dedup") -> None:
        self._server = server
        self._prefix = b"{" + namespace.encode() + b"}"
        self._identity: dict[bytes, bytes] = {}  # name to what DUMP gave
        self._strange: set[bytes] = set()  # keys of a wrong type
        self._last = 0  # page id, before the counters were damaged
        self.done: Counter[str] = Counter()

    def strike(self, rng: random.Random) -> None:
        """Do one kind of damage to one key."""
        with self._server.client() as client:
            if rng.random() < 0.5:
                self._heal(client)
            self._remember(client)
            name = client.randomkey()
            if name is None or not name.startswith(self._prefix) or self._is_unknown(name):
                return
            kinds: list[Callable[[redis.Redis, bytes, random.Random], None]]
            kinds = [self.flip, self.flip, self.flip, self.flip, self.cut, self.lose, self.mistype]
            kind = rng.choice(kinds)
            with contextlib.suppress(redis.ResponseError):  # it has become another type meanwhile
                kind(client, name, rng)
                self.done[kind.__name__] += 1

    def _is_unknown(self, name: bytes) -> bool:
        """Whether a key tells which index this is and was made after the last `_remember`."""
        parts = {self._prefix + part.encode() for part in _IDENTITY}
        return name in parts and name not in self._identity

    def heal(self) -> None:
        """Take out what has a wrong type, and give back what tells which index this is."""
        with self._server.client() as client:
            self._heal(client)

    def _heal(self, client: redis.Redis) -> None:
        for name in self._strange:
            client.delete(name)
        self._strange.clear()
        for name, dump in self._identity.items():
            client.restore(name, 0, dump, replace=True)
        if self._identity and not _are_usable(self._counters(client), self._last):
            # Without them the index is out of use, and only setting it up anew helps.
            for name in client.scan_iter(self._prefix + b"*", 1000):
                client.delete(name)
            self._last = 0
            self.done["set up anew"] += 1

    def _counters(self, client: redis.Redis) -> bytes:
        try:
            return client.get(self._prefix + b"counters") or b""
        except redis.ResponseError:
            return b""

    def _remember(self, client: redis.Redis) -> None:
        counters = self._counters(client)
        if _are_usable(counters, self._last):
            self._last = _last_page(counters)
        for part in _IDENTITY:
            name = self._prefix + part.encode()
            if name not in self._identity and (dump := client.dump(name)):
                self._identity[name] = dump

    def flip(self, client: redis.Redis, name: bytes, rng: random.Random) -> None:
        """Turn bits of a string, or of a field of a hash."""
        self._change(client, name, lambda raw: flipped(raw, rng))

    def cut(self, client: redis.Redis, name: bytes, rng: random.Random) -> None:
        """Leave out the end, or add some rubbish."""
        rubbish = rng.randbytes(rng.randint(1, 20))
        self._change(
            client,
            name,
            lambda raw: raw + rubbish if rng.random() < 0.5 else raw[: rng.randint(0, len(raw))],
        )

    def lose(self, client: redis.Redis, name: bytes, rng: random.Random) -> None:
        """Delete a key, or a field of it."""
        field = client.hrandfield(name) if client.type(name) == b"hash" else None
        if field is None or rng.random() < 0.2:
            client.delete(name)
        else:
            client.hdel(name, field)  # type: ignore[arg-type]

    def mistype(self, client: redis.Redis, name: bytes, rng: random.Random) -> None:
        """Put something of another type in the place of a key."""
        kind = client.type(name)
        client.delete(name)
        self._strange.add(name)
        if kind != b"list" and rng.random() < 0.5:
            client.rpush(name, b"x")
        elif kind == b"string":
            client.hset(name, "x", "y")
        else:
            client.set(name, rng.randbytes(40))

    def _change(self, client: redis.Redis, name: bytes, change: Callable[[bytes], bytes]) -> None:
        kind = client.type(name)
        if kind == b"string":
            client.set(name, change(client.get(name) or b""))
        elif kind == b"hash":
            field: Any = client.hrandfield(name)
            if field is not None:  # the last field may be gone by now
                client.hset(name, field, change(client.hget(name, field) or b""))


class SQLiteDamage:
    """Damages a random value of a random row of the file, while others use it.

    :ivar done: how often each kind of damage was done
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: list[tuple[str, list[tuple[Any, ...]]]] = []
        self.done: Counter[str] = Counter()

    def strike(self, rng: random.Random) -> None:
        """Do one kind of damage."""
        if not self._path.exists():
            return
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as db, db:
            if rng.random() < 0.5:
                self._heal(db)
            tables = [
                name
                for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if not name.startswith("sqlite_")
            ]
            self._remember(db, tables)
            if tables:
                self._damage(db, rng.choice(tables), rng)

    def _damage(self, db: sqlite3.Connection, table: str, rng: random.Random) -> None:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        if not count:
            return
        at = rng.randrange(count)
        row = db.execute(f"SELECT * FROM {table} LIMIT 1 OFFSET {at}").fetchone()
        column = rng.randrange(len(columns))
        kind, value = _strange_value(row[column], rng)
        where = " AND ".join(f"{name} IS ?" for name in columns)
        with contextlib.suppress(sqlite3.IntegrityError):
            if rng.random() < 0.1:
                kind = "lose"
                db.execute(f"DELETE FROM {table} WHERE {where}", row)
            else:
                db.execute(f"UPDATE {table} SET {columns[column]} = ? WHERE {where}", (value, *row))
            self.done[kind] += 1

    def heal(self) -> None:
        """Give back what tells which index this is."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as db, db:
            self._heal(db)

    def _remember(self, db: sqlite3.Connection, tables: list[str]) -> None:
        if not self._identity:
            for table in tables:
                if table == "parameter":
                    rows = db.execute(f"SELECT * FROM {table}").fetchall()
                    self._identity.append((table, rows))

    def _heal(self, db: sqlite3.Connection) -> None:
        for table, rows in self._identity:
            db.execute(f"DELETE FROM {table}")
            for row in rows:
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def _strange_value(value: Any, rng: random.Random) -> tuple[str, Any]:
    if rng.random() < 0.2:
        return "mistype", rng.choice([None, "text", 3.5, b"", rng.randbytes(30), -1, 1 << 62])
    if isinstance(value, bytes):
        if rng.random() < 0.2:
            return "cut", value[: rng.randint(0, len(value))]
        return "flip", flipped(value, rng)
    if isinstance(value, int):
        return "flip", value ^ 1 << rng.randrange(62)
    return "mistype", rng.randbytes(12)
