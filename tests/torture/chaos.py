"""A way to a server that cuts, stalls, half-closes, truncates and swallows at random."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator

from tests.index.proxy import Proxy

KINDS = ("cut", "truncate", "half-close", "stall", "drip", "swallow")


class Chaos(Proxy):
    """Disturbs a share of what goes through it, at a random byte, in both directions.

    What a server has done is done, whatever becomes of its answer. ``cut``: some bytes pass, then
    both sides are reset. ``truncate``: some bytes of an answer pass, then a proper end.
    ``half-close``: all of it passes, then an end in this direction alone. ``stall``: some bytes
    pass, the others after a while. ``drip``: they pass one by one. ``swallow``: nothing passes,
    and the connection stays open.

    :param share: of the pieces of data that are disturbed
    :param seconds: how long a stall takes at the most
    """

    def __init__(self, port: int, *, share: float, seconds: float, seed: int) -> None:
        super().__init__(port)
        self.share = share
        self.done: Counter[str] = Counter()
        self._seconds = seconds
        self._dice = random.Random(seed)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                self.received += not answers
                if self._dice.random() >= self.share:
                    writer.write(data)
                elif not await self._disturb(data, writer):
                    break
        writer.transport.abort()

    async def _disturb(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """Pass on a piece in a strange way; False if the connection has ended."""
        kind = self._dice.choice(KINDS)
        self.done[kind] += 1
        at = self._dice.randrange(len(data))
        if kind == "swallow":
            return True
        if kind == "drip":
            for i in range(min(len(data), 64)):
                writer.write(data[i : i + 1])
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(data[64:])
            return True
        writer.write(data if kind == "half-close" else data[:at])
        await writer.drain()
        if kind == "stall":
            await asyncio.sleep(self._dice.random() * self._seconds)
            writer.write(data[at:])
        elif kind == "cut":
            return False
        elif not writer.is_closing():
            writer.write_eof()
        return True


@contextlib.contextmanager
def chaos(port: int, *, share: float, seconds: float, seed: int) -> Iterator[Chaos]:
    """A proxy in a thread with an event loop of its own."""
    ready, over = threading.Event(), asyncio.Event()
    proxy = Chaos(port, share=share, seconds=seconds, seed=seed)
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        # Connections that were cut leave errors of their own, which say nothing of what is tested.
        loop.set_exception_handler(lambda _loop, _context: None)
        async with proxy:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
