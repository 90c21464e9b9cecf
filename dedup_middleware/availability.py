"""What to do while the index can't be asked: pause, and remember the pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from dedup_middleware.fingerprint import Document, Fingerprint
from dedup_middleware.index.base import Claim

_FINGERPRINT = 4096  # bytes that one holds, counted as characters


@attrs.frozen
class Unsettled:
    """A page that was stored while the index could not be told, and its claim if it had one.

    ``document``: the page, or its fingerprint where that is all there was.
    """

    document: Document | Fingerprint
    claim: Claim | None = None


class Breaker:
    """Stops asking a dead index for every page; asks again after a growing pause.

    Without it each page would wait for every time-out and retry, and the crawl would stand still.

    :param clock: seconds, monotonic
    """

    def __init__(
        self, clock: Callable[[], float], *, first: float = 0.5, longest: float = 30.0
    ) -> None:
        self._clock = clock
        self._first = first
        self._longest = longest
        self._pause = 0.0
        self._until = 0.0

    @property
    def closed(self) -> bool:
        """Whether the index may be asked now."""
        return self._clock() >= self._until

    def failed(self) -> bool:
        """The index did not answer: wait, twice as long as last time.

        :returns: whether that is news. A hundred calls that were under way when it went away fail
            together, and are one failure.
        """
        if not self.closed:
            return False
        self._pause = min(max(self._first, self._pause * 2), self._longest)
        self._until = self._clock() + self._pause
        return True

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
        self._chars = 0
        self._max_chars = max_chars

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, page: Unsettled) -> int:
        """Remember a page; returns how many older ones had to be forgotten."""
        self._pages.append(page)
        self._chars += _chars(page.document)
        forgotten = 0
        while self._chars > self._max_chars and self._pages:
            self.pop()
            forgotten += 1
        return forgotten

    def pop(self) -> Unsettled:
        """The oldest page.

        :raises IndexError: there is none
        """
        page = self._pages.popleft()
        self._chars -= _chars(page.document)
        return page


def _chars(document: Document | Fingerprint) -> int:
    if isinstance(document, Fingerprint):
        return _FINGERPRINT
    return len(document.text or "") + len(document.title) + len(document.key)
