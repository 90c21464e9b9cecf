"""``scrapy dedup explain``, ``history``, ``clusters`` and ``report``, which read the journal."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
from scrapy.settings import SETTINGS_PRIORITIES

from dedup_middleware.base.errors import DedupError, named_as_given
from dedup_middleware.base.writing import write_output
from dedup_middleware.core.former import FORMER
from dedup_middleware.journal.access import Journal, open_journal
from dedup_middleware.journal.clusters import collect_clusters, to_json_lines, write_clusters
from dedup_middleware.journal.entries import DROPS, Drop, JournalStore, Query
from dedup_middleware.model.documents import REVISIT
from dedup_middleware.tools.commands.dedup import (
    OK,
    Context,
    Subcommand,
    add_selection,
    block,
    fact_table,
    moment,
    shown,
    to_query,
)

_EXCERPT = 80  # characters
_SHOWN = ("key", "time", "title", "outcome", "reason", "similarity", "jaccard", "distance")


class Explain(Subcommand):
    summary = "Show the stored page of a cluster and all that were dropped against it"
    description = (
        "Reads the journal; the index is not needed. KEY is that of the stored page or of a\n"
        "dropped one. Exit codes: 0; 1: the journal has no entry of the page, or can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("key", metavar="KEY", help="name of a page, usually its address")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        key = arguments.key
        with open_journal(context.options) as journal:
            own = list(journal.drops(Query(keys=frozenset({key}), outcomes=DROPS)))
            roots = {drop.match for drop in own if drop.match is not None} | {key}
            # An index without addresses names pages by their ids.
            numbers = {d.number for d in own if d.match is None and d.number is not None}
            queries = [
                *(Query(matches=frozenset({root}), outcomes=DROPS) for root in sorted(roots)),
                *(Query(numbers=frozenset({n}), outcomes=DROPS) for n in sorted(numbers)),
            ]
            found = [list(journal.drops(query, bodies=True)) for query in queries]
            if not any(found) and not own:
                raise DedupError(
                    f"the journal {journal.where} has no entry of {key}: it was not dropped, "
                    "nothing was dropped against it, or that has aged out"
                )
            clusters = [_cluster(journal, dropped) for dropped in found if dropped]
            alone = [_state(drop) for drop in own if drop.number is None]
        state = {"key": key, "clusters": clusters, "without_match": alone}
        context.say(state, lambda: _show_clusters(state))
        return OK


def _cluster(journal: JournalStore, dropped: list[Drop]) -> dict[str, Any]:
    """Describe the stored page against which all these pages were dropped."""
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
        **{name: getattr(drop, name) for name in _SHOWN},
        "tables": list(drop.tables),
        "former": FORMER in drop.tables,
        "excerpt": "" if drop.body is None else drop.body.text[:_EXCERPT],
    }


def _show_clusters(state: dict[str, Any]) -> str:
    groups = [
        (f"stored: {one['stored']}  {one['title'] or ''}", one["dropped"])
        for one in state["clusters"]
    ]
    if state["without_match"]:
        groups.append(("dropped without a stored page", state["without_match"]))
    names = ("reason", "similarity", "jaccard", "distance", "excerpt")
    lines = []
    for title, drops in groups:
        lines.append(shown(title))
        for drop in drops:
            facts = [("time", moment(drop["time"])), *((name, drop[name]) for name in names)]
            if drop["former"]:
                facts.append(("found in", "the former index"))
            lines.append(block(drop["key"], *facts))
    return "\n".join(lines)


class History(Subcommand):
    summary = "Show when a page was seen again, and what had changed"
    description = (
        "Reads the journal; the index is not needed.\n"
        "Exit codes: 0; 1: the journal has no entry of the page, or can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("key", metavar="KEY", help="key of the page, usually its address")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        key = arguments.key
        with open_journal(context.options) as journal:
            entries = _entries(journal.drops(Query(keys=frozenset({key})), bodies=True))
            kept = journal.kept(Drop(time=0.0, key=key, outcome="", reason="", match=key))
            if not entries and kept is None:
                raise DedupError(
                    f"the journal {journal.where} has no entry of {key}: it was not seen, or that "
                    "has aged out"
                )
        stored = kept and {"time": kept.time, "title": kept.title, "characters": len(kept.text)}
        state = {"key": key, "stored": stored, "entries": entries}
        context.say(state, lambda: _show_history(state))
        return OK


_DECIDED = ("outcome", "reason", "match", "similarity", "figures")


def _entries(drops: Iterable[Drop]) -> list[dict[str, Any]]:
    """Format decisions as entries; consecutive ones with the outcome "revisit" are merged."""
    found: list[dict[str, Any]] = []
    for drop in drops:
        if found and drop.outcome == found[-1]["outcome"] == REVISIT:
            found[-1] |= {"until": drop.time, "times": found[-1]["times"] + 1}
            continue
        change = None if drop.body is None else drop.body.change
        found.append(
            {
                "time": drop.time, "until": drop.time, "times": 1,
                **{name: getattr(drop, name) for name in _DECIDED},
                "change": None if change is None else attrs.asdict(change),
                "spider": drop.spider, "crawl": drop.crawl,
            }
        )  # fmt: skip
    return found


def _show_history(state: dict[str, Any]) -> str:
    lines = [shown(state["key"])]
    for entry in state["entries"]:
        facts = [("reason", entry["reason"]), ("similarity", entry["similarity"])]
        if entry["match"] not in (None, state["key"]):
            facts.append(("stored page", entry["match"]))
        if entry["times"] > 1:
            facts.append((f"{entry['times']} times until", moment(entry["until"])))
        change = entry["change"]
        if change is not None:
            facts.append(("words", f"+{change['added']} -{change['removed']}"))
            figures = (", ".join(change[name]) for name in ("old_figures", "new_figures"))
            facts.append(("figures", " -> ".join(part or "none" for part in figures)))
        facts.append(("spider", entry["spider"] or None))
        lines.append(block(f"{moment(entry['time'])}  {entry['outcome']}", *facts))
    stored = state["stored"]
    if stored is not None:
        facts = [("title", stored["title"]), ("characters", stored["characters"])]
        lines.append(block(f"{moment(stored['time'])}  the version that is stored", *facts))
    return "\n".join(lines)


class Clusters(Subcommand):
    summary = "Write each stored page with the pages that were dropped for it"
    description = (
        "JSON lines (.jsonl), CSV (.csv) or Parquet (.parquet), by the name of the file. Reads\n"
        "the journal; the index is not needed.\n"
        "Exit codes: 0; 1: the journal can't be read, or the file can't be written."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        output = "a new file; -: JSON lines"
        parser.add_argument("-o", "--output", required=True, metavar="FILE", help=output)
        parser.add_argument("--near", action="store_true", help="with near misses")
        add_selection(parser, journal=True)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        with open_journal(context.options) as journal:
            clusters = collect_clusters(journal, to_query(arguments), near=arguments.near)
            if arguments.output == "-":
                write_output(to_json_lines(clusters))
                return OK
            written = write_clusters(clusters, Path(arguments.output), replace=False)
        state = {"clusters": written, "output": arguments.output}
        context.say(state, lambda: f"{written:,} clusters are in {arguments.output}.")
        return OK


_MOST = 1_000_000_000  # upper bound for the number of decisions, and for megabytes of a report


class Report(Subcommand):
    summary = "Write what was dropped, and why, as one HTML file"
    description = (
        "The file needs no network and no server. Reads the journal; the index is not needed.\n"
        "Exit codes: 0; 1: the journal can't be read, or the file can't be written."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-o", "--output", default="report.html", type=Path, metavar="FILE")
        newest, texts = "newest decisions shown", "texts for the side-by-side view"
        against = "compare with the journal of this file or index (sqlite:..., redis://...)"
        parser.add_argument("--decisions", type=int, default=200_000, metavar="N", help=newest)
        parser.add_argument("--texts", type=float, default=24, metavar="MB", help=texts)
        parser.add_argument("--against", metavar="PLACE", help=against)
        add_selection(parser, journal=True)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.report.htmlreport import collect, write

        if not 1 <= arguments.decisions <= _MOST:
            raise DedupError(f"--decisions {arguments.decisions}: give 1 to {_MOST}")
        if not 0 <= arguments.texts <= _MOST:
            raise DedupError(f"--texts {arguments.texts:g}: give 0 to {_MOST} megabytes")
        if str(arguments.output) == "-":
            raise DedupError("a report can't be written to standard output: name a file by -o")
        options = context.options
        with contextlib.ExitStack() as stack:
            journal = stack.enter_context(open_journal(options))
            other = None
            if arguments.against is not None:
                names = dict.fromkeys(("DEDUP_INDEX_URL", "DEDUP_JOURNAL"), "--against")
                with named_as_given(names):
                    against = Journal(arguments.against, namespace=options.namespace)
                    other = stack.enter_context(against).open()
            progress = stack.enter_context(context.progress("decisions"))
            contents = collect(
                journal,
                options,
                query=to_query(arguments),
                chosen=_choice(arguments),
                decisions=arguments.decisions,
                text_bytes=round(arguments.texts * 1e6),
                other=other,
                given=_given(context),
                progress=progress,
            )
        size = write(contents, arguments.output)
        state = {
            "file": str(arguments.output),
            "bytes": size,
            "decisions": len(contents["pages"]["key"]),
            "changes": len(contents["changes"]["key"]),
            "texts": len(contents["details"]["texts"]),
        }
        context.say(state, lambda: fact_table("report", state))
        return OK


def _given(context: Context) -> dict[str, str]:
    """Return the settings of this command line that choose the journal, without passwords."""
    options = context.options
    values = {
        "DEDUP_INDEX_URL": options.safe_index_url,
        "DEDUP_JOURNAL": options.journal,
        "DEDUP_NAMESPACE": options.namespace,
    }
    by_command = SETTINGS_PRIORITIES["cmdline"]
    priority = context.settings.getpriority
    return {name: value for name, value in values.items() if (priority(name) or 0) >= by_command}


def _choice(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the filters of the report as shown to its reader."""
    chosen = {
        f"--{name}": ", ".join(getattr(arguments, name))
        for name in ("key", "host", "reason", "spider", "crawl")
    }
    times = {"--since": arguments.since, "--until": arguments.until}
    chosen |= {name: moment(value) for name, value in times.items() if value is not None}
    return {name: value for name, value in chosen.items() if value}
