"""``scrapy dedup explain``: the cluster of a page."""

from __future__ import annotations

import argparse
from typing import Any

from dedup_middleware.journal.base import JournalStore
from dedup_middleware.journal.entries import DROPS, Drop, Query
from dedup_middleware.journal.opening import open_journal
from dedup_middleware.tools.commands.context import (
    OK,
    CommandError,
    Context,
    Subcommand,
    block,
    moment,
    shown,
)

_EXCERPT = 80  # characters


class Command(Subcommand):
    """``scrapy dedup explain``."""

    name = "explain"
    summary = "Show the stored page of a cluster and all that were dropped against it"
    description = (
        "Reads the journal; the index is not needed. KEY is that of the stored page or of a\n"
        "dropped one. Exit codes: 0; 1: the journal has no entry of the page, or can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument("key", metavar="KEY", help="name of a page, usually its address")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        key = arguments.key
        with open_journal(context.options) as journal:
            own = list(journal.drops(Query(keys=frozenset({key}), outcomes=DROPS)))
            roots = {drop.match for drop in own if drop.match is not None} | {key}
            # An index that keeps no addresses names pages by their numbers.
            numbers = {d.number for d in own if d.match is None and d.number is not None}
            queries = [Query(matches=frozenset({root}), outcomes=DROPS) for root in sorted(roots)]
            found = [list(journal.drops(query, bodies=True)) for query in queries]
            if numbers:
                query = Query(numbers=frozenset(numbers), outcomes=DROPS)
                same = list(journal.drops(query, bodies=True))
                found += [[drop for drop in same if drop.number == n] for n in sorted(numbers)]
            if not any(found) and not own:
                raise CommandError(
                    f"the journal {journal.where} has no entry of {key}: it was not dropped, "
                    "nothing was dropped against it, or that has aged out"
                )
            clusters = [_cluster(journal, dropped) for dropped in found if dropped]
            alone = [_state(drop) for drop in own if drop.number is None]
        state = {"key": key, "clusters": clusters, "without_match": alone}
        context.say(state, lambda: _show(state))
        return OK


def _cluster(journal: JournalStore, dropped: list[Drop]) -> dict[str, Any]:
    """The stored page of drops that all name the same one."""
    kept = journal.kept(dropped[0])
    name = dropped[0].match if kept is None else kept.key
    return {
        "stored": name or f"page {dropped[0].number}",
        "title": None if kept is None else kept.title,
        "excerpt": None if kept is None else kept.text[:_EXCERPT],
        "dropped": [_state(drop) for drop in dropped],
    }


def _state(drop: Drop) -> dict[str, Any]:
    return {
        "key": drop.key,
        "time": drop.time,
        "title": drop.title,
        "outcome": drop.outcome,
        "reason": drop.reason,
        "similarity": drop.similarity,
        "jaccard": drop.jaccard,
        "distance": drop.distance,
        "tables": list(drop.tables),
        "excerpt": "" if drop.body is None else drop.body.text[:_EXCERPT],
    }


def _show(state: dict[str, Any]) -> str:
    groups = [
        (f"stored: {one['stored']}  {one['title'] or ''}", one["dropped"])
        for one in state["clusters"]
    ]
    if state["without_match"]:
        groups.append(("dropped without a stored page", state["without_match"]))
    lines = []
    for title, drops in groups:
        lines.append(shown(title))
        for drop in drops:
            names = ("reason", "similarity", "jaccard", "distance", "excerpt")
            facts = [("time", moment(drop["time"])), *((name, drop[name]) for name in names)]
            lines.append(block(drop["key"], *facts))
    return "\n".join(lines)
