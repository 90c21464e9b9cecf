"""Base class of the indexes on one Redis server and on the masters of a cluster."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.batching import Batcher, forget_outcome, stop
from dedup_middleware.index.parameters import (
    HASH_KEY,
    REPLACED,
    SCHEMA,
    Moment,
    Parameters,
    RecordLayout,
    Window,
    agree,
    check_schema,
    complete,
    layout_of,
    missing,
)
from dedup_middleware.index.redis.expiry import end_of
from dedup_middleware.index.redis.link import Call, Link, Session
from dedup_middleware.index.redis.scripts import EPOCH, RowLayout, read_rows, script, text_or_none
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Proposed, Seen
from dedup_middleware.model.records import PAGE_ID_MASK, PageRecords, split_stamps

logger = logging.getLogger(__name__)

OWN_SCHEMA = str(SCHEMA).encode()
_COMMITTED = 256  # maximum number of claims in one call


class Opened:
    """Reply of the script ``open``: schema, parameters, epoch, and the server's time in seconds."""

    def __init__(self, reply: Any) -> None:
        schema, fields, milliseconds, epoch = reply
        # Scripts return hashes as flat lists even under RESP3.
        texts = [field.decode("utf-8", "replace") for field in fields]
        self.schema: str = schema.decode("utf-8", "replace")
        self.parameters: dict[str, str] = dict(zip(texts[::2], texts[1::2], strict=True))
        self.seconds: float = milliseconds / 1000
        self.epoch = bytes(epoch)


class ServerIndex(Index):
    """Opening, clock and generations, claims and rows of an index on Redis servers."""

    _link: Link
    _first_prefix: bytes  # key prefix of the shard that is opened first
    _proposals: Batcher[Proposed, Claimed | Candidates]
    layout: RowLayout

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        self._where = options.safe_index_url.partition("?")[0]
        self._name = f"{self._where} (DEDUP_NAMESPACE={options.namespace})"
        self._parameters: dict[str, str] = {}
        self._window = Window(window)
        self._ahead = 0.0  # the server's clock minus our monotonic clock, in seconds
        self._generation = 0
        self._sweeper: asyncio.Task[None] | None = None
        self._claimed: dict[Claim, bytes] = {}  # stored content of pages with an open claim
        # One batcher per home shard, so that none waits for a shard whose slot is moving.
        self._commits: dict[int, Batcher[Claim, bool]] = {}

    def watch_round_trips(self, report: Callable[[], None]) -> None:
        """Call ``report`` for each exchange; an exchange with several nodes counts once."""
        self._link.on_round_trip = report

    async def close(self) -> None:
        try:
            await self._proposals.join()
            for batcher in self._commits.values():
                await batcher.join()
            await self._end_tasks()
        finally:
            await self._link.close()

    async def _end_tasks(self) -> None:
        """End the tasks in the background."""
        await stop(self._sweeper)
        self._sweeper = None

    # Opening

    async def open(self, parameters: Parameters) -> dict[str, str]:
        wanted = self._with_own(parameters)
        # If the index was emptied meanwhile, it keeps the key with which pages were hashed so far.
        known = {HASH_KEY: self._parameters[HASH_KEY]} if self._parameters else {}
        opened = await self._first({**complete(wanted), **known}, OWN_SCHEMA)
        stored = self._agreed(opened, wanted)
        if self._parameters and not self._is_ours(stored):
            logger.warning(REPLACED, self._name)
        await self._begin(stored, opened.epoch, sets_up=True)
        self._sweep()
        self._link.opening = False
        return dict(stored)

    async def attach(self) -> dict[str, str]:
        opened = await self._first({}, b"")
        if not opened.schema:
            raise missing(self._name)
        stored = self._agreed(opened, None)
        await self._begin(stored, opened.epoch, sets_up=False)
        return dict(stored)

    async def _first(self, parameters: Mapping[str, str], schema: bytes) -> Opened:
        """Send the call that opens the index, with the checks of ``Link.first`` the first time."""
        send = self._link.submit if self._parameters else self._link.first
        return Opened((await send(self._open_call(self._first_prefix, parameters, schema))).reply)

    @abstractmethod
    async def _begin(self, stored: dict[str, str], epoch: bytes, *, sets_up: bool) -> None:
        """Start using the opened index. ``epoch`` is that of the shard opened first; ``sets_up``:
        create missing shards instead of raising IndexRefusedError."""

    def _is_ours(self, stored: Mapping[str, str]) -> bool:
        return stored.get(HASH_KEY) == self._parameters.get(HASH_KEY)

    def _agreed(self, opened: Opened, parameters: Parameters | None) -> dict[str, str]:
        """Check and return the stored parameters; adopt the index's record layout and clock."""
        check_schema(opened.schema, self._name)
        stored = agree(opened.parameters, parameters, self._name)
        self._set_layout(layout_of(stored, self._name))
        self._ahead = opened.seconds - time.monotonic()
        return stored

    def _set_layout(self, record: RecordLayout) -> None:
        self.record, self.layout = record, RowLayout(record)

    def _open_call(
        self, prefix: bytes, parameters: Mapping[str, str], schema: bytes = OWN_SCHEMA
    ) -> Call:
        """The call that opens the index, or a shard of it. A missing one is created with these
        parameters and this schema, but not if ``schema`` is b""."""
        pairs = [text.encode() for pair in sorted(parameters.items()) for text in pair]
        # The epoch of the index if this call creates it.
        session = Session(prefix, secrets.token_bytes(EPOCH))
        keys = [prefix + name for name in (b"leases", b"schema", b"parameters", b"counters")]
        return Call((schema, *pairs), keys, script("open", self.layout), session)

    # Generations

    def moment(self) -> Moment:
        """The present moment by an estimate of the server's clock."""
        moment = self._window.at(time.monotonic() + self._ahead)
        if moment.generation < self._generation:  # a reply named a later generation
            moment = self._window.of_generation(self._generation)
        return moment

    def _turn(self, generation: int) -> None:
        """Adopt the generation that the server reports, which differs from our estimate."""
        if generation < self.moment().generation:
            # The server's clock is behind our estimate, so the estimate is set back.
            self._ahead = generation * self._window.span_ms / 1000 - time.monotonic()
        self._generation = generation
        self._sweep()

    def _sweep(self) -> None:
        if self._window.seconds and (self._sweeper is None or self._sweeper.done()):
            work = self._remove_expired(self.moment().oldest)
            self._sweeper = asyncio.get_running_loop().create_task(work)

    def ends(self, generations: Iterable[int]) -> list[bytes]:
        """Suffixes of the bucket hashes' names, one per generation; [b""] without a window."""
        return [end_of(one) for one in generations] if self._window.seconds else [b""]

    @abstractmethod
    async def _remove_expired(self, oldest: int) -> None:
        """Remove all generations before ``oldest``."""

    # Claims

    async def _propose_one(self, page: Proposed) -> Claimed | Candidates:
        def undo(made: Claimed | Candidates) -> None:
            if isinstance(made, Claimed):
                forget_outcome(self._link.submit(self._release_call(made.claim)))

        made = await self._proposals.result(page, undo)
        if isinstance(made, Claimed):
            self._claimed[made.claim] = self.record.pack_one(page.entry.content)
        return made

    @abstractmethod
    def _home_of(self, page_id: int) -> int:
        """The shard that holds a page's record; 0 on one server."""

    @abstractmethod
    def _local(self, page_id: int) -> bytes:
        """A page's id on its shard, as the scripts take it."""

    @abstractmethod
    def _rows_call(
        self, name: str, page_ids: Sequence[int], *arguments: bytes | int, keys: Sequence[str] = ()
    ) -> Call:
        """A script call on the leases, further keys, and the rows of pages of one shard."""

    async def commit(self, claim: Claim) -> bool:
        home = self._home_of(claim.page_id)
        if home not in self._commits:
            self._commits[home] = Batcher(self._commit, _COMMITTED)
        try:
            return await self._commits[home].submit(claim)
        finally:
            self._claimed.pop(claim, None)

    async def _commit(self, claims: list[Claim], *stamps: bytes) -> list[bool | Exception]:
        """Commit claims on one shard; ``stamps``: one packed array of commit times, none: now."""
        raw = b"".join(self._local(one.page_id) + _token(one) for one in claims)
        page_ids = [one.page_id for one in claims]
        result = await self._link.submit(
            self._rows_call("commit", page_ids, raw, *stamps, keys=("committed",))
        )
        # 0: the claim is gone; 1: committed now; 2: the page was committed already. After a retry,
        # 2 may be the work of the first attempt, or the server has lost writes and given the id to
        # another page, so the content is compared. Loads always compare it.
        pairs = list(zip(claims, result.reply, strict=True))
        doubtful = [one for one, flag in pairs if flag == 2 and (result.again or stamps)]
        ours: set[Claim] = set()
        if doubtful:
            found = await self.fetch(np.array([one.page_id for one in doubtful], np.uint64))
            kept = zip(doubtful, self.record.pack(found.content), strict=True)
            ours = {one for one, raw in kept if raw.tobytes() == self._claimed.get(one)}
        return [flag == 1 or one in ours for one, flag in pairs]

    async def release(self, claim: Claim) -> bool:
        self._claimed.pop(claim, None)
        return bool((await self._link.submit(self._release_call(claim))).reply)

    def _release_call(self, claim: Claim) -> Call:
        page_id = claim.page_id
        return self._rows_call("release", [page_id], self._local(page_id), _token(claim))

    def _renew_call(self, claims: Sequence[Claim], lease: float) -> Call:
        """The call that extends leases on one shard."""
        pairs = [raw for one in claims for raw in (self._local(one.page_id), _token(one))]
        page_ids = [one.page_id for one in claims]
        return self._rows_call("renew", page_ids, milliseconds(lease), *pairs)

    # Rows

    def _committed(self, raw: bytes) -> int:
        """Parse a counter of committed pages; a damaged one is logged and counts as 0."""
        if raw.isdigit() and len(raw) <= 15:
            return int(raw)
        logger.warning(
            "A counter of stored pages (key committed) is damaged and counts as 0: %s; decisions "
            "do not use it, and `scrapy dedup verify` counts the pages",
            self._name,
        )
        return 0

    def _seen(
        self, page_ids: NDArray[np.uint64], rows: list[bytes], texts: Sequence[tuple[bytes, bytes]]
    ) -> Seen:
        """Build the result of :meth:`look` from stored rows, addresses and payloads. A damaged row
        is counted and gets state FREE, as does a page id of more than 40 bits (a damaged bucket).
        """
        raw = [
            row if page_id <= PAGE_ID_MASK else row[:1]
            for page_id, row in zip(page_ids.tolist(), rows, strict=True)
        ]
        read, damaged = read_rows(raw, self.layout)
        self.corrupt += damaged
        records = PageRecords(page_ids, self.layout.content(read), *split_stamps(read["stamp"]))
        named = [text_or_none(address) for address, _ in texts]
        return Seen(records, named, [payload for _, payload in texts])


def _token(claim: Claim) -> bytes:
    return claim.token.to_bytes(8, "little")


def milliseconds(seconds: float) -> int:
    """A lease in milliseconds, at least 1, as the scripts take it."""
    return max(1, round(seconds * 1000))
