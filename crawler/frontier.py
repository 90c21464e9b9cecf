"""Decides which addresses a crawl requests, and counts skipped ones by reason."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from w3lib.url import canonicalize_url

from crawler.discovery import Sites, names_a_page

# Most skipped addresses that are remembered; any further ones may be counted twice.
MAX_SKIPPED = 200_000


class Skip(str, Enum):
    """Why an address yielded no article; the stat is ``news/skipped/<value>``."""

    OFFSITE = "offsite"
    ROBOTS = "robots"
    NOFOLLOW = "nofollow"
    DEPTH = "depth"
    PAGES = "pages"
    NOT_HTML = "not-html"
    ERROR = "error"
    LIST_PAGE = "list-page"


EXPLANATIONS = {
    Skip.OFFSITE: "on another site",
    Skip.ROBOTS: "robots.txt forbids it",
    Skip.NOFOLLOW: "the link says nofollow",
    Skip.DEPTH: "deeper than -a depth",
    Skip.PAGES: "beyond -a pages",
    Skip.NOT_HTML: "not an HTML page",
    Skip.ERROR: "could not be fetched",
    Skip.LIST_PAGE: "read for its links, no article",
}


class Frontier:
    """The addresses of one crawl; each is admitted or counted once.

    :param sites: the sites of the crawl; others are skipped
    :param depth: largest number of clicks from a start address, ``None`` for any
    :param count: called with a reason and +1, or -1 if an address that was too deep on one path is
        reached by a shorter one
    """

    def __init__(self, sites: Sites, depth: int | None, count: Callable[[Skip, int], None]) -> None:
        self.sites = sites
        self._depth = depth
        self._count = count
        self._skipped: dict[str, Skip] = {}
        self._requested: set[str] = set()
        self._pending: set[str] = set()
        self._listed: set[str] = set()
        self.full = False

    def admit(self, url: str, depth: int, *, nofollow: bool = False) -> bool:
        """Whether to request an address found ``depth`` clicks from the start; true only once."""
        name = canonicalize_url(url)
        if name in self._requested:
            return False
        reason = self._refusal(url, depth, nofollow)
        if reason is not None:
            self._skip(name, reason)
            return False
        if (earlier := self._skipped.pop(name, None)) is not None:
            self._count(earlier, -1)
        self._requested.add(name)
        self._pending.add(name)
        return True

    def _refusal(self, url: str, depth: int, nofollow: bool) -> Skip | None:
        if self.sites.index(url) is None:
            return Skip.OFFSITE
        if not names_a_page(url):
            return Skip.NOT_HTML
        if nofollow:
            return Skip.NOFOLLOW
        if self._depth is not None and depth > self._depth:
            return Skip.DEPTH
        return Skip.PAGES if self.full else None

    def leave_out(self, url: str, reason: Skip) -> None:
        """Count a requested address that yielded no article."""
        name = canonicalize_url(url)
        self._pending.discard(name)
        self._skip(name, reason)

    def done(self, url: str) -> None:
        """Note that an address was of use: an article, a feed, or a redirect to a requested one."""
        self._pending.discard(canonicalize_url(url))

    def fill(self) -> None:
        """Skip all addresses not fetched yet, because the page limit is reached."""
        self.full = True
        for name in self._pending:
            self._skip(name, Skip.PAGES)
        self._pending.clear()

    def list_as_article(self, url: str) -> None:
        """Note that a feed or a news sitemap lists the address."""
        self._listed.add(canonicalize_url(url))

    def is_listed(self, url: str) -> bool:
        """Whether a feed or a news sitemap lists the address."""
        return canonicalize_url(url) in self._listed

    def _skip(self, name: str, reason: Skip) -> None:
        if name in self._skipped:
            return
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped[name] = reason
        self._count(reason, 1)
