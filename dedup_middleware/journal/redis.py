"""The journal in Redis."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.redis.link import Call, RedisLink
from dedup_middleware.index.redis.scripts import Script
from dedup_middleware.index.redis.servers import pairs
from dedup_middleware.journal.entries import (
    HOUR,
    Activity,
    Body,
    Drop,
    Hour,
    JournalError,
    JournalSize,
    JournalStore,
    Kept,
    Query,
    kept_name,
    pack,
    pack_body,
    to_hours,
)

Command = Sequence[bytes | int]

# Runs commands without interruption, unless the batch of this number has been written. An error
# undoes no earlier write, so rights, types and numbers are checked for all commands first; Redis
# checks memory and disk at the first write.
_TOGETHER = b"""
if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', KEYS[1], 'batch') or 0) then return end
for _, writes in ipairs({false, true}) do
  local i = 2
  while i <= #ARGV do
    local n, name, key = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
    if writes then
      redis.call(unpack(ARGV, i + 1, i + n))
    elseif redis.acl_check_cmd and not redis.acl_check_cmd(unpack(ARGV, i + 1, i + n)) then
      return redis.error_reply('NOPERM ' .. name)
    elseif name == 'XADD' then
      redis.call('XLEN', key)
    else
      local value = redis.call('HGET', key, name == 'HINCRBY' and ARGV[i + 3] or '') or '0'
      local counts = value == '0' or value:find('^[1-9]%d*$') and #value < 16
      if name == 'HINCRBY' and not counts then
        return redis.error_reply('WRONGTYPE ' .. key)
      end
    end
    i = i + n + 1
  end
end
"""
_SCRIPT = Script(_TOGETHER, hashlib.sha1(_TOGETHER, usedforsecurity=False).hexdigest().encode())


_PART = 200  # entries per reply
_CHUNKS = 16  # about the number of chunks of kept texts; the oldest is removed as a whole
_DAYS = 31
_DAY = 24 * HOUR
_CLOCKS = 3600  # seconds by which the clocks of two machines may differ
_ENTRY = 60  # overhead of an entry in bytes
_POINTER = b"@"  # prefix of a page id: this field holds the name of the page's field
# An entry has the field m with the values of _FIELDS, and b with the body.
_FIELDS = tuple(field.name for field in attrs.fields(Drop) if field.name not in {"id", "body"})


class RedisJournal(JournalStore):
    """Drops in a stream, kept texts and counters in hashes, inside the index's namespace.

    :param options: address, namespace, timeout and retries are used
    :param max_bytes: cap on the memory; texts of stored pages take at most half of it
    """

    def __init__(self, options: Options, *, max_bytes: int) -> None:
        self._options = options
        self._prefix = b"{" + options.namespace.encode() + b"}journal/"
        self._address = options.safe_index_url.partition("?")[0]
        self.where = f"{self._address} (DEDUP_NAMESPACE={options.namespace})"
        self._kept_limit = max_bytes // 2
        self._drops_limit = max_bytes - max_bytes // 2
        self._link: RedisLink | None = None
        # A hash with the number of the last batch that this object has written.
        self._writer = self._key(f"writer/{uuid.uuid4().hex}")
        self._batch = 0

    def open(self, *, create: bool) -> None:
        self._link = RedisLink(self._options, self._address, self._prefix.decode())
        # The event loop has its own thread, so that any thread may use the connection.
        self._loop = asyncio.new_event_loop()
        work = self._loop.run_forever
        self._thread = threading.Thread(target=work, name="dedup-journal-redis", daemon=True)
        self._thread.start()
        try:
            keys = [self._key("drops"), self._key("kept"), *self._day_keys()]
            if not create and not any(self._ask(*([b"EXISTS", key] for key in keys))):
                raise JournalError(f"there is no journal at {self.where}")
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            asyncio.run_coroutine_threadsafe(link.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _key(self, name: str) -> bytes:
        return self._prefix + name.encode()

    def _ask(self, *commands: Command) -> list[Any]:
        """Send commands together and wait for their replies."""
        return self._send([Call(command) for command in commands])

    def _together(self, batch: int, commands: Sequence[Command], counter: bytes) -> None:
        """Run commands in one script, all or none, unless the hash ``counter`` has this batch."""
        arguments = [batch, *(word for command in commands for word in (len(command), *command))]
        keys = {bytes(command[1]) for command in commands if isinstance(command[1], bytes)}
        self._send([Call(arguments, [counter, *sorted(keys - {counter})], _SCRIPT)])

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        link = self._link
        if link is None:
            raise JournalError(f"the journal {self.where} is not open")
        try:
            return asyncio.run_coroutine_threadsafe(link.replies(calls), self._loop).result()
        except (IndexUnavailableError, IndexRefusedError) as error:
            raise JournalError(f"the journal {self.where} can't be used: {error}") from error

    def append(
        self,
        drops: Sequence[Drop],
        kept: Sequence[Kept],
        activity: Activity,
        *,
        again: bool = False,
    ) -> None:
        self._batch += not again
        commands: list[Command] = []
        stream = self._key("drops")
        for drop in drops:
            meta = json.dumps([getattr(drop, name) for name in _FIELDS]).encode()
            body = pack_body(drop.body or Body(""))
            commands.append([b"XADD", stream, b"*", b"m", meta, b"b", body])
        commands += self._keep(kept)
        for (hour, host, name), number in activity.items():
            day, field = self._key(f"day/{hour // _DAY}"), f"{hour} {host} {name}".encode()
            commands.append([b"HINCRBY", day, field, number])
        for number in {hour // _DAY for hour, _, _ in activity}:
            commands.append([b"EXPIRE", self._key(f"day/{number}"), (_DAYS + 1) * _DAY])
        commands.append([b"HSET", self._writer, b"batch", self._batch])
        commands.append([b"EXPIRE", self._writer, _DAY])
        self._together(self._batch, commands, self._writer)
        if drops:
            self._trim_drops()
        if kept:
            self._trim_kept()

    def _keep(self, kept: Sequence[Kept]) -> list[Command]:
        """Commands that write the texts of stored pages to the newest chunk, or begin a new one."""
        if not kept:
            return []
        chunks = self._chunks()
        newest = max(chunks, default=0)
        if chunks.get(newest, 0) > self._kept_limit // _CHUNKS:
            newest += 1
        place = self._key(f"kept/{newest}")
        commands: list[Command] = []
        total = 0
        for page in kept:
            name = kept_name(None if page.by_number else page.key, page.number)
            meta = json.dumps([page.key, page.number, page.title, page.time]).encode()
            field, value = name.encode("utf-8", "replace"), meta + b"\0" + pack(page.text)
            commands.append([b"HSET", place, field, value])
            total += len(field) + len(value) + _ENTRY
            if not page.by_number:
                # Near misses may refer to their match by page id only.
                pointer = _POINTER + str(page.number).encode()
                commands.append([b"HSET", place, pointer, field])
                total += len(pointer) + len(field) + _ENTRY
        commands.append([b"HINCRBY", self._key("kept"), newest, total])
        return commands

    def _chunks(self) -> dict[int, int]:
        (reply,) = self._ask([b"HGETALL", self._key("kept")])
        # Other fields were written by another program.
        own = ((chunk, size) for chunk, size in pairs(reply) if chunk.isdigit() and size.isdigit())
        return {int(chunk): int(size) for chunk, size in own}

    def _trim_kept(self) -> None:
        chunks = self._chunks()
        while len(chunks) > 1 and sum(chunks.values()) > self._kept_limit:
            oldest = min(chunks)
            del chunks[oldest]
            place, names = self._key(f"kept/{oldest}"), self._key("kept")
            self._together(1, [[b"UNLINK", place], [b"HDEL", names, oldest]], names)

    def _trim_drops(self) -> None:
        """Trim the stream if its memory exceeds the cap; XTRIM counts entries, not bytes."""
        length, used = self._stream_size()
        if used > self._drops_limit:
            # Trim to 95 % of the cap, so that not every batch has to trim again.
            rest = int(length * 0.95 * self._drops_limit / used)
            self._ask([b"XTRIM", self._key("drops"), b"MAXLEN", rest])

    def _stream_size(self) -> tuple[int, int]:
        """Number of entries of the stream, and its memory in bytes, estimated from a sample."""
        stream = self._key("drops")
        (length,) = self._ask([b"XLEN", stream])
        try:
            (used,) = self._ask([b"MEMORY", b"USAGE", stream])
        except JournalError:  # the user may lack the right
            (last,) = self._ask([b"XREVRANGE", stream, b"+", b"-", b"COUNT", _PART])
            sizes = [sum(map(len, fields)) + _ENTRY for _, fields in last]
            used = length * sum(sizes) // max(1, len(sizes))
        return int(length), int(used or 0)

    def drops(self, query: Query = Query(), *, bodies: bool = False) -> Iterator[Drop]:  # noqa: B008
        first = self._start(query)
        while True:
            (part,) = self._ask([b"XRANGE", self._key("drops"), first, b"+", b"COUNT", _PART])
            for number, fields in part:
                drop = self._drop(number, fields, bodies=bodies)
                if query.wants(drop):
                    yield drop
            if len(part) < _PART:
                return
            first = b"(" + part[-1][0]

    def _start(self, query: Query) -> bytes:
        if query.limit is None:
            # Ids begin with the server's time of the write, which follows the decision.
            return b"%d" % max(0, int(((query.since or 0) - _CLOCKS) * 1000))
        left, first, end = query.limit, b"+", b"+"
        while left > 0:
            (part,) = self._ask([b"XREVRANGE", self._key("drops"), end, b"-", b"COUNT", _PART])
            for number, fields in part:
                if left > 0 and query.wants(self._drop(number, fields, bodies=False)):
                    first, left = number, left - 1
            if len(part) < _PART:
                break
            end = b"(" + part[-1][0]
        return first

    def bodies(self, ids: Sequence[str]) -> list[Body | None]:
        stream = self._key("drops")
        found = self._ask(*([b"XRANGE", stream, one.encode(), one.encode()] for one in ids))
        return [self._drop(*entry[0], bodies=True).body if entry else None for entry in found]

    def _drop(self, number: bytes, fields: Any, *, bodies: bool) -> Drop:
        try:
            found = dict(pairs(fields))
            values = dict(zip(_FIELDS, json.loads(found[b"m"]), strict=True))
            values["tables"] = tuple(values["tables"])
            raw = found[b"b"]
        except (KeyError, ValueError, TypeError) as error:
            place = self._key("drops").decode()
            raise JournalError(
                f"the journal {self.where} can't be read: {number.decode()} in {place} is no entry "
                f"of it, remove it by XDEL {place} {number.decode()}"
            ) from error
        body = self.body_of(number.decode(), raw) if bodies else None
        return Drop(id=number.decode(), **values, body=body)

    def kept_of_each(self, drops: Sequence[Drop]) -> list[Kept | None]:
        names = [kept_name(drop.match, drop.number).encode("utf-8", "replace") for drop in drops]
        found = self._fields(names)
        pointers = {
            _POINTER + str(drop.number).encode(): name
            for name, drop in zip(names, drops, strict=True)
            if drop.match is None and name not in found
        }
        pointed = self._fields(pointers)
        values = self._fields(pointed.values())
        found |= {pointers[one]: values[name] for one, name in pointed.items() if name in values}
        # The index stores no address, but a revisit and a change have that of their page.
        unnamed = {
            kept_name(None, drop.number).encode()
            for name, drop in zip(names, drops, strict=True)
            if drop.match is not None and name not in found
        }
        found |= self._fields([*unnamed])
        pages = {name: self._unpacked(raw) for name, raw in found.items()}
        own = [pages.get(kept_name(None, drop.number).encode()) for drop in drops]
        return [
            pages.get(name) or (one if one is not None and one.key == drop.match else None)
            for name, drop, one in zip(names, drops, own, strict=True)
        ]

    def _unpacked(self, value: bytes) -> Kept | None:
        meta, _, raw = value.partition(b"\0")
        try:
            key, number, title, moment = json.loads(meta)
        except (ValueError, TypeError) as error:
            self._lost("a stored page", error)
            return None
        return self.unpacked(key, number, title, raw, moment)

    def _fields(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values of fields, each in the newest chunk of kept texts that has it."""
        unique = list(dict.fromkeys(names))
        if not unique:
            return {}
        chunks = sorted(self._chunks())
        replies = self._ask(*([b"HMGET", self._key(f"kept/{one}"), *unique] for one in chunks))
        return {
            name: value
            for values in replies
            for name, value in zip(unique, values, strict=True)
            if value is not None
        }

    def _day_keys(self) -> list[bytes]:
        today = int(time.time()) // _DAY
        return [self._key(f"day/{day}") for day in range(today - _DAYS, today + 2)]

    def hours(self) -> list[Hour]:
        activity: dict[tuple[int, str, str], int] = {}
        for reply in self._ask(*([b"HGETALL", key] for key in self._day_keys())):
            for field, number in pairs(reply):
                hour, _, place = field.decode("utf-8", "replace").partition(" ")
                host, _, name = place.rpartition(" ")
                with contextlib.suppress(ValueError):  # written by another program
                    activity[int(hour), host, name] = int(number)
        return to_hours(activity)

    def size(self) -> JournalSize:
        length, used = self._stream_size()
        chunks = self._chunks()
        names = self._ask(*([b"HKEYS", self._key(f"kept/{chunk}")] for chunk in chunks))
        kept = sum(not name.startswith(_POINTER) for some in names for name in some)
        return JournalSize(length, kept, used + sum(chunks.values()))
