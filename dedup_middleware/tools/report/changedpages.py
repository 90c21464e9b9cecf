"""Pages that had changed since they were stored, as the report shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dedup_middleware.journal.base import JournalStore
from dedup_middleware.journal.changes import Change
from dedup_middleware.journal.entries import Drop
from dedup_middleware.tools.report.numbered import Names


def changed_pages(
    journal: JournalStore, changed: Sequence[Drop], hosts: Names, spiders: Names, crawls: Names
) -> dict[str, list[Any]]:
    """Columns of changes, in the order of the journal.

    ``added`` and ``removed`` (words), ``old`` and ``new`` (numbers that only that version has) are
    None if the journal did not have the last version.

    :raises JournalError: the journal can't be read
    """
    found = [_change(journal, drop) for drop in changed]
    return {
        "key": [drop.key for drop in changed],
        "title": [drop.title for drop in changed],
        "time": [math.floor(drop.time) for drop in changed],
        "host": [hosts.number(drop.host) for drop in changed],
        "spider": [spiders.number(drop.spider) for drop in changed],
        "crawl": [crawls.number(drop.crawl) for drop in changed],
        "similarity": [
            None if drop.similarity is None else math.floor(drop.similarity * 1e4) / 1e4
            for drop in changed
        ],
        "figures": [drop.figures for drop in changed],
        "added": [one and one.added for one in found],
        "removed": [one and one.removed for one in found],
        "old": [one and list(one.old_figures) for one in found],
        "new": [one and list(one.new_figures) for one in found],
    }


def _change(journal: JournalStore, drop: Drop) -> Change | None:
    body = journal.body(drop.id)
    return None if body is None else body.change
