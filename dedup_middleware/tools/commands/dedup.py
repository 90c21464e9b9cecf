"""``scrapy dedup``: finds the subcommand, passes it the settings, turns errors into exit codes."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import io
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.base.writing import NO_OUTPUT, discard_output, flush_output
from dedup_middleware.plugin.settings import options_from_settings
from dedup_middleware.tools.commands.context import (
    FAILED,
    NOT_UNDERSTOOD,
    Context,
    Subcommand,
    shown,
)

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


@contextmanager
def _ended_by_ctrl_c() -> Iterator[_Tasks]:
    """Make Ctrl-C raise in the command at once. asyncio's own handler would stop it only at its
    next ``await``, and never while it waits for an answer or reads a journal.

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


@contextmanager
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
