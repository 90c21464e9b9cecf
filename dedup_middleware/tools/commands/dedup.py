"""``scrapy dedup``: finds the subcommand, passes it the settings, turns errors into exit codes.

It also has what all subcommands share: output, progress, and arguments that select pages.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import difflib
import io
import logging
import re
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings, Settings

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import NO_OUTPUT, discard_output, flush_output, to_json
from dedup_middleware.journal.access import Filters, query_of
from dedup_middleware.journal.entries import Query
from dedup_middleware.plugin.settings import options_from_settings

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

        # What the command is for may be done: this is no error of an index or a file.
        with os_errors(NO_OUTPUT):
            if self.json:
                encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
                print(to_json(state, ascii_only=encoding not in {"utf-8", "utf8"}).decode())
                return
            shown = table()
            if isinstance(shown, Table) and shown.title:  # folded, an address could not be copied
                self.console.print(shown.title, soft_wrap=True)
                shown.title = None
            # Neither brackets nor :id: in a key or a text are markup, and a broken URL could not be
            # copied.
            self.console.print(
                shown,
                markup=False,
                emoji=False,
                highlight=False,
                soft_wrap=isinstance(shown, str),
            )

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


_PASSWORD = re.compile(r"(?<=//)([^\s/?#:@]*):[^\s/?#]*@")


def shown(value: object) -> str:
    """Format a value for people, without the passwords of addresses.

    >>> shown(None), shown(12345), shown(0.98765), shown("http://me:secret@a.example/")
    ('-', '12,345', '0.988', 'http://me:***@a.example/')
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
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}"
        for c in _PASSWORD.sub(r"\1:***@", str(value))
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
        f"Pages whose field {shown(name)} could not be kept: {number:,}."
        for name, number in sorted(left_out.items())
    ]


def check_output(path: Path | None, *, overwrite: bool = True) -> None:
    """Refuse an output path that is not a regular file or, without ``overwrite``, exists."""
    # Other commands take - for standard output.
    is_name = path is None or path.name not in ("", "-")
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
    """Refuse a file name for an exported index whose ending is that of another format."""
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
    names = {"key": "a page (repeatable)", "host": "all pages of this host (repeatable)"}
    if journal:
        names["reason"] = "decided for this reason (repeatable)"
        names["spider"] = "by this spider (repeatable)"
        names["crawl"] = "in the crawl of this id (repeatable)"
    for name, words in names.items():
        group.add_argument(f"--{name}", action="append", default=[], type=_given, help=words)
    since = "from this time on: 2026-05-31T08:00, or 2h"
    for name, words in (("since", since), ("until", "before this time")):
        group.add_argument(f"--{name}", type=parse_time, metavar="TIME", help=words)


def _given(text: str) -> str:
    """Refuse an empty text, as an unset variable of the shell gives it: no host is that of all
    pages whose key is no address."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def parse_time(text: str) -> float:
    """Parse an ISO date or time, or an age such as ``90s`` or ``7d``, to seconds since 1970."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    try:
        if ago is not None:
            span = datetime.timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
            found = (datetime.datetime.now().astimezone() - span).timestamp()
        else:
            found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        moment(found)  # at either end of the calendar it can't be written in this time zone
        return found
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


# Module in this package and class of each subcommand, imported on use.
SUBCOMMANDS = {
    "stats": ("maintain", "Stats"),
    "check": ("check", "Check"),
    "compare": ("check", "Compare"),
    "explain": ("explain", "Explain"),
    "history": ("explain", "History"),
    "clusters": ("explain", "Clusters"),
    "report": ("explain", "Report"),
    "restore": ("transfer", "Restore"),
    "files": ("files", "Files"),
    "spark": ("files", "Spark"),
    "forget": ("maintain", "Forget"),
    "clear": ("maintain", "Clear"),
    "export": ("transfer", "Export"),
    "import": ("transfer", "Import"),
    "rebuild": ("transfer", "Rebuild"),
    "verify": ("maintain", "Verify"),
    "compact": ("maintain", "Compact"),
    "warmup": ("maintain", "Warmup"),
}


_Tasks = list["asyncio.Task[Any] | None"]


class Command(ScrapyCommand):
    """Dispatches to the subcommands; settings come from the project and from ``-s``."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "COMMAND [options] ..."

    def short_desc(self) -> str:
        return "See, check and manage near-duplicate pages"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        # Only Scrapy's own options; run() parses those of the subcommand.
        super().add_options(parser)
        # Scrapy's parser would print its own help before the subcommand is known, and would take
        # the abbreviated option of a subcommand for its own.
        parser.allow_abbrev = False
        parser.add_argument("-h", "--help", action="store_true", help="show help and exit")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run a subcommand. Exit codes: 0 done, 1 failed, 2 not understood, 3 see the command."""
        name = "dedup" if not args else f"dedup {args[0]}"
        try:
            self._dispatch(args, opts)
            with os_errors(NO_OUTPUT):
                flush_output()
        except BrokenPipeError:  # as by `| head`, which closes the pipe
            self.exitcode = FAILED
        except (DedupError, OSError) as error:
            self.exitcode = FAILED
            print(f"scrapy {name}: {shown(error)}", file=sys.stderr)
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.exitcode = FAILED
            print(f"scrapy {name}: ended by Ctrl-C", file=sys.stderr)
        finally:
            discard_output()

    def _dispatch(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args and opts.help:
            print(self._overview())
            return
        if not args:
            raise UsageError(f"use: scrapy dedup {self.syntax()}\n\n{self._overview()}")
        name = args[0]
        if name not in SUBCOMMANDS:
            meant = difflib.get_close_matches(name, SUBCOMMANDS, n=1)
            guess = f"do you mean `scrapy dedup {meant[0]}`? " if meant else ""
            lists = "`scrapy dedup --help` lists all"
            print(f"scrapy dedup: there is no command {name!r}; {guess}{lists}", file=sys.stderr)
            self.exitcode = NOT_UNDERSTOOD
            return
        command = load(name)
        parser = make_parser(name, command)
        if opts.help:
            print(parser.format_help(), end="")
            return
        arguments = parser.parse_args(args[1:])
        out = sys.stdout
        if isinstance(out, io.TextIOWrapper) and (
            out.errors == "strict"
            or (out.errors == "surrogateescape" and out.encoding.lower() not in ("utf-8", "utf8"))
        ):
            # Characters that the encoding lacks are escaped, so that no command fails on them.
            out.reconfigure(errors="backslashreplace")
        with _compiling_logged(name), _ended_by_ctrl_c() as tasks:
            self.exitcode = asyncio.run(self._run(command, arguments, tasks))

    async def _run(self, command: Subcommand, arguments: argparse.Namespace, tasks: _Tasks) -> int:
        from rich.console import Console

        tasks.append(asyncio.current_task())
        settings = self.settings or Settings()
        context = Context(settings, options_from_settings(settings), arguments.json, Console())
        return await command.run(context, arguments)

    def _overview(self) -> str:
        width = max(map(len, SUBCOMMANDS)) + 2
        lines = [f"  {name:{width}}{load(name).summary}" for name in SUBCOMMANDS]
        more = "scrapy dedup COMMAND --help shows more; -s NAME=VALUE sets a setting."
        return "\n".join(["Commands:", *lines, "", more])


@contextlib.contextmanager
def _ended_by_ctrl_c() -> Iterator[_Tasks]:
    """Make Ctrl-C raise in the command at once. asyncio's own handler would stop it only at its
    next ``await``, and never while it waits for confirmation or reads a journal.

    :returns: a list for the command's task, which is cancelled too, because Python ignores an
        exception that the signal raises in a finalizer
    """
    tasks: _Tasks = []

    def end(*_: object) -> None:
        for task in tasks:
            if task is not None and not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        raise KeyboardInterrupt

    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield tasks  # SIGINT is ignored, as by nohup, or handled by the calling program
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield tasks
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _compiling_logged(name: str) -> Iterator[None]:
    """Log to stderr when kernels are compiled, which may take a minute. Other logs are off here."""
    logger = logging.getLogger("dedup_middleware.base.kernels")  # by name: no numba import
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"scrapy dedup {name}: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def load(name: str) -> Subcommand:
    """Return a subcommand by its name."""
    module, class_name = SUBCOMMANDS[name]
    found = import_module(f"dedup_middleware.tools.commands.{module}")
    command: Subcommand = getattr(found, class_name)()
    return command


def make_parser(name: str, command: Subcommand) -> argparse.ArgumentParser:
    """Return the argument parser of a subcommand."""
    parser = argparse.ArgumentParser(
        prog=f"scrapy dedup {name}",
        description=f"{command.summary}.\n\n{command.description}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Scrapy's own options, such as -s NAME=VALUE, work as well.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    command.add_arguments(parser)
    return parser
