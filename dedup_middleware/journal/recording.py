"""From verdicts to entries of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import attrs

from dedup_middleware.fingerprint import NEW, Document, Verdict, is_content_key
from dedup_middleware.journal.entries import Body, Drop, Kept
from dedup_middleware.journal.items import plain_item
from dedup_middleware.journal.opening import choose_journal
from dedup_middleware.journal.writer import JournalWriter
from dedup_middleware.options import Options

Count = Callable[[str, float], None]

NEAR = 0.5  # similarity from which a page that was let through is worth a look


class Recorder:
    """Writes down what becomes of pages; does nothing with ``DEDUP_JOURNAL=off``."""

    def __init__(self, options: Options, count: Count) -> None:
        self._options = options
        journal = choose_journal(options)
        self._writer = None if journal is None else JournalWriter(journal, count)
        if self._writer is not None:
            self._writer.start()

    def dropped(self, verdict: Verdict, document: Document, item: Any) -> None:
        """An item was dropped; all of it but the raw HTML is kept."""
        if self._writer is not None:
            self._writer.drop(
                make_drop(verdict, document, item, self._options, self._writer.clock())
            )

    def passed(self, verdict: Verdict, document: Document) -> None:
        """An item was looked at and goes on."""
        if self._writer is not None:
            near = make_near(verdict, document, self._options, self._writer.clock())
            self._writer.passed(verdict.key, near)

    def stored(self, verdict: Verdict) -> None:
        """Record that an item that was checked is stored."""
        if self._writer is not None:
            keep = self._options.journal_keep_texts
            kept = make_kept(verdict, self._options, self._writer.clock()) if keep else None
            self._writer.stored(verdict.key, kept)

    def report_counts(self) -> None:
        """Add to the counters what was written, lost or has failed since the last call."""
        if self._writer is not None:
            self._writer.report_counts()

    async def close(self) -> None:
        """Write what waits; it takes some seconds at the most."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self.report_counts()


def make_drop(
    verdict: Verdict, document: Document, item: Any, options: Options, time: float
) -> Drop:
    """The entry of a dropped page.

    :param item: the item, None if there is none
    """
    match = verdict.match
    fields, left_out = (None, ()) if item is None else plain_item(item, {options.html_field})
    return Drop(
        time=time,
        key=verdict.key,
        title=document.title,
        outcome=verdict.outcome,
        reason=verdict.reason,
        match=None if match is None else match.key,
        number=None if match is None else match.number,
        similarity=None if match is None else match.similarity,
        jaccard=None if match is None else match.jaccard,
        distance=None if match is None else match.distance,
        shared=None if match is None else match.shared,
        figures=None if match is None else match.figures,
        tables=() if match is None else match.tables,
        item_type="" if item is None else type(item).__name__,
        body=Body(document.text or "", fields, left_out),
    )


def make_near(verdict: Verdict, document: Document, options: Options, time: float) -> Drop | None:
    """The entry of a page that is new and much like a stored one, None if it is not.

    It shows where the threshold lies. Its item is stored, so only its text is written.
    """
    near = verdict.nearest
    if verdict.outcome != NEW or near is None or near.similarity < NEAR:
        return None
    if not options.journal_keep_texts:
        document = attrs.evolve(document, text="")
    return make_drop(attrs.evolve(verdict, match=near), document, None, options, time)


def make_kept(verdict: Verdict, options: Options, time: float) -> Kept | None:
    """The entry of a stored page, None if it has no place in the index or no text."""
    document = verdict.document
    if verdict.claim is None or document is None or not document.text:
        return None
    return Kept(
        key=verdict.key,
        number=verdict.claim.number,
        by_number=is_content_key(verdict.key) or not options.keep_address,
        title=document.title,
        text=document.text,
        time=time,
    )
