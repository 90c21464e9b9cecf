"""Addresses or payloads of pages, as byte strings in one buffer or file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

import numpy as np

_FIRST_ROOM: Final = 1024  # initial capacity in pages
_LENGTH_BITS: Final = 28  # low bits of a place: length of the text; its offset is above them
_LENGTH: Final = (1 << _LENGTH_BITS) - 1
_TAIL: Final = 1 << 20  # bytes buffered before they are written to a file
_DEAD: Final = 1 << 20  # minimum bytes of removed texts before the others are moved together


class Texts:
    """A map from page id to a byte string, with an overhead of 8 bytes per page id.

    A dictionary would take 150 bytes more a page. With a file, only the places and the last
    megabyte of texts are in memory.

    :param file: empty, opened unbuffered for reading and writing; texts of removed pages stay in it

    >>> texts = Texts()
    >>> texts[3] = b"three"
    >>> texts.get(3), texts.get(4), list(texts), texts.nbytes
    (b'three', None, [3], 5)
    """

    __slots__ = ("_dead", "_end", "_file", "_first", "_places", "_start", "_tail", "nbytes")

    def __init__(self, file: io.FileIO | None = None) -> None:
        self._file = file
        self._places = np.zeros(_FIRST_ROOM, np.uint64)  # place i: page ``_first + i``; 0: none
        self._first = 0
        self._end = 0  # the highest page id plus 1
        self._start = 0  # offset of the tail among all texts
        self._tail = bytearray()
        self._dead = 0  # bytes of removed texts
        self.nbytes = 0  #: bytes of all texts that were not removed

    def __bool__(self) -> bool:
        return self.nbytes > 0

    def __iter__(self) -> Iterator[int]:
        """Page ids with a text, ascending."""
        found: list[int] = (np.flatnonzero(self._places) + self._first).tolist()
        return iter(found)

    def get(self, page_id: int) -> bytes | None:
        """The text of a page, None if it has none."""
        if not self._first <= page_id < self._end:
            return None
        place = int(self._places[page_id - self._first])
        if not place:
            return None
        start, length = place >> _LENGTH_BITS, place & _LENGTH
        if start >= self._start:
            return bytes(self._tail[start - self._start : start - self._start + length])
        assert self._file is not None
        self._file.seek(start)
        return self._file.read(length)

    def __setitem__(self, page_id: int, text: bytes) -> None:
        """Store a text, which must not be empty, in place of any former one."""
        if page_id < self._end:
            self.remove(page_id)
        while page_id - self._first >= len(self._places):
            larger = np.zeros(2 * len(self._places), np.uint64)
            larger[: len(self._places)] = self._places
            self._places = larger
        start = self._start + len(self._tail)
        self._places[page_id - self._first] = start << _LENGTH_BITS | len(text)
        self._end = max(self._end, page_id + 1)
        self._tail += text
        self.nbytes += len(text)
        if self._file is not None and len(self._tail) >= _TAIL:
            self._file.seek(self._start)
            left = memoryview(self._tail)
            while left:
                left = left[self._file.write(left) :]
            del left
            self._start += len(self._tail)
            self._tail = bytearray()

    def remove(self, page_id: int) -> None:
        """Remove the text of a page, if it has one."""
        if not self._first <= page_id < self._end:
            return
        length = int(self._places[page_id - self._first]) & _LENGTH
        self._places[page_id - self._first] = 0
        self.nbytes -= length
        self._dead += length
        if self._file is None and self._dead > max(_DEAD, self.nbytes):
            self._move_together()

    def remove_before(self, page_id: int) -> None:
        """Remove the texts of all pages with lower ids."""
        count = min(page_id - self._first, len(self._places))
        if count <= 0:
            return
        gone = int((self._places[:count] & np.uint64(_LENGTH)).sum())
        self.nbytes -= gone
        self._dead += gone
        kept = np.zeros(max(_FIRST_ROOM, len(self._places) - count), np.uint64)
        kept[: len(self._places) - count] = self._places[count:]
        self._places, self._first = kept, page_id
        if self._file is None:
            self._move_together()

    def _move_together(self) -> None:
        """Compact the buffer, to free the memory of removed texts."""
        tail = bytearray()
        for page_id in self:
            text = self.get(page_id) or b""
            self._places[page_id - self._first] = len(tail) << _LENGTH_BITS | len(text)
            tail += text
        self._tail, self._start, self._dead = tail, 0, 0
