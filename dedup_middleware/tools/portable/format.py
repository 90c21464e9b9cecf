"""The portable file: one Parquet file that holds the pages of an index, whatever its back end.

One row a page. Hashes are unsigned numbers of 64 bits given as signed ones (``int64``, the same
bits), because Spark and pandas know no others everywhere.

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

The file's own metadata hold, as text under ``dedup.`` and the name: ``format`` (of the file),
``parameters`` (JSON: what the index was made with, its hash key included, so keep the file as
secret as the index), ``fingerprint`` (of the parameters), ``content`` (JSON: fields of CONTENT),
``rows`` and ``checksum`` (BLAKE2b over all columns).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import DedupError
from dedup_middleware.index.pages import Pages
from dedup_middleware.model.records import CONTENT

FORMAT = "1"
PREFIX = "dedup."
_COLUMNS = 8


def arrow() -> Any:
    """The package pyarrow, with its Parquet part; it is loaded here and nowhere else.

    :raises DedupError: it is not installed; names the extra
    """
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise DedupError(
            "portable files need the package pyarrow: pip install 'dedup-middleware[parquet]'"
        ) from error


def fingerprint_of(parameters: Mapping[str, str]) -> str:
    """A short hash of parameters: equal parameters have equal hashes.

    >>> fingerprint_of({"bands": "8x3"})
    '72a263112d4e1f3b'
    """
    text = json.dumps(dict(sorted(parameters.items())))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def content_layout() -> dict[str, str]:
    """Names and types of the fields of CONTENT."""
    return {name: _type_text(CONTENT[name]) for name in CONTENT.names or ()}


def _type_text(field: np.dtype[Any]) -> str:
    return f"{field.base.str}{list(field.shape) if field.shape else ''}"


def metadata_of(parameters: Mapping[str, str]) -> dict[str, str]:
    """What is known of a file before its pages are."""
    return {
        PREFIX + "format": FORMAT,
        PREFIX + "parameters": json.dumps(dict(sorted(parameters.items()))),
        PREFIX + "fingerprint": fingerprint_of(parameters),
        PREFIX + "content": json.dumps(content_layout()),
    }


def schema() -> Any:
    """Names and types of the columns, a ``pyarrow.Schema``."""
    pa = arrow()
    columns = [
        ("address", pa.string()),
        ("time", pa.timestamp("ms", tz="UTC")),
        ("slots", pa.list_(pa.int64())),
        ("payload", pa.binary()),
    ]
    columns += [
        (name, pa.binary() if CONTENT[name].shape else pa.int64()) for name in CONTENT.names or ()
    ]
    return pa.schema(columns)


def to_arrow(pages: Pages) -> Any:
    """Pages as a ``pyarrow.RecordBatch`` of :func:`schema`."""
    pa = arrow()
    seconds = pages.times.astype(np.int64)
    columns: list[Any] = [
        pa.array(
            [None if raw is None else raw.decode("utf-8", "replace") for raw in pages.addresses],
            pa.string(),
        ),
        pa.array(seconds * 1000, pa.int64(), mask=seconds == 0).cast(pa.timestamp("ms", tz="UTC")),
        pa.ListArray.from_arrays(
            pa.array(pages.starts.astype(np.int32)), pa.array(pages.bucket_keys.astype(np.int64))
        ),
        pa.array(list(pages.payloads), pa.binary()),
    ]
    for name in CONTENT.names or ():
        column = np.ascontiguousarray(pages.content[name])
        if not CONTENT[name].shape:
            columns.append(pa.array(column.astype(np.int64)))
            continue
        starts = np.arange(len(pages) + 1, dtype=np.int32) * CONTENT[name].itemsize
        buffers = [None, pa.py_buffer(starts), pa.py_buffer(column.tobytes())]
        columns.append(pa.BinaryArray.from_buffers(pa.binary(), len(pages), buffers))
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def from_arrow(batch: Any) -> Pages:
    """Pages of a ``pyarrow.RecordBatch`` of :func:`schema`.

    :raises ValueError: a column does not hold what it should
    """
    content = np.zeros(batch.num_rows, CONTENT)
    for name in CONTENT.names or ():
        column = batch.column(name)
        if column.null_count:
            raise ValueError(f"the column {name} has nulls")
        if not CONTENT[name].shape:
            content[name] = column.to_numpy().astype(CONTENT[name])
            continue
        raw = _fixed(column, CONTENT[name].itemsize)
        if raw is None:
            raise ValueError(f"the column {name} has values of another length")
        content[name] = raw.view(CONTENT[name].base).reshape(content[name].shape)
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


def _fixed(column: Any, size: int) -> NDArray[np.uint8] | None:
    """The bytes of a binary column; None if a value has not ``size`` of them."""
    starts = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]
    if (np.diff(starts) != size).any():
        return None
    raw = column.buffers()[2]
    return np.frombuffer(raw if raw else b"", np.uint8)[starts[0] : starts[-1]]


class Checksum:
    """A checksum of pages, whatever parts they come in."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns = [blake2b(digest_size=16) for _ in range(_COLUMNS)]

    def add(self, pages: Pages) -> None:
        """Take in further pages."""
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
        """The checksum of all pages so far."""
        return blake2b(b"".join(c.digest() for c in self._columns), digest_size=16).hexdigest()


def _lengths(values: Sequence[bytes | None]) -> bytes:
    """Lengths of values, -1 where there is none."""
    lengths = (-1 if value is None else len(value) for value in values)
    return np.fromiter(lengths, "<i4", len(values)).tobytes()
