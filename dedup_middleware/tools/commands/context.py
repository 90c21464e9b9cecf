"""What all subcommands share: settings, output, exit codes, and arguments that select pages."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs
from scrapy.settings import BaseSettings

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import to_json
from dedup_middleware.journal.access import Filters, query_of
from dedup_middleware.journal.entries import Query

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.table import Table


OK = 0
FAILED = 1  # nothing was done, or the command stopped early; the message says why
NOT_UNDERSTOOD = 2  # the code of argparse
FOUND = 3  # the result of check is "duplicate", that of verify "damaged"


@attrs.frozen
class Context:
    """The settings and the output of one command."""

    settings: BaseSettings
    options: Options
    json: bool  # print JSON for machines instead of tables for people
    console: Console

    def say(self, state: Any, table: Callable[[], RenderableType]) -> None:
        """Print a result: ``state`` as JSON, or for people what ``table`` returns."""
        from rich.table import Table

        if self.json:
            encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
            print(to_json(state, ascii_only=encoding not in {"utf-8", "utf8"}).decode())
            return
        shown = table()
        if isinstance(shown, Table) and shown.title:  # an address, not folded to be copied
            self.console.print(shown.title, soft_wrap=True)
            shown.title = None
        # Brackets in a page's text are no markup, and a broken URL could not be copied.
        self.console.print(shown, markup=False, highlight=False, soft_wrap=isinstance(shown, str))

    @contextlib.contextmanager
    def progress(self, what: str, total: float | None = None) -> Iterator[Callable[..., None]]:
        """Show a progress bar on standard error if it is a terminal; yield a function of the amount
        done and optionally the total."""
        from rich.console import Console

        console = Console(stderr=True)
        if self.json or not console.is_terminal:
            yield lambda *_: None
            return
        with progress_bars(console) as progress:
            task = progress.add_task(what, total=total)
            yield lambda done, total=None: progress.update(task, completed=done, total=total)


class Subcommand(ABC):
    """One subcommand of ``scrapy dedup``."""

    summary: ClassVar[str]  # one line
    description: ClassVar[str] = ""  # further help text, with the exit codes

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027 - often none
        """Declare the arguments of the command, except ``--json``."""

    @abstractmethod
    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command and return its exit code."""


def progress_bars(console: Console) -> Progress:
    """Return progress bars with a description, a count and the elapsed time."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=console)


def plain_table(title: str, *columns: str) -> Table:
    """Return an empty table with a title and columns that fold long values."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), show_header=bool(columns), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


_ROOM = 16  # terminal columns needed for values and borders


def fact_table(title: str, facts: Mapping[str, object]) -> Table:
    """Return a table of names and values, without column heads."""
    from rich.console import Console

    table = plain_table(title)
    for fact in facts.items():
        add_row(table, *fact)
    # Long values are folded and names are not, unless the terminal is too narrow for both.
    longest = max(map(len, facts), default=0)
    table.columns[0].no_wrap = Console().width - longest >= _ROOM
    return table


def add_row(table: Table, *values: object) -> None:
    """Add a row of literal values, brackets included; long ones are folded."""
    from rich.text import Text

    table.add_row(*(Text(shown(value), overflow="fold") for value in values))


def shown(value: object) -> str:
    """Format a value for people.

    >>> shown(None), shown(12345), shown(0.98765)
    ('-', '12,345', '0.988')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}"
    # Pages may contain escape sequences, which must not reach the terminal.
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(value)
    )


def block(head: object, *facts: tuple[str, object]) -> str:
    """Format a page and facts about it: its full address on one line, then the facts.

    >>> print(block("https://a.example/1", ("reason", "unchanged"), ("bits", None)))
    https://a.example/1
        reason: unchanged; bits: -
    """
    return f"{shown(head)}\n    {'; '.join(f'{name}: {shown(value)}' for name, value in facts)}"


def left_out_lines(left_out: Mapping[str, int]) -> list[str]:
    """Format how many pages have lost a field that JSON can't hold, by the name of the field."""
    return [
        f"The field {name} of {number:,} pages could not be kept."
        for name, number in sorted(left_out.items())
    ]


def check_output(path: Path | None, *, overwrite: bool = True) -> None:
    """Refuse an output path that is not a regular file or, without ``overwrite``, exists."""
    is_name = path is None or path.name not in ("", "-")  # others write to standard output by -
    if path is not None and (not is_name or (path.exists() and not path.is_file())):
        raise DedupError(f"{path} is no file: name a file to write to")
    if path is not None and path.exists() and not overwrite:
        raise DedupError(f"{path} exists: name another file, or add --overwrite")


def check_format(path: Path | None, what: str, wanted: str, others: str) -> None:
    """Refuse a file name whose ending is one of ``others`` (without dots).

    :param what: what is written, and in which format, for the message
    """
    ending = "" if path is None else Path(path.name.lower().removesuffix(".gz")).suffix[1:]
    if ending in others.split():
        raise DedupError(f"{path}: {what}, not as {ending}; name a file in {wanted}")


def check_portable(path: Path | None) -> None:
    """As :func:`check_format`, for the file of an exported index."""
    others = "csv tsv json jsonl ndjson warc"
    check_format(path, "an index is written as Parquet", ".parquet", others)


def check_stays(options: Options) -> None:
    """Refuse an index that exists only in memory."""
    if options.index_url.startswith("memory:"):
        raise DedupError(
            "DEDUP_INDEX_URL='memory:' is gone when the command ends: name an index that stays"
        )


def moment(seconds: float) -> str:
    """Format a time for people, in the time zone of the machine."""
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def add_selection(parser: argparse.ArgumentParser, *, journal: bool) -> None:
    """Add the arguments that select pages, of a journal or an index."""
    joined = " (all that are given must fit)" if journal else ""
    group = parser.add_argument_group(f"which pages{joined}")
    names = {"key": "a page; repeat for more", "host": "all of a host; repeat"}
    if journal:
        names |= {"reason": "dropped for it; repeat", "spider": "by this spider; repeat"}
        names["crawl"] = "in the crawl of this id"
    for name, words in names.items():
        group.add_argument(f"--{name}", action="append", default=[], help=words)
    since = "from this time on: 2026-05-31T08:00, or 2h"
    for name, words in (("since", since), ("until", "before this time")):
        group.add_argument(f"--{name}", type=parse_time, metavar="TIME", help=words)


def parse_time(text: str) -> float:
    """Parse an ISO date or time, or an age such as ``90s`` or ``7d``, to seconds since 1970."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    try:
        if ago is not None:
            span = datetime.timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
            return (datetime.datetime.now().astimezone() - span).timestamp()
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write 2026-05-31, 2026-05-31T08:00, 90m, 2h or 7d"
        ) from None


def to_query(arguments: argparse.Namespace) -> Query:
    """Return a journal query for the arguments of :func:`add_selection`."""
    given: dict[str, Any] = {"since": arguments.since, "until": arguments.until}
    names = ("key", "host", "reason", "spider", "crawl")
    given |= {f"{name}s": getattr(arguments, name) for name in names}
    return query_of(cast("Filters", given), frozenset())
