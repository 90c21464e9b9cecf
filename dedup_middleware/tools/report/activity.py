"""The counters of a journal, summed up as the report shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from dedup_middleware.journal.base import JournalStore
from dedup_middleware.journal.entries import HOUR, Hour, Query
from dedup_middleware.tools.report.numbered import Names


def activity_of(
    journal: JournalStore, query: Query, hosts: Names, reasons: Names
) -> dict[str, list[list[int]]]:
    """Pages by hour, by site and by reason; empty if a query chooses by more than host and time.

    :returns: ``hours``: start in seconds since 1970, stored, dropped; ``sites``: number of the
        host, seen, stored, dropped; ``reasons``: number of the reason, dropped
    :raises JournalError: the journal can't be read
    """
    by_hour: dict[int, list[int]] = {}
    by_site: dict[str, list[int]] = {}
    by_reason: Counter[str] = Counter()
    for hour in _hours(journal, query):
        dropped = sum(hour.dropped.values())
        _add(by_hour.setdefault(hour.hour, [0, 0]), hour.stored, dropped)
        _add(by_site.setdefault(hour.host, [0, 0, 0]), hour.seen, hour.stored, dropped)
        by_reason.update(hour.dropped)
    return {
        "hours": [[start, *counts] for start, counts in sorted(by_hour.items())],
        "sites": [[hosts.number(host), *counts] for host, counts in sorted(by_site.items())],
        "reasons": [[reasons.number(name), count] for name, count in by_reason.most_common()],
    }


def _add(counts: list[int], *more: int) -> None:
    for place, number in enumerate(more):
        counts[place] += number


def _hours(journal: JournalStore, query: Query) -> Iterator[Hour]:
    """The hours that a query chooses; their counters say no more than hour and host."""
    plain: dict[str, Any] = {"hosts": frozenset(), "since": None, "until": None}
    if attrs.evolve(query, **plain) != Query():
        return
    for hour in journal.hours():
        if (
            (not query.hosts or hour.host in query.hosts)
            and (query.since is None or hour.hour + HOUR > query.since)
            and (query.until is None or hour.hour < query.until)
        ):
            yield hour
