"""Log messages for users: settings, index and feeds at the start, and items without a page."""

from __future__ import annotations

import datetime
import difflib
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

import attrs
from scrapy.settings import BaseSettings
from w3lib.url import file_uri_to_path

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import PREFIX, setting_name
from dedup_middleware.core.judge import CHANGED
from dedup_middleware.index.base import Index
from dedup_middleware.methods.base import EXACT
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.keys import host_of, in_a_line
from dedup_middleware.model.records import State
from dedup_middleware.plugin.items import PageItem
from dedup_middleware.plugin.pagefields import PageFields, field_value

logger = logging.getLogger(__name__)

UNREAD = 20  # a warning is logged if so many items have arrived and none of them holds a page
ALIKE = 20  # a warning is logged if so many pages have one text, or so many items one key
_MOST_COUNTED = 10_000  # texts and keys
_ONE_TEXT = (
    "%d pages of one site have the very text of %s: they are addresses of one page, or a login "
    "page, a cookie banner or a note that scripts must run was fetched in place of their content "
    "(see 'Too much is dropped' in docs/troubleshooting.md)"
)
_ONE_KEY = (
    "%d items of this crawl have the key %s: each counts as a new version of that page, and copies "
    "of all but the last are not found. Give each a key of its own (DEDUP_KEY_FIELD), or none"
)
_JSON = "which JSON can't hold: the feed %s loses these items"
# What feeds make of bytes, by format.
_BYTES = {
    **dict.fromkeys(("json", "jsonlines", "jsonl", "jl"), _JSON),
    "csv": "which CSV holds as text in the encoding of the feed: %s loses pages in other encodings",
    "xml": "which XML holds as b'...': the feed %s has no text of them",
}
_CLOCK_SKEW = 60.0  # seconds by which a server's clock may be behind the clock of this machine


@attrs.frozen
class Beginning:
    """The time at which a crawl began, and how to store anew what it has stored."""

    _settings: BaseSettings
    _clock: float = attrs.field(init=False, factory=time.time)  # seconds since 1970
    _ticks: float = attrs.field(init=False, factory=time.monotonic)

    def forgetting(self) -> str:
        """Advice for the log: the command by which the index forgets what the crawl has stored."""
        # If the clock was set back meanwhile, pages stored since seem older than the crawl.
        by_clock_of_now = time.time() - (time.monotonic() - self._ticks)
        began = min(self._clock, by_clock_of_now) - _CLOCK_SKEW
        since = datetime.datetime.fromtimestamp(began).astimezone().isoformat(timespec="seconds")
        return (
            f"run `scrapy dedup forget --since {since}` with the settings of this crawl"
            f"{self.elsewhere(', but')}"
        )

    def elsewhere(self, but: str) -> str:
        """Advice, after the word ``but``, that lets the next crawl fetch the same pages; or ""."""
        jobdir = self._settings["JOBDIR"]
        if not jobdir:
            return ""
        return f"{but} another JOBDIR (Scrapy fetches nothing again that {str(jobdir)!r} has seen)"


async def reset(index: Index, options: Options) -> None:
    """Forget all pages of earlier crawls (``DEDUP_RESET``)."""
    forgotten = await index.forget_span()
    logger.warning(
        "DEDUP_RESET: %d pages of earlier crawls are forgotten in %s",
        forgotten,
        options.safe_index_url,
    )


def warn_of_slips(settings: BaseSettings) -> None:
    """Warn of settings with a slip in the prefix ``DEDUP_``; a slip after it is an error."""
    known = {setting_name(field.name) for field in attrs.fields(Options)}
    for name in map(str, settings):
        prefix, _, rest = name.upper().partition("_")
        meant = PREFIX + rest
        is_near = difflib.get_close_matches(prefix, [PREFIX.rstrip("_")], cutoff=0.8)
        if is_near and meant in known and name not in known:
            logger.warning("%s is no setting of dedup-middleware; do you mean %s?", name, meant)


async def log_contents(index: Index, options: Options, settings: BaseSettings) -> None:
    """Log what the index holds, and warn of a feed that loses pages of earlier crawls."""
    if options.index_url.startswith("memory:"):
        return
    state = await index.stats()
    if state.pending:
        logger.info(
            "Pages on their way to storage, in other crawls or in one that was killed: %d. Similar "
            "pages wait until they are stored or their leases end, for %g seconds at the most "
            "(DEDUP_PENDING_WAIT)",
            state.pending,
            options.pending_wait,
        )
    if not state.committed:
        logger.info("The index holds no pages yet: %s", options.safe_index_url)
        return
    newest = await _newest(index)
    logger.info(
        "The index holds %d pages of earlier crawls%s: %s; see them with `scrapy dedup report`",
        state.committed,
        "" if newest is None else f", the newest stored on {newest}",
        options.safe_index_url,
    )
    overwritten = ", ".join(_overwritten(settings.getdict("FEEDS")))
    if overwritten and options.action == "drop" and options.revisit == "drop":
        logger.warning(
            "The feed %s is overwritten, and pages of earlier crawls are dropped as revisits "
            "(DEDUP_REVISIT=drop): it will only hold what is new. Append with -o (FTP needs "
            "'overwrite': False, S3 and GCS can't), put %%(time)s into its name, set "
            "DEDUP_REVISIT=keep, or begin anew with -s DEDUP_RESET=1",
            overwritten,
        )


async def _newest(index: Index) -> str | None:
    """Day on which the newest page was stored; None if none of the last page ids is stored."""
    pages = await index.fetch(await index.last_page_ids())
    times = pages.times[pages.states == State.COMMITTED]
    if not len(times):
        return None
    return datetime.datetime.fromtimestamp(float(times.max())).astimezone().date().isoformat()


def _overwritten(feeds: Mapping[Any, Any]) -> Iterator[str]:
    for place, feed in feeds.items():
        if not isinstance(feed, Mapping):
            continue
        # The defaults of Scrapy's storages; S3 and GCS can't append at all.
        kind = urlsplit(str(place)).scheme
        is_replaced = kind in ("s3", "gs") or feed.get("overwrite", kind in ("ftp", "ftps"))
        if is_replaced and _may_exist(str(place)):
            yield shown_place(str(place))


def shown_place(place: str) -> str:
    """The address of a feed without user and password, which S3 and FTP addresses may hold.

    >>> shown_place("ftp://user:secret@host/%(name)s.csv")
    'ftp://***@host/%(name)s.csv'
    """
    return re.sub("(?<=://).*@", "***@", place)


def _may_exist(place: str) -> bool:
    """Whether a feed may hold rows of an earlier crawl; for a local file, whether it exists."""
    if "%(time)" in place or "%(batch_time)" in place:
        return False
    path = urlsplit(place)
    if path.scheme not in {"", "file"} or "%(" in place:  # elsewhere, or named by the crawl
        return True
    return Path(file_uri_to_path(place) if path.scheme else place).exists()


def _shown(page: PageItem, name: str) -> str:
    """The name of a field and, if it is one for text or HTML, why it holds no page."""
    value = field_value(page.adapter, name)
    if value is None or name not in (page.names.text, page.names.html):
        return name
    is_empty = isinstance(value, (str, bytes)) and not value
    return f"{name} (empty)" if is_empty else f"{name} (a {type(value).__name__})"


def _feeds_of(settings: BaseSettings) -> Iterator[tuple[str, str, Any]]:
    """Address, format and chosen fields (empty: all) of each feed."""
    for place, feed in settings.getdict("FEEDS").items():
        if not isinstance(feed, Mapping):
            continue
        try:
            everywhere = settings.getdictorlist("FEED_EXPORT_FIELDS")
        except ValueError:  # Scrapy itself refuses it
            everywhere = {}
        only = feed.get("fields", everywhere)
        yield str(place), feed.get("format") or PurePath(place).suffix[1:], only


class FieldCheck:
    """Warns of wrong fields, equal texts and equal keys of items, once a crawl of each problem.

    :param replaces: whether the index forgets the earlier text of a changed page
    """

    def __init__(self, settings: BaseSettings, *, replaces: bool) -> None:
        self._replaces = replaces
        self._unread = 0
        self._last: PageItem | None = None
        self._was_read = False
        self._bytes_seen = False
        self._feeds = list(_feeds_of(settings))
        self._alike: Counter[tuple[str, str]] = Counter()  # by warning and key
        self._warned: set[str] = set()

    def check_verdict(self, verdict: Verdict) -> None:
        """Warn if many items of one site have the same text, or many items the same key."""
        key = verdict.key if verdict.match is None else verdict.match.key or ""
        has_one_text = verdict.reason == EXACT and "" != host_of(key) == host_of(verdict.key)
        if not has_one_text and not (self._replaces and verdict.reason == CHANGED):
            return
        if len(self._alike) >= _MOST_COUNTED:
            self._alike.clear()
        counted = message, _ = (_ONE_TEXT if has_one_text else _ONE_KEY), key
        self._alike[counted] += 1
        if self._alike[counted] == ALIKE and message not in self._warned:
            self._warned.add(message)
            logger.warning(message, ALIKE, in_a_line(key))

    def check_fields(self, fields: PageFields, page: PageItem) -> None:
        """Check the fields of an item for a missing page, and for bytes that feeds can't hold."""
        html = fields.html
        if html is None and not fields.text:
            self._unread += 1
            self._last = page
            if self._unread == UNREAD:
                self._warn_of_unread()
            return
        self._was_read = True
        if self._bytes_seen or not isinstance(html, bytes):
            return
        self._bytes_seen = True
        name = page.names.html
        losses: dict[str, list[str]] = {}
        for place, kind, only in self._feeds:
            if kind in _BYTES and (not only or name in only):
                losses.setdefault(_BYTES[kind], []).append(shown_place(place))
        for loss, places in losses.items():
            logger.warning(
                f"The field %r holds bytes, {loss}. Leave the field out of the feed (its 'fields' "
                "option), remove it in a later pipeline, or export to another format",
                name,
                ", ".join(places),
            )

    def end(self) -> None:
        """Warn at the end of a short crawl if no item held a page."""
        if self._unread < UNREAD:
            self._warn_of_unread()

    def _warn_of_unread(self) -> None:
        page = self._last
        if page is None or self._was_read:
            return
        logger.warning(
            "The first %d items have neither text nor HTML, so nothing is compared. Their fields: "
            "%s. Name those that hold the page: DEDUP_TEXT_FIELD (now %r) or DEDUP_HTML_FIELD "
            "(now %r), and DEDUP_KEY_FIELD (now %r); of a single class of items in DEDUP_ITEMS",
            self._unread,
            ", ".join(_shown(page, str(name)) for name in page.adapter) or "none",
            page.names.text,
            page.names.html,
            page.names.key,
        )
