"""Guards calls to an index: one process and event loop only, a circuit breaker for outages, a
backlog of stored pages that are not entered yet, and rate-limited warnings."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator

import attrs

from dedup_middleware.base.errors import DedupError, IndexUnavailableError
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import in_a_line

logger = logging.getLogger(__name__)

#: called with the name of a counter and what to add to it
Count = Callable[[str, float], None]

_SEVERAL = object()  # replaces the digest of a key under which different texts were stored
_SHORT = 400  # characters; a shorter text is compared together with its title
_FINGERPRINT = 4096  # size of a fingerprint, counted as characters
_KINDS = 64  # kinds of faults whose last warning is remembered
_PAUSE = 60.0  # seconds between two warnings of one kind


class LoopGuard:
    """Refuses calls from a forked process, or from an event loop other than the one in use.

    Processes that share a connection read each other's replies; a callback in one loop does not
    wake another loop, and connections and tasks of a closed loop no longer work.
    """

    def __init__(self) -> None:
        self._used: tuple[int, asyncio.AbstractEventLoop] | None = None  # process id and loop

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the process in use."""
        return self._used is not None and self._used[0] != os.getpid()

    @property
    def has_ended(self) -> bool:
        """Whether the event loop in use has been closed; False in a forked process."""
        return self._used is not None and not self.is_forked and self._used[1].is_closed()

    def check(self) -> None:
        """Take the running event loop into use, or check that it is the one in use.

        :raises DedupError: another loop is in use or was closed, or this process was forked
        """
        if self.is_forked:
            raise DedupError(
                "this Deduplicator was opened before its process was forked; fork first, and open "
                "one in each process"
            )
        loop = asyncio.get_running_loop()
        if self._used is None:
            self._used = os.getpid(), loop
        elif self.has_ended:
            raise DedupError(
                "the event loop that this Deduplicator was used in has ended, as at the end of "
                "asyncio.run(): make all calls in one, or close it at the end of each and open "
                "it in the next one"
            )
        elif self._used[1] is not loop:
            raise DedupError(
                "this Deduplicator is used in another event loop; open one for each thread, send "
                "its calls there with asyncio.run_coroutine_threadsafe, or close it there first"
            )


@attrs.frozen
class Unsettled:
    """A stored page that is not entered into the index yet, with its claim if it has one.

    ``is_doubtful``: another text was stored under its key meanwhile, so storage may hold either.
    ``is_unasked``: the index could not be read for other texts under its key, so its claim is
    released and it is decided anew. ``waited``: it was stored because a similar page was pending
    for too long. ``is_marked``: the index has a record of its text
    (:meth:`.Settlement._left_to_mark`).
    """

    document: Document | Fingerprint
    claim: Claim | None = None
    is_doubtful: bool = False
    is_unasked: bool = False
    waited: bool = False
    is_marked: bool = False


@attrs.define(eq=False)
class Breaker:
    """Circuit breaker that stops calls to a dead index, for a pause that doubles at each failure.

    Without it every page would wait for all time-outs and retries.

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
        """Begin a pause, twice as long as the last one, unless there is one already."""
        if self.closed:
            self._pause = min(max(self._first, self._pause * 2), self._longest)
            self._until = self._clock() + self._pause

    def worked(self) -> None:
        """End the pause."""
        self._pause = 0.0
        self._until = 0.0


class Backlog:
    """Bounded queue of stored pages that are to be entered into the index later.

    :param max_chars: limit of the characters of all texts; beyond it the oldest pages are
        forgotten, and a page that is larger than the limit itself
    """

    def __init__(self, max_chars: int = 50_000_000) -> None:
        self._pages: deque[Unsettled] = deque()
        # By key: the number of pages, and a digest of their text (_SEVERAL if texts differ).
        self._counts: Counter[str] = Counter()
        self._texts: dict[str, object] = {}
        self._claims = 0
        self._chars = 0
        self._max_chars = max_chars

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[Unsettled]:
        return iter(self._pages)

    def add(self, page: Unsettled) -> int:
        """Add a page; return the number of pages forgotten to make room, which are the oldest ones,
        or this one if it is larger than the limit."""
        if _chars(page.document) > self._max_chars:
            self.doubt(page.document.key)
            return 1
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
        """Remove and return the oldest page with a claim (others may wait for it), else the oldest.

        :raises IndexError: the backlog is empty
        """
        claimed = (i for i, page in enumerate(self._pages) if page.claim is not None)
        return self._take(next(claimed) if self._claims else 0)

    def doubt(self, key: str) -> None:
        """Note that storage may hold another text under a key than its pages in the backlog."""
        if key in self._texts:
            self._texts[key] = _SEVERAL

    def replaced(self, page: Document | Fingerprint) -> None:
        """Note that storage has this page now, so no other text of the backlog under its key."""
        if page.key in self._texts and self._texts[page.key] != _text(page):
            self.doubt(page.key)

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


class FaultLog:
    """Warns of each kind of fault once a minute at most, and counts and logs repetitions at DEBUG.

    :param clock: seconds, monotonic
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        # By kind: time of the last warning, start of the count of repetitions, and that count.
        self._known: OrderedDict[str, tuple[float, float, int]] = OrderedDict()

    def warn(self, fault: object, message: str, *arguments: object) -> None:
        """Log a fault as a warning, or at DEBUG level if its kind was warned of within the pause.

        :param fault: an error or a text; its string names its kind and ends the message
        :param message: format string
        """
        kind, now = str(fault), self._clock()
        warned, since, left_out = self._known.pop(kind, (None, now, 0))
        if warned is not None and now - warned < _PAUSE:
            self._known[kind] = (warned, since, left_out + 1)
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
        """Return the unreported repetitions as text for another message, and reset their counts.

        The pause of each kind goes on; otherwise a fault that comes and goes would fill the log.
        """
        now = self._clock()
        repeated = [
            _repeated(kind, now - since, left_out)
            for kind, (_, since, left_out) in self._known.items()
            if left_out
        ]
        for kind, (warned, _, _) in self._known.items():
            self._known[kind] = (warned, now, 0)
        return "; ".join(repeated)

    def end(self) -> None:
        """Log the unreported repetitions, at INFO level because each kind was warned of before."""
        while self._known:
            self._log_repeated(*self._known.popitem(last=False))

    def _log_repeated(self, kind: str, known: tuple[float, float, int]) -> None:
        _, since, left_out = known
        if left_out:
            self._log.info("%s", _repeated(kind, self._clock() - since, left_out))


@attrs.define(eq=False)
class Outage:
    """Handles failed calls to one index: counts them, limits warnings, and pauses further calls.

    :param address: address of the index without secrets, for the log
    """

    _address: str
    _count: Count
    breaker: Breaker = attrs.field(init=False, factory=lambda: Breaker(time.monotonic))
    faults: FaultLog = attrs.field(init=False, factory=lambda: FaultLog(logger, time.monotonic))
    _is_on: bool = attrs.field(init=False, default=False)
    _last: str = attrs.field(init=False, default="")

    def check(self) -> None:
        """Check that calls are not paused.

        :raises IndexUnavailableError: they are; with the message of the last failure
        """
        if not self.breaker.closed:
            raise IndexUnavailableError(self._last)

    def report(self, error: Exception, message: str, *arguments: object) -> None:
        """Log that the index can't be used; repetitions of one error are rate-limited."""
        self._is_on = True
        self.faults.warn(error, message, *arguments)

    def failed(self, error: Exception, message: str, *arguments: object) -> None:
        """Count a failed call, log it in one line, and pause further calls."""
        self.breaker.failed()
        self._last = str(error)
        self._count("error/index", 1)
        words = (in_a_line(one) if isinstance(one, str) else one for one in arguments)
        self.report(error, message, *words)

    def ended(self) -> None:
        """Note a successful call: end the pause, and log it if a failure was reported."""
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
    """A value that is equal for pages under one key if they have the same text."""
    if isinstance(document, Fingerprint):
        return document.exact, document.size
    if document.text is None:
        return document
    text = document.text + document.rest
    if len(text) <= _SHORT:  # a method may count the title as part of so short a text
        text = f"{document.title}\n{text}"
    # White space and case do not count; lone surrogates have no other encoding.
    letters = "".join(text.lower().split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(letters, digest_size=16).digest()


def _chars(document: Document | Fingerprint) -> int:
    if isinstance(document, Fingerprint):
        return _FINGERPRINT
    texts = document.text or "", document.html or "", document.rest, document.description
    return sum(map(len, texts)) + len(document.title) + len(document.key)
