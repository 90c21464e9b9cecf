"""The index on a Redis server, shared by all processes that use its namespace.

Keys, all of the form ``{namespace}...`` and so in one slot of a cluster:

* ``b table (1 byte)``, and with a window ``generation (4)``: a hash of buckets, by ``prefix (2)``
* the same followed by ``prefix (2)``: a bucket of more than 4 KB
* ``s chunk (4)``: rows of page records (see :class:`.scripts.RowLayout`)
* ``a chunk (4)``: text, that is addresses and payloads
* ``leases``, ``schema``, ``parameters``, ``counters``, ``committed``, ``generations``, ``loads``:
  one key each
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import chain
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import DedupError, IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Progress
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.pages import LEASE, Pace, Pages, Records, Steps, lapsed, load
from dedup_middleware.index.parameters import EMPTIED, Parameters, replaced
from dedup_middleware.index.redis import expiry, upkeep
from dedup_middleware.index.redis.link import LANES, Call, RedisLink, Session
from dedup_middleware.index.redis.propose import PORTION, batches, new_tokens, proposals, request
from dedup_middleware.index.redis.scripts import (
    FIRST_SECOND,
    PAYLOAD_BIT,
    RowLayout,
    joined_text,
    script,
    split_text,
)
from dedup_middleware.index.redis.server_index import Opened, ServerIndex, milliseconds
from dedup_middleware.index.redis.servers import Reply
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import (
    Candidates,
    Claim,
    Claimed,
    IndexStats,
    Proposed,
    Seen,
    Wanted,
)
from dedup_middleware.model.records import PAGE_ID_MASK, PageRecords, State, joined_records

logger = logging.getLogger(__name__)

_FETCH = 512  # maximum pages per call, to bound how long a script blocks the server
_PROPOSED = 64  # the same for proposals, at 50 us a page
_CROWD = 20  # waiting pages that start a second call while one is in flight
_TURNS = 20  # maximum retries of a proposal because a new generation has begun
_LOOKED = 64  # maximum pages per call that reads texts, of up to 64 KiB each


class RedisIndex(ServerIndex):
    """Buckets in hashes, page records packed in chunks, claims made by atomic Lua scripts.

    :param options: ``index_url``, ``namespace``, ``timeout`` and ``retries`` are used
    :param window: seconds for which a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        super().__init__(options, window=window)
        self.prefix = self._first_prefix = b"{" + options.namespace.encode() + b"}"
        self._link: RedisLink = RedisLink(options, self._where, self.prefix.decode())
        self._session = Session(self.prefix)
        self.layout = RowLayout()
        self._proposals = Batcher(
            self._propose, _PROPOSED, lanes=LANES, crowd=_CROWD, portion=PORTION
        )
        # Cache of ``expiring``: the oldest generation, and the first page id after it.
        self._expiring = (-1, 0)

    def warm(self) -> None:
        from dedup_middleware.index import scan  # numba stays lazy

        scan.warm(replies=True)

    def _key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    async def open(self, parameters: Parameters) -> dict[str, str]:
        # A reopened index may be another one, which ``_check`` would refuse.
        self._link.introduce = lambda: None
        return await super().open(parameters)

    async def _begin(self, stored: dict[str, str], epoch: bytes, *, sets_up: bool) -> None:
        if not self._is_ours(stored):
            # Calls in flight keep the session of the former index, so they can't change this one.
            self._session = Session(self.prefix)
        self._session.epoch = epoch
        self._parameters = stored
        if sets_up:
            self._link.introduce = lambda: self._open_call(self.prefix, self._parameters)
            self._link.check_introduction = self._check

    def _check(self, reply: Any) -> None:
        """Check that a new connection leads to the opened index.

        :raises IndexReplacedError: the hash key differs, so it is another index
        :raises IndexRefusedError: its parameters differ, or it is damaged
        """
        opened = Opened(reply)
        if not self._is_ours(self._agreed(opened, self._parameters)):
            raise replaced(self._name)
        if opened.epoch != self._session.epoch:
            self._session.epoch = opened.epoch
            logger.warning(EMPTIED, self._name)

    async def _remove_expired(self, oldest: int) -> None:
        await expiry.remove_expired(self, oldest)

    async def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Reply:
        """Run a script on the keys ``leases``, ``counters`` and ``committed``; it does nothing if
        the index has been set up anew meanwhile."""
        names = ("leases", "counters", "committed")
        session = attrs.evolve(self._session)
        call = self._script(name, names, *arguments, more_keys=more_keys, session=session)
        return (await self._link.submit(call)).reply

    async def ask(self, *command: bytes | str | int) -> Reply:
        return (await self._link.submit(Call(command))).reply

    def _script(
        self,
        name: str,
        keys: Iterable[str],
        *arguments: bytes | int,
        more_keys: Sequence[bytes] = (),
        session: Session | None = None,
    ) -> Call:
        names = [*map(self._key, keys), *more_keys]
        return Call(arguments, names, script(name, self.layout), session or self._session)

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        if not bucket_keys:
            return []
        ends = self.ends(self.moment().live)
        names = [expiry.hash_of(self.prefix, one.table, end) for end in ends for one in bucket_keys]
        fields = b"".join(expiry.field_of(one.bucket) for one in bucket_keys) * len(ends)
        call = self._script("read", ("leases",), fields, more_keys=names)
        data = (await self._link.submit(call)).reply
        # The reply has all buckets of the oldest generation, then all of the next one.
        count = len(bucket_keys)
        return [
            joined_records(data[i::count], bucket_key.width)
            for i, bucket_key in enumerate(bucket_keys)
        ]

    async def look(self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL) -> Seen:
        size = _LOOKED if texts == Wanted.ALL else _FETCH
        # A damaged record may hold a page id beyond all chunks.
        most = min(PAGE_ID_MASK, (self.layout.rows << 32) - 1)
        wanted = [page_id if page_id <= most else 0 for page_id in page_ids.tolist()]
        calls = []
        for start in range(0, len(wanted), size):
            part = wanted[start : start + size]
            raw = b"".join(map(self._local, part))
            calls.append(self._rows_call("look", part, raw, int(texts)))
        found = [*chain.from_iterable(await self._link.replies(calls))]
        split = [
            split_text(row, text, self.layout)
            for row, text in zip(found[::2], found[1::2], strict=True)
        ]
        return self._seen(page_ids, found[::2], split)

    def _chunks(self, page_ids: Iterable[int]) -> list[bytes]:
        # Passed as keys, so that a cluster migrating the slot replies TRYAGAIN.
        chunks = {page_id // self.layout.rows for page_id in page_ids}
        return [*expiry.chunk_names(self, b"s", chunks)]

    async def _load(self, pages: Pages) -> None:
        await load(pages, lambda: RedisSteps(self))

    async def _propose(self, pages: list[Proposed]) -> Iterable[Claimed | Candidates | Exception]:
        groups = batches(pages, len(self.moment().live))
        if len(groups) == 1:
            return await self._together(groups[0])
        made = await asyncio.gather(*(self._together(group) for group in groups))
        return chain.from_iterable(made)

    async def _together(self, pages: list[Proposed]) -> Iterable[Claimed | Candidates | Exception]:
        tokens, lease = new_tokens(pages), milliseconds(pages[0].lease)  # the same for all pages
        for _ in range(_TURNS):
            moment, session = self.moment(), self._session
            ends = self.ends(reversed(moment.live))
            sent = request(pages, tokens, session.prefix, ends, self.layout)
            call = self._script(
                "propose",
                ("leases", "counters", "generations"),
                *(lease, self._window.span_ms, moment.generation, len(moment.live)),
                *sent.arguments,
                more_keys=sent.keys,
                session=session,
            )
            try:
                reply = (await self._link.submit(call)).reply
            except DedupError as error:
                return [error] * len(pages)
            if not isinstance(reply, int):
                return proposals(reply, pages, sent, self.layout, self._note)
            self._turn(reply)
        raise IndexUnavailableError(
            f"{self._where} began a new generation with each of {_TURNS} calls: DEDUP_WINDOW = "
            f"{self._window.seconds:g} seconds is shorter than it can be here; give it a minute at "
            "least"
        )

    def _note(self, damaged: int, scanned: int) -> None:
        self.corrupt += damaged
        self._report_scanned(scanned)

    async def expiring(self, page_id: int) -> bool:
        if not self._window.seconds:
            return False
        oldest = self.moment().oldest
        if self._expiring[0] != oldest or not self._expiring[1]:
            firsts = await expiry.first_numbers(self)
            later = [first for generation, (first, _) in firsts.items() if generation > oldest]
            self._expiring = oldest, min(later, default=0)
        first = self._expiring[1]
        return not first or page_id < first

    def _home_of(self, _: int) -> int:
        return 0

    def _local(self, page_id: int) -> bytes:
        return page_id.to_bytes(5, "little")

    def _rows_call(
        self, name: str, page_ids: Sequence[int], *arguments: bytes | int, keys: Sequence[str] = ()
    ) -> Call:
        chunks = self._chunks(page_ids)
        return self._script(name, ("leases", *keys), *arguments, more_keys=chunks)

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        if not claims:
            return []
        result = await self._link.submit(self._renew_call(claims, lease))
        return [bool(flag) for flag in result.reply]

    async def count(self) -> int:
        return self._committed(await self.ask("GET", self._key("committed")) or b"0")

    async def pages(self) -> AsyncIterator[PageRecords]:
        async for found in upkeep.rows(self):
            yield upkeep.pages_of(found, self.layout)

    def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        return upkeep.walk_buckets(self, lambda: self.ends(self.moment().live))

    async def forget(self, page_ids: Sequence[int]) -> int:
        return await upkeep.forget_page_ids(self, page_ids)

    async def page_ids(self) -> range:
        firsts = await expiry.first_numbers(self)
        first = min((page_id for page_id, _ in firsts.values()), default=1)
        return range(first, (await expiry.counters(self))[0] + 1)

    async def compact(self, progress: Progress = lambda *_: None) -> int:
        """Remove records of dead pages, and chunks that hold only dead pages."""
        return await upkeep.compact(self, progress)

    async def stats(self) -> IndexStats:
        pending, committed, (issued, text, buckets, overflow, gone) = await asyncio.gather(
            self.run("lapse"), self.count(), expiry.counters(self)
        )
        return IndexStats(
            committed=committed,
            pending=pending,
            released=max(0, issued - gone - committed - pending),
            buckets=buckets,
            bytes=await expiry.estimate_bytes(self, issued - gone, text),
            corrupt=self.corrupt,
            overflow=overflow,
            parameters=dict(self._parameters),
        )


# Limits of a call of a load, which blocks the server for less than a millisecond.
_PAGES = 256
_BUCKETS = 128
_BYTES = 1 << 16  # text or records


class RedisSteps(Steps):
    """The steps that load a block of pages into a Redis server."""

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
        for start, stop in upkeep.cuts(list(map(len, texts)), _BYTES, len(texts)):
            lengths = np.array([len(text) for text in texts[start:stop]], "<u4").tobytes()
            raw = rows[start:stop].tobytes()
            reply = await self._step("enter", raw, lengths, b"".join(texts[start:stop]))
            first = int.from_bytes(reply, "little")
            page_ids.append(np.arange(first, first + stop - start, dtype=np.uint64))
        return np.concatenate(page_ids)

    async def add(self, records: Records) -> None:
        (end,) = self._index.ends([self._generation])
        hashes = [expiry.hash_of(self._index.prefix, records.buckets[0] >> 16, end)]
        sizes = np.diff(records.cuts)
        for start, stop in upkeep.cuts(sizes.tolist(), _BYTES, len(sizes)):
            part = records.part(start, stop)
            raw = sizes[start:stop].astype("<u4").tobytes()
            fields = b"".join(map(expiry.field_of, part.buckets))
            await self._step("add", records.width, raw, part.data, fields, hashes=hashes)

    async def commit(self, page_ids: NDArray[np.uint64], times: NDArray[np.uint32]) -> None:
        stamps = np.maximum(np.where(times, times, np.uint32(time.time())), FIRST_SECOND)
        await self._step("commit", upkeep.packed(page_ids), stamps.astype("<u4").tobytes())

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
                more_keys=[prefix + b"generations", prefix + upkeep.LOADS, *hashes],
            )
            if isinstance(reply, bytes):
                return reply
            if reply is None:
                raise lapsed(self._index._where)
            self._index._turn(reply)


def _rows(pages: Pages, layout: RowLayout) -> NDArray[np.uint8]:
    """The rows of pages, uint8[n, bytes], without their text offsets."""
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
