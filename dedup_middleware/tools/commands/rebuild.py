"""``scrapy dedup rebuild``: a new index, with the settings of now, of pages that are stored."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import hide_password
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.verification import verify
from dedup_middleware.methods.base import Method, content_bytes
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key, keyed_hash
from dedup_middleware.model.records import State
from dedup_middleware.tools.commands.asking import (
    Reader,
    hash_key_of,
    other_index,
    reading_index,
)
from dedup_middleware.tools.commands.context import (
    FOUND,
    OK,
    CommandError,
    Context,
    Subcommand,
    check_stays,
)
from dedup_middleware.tools.files.rows import FORMATS, BatchError, format_of, read_rows
from dedup_middleware.tools.files.signing import Signer

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


class Command(Subcommand):
    """Enters stored pages into an index that no crawl uses yet."""

    name = "rebuild"
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
        """Declare the arguments of the command."""
        parser.add_argument("files", nargs="+", metavar="FILE", type=Path)
        parser.add_argument("--format", choices=FORMATS, help="default: by the file's ending")
        parser.add_argument(
            "--old", metavar="ADDRESS", help="the old index, from which pages keep their times"
        )
        parser.add_argument(
            "--namespace", help="of the old index, if it is in Redis (default: DEDUP_NAMESPACE)"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        options = context.options
        check_stays(options)
        formats = [format_of(path, arguments.format) for path in arguments.files]
        for path in arguments.files:
            if not path.is_file():
                raise BatchError(f"{path} is no file")
        dedup = Deduplicator(options)
        try:
            await dedup.open(warm=False)  # makes the index, or refuses it
        finally:
            await dedup.close()
        rebuilt = Rebuilt()
        times = await _times(arguments.old, arguments.namespace, options)
        async with reading_index(options) as reader:
            with context.progress("rows") as done:
                entering = Entering(reader, options, rebuilt, await _known(reader), times)
                for path, file_format in zip(arguments.files, formats, strict=True):
                    for row in read_rows(path, file_format):
                        await entering.take(entering.sign(row), f"{path}, row {row.number}")
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
        self,
        reader: Reader,
        options: Options,
        rebuilt: Rebuilt,
        known: set[tuple[int, int]],
        times: Times,
    ) -> None:
        self.sign = Signer(options, reader.fingerprinter.hash_key, texts=False)
        self._index = reader.index
        self._method = reader.method
        self._keeps_address = options.keep_address
        self._rebuilt = rebuilt
        self._known = known
        self._times = times
        self._waiting: list[Entry] = []
        self._stored: list[int] = []  # time of each, 0: now

    async def take(self, signed: Any, place: str) -> None:
        """Count a row, and enter its page soon.

        :param signed: a :class:`.Signed`
        :param place: where the row is, for people
        """
        rebuilt, page = self._rebuilt, signed.page
        rebuilt.read += 1
        if page is None:
            rebuilt.rejected += 1
            if len(rebuilt.reasons) < _SHOWN:
                rebuilt.reasons.append(f"{place}: {signed.error}")
        elif page.is_empty:
            rebuilt.empty += 1
        elif (page.key_hash, page.exact) in self._known:
            rebuilt.known += 1
        else:
            self._known.add((page.key_hash, page.exact))
            self._waiting.append(_entry(page, self._method, keeps_address=self._keeps_address))
            self._stored.append(self._times.of(page.key))
            if len(self._waiting) >= _BLOCK:
                await self.flush()

    async def flush(self) -> None:
        """Enter the pages that wait."""
        waiting, self._waiting = self._waiting, []
        stored, self._stored = self._stored, []
        if waiting:
            self._rebuilt.entered += await self._index.load(pages_of(waiting, stored))


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
    async with other_index(address, namespace, options) as index:
        hash_key = hash_key_of(await index.attach(), hide_password(address))
        async for pages in index.pages():
            stored = pages.states == State.COMMITTED
            keys, times = pages.content["key"][stored].tolist(), pages.times[stored].tolist()
            for key, time in zip(keys, times, strict=True):
                seconds[key] = max(time, seconds.get(key, 0))
    return Times(hash_key, seconds)


def _entry(page: Fingerprint, method: Method, *, keeps_address: bool) -> Entry:
    address = page.key if keeps_address and not is_content_key(page.key) else None
    content = content_bytes(page, sketched=method.keeps_sketch)
    return Entry(method.bucket_keys(page), content, address, page.payload)


async def _known(reader: Reader) -> set[tuple[int, int]]:
    """Key and exact text of all stored pages, as hashes."""
    known: set[tuple[int, int]] = set()
    async for pages in reader.index.pages():
        content = pages.content[pages.states == State.COMMITTED]
        known.update(zip(content["key"].tolist(), content["exact"].tolist(), strict=True))
    return known


def _sentences(rebuilt: Rebuilt, options: Options) -> str:
    lines: Sequence[str] = (
        f"{rebuilt.read:,} rows: {rebuilt.entered:,} pages entered, {rebuilt.known:,} known, "
        f"{rebuilt.empty:,} without text, {rebuilt.rejected:,} rejected",
        *rebuilt.reasons,
        f"The index at {options.safe_index_url} is "
        + ("whole." if rebuilt.sound else "damaged: `scrapy dedup verify` says where."),
    )
    return "\n".join(lines)
