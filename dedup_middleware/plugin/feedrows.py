"""The last row of a feed in a file on this machine, of which there may be a part only.

A process that is killed while it writes leaves a part of a row, and so does a full disk. What is
written behind it could not be read, although the index would call it stored.
"""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import FileFeedStorage

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


def begin_row(slot: FeedSlot) -> None:
    """Let what a slot of JSON lines or CSV writes next begin a line.

    Call it before the slot opens its file, and when it may have failed with an item.
    """
    try:
        path = _path_of(slot)
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
    except Exception:  # Scrapy says so when it writes; or a part is the user's own
        return


def end_of(slot: FeedSlot) -> int | None:
    """Where what a slot has written ends in its open file; None: there is none, or it can't say."""
    try:
        return None if slot.file is None else slot.file.tell()
    except Exception:  # a pipe, or one of the user's own; one that is packed
        return None


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
