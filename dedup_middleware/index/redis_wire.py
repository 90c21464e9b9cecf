"""One connection to a Redis server: commands out, replies in, in the same order.

Replies are parsed by hiredis as they arrive. Against reading them one by one through
``redis.asyncio`` this saves most of the client's time (see ``benchmarks/index.py``).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

import hiredis

from dedup_middleware.index.redis_url import Address

Reply = Any  # bytes, int, None, list, dict (RESP3) or hiredis.ReplyError


def pack(*words: bytes | str | int) -> bytes:
    """A command in the form in which it is sent."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub takes one word
    return packed


class WireError(Exception):
    """The connection is of no more use.

    ``replies`` are those that came before it broke; nobody knows whether the commands behind
    them were carried out. ``final``: another try would end the same way.
    """

    def __init__(self, message: str, replies: Sequence[Reply] = (), *, final: bool = False) -> None:
        super().__init__(message)
        self.replies = list(replies)
        self.final = final


class _Replies(asyncio.Protocol):
    """Gathers replies until there are as many as wanted."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.lost: str | None = None
        self._reader = hiredis.Reader(notEnoughData=Ellipsis)
        self._wanted = 0
        self._done: asyncio.Future[None] | None = None
        self.closed = asyncio.Event()

    def expect(self, wanted: int) -> asyncio.Future[None]:
        self.replies = []
        self._wanted = wanted
        self._done = asyncio.get_running_loop().create_future()
        if self.lost is not None:
            self._done.set_result(None)
        return self._done

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not Ellipsis:
                # RESP3 servers may push messages nobody asked for.
                if not isinstance(reply, hiredis.PushNotification):
                    self.replies.append(reply)
        except hiredis.ProtocolError as error:
            self._finish(f"the server's answer is not that of a Redis server ({error})")
            return
        if len(self.replies) >= self._wanted:
            self._finish(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._finish(str(exc) if exc else "the server closed the connection")

    def _finish(self, lost: str | None) -> None:
        self.lost = self.lost or lost
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


class Wire:
    """A connection; one exchange at a time.

    :param timeout: seconds that connecting, and each exchange, may take
    """

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self._timeout = timeout
        self._transport: asyncio.Transport | None = None
        self._protocol = _Replies()

    @property
    def connected(self) -> bool:
        """Whether an exchange may be tried without connecting first."""
        return self._transport is not None and self._protocol.lost is None

    async def connect(self) -> None:
        """Connect and sign on.

        :raises WireError: no connection, or no answer in time
        :raises hiredis.ReplyError: the server refuses the user, the password or the database
        """
        self.close()
        try:
            await asyncio.wait_for(self._connect(), self._timeout)
            for reply in await self.exchange(_greeting(self.address)):
                if isinstance(reply, hiredis.ReplyError):
                    raise reply
        except asyncio.TimeoutError:
            self.close()
            raise WireError(f"no connection within {self._timeout:g} seconds") from None
        except OSError as error:
            self.close()
            final = isinstance(error, ssl.SSLCertVerificationError)
            raise WireError(str(error) or type(error).__name__, final=final) from error
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        address = self.address
        protocol = _Replies()
        transport: asyncio.Transport
        if address.path is not None:
            transport, _ = await loop.create_unix_connection(lambda: protocol, address.path)
        else:
            context = _context(address)
            transport, _ = await loop.create_connection(
                lambda: protocol, address.host, address.port, ssl=context
            )
        self._transport, self._protocol = transport, protocol

    async def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """Send packed commands in one go, and wait for all their replies.

        :raises WireError: the connection broke or an answer took too long
        """
        if not commands:
            return []
        if self._transport is None:
            raise WireError("not connected")
        done = self._protocol.expect(len(commands))
        self._transport.write(b"".join(commands))
        try:
            await asyncio.wait_for(done, self._timeout)
        except asyncio.TimeoutError:
            replies = self._protocol.replies
            self.close()
            raise WireError(f"no answer within {self._timeout:g} seconds", replies) from None
        except BaseException:
            # Answers still under way would be taken for those of the next exchange.
            self.close()
            raise
        if len(self._protocol.replies) != len(commands):
            replies, lost = self._protocol.replies, self._protocol.lost
            self.close()
            raise WireError(lost or "more answers than questions", replies[: len(commands)])
        return self._protocol.replies

    def close(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def wait_closed(self) -> None:
        """Drop the connection and wait until its socket is given back."""
        if self._transport is not None:
            self.close()
            await self._protocol.closed.wait()


def _context(address: Address) -> ssl.SSLContext | None:
    try:
        return address.tls.context() if address.tls else None
    except OSError as error:
        raise WireError(f"its certificate files can't be read: {error}", final=True) from error


def _greeting(address: Address) -> list[bytes]:
    commands: list[tuple[str | int, ...]] = []
    if address.password is not None:
        user = (address.username,) if address.username is not None else ()
        commands.append(("AUTH", *user, address.password))
    if address.protocol != 2:
        commands.append(("HELLO", address.protocol))
    if address.database:
        commands.append(("SELECT", address.database))
    return [pack(*command) for command in commands]
