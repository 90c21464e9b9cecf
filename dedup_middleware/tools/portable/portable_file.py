"""The portable file: one Parquet file that holds the pages of an index, whatever its back end.

One row for each page. Hashes have 64 bits and are written as ``int64`` with the same bits, because
Spark has no unsigned integers.

=========== ============== ==========================================================
column      type           what
=========== ============== ==========================================================
address     string or null key of the document, as far as the index keeps it (UTF-8)
time        timestamp, UTC when the page was stored; null: not known
slots       list of int64  its buckets and records: ``table << 40 | first 40 bits of the hash``
payload     binary         whatever else the method keeps of a page
key         int64          keyed hash of the document key
exact       int64          keyed hash of the normalised text
size        int64          number of distinct shingles
simhash     int64          64 bits
figures     binary         sketch of the figures
sketch      binary         512 bits, of the MinHash signature
=========== ============== ==========================================================

and any other field of CONTENT (see :mod:`.records`) under its name: numbers as ``int64``, arrays
as ``binary``, little-endian. An equal slot is a common bucket with 40 equal bits of the hash, so a
join on ``slots`` finds candidates. Fields that an index does not keep are 0.

The metadata of the file are texts, named ``dedup.`` and one of these: ``format`` (of the file),
``parameters`` (JSON: what the index was made with, its hash key included, so keep the file as
secret as the index), ``fingerprint`` (of the parameters), ``content`` (JSON: fields of CONTENT),
``rows`` and ``checksum`` (BLAKE2b over all columns).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import DedupError, IndexRefusedError, extra_needed, os_errors
from dedup_middleware.base.writing import PRIVATE, make
from dedup_middleware.index.pages import Pages, joined
from dedup_middleware.index.parameters import differences, hash_key_of
from dedup_middleware.model.records import CONTENT
from dedup_middleware.tools.portable.parquetpages import ROWS, check_sizes

FORMAT = "1"
PREFIX = "dedup."
_COLUMNS = 8


def arrow() -> Any:
    """Return the package pyarrow, with its Parquet module.

    :raises DedupError: it is not installed; names the extra
    """
    with extra_needed("portable files need the package pyarrow", "parquet"):
        import_module("pyarrow.parquet")
        return import_module("pyarrow")


def fingerprint_of(value: Any) -> str:
    """Return a short hash of parameters, or of an input and its options.

    >>> fingerprint_of({"bands": "8x3"})
    '72a263112d4e1f3b'
    """
    text = json.dumps(value, sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


_FIELDS: Final = {name: CONTENT[name] for name in CONTENT.names or ()}


def content_layout() -> dict[str, str]:
    """Return the names and types of the fields of CONTENT."""
    return {name: f"{kind.base.str}{list(kind.shape) or ''}" for name, kind in _FIELDS.items()}


def schema() -> Any:
    """Return the columns and their types, a ``pyarrow.Schema``."""
    pa = arrow()
    of_content = {name: pa.binary() if kind.shape else pa.int64() for name, kind in _FIELDS.items()}
    time, slots = pa.timestamp("ms", tz="UTC"), pa.list_(pa.int64())
    own = {"address": pa.string(), "time": time, "slots": slots, "payload": pa.binary()}
    return pa.schema([*(own | of_content).items()])


def to_arrow(pages: Pages) -> Any:
    """Convert pages to a ``pyarrow.RecordBatch`` of :func:`schema`."""
    pa = arrow()
    seconds = pages.times.astype(np.int64)
    texts = [None if raw is None else raw.decode("utf-8", "replace") for raw in pages.addresses]
    starts, bucket_keys = pages.starts.astype(np.int32), pages.bucket_keys.astype(np.int64)
    columns: list[Any] = [
        pa.array(texts, pa.string()),
        pa.array(seconds * 1000, pa.int64(), mask=seconds == 0).cast(pa.timestamp("ms", tz="UTC")),
        pa.ListArray.from_arrays(pa.array(starts), pa.array(bucket_keys)),
        pa.array(list(pages.payloads), pa.binary()),
    ]
    for name, kind in _FIELDS.items():
        column = np.ascontiguousarray(pages.content[name])
        columns.append(to_binary(column) if kind.shape else pa.array(column.astype(np.int64)))
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def to_binary(values: NDArray[Any]) -> Any:
    """Convert n values, or rows of values, to a binary column."""
    pa = arrow()
    starts = np.arange(len(values) + 1, dtype=np.int32) * values[:1].nbytes
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(values.tobytes())]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def from_arrow(batch: Any) -> Pages:
    """Convert a ``pyarrow.RecordBatch`` of :func:`schema` to pages."""
    content = np.zeros(batch.num_rows, CONTENT)
    for name, kind in _FIELDS.items():
        column = batch.column(name)
        if column.null_count:
            raise ValueError(f"the column {name} has nulls")
        if kind.shape:
            # All values have the size of the field.
            ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]
            if (np.diff(ends) != kind.itemsize).any():
                raise ValueError(f"the column {name} has values of another length")
            raw = np.frombuffer(column.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
            content[name] = raw.view(kind.base).reshape(content[name].shape)
        else:
            content[name] = column.to_numpy().astype(kind)
    bucket_keys, payload = batch.column("slots"), batch.column("payload")
    if bucket_keys.null_count or bucket_keys.flatten().null_count or payload.null_count:
        raise ValueError("the columns slots or payload have nulls")
    starts = bucket_keys.offsets.to_numpy().astype(np.int64)
    milliseconds = batch.column("time").cast("int64").fill_null(0).to_numpy()
    return Pages(
        content,
        [None if text is None else text.encode() for text in batch.column("address").to_pylist()],
        payload.to_pylist(),
        (milliseconds // 1000).astype(np.uint32),
        bucket_keys.flatten().to_numpy().astype(np.uint64),
        starts - starts[0],
    )


class Checksum:
    """A checksum of pages that does not depend on how they are split into parts."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns = [blake2b(digest_size=16) for _ in range(_COLUMNS)]

    def add(self, pages: Pages) -> None:
        """Add pages."""
        self.rows += len(pages)
        parts = (
            pages.content.tobytes(),
            pages.times.astype("<u4").tobytes(),
            np.diff(pages.starts).astype("<i8").tobytes(),
            pages.bucket_keys.astype("<u8").tobytes(),
            _lengths(pages.addresses),
            b"".join(filter(None, pages.addresses)),
            _lengths(pages.payloads),
            b"".join(pages.payloads),
        )
        for column, raw in zip(self._columns, parts, strict=True):
            column.update(raw)

    def value(self) -> str:
        """Return the checksum of all pages added so far."""
        return blake2b(b"".join(c.digest() for c in self._columns), digest_size=16).hexdigest()


def _lengths(values: Sequence[bytes | None]) -> bytes:
    """Return the lengths of values, -1 for None."""
    lengths = (-1 if value is None else len(value) for value in values)
    return np.fromiter(lengths, "<i4", len(values)).tobytes()


# Limits for pyarrow when it reads the footer: texts of 1 MB, lists of 100,000 elements.
_END: Final = {"thrift_string_size_limit": 1 << 20, "thrift_container_size_limit": 100_000}


@attrs.frozen(kw_only=True)
class Portable:
    """A portable file."""

    path: Path
    parameters: Mapping[str, str] = attrs.field(repr=False)  # of the index, hash key included
    rows: int  # pages
    checksum: str  # expected checksum of the columns

    def pages(self) -> Iterator[Pages]:
        """Yield all pages, at most :data:`.ROWS` at a time.

        :raises IndexRefusedError: the file is damaged; the checksum is compared after the last page
        """
        found = Checksum()
        with _opened(self.path) as file, _explained(self.path):
            # Given all row groups at once, pyarrow takes 220 bytes of memory for each row.
            for group, most in enumerate(check_sizes(self.path, self.rows)):
                for batch in file.iter_batches(batch_size=most, row_groups=[group]):
                    pages = from_arrow(batch)
                    found.add(pages)
                    yield pages
        if (found.rows, found.value()) != (self.rows, self.checksum):
            what = f"it holds {found.rows} pages that do not add up to its checksum"
            raise _damaged(self.path, what)

    def verify(self) -> None:
        """Read the whole file and compare it with its checksum."""
        for _ in self.pages():
            pass


def _is_same(path: Path, written: Portable) -> bool:
    """Whether a file is not damaged, and has the pages and the parameters of another one."""
    with contextlib.suppress(IndexRefusedError):
        found = read_portable(path)
        if (found.checksum, found.parameters) == (written.checksum, written.parameters):
            found.verify()
            return True
    return False


def read_portable(path: str | Path) -> Portable:
    """Open a portable file and read its parameters.

    :raises IndexRefusedError: it is not a portable file, is damaged, or has another version
    """
    path = Path(path)
    with _opened(path) as file, _explained(path):
        # Metadata added when a file is finished belongs to the file, not to its schema.
        raw = {**(file.schema_arrow.metadata or {}), **(file.metadata.metadata or {})}
        known = {
            key.decode()[len(PREFIX) :]: value.decode()
            for key, value in raw.items()
            if key.startswith(PREFIX.encode())
        }
        rows = file.metadata.num_rows
        if "format" not in known:
            raise IndexRefusedError(
                f"{path} is a Parquet file, but no index was exported to it: name another file"
            )
        if known["format"] != FORMAT:
            raise IndexRefusedError(
                f"{path} has format {known['format']!r}, this version of dedup-middleware knows "
                f"{FORMAT!r}: use the version that made it"
            )
        content, parameters = _texts(known["content"]), _texts(known["parameters"])
        lines = differences(content, content_layout(), "the file has", "this version knows")
        if lines:
            raise IndexRefusedError(
                f"{path} was made by another version of dedup-middleware, which keeps other fields "
                "of a page:\n  " + "\n  ".join(lines) + "\nUse the version that made it."
            )
        _check_columns(file.schema_arrow, path)
        if known["rows"] != str(rows):
            raise _damaged(path, f"it says {known['rows']} pages and holds {rows}")
        if known["fingerprint"] != fingerprint_of(parameters):
            raise _damaged(path, "its parameters were changed")
        hash_key_of(parameters, str(path))
        check_sizes(path, rows)
        return Portable(path=path, parameters=parameters, rows=rows, checksum=known["checksum"])


def _texts(raw: str) -> dict[str, str]:
    """Parse a JSON object of strings."""
    found = json.loads(raw)
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError("its description holds something else than names and texts")
    return found


def _check_columns(columns: Any, path: Path) -> None:
    """Refuse columns, or types of columns, that an export does not write."""
    pa, wanted = arrow(), schema()
    missing = sorted(set(wanted.names) - set(columns.names))
    if missing:
        raise _damaged(path, f"the columns {', '.join(missing)} are missing")
    if len(columns.names) != len(wanted.names):
        raise _damaged(path, "it has other columns than an export writes")
    for field in wanted:
        found, given = columns.field(field.name).type, field.type
        # The name of a list's element depends on the writer.
        if pa.types.is_list(found) and pa.types.is_list(given):
            found, given = found.value_type, given.value_type
        if found != given:
            raise _damaged(path, f"the column {field.name} is of type {found}, not {given}")


def _damaged(path: Path, what: str) -> IndexRefusedError:
    return IndexRefusedError(f"{path} is damaged: {what}; export the index again, or copy it anew")


def _opened(path: Path) -> Any:
    pa = arrow()
    if not path.is_file():
        raise IndexRefusedError(f"there is no file {path}: name one that an index was exported to")
    try:
        # Read in pieces as needed, not a whole column chunk at once.
        return pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, **_END)
    except PermissionError as error:
        raise DedupError(f"{path} can't be read: {os.strerror(errno.EACCES)}") from error
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise IndexRefusedError(
            f"{path} is no whole Parquet file: it is a file of another kind or was cut short "
            f"({error})"
        ) from error


# Errors that NumPy and Python raise for malformed values.
_FAULTS: Final = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the errors that pyarrow raises for a damaged file into one error."""
    try:
        yield
    except DedupError:
        raise
    except (arrow().ArrowException, OSError, MemoryError, RecursionError, *_FAULTS) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


@attrs.frozen(kw_only=True)
class Exported:
    """The result of an export."""

    pages: int
    left_out: int = 0  # committed pages without a record in any bucket: they have just expired
    bytes: int
    checksum: str


_MOST_BYTES: Final = 1 << 26  # of payloads in a row group


class PortableWriter:
    """Writes pages to a portable file, within a ``with`` block. ``path`` is written or replaced
    only by :meth:`finish`; a process that is killed leaves :attr:`folder` next to it.

    :param parameters: of the index, with its hash key
    :raises DedupError: pyarrow is not installed, or the folder can't be written to
    """

    def __init__(self, path: str | Path, parameters: Mapping[str, str]) -> None:
        pa = arrow()
        self._path = Path(path)
        self._checksum = Checksum()
        self._waiting: list[Pages] = []
        self._waits = self._bytes = 0  # pages in it, and bytes of their payloads
        columns = schema().with_metadata(
            {
                PREFIX + "format": FORMAT,
                PREFIX + "parameters": json.dumps(dict(parameters), sort_keys=True),
                PREFIX + "fingerprint": fingerprint_of(dict(parameters)),
                PREFIX + "content": json.dumps(content_layout()),
            }
        )
        # Hashes are all different, so a dictionary of them would only cost time.
        how = {"compression": "zstd", "use_dictionary": ["size", "time"]}
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise DedupError(
                f"{path} can't be written: pyarrow takes names in UTF-8 only"
            ) from None
        # pyarrow's own error would name the temporary folder.
        with os_errors(f"{self._path} can't be written", fix="; name another file"):
            self._temporary = tempfile.TemporaryDirectory(
                dir=self._path.parent, prefix=f".{self._path.name}-", suffix=".part"
            )
            self._unfinished = self.folder / "pages"
            try:
                make(self._unfinished, PRIVATE).close()  # private, as it contains the index's key
                self._writer = pa.parquet.ParquetWriter(self._unfinished, columns, **how)
            except OSError:
                self._temporary.cleanup()
                raise

    @property
    def folder(self) -> Path:
        """A temporary folder that exists until the file is finished."""
        return Path(self._temporary.name)

    def __enter__(self) -> PortableWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._writer.close()
        except OSError:  # on a full disk closing fails again
            if error is None:
                raise
        finally:
            self._temporary.cleanup()

    def write(self, pages: Pages) -> None:
        """Write pages, once there are enough for a row group: a file with 100,000 of them can't be
        read."""
        if not len(pages):
            return
        self._waiting.append(pages)
        self._waits += len(pages)
        self._bytes += sum(map(len, pages.payloads))
        if self._waits >= ROWS or self._bytes >= _MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        pages = joined(self._waiting)
        self._waiting, self._waits, self._bytes = [], 0, 0
        for start in range(0, len(pages), ROWS):
            part = pages.part(start, start + ROWS)
            self._checksum.add(part)
            self._writer.write_batch(to_arrow(part))

    def finish(self, *, replaces: bool = True) -> Exported:
        """Write the footer, verify the whole file, and give it its name.

        :param replaces: replace an existing file; else only one with the same pages may exist
        :raises DedupError: there is another file of this name
        """
        self._flush()
        ends = {"rows": str(self._checksum.rows), "checksum": self._checksum.value()}
        self._writer.add_key_value_metadata({PREFIX + name: text for name, text in ends.items()})
        self._writer.close()
        with self._unfinished.open("rb") as file:
            os.fsync(file.fileno())
        try:
            written = read_portable(self._unfinished)
            written.verify()
        except IndexRefusedError as error:
            message = str(error).replace(str(self._unfinished), str(self._path))
            raise IndexRefusedError(f"what was written can't be read again: {message}") from error
        size = self._unfinished.stat().st_size
        if replaces or not self._path.exists():
            self._unfinished.replace(self._path)
        elif not _is_same(self._path, written):
            raise DedupError(
                f"{self._path} exists and does not hold these pages: name another file"
            )
        return Exported(pages=self._checksum.rows, bytes=size, checksum=self._checksum.value())
