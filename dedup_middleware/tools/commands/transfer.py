"""``scrapy dedup export``, ``import``, ``rebuild``: pages of an index in a file or a new index."""

from __future__ import annotations

import argparse
from pathlib import Path

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import hide_password
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.opening import open_index, options_of_other
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.parameters import hash_key_of
from dedup_middleware.index.verification import verify
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.model.records import State
from dedup_middleware.tools.commands.asking import Reader, existing_index, is_address, reading_index
from dedup_middleware.tools.commands.context import (
    FOUND,
    OK,
    CommandError,
    Context,
    Subcommand,
    check_output,
    check_stays,
)
from dedup_middleware.tools.files.rows import FORMATS, Row, formats_of, read_rows
from dedup_middleware.tools.files.signing import Signer


class Export(Subcommand):
    """``scrapy dedup export``."""

    summary = "Write all stored pages of an index to one file"
    description = (
        "A Parquet file that `scrapy dedup import` reads into an index of any kind, and Spark and\n"
        "pandas read as a table. It holds the index's secret key: keep it as safe as the index.\n"
        "Exit codes: 0; 1: the index can't be read, or the file can't be written."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument("--overwrite", action="store_true", help="replace the file")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.portable.portable import export_index

        path = arguments.file
        check_output(path, overwrite=arguments.overwrite)
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

    summary = "Enter the pages of an exported file, or of another index, into an index"
    description = (
        "An index that does not exist is made with the parameters of the source, and with\n"
        "DEDUP_WINDOW as it is set now. Pages that are there already are passed over, so that it\n"
        "may be repeated. The source is not changed.\n"
        "Exit codes: 0; 1: the source is damaged, or was made with other parameters than the index."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "source", metavar="FILE|ADDRESS", help="an exported file, or an address as in "
            "DEDUP_INDEX_URL",
        )  # fmt: skip
        parser.add_argument(
            "--namespace", help="of the source, if it is in Redis (default: DEDUP_NAMESPACE)"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.portable.portable import copy_index, import_index

        check_stays(context.options)
        with context.progress("pages") as bar:

            def done(pages: int, _: int) -> None:
                bar(pages)

            async with open_index(context.options) as index:
                if is_address(arguments.source):
                    where = hide_password(arguments.source)
                    other = options_of_other(context.options, arguments.source, arguments.namespace)
                    async with existing_index(other) as source:
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


_BLOCK = 2_000  # pages entered at once
_SHOWN = 5  # rejected rows that are named


@attrs.define
class Rebuilt:
    """What was done: numbers of rows, and the first rows that could not be read."""

    read: int = 0
    entered: int = 0
    known: int = 0
    empty: int = 0
    rejected: int = 0
    reasons: list[str] = attrs.field(factory=list)
    sound: bool = True


class Rebuild(Subcommand):
    """Enters stored pages into an index that no crawl uses yet."""

    summary = "Make an index with other settings of the pages that are stored"
    description = (
        "Enters every page of the files as stored, without judging it, into the index at\n"
        "DEDUP_INDEX_URL, which is made with the settings of now if it does not exist. The old\n"
        "index goes on serving, and is read only for the times of storing (--old). Pages that are\n"
        "there already (the same key with the same text) are passed over, so that it may be\n"
        "repeated. The index is verified at the end. Exit codes: 0; 1: a file or the index can't\n"
        "be read, or all rows were rejected; 3: the index is damaged."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", type=Path)
        parser.add_argument("--format", choices=FORMATS, help="default: by the file's ending")
        parser.add_argument(
            "--old", metavar="ADDRESS", help="the old index, from which pages keep their times"
        )
        parser.add_argument(
            "--namespace", help="of the old index, if it is in Redis (default: DEDUP_NAMESPACE)"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        options = context.options
        check_stays(options)
        formats = formats_of(arguments.files, arguments.format)
        dedup = Deduplicator(options)
        try:
            await dedup.open(warm=False)  # makes the index, or refuses it
        finally:
            await dedup.close()
        times = await _times(arguments.old, arguments.namespace, options)
        async with reading_index(options) as reader:
            entering = Entering(reader, options, await _known(reader), times)
            rebuilt = entering.rebuilt
            with context.progress("rows") as done:
                for path, file_format in zip(arguments.files, formats, strict=True):
                    for row in read_rows(path, file_format):
                        await entering.take(row, path)
                        done(rebuilt.read)
                await entering.flush()
            rebuilt.sound = (await verify(reader.index)).is_sound
        context.say(attrs.asdict(rebuilt), lambda: _sentences(rebuilt, options))
        if rebuilt.rejected and rebuilt.rejected == rebuilt.read:
            raise CommandError(
                f"all {rebuilt.read:,} rows were rejected: name the fields of your rows "
                "(DEDUP_TEXT_FIELD, DEDUP_HTML_FIELD, DEDUP_KEY_FIELD), or their --format"
            )
        return OK if rebuilt.sound else FOUND


class Entering:
    """Enters rows as stored pages, many at a time.

    :param known: key and text of each page that the index holds; those that are entered are added
    :param times: when the pages of the old index were stored
    """

    def __init__(
        self, reader: Reader, options: Options, known: set[tuple[int, int]], times: Times
    ) -> None:
        self.rebuilt = Rebuilt()
        self._sign = Signer(options, reader.fingerprinter.hash_key, texts=False)
        self._reader = reader
        self._known = known
        self._times = times
        self._waiting: list[Entry] = []
        self._stored: list[int] = []  # time of each, 0: now

    async def take(self, row: Row, path: Path) -> None:
        """Count a row of a file, and enter its page soon."""
        signed = self._sign(row)
        rebuilt, page = self.rebuilt, signed.page
        rebuilt.read += 1
        if page is None:
            rebuilt.rejected += 1
            if len(rebuilt.reasons) < _SHOWN:
                rebuilt.reasons.append(f"{path}, row {row.number}: {signed.error}")
        elif page.is_empty:
            rebuilt.empty += 1
        elif (page.key_hash, page.exact) in self._known:
            rebuilt.known += 1
        else:
            self._known.add((page.key_hash, page.exact))
            self._waiting.append(self._reader.entry(page))
            self._stored.append(self._times.of(page.key))
            if len(self._waiting) >= _BLOCK:
                await self.flush()

    async def flush(self) -> None:
        """Enter the pages that wait."""
        waiting, self._waiting = self._waiting, []
        stored, self._stored = self._stored, []
        if waiting:
            self.rebuilt.entered += await self._reader.index.load(pages_of(waiting, stored))


@attrs.frozen
class Times:
    """When pages of an index were stored: seconds since 1970, by the hash of the key."""

    hash_key: int = 0
    seconds: dict[int, int] = attrs.field(factory=dict)

    def of(self, key: str) -> int:
        """The time of a page, of several of this key that of the newest; 0 if there is none."""
        return self.seconds.get(keyed_hash(key, self.hash_key), 0) if self.seconds else 0


async def _times(address: str | None, namespace: str | None, options: Options) -> Times:
    """The times of the old index, none without an address."""
    if address is None:
        return Times()
    seconds: dict[int, int] = {}
    async with existing_index(options_of_other(options, address, namespace)) as index:
        hash_key = hash_key_of(await index.attach(), hide_password(address))
        async for pages in index.pages():
            stored = pages.states == State.COMMITTED
            keys, times = pages.content["key"][stored].tolist(), pages.times[stored].tolist()
            for key, time in zip(keys, times, strict=True):
                seconds[key] = max(time, seconds.get(key, 0))
    return Times(hash_key, seconds)


async def _known(reader: Reader) -> set[tuple[int, int]]:
    """Key and exact text of all stored pages, as hashes."""
    known: set[tuple[int, int]] = set()
    async for pages in reader.index.pages():
        content = pages.content[pages.states == State.COMMITTED]
        known.update(zip(content["key"].tolist(), content["exact"].tolist(), strict=True))
    return known


def _sentences(rebuilt: Rebuilt, options: Options) -> str:
    lines = (
        f"{rebuilt.read:,} rows: {rebuilt.entered:,} pages entered, {rebuilt.known:,} known, "
        f"{rebuilt.empty:,} without text, {rebuilt.rejected:,} rejected",
        *rebuilt.reasons,
        f"The index at {options.safe_index_url} is "
        + ("whole." if rebuilt.sound else "damaged: `scrapy dedup verify` says where."),
    )
    return "\n".join(lines)
