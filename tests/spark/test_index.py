"""From a batch to a crawl, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.base.errors import IndexRefusedError, OptionsError
from dedup_middleware.index.opening import open_index
from dedup_middleware.spark import Job
from dedup_middleware.spark.__main__ import main
from dedup_middleware.spark.job import finish, load, start, with_key_of_index, write_index_file
from dedup_middleware.spark.signing import BASE, Source
from dedup_middleware.spark.steps import Steps
from dedup_middleware.tools.portable.portable import export_index
from tests.spark.streams import Row, crawled, stream, written


def steps_of(spark: SparkSession, rows: list[Row], options: Options, job: Job) -> Steps:
    """A job over some pages, in their order."""
    numbered = [{**row, BASE: i} for i, row in enumerate(rows)]
    names = f"url string, title string, text string, {BASE} bigint"
    source = Source(rows=spark.createDataFrame(numbered, names), identity="test")
    return start(source, options, job)


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_the_crawl_goes_on(
    spark: SparkSession, tmp_path: Path, redis_url: str, kind: str
) -> None:
    """After a load the crawl decides as if it had met the pages of the batch itself."""
    url = redis_url if kind == "redis" else f"sqlite:{tmp_path / 'index.db'}"
    options = Options(index_url=url)
    async with Deduplicator(options):
        pass  # an index with a random key, which the job takes over
    options = await with_key_of_index(options, open_index(options))
    rows = stream(160, seed=11)
    steps = steps_of(spark, rows[:120], options, Job(output=str(tmp_path / "out"), partitions=2))
    async with open_index(options) as index:
        first = await load(steps, index)
        again = await load(steps, index)
    assert (again.pages, again.known) == (0, first.pages)
    expected = await crawled(rows, options)
    assert first.pages == sum(one.outcome == "new" for one in expected[:120])
    async with Deduplicator(options) as dedup:
        for row, one in zip(rows[120:], expected[120:], strict=True):
            verdict = await dedup.decide(Document(row["url"], row["title"], row["text"]))
            await dedup.commit(verdict)
            match = None if verdict.match is None else verdict.match.key
            assert (verdict.outcome, match) == (one.outcome, one.match_key)


def test_an_index_file_of_a_result_that_is_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """At an address that Hadoop knows and Arrow does not, as ``s3a:``."""
    (tmp_path / "there").mkdir()
    settings = spark._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.other.link./there", f"file://{tmp_path}/there")
    rows, options = stream(60, seed=17), Options(hash_key="5")
    found = []
    for output in ("viewfs://other/there/out", str(tmp_path / "here")):
        steps = steps_of(spark, rows, options, Job(output=output, partitions=2))
        written = write_index_file(steps, tmp_path / "index.parquet")
        found.append((written.checksum, finish(steps).numbers))
    assert found[0] == found[1]
    assert (tmp_path / "there" / "out" / "job.json").exists()


async def test_new_pages_against_an_exported_index(spark: SparkSession, tmp_path: Path) -> None:
    """Pages of the index are kept already: verdicts are those of the crawl that goes on."""
    options = Options(index_url=f"sqlite:{tmp_path / 'index.db'}", hash_key="5")
    rows = stream(200, seed=13)
    async with Deduplicator(options) as dedup:
        for row in rows[:120]:
            await dedup.commit(await dedup.decide(Document(row["url"], row["title"], row["text"])))
    async with open_index(options) as index:
        await export_index(index, tmp_path / "old.parquet")
    job = Job(output=str(tmp_path / "out"), against=str(tmp_path / "old.parquet"), partitions=2)
    # The key of the hashes is that of the file.
    result = finish(steps_of(spark, rows[120:], Options(), job))
    found: dict[str, list[Any]] = {"new": [], "dropped": []}
    for row in result.duplicates.sort("order").collect():
        found["dropped"].append((row["order"] + 120, row["match_key"], row["outcome"]))
    expected = await crawled(rows, options)
    assert found["dropped"] == [
        (place, one.match_key, one.outcome)
        for place, one in enumerate(expected)
        if place >= 120 and one.match is not None
    ]
    assert result.duplicates.where("match < 0").count() > 5


async def test_a_new_index_needs_a_key(tmp_path: Path) -> None:
    """A job must know the key before there is an index; one that exists tells its own."""
    options = Options(index_url=f"sqlite:{tmp_path / 'index.db'}")
    with pytest.raises(OptionsError, match="DEDUP_HASH_KEY"):
        await with_key_of_index(options, open_index(options))
    async with Deduplicator(options):
        pass
    known = await with_key_of_index(options, open_index(options))
    assert int(known.hash_key, 16) > 1


async def test_an_index_that_does_not_fit(tmp_path: Path) -> None:
    """Is refused before the job, not after: other parameters, another key than that of the file
    to compare with, no index at all."""
    urls = [f"sqlite:{tmp_path / name}.db" for name in "ab"]
    for url in urls:
        async with Deduplicator(Options(index_url=url)):
            pass
    async with open_index(Options(index_url=urls[0])) as index:
        await export_index(index, tmp_path / "a.parquet")
    file = str(tmp_path / "a.parquet")
    first, second = (Options(index_url=url) for url in urls)
    known = await with_key_of_index(first, open_index(first), file)
    assert known == await with_key_of_index(first, open_index(first))
    for more, match in (
        ({"shingle_width": 4}, "DEDUP_SHINGLE_WIDTH"), ({"method": "simhash"}, "DEDUP_METHOD")
    ):  # fmt: skip
        options = Options(index_url=urls[0], **more)
        with pytest.raises(IndexRefusedError, match=f"can't be loaded(?s:.*){match}"):
            await with_key_of_index(options, open_index(options))
    with pytest.raises(IndexRefusedError, match=r"another key than .*a\.parquet: export"):
        await with_key_of_index(second, open_index(second), file)
    (tmp_path / "c.db").write_text("no index" * 200)
    none = Options(index_url=f"sqlite:{tmp_path / 'c.db'}", hash_key="5")
    with pytest.raises(IndexRefusedError, match=r"c\.db"):
        await with_key_of_index(none, open_index(none))


def test_no_other_file_is_replaced_by_an_index_file(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the input, the index of ``--against`` or any other; only a job that is started again
    finds the file that it has written. Nor is it written among the tables of the output."""
    path = written(tmp_path, 40).rename(tmp_path / "pages.json.gz.txt")
    index, other = tmp_path / "index.parquet", tmp_path / "other.parquet"

    def done(file: Path, output: str = "out", *more: str) -> str:
        words = [str(path), "-o", str(tmp_path / output), "--format", "jsonl", "--index-file"]
        code = main([*words, str(file), "--master", "local[2]", "-s", "DEDUP_HASH_KEY=5", *more])
        error = capsys.readouterr().err
        assert code == bool(error)
        return error

    before = path.read_bytes()
    assert "is a file of the input" in done(path)
    assert "not as csv" in done(tmp_path / "index.csv")
    assert "none/index.parquet can't be written" in done(tmp_path / "none" / "index.parquet")
    assert "is in the output folder" in done(tmp_path / "out" / "index.parquet")
    other.write_text("mine")
    assert "other.parquet exists: name another file, or remove it" in done(other)
    assert not (tmp_path / "out").exists()
    assert done(index) == ""
    stored = index.read_bytes()
    assert done(index) == ""
    assert "exists: name another file" in done(other)
    assert "exists: name another file" in done(index, "other")
    assert "is the index of --against=" in done(index, "other", "--against", str(index))
    assert done(other.with_name("new.parquet"), "other", "--against", str(index)) == ""
    assert "exists and does not hold these pages" in done(other.with_name("new.parquet"))
    half = len(stored) // 2
    index.write_bytes(
        stored[:half] + bytes(byte ^ 255 for byte in stored[half : half + 40]) + stored[half + 40 :]
    )
    assert "exists and does not hold these pages" in done(index)
    index.write_bytes(stored)
    assert (index.read_bytes(), path.read_bytes(), other.read_text()) == (stored, before, "mine")


@pytest.mark.parametrize("name", ["out-17:05", "a b%20#c"])
def test_folders_of_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """The index file is made of the tables in them."""
    job = Job(output=str(tmp_path / name), partitions=2)
    steps = steps_of(spark, stream(20, seed=3), Options(hash_key="5"), job)
    kept = finish(steps).numbers["kept"]
    assert write_index_file(steps, tmp_path / "index.parquet").pages == kept
