"""``scrapy dedup export``, ``import``, ``rebuild``, ``restore``: pages to files or an index."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import FieldNames, hide_password
from dedup_middleware.base.writing import is_replaceable, to_json, write_new, write_output
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import Pages, pages_of
from dedup_middleware.index.parameters import hash_key_of
from dedup_middleware.index.verification import verify
from dedup_middleware.journal.access import open_journal
from dedup_middleware.journal.entries import DROPS, Drop, Query
from dedup_middleware.model.claims import EVERYTHING, Claimed
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key, keyed_hash
from dedup_middleware.model.records import State
from dedup_middleware.tools.commands.asking import (
    Reader,
    existing_index,
    is_address,
    other_index,
    reading_index,
)
from dedup_middleware.tools.commands.dedup import (
    FOUND,
    OK,
    Context,
    Subcommand,
    add_selection,
    check_output,
    check_portable,
    check_stays,
    left_out_lines,
    shown,
    to_query,
)
from dedup_middleware.tools.commands.files import check_rejected
from dedup_middleware.tools.files.rows import FORMATS, Row, formats_of, read_rows
from dedup_middleware.tools.files.signing import Signer


class Export(Subcommand):
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
        check_portable(path)
        check_output(path, overwrite=arguments.overwrite)
        if not is_replaceable(path, b"PAR1"):  # such as the index itself
            raise DedupError(f"{path} is no exported file and is not replaced: name another one")
        async with existing_index(context.options) as index:
            with context.progress("pages") as done:
                exported = await export_index(index, path, done)
        sentence = f"Pages in {path}: {exported.pages:,} ({exported.bytes:,} bytes)."
        context.say({"file": str(path), **attrs.asdict(exported)}, lambda: sentence)
        return OK


class Import(Subcommand):
    summary = "Enter the pages of an exported file, or of another index, into an index"
    description = (
        "An index that does not exist is made with the parameters of the source, and with\n"
        "DEDUP_WINDOW as it is set now. Pages that are there already are passed over, so that it\n"
        "may be repeated. The source is not changed.\n"
        "Exit codes: 0; 1: the source is damaged, or was made with other parameters than the index."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        source = "an exported file, or an address as in DEDUP_INDEX_URL"
        parser.add_argument("source", metavar="FILE|ADDRESS", help=source)
        namespace = "of the source, if it is in Redis (default: DEDUP_NAMESPACE)"
        parser.add_argument("--namespace", help=namespace)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.portable.portable import copy_index, import_index

        check_stays(context.options)
        with context.progress("pages") as done:
            async with open_index(context.options) as index:
                if is_address(arguments.source):
                    where, names = hide_password(arguments.source), {"DEDUP_INDEX_URL": "ADDRESS"}
                    named = (arguments.source, arguments.namespace, "ADDRESS")
                    async with other_index(context.options, *named) as source:
                        imported = await copy_index(source, index, where, names, done)
                elif Path(arguments.source).is_file():
                    imported = await import_index(index, arguments.source, done)
                else:
                    raise DedupError(
                        f"{arguments.source!r} is no file, and no address of an index: name a file "
                        "that `scrapy dedup export` has written, or an index as in DEDUP_INDEX_URL"
                    )
        sentence = f"Pages new to the index: {imported.pages:,}; known: {imported.known:,}."
        context.say(attrs.asdict(imported), lambda: sentence)
        return OK


_PART = 2_000  # pages made into columns at once
_BLOCK = 20_000  # pages entered at once
_SHOWN = 5  # rejected rows listed


@attrs.define
class Rebuilt:
    """The result of a rebuild: numbers of rows, and the first rows that could not be read."""

    read: int = 0
    entered: int = 0
    known: int = 0
    empty: int = 0
    rejected: int = 0
    reasons: list[str] = attrs.field(factory=list)
    sound: bool = True


class Rebuild(Subcommand):
    summary = "Make an index with other settings of the pages that are stored"
    description = (
        "Enters every page of the files as stored, without judging it, into the index at\n"
        "DEDUP_INDEX_URL, which is made with the current settings if it does not exist. The old\n"
        "index goes on serving, and is read only for the times of storing (--old). Pages that are\n"
        "there already (the same key with the same text) are passed over, so that it may be\n"
        "repeated. The index is verified at the end. Exit codes: 0; 1: a file or the index can't\n"
        "be read, or all rows were rejected; 3: the index is damaged."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", type=Path)
        parser.add_argument("--format", choices=FORMATS, help="default: by the file's ending")
        old = "the old index, from which pages keep their times"
        parser.add_argument("--old", metavar="ADDRESS", help=old)
        namespace = "of the old index, if it is in Redis (default: DEDUP_NAMESPACE)"
        parser.add_argument("--namespace", help=namespace)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.portable.portable import enter_pages

        options = context.options
        check_stays(options)
        # Wrong arguments are reported before an index is made.
        if arguments.old is not None and not is_address(arguments.old):
            raise DedupError(
                f"--old {hide_password(arguments.old)} is no address of an index that stays: write "
                "it as DEDUP_INDEX_URL, such as sqlite:old.db"
            )
        formats = formats_of(arguments.files, arguments.format)
        for path, file_format in zip(arguments.files, formats, strict=True):
            with closing(read_rows(path, file_format, options.field_names)) as rows:
                next(rows, None)
        named = (arguments.old, arguments.namespace, "--old")
        async with nullcontext() if named[0] is None else other_index(options, *named) as old:
            dedup = Deduplicator(options)
            try:
                await dedup.open(warm=False)  # makes the index, or refuses the settings
            finally:
                await dedup.close()
            times = await _times(old, arguments.old)
        async with reading_index(options) as reader:
            sign, rebuilt = Signer(reader.fingerprinter, texts=False), Rebuilt()
            files = zip(arguments.files, formats, strict=True)
            every = (
                (path, row)
                for path, kind in files
                for row in read_rows(path, kind, options.field_names)
            )
            with context.progress("rows") as done:
                pages = _columns(_signed(every, sign, rebuilt, done), reader, times)
                imported = await enter_pages(
                    reader.index, pages, lambda content: content["key"] ^ content["exact"], _BLOCK
                )
            rebuilt.entered, rebuilt.known = imported.pages, imported.known
            rebuilt.sound = (await verify(reader.index)).is_sound
        context.say(attrs.asdict(rebuilt), lambda: _sentences(rebuilt, options))
        check_rejected(rebuilt.rejected, rebuilt.read, "the first reasons are above")
        return OK if rebuilt.sound else FOUND


def _signed(
    rows: Iterable[tuple[Path, Row]],
    sign: Signer,
    rebuilt: Rebuilt,
    progress: Callable[[float], None],
) -> Iterator[Fingerprint]:
    """Yield the fingerprints of rows, and count all rows."""
    for path, row in rows:
        signed = sign(row)
        rebuilt.read += 1
        progress(rebuilt.read)
        if signed.page is None:
            rebuilt.rejected += 1
            if len(rebuilt.reasons) < _SHOWN:
                rebuilt.reasons.append(f"{path}, row {row.number}: {signed.error}")
        elif signed.page.is_empty:
            rebuilt.empty += 1
        else:
            yield signed.page


async def _columns(
    pages: Iterator[Fingerprint], reader: Reader, times: Callable[[str], int]
) -> AsyncIterator[Pages]:
    """Yield pages in the form for :func:`.enter_pages`; ``times`` returns the time of a key."""
    # As entries, since the words of a long page take a thousand times as much memory.
    entries = ((reader.entry(page), times(page.key)) for page in pages)
    while part := list(islice(entries, _PART)):
        yield pages_of(*zip(*part, strict=True))


async def _times(old: Index | None, address: str) -> Callable[[str], int]:
    """Return a function from a key to the time of its newest page, seconds since 1970 or 0."""
    if old is None:
        return lambda _: 0
    seconds: dict[int, int] = {}
    hash_key = hash_key_of(await old.attach(), hide_password(address))
    async for pages in old.pages():
        stored = pages.states == State.COMMITTED
        keys, times = pages.content["key"][stored].tolist(), pages.times[stored].tolist()
        for key, time in zip(keys, times, strict=True):
            seconds[key] = max(time, seconds.get(key, 0))
    return lambda key: seconds.get(keyed_hash(key, hash_key), 0)


def _sentences(rebuilt: Rebuilt, options: Options) -> str:
    state = "whole." if rebuilt.sound else "damaged: `scrapy dedup verify` says where."
    head = (
        f"{rebuilt.read:,} rows: {rebuilt.entered:,} pages entered, {rebuilt.known:,} known, "
        f"{rebuilt.empty:,} without text, {rebuilt.rejected:,} rejected"
    )
    return "\n".join((head, *rebuilt.reasons, f"The index at {options.safe_index_url} is {state}"))


_LEASE = 30.0  # seconds


class Restore(Subcommand):
    summary = "Bring back dropped pages from the journal"
    description = (
        "Writes the dropped items as JSON lines, to be stored again: the newest drop of\n"
        "each key, with all fields but the raw HTML and values that JSON has no form for (their\n"
        "names are printed). The pages are entered into the index as stored, so that each is\n"
        "found under its own key when it comes again. The journal keeps them.\n"
        "Exit codes: 0; 1: nothing was found, or the journal, file or index can't be used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-o", "--output", required=True, metavar="FILE", help="a new file, or - for stdout"
        )
        add_selection(parser, journal=True)
        keys = "pages that the report exported as JSON, or one key a line"
        parser.add_argument("--keys", type=Path, metavar="FILE", help=keys)
        parser.add_argument("--all", action="store_true", help="everything that the journal holds")
        no_index = "do not enter them into the index as stored"
        parser.add_argument("--no-index", action="store_true", help=no_index)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        query = to_query(arguments)
        if query == Query() and not arguments.all and arguments.keys is None:
            raise DedupError(
                "choose pages: --key, --keys, --host, --since, --until, --reason, --spider, "
                "--crawl or --all"
            )
        if arguments.output != "-":
            check_output(Path(arguments.output))
        keys = None if arguments.keys is None else read_keys(arguments.keys)
        drops = newest(context.options, attrs.evolve(query, outcomes=DROPS), keys)
        if not drops:
            raise DedupError("the journal holds no such drop")
        left_out = Counter(name for drop in drops if drop.body for name in drop.body.left_out)
        data = b"".join(to_json(item_of(drop, context.options)) + b"\n" for drop in drops)
        entered = 0
        opened = nullcontext() if arguments.no_index else reading_index(context.options)
        async with opened as reader:  # before the file is written, as the index may not exist
            if arguments.output == "-":
                write_output(data)
            else:
                write_new(Path(arguments.output), data)
            if reader is not None:
                # After the file, since a page that the index calls stored must exist somewhere.
                with context.progress("entered into the index", len(drops)) as done:
                    for number, drop in enumerate(drops, 1):
                        entered += await enter(reader, drop)
                        done(number)
        lost = left_out_lines(left_out)
        if arguments.output == "-":
            for line in lost:
                print(shown(line), file=sys.stderr)
            return OK
        where = arguments.output
        sentence = f"Pages in {where}: {len(drops):,}; new to the index: {entered:,}."
        state = {"restored": len(drops), "entered": entered, "left_out": left_out}
        context.say({**state, "output": where}, lambda: "\n".join([sentence, *lost]))
        return OK


def read_keys(path: Path) -> frozenset[str]:
    """Read keys from a file: a JSON list of decisions or keys, or one key per line."""
    try:
        with os_errors(f"{path} can't be read"):
            text = path.read_text(encoding="utf-8-sig")
        if not text.strip():
            raise ValueError("it is empty")
        if not text.lstrip().startswith("["):
            return frozenset(filter(None, map(str.strip, text.split("\n"))))
        return frozenset(one if isinstance(one, str) else one["key"] for one in json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DedupError(
            f"{path} holds no keys: export the decisions of the report as JSON"
        ) from error


def newest(options: Options, query: Query, keys: frozenset[str] | None = None) -> list[Drop]:
    """Return the newest drop of each key, oldest first."""
    found: dict[str, Drop] = {}
    with open_journal(options) as journal:
        for drop in journal.drops(query, bodies=True):
            if keys is None or drop.key in keys:
                found.pop(drop.key, None)
                found[drop.key] = drop
    return list(found.values())


def item_of(drop: Drop, options: Options) -> dict[str, Any]:
    """Return the item of a drop, or its text if there was no item."""
    body = drop.body
    if body is not None and body.item is not None:
        item = dict(body.item)
        names = names_of(drop.item_type, options)
        if names.html in body.left_out and names.text and not item.get(names.text):
            # The words came from HTML, which the journal does not keep.
            item[names.text] = body.text
        return item
    return {
        options.key_field: drop.key,
        options.title_field: drop.title,
        options.text_field: "" if body is None else body.text,
    }


def names_of(item_type: str, options: Options) -> FieldNames:
    """Return the field names of an item by the name of its class; the journal has no path."""
    for one in options.items:
        name = one.path if isinstance(one.path, str) else one.path.__name__
        names = one.names(options.field_names)
        if names is not None and name.rpartition(".")[2] == item_type:
            return names
    return options.field_names


async def enter(reader: Reader, drop: Drop) -> bool:
    """Enter a page as stored, whatever is similar to it, unless the index has its key, or the page
    has no text or only a hash of its content as key. Return whether it was entered."""
    if drop.body is None or is_content_key(drop.key) or await reader.page_ids_of(drop.key):
        return False
    page = reader.fingerprinter(Document(drop.key, title=drop.title, text=drop.body.text))
    if page.is_empty:
        return False
    made = await reader.index.propose(reader.entry(page), 0, _LEASE, known=EVERYTHING)
    return isinstance(made, Claimed) and await reader.index.commit(made.claim)
