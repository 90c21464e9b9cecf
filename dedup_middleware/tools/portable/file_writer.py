"""Writing the Parquet file that holds an index."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.base.writing import PRIVATE, make
from dedup_middleware.index.pages import TABLE_SHIFT, Pages, starts_of
from dedup_middleware.model.buckets import SIMHASH_TABLES
from dedup_middleware.model.records import (
    BAND_RECORD,
    BAND_SUFFIX_BITS,
    SIMHASH_RECORD,
    SIMHASH_SUFFIX_BITS,
    page_ids_of,
    suffixes_of,
)
from dedup_middleware.tools.portable import file_reader

if TYPE_CHECKING:
    from typing_extensions import Self

RANGE = 1 << 18  # page ids
_BYTES = 4 << 20  # of buckets taken in at once
# The hash is that of the record: 40 bits of it, or in a SimHash table all 64, rotated.
_NOTE = np.dtype([("page", "<u4"), ("table", "u1"), ("hash", "<u8")])


@attrs.frozen(eq=False)
class Places:
    """Bucket keys of some pages.

    ``bucket_keys`` and ``starts`` as in :class:`.Pages`; ``simhashes``: uint64[n], by the SimHash
    tables, 0 for a page that is in none of them.
    """

    bucket_keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    simhashes: NDArray[np.uint64]


class BucketKeySpool:
    """Collects buckets and returns the bucket keys of each page.

    :param folder: where to put notes aside
    :param wanted: bool, by page id: whose bucket keys are returned
    """

    def __init__(self, folder: Path, wanted: NDArray[np.bool_]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._table = -1
        self._size = 0
        self._prefixes: list[int] = []
        self._parts: list[bytes] = []
        self._range = -1
        self._notes = np.empty(0, _NOTE)

    def add(self, bucket: int, raw: bytes) -> None:
        """Take in a bucket; those of a table follow each other."""
        table = bucket >> 16
        if table != self._table or self._size >= _BYTES:
            self.flush()
            self._table = table
        width = SIMHASH_RECORD if table in SIMHASH_TABLES else BAND_RECORD
        whole = raw[: len(raw) // width * width]
        self._prefixes.append(bucket & 0xFFFF)
        self._parts.append(whole)
        self._size += len(whole)

    def flush(self) -> None:
        """Put aside what was taken in."""
        of_simhashes = self._table in SIMHASH_TABLES
        width = SIMHASH_RECORD if of_simhashes else BAND_RECORD
        raw = b"".join(self._parts)
        counts = [len(part) // width for part in self._parts]
        prefixes = np.repeat(np.array(self._prefixes, np.uint64), counts)
        self._prefixes, self._parts, self._size = [], [], 0
        page_ids = page_ids_of(raw, width)
        known = np.flatnonzero(page_ids < np.uint64(len(self._wanted)))
        known = known[self._wanted[page_ids[known].astype(np.int64)]]
        notes = np.empty(len(known), _NOTE)
        bits = SIMHASH_SUFFIX_BITS if of_simhashes else BAND_SUFFIX_BITS
        notes["table"] = max(self._table, 0)
        notes["hash"] = prefixes[known] << np.uint64(bits) | suffixes_of(raw, width)[known]
        ranges, notes["page"] = np.divmod(page_ids[known], np.uint64(RANGE))
        order = np.argsort(ranges.astype(np.uint16), kind="stable")
        notes, ranges = notes[order], ranges[order]
        each, firsts = np.unique(ranges, return_index=True)
        ends = [*firsts.tolist(), len(notes)][1:]
        for number, first, end in zip(each.tolist(), firsts.tolist(), ends, strict=True):
            with self._file(number).open("ab") as file:
                file.write(notes[first:end].tobytes())

    def places(self, page_ids: NDArray[np.uint64]) -> Places:
        """Bucket keys of pages, all of one range."""
        number = int(page_ids[0]) // RANGE if len(page_ids) else self._range
        if number != self._range:
            self._notes = np.empty(0, _NOTE)  # not both in memory at once
            self._range, self._notes = number, self._read(number)
        notes = self._notes
        pages = (page_ids % np.uint64(RANGE)).astype(np.uint32)
        first = np.searchsorted(notes["page"], pages, "left")
        counts = np.searchsorted(notes["page"], pages, "right") - first
        starts = starts_of(counts)
        found = notes[np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])]
        of_simhashes = (found["table"] >= SIMHASH_TABLES[0]) & (
            found["table"] <= SIMHASH_TABLES[-1]
        )
        hashes = np.where(of_simhashes, found["hash"] >> np.uint64(64 - TABLE_SHIFT), found["hash"])
        simhashes = np.zeros(len(page_ids), np.uint64)
        of_page = np.repeat(np.arange(len(page_ids)), counts)[of_simhashes]
        turn = (
            found["table"][of_simhashes].astype(np.uint64) - np.uint64(SIMHASH_TABLES[0])
        ) * np.uint64(16)
        turned = found["hash"][of_simhashes]
        back = (np.uint64(64) - turn) % np.uint64(64)
        simhashes[of_page] = turned >> turn | turned << back
        bucket_keys = found["table"].astype(np.uint64) << np.uint64(TABLE_SHIFT) | hashes
        return Places(bucket_keys, starts, simhashes)

    def _file(self, number: int) -> Path:
        return self._folder / f"slots-{number}"

    def _read(self, number: int) -> NDArray[np.void]:
        file = self._file(number)
        if not file.exists():
            return np.empty(0, _NOTE)
        notes = np.fromfile(file, _NOTE)
        file.unlink()
        return notes[np.argsort(notes["page"], kind="stable")]


_ROWS = 50_000  # of a row group, at most


@attrs.frozen(kw_only=True)
class Exported:
    """A finished file: its number of pages, its bytes and its checksum.

    ``left_out``: committed pages of an index of which no bucket holds a record, because they have
    just expired.
    """

    pages: int
    left_out: int = 0
    bytes: int
    checksum: str


class PortableWriter:
    """Writes pages to a portable file.

    Use it in a ``with`` block. Nothing is written to ``path`` before :meth:`finish`, which replaces
    an existing file. The unfinished file is in :attr:`folder` next to it, which is removed at the
    end; a process that is killed leaves it behind.

    :param path: the file to be
    :param parameters: of the index, with its hash key
    :raises DedupError: pyarrow is not installed, or the folder can't be written to
    """

    def __init__(self, path: str | Path, parameters: Mapping[str, str]) -> None:
        pa = file_reader.arrow()
        self._path = Path(path)
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise DedupError(
                f"{path} can't be written: pyarrow takes names in UTF-8 only"
            ) from None
        try:
            self._room = tempfile.TemporaryDirectory(
                dir=self._path.parent, prefix=f".{self._path.name}-", suffix=".part"
            )
        except OSError as error:
            raise DedupError(f"{self._path} can't be written: {error}") from error
        self._unfinished = self.folder / "pages"
        self._checksum = file_reader.Checksum()
        try:
            make(self._unfinished, PRIVATE).close()  # it holds the index's key
            self._writer = pa.parquet.ParquetWriter(
                self._unfinished,
                file_reader.schema().with_metadata(file_reader.metadata_of(parameters)),
                compression="zstd",
                # Hashes are all different; a dictionary of them would only cost time.
                use_dictionary=["size", "time"],
            )
        except OSError as error:
            self._room.cleanup()
            raise DedupError(f"{self._path} can't be written: {error}") from error

    @property
    def folder(self) -> Path:
        """A folder for what is only needed until the file is finished."""
        return Path(self._room.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._writer.close()
        except OSError:  # on a full disk it fails once more
            if error is None:
                raise
        finally:
            self._room.cleanup()

    def write(self, pages: Pages) -> None:
        """Write further pages."""
        for start in range(0, len(pages), _ROWS):
            part = pages.part(start, start + _ROWS)
            self._checksum.add(part)
            self._writer.write_batch(file_reader.to_arrow(part))

    def finish(self) -> Exported:
        """Write the end, read the whole file again, and give it its name.

        :raises IndexRefusedError: what was read is not what was written
        """
        ends: dict[str, Any] = {
            file_reader.PREFIX + "rows": str(self._checksum.rows),
            file_reader.PREFIX + "checksum": self._checksum.value(),
        }
        self._writer.add_key_value_metadata(ends)
        self._writer.close()
        with self._unfinished.open("rb") as file:
            os.fsync(file.fileno())
        try:
            file_reader.read_portable(self._unfinished).verify()
        except IndexRefusedError as error:
            message = str(error).replace(str(self._unfinished), str(self._path))
            raise IndexRefusedError(f"what was written can't be read again: {message}") from error
        size = self._unfinished.stat().st_size
        self._unfinished.replace(self._path)
        return Exported(pages=self._checksum.rows, bytes=size, checksum=self._checksum.value())
