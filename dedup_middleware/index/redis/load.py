"""Entering many stored pages into a Redis server, some in each call, see :class:`.Steps`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.pages import LEASE, Pace, Pages, Records, Steps, bytes_of, lapsed
from dedup_middleware.index.redis.expiry import Server, end_of, field_of, hash_of, pairs_in
from dedup_middleware.index.redis.scripts import FIRST_SECOND, PAYLOAD_BIT, RowLayout, joined_text
from dedup_middleware.model.records import State

if TYPE_CHECKING:
    from dedup_middleware.index.redis.index import RedisIndex

# In one call, which keeps the server for less than a millisecond.
_PAGES = 256
_BUCKETS = 128
_BYTES = 1 << 16  # of text or records
_LOADS = b"loads"


class RedisSteps(Steps):
    """Loads a block into a server."""

    def __init__(self, index: RedisIndex) -> None:
        self.pages = Pace(_PAGES)
        self.buckets = Pace(_BUCKETS)
        self._index = index
        self._span_ms = index._window.span_ms
        self._generation = 0
        self._token = secrets.token_bytes(8)
        self._calls = 0

    async def enter(self, pages: Pages) -> NDArray[np.uint64]:
        layout = self._index.layout
        rows, texts = _rows(pages, layout), [b""] * len(pages)
        if layout.record.text:
            texts = list(map(joined_text, pages.addresses, pages.payloads))
        page_ids = []
        for start, stop in cuts(list(map(len, texts)), _BYTES, len(texts)):
            lengths = np.array([len(text) for text in texts[start:stop]], "<u4").tobytes()
            raw = rows[start:stop].tobytes()
            reply = await self._step("enter", raw, lengths, b"".join(texts[start:stop]))
            first = int.from_bytes(reply, "little")
            page_ids.append(np.arange(first, first + stop - start, dtype=np.uint64))
        return np.concatenate(page_ids)

    async def add(self, records: Records) -> None:
        if not records.buckets:
            return
        end = end_of(self._generation) if self._span_ms else b""
        hashes = [hash_of(self._index.prefix, records.buckets[0] >> 16, end)]
        sizes = np.diff(records.cuts)
        for start, stop in cuts(sizes.tolist(), _BYTES, len(sizes)):
            part = records.part(start, stop)
            raw = sizes[start:stop].astype("<u4").tobytes()
            fields = b"".join(map(field_of, part.buckets))
            await self._step("add", records.width, raw, part.data, fields, hashes=hashes)

    async def commit(self, page_ids: NDArray[np.uint64], times: NDArray[np.uint32]) -> None:
        stamps = np.maximum(np.where(times, times, np.uint32(time.time())), FIRST_SECOND)
        await self._step("commit", packed(page_ids), stamps.astype("<u4").tobytes())

    async def end(self) -> None:
        await self._step("end")

    async def _step(
        self, name: str, *arguments: bytes | int, hashes: Sequence[bytes] = ()
    ) -> bytes:
        self._calls += 1
        prefix = self._index.prefix
        while True:
            if self._calls == 1:
                self._generation = self._index.moment().generation
            reply = await self._index.run(
                "load",
                self._token,
                self._calls.to_bytes(4, "little"),
                round(LEASE * 1000),
                self._span_ms,
                self._generation,
                name.encode(),
                *arguments,
                more_keys=[prefix + b"generations", prefix + _LOADS, *hashes],
            )
            if isinstance(reply, bytes):
                return reply
            if reply is None:
                raise lapsed(self._index._where)
            self._index._turn(reply)


async def settled(server: Server, last: int) -> int:
    """The last page id up to ``last`` that is below those of all loads under way.

    Loads that were broken off are forgotten by and by.
    """
    seconds, microseconds = await server.ask(b"TIME")
    now = int(seconds) * 1000 + int(microseconds) // 1000
    for token, raw in await pairs_in(server, _LOADS):
        if int.from_bytes(raw[5:11], "little") > now:
            last = min(last, int.from_bytes(raw[:5], "little") - 1)
        else:
            await server.ask(b"HDEL", server.prefix + _LOADS, token)
    return last


def packed(page_ids: NDArray[np.uint64]) -> bytes:
    """Page ids as the scripts take them."""
    return bytes_of(page_ids)[:, :5].tobytes()


def cuts(sizes: list[int], most: int, count: int) -> Iterator[tuple[int, int]]:
    """Split things of these sizes into calls, each with a limited number of bytes and of things.

    :param most: bytes in a call; more only of a single thing
    :param count: things in a call

    >>> list(cuts([5, 5, 5, 20, 1, 1, 1, 1], 10, 3))
    [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    """
    start = total = 0
    for i, size in enumerate(sizes):
        total += size
        if i > start and (total > most or i - start == count):
            yield start, i
            start, total = i, size
    if sizes:
        yield start, len(sizes)


def _rows(pages: Pages, layout: RowLayout) -> NDArray[np.uint8]:
    """The rows of pages, uint8[n, bytes], without the offsets of their texts."""
    rows = np.zeros(len(pages), layout.row)
    rows["content"] = layout.record.pack(pages.content)
    rows["stamp"] = State.RELEASED
    raw = rows.view(np.uint8).reshape(len(pages), -1)
    if not layout.record.text:
        return raw
    rows["text_length"] = [
        len(address or b"") | (PAYLOAD_BIT if payload else 0)
        for address, payload in zip(pages.addresses, pages.payloads, strict=True)
    ]
    return raw[:, : -layout.row["text_offset"].itemsize]
