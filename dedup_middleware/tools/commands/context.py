"""What all subcommands share: settings, output, exit codes, and the arguments that choose pages."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
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
from dedup_middleware.journal.access import Filters, query_of
from dedup_middleware.journal.entries import Query

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table


OK = 0
FAILED = 1  # nothing was done, or it ended early; the message says why
NOT_UNDERSTOOD = 2  # as argparse has it
FOUND = 3  # check, verify: the answer is "duplicate", or "damaged"


class CommandError(DedupError):
    """A subcommand can't be run; the message names the fix."""


@attrs.frozen
class Context:
    """Settings and output of one run."""

    settings: BaseSettings
    options: Options
    json: bool  # for machines, instead of tables for people
    console: Console

    def say(self, state: Any, table: Callable[[], Table | str]) -> None:
        """Print a result: ``state`` as JSON, or what ``table`` makes of it for people."""
        if self.json:
            encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
            printed = json.dumps(state, ensure_ascii=False, default=str)
            # Half of a pair of surrogates, such as a cut emoji, is not UTF-8 either.
            if encoding not in {"utf-8", "utf8"} or _has_surrogates(printed):
                printed = json.dumps(state, default=str)
            print(printed)
            return
        shown = table()
        # Brackets in the text of a page are no markup; an address that is cut in two lines could
        # not be copied.
        self.console.print(shown, markup=False, highlight=False, soft_wrap=isinstance(shown, str))

    @contextlib.contextmanager
    def progress(self, what: str, total: float | None = None) -> Iterator[Callable[..., None]]:
        """A progress bar on standard error, for people at a terminal.

        The block gets a function that is called with how much is done, and of how much if known.
        """
        from rich.console import Console

        console = Console(stderr=True)
        if self.json or not console.is_terminal:
            yield lambda *_: None
            return
        with progress_bars(console) as progress:
            task = progress.add_task(what, total=total)
            yield lambda done, total=None: progress.update(task, completed=done, total=total)


@contextlib.contextmanager
def writing_output() -> Iterator[None]:
    """Says of standard output what can't be written, as on a full disk."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(
            f"standard output can't be written: {error.strerror or error}"
        ) from error


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


class Subcommand(ABC):
    """One command behind ``scrapy dedup``."""

    summary: ClassVar[str]  # one line
    description: ClassVar[str] = ""  # more lines of help, with the exit codes

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027 - often none
        """Declare the arguments of the command, except ``--json``."""

    @abstractmethod
    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""


def progress_bars(console: Console) -> Progress:
    """Progress bars with a description, a count and the time."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=console)


def plain_table(title: str, *columns: str) -> Table:
    """A table for people."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), show_header=bool(columns), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


_ROOM = 16  # columns of a terminal for values and lines


def fact_table(title: str, facts: Mapping[str, object]) -> Table:
    """Names and values, in two columns without heads."""
    from rich.console import Console

    table = plain_table(title)
    for fact in facts.items():
        add_row(table, *fact)
    # A long value is folded, the names are not, unless a narrow terminal had no room for values.
    longest = max(map(len, facts), default=0)
    table.columns[0].no_wrap = Console().width - longest >= _ROOM
    return table


def add_row(table: Table, *values: object) -> None:
    """A row whose values are shown as they are, brackets and all; long ones are folded."""
    from rich.text import Text

    table.add_row(*(Text(shown(value), overflow="fold") for value in values))


def shown(value: object) -> str:
    """A value as people read it.

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
    # A page may bring its own escape sequences, which no terminal should carry out.
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(value)
    )


def block(head: object, *facts: tuple[str, object]) -> str:
    """A page with what is known of it: its whole address in a line, then the facts.

    >>> print(block("https://a.example/1", ("reason", "unchanged"), ("bits", None)))
    https://a.example/1
        reason: unchanged; bits: -
    """
    return f"{shown(head)}\n    {'; '.join(f'{name}: {shown(value)}' for name, value in facts)}"


def left_out_lines(left_out: Mapping[str, int]) -> list[str]:
    """Sentences on fields that JSON can't hold, by their names, of so many pages."""
    return [
        f"The field {name} of {number:,} pages could not be kept."
        for name, number in sorted(left_out.items())
    ]


def check_output(path: Path | None, *, overwrite: bool = True) -> None:
    """Refuse the name of an output that is no file: a folder, or a device to be replaced."""
    if path is not None and (not path.name or (path.exists() and not path.is_file())):
        raise CommandError(f"{path} is no file: name a file to write to")
    if path is not None and path.exists() and not overwrite:
        raise CommandError(f"{path} exists: name another file, or add --overwrite")


def check_format(path: Path | None, what: str, wanted: str, others: str) -> None:
    """Refuse a name that promises another format than what is written.

    :param what: is written, and as what
    :param others: endings of other formats, without their points
    """
    ending = "" if path is None else Path(path.name.lower().removesuffix(".gz")).suffix[1:]
    if ending in others.split():
        raise CommandError(f"{path}: {what}, not as {ending}; name a file in {wanted}")


def check_portable(path: Path | None) -> None:
    """Refuse a name that promises another format than that of an exported index."""
    others = "csv tsv json jsonl ndjson warc"
    check_format(path, "an index is written as Parquet", ".parquet", others)


def check_stays(options: Options) -> None:
    """Refuse an index that is gone when the command ends."""
    if options.index_url.startswith("memory:"):
        raise CommandError(
            "DEDUP_INDEX_URL='memory:' is gone when the command ends: name an index that stays"
        )


def moment(seconds: float) -> str:
    """A time as people read it, in the time zone of the machine."""
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def add_selection(parser: argparse.ArgumentParser, *, journal: bool) -> None:
    """Arguments that choose pages.

    :param journal: with ``--reason``, ``--spider`` and ``--crawl``, which only a journal holds
    """
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
    """Seconds since 1970 of an ISO date or time, or of so long ago: ``90s``, ``2h``, ``7d``.

    A time without a zone is one of this machine's.
    """
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
    """The pages that :func:`add_selection` chooses, as a query of the journal."""
    given: dict[str, Any] = {"since": arguments.since, "until": arguments.until}
    names = ("key", "host", "reason", "spider", "crawl")
    given |= {f"{name}s": getattr(arguments, name) for name in names}
    return query_of(cast("Filters", given), frozenset())
