"""``scrapy dedup report``: the journal as one HTML file."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from scrapy.settings import SETTINGS_PRIORITIES

from dedup_middleware.journal.access import Journal
from dedup_middleware.journal.opening import open_journal
from dedup_middleware.tools.commands.context import (
    OK,
    CommandError,
    Context,
    Subcommand,
    fact_table,
    moment,
)
from dedup_middleware.tools.commands.selecting import add_selection, to_query

_MOST = 1_000_000_000  # decisions or megabytes of a report


class Command(Subcommand):
    """``scrapy dedup report``."""

    summary = "Write what was dropped, and why, as one HTML file"
    description = (
        "The file needs no network and no server. Reads the journal; the index is not needed.\n"
        "Exit codes: 0; 1: the journal can't be read, or the file can't be written."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-o", "--output", default="report.html", type=Path, metavar="FILE")
        parser.add_argument(
            "--decisions", type=int, default=200_000, metavar="N", help="newest decisions shown"
        )
        parser.add_argument(
            "--texts", type=float, default=24, metavar="MB", help="texts for the side-by-side view"
        )
        parser.add_argument(
            "--against",
            metavar="PLACE",
            help="compare with the journal of this file or index (sqlite:..., redis://...)",
        )
        add_selection(parser, journal=True)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.report.htmlreport import contents_of, write

        if not 1 <= arguments.decisions <= _MOST:
            raise CommandError(f"--decisions {arguments.decisions}: give 1 to {_MOST}")
        if not 0 <= arguments.texts <= _MOST:
            raise CommandError(f"--texts {arguments.texts:g}: give 0 to {_MOST} megabytes")
        options = context.options
        with contextlib.ExitStack() as stack:
            journal = stack.enter_context(open_journal(options))
            other = None
            if arguments.against is not None:
                against = Journal(arguments.against, namespace=options.namespace)
                other = stack.enter_context(against).open()
            progress = stack.enter_context(context.progress("decisions"))
            contents = contents_of(
                journal,
                options,
                to_query(arguments),
                decisions=arguments.decisions,
                text_bytes=round(arguments.texts * 1e6),
                other=other,
                chosen=_choice(arguments),
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
    """Settings of this command line that say which journal is read; no passwords."""
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
    """The filters of the report, as its reader sees them."""
    chosen = {
        f"--{name}": ", ".join(getattr(arguments, name))
        for name in ("key", "host", "reason", "spider", "crawl")
    }
    times = {"--since": arguments.since, "--until": arguments.until}
    chosen |= {name: moment(value) for name, value in times.items() if value is not None}
    return {name: value for name, value in chosen.items() if value}
