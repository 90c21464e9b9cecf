"""Another journal, next to the one of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from dedup_middleware.journal.base import JournalStore
from dedup_middleware.journal.entries import Drop, Query, is_change
from dedup_middleware.tools.report.activity import activity_of
from dedup_middleware.tools.report.numbered import Names


@attrs.frozen
class Other:
    """A journal to compare with, and its name without a password."""

    journal: JournalStore
    name: str


def other_journal(
    other: Other,
    query: Query,
    drops: Sequence[Drop],
    limit: int,
    hosts: Names,
    reasons: Names,
    outcomes: Names,
    spiders: Names,
    crawls: Names,
) -> dict[str, Any]:
    """The newest decision of the other journal on each page that it has.

    A key that the report has already is the place of its last decision there.

    :param drops: the decisions of the report
    :param limit: newest decisions that are read
    :raises JournalError: the journal can't be read
    """
    newest: dict[str, Drop] = {}
    for drop in other.journal.drops(attrs.evolve(query, limit=limit)):
        if not is_change(drop):
            newest[drop.key] = drop
    places = {drop.key: place for place, drop in enumerate(drops)}
    found = list(newest.values())
    matches = Names()
    return {
        "name": other.name,
        "total": other.journal.size().drops,
        "activity": activity_of(other.journal, query, hosts, reasons),
        "pages": {
            "key": [places.get(drop.key, drop.key) for drop in found],
            "title": ["" if drop.key in places else drop.title for drop in found],
            "time": [math.floor(drop.time) for drop in found],
            "host": [hosts.number(drop.host) for drop in found],
            "outcome": [outcomes.number(drop.outcome) for drop in found],
            "reason": [reasons.number(drop.reason) for drop in found],
            "match": [-1 if drop.match is None else matches.number(drop.match) for drop in found],
            "similarity": [
                None if drop.similarity is None else math.floor(drop.similarity * 1e4) / 1e4
                for drop in found
            ],
            "spider": [spiders.number(drop.spider) for drop in found],
            "crawl": [crawls.number(drop.crawl) for drop in found],
        },
        "matches": matches.all(),
    }
