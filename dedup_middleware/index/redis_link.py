"""From calls to replies: batches, retries, forgotten scripts, servers that move.

All calls of a process go through one connection, in batches. A batch is sent again as often as
``DEDUP_RETRIES`` says, but only those of its calls that have no reply yet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import attrs
import hiredis

from dedup_middleware.errors import DedupError, IndexRefusedError
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.redis_errors import Complaint, Remedy, as_error, understand
from dedup_middleware.index.redis_scripts import Script
from dedup_middleware.index.redis_url import Address
from dedup_middleware.index.redis_wire import Reply, Wire, WireError, pack

BATCH = 64
_FIRST_PAUSE = 0.05  # seconds
_LONGEST_PAUSE = 2.0


@attrs.frozen(eq=False)
class Call:
    """A command, or a script with its keys and arguments."""

    arguments: Sequence[bytes | int]
    keys: Sequence[bytes] = ()
    script: Script | None = None

    def packed(self, *, in_full: bool) -> bytes:
        """The bytes to send. ``in_full``: with the text of the script."""
        if self.script is None:
            return pack(*self.arguments)
        send = self.script.call_in_full if in_full else self.script.call
        return send(list(self.keys), *self.arguments)


@attrs.frozen(eq=False)
class Answer:
    """A reply. ``again``: an earlier try of the call may have been carried out as well."""

    reply: Reply
    again: bool = False


@attrs.define(eq=False)
class _Try:
    """A call on its way."""

    call: Call
    again: bool = False
    in_full: bool = False
    answer: Answer | None = None
    trouble: Complaint | None = None


class RedisLink:
    """Sends calls to the server that holds the namespace.

    :param where: address for messages, without its password
    ``introduce`` gives the call that goes first over every new connection, if any, and
    ``check_introduction`` looks at its reply and may raise IndexRefusedError.
    """

    def __init__(self, address: Address, where: str, timeout: float, retries: int) -> None:
        self.opening = True  # whether a refusal is told as such; later calls only tell "not now"
        self.introduce: Callable[[], Call | None] = lambda: None
        self.check_introduction: Callable[[Reply], None] = lambda _: None
        self._home = address
        self._where = where
        self._timeout = timeout
        self._retries = retries
        self._wire = Wire(address, timeout)
        self._batcher: Batcher[Call, Answer] = Batcher(self._run, BATCH)

    def submit(
        self, call: Call, undo: Callable[[Answer], None] | None = None
    ) -> asyncio.Future[Answer]:
        """Send a call with the next batch; see :meth:`.Batcher.submit`."""
        return self._batcher.submit(call, undo)

    async def close(self) -> None:
        """Finish what is under way and drop the connection."""
        await self._batcher.join()
        await self._wire.wait_closed()

    async def _run(self, calls: list[Call]) -> list[Answer | Exception]:
        tries = [_Try(call) for call in calls]
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(_pause(attempt))
            await self._attempt(tries)
            open_tries = [one for one in tries if one.answer is None]
            if not open_tries or all(_hopeless(one) for one in open_tries):
                break
        return [one.answer or self._error(one.trouble) for one in tries]

    async def _attempt(self, tries: list[_Try]) -> None:
        """Send what has no answer yet. Forgotten scripts cost no attempt: they were not run."""
        for _ in range(3):
            todo = [one for one in tries if one.answer is None and not _hopeless(one)]
            await self._exchange(todo)
            if not any(
                one.trouble and one.trouble.remedy in _FREE for one in todo if one.answer is None
            ):
                return

    async def _exchange(self, todo: list[_Try]) -> None:
        if not self._wire.connected:
            trouble = await self._connect()
            if trouble is not None:
                for one in todo:
                    one.trouble = trouble
                return
        try:
            replies = await self._wire.exchange(
                [one.call.packed(in_full=one.in_full) for one in todo]
            )
        except WireError as error:
            self._go_home()
            replies = error.replies
            for one in todo[len(replies) :]:
                one.trouble = Complaint(str(error), Remedy.RECONNECT)
                one.again = True
        for one, reply in zip(todo, replies, strict=False):
            self._take(one, reply)

    def _take(self, one: _Try, reply: Reply) -> None:
        if not isinstance(reply, hiredis.ReplyError):
            one.answer = Answer(reply, one.again)
            return
        one.trouble = understand(reply)
        remedy = one.trouble.remedy
        if remedy is Remedy.SCRIPT:
            one.in_full = True
        elif remedy is Remedy.REDIRECT:
            self._wire.close()
            self._wire = Wire(_moved(self._home, str(reply)), self._timeout)
        elif remedy in {Remedy.RECONNECT, Remedy.OPEN}:
            # A new connection is introduced, and so opens the index again.
            self._go_home()

    async def _connect(self) -> Complaint | None:
        """Connect and introduce oneself; what went wrong, if anything did."""
        try:
            await self._wire.connect()
            call = self.introduce()
            if call is None:
                return None
            (reply,) = await self._wire.exchange([call.packed(in_full=True)])
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            self.check_introduction(reply)
        except WireError as error:
            trouble = Complaint(
                str(error), Remedy.NONE if error.final else Remedy.RECONNECT, refused=error.final
            )
        except hiredis.ReplyError as error:
            trouble = understand(error)
        except IndexRefusedError as error:
            trouble = Complaint(str(error), refused=True)
        else:
            return None
        self._go_home()
        return trouble

    def _go_home(self) -> None:
        self._wire.close()
        self._wire = Wire(self._home, self._timeout)

    def _error(self, trouble: Complaint | None) -> DedupError:
        assert trouble is not None
        return as_error(trouble.text, self._where, refused=trouble.refused and self.opening)


_FREE = {Remedy.SCRIPT, Remedy.REDIRECT, Remedy.OPEN}


def _hopeless(one: _Try) -> bool:
    return one.trouble is not None and one.trouble.remedy is Remedy.NONE


def _pause(attempt: int) -> float:
    """Seconds before an attempt: doubled each time, and random, so that processes spread out."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(2**attempt)) * random.uniform(0.5, 1)


def _moved(home: Address, reply: str) -> Address:
    """The address in ``MOVED 3999 10.0.0.1:6381``; an empty host means the one that answered."""
    host, _, port = reply.rsplit(maxsplit=1)[-1].rpartition(":")
    return attrs.evolve(home, host=host.strip("[]") or home.host, port=int(port))
