"""Which calls an index gets: those of the process and event loop that use it, and none for a while
when it is unavailable. Calls pause then, stored pages are remembered, and little is logged."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable

import attrs

from dedup_middleware.base.errors import DedupError, IndexUnavailableError
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint

logger = logging.getLogger(__name__)

#: called with the name of a counter and what to add to it
Count = Callable[[str, float], None]

_SEVERAL = object()  # instead of a text
_SHORT = 400  # characters of a text up to which its title is compared, too
_FINGERPRINT = 4096  # bytes that one holds, counted as characters
_KINDS = 64  # faults of which it is known when they were last logged
_PAUSE = 60.0  # seconds from one warning of a kind to the next one


class LoopGuard:
    """Refuses calls in a forked process, or in another event loop than the one that is used.

    Processes that share a connection read each other's replies. A loop is not woken by callbacks of
    another one, and connections and tasks of a loop that has ended do not work any more.
    """

    def __init__(self) -> None:
        self._used: tuple[int, asyncio.AbstractEventLoop] | None = None  # process and loop

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that is used."""
        return self._used is not None and self._used[0] != os.getpid()

    @property
    def has_ended(self) -> bool:
        """Whether the event loop that is used has been closed, in this process."""
        return self._used is not None and not self.is_forked and self._used[1].is_closed()

    def check(self) -> None:
        """Take the running loop as the one that is used, unless another one is.

        :raises DedupError: the call is refused
        """
        if self.is_forked:
            raise DedupError(
                "this Deduplicator was opened before its process was forked; fork first, and open "
                "one in each process"
            )
        loop = asyncio.get_running_loop()
        if self._used is not None:
            if self._used[1] is loop:
                return
            if self.has_ended:
                raise DedupError(
                    "the event loop that this Deduplicator was used in has ended, as at the end of "
                    "asyncio.run(): make all calls in one, or close it at the end of each and open "
                    "it in the next one"
                )
            if self._used[1].is_running():
                raise DedupError(
                    "this Deduplicator is used in another event loop, which is running; open one "
                    "for each thread, or send its calls there with "
                    "asyncio.run_coroutine_threadsafe"
                )
        self._used = os.getpid(), loop


@attrs.frozen
class Unsettled:
    """A page that was stored while the index was unavailable, and its claim if it had one.

    ``is_doubtful``: another text under its key was stored meanwhile, so storage may hold either.
    """

    document: Document | Fingerprint
    claim: Claim | None = None
    is_doubtful: bool = False


@attrs.define(eq=False)
class Breaker:
    """A circuit breaker: no calls to a dead index for a pause that grows with each failure.

    Without it every page would wait for all time-outs and retries, and the crawl would stop.

    :param clock: seconds, monotonic
    """

    _clock: Callable[[], float]
    _first: float = attrs.field(default=0.5, kw_only=True)
    _longest: float = attrs.field(default=30.0, kw_only=True)
    _pause: float = attrs.field(init=False, default=0.0)
    _until: float = attrs.field(init=False, default=0.0)

    @property
    def closed(self) -> bool:
        """Whether calls to the index are allowed now."""
        return self._clock() >= self._until

    def failed(self) -> None:
        """The index did not answer: wait, twice as long as last time.

        A hundred calls that were under way when it went away are one failure.
        """
        if self.closed:
            self._pause = min(max(self._first, self._pause * 2), self._longest)
            self._until = self._clock() + self._pause

    def worked(self) -> None:
        """The index answered."""
        self._pause = 0.0
        self._until = 0.0


class Backlog:
    """Pages that were stored unchecked, kept to be put into the index later; bounded.

    :param max_chars: characters of text kept in all; the oldest pages are forgotten beyond it
    """

    def __init__(self, max_chars: int = 50_000_000) -> None:
        self._pages: deque[Unsettled] = deque()
        # Of each key how many pages there are, and a digest of their text, or _SEVERAL.
        self._counts: Counter[str] = Counter()
        self._texts: dict[str, object] = {}
        self._claims = 0
        self._chars = 0
        self._max_chars = max_chars

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, page: Unsettled) -> int:
        """Remember a page; returns how many older ones had to be forgotten."""
        self._pages.append(page)
        key = page.document.key
        text = _SEVERAL if page.is_doubtful else _text(page.document)
        if self._texts.setdefault(key, text) != text:
            self._texts[key] = _SEVERAL
        self._counts[key] += 1
        self._claims += page.claim is not None
        self._chars += _chars(page.document)
        forgotten = 0
        while self._chars > self._max_chars and self._pages:
            self._take(0)
            forgotten += 1
        return forgotten

    def pop(self) -> Unsettled:
        """The oldest page, of those with a claim if there are any: others may wait for these.

        :raises IndexError: there is none
        """
        claimed = (i for i, page in enumerate(self._pages) if page.claim is not None)
        return self._take(next(claimed) if self._claims else 0)

    def _take(self, place: int) -> Unsettled:
        page = self._pages[place]
        del self._pages[place]
        self._claims -= page.claim is not None
        self._chars -= _chars(page.document)
        key = page.document.key
        is_doubtful = self._texts[key] is _SEVERAL
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key], self._texts[key]
        return attrs.evolve(page, is_doubtful=is_doubtful)


async def stop(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end; the caller's own cancellation still propagates."""
    if task is not None and not task.done():  # one of an event loop that has ended is done
        task.cancel()
        await asyncio.wait([task])


class FaultLog:
    """Rate-limited warnings: each kind of fault once a pause, with the number of repetitions.

    Repetitions are logged at DEBUG level.

    :param clock: seconds, monotonic
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        # Of each kind when it was last logged, since when repetitions are counted, and how many.
        self._known: OrderedDict[str, tuple[float, float, int]] = OrderedDict()

    def warn(self, fault: object, message: str, *arguments: object) -> None:
        """Log a fault as a warning, or at DEBUG level if its kind was logged within the pause.

        :param fault: its text names its kind
        :param message: the fault is appended to it
        """
        kind, now = str(fault), self._clock()
        said, since, left_out = self._known.pop(kind, (None, now, 0))
        if said is not None and now - said < _PAUSE:
            self._known[kind] = (said, since, left_out + 1)
            self._log.debug(f"{message}: %s", *arguments, kind)
            return
        self._known[kind] = (now, now, 0)
        if len(self._known) > _KINDS:
            self._log_repeated(*self._known.popitem(last=False))
        if left_out:
            message, arguments = f"{message} (%d more times in %.0f s)", (
                *arguments, left_out, now - since,
            )  # fmt: skip
        self._log.warning(f"{message}: %s", *arguments, kind)

    def left_out(self) -> str:
        """What :meth:`end` would log, for another message; it is not logged again.

        A kind that was logged within the pause still is not: a fault that comes and goes every
        second would fill the log.
        """
        now = self._clock()
        told = [
            _repeated(kind, now - since, left_out)
            for kind, (_, since, left_out) in self._known.items()
            if left_out
        ]
        for kind, (said, _, _) in self._known.items():
            self._known[kind] = (said, now, 0)
        return "; ".join(told)

    def end(self) -> None:
        """Log how many repetitions were left out since the last warning of each kind; at INFO
        level, because each kind was warned of."""
        while self._known:
            self._log_repeated(*self._known.popitem(last=False))

    def _log_repeated(self, kind: str, known: tuple[float, float, int]) -> None:
        _, since, left_out = known
        if left_out:
            self._log.info("%s", _repeated(kind, self._clock() - since, left_out))


@attrs.define(eq=False)
class Outage:
    """Calls to one index that failed: no more of them for a while, a count, and few warnings.

    :param address: of the index, without secrets, for the log
    """

    _address: str
    _count: Count
    breaker: Breaker = attrs.field(init=False, factory=lambda: Breaker(time.monotonic))
    faults: FaultLog = attrs.field(init=False, factory=lambda: FaultLog(logger, time.monotonic))
    _is_on: bool = attrs.field(init=False, default=False)
    _last: str = attrs.field(init=False, default="")

    def check(self) -> None:
        """Fail as the last call did, while there are to be no further ones.

        :raises IndexUnavailableError: always, until the pause is over
        """
        if not self.breaker.closed:
            raise IndexUnavailableError(self._last)

    def report(self, error: Exception, message: str, *arguments: object) -> None:
        """Log that the index can't be used, once for all calls that find the same."""
        self._is_on = True
        self.faults.warn(error, message, *arguments)

    def failed(self, error: Exception, message: str, *arguments: object) -> None:
        """A call failed: count it, log it, and pause."""
        self.breaker.failed()
        self._last = str(error)
        self._count("error/index", 1)
        self.report(error, message, *arguments)

    def ended(self) -> None:
        """A call worked: go on, and say so if the last one had not."""
        self.breaker.worked()
        if self._is_on:
            self._is_on = False
            meanwhile = self.faults.left_out()
            logger.info(
                "The index can be used again: %s%s",
                self._address,
                f" (meanwhile {meanwhile})" if meanwhile else "",
            )


def _repeated(kind: str, seconds: float, left_out: int) -> str:
    return f"{left_out} more times in {seconds:.0f} s: {kind}"


def _text(document: Document | Fingerprint) -> object:
    """What a page says, to be compared with what others under its key say."""
    if isinstance(document, Fingerprint):
        return document.exact, document.size
    if document.text is None:
        return document
    said = document.text + document.rest
    if len(said) <= _SHORT:  # a method may take the title as a part of so short a text
        said = f"{document.title}\n{said}"
    # Neither white space nor case makes another text; lone surrogates have no other encoding.
    letters = "".join(said.lower().split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(letters, digest_size=16).digest()


def _chars(document: Document | Fingerprint) -> int:
    if isinstance(document, Fingerprint):
        return _FINGERPRINT
    return len(document.text or "") + len(document.title) + len(document.key)
