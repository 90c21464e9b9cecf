"""Blocking calls over the index's own kind of connection: cluster, sentinels, retries and all."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from dedup_middleware.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.index.redis_link import Call, RedisLink
from dedup_middleware.index.redis_scripts import Script
from dedup_middleware.index.redis_servers import Reply
from dedup_middleware.journal.base import JournalError
from dedup_middleware.options import Options

Command = Sequence[bytes | int]

# Commands one after the other, all or nothing as far as Redis knows that.
_TOGETHER = b"""
local i = 1
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  redis.call(unpack(ARGV, i + 1, i + n))
  i = i + n + 1
end
"""
_SCRIPT = Script(_TOGETHER, hashlib.sha1(_TOGETHER, usedforsecurity=False).hexdigest().encode())


class Line:
    """A connection with an event loop in a thread of its own, so that any thread may use it.

    :param key: any key of the namespace
    """

    def __init__(self, options: Options, where: str, key: str) -> None:
        self._where = where
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dedup-journal-redis", daemon=True
        )
        self._thread.start()
        self._link = RedisLink(
            options.index_url,
            options.safe_index_url.partition("?")[0],
            key,
            options.timeout,
            options.retries,
        )

    def ask(self, *commands: Command) -> list[Reply]:
        """Send commands together and wait for their replies.

        :raises JournalError: one of them has failed
        """
        return self._send([Call(command) for command in commands])

    def together(self, keys: Sequence[bytes], commands: Sequence[Command]) -> None:
        """Carry out commands with nothing between them.

        :raises JournalError: as above; the commands before the one that failed may be done
        """
        arguments = [word for command in commands for word in (len(command), *command)]
        self._send([Call(arguments, keys, _SCRIPT)])

    def _send(self, calls: Sequence[Call]) -> list[Reply]:
        async def work() -> list[Reply]:
            return [one.reply for one in await asyncio.gather(*map(self._link.submit, calls))]

        waiting: Future[list[Reply]] = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return waiting.result()
        except (IndexUnavailableError, IndexRefusedError) as error:
            raise JournalError(f"the journal {self._where} can't be used: {error}") from error

    def close(self) -> None:
        """Disconnect and end the thread."""
        asyncio.run_coroutine_threadsafe(self._link.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
