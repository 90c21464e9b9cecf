"""An index over the masters of a cluster: its shards, their scripts, and page records there."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import MOST_SHARDS
from dedup_middleware.index.base import Seen, Wanted
from dedup_middleware.index.batching import forget_outcome
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
from dedup_middleware.model.claims import Claim, Entry
from dedup_middleware.model.records import PAGE_ID_MASK, State, joined_records

logger = logging.getLogger(__name__)

_OWN = "dedup_middleware.index.cluster"
# Scripts of the index on one server that work on a shard as well.
_SHARED = frozenset({"open", "commit", "release", "renew", "forget", "compact", "drop"})
_READ = 512  # buckets read by one call
_LOOK = 256  # pages in one call: bounds how long a script keeps its server
_BLOCK = 64  # ids reserved at once
_PENDING = State.PENDING.to_bytes(4, "little")
_LENGTH = 2  # bytes of a text that hold the length of the address


@attrs.frozen
class Reserved:
    """An id for a page to come, and the generation in which it may be used."""

    page_id: int
    generation: int


@attrs.frozen(eq=False)
class Announced:
    """A page to be announced: its id, the token of its lease, what is kept of it."""

    reserved: Reserved
    token: int
    row: bytes
    text: bytes

    @property
    def claim(self) -> Claim:
        """The claim that it gets."""
        return Claim(self.reserved.page_id, self.token)


class ClusterShards(ServerIndex):
    """The shards of an index, and page records, each on the home shard that its id names.

    :ivar reads_whole: buckets are so short that those of a read are sent as they are, which costs a
        server a fifth of a script that searches them
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
        self._set_layout(WHOLE)
        self._reserved: deque[Reserved] = deque()
        self._reserving = asyncio.Lock()
        self._reservation: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await self._proposals.join()
        if self._reservation is not None:
            await asyncio.wait([self._reservation])
            self._reservation = None
        self._reserving = asyncio.Lock()  # one belongs to the event loop in which it was waited for
        await super().close()

    def _set_layout(self, record: RecordLayout) -> None:
        self.record = record
        # Texts are kept apart from the rows, under keys that their ids name.
        self.layout = RowLayout(attrs.evolve(record, text=False))

    def _with_own(self, parameters: Parameters) -> dict[str, str]:
        return {**super()._with_own(parameters), SHARDS: str(self.spread.shards)}

    async def _begin(self, stored: dict[str, str], epoch: bytes, *, sets_up: bool) -> None:
        """Open the other shards. The first one has decided on the key of all hashes."""
        how: tuple[dict[str, str], bytes] = (stored, OWN_SCHEMA)
        if not sets_up:
            how = ({}, b"")
            count = stored.get(SHARDS, "")
            if not count.isdecimal() or not 1 <= int(count) <= MOST_SHARDS:
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
        self._link.tell_of_unusable()

    def _same(self, opened: Opened, stored: Mapping[str, str], shard: int) -> bytes:
        """The epoch of a shard; one that does not belong to the index is refused."""
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
        """A shard was opened again, whose server was emptied."""
        shard = [one.prefix for one in self._sessions].index(session.prefix)
        epoch = self._same(Opened(reply), self._parameters, shard)
        if epoch != session.epoch:
            session.epoch = epoch
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
        """A script on keys of one shard.

        :param leases: whether the key of leases comes before them
        """
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
        """Begin to reserve ids for pages that may be announced, in the exchange of the next read.

        Nothing waits for it but :meth:`take_ids`, which tries again where it has failed.
        """
        if len(self._reserved) < count and not self._reserving.locked():
            self._reservation = asyncio.get_running_loop().create_task(self._reserve(count))
            forget_outcome(self._reservation)

    async def _reserve(self, count: int) -> None:
        """Reserve ids until there are so many."""
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
            self._reserved.extend(
                Reserved(self.spread.page_id(local, shard), generation)
                for local in range(first, first + wanted)
            )

    def drop_ids(self) -> None:
        """Use none of the reserved ids: one of them was settled, so others may be."""
        self._reserved.clear()

    async def take_ids(self, count: int) -> list[Reserved]:
        """Ids of one generation that no other page gets."""
        while True:
            generation = self.moment().generation
            if self._reserved:
                generation = max(generation, self._reserved[-1].generation)
            while self._reserved and self._reserved[0].generation < generation:
                self._reserved.popleft()
            if len(self._reserved) >= count:
                return [self._reserved.popleft() for _ in range(count)]
            await self._reserve(count)

    def row_of(self, entry: Entry) -> tuple[bytes, bytes]:
        """The row of a page that is announced, and its text."""
        row = self.record.pack_one(entry.content) + _PENDING
        if not self.record.text:
            return row, b""
        return row, text_of(cut_address(entry.address or ""), entry.payload)

    def creating(
        self, pages: Sequence[Announced], lease: float
    ) -> tuple[list[list[int]], list[Call]]:
        """Calls that announce pages on their home shards, and of each which pages it announces."""
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
        """Of each page whether it is announced; a number: a new generation has begun."""
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

        :param settles: an id that is not announced yet never will be
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
        """What buckets hold, in all live generations, the oldest first.

        :param later: how many generations after them are read as well
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
                name = group_hash(group, end)
                key = self.spread.prefix(shard) + name
                calls.append(self.script_call("command", shard, (name,), b"HMGET", key, *fields))
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
        """Replies of calls, and what is looked up in the same exchange."""
        if not lookups:  # without a task of its own, which would come too late for others' exchange
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
        """Give back claims of which no caller has heard."""
        await self._link.replies(list(map(self._release_call, claims)))

    def give_up(self, claims: Sequence[Claim]) -> None:
        """Give claims back without waiting for it, as far as their shards can be reached."""
        for claim in claims:
            forget_outcome(self._link.submit(self._release_call(claim)))

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases by ``lease`` seconds from now.

        False: that one had run out, or its shard has not answered within a third of the lease; the
        next renewal must not wait for it.
        """
        parts = self.spread.by_home(claim.page_id for claim in claims)
        calls = [self._renew_call([claims[at] for at in part], lease) for part in parts]
        futures = list(map(self._link.submit, calls))
        if not futures:
            return []
        done, late = await asyncio.wait(futures, timeout=lease / 3)
        for future in late:
            forget_outcome(future)
        alive = [False] * len(claims)
        for part, future in zip(parts, futures, strict=True):
            if future in done:
                for at, flag in zip(part, future.result().reply, strict=True):
                    alive[at] = bool(flag)
        return alive


def ids(locals_: Iterable[int]) -> bytes:
    """Ids on a shard as its scripts take them."""
    return b"".join(local.to_bytes(5, "little") for local in locals_)


def text_of(address: bytes, payload: bytes) -> bytes:
    """The text of a page; empty if it has neither address nor payload."""
    if not address and not payload:
        return b""
    return len(address).to_bytes(_LENGTH, "little") + address + payload


def split_text(text: bytes) -> tuple[bytes, bytes]:
    """Address and payload of a page.

    >>> split_text(text_of(b"https://a/1", b"more"))
    (b'https://a/1', b'more')
    """
    end = _LENGTH + int.from_bytes(text[:_LENGTH], "little")
    return text[_LENGTH:end], text[end:]
