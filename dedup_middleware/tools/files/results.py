"""Output files of a run: kept, dropped and rejected rows, journal and clusters; all or none."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from dedup_middleware.base.errors import os_errors
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import PRIVATE, SHARED, lock, make, to_json
from dedup_middleware.index.base import Index
from dedup_middleware.journal.clusters import Clusters, encoder
from dedup_middleware.journal.entries import (
    DROPPED,
    HOUR,
    SEEN,
    STORED,
    Drop,
    Kept,
    host_of,
    kept_name,
    plain_item,
)
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.journal.writer import make_drop, make_kept, make_notes
from dedup_middleware.model.documents import DUPLICATE, Verdict, as_dict
from dedup_middleware.plugin.pagefields import as_text
from dedup_middleware.text.decode import decode
from dedup_middleware.tools.files.rows import BatchError, Row
from dedup_middleware.tools.files.signing import Signed, coded, fields_of

#: suffix of a file's name until the run is complete
PART = ".part"
_BATCH = 1000  # journal entries in one transaction


class Output:
    """A file with a provisional name, locked by this run, that gets its real name at the end.

    :param keeps_empty: whether a file without rows gets its name
    :param replaces: also replace a file of this name that appears during the run
    """

    mode = SHARED  # permissions, before the umask
    packs = True  # whether to gzip a file whose name ends in `.gz`
    side_endings: tuple[str, ...] = ()  # of other files that belong to this one

    def __init__(self, path: Path, *, keeps_empty: bool = True, replaces: bool = False) -> None:
        self._path = path
        self.part = path.with_name(path.name + PART)
        self._keeps_empty = keeps_empty
        self._replaces = replaces or os.path.lexists(path)
        self.rows = 0
        with self._writing():
            is_free = _is_free(self.part)
            if is_free:
                self.part.unlink(missing_ok=True)  # left by an earlier run
                raw = make(self.part, self.mode)
                is_free = lock(raw.fileno())
        if not is_free:
            raise BatchError(
                f"another run is writing {path}: wait until it ends, or name another file"
            )
        packed = self.packs and path.name.lower().endswith(".gz")
        # No time or name in the gzip header: equal runs write equal files.
        self._raw: BinaryIO = raw
        self._file: BinaryIO = (
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw  # type: ignore[assignment]
        )

    def write(self, line: bytes) -> None:
        """Write one row."""
        self.rows += 1
        self.write_raw(line + b"\n")

    def write_raw(self, data: bytes) -> None:
        """Write raw bytes."""
        with self._writing():
            self._file.write(data)

    def complete(self) -> None:
        """Write everything to disk; only the rename is left."""
        with self._writing():
            if self._file is not self._raw:
                self._file.close()  # writes the end of the gzip stream
            self._raw.flush()
            os.fsync(self._raw.fileno())

    def check_name(self) -> None:
        """Raise if another run has replaced the provisional file, or a file of the final name has
        appeared during the run."""
        with self._writing():
            # If two runs start at once, neither has found the other's file.
            if not os.path.samestat(os.fstat(self._raw.fileno()), self.part.stat()):
                raise FileExistsError(f"another run has replaced {self.part}")
            if not self._replaces and self._gets_its_name and os.path.lexists(self._path):
                raise FileExistsError(
                    "a file of this name has appeared; what this run has written is complete "
                    f"under the names that end in {PART}: rename them, or start again"
                )

    def finish(self) -> None:
        """Give the complete file its name. The next run deletes a file that did not get it."""
        self.check_name()
        with self._writing():
            if self._gets_its_name:
                for ending in self.side_endings:  # left by an earlier file of this name
                    Path(f"{self._path}{ending}").unlink(missing_ok=True)
                self.part.replace(self._path)
            else:
                self.part.unlink()
                if self._replaces:
                    self._path.unlink(missing_ok=True)  # the file of an earlier run
        self.close()

    @property
    def _gets_its_name(self) -> bool:
        return self._keeps_empty or self.rows > 0

    def close(self) -> None:
        """Close the file, complete or not."""
        for file in (self._file, self._raw):
            with contextlib.suppress(OSError):
                file.close()

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return os_errors(f"{self._path} can't be written", BatchError)


def _is_free(part: Path) -> bool:
    """Whether no running process holds the lock of a provisional file."""
    try:
        there = os.open(part, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True  # it does not exist or can't be opened
    try:
        return lock(there)
    finally:
        os.close(there)


class JournalOutput(Output):
    """The journal of a run, complete or absent."""

    mode = PRIVATE
    packs = False  # SQLite opens the file by its name
    side_endings = ("-wal", "-shm", "-journal")  # SQLite's companion files

    def __init__(self, path: Path, options: Options, *, replaces: bool = False) -> None:
        super().__init__(path, replaces=replaces)
        self._options = options
        for ending in self.side_endings:
            Path(f"{self.part}{ending}").unlink(missing_ok=True)
        self._journal = SQLiteJournal(self.part, max_bytes=options.journal_max_bytes)
        self._journal.open(create=True)
        self._drops: list[Drop] = []
        self._kept: list[Kept] = []
        self._activity: dict[tuple[int, str, str], int] = {}

    def dropped(self, row: Row, signed: Signed, verdict: Verdict, time: float) -> None:
        """Record a dropped row."""
        fields, html_field = fields_of(row), self._options.html_field
        self._drops.append(make_drop(verdict, signed.document, fields, html_field, time))
        self._count(signed.key, time, f"{DROPPED}{verdict.reason}")

    def kept(self, signed: Signed, verdict: Verdict, time: float) -> None:
        """Record a kept row."""
        page = make_kept(verdict, self._options, time)
        if page is not None:
            self._kept.append(page)
        self._drops += make_notes(verdict, signed.document, self._options, time)
        self._count(signed.key, time, STORED)

    def _count(self, key: str, time: float, name: str) -> None:
        host = host_of(key)
        for counter in (SEEN, name):
            place = (int(time) // HOUR * HOUR, host, counter)
            self._activity[place] = self._activity.get(place, 0) + 1
        if len(self._drops) + len(self._kept) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._journal.append(self._drops, self._kept, self._activity)
        self._drops, self._kept, self._activity = [], [], {}

    def complete(self) -> None:
        """Write pending entries; only the rename is left."""
        self._flush()
        self._journal.close()
        log = Path(f"{self.part}{self.side_endings[0]}")
        # SQLite does not report entries that it could not move into the file.
        if log.exists():
            what = f"entries are left in {log}, as on a full disk"
            raise BatchError(f"{self._path} can't be written: {what}")
        super().complete()

    def close(self) -> None:
        """Close the file, complete or not."""
        self._journal.close()
        super().close()


class ClusterOutput(Output):
    """The clusters of a run, in a format of ``scrapy dedup clusters``."""

    def __init__(self, path: Path, options: Options, *, near: bool, replaces: bool = False) -> None:
        self._encode = encoder(path)
        super().__init__(path, replaces=replaces)
        self._options = attrs.evolve(options, journal_keep_texts=False)
        self._clusters = Clusters(near=near)
        self._unnamed: list[Drop] = []  # drops with only the page id of their match

    def decided(self, signed: Signed, verdict: Verdict, time: float) -> None:
        """Record a kept or dropped row."""
        document = attrs.evolve(signed.document, text="")
        entries = make_notes(verdict, document, self._options, time)
        if verdict.outcome == DUPLICATE:
            entries.append(make_drop(verdict, document, None, None, time))
        for entry in filter(self._clusters.takes, entries):
            if entry.match is None:
                self._unnamed.append(entry)
            else:
                self._clusters.add(entry, entry.match)

    async def gather(self, index: Index) -> None:
        """Write the clusters; the index supplies the keys of stored pages."""
        numbers = [entry.number for entry in self._unnamed if entry.number is not None]
        names = await index.addresses(numbers)
        for entry, name in zip(self._unnamed, names, strict=True):
            self._clusters.add(entry, kept_name(name, entry.number))
        self.write_raw(self._encode(list(self._clusters.all())))


class Lines:
    """Formats rows as lines of JSON."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.left_out: Counter[str] = Counter()  # rows by name of a field that JSON can't hold

    def kept(self, row: Row, signed: Signed) -> bytes:
        """Return a kept row: its line of JSON unchanged, or its fields as JSON."""
        if isinstance(row.raw, bytes):
            return row.raw
        return to_json(self._plain(row.raw, signed))

    def dropped(self, row: Row, signed: Signed, verdict: Verdict) -> bytes:
        """Return a dropped row, with the verdict in the field ``DEDUP_MARK_FIELD``."""
        fields, mark = self._plain(fields_of(row), signed), self._options.mark_field
        self.left_out.update({mark} & fields.keys())
        return to_json({**fields, mark: as_dict(verdict)})

    def _plain(self, raw: dict[str, Any], signed: Signed) -> dict[str, Any]:
        """Convert fields to JSON values; HTML given as bytes is replaced by the page's text."""
        options = self._options
        fields, left_out = plain_item(raw)
        for name in {*left_out}.intersection(coded(options)):
            if (text := as_text(raw[name])) is not raw[name]:
                fields[name] = text
                left_out = tuple(other for other in left_out if other != name)
        filled = (options.text_field, signed.text), (options.title_field, signed.title)
        for name, value in filled if options.fill_text else ():
            if value and not fields.get(name):
                fields[name] = value
        html = raw.get(options.html_field)
        if isinstance(html, bytes):
            if not any(map(str.isalnum, str(fields.get(options.text_field) or ""))):
                # Without the HTML nothing would be left of the page.
                named = raw.get(options.charset_field)
                charset = named if isinstance(named, str) else None
                fields[options.html_field] = decode(html, charset).text
            left_out = tuple(name for name in left_out if name != options.html_field)
        self.left_out.update(left_out)
        return fields
