"""Reading an index of schema 1, which version 0.1 wrote, as if it were one of today.

What has changed since: records of SimHash tables held the whole SimHash and a page number of 8
bytes; satellites had a smaller sketch of the figures and no time. The new sketch of the figures
can't be made from the old one. A page without numerals has the empty sketch. Of others it is not
known, so nothing may be dropped because of them: their size is set to 0, which makes them too short
to be compared.
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import IndexRefusedError
from dedup_middleware.index.record_layout import record_parameter
from dedup_middleware.index.records import CONTENT, NUMBER_MASK, Satellites, State
from dedup_middleware.index.redis import RedisIndex
from dedup_middleware.index.redis_expiry import first_numbers
from dedup_middleware.index.schema1_walk import walk_buckets
from dedup_middleware.index.tables import SIMHASH_TABLES, rotate_left
from dedup_middleware.options import Options

SCHEMA1 = "1"
CONTENT1 = np.dtype(
    [
        ("size", "<u4"),
        ("figure_count", "<u2"),
        ("flags", "<u2"),
        ("simhash", "<u8"),
        ("exact", "<u8"),
        ("key", "<u8"),
        ("figures", "<u8", (2,)),
        ("sketch", "<u8", (8,)),
    ]
)
ROW1 = np.dtype(
    [
        ("content", CONTENT1),
        ("state", "u1"),
        ("address_length", "<u2"),
        ("address_offset", "u1", (5,)),
    ]
)
ROWS1 = 273
ADDRESS_CHUNK1 = 32_762
_WIDE1 = np.dtype([("simhash", "<u8"), ("number", "<u8")])
_SAME = ("size", "simhash", "exact", "key", "sketch")
_NO_FIGURES = 0xFF
_PAGES = 10_000
_CHUNKS = 16
_GENERATION = 24  # bits of a bucket's id below its generation
_TABLES = 64


def content_of(old: NDArray[np.void], *, by_figures: bool = True) -> NDArray[np.void]:
    """CONTENT[n] from CONTENT1[n].

    :param by_figures: whether the pages are judged by their figures
    """
    content = np.zeros(len(old), CONTENT)
    for name in _SAME:
        content[name] = old[name]
    content["figures"] = _NO_FIGURES
    if by_figures:
        content["size"][old["figure_count"] > 0] = 0
    return content


def bucket_of(bucket: int, raw: bytes) -> bytes:
    """A bucket with its records as they are written today; bytes that are none are left out."""
    table = bucket >> 16
    if table not in SIMHASH_TABLES:
        return raw[: len(raw) // 8 * 8]
    records = np.frombuffer(raw, _WIDE1, count=len(raw) // _WIDE1.itemsize)
    turn = 16 * (table - SIMHASH_TABLES[0])
    numbers = (records["number"] & np.uint64(NUMBER_MASK)).tolist()
    return b"".join(
        number.to_bytes(5, "little")
        + (rotate_left(simhash, turn) & (1 << 48) - 1).to_bytes(6, "little")
        for simhash, number in zip(records["simhash"].tolist(), numbers, strict=True)
    )


class OldIndex(ABC):
    """What an export needs of an index. Nothing is changed in it, not even leases.

    Pages that are not committed read as released.
    """

    def __init__(self) -> None:
        self.parameters: dict[str, str] = {}

    @property
    def window(self) -> float:
        """That of the index, once attached: its buckets are read in all their generations."""
        return float(self.parameters.get("window", 0))

    @abstractmethod
    async def attach(self) -> dict[str, str]:
        """Connect; its parameters.

        :raises IndexRefusedError: there is no index of schema 1
        """

    @abstractmethod
    def pages(self) -> AsyncIterator[Satellites]:
        """See :meth:`.Index.pages`."""

    @abstractmethod
    def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """See :meth:`.Index.buckets`."""

    @abstractmethod
    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """See :meth:`.Index.addresses`."""

    async def payloads(self, numbers: Sequence[int]) -> list[bytes]:
        """There were none."""
        return [b""] * len(numbers)

    @abstractmethod
    async def close(self) -> None:
        """See :meth:`.Index.close`."""

    def _found(self, schema: str, parameters: dict[str, str], where: str) -> dict[str, str]:
        if schema != SCHEMA1:
            raise IndexRefusedError(
                f"the index at {where} has schema {schema!r}: only one of schema {SCHEMA1} is "
                "migrated; this version opens its own ones as they are"
            )
        self.parameters = record_parameter(parameters)
        return dict(self.parameters)

    def _satellites(
        self, numbers: NDArray[np.uint64], content: NDArray[np.void], states: NDArray[np.uint8]
    ) -> Satellites:
        by_figures = self.parameters.get("method") != "simhash"
        committed = states == State.COMMITTED
        shown = np.where(committed, np.uint8(State.COMMITTED), np.uint8(State.RELEASED))
        return Satellites(numbers, content_of(content, by_figures=by_figures), shown)


class OldSQLite(OldIndex):
    """A file of schema 1."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._db: sqlite3.Connection | None = None

    async def attach(self) -> dict[str, str]:
        """See :meth:`.OldIndex.attach`."""
        where = f"sqlite:{self._path}"
        if not Path(self._path).exists():
            raise IndexRefusedError(f"there is no index at {where}")
        if self._db is None:
            self._db = sqlite3.connect(self._path, check_same_thread=False)
        try:
            (schema,) = self._db.execute("PRAGMA user_version").fetchone()
            rows = self._db.execute("SELECT name, value FROM parameter").fetchall()
        except sqlite3.Error as error:
            raise IndexRefusedError(f"there is no index at {where}: {error}") from error
        return self._found(str(schema), dict(rows), where)

    async def _rows(self, query: str, *values: int) -> list[tuple[int, bytes, int]]:
        db = self._db
        assert db is not None
        return await asyncio.to_thread(lambda: db.execute(query, values).fetchall())

    async def pages(self) -> AsyncIterator[Satellites]:
        """See :meth:`.Index.pages`."""
        query = (
            "SELECT number, content, state FROM page WHERE number > ? AND length(content) = ? "
            f"ORDER BY number LIMIT {_PAGES}"
        )
        last = 0
        while rows := await self._rows(query, last, CONTENT1.itemsize):
            last = rows[-1][0]
            yield self._satellites(
                np.array([row[0] for row in rows], np.uint64),
                np.frombuffer(b"".join(row[1] for row in rows), CONTENT1),
                np.array([row[2] for row in rows], np.uint8),
            )

    async def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """See :meth:`.Index.buckets`."""
        generations = await self._rows(
            f"SELECT DISTINCT id >> {_GENERATION}, x'', 0 FROM bucket ORDER BY 1"
        )
        query = "SELECT id, CAST(data AS BLOB), 0 FROM bucket WHERE id >= ? AND id < ?"
        for table in range(_TABLES):
            found: dict[int, bytes] = {}
            for generation, *_ in generations:
                base = generation << _GENERATION
                for number, raw, _ in await self._rows(
                    query, base + (table << 16), base + (table + 1 << 16)
                ):
                    found[number - base] = found.get(number - base, b"") + raw
            for bucket in sorted(found):
                yield bucket, bucket_of(bucket, found[bucket])

    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """See :meth:`.Index.addresses`."""
        found: list[str | None] = []
        for number in numbers:
            rows = await self._rows("SELECT 0, address, 0 FROM page WHERE number = ?", number)
            raw = rows[0][1] if rows else None
            found.append(bytes(raw).decode("utf-8", "replace") if raw else None)
        return found

    async def close(self) -> None:
        """See :meth:`.Index.close`."""
        if self._db is not None:
            self._db.close()
            self._db = None


class OldRedis(OldIndex):
    """A namespace of schema 1."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self._server = RedisIndex(options)
        self._where = f"{options.safe_index_url.partition('?')[0]} ({options.namespace})"

    async def attach(self) -> dict[str, str]:
        """See :meth:`.OldIndex.attach`."""
        server = self._server
        schema = await server.ask(b"GET", server.prefix + b"schema")
        if schema is None:
            raise IndexRefusedError(f"there is no index at {self._where}")
        reply = await server.ask(b"HGETALL", server.prefix + b"parameters")
        pairs = (
            reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
        )
        parameters = {name.decode(): value.decode() for name, value in pairs}
        return self._found(schema.decode(), parameters, self._where)

    async def _chunks(self, chunks: Sequence[int], letter: bytes) -> list[bytes | None]:
        names = [self._server.prefix + letter + one.to_bytes(4, "little") for one in chunks]
        found: list[bytes | None] = await self._server.ask(b"MGET", *names)
        return found

    async def pages(self) -> AsyncIterator[Satellites]:
        """See :meth:`.Index.pages`."""
        every = range((await self._server.counters())[0] // ROWS1 + 1)
        for start in range(0, len(every), _CHUNKS):
            part = every[start : start + _CHUNKS]
            for chunk, raw in zip(part, await self._chunks(part, b"s"), strict=True):
                rows = np.frombuffer(raw or b"", ROW1, count=len(raw or b"") // ROW1.itemsize)
                known = np.flatnonzero((rows["state"] > 0) & (rows["state"] <= State.RELEASED))
                if len(known):
                    yield self._satellites(
                        (known + chunk * ROWS1).astype(np.uint64),
                        rows["content"][known],
                        rows["state"][known],
                    )

    async def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """See :meth:`.Index.buckets`."""
        firsts = await first_numbers(self._server)
        live = range(min(firsts), max(firsts) + 1) if firsts else None
        async for bucket, raw in walk_buckets(self._server, live):
            yield bucket, bucket_of(bucket, raw)

    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """See :meth:`.Index.addresses`."""
        if not numbers:
            return []
        chunks = sorted({number // ROWS1 for number in numbers})
        raw = dict(zip(chunks, await self._chunks(chunks, b"s"), strict=True))
        rows = {
            chunk: np.frombuffer(data or b"", ROW1, count=len(data or b"") // ROW1.itemsize)
            for chunk, data in raw.items()
        }
        places = []
        for number in numbers:
            row = rows[number // ROWS1][number % ROWS1]
            start = int.from_bytes(row["address_offset"].tobytes(), "little")
            places.append((start, int(row["address_length"])))
        wanted = sorted({start // ADDRESS_CHUNK1 for start, length in places if length})
        texts = dict(zip(wanted, await self._chunks(wanted, b"a"), strict=True)) if wanted else {}
        found: list[str | None] = []
        for start, length in places:
            chunk, offset = divmod(start, ADDRESS_CHUNK1)
            text = (texts.get(chunk) or b"")[offset : offset + length] if length else b""
            found.append(text.decode("utf-8", "replace") or None)
        return found

    async def close(self) -> None:
        """See :meth:`.Index.close`."""
        await self._server.close()
