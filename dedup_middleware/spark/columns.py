"""Conversions between Arrow columns and the arrays that methods judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from dedup_middleware.index.pages import packed_keys, starts_of
from dedup_middleware.index.pairing import BITS, NOTHING, WORDS
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import ContentByEvidence
from dedup_middleware.methods.content_rule import most_lacking
from dedup_middleware.model.buckets import BucketKeys
from dedup_middleware.model.fingerprint import Fingerprint, Signature, Wording
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature.evidence import make_evidence

_NO_MINIMA = np.empty(0, np.uint32)
_NOTHING = bytes(CONTENT.itemsize)
_NO_BANDS = np.empty(0, np.uint64)
NO_SIEVE: Final = bytes(8 * WORDS)
EVERY_PAIR: Final = 2.0  # larger than the share of any page
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - BITS.bit_length() + 1)  # the top ten bits of a hash
# The rule counts the shingles that evidence reports as lacking. False positives are not among them,
# and repeated shingles, up to a tenth of a page, are counted every time.
_REPEATED: Final = 0.9
_MISTAKEN: Final = 0.05


def to_content(column: Any) -> NDArray[np.void]:
    """Convert a binary column to CONTENT[n]; a null becomes zeros."""
    raw = b"".join(value or _NOTHING for value in column.to_pylist())
    if len(raw) != len(column) * CONTENT.itemsize:
        raise ValueError(f"records of {CONTENT.itemsize} bytes expected")
    return np.frombuffer(raw, CONTENT)


def to_places(bucket_keys: Sequence[BucketKeys]) -> Any:
    """Convert the bucket keys of n pages to a list column, packed as by :func:`.packed_keys`."""
    starts = starts_of(np.array([len(one) for one in bucket_keys], np.int64))
    return pa.ListArray.from_arrays(
        pa.array(starts.astype(np.int32)), pa.array(packed_keys(bucket_keys).astype(np.int64))
    )


def numbers(session: SparkSession, **columns: Iterable[int | None]) -> DataFrame:
    """Make a table of integers on the driver, from Arrow: rows of Python objects would start a
    second daemon with its own workers."""
    made = {name: pa.array(list(values), pa.int64()) for name, values in columns.items()}
    return session.createDataFrame(pa.table(made))


def batches_of(rows: Iterable[tuple[Any, ...]], count: int, schema: Any) -> Iterator[Any]:
    """Yield rows as Arrow batches of at most ``count`` rows."""
    left = iter(rows)
    while some := list(islice(left, count)):
        columns = zip(zip(*some, strict=True), schema, strict=True)
        arrays = [pa.array(list(values), field.type) for values, field in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def words(column: Any) -> NDArray[np.int64]:
    """Convert an integer column without nulls to int64[n]."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def flat(column: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Convert a column of n integer lists to starts, int64[n + 1], and all values."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    starts = np.asarray(column.offsets.to_numpy(), np.int64)
    numbers = column.values.slice(starts[0], starts[-1] - starts[0])
    return starts - starts[0], words(numbers)


def fixed(column: Any, width: int) -> NDArray[np.int64]:
    """Convert a binary column of n values of ``8 * width`` bytes to int64[n, width]."""
    return np.frombuffer(b"".join(column.to_pylist()), np.int64).reshape(len(column), width)


def whole_groups(batches: Iterable[Any], *names: str) -> Iterator[Any]:
    """Yield sorted batches as tables that never split rows with equal values in ``names``."""
    # Batches of the last group are only joined when it is complete, as it may have any number.
    kept: list[Any] = []
    group: list[int] = []
    for batch in filter(len, batches):
        values = [words(batch.column(name)) for name in names]
        ends = [int(one[-1]) for one in values]
        of_last = np.all([one == end for one, end in zip(values, ends, strict=True)], axis=0)
        last = int(np.flatnonzero(of_last)[0])
        if kept and (last or group != ends):
            # A batch that begins with the group goes on with it.
            yield pa.Table.from_batches([*kept, batch.slice(0, last)]).combine_chunks()
            kept = []
        elif last:
            yield pa.Table.from_batches([batch.slice(0, last)]).combine_chunks()
        kept.append(batch.slice(last))
        group = ends
    if kept:
        yield pa.Table.from_batches(kept).combine_chunks()


def runs_of(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of equal values.

    >>> list(runs_of(np.array([5, 5, 7])))
    [(0, 2), (2, 3)]
    """
    if not len(values):
        return
    firsts = np.flatnonzero(np.diff(values, prepend=values[0] - 1)).tolist()
    yield from pairwise([*firsts, len(values)])


def matrix(column: Any) -> NDArray[np.int64]:
    """Convert a column of n integer lists to int64[n, m]; short lists are padded with NOTHING."""
    starts, numbers = flat(column)
    counts = np.diff(starts)
    rows = np.full((len(counts), int(counts.max(initial=0))), NOTHING, np.int64)
    rows[np.arange(rows.shape[1]) < counts[:, None]] = numbers
    return rows


def judged_by(method: Method, page: Fingerprint) -> bytes:
    """Return what a method needs besides the page record, as the column ``judged``."""
    if isinstance(method, ContentByEvidence):
        return page.wording.to_bytes()
    return page.payload


def kept_of(method: Method, judged: bytes) -> bytes:
    """Return the payload of a page, computed from its column ``judged``."""
    if isinstance(method, ContentByEvidence):
        return make_evidence(Wording.from_bytes(judged)) if judged else b""
    return judged


def page_of(method: Method, content: NDArray[np.void], judged: bytes) -> Fingerprint:
    """Rebuild the part of a fingerprint that a method judges, from CONTENT[1] and ``judged``."""
    record = content[0]
    worded = isinstance(method, ContentByEvidence)
    return Fingerprint(
        key="",
        key_hash=int(record["key"]),
        exact=int(record["exact"]),
        size=int(record["size"]),
        simhash=int(record["simhash"]),
        minhash=_NO_MINIMA,
        sketch=np.ascontiguousarray(record["sketch"]),
        bands=_NO_BANDS,
        figures=np.ascontiguousarray(record["figures"]),
        clauses=np.ascontiguousarray(record["clauses"]),
        host=int(record["host"]),
        title=int(record["title"]),
        signature=Signature((), judged) if judged and not worded else None,
        wording=Wording.from_bytes(judged if worded else b""),
    )


def make_sieve(method: Method, page: Fingerprint) -> bytes:
    """Return a small Bloom filter of a page's shingles that rules out candidates before judging.

    It has one hash, so a bit that is set for the page but not for the candidate proves that the
    candidate lacks a shingle of the page. With over 600 shingles it is too full to prove much.

    :returns: ``8 * WORDS`` bytes: host, shingles, filter; zeros if wordings are not compared
    """
    if not isinstance(method, ContentByEvidence) or not len(page.wording.order):
        return NO_SIEVE
    bits = np.zeros(BITS, np.bool_)
    bits[(page.wording.order * _SPREAD) >> _SHIFT] = True
    head = np.array((page.host, page.size), np.uint64)
    return head.tobytes() + np.packbits(bits).tobytes()


def limit_of(method: Method) -> float:
    """Return the largest share of a duplicate's shingles that the candidate's sieve may lack."""
    if not isinstance(method, ContentByEvidence):
        return EVERY_PAIR
    return most_lacking(method.threshold) / _REPEATED + _MISTAKEN
