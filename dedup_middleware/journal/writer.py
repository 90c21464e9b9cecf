"""Writing the journal from a crawl."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
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
from dedup_middleware.model.keys import is_content_key

logger = logging.getLogger(__name__)

Count = Callable[[str, float], None]

_PAUSE = 0.2  # seconds between batches, so that a batch is worth its transaction
_RETRY = 2.0  # seconds after a failure
_BATCH = 512
_LONGEST_WAIT = 10.0  # seconds that closing may take
_HOSTS = 10_000  # hosts counted by themselves in one batch
OTHER_HOSTS = "(others)"
_ENTRY = 500  # characters that any entry counts for


@attrs.define(eq=False)
class JournalWriter:
    """Hands entries to a thread that packs and writes them in batches.

    A batch that can't be written is kept and tried again. When more than ``max_chars`` wait,
    new entries are left out and counted.

    :param count: called by :meth:`report_counts` with a counter and what to add
    """

    _journal: JournalStore
    _count: Count
    _spider: str = attrs.field(default="", kw_only=True)
    _crawl: str = attrs.field(default="", kw_only=True)
    _max_chars: int = attrs.field(default=50_000_000, kw_only=True)
    # What waits; it is changed under the lock.
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

    def start(self) -> None:
        """Open the journal in the thread and write what comes."""
        self._thread = threading.Thread(target=self._work, name="dedup-journal", daemon=True)
        self._thread.start()

    def drop(self, drop: Drop) -> None:
        """A page was dropped."""
        self._decided(drop.key, [drop], SEEN, f"{DROPPED}{drop.reason}")

    def passed(self, key: str, entries: Sequence[Drop] = ()) -> None:
        """A page was looked at and let through; ``entries`` are those of :func:`make_notes`."""
        self._decided(key, entries, SEEN)

    def stored(self, key: str, kept: Kept | None) -> None:
        """A page was stored; ``kept`` holds its text if that is to be kept."""
        self._decided(key, [] if kept is None else [kept], STORED)
        self._wake.set()  # hours of a crawl without a drop are written, too

    def _decided(self, key: str, entries: Sequence[Drop | Kept], *names: str) -> None:
        """Count a page under some names, and take in what is to be written of it."""
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
        """Pass on what the thread has counted."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        self._count("journal/written", counts["written"])
        self._count("journal/lost", counts["lost"])
        self._count("journal/error", counts["error"])
        self._count("changed/words", counts["changed-words"])

    def close(self) -> None:
        """Write what waits, for some seconds at the most, and close the journal. Blocks."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_WAIT)
        with self._lock:
            left = len(self._drops)
            self._counts["lost"] += left
        if left:
            text = (
                "%d dropped pages could not be written to the journal %s and can't be brought back"
            )
            logger.error(text, left, self._journal.where)

    def _work(self) -> None:
        is_open = closing = False
        while not closing:
            self._wake.wait()
            self._wake.clear()  # before the look: what comes after it wakes the thread again
            closing = self._closing.is_set()
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
                self._closing.wait(_RETRY)
                self._wake.set()
        self._journal.close()

    def _write_some(self) -> bool:
        """Write one batch; False: nothing is left."""
        with self._lock:
            drops, kept = list(self._drops)[:_BATCH], list(self._kept)[:_BATCH]
            activity, self._activity = self._activity, Counter()
        if not drops and not kept and not activity:
            return False
        lost = changed = 0
        try:
            written = [self._with_change(drop, kept) for drop in drops]
            self._journal.append(written, kept, activity)
            changes = [new.body.change for new in written if new.body and new.body.change]
            changed = sum(change.added + change.removed for change in changes)
        except JournalError:
            with self._lock:
                self._activity.update(activity)
            raise
        except Exception:
            # An entry that can't be packed must not hold up all that come after it.
            logger.exception("Entries of the journal %s are lost", self._journal.where)
            lost = len(drops)
        with self._lock:
            for queue, done in ((self._drops, drops), (self._kept, kept)):
                for _ in done:
                    self._chars -= _size(queue.popleft())
            self._counts["changed-words"] += changed
            self._counts["written"] += len(drops) - lost
            self._counts["lost"] += lost
        return True

    def _with_change(self, drop: Drop, kept: Sequence[Kept]) -> Drop:
        """A page that had changed, with the difference from its last version if that is kept, or
        among the stored pages that are not written yet."""
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
            # Once, not every two seconds of an outage.
            logger.warning("Entries of the journal wait to be written: %s", error)
        self._failed = True


def _size(entry: Drop | Kept) -> int:
    """About how many characters an entry takes while it waits."""
    if isinstance(entry, Kept):
        return _ENTRY + len(entry.text)
    if entry.body is None:
        return _ENTRY
    text, item = entry.body.text, entry.body.item or {}
    # The text of the item is mostly that of the body.
    own = sum(len(str(value)) for value in item.values() if value is not text)
    return _ENTRY + len(text) + own


SUPERSEDES = "supersedes"  # reason of a new page that holds all words of its match
_COMPARED = ("number", "similarity", "jaccard", "distance", "shared", "figures", "tables")
NEAR = 0.5  # similarity from which a page that was let through is worth a look


def make_drop(
    verdict: Verdict, document: Document, item: Any, html_field: str | None, time: float
) -> Drop:
    """The entry of a dropped page.

    :param item: the item, None if there is none
    :param html_field: its field with the raw HTML, which is not kept
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
    """The stored page that a new one is much like, or holds; None if there is none."""
    if verdict.supersedes:
        return verdict.supersedes[0]
    near = verdict.nearest
    return near if verdict.outcome == NEW and near and near.similarity >= NEAR else None


def make_notes(verdict: Verdict, document: Document, options: Options, time: float) -> list[Drop]:
    """The entries of a page that is let through.

    One if it is new and much like a stored page or holds it, which shows where the threshold lies;
    one if it had changed. Its item is stored, so only its text is written.
    """
    if not options.journal_keep_texts:
        document = attrs.evolve(document, text="")
    near = near_match(verdict)
    reason = SUPERSEDES if verdict.supersedes else verdict.reason
    return [
        make_drop(attrs.evolve(verdict, match=match, reason=why), document, None, None, time)
        for match, why in ((near, reason), (verdict.previous, verdict.reason))
        if match is not None
    ]


def make_kept(verdict: Verdict, options: Options, time: float) -> Kept | None:
    """The entry of a stored page, None if it has no place in the index or its text is not kept."""
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
