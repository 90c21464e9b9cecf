"""The index on a Redis server, shared by all who use its namespace.

Keys, all of the form ``{namespace}...`` and so in one slot of a cluster:

* ``table (1 byte) prefix (2)``, and with a window ``generation (4)``: a bucket
* ``s chunk (4)``: rows of satellites (see :data:`.redis_scripts.ROW`)
* ``a chunk (4)``: addresses
* ``leases``, ``schema``, ``parameters``, ``counters``, ``committed``, ``generations``: one key each
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import SCHEMA, Claim, Entry, Index, Parameters, Reading
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.compaction import Living
from dedup_middleware.index.growth import (
    Change,
    check_slots,
    first_reading,
    generation_of,
    grown,
    guards,
    reading_of_generations,
)
from dedup_middleware.index.layout import cut_address, head
from dedup_middleware.index.parameters import agree, check_schema, complete, missing
from dedup_middleware.index.records import NUMBER_MASK, Satellites, State
from dedup_middleware.index.redis_expiry import first_numbers, remove_expired
from dedup_middleware.index.redis_link import Answer, Call, RedisLink
from dedup_middleware.index.redis_scripts import COUNTER, COUNTERS, ROW, ROWS, script
from dedup_middleware.index.redis_servers import Reply
from dedup_middleware.index.redis_size import estimate_bytes
from dedup_middleware.index.redis_upkeep import chunks, compact_buckets
from dedup_middleware.index.stats import IndexStats
from dedup_middleware.index.tables import Slot
from dedup_middleware.index.window import Moment, Window, window_parameter
from dedup_middleware.options import Options

_FETCH = 512  # pages in one call: bounds how long a script keeps the server

_SCHEMA = str(SCHEMA).encode()


class RedisIndex(Index):
    """Buckets as strings, satellites packed in chunks, decisions made by Lua scripts.

    :param options: ``index_url``, ``namespace``, ``timeout`` and ``retries`` are used
    :param window: seconds that a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        self.corrupt = 0
        self._where = options.safe_index_url.partition("?")[0]
        self.prefix = b"{" + options.namespace.encode() + b"}"
        self._link = RedisLink(
            options.index_url,
            self._where,
            self.prefix.decode(),
            options.timeout,
            options.retries,
        )
        self._parameters: dict[str, str] = {}
        self._window = Window(window)
        self._ahead = 0.0  # seconds of the server's clock before our monotonic one
        self._generation = 0
        self._sweeper: asyncio.Task[None] | None = None

    def _key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    def _buckets(self, slots: Iterable[Slot], generation: int) -> list[bytes]:
        prefix = self.prefix
        names = [prefix + slot.bucket.to_bytes(3, "big") for slot in slots]
        if not self._window.seconds:
            return names
        end = generation.to_bytes(4, "big")
        return [name + end for name in names]

    def _moment(self) -> Moment:
        """This moment by the server's clock, as far as we know it."""
        moment = self._window.at(time.monotonic() + self._ahead)
        if moment.generation < self._generation:  # a claim has told us better
            moment = self._window.of_generation(self._generation)
        return moment

    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Connect, and agree on the parameters; see :meth:`.Index.open`."""
        link = self._link
        link.opening = True
        wanted = {**parameters, **window_parameter(self._window.seconds)}
        answer = await link.submit(self._open_call(complete(wanted)))
        self._parameters = self._agreed(answer.reply, wanted)
        self._sweep()
        link.opening = False
        link.introduce = lambda: self._open_call(self._parameters)
        link.check_introduction = self._check
        return dict(self._parameters)

    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists; see :meth:`.Index.attach`."""
        answer = await self._link.submit(self._open_call({}, schema=b""))
        if not answer.reply[0]:
            raise missing(f"{self._where} (DEDUP_NAMESPACE={self.prefix[1:-1].decode()})")
        self._parameters = self._agreed(answer.reply, None)
        return dict(self._parameters)

    def _open_call(self, parameters: Mapping[str, str], schema: bytes = _SCHEMA) -> Call:
        names = ("leases", "schema", "parameters", "counters")
        pairs = [text.encode() for pair in sorted(parameters.items()) for text in pair]
        return self._script("open", names, schema, *pairs)

    def _agreed(self, reply: Any, parameters: Parameters | None) -> dict[str, str]:
        schema, fields, milliseconds = reply
        where = f"{self._where} (DEDUP_NAMESPACE={self.prefix[1:-1].decode()})"
        check_schema(schema.decode("utf-8", "replace"), where)
        # RESP3 gives a dictionary to a command, but a flat list to a script, as RESP2 does.
        texts = [field.decode("utf-8", "replace") for field in fields]
        stored = dict(zip(texts[::2], texts[1::2], strict=True))
        if parameters is not None:
            stored = agree(stored, parameters, where)
        self._ahead = milliseconds / 1000 - time.monotonic()
        return stored

    def _check(self, reply: Any) -> None:
        self._agreed(reply, self._parameters)

    async def close(self) -> None:
        """Finish what is under way and disconnect. Claims stay as they are."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await self._link.close()

    async def read(self, slots: Sequence[Slot]) -> Reading:
        """The buckets of all ``slots`` as they are now, in one round trip."""
        if not slots:
            return first_reading((), ())
        moment = self._moment()
        names = [name for one in moment.live for name in self._buckets(slots, one)]
        answer = await self._link.submit(Call((b"MGET", *names)))
        data = [raw or b"" for raw in answer.reply]
        if not self._window.seconds:
            return first_reading(slots, data)
        # All slots of the oldest generation, then all of the next one.
        count = len(slots)
        return reading_of_generations(
            slots, [data[i::count] for i in range(count)], moment.generation
        )

    async def fetch(self, numbers: NDArray[np.uint64]) -> Satellites:
        """Satellites of pages; one that does not exist has state FREE."""
        wanted = np.asarray(numbers, np.uint64)
        raw = await self._of_pages("fetch", wanted.tolist())
        missing = bytes(ROW.itemsize)
        for i, row in enumerate(raw):
            if len(row) != ROW.itemsize:
                self.corrupt += bool(row)
                raw[i] = missing
        rows = np.frombuffer(bytearray(b"".join(raw)), ROW)
        strange = rows["state"] > State.RELEASED
        if strange.any():
            self.corrupt += int(strange.sum())
            rows[strange] = np.zeros((), ROW)
        return Satellites(
            wanted,
            np.ascontiguousarray(rows["content"]),
            np.ascontiguousarray(rows["state"]),
        )

    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""
        found = await self._of_pages("addresses", list(map(int, numbers)))
        return [raw.decode("utf-8", "replace") if raw else None for raw in found]

    async def _of_pages(self, name: str, numbers: Sequence[int]) -> list[bytes]:
        """One answer of a script for each page."""
        parts = [numbers[i : i + _FETCH] for i in range(0, len(numbers), _FETCH)]
        calls = [
            self._link.submit(
                self._script(
                    name, ("leases",), b"".join(map(_page, part)), more_keys=self._chunks(part)
                )
            )
            for part in parts
        ]
        return [row for answer in await asyncio.gather(*calls) for row in answer.reply]

    def _chunks(self, numbers: Iterable[int]) -> list[bytes]:
        # Named so that a cluster that moves the namespace key by key answers "try again".
        return [
            self.prefix + b"s" + chunk.to_bytes(4, "little")
            for chunk in {number // ROWS for number in numbers if number <= NUMBER_MASK}
        ]

    async def claim(self, entry: Entry, reading: Reading, lease: float) -> Claim | Reading:
        """Take the place of a page; see :meth:`.Index.claim`."""
        check_slots(entry, reading)
        token = secrets.token_bytes(8)
        heads = {slot.bucket: head(slot) for slot in entry.slots}
        written = [heads.get(slot.bucket, b"") for slot in reading.slots]
        arguments = (
            token,
            _milliseconds(lease),
            entry.content,
            cut_address(entry.address or ""),
            struct.pack(f"<{len(reading.lengths)}I", *reading.lengths),
            b"".join(guards(reading)),
            bytes(48 + len(raw) for raw in written),
            b"".join(written),
            self._window.span_ms,
            generation_of(reading),
        )
        names = ("leases", "counters", "generations")
        buckets = self._buckets(reading.slots, generation_of(reading))
        call = self._script("claim", names, *arguments, more_keys=buckets)

        def outcome(answer: Answer) -> Claim | Reading:
            if isinstance(answer.reply, bytes):
                number = int.from_bytes(answer.reply, "little")
                return Claim(number, int.from_bytes(token, "little"))
            changes: list[Change] = [
                None if item is None else (item[1], bool(item[0])) for item in answer.reply
            ]
            return grown(reading, changes) or reading

        def undo(answer: Answer) -> None:
            made = None if isinstance(answer.reply, int) else outcome(answer)
            if isinstance(made, Claim):
                forget_outcome(self._link.submit(self._claim_call("release", made)))

        answer = await self._link.submit(call, undo)
        if isinstance(answer.reply, int):
            self._generation = answer.reply
            self._sweep()
            return await self.read(reading.slots)
        return outcome(answer)

    async def expiring(self, numbers: Sequence[int]) -> list[bool]:
        """Whether pages are of the oldest live generation; see :meth:`.Index.expiring`."""
        if not self._window.seconds:
            return [False] * len(numbers)
        firsts = await first_numbers(self)
        oldest = self._moment().oldest
        later = [first for generation, (first, _) in firsts.items() if generation > oldest]
        return [number < min(later, default=0) for number in numbers]

    def _sweep(self) -> None:
        """Remove expired generations while the work goes on."""
        if self._window.seconds and (self._sweeper is None or self._sweeper.done()):
            work = remove_expired(self, self._moment().oldest)
            self._sweeper = asyncio.get_running_loop().create_task(work)

    async def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Reply:
        """Run a script on the keys ``leases``, ``counters`` and ``committed``."""
        names = ("leases", "counters", "committed")
        call = self._script(name, names, *arguments, more_keys=more_keys)
        return (await self._link.submit(call)).reply

    async def ask(self, *command: bytes | int) -> Reply:
        """Send one command."""
        return (await self._link.submit(Call(command))).reply

    async def counters(self) -> tuple[int, ...]:
        """Page numbers given, bytes of addresses, buckets, records left out, pages removed."""
        raw = (await self.ask(b"GET", self._key("counters"))) or b""
        return tuple(
            int.from_bytes(raw[i : i + COUNTER], "little")
            for i in range(0, COUNTERS * COUNTER, COUNTER)
        )

    async def commit(self, claim: Claim) -> bool:
        """The page is stored. False: the lease had run out or the claim is gone."""
        answer = await self._link.submit(self._claim_call("commit", claim))
        # 2: committed already; by this very call, if an earlier try of it got no answer.
        return bool(answer.reply == 1 or (answer.reply == 2 and answer.again))

    async def release(self, claim: Claim) -> bool:
        """The page was not stored. False: nothing to release."""
        answer = await self._link.submit(self._claim_call("release", claim))
        return bool(answer.reply)

    def _claim_call(self, name: str, claim: Claim) -> Call:
        names = ("leases", "committed") if name == "commit" else ("leases",)
        token = claim.token.to_bytes(8, "little")
        chunks = self._chunks([claim.number])
        return self._script(name, names, _page(claim.number), token, more_keys=chunks)

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases by ``lease`` seconds from now. False: that one had run out."""
        if not claims:
            return []
        pairs = [
            raw
            for claim in claims
            for raw in (_page(claim.number), claim.token.to_bytes(8, "little"))
        ]
        chunks = self._chunks(claim.number for claim in claims)
        call = self._script("renew", ("leases",), _milliseconds(lease), *pairs, more_keys=chunks)
        return [bool(flag) for flag in (await self._link.submit(call)).reply]

    async def count(self) -> int:
        """Number of committed pages."""
        answer = await self._link.submit(Call((b"GET", self._key("committed"))))
        return int(answer.reply or 0)

    async def pages(self) -> AsyncIterator[Satellites]:
        """All pages; see :meth:`.Index.pages`."""
        async for _, pages in chunks(self):
            known = (pages.states != State.FREE) & (pages.states <= State.RELEASED)
            yield Satellites(pages.numbers[known], pages.content[known], pages.states[known])

    async def forget(self, numbers: Sequence[int]) -> int:
        """Let committed pages read as released; see :meth:`.Index.forget`."""
        pages = [_page(int(number)) for number in numbers]
        calls = [
            self.run("forget", b"".join(pages[i : i + _FETCH]))
            for i in range(0, len(pages), _FETCH)
        ]
        return sum(await asyncio.gather(*calls))

    async def compact(self) -> int:
        """Take records of pages that are gone out of all buckets, and chunks of only such."""
        living = Living((await self.counters())[0])
        empty = []
        async for chunk, pages in chunks(self):
            if not living.add(pages):
                empty.append(chunk)
        removed = await compact_buckets(self, living)
        for chunk in empty:
            await self.run("expire_chunk", chunk)
        return removed

    async def stats(self) -> IndexStats:
        """State of the index; the bytes are an estimate from a sample of its keys."""
        live, committed, raw = await asyncio.gather(
            self._link.submit(self._script("lapse", ("leases",))), self.count(), self.counters()
        )
        issued, text, buckets, overflow, gone = raw
        pending = int(live.reply)
        return IndexStats(
            committed=committed,
            pending=pending,
            released=max(0, issued - gone - committed - pending),
            buckets=buckets,
            bytes=await estimate_bytes(self, issued - gone, text, buckets),
            corrupt=self.corrupt,
            overflow=overflow,
            parameters=dict(self._parameters),
        )

    def _script(
        self,
        name: str,
        keys: Iterable[str],
        *arguments: bytes | int,
        more_keys: Sequence[bytes] = (),
    ) -> Call:
        names = [*map(self._key, keys), *more_keys]
        return Call((self.prefix, *arguments), names, script(name))


def _page(number: int) -> bytes:
    # A number of more than 40 bits comes from a damaged record: no page has it.
    return (number if number <= NUMBER_MASK else 0).to_bytes(5, "little")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
