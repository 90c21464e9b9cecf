"""A proxy in front of a server that delays, cuts or swallows what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType


class Proxy:
    """Listens on a free port and passes everything on to ``port``.

    :param host: where it listens
    :param delay: seconds that answers take longer
    """

    def __init__(self, port: int, *, host: str = "127.0.0.1", delay: float = 0.0) -> None:
        self.received = 0  # pieces of data from clients
        self.swallow_answers = False  # the connection looks alive, nothing comes back
        self.cut_at_answer = False  # the next answer is dropped together with its connection
        self.connections = 0
        self.delay = delay
        self._host = host
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Its address as a setting."""
        assert self._server is not None
        return f"redis://{self._host}:{self._server.sockets[0].getsockname()[1]}/0"

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, self._host, 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0)  # transports close their sockets in the next turn of the loop

    def cut(self) -> None:
        """Close every connection at once."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        for task in (
            asyncio.ensure_future(self._pass_on(reader, back, answers=False)),
            asyncio.ensure_future(self._pass_on(there, writer, answers=True)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 20):
                if answers and self.cut_at_answer:
                    self.cut_at_answer = False
                    self.cut()
                    return
                if answers and self.swallow_answers:
                    continue
                self.received += not answers
                if answers and self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
        writer.transport.abort()
