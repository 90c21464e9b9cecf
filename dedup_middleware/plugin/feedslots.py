"""One slot of Scrapy's feeds: what it takes, what is in its file, and whether it is stored.

A slot writes one file; a feed in batches has one slot after the other.

A process that is killed while it writes leaves a part of a row in a file on this machine, and so
does a full disk. What is written behind it could not be read, although the index would call it
stored. So what follows begins a line of its own.

Neither the signal of a slot's end nor its task says whether it could be stored, and Scrapy counts
by kind of storage. So the method ``store`` of each storage is wrapped. A Deferred stays one, and
None stays None, since others may call it, too. A storage may be that of several slots, also of
several crawls in one process, and is wrapped once.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import BlockingFeedStorage, FileFeedStorage, StdoutFeedStorage
from scrapy.extensions.postprocessing import PostProcessingManager
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from dedup_middleware.plugin.notices import shown_place

if TYPE_CHECKING:
    from scrapy.extensions.feedexport import FeedSlot

logger = logging.getLogger(__name__)

_CUT_LINE = (
    "The feed %s ended within a line: a process was killed while it wrote, or the disk was full. "
    "That line can't be read; new items begin a line of their own"
)
_CUT_ROW = (
    "The feed %s ended within a row: a process was killed while it wrote, or the disk was full. If "
    "a quotation mark is open there, rows behind it can't be read: end the crawl, remove the cut "
    "row from the file, and start again"
)
_UNKNOWN = -1
_LINES = (CsvItemExporter, JsonLinesItemExporter)  # what they write can be read behind a cut row


class WatchedSlot:
    """A slot, from when the exporter has it.

    :ivar is_watched: whether it is noticed if it can't be stored; no: its storage takes no
        attribute
    :ivar has_failed: it could not be stored
    :ivar is_stored: all that it has taken is stored
    :ivar was_stored: its storage got its file, and did not fail
    """

    def __init__(self, slot: FeedSlot) -> None:
        self.slot = slot
        self.has_failed = self.is_stored = self.was_stored = False
        self._count = 0  # items that it had taken when it was last looked at
        self._end: int | None = _UNKNOWN  # where its file ended then
        self._is_collecting = False  # it has taken an item, and written nothing
        self.is_watched = self._watch_storage()
        kind = slot.exporters.get(slot.format)
        self._has_lines = isinstance(kind, type) and issubclass(kind, _LINES)
        if self._is_packed or not self._has_lines:
            self._watch_writes()

    def has_taken(self) -> bool:
        """Whether it has taken an item since the last call; :meth:`flush` it then.

        One that has written without taking the item has failed with it.
        """
        before, self._count = self._count, self.slot.itemcount
        if self._count != before:
            self.is_stored = False
            return True
        if self._end_of_file() != self._end:
            self.begin_row()
        return False

    def begin_row(self) -> None:
        """Let what a slot of JSON lines or CSV writes next begin a line.

        Call it before the slot opens its file, and when it may have failed with an item.
        """
        try:
            self._end_line()
        except Exception:  # Scrapy says so when it writes; or a part is the user's own
            return
        finally:
            self._end = self._end_of_file()

    def flush(self) -> str | None:
        """Write what a file here still holds in memory; why not, if that fails.

        The page is called stored then, and the process may be killed. A feed for elsewhere is in a
        temporary file until then, which stays; of one of the user's own less may be there.
        """
        slot = self.slot
        try:
            is_here = isinstance(
                slot.storage, (FileFeedStorage, StdoutFeedStorage, BlockingFeedStorage)
            )
            file = slot.file if is_here else None
            # That of a full batch may be closed.
            if file is not None and hasattr(file, "flush") and not getattr(file, "closed", False):
                file.flush()
        except Exception as error:  # it is closed meanwhile, say
            return f"the file of a feed can't be written ({error})"
        finally:
            before, self._end = self._end, self._end_of_file()
            # An exporter of lines that writes nothing has left the item out.
            is_written = before is None or self._end != before or self._has_lines
            self._is_collecting |= not is_written
        return None

    @property
    def is_late(self) -> bool:
        """Whether what it takes is stored at its end only, as far as that is known by now."""
        is_here = isinstance(self.slot.storage, (FileFeedStorage, StdoutFeedStorage))
        return self._is_packed or self._is_collecting or not is_here

    @property
    def _is_packed(self) -> bool:
        return bool(self.slot.feed_options.get("postprocessing"))

    def _end_of_file(self) -> int | None:
        """Where what it has written ends in its open file; None: there is none, or it can't say."""
        try:
            return None if self.slot.file is None else self.slot.file.tell()
        except Exception:  # a pipe, or one of the user's own; one that is packed
            return None

    def _end_line(self) -> None:
        slot, path = self.slot, _path_of(self.slot)
        if path is None:
            return
        if slot.file is not None:
            slot.file.flush()  # what the buffer holds is the rest of the row
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
        except Exception:  # a class of the user's own may refuse with any error
            return False
        return True

    def _watch_writes(self) -> None:
        """Note if a piece is missing in a file that can't be read behind it, because the disk is
        full, or a field can't be written to XML.

        What is packed is lost with a piece of it, rows of other items too, and so is what follows
        a cut row of pickles, JSON or XML. Where an item fails before it writes, nothing is missing.
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
                    # With a name it is of a file that is opened for the item.
                    is_cut = isinstance(error, OSError) and error.filename is None
                    self.has_failed |= is_cut or self._end_of_file() != begins
                    raise

            with contextlib.suppress(Exception):  # of a class of the user's own, which may refuse
                exporter.export_item = export_item

        slot.start_exporting = start_exporting  # type: ignore[method-assign]


def _path_of(slot: FeedSlot) -> Path | None:
    """The file on this machine whose rows end with a line feed; None: there is none."""
    options, kind = slot.feed_options, slot.exporters[slot.format]
    has_own_ends = "lineterminator" in options["item_export_kwargs"]
    is_csv = kind is CsvItemExporter and not has_own_ends
    if not is_csv and not issubclass(kind, JsonLinesItemExporter):
        return None
    if options.get("postprocessing") or "\n".encode(options["encoding"] or "utf-8") != b"\n":
        return None
    if slot.file is not None:  # for elsewhere it is a temporary one
        name = slot.file.name
        # One of the user's own may pack what is written: how its file ends says nothing of rows.
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
    """The method ``store`` of a storage.

    :param store: the storage's own
    """

    def __init__(self, store: Callable[[IO[bytes]], Any]) -> None:
        self._store = store
        # Slots that are not stored yet. Some never are: they took no item.
        self.awaited: WeakSet[WatchedSlot] = WeakSet()

    def __call__(self, file: IO[bytes]) -> Any:
        """Called by Scrapy, and by what else calls the method of the storage."""
        waiting = list(self.awaited)
        own = [one for one in waiting if _file_of(one.slot) is file]
        for one in own:  # a storage that calls this from its own method says it once
            self.awaited.discard(one)
        slots = own or waiting
        try:
            made = self._store(file)
        except BaseException:
            _note(slots, failed=True)
            raise
        if isinstance(made, Deferred):
            return made.addBoth(_ended, slots)
        if inspect.isawaitable(made):
            return _awaited(made, slots)
        _note(slots, failed=False)
        return made


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


async def _awaited(made: Awaitable[Any], slots: Sequence[WatchedSlot]) -> Any:
    try:
        result = await made
    except BaseException:
        _note(slots, failed=True)
        raise
    _note(slots, failed=False)
    return result
