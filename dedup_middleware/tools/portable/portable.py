"""Copies the pages of an index to another one, through a portable file or directly.

:mod:`.portable_file` describes the file.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import pairwise
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import DedupError, IndexRefusedError, named_as_given, os_errors
from dedup_middleware.index.base import Index
from dedup_middleware.index.pages import (
    BLOCK,
    TABLE_SHIFT,
    Pages,
    is_simhash,
    joined,
    starts_of,
    turned,
)
from dedup_middleware.index.parameters import (
    HASH_KEY,
    OF_INDEX,
    Parameters,
    differences,
    layout_of,
    record_parameter,
    window_parameter,
)
from dedup_middleware.model.buckets import SIMHASH_TABLES, width_of
from dedup_middleware.model.records import (
    PAGE_ID_BITS,
    PageRecords,
    State,
    chosen,
    page_ids_of,
    suffixes_of,
)
from dedup_middleware.tools.portable.portable_file import Exported, PortableWriter, read_portable

Progress = Callable[[int, int], None]  # called with pages done and pages in total

_LONG = 1 << 27  # bytes of payloads at which a block is entered early
_PART = 10_000  # pages whose texts are fetched at once


@attrs.frozen(kw_only=True)
class Imported:
    """The result of an import: pages entered, and pages that were known."""

    pages: int
    known: int


async def export_index(
    index: Index, path: str | Path, progress: Progress = lambda *_: None
) -> Exported:
    """Write all committed pages of an index to one file.

    Crawls may continue; pages committed after the start may be missing. The file gets its name when
    it is complete and was verified; until then a folder next to it takes about 13 bytes per record
    of the index (170 bytes per page). Memory: 370 MB were measured at 450,000 pages.

    :param index: open, or attached
    :param path: the file, replaced if it exists
    :raises DedupError: the index can't be reached, is damaged, or was made with another window; the
        file can't be written; pyarrow is missing
    """
    parameters = await index.attach()
    left_out = 0
    # pyarrow's errors and those of the temporary notes, as on a full disk.
    with os_errors(f"{path} can't be written"), PortableWriter(path, parameters) as writer:
        async for pages, count in _stored(index, parameters, writer.folder, progress):
            left_out += count - len(pages)
            await asyncio.to_thread(writer.write, pages)
        written = await asyncio.to_thread(writer.finish)
    return attrs.evolve(written, left_out=left_out)


async def _stored(
    index: Index, parameters: Parameters, folder: Path, progress: Progress
) -> AsyncIterator[tuple[Pages, int]]:
    """Yield the committed pages in parts: the pages with a record in any bucket, and the number of
    pages in the part, with and without records."""
    made, opened = parameters.get("window", "0"), window_parameter(index.window).get("window", "0")
    if made != opened:
        raise DedupError(
            f"the index was made with DEDUP_WINDOW = {made} and opened with {opened}, so its "
            f"buckets would not be found: set DEDUP_WINDOW = {made}"
        )
    wanted = await _committed(index)
    total = int(np.count_nonzero(wanted))
    spool = BucketKeySpool(folder, wanted)
    async for bucket, raw in index.buckets():
        spool.add(bucket, raw)
    spool.flush()
    done = left_out = 0
    async for page_records in index.pages():
        for part in _parts(page_records, wanted):
            pages = await _complete(index, part, spool)
            left_out += len(part) - len(pages)
            yield pages, len(part)
            done += len(part)
            progress(done, total)
    # With a window, all buckets may have expired before the page records.
    if done and left_out == done and not index.window:
        raise DedupError(
            f"no bucket holds a record of any of {done:,} pages: the index is damaged; "
            "`scrapy dedup verify` says more"
        )


async def _committed(index: Index) -> NDArray[np.bool_]:
    """Return bool by page id: whether the page is committed. Read before the buckets, so that the
    records of these pages are in them."""
    parts = [np.empty(0, np.uint64)]
    async for pages in index.pages():
        parts.append(pages.page_ids[pages.states == State.COMMITTED])
    page_ids = np.concatenate(parts).astype(np.int64)
    wanted = np.zeros(int(page_ids.max(initial=-1)) + 1, np.bool_)
    wanted[page_ids] = True
    return wanted


def _parts(pages: PageRecords, wanted: NDArray[np.bool_]) -> list[PageRecords]:
    """Return the wanted pages that are still committed, in parts within one range of page ids."""
    take = (pages.states == State.COMMITTED) & (pages.page_ids < np.uint64(len(wanted)))
    take[take] = wanted[pages.page_ids[take].astype(np.int64)]
    pages = chosen(pages, take)
    ranges = np.flatnonzero(np.diff(pages.page_ids // np.uint64(RANGE))) + 1
    cuts = sorted({*range(0, len(pages), _PART), *ranges.tolist(), len(pages)})
    return [chosen(pages, slice(*part)) for part in pairwise(cuts)]


async def _complete(index: Index, part: PageRecords, spool: BucketKeySpool) -> Pages:
    """Return pages with bucket keys and texts; pages without bucket keys are left out."""
    bucket_keys, starts, simhashes = spool.places(part.page_ids)
    seen = await index.look(part.page_ids)
    content = part.content.copy()
    # An index may keep a SimHash only in its tables.
    unknown = content["simhash"] == 0
    content["simhash"][unknown] = simhashes[unknown]
    pages = Pages(
        content,
        [None if address is None else address.encode() for address in seen.addresses],
        seen.payloads,
        part.times,
        bucket_keys,
        starts,
    )
    placed = np.diff(starts) > 0
    return pages if placed.all() else pages.chosen(placed)


async def import_index(
    index: Index, path: str | Path, progress: Progress = lambda *_: None
) -> Imported:
    """Enter all pages of a portable file into an index.

    An index that does not exist is created with the file's parameters and hash key. The whole file
    is verified before the first page is entered. Known pages (same key and content) are skipped.
    Memory: 2 KB for each page of a block of 250,000, and 8 bytes per page of file and index.

    :param index: need not be open; open on return
    :raises IndexRefusedError: the file is damaged or not portable, or the index was made with other
        parameters; names each difference
    :raises DedupError: the index can't be reached, or pyarrow is missing
    """
    file = await asyncio.to_thread(read_portable, path)
    record = layout_of(record_parameter(file.parameters), str(path))
    await asyncio.to_thread(file.verify)
    await _open(index, file.parameters, "file", str(path))

    async def parts() -> AsyncIterator[Pages]:
        pages, done = file.pages(), 0
        while (part := await asyncio.to_thread(next, pages, None)) is not None:
            yield part
            done += len(part)
            progress(done, file.rows)

    return await enter_pages(index, parts(), lambda content: _names(record.pack(content)))


async def copy_index(
    source: Index,
    target: Index,
    name: str,
    names: Mapping[str, str],
    progress: Progress = lambda *_: None,
) -> Imported:
    """Enter all committed pages of an index into another one, which may have another window.

    Pages that crawls store meanwhile are entered if the copy is repeated; pages that they forget
    stay in the target. A temporary folder takes about 13 bytes per record.

    :param source: open, or attached
    :param target: need not be open; open on return
    :param name: of the source, without its password
    :param names: for errors of the source; see :func:`.named_as_given`
    """
    with named_as_given(names):
        parameters = await source.attach()
    record = layout_of(record_parameter(parameters), name)
    await _open(target, parameters, "index copied", name)
    what, fix = "the temporary folder can't be written to", "; name another one by TMPDIR"
    with os_errors(what, fix=fix), tempfile.TemporaryDirectory() as folder:

        async def parts() -> AsyncIterator[Pages]:
            with named_as_given(names):
                async for pages, _ in _stored(source, parameters, Path(folder), progress):
                    yield pages

        return await enter_pages(target, parts(), lambda content: _names(record.pack(content)))


async def enter_pages(
    index: Index,
    parts: AsyncIterator[Pages],
    names_of: Callable[[NDArray[np.void]], NDArray[np.uint64]],
    size: int = BLOCK,
) -> Imported:
    """Enter pages block by block, except those that the index has already.

    :param names_of: a function from CONTENT[n] to uint64[n], equal only for equal pages
    :param size: pages in a block
    """
    found = [np.empty(0, np.uint64)]
    async for pages in index.pages():
        found.append(names_of(pages.content[pages.states == State.COMMITTED]))
    known = np.concatenate(found)
    entered = passed = 0
    waiting: list[Pages] = []

    async def flush() -> None:
        nonlocal known, entered, passed, waiting
        block, waiting = joined(waiting), []  # frees the parts before the block is loaded
        names = names_of(block.content)
        fresh = np.zeros(len(names), np.bool_)
        fresh[np.unique(names, return_index=True)[1]] = True
        fresh &= ~np.isin(names, known)
        known = np.concatenate((known, names[fresh]))
        passed += int(np.count_nonzero(~fresh))
        if not fresh.all():
            block = block.chosen(fresh)
        entered += await index.load(block)

    async for part in parts:
        waiting.append(part)
        long = sum(sum(map(len, each.payloads)) for each in waiting) >= _LONG
        if long or sum(map(len, waiting)) >= size:
            await flush()
    if waiting:
        await flush()
    return Imported(pages=entered, known=passed)


async def _open(index: Index, parameters: Mapping[str, str], kind: str, name: str) -> None:
    """Open or create an index with the parameters of the pages, or refuse."""
    wanted = _comparable(record_parameter(parameters))
    try:
        stored = await index.attach()
    except IndexRefusedError:  # it does not exist yet
        stored = {}
    if stored:
        _compare(stored, wanted, kind, name)
    # Compared again, since another process may have created it meanwhile.
    _compare(await index.open(wanted), wanted, kind, name)


def _comparable(parameters: Parameters) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key not in OF_INDEX}


def _compare(stored: Parameters, wanted: Parameters, kind: str, name: str) -> None:
    own = _comparable(stored)
    if own.get(HASH_KEY) != wanted.get(HASH_KEY):
        own[HASH_KEY], wanted = "its own", {**wanted, HASH_KEY: "another one"}
    lines = differences(own, wanted, asks=f"the {kind} has")
    if lines:
        raise IndexRefusedError(
            f"the pages of {name} can't be compared with those of this index, which was "
            "made with other parameters:\n  "
            + "\n  ".join(lines)
            + "\nImport into a new index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)."
        )


def _names(content: NDArray[np.void]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of the whole content of each page."""
    size = content.dtype.itemsize
    raw = np.zeros((len(content), -(-size // 8) * 8), np.uint8)
    raw[:, :size] = np.ascontiguousarray(content).view(np.uint8).reshape(len(content), size)
    mixed = np.zeros(len(content), np.uint64)
    for word in raw.view("<u8").T:
        # The finaliser of MurmurHash3, for each word.
        mixed = (mixed ^ word) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(0xC4CEB9FE1A85EC53)
        mixed ^= mixed >> np.uint64(29)
    return mixed


RANGE = 1 << 18  # page ids
_BYTES = 4 << 20  # bytes of buckets processed at once
# ``hash`` is that of the record: 40 bits, or in a SimHash table all 64, rotated.
_NOTE = np.dtype([("page", "<u4"), ("table", "u1"), ("hash", "<u8")])


class BucketKeySpool:
    """Collects buckets and returns the bucket keys of each page; ``wanted``: bool by page id."""

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
        """Add a bucket; the buckets of a table have to be consecutive."""
        if bucket >> 16 != self._table or self._size >= _BYTES:
            self.flush()
            self._table = bucket >> 16
        whole = raw[: len(raw) // width_of(bucket) * width_of(bucket)]
        self._prefixes.append(bucket & 0xFFFF)
        self._parts.append(whole)
        self._size += len(whole)

    def flush(self) -> None:
        """Write the buckets added so far to the notes."""
        if not self._parts:
            return
        width = width_of(self._table << 16)
        raw = b"".join(self._parts)
        counts = [len(part) // width for part in self._parts]
        prefixes = np.repeat(np.array(self._prefixes, np.uint64), counts)
        self._prefixes, self._parts, self._size = [], [], 0
        page_ids = page_ids_of(raw, width)
        known = np.flatnonzero(page_ids < np.uint64(len(self._wanted)))
        known = known[self._wanted[page_ids[known].astype(np.int64)]]
        notes = np.empty(len(known), _NOTE)
        notes["table"] = self._table
        bits = np.uint64(8 * width - PAGE_ID_BITS)  # of a suffix
        notes["hash"] = prefixes[known] << bits | suffixes_of(raw, width)[known]
        ranges, notes["page"] = np.divmod(page_ids[known], np.uint64(RANGE))
        order = np.argsort(ranges.astype(np.uint16), kind="stable")
        notes, ranges = notes[order], ranges[order]
        each, firsts = np.unique(ranges, return_index=True)
        ends = [*firsts.tolist(), len(notes)][1:]
        for number, first, end in zip(each.tolist(), firsts.tolist(), ends, strict=True):
            with self._file(number).open("ab") as file:
                file.write(notes[first:end].tobytes())

    def places(
        self, page_ids: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64]]:
        """Return the bucket keys of n pages of one range and their starts, as in :class:`.Pages`,
        and uint64[n], the SimHashes from the SimHash tables, 0 if a page is in none."""
        number = int(page_ids[0]) // RANGE if len(page_ids) else self._range
        if number != self._range:
            self._notes = np.empty(0, _NOTE)  # frees the old notes before the new ones are read
            self._range, self._notes = number, self._read(number)
        notes = self._notes
        pages = (page_ids % np.uint64(RANGE)).astype(np.uint32)
        first = np.searchsorted(notes["page"], pages, "left")
        counts = np.searchsorted(notes["page"], pages, "right") - first
        starts = starts_of(counts)
        found = notes[np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])]
        hashes, places = found["hash"], found["table"].astype(np.uint64) << np.uint64(TABLE_SHIFT)
        of_simhashes = is_simhash(places)
        of_page = np.repeat(np.arange(len(page_ids)), counts)[of_simhashes]
        simhashes = np.zeros(len(page_ids), np.uint64)
        # The rotation of table first - i undoes that of table first + i.
        before = np.uint64(2 * SIMHASH_TABLES[0]) - found["table"][of_simhashes]
        simhashes[of_page] = turned(hashes[of_simhashes], before)
        hashes = np.where(of_simhashes, hashes >> np.uint64(64 - TABLE_SHIFT), hashes)
        return places | hashes, starts, simhashes

    def _file(self, number: int) -> Path:
        return self._folder / f"slots-{number}"

    def _read(self, number: int) -> NDArray[np.void]:
        file = self._file(number)
        if not file.exists():
            return np.empty(0, _NOTE)
        notes = np.fromfile(file, _NOTE)
        file.unlink()
        return notes[np.argsort(notes["page"], kind="stable")]
