"""Between columns of Arrow and the arrays that a method judges by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup_middleware.index.pages import packed_keys, starts_of
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import ContentByEvidence
from dedup_middleware.model.buckets import BucketKeys
from dedup_middleware.model.fingerprint import Fingerprint, Signature, Wording
from dedup_middleware.model.records import CONTENT
from dedup_middleware.spark.pairing import BITS, NOTHING, WORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_MINIMA = np.empty(0, np.uint32)
_NOTHING = bytes(CONTENT.itemsize)
_NO_BANDS = np.empty(0, np.uint64)
NO_SIEVE: Final = bytes(8 * WORDS)
EVERY_PAIR: Final = 2.0  # a limit that no page exceeds
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - BITS.bit_length() + 1)  # the first ten bits name one of BITS
# The rule counts shingles by evidence: some are taken for held that are not, and repeated ones, up
# to a tenth, count each time.
_REPEATED: Final = 0.9
_MISTAKEN: Final = 0.05


def to_content(column: Any) -> NDArray[np.void]:
    """CONTENT[n] of a binary column; zeros for a null."""
    raw = b"".join(value or _NOTHING for value in column.to_pylist())
    if len(raw) != len(column) * CONTENT.itemsize:
        raise ValueError(f"records of {CONTENT.itemsize} bytes expected")
    return np.frombuffer(raw, CONTENT)


def to_places(bucket_keys: Sequence[BucketKeys]) -> Any:
    """Bucket keys of n pages as a column of n lists, packed as by :func:`.packed_keys`."""
    starts = starts_of(np.array([len(one) for one in bucket_keys], np.int64))
    return pa.ListArray.from_arrays(
        pa.array(starts.astype(np.int32)), pa.array(packed_keys(bucket_keys).astype(np.int64))
    )


def numbers(session: SparkSession, **columns: Iterable[int | None]) -> DataFrame:
    """A table of whole numbers on the driver.

    As Arrow: rows of Python objects would start a second daemon with workers of its own.
    """
    made = {name: pa.array(list(values), pa.int64()) for name, values in columns.items()}
    return session.createDataFrame(pa.table(made))


def batches_of(rows: Iterable[tuple[Any, ...]], count: int, schema: Any) -> Iterator[Any]:
    """Rows as batches of Arrow, so many in each at the most."""
    left = iter(rows)
    while some := list(islice(left, count)):
        columns = zip(zip(*some, strict=True), schema, strict=True)
        arrays = [pa.array(list(values), field.type) for values, field in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def words(column: Any) -> NDArray[np.int64]:
    """A column of whole numbers without nulls."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def flat(column: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A column of n lists of whole numbers: starts int64[n + 1], and all numbers."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    starts = np.asarray(column.offsets.to_numpy(), np.int64)
    numbers = column.values.slice(starts[0], starts[-1] - starts[0])
    return starts - starts[0], words(numbers)


def fixed(column: Any, width: int) -> NDArray[np.int64]:
    """A binary column of n values of ``8 * width`` bytes without nulls, int64[n, width]."""
    return np.frombuffer(b"".join(column.to_pylist()), np.int64).reshape(len(column), width)


def whole_groups(batches: Iterable[Any], *names: str) -> Iterator[Any]:
    """Tables of sorted batches, cut so that rows equal in these columns are in one."""
    kept = None
    for batch in batches:
        rows = pa.Table.from_batches([batch] if kept is None else [*kept.to_batches(), batch])
        last = 0
        if len(rows):
            values = [words(rows.column(name)) for name in names]
            last = int(np.flatnonzero(np.all([one == one[-1] for one in values], axis=0))[0])
        if last:
            yield rows.slice(0, last).combine_chunks()
        kept = rows.slice(last)
    if kept is not None and kept.num_rows:
        yield kept.combine_chunks()


def runs_of(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and end of each run of equal values.

    >>> list(runs_of(np.array([5, 5, 7])))
    [(0, 2), (2, 3)]
    """
    if not len(values):
        return
    firsts = np.flatnonzero(np.diff(values, prepend=values[0] - 1)).tolist()
    yield from pairwise([*firsts, len(values)])


def matrix(column: Any) -> NDArray[np.int64]:
    """A column of n lists of whole numbers as int64[n, m]; shorter ones are filled up with
    NOTHING."""
    starts, numbers = flat(column)
    counts = np.diff(starts)
    rows = np.full((len(counts), int(counts.max(initial=0))), NOTHING, np.int64)
    rows[np.arange(rows.shape[1]) < counts[:, None]] = numbers
    return rows


def judged_by(method: Method, page: Fingerprint) -> bytes:
    """What a method judges a page by in addition to its record, as one column holds it."""
    if isinstance(method, ContentByEvidence):
        return page.wording.to_bytes()
    return page.payload


def kept_of(method: Method, judged: bytes) -> bytes:
    """The payload of a page, from what it is judged by."""
    if isinstance(method, ContentByEvidence):
        from dedup_middleware.signature.evidence import make_evidence

        return make_evidence(Wording.from_bytes(judged)) if judged else b""
    return judged


def page_of(method: Method, content: NDArray[np.void], judged: bytes) -> Fingerprint:
    """As much of a fingerprint as a method judges by.

    :param content: CONTENT[1]
    :param judged: what :func:`judged_by` returns
    """
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
    """A few bits of a page, which show before it is judged what it can't be a duplicate of.

    Most pages that share a clause or a band have little else in common, and to judge them their
    whole wordings would be moved. A sieve is a Bloom filter of the shingles of a page with one
    hash: a bit that a page has and a candidate lacks proves a shingle that the candidate lacks. A
    page with more of these than the rule allows is no duplicate of the candidate, whatever the rest
    says. Of a page with over 600 shingles a sieve is too full to prove much; such pairs are judged.

    :returns: ``8 * WORDS`` bytes; zeros where the method compares no wordings
    """
    if not isinstance(method, ContentByEvidence) or not len(page.wording.order):
        return NO_SIEVE
    bits = np.zeros(BITS, np.bool_)
    bits[(page.wording.order * _SPREAD) >> _SHIFT] = True
    head = np.array((page.host, page.size), np.uint64)
    return head.tobytes() + np.packbits(bits).tobytes()


def limit_of(method: Method) -> float:
    """The share of its shingles that a duplicate may lack in a sieve, at the most."""
    if not isinstance(method, ContentByEvidence):
        return EVERY_PAIR
    from dedup_middleware.methods.content_rule import most_lacking

    return most_lacking(method.threshold) / _REPEATED + _MISTAKEN
