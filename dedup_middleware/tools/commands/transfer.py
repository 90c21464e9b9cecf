"""``scrapy dedup export`` and ``import``: the pages of an index in a file, or in another index."""

from __future__ import annotations

import argparse
from pathlib import Path

import attrs

from dedup_middleware.base.settingfields import hide_password
from dedup_middleware.index.opening import open_index
from dedup_middleware.tools.commands.asking import existing_index, is_address, other_index
from dedup_middleware.tools.commands.context import (
    OK,
    CommandError,
    Context,
    Subcommand,
    check_output,
    check_stays,
)


class Export(Subcommand):
    """``scrapy dedup export``."""

    name = "export"
    summary = "Write all stored pages of an index to one file"
    description = (
        "A Parquet file that `scrapy dedup import` reads into an index of any kind, and Spark and\n"
        "pandas read as a table. It holds the index's secret key: keep it as safe as the index.\n"
        "Exit codes: 0; 1: the index can't be read, or the file can't be written."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument("--overwrite", action="store_true", help="replace the file")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        from dedup_middleware.tools.portable.portable import export_index

        path = arguments.file
        check_output(path)
        if path.exists() and not arguments.overwrite:
            raise CommandError(f"{path} exists: name another file, or add --overwrite")
        if path.exists() and not _is_exported(path):  # the index itself, say
            raise CommandError(f"{path} is no exported file and is not replaced: name another one")
        async with existing_index(context.options) as index:
            with context.progress("pages") as done:
                exported = await export_index(index, path, lambda pages, _: done(pages))
        context.say(
            {"file": str(path), **attrs.asdict(exported)},
            lambda: f"{exported.pages:,} pages are in {path} ({exported.bytes:,} bytes).",
        )
        return OK


def _is_exported(path: Path) -> bool:
    """Whether a file is empty, or begins as a Parquet file does."""
    with path.open("rb") as file:
        return file.read(4) in (b"", b"PAR1")


class Import(Subcommand):
    """``scrapy dedup import``."""

    name = "import"
    summary = "Enter the pages of an exported file, or of another index, into an index"
    description = (
        "An index that does not exist is made with the parameters of the source, and with\n"
        "DEDUP_WINDOW as it is set now. Pages that are there already are passed over, so that it\n"
        "may be repeated. The source is not changed.\n"
        "Exit codes: 0; 1: the source is damaged, or was made with other parameters than the index."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument(
            "source", metavar="FILE|ADDRESS", help="an exported file, or an address as in "
            "DEDUP_INDEX_URL",
        )  # fmt: skip
        parser.add_argument(
            "--namespace", help="of the source, if it is in Redis (default: DEDUP_NAMESPACE)"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        from dedup_middleware.tools.portable.portable import copy_index, import_index

        check_stays(context.options)
        with context.progress("pages") as bar:

            def done(pages: int, _: int) -> None:
                bar(pages)

            async with open_index(context.options) as index:
                if is_address(arguments.source):
                    where = hide_password(arguments.source)
                    async with other_index(
                        arguments.source, arguments.namespace, context.options
                    ) as source:
                        imported = await copy_index(source, index, where, done)
                elif Path(arguments.source).is_file():
                    imported = await import_index(index, arguments.source, done)
                else:
                    raise CommandError(f"{arguments.source} is no file, and no address of an index")
        context.say(
            attrs.asdict(imported),
            lambda: (
                f"{imported.pages:,} pages are new to the index, {imported.known:,} were known."
            ),
        )
        return OK
