"""Watches a slot of Scrapy's feeds: the items it takes, its file, and whether the file is stored.

A slot writes one file; a feed in batches has one slot after the other.

A process that is killed while it writes, or a full disk, leaves a part of a row in a file on this
machine. A row appended to that part could not be read, although the index would call it stored, so
the next row begins on a new line.

Neither the signal that a slot is closed nor the task that closes it shows whether the file was
stored, and Scrapy's stats count by kind of storage. So the method ``store`` of each storage is
wrapped, only once if several slots share it, even slots of several crawls in one process. It
returns what it returned before, since other code may call it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary, WeakSet

from itemadapter import ItemAdapter
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import (
    BlockingFeedStorage,
    FeedSlot,
    FileFeedStorage,
    StdoutFeedStorage,
)
from scrapy.extensions.postprocessing import PostProcessingManager
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from dedup_middleware.base.settingfields import FieldNames
from dedup_middleware.plugin.notices import shown_place
from dedup_middleware.plugin.pagefields import field_value

logger = logging.getLogger(__name__)

_CUT_LINE = (
    "The feed %s ended within a line: a process was killed while it wrote, or the disk was full. "
    "That line can't be read; new items begin a line of their own"
)
_CUT_ROW = (
    "The feed %s ended within a row: a process was killed while it wrote, or the disk was full. If "
    "a quotation mark is open there, rows after it can't be read: end the crawl, remove the cut "
    "row from the file, and start again"
)
_OVERWRITTEN = (
    "Two crawls of this process, or two feeds, write to %s, and one overwrites it, which deletes "
    "the rows of the other, or compresses it, which makes them unreadable. What only this feed has "
    "does not count as stored; put %%(name)s into its name, or append uncompressed (-o)"
)
# Slots of first batches in this process that write to files on this machine, and their paths.
_here: WeakKeyDictionary[WatchedSlot, str] = WeakKeyDictionary()
_UNKNOWN = -1
_LINES = (CsvItemExporter, JsonLinesItemExporter)  # rows after a cut row can be read


class WatchedSlot:
    """A slot of the exporter, and what is known of its file.

    :ivar is_watched: whether failures to store it are noticed; False: ``store`` can't be replaced
    :ivar first: the slot of the first batch; itself, if there is none
    :ivar has_failed: it could not be stored
    :ivar is_stored: all items that it has taken are stored
    :ivar was_stored: its storage got its file, and did not fail
    """

    def __init__(self, slot: FeedSlot, first: WatchedSlot | None = None) -> None:
        self.slot, self.first = slot, first or self
        self.has_failed = self.is_stored = self.was_stored = False
        self._is_shared = False  # two feeds write to its file, and one of them destroys rows
        self._count = 0  # items that it had taken at the last check
        self._end: int | None = _UNKNOWN  # position in its file at that check
        self._is_collecting = False  # it has taken an item without writing it
        self.is_watched = self._watch_storage()
        kind = slot.exporters.get(slot.format)
        self._has_lines = isinstance(kind, type) and issubclass(kind, _LINES)
        if self._is_cuttable or isinstance(slot.storage, StdoutFeedStorage):
            self._watch_writes()

    def has_taken(self) -> bool:
        """Whether the slot has taken an item since the last call; if so, call :meth:`flush`. If it
        has written but counted no item, it failed with one, and :meth:`begin_row` is called."""
        before, self._count = self._count, self.slot.itemcount
        if self._count != before:
            self.is_stored = False
            return True
        if self._end_of_file() != self._end:
            self.begin_row()
        return False

    def begin_row(self) -> None:
        """End a cut line in a file of JSON lines or CSV, so that the next row begins a line. Called
        before the slot opens its file, and when it may have failed with an item."""
        try:
            self._end_line()
        except Exception:  # Scrapy logs it when it writes; or a class is the user's own
            return
        finally:
            self._end = self._end_of_file()

    def share_file(self) -> None:
        """Count this slot and others that write to the same file as lost, with their later batches,
        if one of them overwrites or compresses it. Call it for slots of first batches."""
        storage = self.slot.storage
        if not isinstance(storage, FileFeedStorage) or not hasattr(storage, "path"):
            return
        path = os.path.realpath(storage.path)
        if os.path.lexists(path) and not Path(path).is_file():  # a pipe
            return
        sharing = [*(one for one, other in _here.items() if other == path), self]
        _here[self] = path
        if len(sharing) > 1 and any(one._spoils for one in sharing):
            for one in sharing:
                one._is_shared = True
            logger.error(_OVERWRITTEN, shown_place(self.slot.uri))

    def leave_file(self) -> None:
        """Stop comparing its path with those of other crawls, because its crawl has ended."""
        _here.pop(self, None)

    @property
    def is_lost(self) -> bool:
        """Whether its items are not stored, or another feed destroys their rows."""
        return self.has_failed or self.first._is_shared

    @property
    def _spoils(self) -> bool:
        return self._is_packed or getattr(self.slot.storage, "write_mode", None) == "wb"

    def flush(self) -> str | None:
        """Flush a file on this machine; returns the reason if that fails, else None.

        The index calls the page stored from then on, but the process may be killed. The rows of a
        feed for elsewhere then remain in a temporary file; a user's own storage may keep less.
        """
        slot = self.slot
        try:
            is_here = isinstance(
                slot.storage, (FileFeedStorage, StdoutFeedStorage, BlockingFeedStorage)
            )
            file = slot.file if is_here else None
            # The file of a full batch may be closed.
            if file is not None and hasattr(file, "flush") and not getattr(file, "closed", False):
                file.flush()
        except Exception as error:  # it may have been closed meanwhile
            self.has_failed |= isinstance(error, BrokenPipeError)
            return f"the file of a feed can't be written ({error})"
        finally:
            before, self._end = self._end, self._end_of_file()
            # An exporter of lines that has written nothing leaves the item out.
            is_written = before is None or self._end != before or self._has_lines
            self._is_collecting |= not is_written
        return None

    def leaves_out_text(self, item: Any, names: FieldNames) -> bool:
        """Whether the columns of a CSV feed are the fields of its first item, without one for text
        or HTML of this item. False if the user chose the columns."""
        exporter: Any = self.slot.exporter
        if not getattr(exporter, "_autodetected_fields", False):  # set by Scrapy
            return False
        adapter, columns = ItemAdapter(item), set(exporter.fields_to_export)
        values = {name: field_value(adapter, name) for name in (names.text, names.html)}
        # Only of these types, since an array is neither true nor false.
        kinds = str, bytes, list, tuple
        filled = {name for name, one in values.items() if isinstance(one, kinds) and one}
        return bool(filled) and not filled & columns

    @property
    def is_late(self) -> bool:
        """Whether items are stored only when the slot ends, as far as that is known by now."""
        is_here = isinstance(self.slot.storage, (FileFeedStorage, StdoutFeedStorage))
        return self._is_packed or self._is_collecting or not is_here

    @property
    def _is_packed(self) -> bool:
        return bool(self.slot.feed_options.get("postprocessing"))

    @property
    def _is_cuttable(self) -> bool:
        return self._is_packed or not self._has_lines

    def _end_of_file(self) -> int | None:
        """Position in the open file; None if there is no file or it has no position."""
        try:
            return None if self.slot.file is None else self.slot.file.tell()
        except Exception:  # a pipe, a compressed file, or a user's own class
            return None

    def _end_line(self) -> None:
        slot, path = self.slot, _path_of(self.slot)
        if path is None:
            return
        if slot.file is not None:
            slot.file.flush()  # the buffer holds the rest of the row
        if not _ends_within_line(path):
            return
        if slot.file is not None:
            slot.file.write(b"\n")  # stays in the buffer for as long as the disk is full
        else:
            with path.open("ab") as file:
                file.write(b"\n")
        is_csv = slot.exporters[slot.format] is CsvItemExporter
        logger.warning(_CUT_ROW if is_csv else _CUT_LINE, shown_place(slot.uri))

    def _watch_storage(self) -> bool:
        storage: Any = self.slot.storage
        try:
            store = storage.store
            if not isinstance(store, _Store):
                store = _Store(store)
                storage.store = store
            store.awaited.add(self)
        except Exception:  # a user's own class may raise anything
            return False
        return True

    def _watch_writes(self) -> None:
        """Notice a write that fails halfway, in a file that can't be read past the missing piece:
        the disk may be full, or a field can't be written to XML. A compressed file is lost then,
        with the rows of other items, and so is everything after a cut row of pickles, JSON or XML.
        If a pipe broke (`| head`), it is unknown which rows were read.
        """
        slot, start = self.slot, self.slot.start_exporting

        def start_exporting() -> None:
            start()  # makes the exporter
            slot.start_exporting = start  # type: ignore[method-assign]
            exporter: Any = slot.exporter
            export = exporter.export_item

            def export_item(item: Any) -> None:
                begins = self._end_of_file()
                try:
                    export(item)
                except Exception as error:
                    # An error with a file name is about a file that was opened for the item.
                    is_cut = isinstance(error, OSError) and error.filename is None
                    if self._is_cuttable or isinstance(error, BrokenPipeError):
                        self.has_failed |= is_cut or self._end_of_file() != begins
                    raise

            with contextlib.suppress(Exception):  # a user's own class may refuse it
                exporter.export_item = export_item

        slot.start_exporting = start_exporting  # type: ignore[method-assign]


def _path_of(slot: FeedSlot) -> Path | None:
    """The slot's file on this machine if its rows end with a line feed, else None."""
    options, kind = slot.feed_options, slot.exporters[slot.format]
    has_own_ends = "lineterminator" in options["item_export_kwargs"]
    is_csv = kind is CsvItemExporter and not has_own_ends
    if not is_csv and not issubclass(kind, JsonLinesItemExporter):
        return None
    if options.get("postprocessing") or "\n".encode(options["encoding"] or "utf-8") != b"\n":
        return None
    if slot.file is not None:  # a temporary file in a feed for elsewhere
        name = slot.file.name
        # A user's own file may compress what is written: its last byte need not be that of a row.
        is_plain = isinstance(getattr(slot.file, "raw", slot.file), io.FileIO)
        return Path(name) if is_plain and isinstance(name, str) else None
    storage = slot.storage
    if isinstance(storage, FileFeedStorage) and storage.write_mode == "ab":
        opens_plain = type(storage).open is FileFeedStorage.open
        return Path(storage.path) if opens_plain else None
    return None


def _ends_within_line(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


class _Store:
    """Replaces the method ``store`` of a storage, and notes its result in the slots."""

    def __init__(self, store: Callable[[IO[bytes]], Any]) -> None:
        self._store = store
        # Slots that are not stored yet. Slots without items never are.
        self.awaited: WeakSet[WatchedSlot] = WeakSet()

    def __call__(self, file: IO[bytes]) -> Any:
        """Store a file; called by Scrapy, and by anything else that calls the storage's method."""
        waiting = list(self.awaited)
        own = [one for one in waiting if _file_of(one.slot) is file]
        for one in own:  # noted once, even if the storage's own method calls this one
            self.awaited.discard(one)
        slots = own or waiting
        try:
            result = self._store(file)
        except BaseException:
            _note(slots, failed=True)
            raise
        if isinstance(result, Deferred):
            return result.addBoth(_ended, slots)
        if inspect.isawaitable(result):
            return _awaited(result, slots)
        _note(slots, failed=False)
        return result


def _file_of(slot: FeedSlot) -> IO[bytes] | None:
    file = slot.file
    return file.file if isinstance(file, PostProcessingManager) else file


def _note(slots: Sequence[WatchedSlot], *, failed: bool) -> None:
    for one in slots:
        one.has_failed |= failed
        one.was_stored |= not failed


def _ended(result: Any, slots: Sequence[WatchedSlot]) -> Any:
    _note(slots, failed=isinstance(result, Failure))
    return result


async def _awaited(reply: Awaitable[Any], slots: Sequence[WatchedSlot]) -> Any:
    try:
        result = await reply
    except BaseException:
        _note(slots, failed=True)
        raise
    _note(slots, failed=False)
    return result
