"""Writes an index of schema 1, byte by byte as version 0.1 did."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path

import attrs
import redis

PARAMETERS = {"hash_key": "00" * 16, "bands": "1x3", "method": "content"}
_ROWS, _ADDRESSES = 273, 32_762
_MASK = (1 << 64) - 1


@attrs.frozen
class OldPage:
    """A page: 3 is released, 2 committed, 1 pending."""

    number: int
    key: int
    simhash: int
    band: int
    numerals: int = 0
    state: int = 2
    address: bytes = b""

    @property
    def content(self) -> bytes:
        """Its 112 bytes."""
        sketch = [self.key ^ i for i in range(8)]
        fields = (100 + self.number, self.numerals, 0, self.simhash, self.key ^ 7, self.key, 1, 2)
        return struct.pack("<IHHQQQ2Q8Q", *fields, *sketch)


def buckets_of(pages: Sequence[OldPage]) -> dict[int, bytes]:
    """Records of 16 bytes in the four SimHash tables, of 8 elsewhere."""
    buckets: dict[int, bytes] = {}
    for page in pages:
        for table, value in ((0, page.key), (6, page.band)):
            place = table << 16 | value >> 48
            record = page.number.to_bytes(5, "little") + (value >> 24 & 0xFFFFFF).to_bytes(
                3, "little"
            )
            buckets[place] = buckets.get(place, b"") + record
        for i in range(4):
            turned = (page.simhash << 16 * i | page.simhash >> 64 - 16 * i) & _MASK
            place = 2 + i << 16 | turned >> 48
            buckets[place] = buckets.get(place, b"") + struct.pack("<QQ", page.simhash, page.number)
    return buckets


def write_sqlite(path: Path, pages: Sequence[OldPage], generation: int = 0) -> None:
    """A file."""
    db = sqlite3.connect(path)
    with db:
        for statement in (
            "CREATE TABLE parameter (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
            "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
            "CREATE TABLE bucket (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
            "CREATE TABLE page (number INTEGER PRIMARY KEY AUTOINCREMENT, state INTEGER NOT NULL, "
            "content BLOB NOT NULL, address BLOB)",
            "CREATE TABLE generation (id INTEGER PRIMARY KEY, first INTEGER NOT NULL)",
            "CREATE TABLE lease (number INTEGER PRIMARY KEY, token BLOB NOT NULL, "
            "until REAL NOT NULL)",
            "PRAGMA user_version = 1",
            f"PRAGMA application_id = {0x44456475}",
        ):
            db.execute(statement)
        db.executemany("INSERT INTO parameter VALUES (?, ?)", PARAMETERS.items())
        db.executemany(
            "INSERT INTO page VALUES (?, ?, ?, ?)",
            [(page.number, page.state, page.content, page.address or None) for page in pages],
        )
        db.executemany(
            "INSERT INTO bucket VALUES (?, ?)",
            [(generation << 24 | place, raw) for place, raw in buckets_of(pages).items()],
        )
    db.close()


def write_redis(
    client: redis.Redis, namespace: str, pages: Sequence[OldPage], generations: Sequence[int] = ()
) -> None:
    """A namespace; with a window if there are generations, which share the pages."""
    prefix = b"{" + namespace.encode() + b"}"
    client.set(prefix + b"schema", "1")
    client.hset(prefix + b"parameters", mapping=PARAMETERS)
    firsts = [len(pages) * i // len(generations) for i in range(len(generations))]
    if generations:
        client.hset(prefix + b"parameters", "window", "3600")
    end = 0
    for i, page in enumerate(pages):
        if i in firsts:
            raw = page.number.to_bytes(6, "little") + end.to_bytes(6, "little")
            client.hset(prefix + b"generations", generations[firsts.index(i)], raw)
        if end % _ADDRESSES + len(page.address) > _ADDRESSES:
            end += _ADDRESSES - end % _ADDRESSES
        chunk = prefix + b"a" + (end // _ADDRESSES).to_bytes(4, "little")
        client.setrange(chunk, end % _ADDRESSES, page.address)
        tail = struct.pack("<BH", page.state, len(page.address)) + end.to_bytes(5, "little")
        rows = prefix + b"s" + (page.number // _ROWS).to_bytes(4, "little")
        client.setrange(rows, page.number % _ROWS * 120, page.content + tail)
        end += len(page.address)
    last = max(page.number for page in pages)
    counters = (last, end, len(buckets_of(pages)), 0, 0)
    raw = b"".join(value.to_bytes(6, "little") for value in counters)
    client.set(prefix + b"counters", raw)
    client.set(prefix + b"committed", sum(page.state == 2 for page in pages))
    ends = [generation.to_bytes(4, "big") for generation in generations] or [b""]
    for first, last, name in zip(firsts or [0], [*firsts[1:], len(pages)], ends, strict=True):
        for place, raw in buckets_of(pages[first:last]).items():
            client.set(prefix + place.to_bytes(3, "big") + name, raw)
