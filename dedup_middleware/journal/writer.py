"""Writes the journal during a crawl, in a background thread, and makes entries from verdicts."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.journal.entries import (
    DROPPED,
    HOUR,
    SEEN,
    STORED,
    Body,
    Drop,
    JournalError,
    JournalStore,
    Kept,
    compare_versions,
    host_of,
    is_change,
    plain_item,
)
from dedup_middleware.model.documents import NEW, Document, Match, Verdict
from dedup_middleware.model.keys import in_a_line, is_content_key

logger = logging.getLogger(__name__)

Count = Callable[[str, float], None]
_Batch = tuple[list[Drop], list[Kept], Counter[tuple[int, str, str]]]

_PAUSE = 0.2  # seconds between batches, so that each is large enough for a transaction
_RETRY = 2.0  # seconds to wait after a failure
_RETRY_AT_THE_END = 0.2  # the same when the journal is closed
_BATCH = 512
_LONGEST_WAIT = 10.0  # maximum seconds for closing
_HOSTS = 10_000  # hourly counters kept by host in one batch; further hosts share OTHER_HOSTS
OTHER_HOSTS = "(others)"
_ENTRY = 500  # characters counted for an entry besides its text and item


@attrs.define(eq=False)
class JournalWriter:
    """Passes entries to a thread that packs and writes them in batches.

    A batch that can't be written is retried. While more than ``max_chars`` characters are waiting,
    new entries are discarded and counted as lost.

    :param count: called by :meth:`report_counts` with the name of a counter and its increment
    """

    _journal: JournalStore
    _count: Count
    _spider: str = attrs.field(default="", kw_only=True)
    _crawl: str = attrs.field(default="", kw_only=True)
    _max_chars: int = attrs.field(default=50_000_000, kw_only=True)
    # Waiting entries and counters, changed under the lock.
    _drops: deque[Drop] = attrs.field(init=False, factory=deque)
    _kept: deque[Kept] = attrs.field(init=False, factory=deque)
    _activity: Counter[tuple[int, str, str]] = attrs.field(init=False, factory=Counter)
    _chars: int = attrs.field(init=False, default=0)
    _counts: Counter[str] = attrs.field(init=False, factory=Counter)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _wake: threading.Event = attrs.field(init=False, factory=threading.Event)
    _closing: threading.Event = attrs.field(init=False, factory=threading.Event)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _failed: bool = attrs.field(init=False, default=False)
    # The batch to write, and whether that was tried.
    _batch: _Batch | None = attrs.field(init=False, default=None)
    _is_sent: bool = attrs.field(init=False, default=False)
    # Maximum entries of each kind in the next batch; 0: a single entry, without the counters.
    _most: int = attrs.field(init=False, default=_BATCH)

    def start(self) -> None:
        """Start the thread, which opens the journal and writes entries as they come."""
        self._thread = threading.Thread(target=self._work, name="dedup-journal", daemon=True)
        self._thread.start()

    def drop(self, drop: Drop) -> None:
        """Record a dropped page."""
        self._decided(drop.key, [drop], SEEN, f"{DROPPED}{drop.reason}")

    def passed(self, key: str, entries: Sequence[Drop] = ()) -> None:
        """Record a page that was let through, with its entries from :func:`make_notes`."""
        self._decided(key, entries, SEEN)

    def stored(self, key: str, kept: Kept | None) -> None:
        """Record a stored page; ``kept`` holds its text, None if it is not kept."""
        self._decided(key, [] if kept is None else [kept], STORED)
        self._wake.set()  # write the hourly counters even if the crawl drops nothing

    def _decided(self, key: str, entries: Sequence[Drop | Kept], *names: str) -> None:
        """Increment the hourly counters ``names`` of a page's host, and enqueue its entries."""
        host, hour = host_of(key), int(time.time()) // HOUR * HOUR
        with self._lock:
            for name in names:
                place = hour, host, name
                if len(self._activity) >= _HOSTS and place not in self._activity:
                    place = hour, OTHER_HOSTS, name
                self._activity[place] += 1
            for entry in entries:
                size = _size(entry)
                if self._chars + size > self._max_chars:
                    self._counts["lost"] += 1
                    continue
                self._chars += size
                if isinstance(entry, Kept):
                    self._kept.append(entry)
                else:
                    self._drops.append(attrs.evolve(entry, spider=self._spider, crawl=self._crawl))
        if entries:
            self._wake.set()

    def report_counts(self) -> None:
        """Report the counts since the last report to ``count``."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        self._count("journal/written", counts["written"])
        self._count("journal/lost", counts["lost"])
        self._count("journal/error", counts["error"])
        self._count("changed/words", counts["changed-words"])

    def close(self) -> None:
        """Write waiting entries and close the journal; blocks, for at most ``_LONGEST_WAIT``."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_WAIT)
        with self._lock:
            self._counts["lost"] += len(self._drops)
            dropped = sum(entry.outcome != NEW for entry in self._drops)  # others were let through
        if dropped:
            text = (
                "%d dropped pages could not be written to the journal %s and can't be brought back"
            )
            logger.error(text, dropped, self._journal.where)

    def _work(self) -> None:
        is_open = closing = False
        ends = math.inf  # once the journal is closed, a failed write is tried again until then
        while not closing or (is_open and self._failed and time.monotonic() < ends):
            self._wake.wait()
            self._wake.clear()  # before reading the queues, so that later entries wake the thread
            if self._closing.is_set() and not closing:
                closing, ends = True, time.monotonic() + _LONGEST_WAIT / 2
            try:
                if not is_open:
                    self._journal.open(create=True)
                    is_open = True
                while self._write_some():
                    pass
                self._failed = False
                self._closing.wait(_PAUSE)
            except JournalError as error:
                self._failure(error)
                if closing:
                    time.sleep(_RETRY_AT_THE_END)
                else:
                    self._closing.wait(_RETRY)
                self._wake.set()
        self._journal.close()

    def _write_some(self) -> bool:
        """Write one batch; returns False if nothing was waiting."""
        if self._batch is None:
            with self._lock:
                most = self._most
                kept = list(islice(self._kept, most or 1))
                drops = list(islice(self._drops, most or not kept))
                activity: Counter[tuple[int, str, str]] = Counter()
                if most:
                    activity, self._activity = self._activity, activity
            if not drops and not kept and not activity:
                return False
            self._batch = drops, kept, activity
        drops, kept, activity = self._batch
        lost = changed = 0
        try:
            written = [self._with_change(drop, kept) for drop in drops]
            again, self._is_sent = self._is_sent, True
            self._journal.append(written, kept, activity, again=again)
            changes = [new.body.change for new in written if new.body and new.body.change]
            changed = sum(change.added + change.removed for change in changes)
        except JournalError:
            raise  # the batch waits as it is: it may have been written nevertheless
        except Exception as error:
            # Halve the batch until an entry that can't be packed is alone: only that one is lost.
            if self._most and (drops or kept):
                self._batch, self._is_sent = None, False
                self._most = max(len(drops), len(kept)) // 2
                with self._lock:
                    self._activity.update(activity)
                return True
            key = next((in_a_line(one.key) for one in drops or kept), "counters of an hour")
            where = self._journal.where
            logger.error("An entry of the journal %s is lost: %s (%r)", where, key, error)
            lost = 1
        self._batch, self._is_sent = None, False
        self._most = min(2 * self._most + 1, _BATCH)
        with self._lock:
            for queue, done in ((self._drops, drops), (self._kept, kept)):
                for _ in done:
                    self._chars -= _size(queue.popleft())
            self._counts["changed-words"] += changed
            self._counts["written"] += 0 if lost else len(drops)
            self._counts["lost"] += lost
        return True

    def _with_change(self, drop: Drop, kept: Sequence[Kept]) -> Drop:
        """Add the ``change`` to the entry of a changed page, if its last version is in the journal
        or among the stored pages ``kept`` about to be written."""
        if not is_change(drop) or drop.body is None or not drop.body.text:
            return drop
        versions = [page for page in kept if page.key == drop.key and page.time <= drop.time]
        old = versions[-1] if versions else self._journal.kept(drop)
        if old is None or old.time > drop.time:
            return drop
        change = compare_versions(old.text, drop.body.text)
        return attrs.evolve(drop, body=attrs.evolve(drop.body, change=change))

    def _failure(self, error: JournalError) -> None:
        with self._lock:
            self._counts["error"] += 1
        if not self._failed:
            # Log an outage once, not at every retry.
            logger.warning("Entries of the journal wait to be written: %s", error)
        self._failed = True


def _size(entry: Drop | Kept) -> int:
    if isinstance(entry, Kept):
        return _ENTRY + len(entry.text)
    if entry.body is None:
        return _ENTRY
    text, item = entry.body.text, entry.body.item or {}
    # Usually one field of the item is the text itself.
    own = sum(len(str(value)) for value in item.values() if value != text)
    return _ENTRY + len(text) + own


SUPERSEDES = "supersedes"  # reason of a new page that contains all words of its match
_COMPARED = ("number", "similarity", "jaccard", "distance", "shared", "figures", "tables")
NEAR = 0.5  # minimum similarity of a near miss


def make_drop(
    verdict: Verdict, document: Document, item: Any, html_field: str | None, time: float
) -> Drop:
    """The journal entry of a dropped page.

    :param html_field: the item's field with the raw HTML, which is left out
    """
    match = verdict.match
    compared = {} if match is None else {name: getattr(match, name) for name in _COMPARED}
    without = [html_field] if html_field else []
    fields, left_out = (None, ()) if item is None else plain_item(item, without)
    return Drop(
        time=time,
        key=verdict.key,
        title=document.title,
        outcome=verdict.outcome,
        reason=verdict.reason,
        match=None if match is None else match.key,
        **compared,
        item_type="" if item is None else type(item).__name__,
        body=Body(document.text or "", fields, left_out),
    )


def near_match(verdict: Verdict) -> Match | None:
    """The stored page that a new one contains or resembles (NEAR); None if there is none."""
    if verdict.supersedes:
        return verdict.supersedes[0]
    near = verdict.nearest
    return near if verdict.outcome == NEW and near and near.similarity >= NEAR else None


def make_notes(verdict: Verdict, document: Document, options: Options, time: float) -> list[Drop]:
    """The journal entries, without the item, of a page that is let through: near miss, change, both
    or none."""
    if not options.journal_keep_texts:
        document = attrs.evolve(document, text="")
    near = near_match(verdict)
    reason = SUPERSEDES if verdict.supersedes else verdict.reason
    return [
        make_drop(attrs.evolve(verdict, match=match, reason=why), document, None, None, time)
        for match, why in ((near, reason), (verdict.previous, verdict.reason))
        if match is not None
    ]


def make_marked(verdict: Verdict, document: Document, options: Options, time: float) -> list[Drop]:
    """The journal entries, without the item, of a duplicate that was let through: a near miss, and
    those of :func:`make_notes`."""
    if not options.journal_keep_texts:
        document = attrs.evolve(document, text="")
    marked = attrs.evolve(make_drop(verdict, document, None, None, time), outcome=NEW)
    return [marked, *make_notes(verdict, document, options, time)]


def make_kept(verdict: Verdict, options: Options, time: float) -> Kept | None:
    """The journal entry of a stored page; None without claim or text, or if texts are not kept."""
    document = verdict.document
    if verdict.claim is None or document is None or not document.text:
        return None
    if not options.journal_keep_texts:
        return None
    return Kept(
        key=verdict.key,
        number=verdict.claim.page_id,
        by_number=is_content_key(verdict.key) or not options.keep_address,
        title=document.title,
        text=document.text,
        time=time,
    )
