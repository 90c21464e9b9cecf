"""What a run writes: kept, dropped and rejected rows, a journal, clusters; all or nothing."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from dedup_middleware.base.newfiles import make_anew
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.journal.base import kept_name
from dedup_middleware.journal.clusters import Clusters, encoder, write_clusters
from dedup_middleware.journal.entries import (
    DROPPED,
    HOUR,
    SEEN,
    STORED,
    Drop,
    Kept,
    host_of,
    plain_item,
)
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.journal.writer import make_drop, make_kept, make_notes
from dedup_middleware.model.documents import DUPLICATE, Document, Verdict, as_dict
from dedup_middleware.text.decode import decode
from dedup_middleware.tools.files.rows import BatchError, Row
from dedup_middleware.tools.files.signing import Signed, fields_of

#: what the name of a file ends in until the run is complete
PART = ".part"
_RAW = 1000  # characters of a rejected row that are shown
_BATCH = 1000  # entries of the journal in one transaction


class Output:
    """A file under a provisional name, until the run is complete.

    :raises BatchError: it can't be written
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + PART)
        self.rows = 0
        try:
            raw = make_anew(self._part)
        except OSError as error:
            raise BatchError(f"{path} can't be written: {error.strerror or error}") from error
        packed = path.name.lower().endswith(".gz")
        # No time and no name in its head: equal runs give equal files.
        self._raw: BinaryIO = raw
        self._file: BinaryIO = (
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw  # type: ignore[assignment]
        )

    def write(self, line: bytes) -> None:
        """One more line."""
        self.rows += 1
        try:
            self._file.write(line)
            self._file.write(b"\n")
        except OSError as error:
            raise self._failure(error) from error

    def finish(self, *, keep_empty: bool = True) -> None:
        """Give the file its name; without it the next run begins anew."""
        self.close()
        if self.rows or keep_empty:
            self._part.replace(self._path)
        else:
            self._part.unlink()
            self._path.unlink(missing_ok=True)  # that of an earlier run

    def close(self) -> None:
        """Close the file, complete or not."""
        try:
            self._file.close()
        except OSError as error:
            raise self._failure(error) from error
        finally:
            with contextlib.suppress(OSError):
                self._raw.close()

    def _failure(self, error: OSError) -> BatchError:
        return BatchError(f"{self._path} can't be written: {error.strerror or error}")


class JournalOutput:
    """A journal of its own for a run, complete or absent."""

    def __init__(self, path: Path, options: Options) -> None:
        self._path = path
        self._part = path.with_name(path.name + PART)
        self._options = options
        for ending in ("", "-wal", "-shm"):
            Path(f"{self._part}{ending}").unlink(missing_ok=True)
        self._journal = SQLiteJournal(self._part, max_bytes=options.journal_max_bytes)
        self._journal.open(create=True)
        self._drops: list[Drop] = []
        self._kept: list[Kept] = []
        self._activity: dict[tuple[int, str, str], int] = {}

    def dropped(self, row: Row, signed: Signed, verdict: Verdict, time: float) -> None:
        """A row was dropped."""
        document = _document(signed)
        self._drops.append(
            make_drop(verdict, document, fields_of(row), self._options.html_field, time)
        )
        self._count(signed.key, time, f"{DROPPED}{verdict.reason}")

    def kept(self, signed: Signed, verdict: Verdict, time: float) -> None:
        """A row was kept."""
        page = make_kept(verdict, self._options, time) if self._options.journal_keep_texts else None
        if page is not None:
            self._kept.append(page)
        self._drops += make_notes(verdict, _document(signed), self._options, time)
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

    def finish(self) -> None:
        """Write what is left and give the file its name."""
        self._flush()
        self.close()
        for ending in ("-wal", "-shm"):  # of an earlier file of this name
            Path(f"{self._path}{ending}").unlink(missing_ok=True)
        self._part.replace(self._path)

    def close(self) -> None:
        """Close the file, complete or not."""
        self._journal.close()


class ClusterOutput:
    """The clusters of a run, in a file of the formats of ``scrapy dedup clusters``.

    :param near: with near misses
    :raises ClusterFileError: there is no format for the name of the file
    """

    def __init__(self, path: Path, options: Options, *, near: bool) -> None:
        encoder(path)
        self._path = path
        self._options = attrs.evolve(options, journal_keep_texts=False)
        self._clusters = Clusters(near=near)
        self._unnamed: list[Drop] = []  # the verdict has the page id of the stored page alone

    def decided(self, signed: Signed, verdict: Verdict, time: float) -> None:
        """A row was kept or dropped."""
        document = Document(signed.key, title=signed.title, text="")
        entries = make_notes(verdict, document, self._options, time)
        if verdict.outcome == DUPLICATE:
            entries.append(make_drop(verdict, document, None, None, time))
        for entry in filter(self._clusters.takes, entries):
            if entry.match is None:
                self._unnamed.append(entry)
            else:
                self._clusters.add(entry, entry.match)

    async def finish(self, index: Index) -> None:
        """Write the file."""
        numbers = [entry.number for entry in self._unnamed if entry.number is not None]
        names = await index.addresses(numbers)
        for entry, name in zip(self._unnamed, names, strict=True):
            self._clusters.add(entry, kept_name(name, entry.number))
        write_clusters(self._clusters.all(), self._path, replace=True)


def _document(signed: Signed) -> Document:
    return Document(signed.key, title=signed.title, text=signed.text or "")


def kept_line(row: Row, signed: Signed, options: Options) -> bytes:
    """A kept row: a line of JSON as it was, or the fields as one."""
    if isinstance(row.raw, bytes):
        return row.raw
    return _line(_plain(row.raw, signed, options))


def dropped_line(row: Row, signed: Signed, verdict: Verdict, options: Options) -> bytes:
    """A dropped row, with the verdict in the field ``DEDUP_MARK_FIELD``."""
    fields = _plain(fields_of(row), signed, options)
    return _line({**fields, options.mark_field: as_dict(verdict)})


def rejected_line(path: Path, row: Row, error: str) -> bytes:
    """A row that could not be read, where it is, and why."""
    raw = row.raw.decode("utf-8", "replace") if isinstance(row.raw, bytes) else repr(row.raw)
    return _line({"file": str(path), "row": row.number, "error": error, "raw": raw[:_RAW]})


def _plain(raw: dict[str, Any], signed: Signed, options: Options) -> dict[str, Any]:
    """Fields as JSON values; the text of a page takes the place of its bytes."""
    fields, _ = plain_item(raw)
    html = raw.get(options.html_field)
    if isinstance(html, bytes) and not signed.text and not fields.get(options.text_field):
        # No text was found in it: without it nothing would be left of the page.
        named = raw.get(options.charset_field)
        charset = named if isinstance(named, str) else None
        fields[options.html_field] = decode(html, charset).text
    if options.fill_text and signed.text and not fields.get(options.text_field):
        fields[options.text_field] = signed.text
    if options.fill_text and signed.title and not fields.get(options.title_field):
        fields[options.title_field] = signed.title
    return fields


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace")
