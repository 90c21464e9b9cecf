"""Few pages are decided without Spark's steps, as the crawl decides them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dedup_middleware import Options
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import SIMHASH_TABLES, simhash_bucket_keys
from dedup_middleware.spark import Job, alone, deduplicate, verdicts
from dedup_middleware.spark.__main__ import spark_errors
from dedup_middleware.spark.reading import ordered_runs
from dedup_middleware.spark.signing import BASE, PREFIX, Task, sign
from dedup_middleware.spark.stages import SparkError, Work, cuts_of
from tests.spark.streams import Row, Seen, crawled, stream
from tests.spark.test_parity import CASES, OPTIONS, crawl, decided, pages, table

NAMES = {name: f"{PREFIX}{name}" for name in alone.EVERY}
NAMES["order"] = f"{PREFIX}position"
PLACED = ("url", "title", "text", BASE)


def signed(folder: Path, rows: Sequence[Row], options: Options, parts: Sequence[range]) -> Any:
    """Files with the fingerprints of some rows each."""
    task = Task(PLACED, options, "first", "date", {}, counts=False)
    for number, part in enumerate(parts):
        given = [{**rows[i], BASE: i} for i in part]
        columns = {name: [row[name] for row in given] for name in PLACED}
        batches = list(sign([pa.RecordBatch.from_pydict(columns)], task))
        pq.write_table(pa.Table.from_batches(batches), folder / f"part-{number}.parquet")
    return sorted(folder.glob("part-*.parquet"))


def at_once(work: Work, rows: Any, schema: Any) -> Any:
    """In place of parts for workers, which are not empty."""
    if not len(rows):
        return schema.empty_table()
    return pa.Table.from_batches(list(work(rows)), schema)


def seen(matches: Any, rows: Sequence[Row]) -> list[Seen]:
    """The verdicts, by the places of the pages; the rows are those of a stream."""
    found = {
        row["order"]: Seen(
            row["outcome"], row["match"], rows[row["match"]]["url"], row["reason"],
            round(row["similarity"], 9), tuple(row["tables"]),
        )
        for row in matches.to_pylist()
    }  # fmt: skip
    return [found.get(i, Seen("new" if row["text"] else "empty")) for i, row in enumerate(rows)]


@pytest.fixture(scope="module")
def case_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """The pages of a case with their fingerprints, in files that its tests share."""

    @cache
    def files(name: str) -> Any:
        options = attrs.evolve(OPTIONS, **CASES[name])
        parts = [range(200, 400), range(100, 200), range(100)]
        return signed(tmp_path_factory.mktemp("signed"), pages(name), options, parts)

    return files


@pytest.mark.parametrize("most_rows", [alone._MOST_ROWS, 3])
@pytest.mark.parametrize("name", [name for name in CASES if name != "content-probes"])
def test_same_verdicts_as_the_crawl(
    case_files: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, name: str, most_rows: int
) -> None:
    """Page for page, whatever file a page is in, and however many are judged at once."""
    monkeypatch.setattr(alone, "_MOST_ROWS", most_rows)
    options = attrs.evolve(OPTIONS, **CASES[name])
    matches = alone.matches(case_files(name), NAMES, options, Job(output=""), at_once)
    assert matches.schema.equals(verdicts.MATCHES)
    assert matches.num_rows > 40
    assert seen(matches, pages(name)) == crawl(name)


def test_what_spark_has_to_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that one task does not hold, more pairs than memory, and files in too many parts."""
    rows, job = stream(120, seed=7), Job(output="")
    files = signed(tmp_path, rows, OPTIONS, [range(0, 120, 2), range(1, 120, 2)])
    assert alone.matches(files, NAMES, OPTIONS, job, at_once) is None  # the files overlap
    files = signed(tmp_path, rows, OPTIONS, [range(60), range(60, 120)])
    assert alone.matches(files, NAMES, OPTIONS, attrs.evolve(job, hot=2), at_once) is None
    assert alone.matches(files, NAMES, OPTIONS, job, at_once).num_rows > 10
    for size, runs in ((10, 7), (1, None)):
        parts = [pq.read_table(files[0]).slice(i, size) for i in range(60 - size, -1, -size)]
        pq.write_table(pa.concat_tables(parts), tmp_path / "backwards")
        found = ordered_runs([tmp_path / "backwards", files[1]], NAMES)
        assert (None if found is None else len(found.runs)) == runs
    with monkeypatch.context() as patch:
        patch.setattr(alone, "_MOST_BYTES", 1000)
        assert alone.matches(files, NAMES, OPTIONS, job, at_once) is None
    monkeypatch.setattr(alone, "_MOST_FOUND", 5)
    assert alone.matches(files, NAMES, OPTIONS, job, at_once) is None


def test_a_key_like_the_name_of_a_bucket_pairs_nothing() -> None:
    """The number of a page's key may be that of a bucket of a SimHash table."""
    simhash = 0xBEEF_1234_5678_9ABC
    simhashes = [0x0123_4567_89AB_CDEF, simhash, simhash ^ 1, simhash ^ 0xFFFF_FFFF_FFFF]
    for first in (0x7776 << 24, SIMHASH_TABLES[0] << 16 | 0xBEEF):
        keys = [first, *(0x7777 << 24 | i for i in range(3))]
        places = [
            [*(key.bucket << 24 | key.suffix >> 24 for key in simhash_bucket_keys(one)), own]
            for one, own in zip(simhashes, keys, strict=True)
        ]
        orders = np.arange(4, dtype=np.int64)
        pages = alone.Pages(
            orders, orders, orders, np.array(keys), np.array(simhashes, np.uint64),
            5 * np.arange(5), np.array(places).ravel(), np.zeros((4, alone.WORDS), np.uint64),
        )  # fmt: skip
        method = choose_method(Options(method="simhash"))
        found = alone.candidate_rows(pages, Job(output=""), method)
        assert found is not None
        assert found.tolist() == [[2, 1]]


def test_nothing_to_decide(tmp_path: Path) -> None:
    """No page has a text."""
    rows = [{"url": "https://a/", "title": "", "text": ""}]
    files = signed(tmp_path, rows, OPTIONS, [range(1)])
    assert alone.matches(files, NAMES, OPTIONS, Job(output=""), at_once).num_rows == 0


@pytest.mark.parametrize(("order_by", "revisit"), [(None, "drop"), ("place", "keep")])
async def test_both_ways_write_the_same(
    spark: SparkSession, tmp_path: Path, order_by: str | None, revisit: str
) -> None:
    """The same tables whether this process decides or Spark does, and in the order of a column the
    crawl's decisions; what was decided stays."""
    rows = stream(150, seed=5)
    options = attrs.evolve(OPTIONS, revisit=revisit)
    by_crawl = await crawled(rows, options)
    again = [place for place, one in enumerate(by_crawl) if one.outcome == "revisit"]
    assert len(again) == 4
    found = []
    for limit in (0, 10**6):
        notes: list[str] = []
        job = Job(output=str(tmp_path / f"{limit}"), order_by=order_by, partitions=2, alone=limit)
        result = deduplicate(table(spark, rows), options, job, notes.append)
        assert ("work/alone" in notes) == bool(limit)
        names = ("order", "key", "match", "match_key", "outcome", "reason", "similarity",
                 "jaccard", "distance", "tables")  # fmt: skip
        dropped = [tuple(row[name] for name in names) for row in result.duplicates.collect()]
        clusters = sorted(map(repr, result.clusters.collect()))
        found.append((sorted(dropped, key=lambda row: int(row[0])), clusters))
        assert (tmp_path / f"{limit}" / "work" / "edges").exists() == (limit == 0)
        if order_by:
            # What is seen again unchanged is kept, which a job calls new.
            expected = [Seen("new") if i in again else one for i, one in enumerate(by_crawl)]
            assert decided(result, rows) == expected
        assert result.numbers["read"] == 150 == result.kept.count() + len(dropped)
    assert found[0] == found[1]
    assert min(map(len, found[0])) > 10


@pytest.mark.parametrize("step", ["judge_pairs", "match_pages"])
def test_a_worker_that_dies_ends_the_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """No page is lost: there is no result, and the same job goes on from its fingerprints."""
    rows = stream(150, seed=5)
    output = tmp_path / "out"
    job = Job(output=str(output), order_by="place", partitions=2)
    table(spark, rows).write.parquet(str(tmp_path / "pages"))
    pages = spark.read.parquet(str(tmp_path / "pages"))

    def dying(*_: Any) -> Iterator[Any]:
        yield from ()
        os._exit(3)

    with monkeypatch.context() as patch:
        patch.setattr(alone, step, dying)
        with pytest.raises(Exception, match="Python worker exited unexpectedly"):
            deduplicate(pages, OPTIONS, job)
    assert {path.name for path in (output / "work").iterdir()} == {"pages", "ordered"}
    before = (output / "work" / "ordered" / "_SUCCESS").stat().st_mtime_ns
    result = deduplicate(pages, OPTIONS, job)
    assert (output / "work" / "ordered" / "_SUCCESS").stat().st_mtime_ns == before
    numbers = result.numbers
    assert numbers["read"] == 150 == numbers["kept"] + numbers["duplicates"]
    assert numbers["duplicates"] > 10


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_parts_are_whole(pages: list[int], count: int) -> None:
    """Every row is in one part, none of which is empty, and a page is in one alone."""
    rows = np.array(sorted(pages), np.int64)
    cuts = cuts_of(rows, count)
    assert (cuts[0], cuts[-1]) == (0, len(rows))
    assert len(cuts) - 1 <= count
    parts = [rows[start:stop].tolist() for start, stop in pairwise(cuts)]
    assert all(parts)
    assert all(one[-1] < other[0] for one, other in pairwise(parts))


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12))
def test_portions(pages: list[int], most: int) -> None:
    """Rows of pages come in order, each once, with all of its page; few unless a page has more."""

    class Source:
        def chosen(self, orders: Any, _: Any) -> Iterator[Any]:
            for some in (orders[:4], orders[4:]):
                if len(some):
                    yield pa.RecordBatch.from_pydict({"order": some})

    page = np.sort(np.array(pages, np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alone, "_MOST_ROWS", most)
        found = list(alone._portions(Source(), page))  # type: ignore[arg-type]
    assert [row for _, start, stop in found for row in range(start, stop)] == [*range(len(page))]
    for batch, start, stop in found:
        orders = batch.column("order").to_pylist()
        assert orders == sorted(set(page[start:stop].tolist()))
        assert stop - start <= most or len(orders) == 1


def test_a_full_disk_is_one_line() -> None:
    """A file that can't be written ends a job with one line."""
    with pytest.raises(SparkError, match="No space left"), spark_errors("the job"):
        raise OSError(28, "No space left on device")


def test_a_limit_that_can_not_be_used() -> None:
    """The message says what can."""
    with pytest.raises(SparkError, match=r"alone=-1 can't be used: give 0 \(none\) or more"):
        Job(output="", alone=-1)
