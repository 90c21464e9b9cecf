"""The shards of an index on a cluster: their scripts, page ids and page records."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import MOST_SHARDS
from dedup_middleware.index.batching import ended, forget_outcome
from dedup_middleware.index.cluster.nodes import ClusterLink
from dedup_middleware.index.cluster.spread import (
    SHARDS,
    Spread,
    chunk_keys,
    field_of,
    group_hash,
    grouped,
    groups_of,
)
from dedup_middleware.index.parameters import EMPTIED, WHOLE, Parameters, RecordLayout, check_schema
from dedup_middleware.index.redis.link import Call, Session
from dedup_middleware.index.redis.scripts import RowLayout, script
from dedup_middleware.index.redis.server_index import OWN_SCHEMA, Opened, ServerIndex, milliseconds
from dedup_middleware.model.buckets import cut_address, width_of
from dedup_middleware.model.claims import Claim, Entry, Seen, Wanted
from dedup_middleware.model.records import PAGE_ID_MASK, State, joined_records

logger = logging.getLogger(__name__)

_OWN = "dedup_middleware.index.cluster"
# Scripts shared with the index on one server.
_SHARED = frozenset({"open", "commit", "release", "renew", "forget", "compact", "drop"})
_READ = 512  # maximum buckets read per call
_LOOK = 256  # maximum pages per call, to bound how long a script blocks its server
_BLOCK = 64  # minimum number of page ids reserved at once
_PENDING = State.PENDING.to_bytes(4, "little")
_LENGTH = 2  # bytes for the length of the address, at the start of a text
_PAUSE = 60.0  # seconds without an emptied shard before the next one is logged


@attrs.frozen
class Reserved:
    """A page id reserved for a later announcement, and the generation in which it is valid."""

    page_id: int
    generation: int


@attrs.frozen(eq=False)
class Announced:
    """A page to be announced: its id, the token of its lease, its row and text."""

    reserved: Reserved
    token: int
    row: bytes
    text: bytes

    @property
    def claim(self) -> Claim:
        """The claim that the page gets."""
        return Claim(self.reserved.page_id, self.token)


class ClusterShards(ServerIndex):
    """The shards of an index; each page record is on the home shard given by its page id.

    :ivar reads_whole: read buckets as a whole (HMGET) instead of by a script that searches them;
        while buckets are short, this takes a server a fifth of the time
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        super().__init__(options, window=window)
        self.reads_whole = True
        self.spread = Spread(options.namespace, options.shards)
        self._first_prefix = self.spread.prefix(0)
        self._link: ClusterLink = ClusterLink(
            options.index_url,
            self._where,
            options.timeout,
            options.retries,
            lambda session: self._open_call(session.prefix, self._parameters),
            self._opened_again,
        )
        self._sessions = self._new_sessions()
        self._emptied = -math.inf  # when a shard was last found emptied
        self._set_layout(WHOLE)
        self._reserved: deque[Reserved] = deque()
        self._reserving = asyncio.Lock()
        self._reservation: asyncio.Task[None] | None = None

    async def _end_tasks(self) -> None:
        await super()._end_tasks()
        if self._reservation is not None:
            await ended({self._reservation} if not self._reservation.done() else set())
        self._reservation = None
        self._reserving = asyncio.Lock()  # a lock is bound to the event loop in which it was used

    def _set_layout(self, record: RecordLayout) -> None:
        self.record = record
        # Texts are stored apart from the rows, under keys derived from the page ids.
        self.layout = RowLayout(attrs.evolve(record, text=False))

    def _with_own(self, parameters: Parameters) -> dict[str, str]:
        return {**super()._with_own(parameters), SHARDS: str(self.spread.shards)}

    async def _begin(self, stored: dict[str, str], epoch: bytes, *, sets_up: bool) -> None:
        """Open the other shards with the parameters, hash key included, of the first one."""
        how: tuple[dict[str, str], bytes] = (stored, OWN_SCHEMA)
        if not sets_up:
            how = ({}, b"")
            count = stored.get(SHARDS, "")
            known = count.isdecimal() and 1 <= int(count) <= MOST_SHARDS
            if not known or int(count).bit_count() != 1:
                raise self._damaged(f"its parameter {SHARDS} is {count!r}")
            self.spread = Spread(self.spread.namespace, int(count))
        if not sets_up or not self._is_ours(stored):
            self._sessions = self._new_sessions()
        self._sessions[0].epoch = epoch
        shards = range(1, self.spread.shards)
        calls = [self._open_call(self.spread.prefix(shard), *how) for shard in shards]
        replies = await self._link.replies(calls)
        for shard, opened in zip(shards, map(Opened, replies), strict=True):
            if not opened.schema:
                raise self._damaged(f"its shard {shard} is gone")
            self._sessions[shard].epoch = self._same(opened, stored, shard)
        self._parameters = stored
        self._link.log_unusable()

    def _same(self, opened: Opened, stored: Mapping[str, str], shard: int) -> bytes:
        """Check that a shard belongs to the index; returns its epoch."""
        check_schema(opened.schema, self._name)
        if opened.parameters != stored:
            raise self._damaged(f"its shard {shard} belongs to another index")
        return opened.epoch

    def _damaged(self, what: str) -> IndexRefusedError:
        return IndexRefusedError(
            f"the index at {self._name} is damaged: {what}; restore a backup of all masters, "
            "choose another DEDUP_NAMESPACE, or remove its keys to begin anew."
        )

    def _opened_again(self, session: Session, reply: Any) -> None:
        """Adopt the epoch of a shard that was opened again after its server was emptied."""
        shard = [one.prefix for one in self._sessions].index(session.prefix)
        epoch = self._same(Opened(reply), self._parameters, shard)
        if epoch != session.epoch:
            session.epoch = epoch
            # Shards are found empty one by one, as they are used: one warning for all of them.
            before, self._emptied = self._emptied, time.monotonic()
            if self._emptied > before + _PAUSE:
                logger.warning(EMPTIED, self._name)

    def _new_sessions(self) -> list[Session]:
        return [Session(self.spread.prefix(shard)) for shard in range(self.spread.shards)]

    def script_call(
        self,
        name: str,
        shard: int,
        keys: Iterable[bytes],
        *arguments: bytes | int,
        leases: bool = True,
    ) -> Call:
        """A script call on keys of one shard, given without prefix; ``leases``: that key first."""
        session = self._sessions[shard]
        prefix = session.prefix
        package = () if name in _SHARED else (_OWN,)
        return Call(
            arguments,
            [prefix + key for key in ((b"leases", *keys) if leases else keys)],
            script(name, self.layout, *package),
            session,
        )

    # Ids

    def reserve_ahead(self, count: int) -> None:
        """Start reserving page ids, in the same exchange as the next read."""
        if len(self._reserved) < count and not self._reserving.locked():
            self._reservation = asyncio.get_running_loop().create_task(self._reserve(count))
            forget_outcome(self._reservation)

    async def _reserve(self, count: int) -> None:
        """Ensure that at least ``count`` page ids are reserved."""
        async with self._reserving:
            missing = count - len(self._reserved)
            if missing <= 0:
                return
            wanted = max(missing, _BLOCK)
            shard = random.randrange(self.spread.shards)
            keys = (b"counters", b"generations")
            call = self.script_call(
                "reserve", shard, keys, wanted, self._window.span_ms, self.spread.last
            )
            ((first, generation),) = await self._link.replies([call])
            if generation > self._generation or generation < self.moment().generation:
                self._turn(generation)
            if self._reserved and self._reserved[0].generation != generation:
                self._reserved.clear()
            self._reserved.extend(
                Reserved(self.spread.page_id(local, shard), generation)
                for local in range(first, first + wanted)
            )

    def drop_ids(self) -> None:
        """Discard the reserved ids: one of them was settled, so others may be, too."""
        self._reserved.clear()

    async def take_ids(self, count: int) -> list[Reserved]:
        """Take ``count`` unused page ids, all of one generation."""
        while True:
            if self._reserved and self._reserved[0].generation < self.moment().generation:
                self._reserved.clear()
            if len(self._reserved) >= count:
                return [self._reserved.popleft() for _ in range(count)]
            await self._reserve(count)

    def row_of(self, entry: Entry) -> tuple[bytes, bytes]:
        """The row and the text of a page to be announced."""
        row = self.record.pack_one(entry.content) + _PENDING
        if not self.record.text:
            return row, b""
        return row, text_of(cut_address(entry.address or ""), entry.payload)

    def creating(
        self, pages: Sequence[Announced], lease: float
    ) -> tuple[list[list[int]], list[Call]]:
        """For each call that announces pages the positions of its pages; and these calls."""
        reserved = [page.reserved for page in pages]
        places = ((self.spread.home_of(one.page_id), one.generation) for one in reserved)
        parts, calls = grouped(places, _LOOK), []
        for part in parts:
            some = [pages[at] for at in part]
            locals_ = [self.spread.local(page.reserved.page_id) for page in some]
            calls.append(
                self.script_call(
                    "create",
                    self.spread.home_of(some[0].reserved.page_id),
                    (b"counters", *self._chunks(locals_)),
                    milliseconds(lease),
                    self._window.span_ms,
                    some[0].reserved.generation,
                    ids(locals_),
                    b"".join(page.token.to_bytes(8, "little") for page in some),
                    b"".join(page.row for page in some),
                    b"".join(len(page.text).to_bytes(4, "little") for page in some),
                    b"".join(page.text for page in some),
                )
            )
        return parts, calls

    def created(
        self, count: int, parts: list[list[int]], replies: Sequence[Any]
    ) -> list[bool | int]:
        """For each page whether it is announced, or the current generation if that is a new one."""
        made: list[bool | int] = [False] * count
        for part, reply in zip(parts, replies, strict=True):
            for i, at in enumerate(part):
                made[at] = reply if isinstance(reply, int) else reply[i] == ord("1")
            if isinstance(reply, int):
                self._turn(max(reply, self._generation))
        return made

    def _chunks(self, locals_: Iterable[int]) -> list[bytes]:
        rows = self.layout.rows
        return chunk_keys(local // rows for local in locals_)

    # Reading

    async def look(
        self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL, settles: bool = False
    ) -> Seen:
        """Records, addresses and payloads of pages; see :meth:`.Index.look`.

        :param settles: mark ids without a row as released, so that they can't be announced later
        """
        wanted: list[int] = page_ids.tolist()
        parts, calls = self.spread.by_home(wanted, _LOOK), []
        for part in parts:
            shard = self.spread.home_of(wanted[part[0]])
            locals_ = [self.spread.local(wanted[at] & PAGE_ID_MASK) for at in part]
            keys = (b"counters", *self._chunks(locals_))
            flags = int(texts), int(settles)
            calls.append(self.script_call("look", shard, keys, ids(locals_), *flags))
        rows, split = [b""] * len(wanted), [(b"", b"")] * len(wanted)
        for part, reply in zip(parts, await self._link.replies(calls), strict=True):
            for i, at in enumerate(part):
                rows[at], split[at] = reply[2 * i], split_text(reply[2 * i + 1])
        return self._seen(page_ids, rows, split)

    async def read_all(self, buckets: Sequence[int], *, later: int = 0) -> list[bytes]:
        """The bytes of buckets, all live generations joined, the oldest first.

        :param later: number of later generations to read as well
        """
        live = self.moment().live
        ends = self.ends(range(live[0], live[-1] + 1 + later))
        data: list[list[bytes]] = [[b""] * len(ends) for _ in buckets]
        words = np.array(buckets, np.uint64)
        shards = self.spread.of_buckets(words).tolist()
        groups = groups_of((words >> np.uint64(16)).astype(np.int64)).tolist()
        parts, calls = [], []
        for part in grouped(zip(shards, groups, strict=True), _READ):
            shard, group = shards[part[0]], groups[part[0]]
            fields = [field_of(buckets[at]) for at in part]
            for i, end in enumerate(ends):
                key = self.spread.prefix(shard) + group_hash(group, end)
                calls.append(Call(("HMGET", key, *fields)))
                parts.append((part, i))
        for (part, i), reply in zip(parts, await self._link.replies(calls), strict=True):
            for at, raw in zip(part, reply, strict=True):
                data[at][i] = raw or b""
        return [
            joined_records(one, width_of(bucket)) for one, bucket in zip(data, buckets, strict=True)
        ]

    async def together(
        self, calls: Sequence[Call], lookups: Sequence[Coroutine[Any, Any, Seen]]
    ) -> tuple[list[Any], list[Seen]]:
        """Send calls and look-ups in the same exchange; returns the results of both."""
        if not lookups:  # creating a task would delay the calls past the exchange of other callers
            return await self._link.replies(calls), []
        replies, *seen = await asyncio.gather(self._link.replies(calls), *lookups)
        return replies, seen

    # Claims

    def _home_of(self, page_id: int) -> int:
        return self.spread.home_of(page_id)

    def _local(self, page_id: int) -> bytes:
        return ids([self.spread.local(page_id)])

    def _rows_call(
        self, name: str, page_ids: Sequence[int], *arguments: bytes | int, keys: Sequence[str] = ()
    ) -> Call:
        chunks = self._chunks(map(self.spread.local, page_ids))[::2]
        names = (*(key.encode() for key in keys), *chunks)
        return self.script_call(name, self.spread.home_of(page_ids[0]), names, *arguments)

    async def withdraw(self, claims: Sequence[Claim]) -> None:
        """Release claims that were not returned to any caller."""
        await self._link.replies(list(map(self._release_call, claims)))

    def give_up(self, claims: Sequence[Claim]) -> None:
        """Release claims without waiting, and ignore errors."""
        for claim in claims:
            forget_outcome(self._link.submit(self._release_call(claim)))

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases to ``lease`` seconds from now; False for a claim that has expired, or whose
        shard has not replied within a third of the lease, so that the next one is not delayed."""
        parts = self.spread.by_home(claim.page_id for claim in claims)
        calls = [self._renew_call([claims[at] for at in part], lease) for part in parts]
        futures = list(map(self._link.submit, calls))
        if not futures:
            return []
        done, _ = await asyncio.wait(futures, timeout=lease / 3)
        for future in futures:
            forget_outcome(future)  # also where another one raises first
        alive = [False] * len(claims)
        for part, future in zip(parts, futures, strict=True):
            if future in done:
                for at, flag in zip(part, future.result().reply, strict=True):
                    alive[at] = bool(flag)
        return alive


def ids(locals_: Iterable[int]) -> bytes:
    """Shard-local ids as the scripts take them: 5 bytes each, little-endian."""
    return b"".join(local.to_bytes(5, "little") for local in locals_)


def text_of(address: bytes, payload: bytes) -> bytes:
    """The text of a page: length of the address, address, payload; b"" if it has neither."""
    if not address and not payload:
        return b""
    return len(address).to_bytes(_LENGTH, "little") + address + payload


def split_text(text: bytes) -> tuple[bytes, bytes]:
    """Split a page's text into address and payload.

    >>> split_text(text_of(b"https://a/1", b"more"))
    (b'https://a/1', b'more')
    """
    end = _LENGTH + int.from_bytes(text[:_LENGTH], "little")
    return text[_LENGTH:end], text[end:]
