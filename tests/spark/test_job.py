"""A whole job: on a skewed input, from the command line, by the script of the documentation."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from dedup_middleware import Options
from dedup_middleware.evaluation.comparers import options_for
from dedup_middleware.evaluation.corpus import SourceDocument
from dedup_middleware.evaluation.stream import Decision, Truth
from dedup_middleware.evaluation.stream import deduplicate as crawl
from dedup_middleware.index.pages import packed_keys
from dedup_middleware.methods.base import probe_bucket_keys
from dedup_middleware.model.buckets import (
    KEY_TABLE,
    BucketKey,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.documents import Document
from dedup_middleware.spark import Job, deduplicate, stages
from dedup_middleware.spark.columns import EVERY_PAIR, NO_SIEVE
from dedup_middleware.spark.pair_blocks import (
    candidate_pairs,
    chunked,
    hot_keys,
    keyed,
    records,
    with_crowded,
)
from dedup_middleware.spark.stages import SparkError
from research import madeup
from research.protocols import zhou_documents
from tests.commands.running import dedup
from tests.docblocks import blocks
from tests.spark.streams import stream, written

ROOT = Path(__file__).parents[2]
PAGES = "order bigint, simhash bigint, slots array<bigint>"


def without_sieve() -> Column:
    """A column for pages all of whose pairs are judged."""
    return F.lit(bytearray(NO_SIEVE)).alias("sieve")


@pytest.mark.usefixtures("spark")
def test_the_command(tmp_path: Path) -> None:
    """`scrapy dedup spark` writes the tables, an index file, and says what it did. A folder that
    holds a result is not written over by a job with other options."""
    path, output = written(tmp_path, 60), tmp_path / "out"
    done = dedup(
        "spark", str(path), "-o", str(output), "--json", "--master", "local[2]",
        "--partitions", "2", "--index-file", str(tmp_path / "index.parquet"),
        DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'index.db'}", DEDUP_HASH_KEY="5",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert done.json["read"] == 60 == done.json["kept"] + done.json["duplicates"]
    assert 0 < done.json["index_file"]["pages"] <= done.json["kept"]
    refused = dedup("spark", str(path), "-o", str(output), "--load", DEDUP_INDEX_URL="memory:")
    assert refused.code == 1
    assert "name an index that stays" in refused.err
    words = ("spark", str(path), "-o", str(output), "--master", "local[2]", "--keep", "longest")
    other = dedup(*words, DEDUP_HASH_KEY="5")
    assert other.code == 1
    assert "holds the result of another input or of other options" in other.err
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(path.read_bytes())[:-100])
    failed = dedup("spark", str(cut), "-o", str(tmp_path / "cut"), "--master", "local[2]")
    assert failed.code == 1
    assert "the Spark job failed; started again, it continues after its last" in failed.err
    assert "cut.jsonl.gz" in failed.err
    assert "Unexpected end of input stream; repair or leave out this file" in failed.err
    assert "Traceback" not in failed.err
    (tmp_path / "list.json").write_text("[\n{}\n]\n")
    words = ("spark", str(tmp_path / "list.json"), "-o", str(tmp_path / "list"))
    rejected = dedup(*words, "--master", "local[2]")
    assert (rejected.code, "3 rejected" in rejected.out) == (1, True)
    assert f"the reasons are in {tmp_path / 'list' / 'rejects'}" in rejected.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", "4"), ("partitions", 2.5), ("hot", None), ("most", True), ("order_by", 5),
        ("date_field", None), ("against", 7), ("output", None), ("near", "yes"), ("keep", 1),
    ],
)  # fmt: skip
def test_arguments_of_another_type(name: str, value: Any) -> None:
    """They are refused by their names; those of Spark's own errors were no help."""
    with pytest.raises(SparkError, match=f"{name}={value!r} can't be used: give "):
        Job(**{"output": "out", name: value})


def test_paths_are_arguments() -> None:
    """As they are everywhere else."""
    job = Job(output=Path("out"), against=Path("a") / "b.parquet", partitions=np.int64(3))
    assert (job.output, job.against, job.partitions) == ("out", "a/b.parquet", 3)


@pytest.mark.parametrize("submitted", [False, True])
def test_workers_run_this_interpreter(monkeypatch: pytest.MonkeyPatch, submitted: bool) -> None:
    """Without a master and without ``spark-submit``, the workers' interpreter is this one, so a
    virtual environment need not be activated; ``spark-submit`` and the environment name their own.
    """
    seen: list[str | None] = []

    class Builder:
        def config(self, **_: object) -> Builder:
            return self

        def getOrCreate(self) -> None:
            seen.append(os.environ.get("PYSPARK_PYTHON"))

    class Session:
        builder = Builder()

    monkeypatch.setattr(stages, "SparkSession", Session)
    monkeypatch.setenv("PYSPARK_PYTHON", "other")
    stages.submitted_session()
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    stages.submitted_session()
    assert seen == ["other", None if submitted else sys.executable]


def test_tables_are_written_in_small_parts(spark: SparkSession, tmp_path: Path) -> None:
    """A task has a row group in Java's heap until it is written: on this machine none of 128 MB."""
    numbers = spark.range(0, 3_000_000, 1, 1).select(F.rand(1).alias("number"))
    numbers.write.parquet(str(tmp_path / "numbers"))
    (file,) = (tmp_path / "numbers").glob("part-*.parquet")
    metadata = pq.read_metadata(file)
    sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    assert sum(sizes) > 24_000_000
    assert max(sizes) < 18_000_000


def test_a_key_of_many_records_is_split(spark: SparkSession) -> None:
    """No task holds more than its share, no page gets more candidates than the limit."""
    count, hot, most = 20_000, 2_000, 40
    pages = spark.range(count).select(
        F.col("id").alias("order"),
        F.col("id").alias("last"),
        F.lit(0).cast("bigint").alias("simhash"),
        F.array(F.lit(7 << 40 | 5).cast("bigint")).alias("slots"),
        F.lit(None).cast("array<bigint>").alias("probes"),
        without_sieve(),
    )
    keys = hot_keys(keyed(pages), hot)
    assert list(keys.values()) == [count]
    found = records(with_crowded(pages, keys))
    blocks = chunked(found, keys, hot).groupBy("key", "block").count()
    # Chunks are drawn by a hash: of 1,000 each, give or take some thirty.
    assert blocks.agg(F.max("count")).first()[0] < hot * 1.1
    job = Job(output="", hot=hot, most=most)
    pairs = candidate_pairs(pages, job, 3, EVERY_PAIR, 4).groupBy("page").count()
    # The pages before a page may all be in its own chunk; from there on each has one.
    stated = pairs.agg(F.max("count"), F.count("*")).first()
    assert stated[0] <= 2 * most
    assert stated[1] == count - 1


def test_a_split_key_gets_its_own_share(spark: SparkSession) -> None:
    """Pages have as many candidates under a key, whether or not a larger one exists: the number of
    its chunks divided those of all keys."""

    def pages(start: int, count: int, key: int) -> DataFrame:
        return spark.range(start, start + count).select(
            F.col("id").alias("order"),
            F.col("id").alias("last"),
            F.lit(0).cast("bigint").alias("simhash"),
            F.array(F.lit(7 << 40 | key).cast("bigint")).alias("slots"),
            F.lit(None).cast("array<bigint>").alias("probes"),
            without_sieve(),
        )

    job, some = Job(output="", hot=100, most=64), pages(0, 300, 5)
    counts = [
        candidate_pairs(table, job, 3, EVERY_PAIR, 2).where("page < 300").count()
        for table in (some, some.union(pages(1000, 3000, 9)))
    ]
    assert counts[0] == counts[1] > 300 * 30


def test_a_page_with_25_000_exact_copies(spark: SparkSession, tmp_path: Path) -> None:
    """All of them are dropped against the first, over several batches; another page is kept."""
    (text, other), count = ([row["text"] for row in stream(40, seed=2) if row["text"]][:2]), 25_000
    pages = spark.range(count + 1).select(
        F.concat(F.lit("https://a/"), F.col("id")).alias("url"),
        F.when(F.col("id") == 7, F.lit(other)).otherwise(F.lit(text)).alias("text"),
        F.col("id").alias("place"),
    )
    job = Job(output=str(tmp_path / "out"), order_by="place", partitions=2, alone=0)
    result = deduplicate(pages, Options(hash_key="5"), job)
    assert [row["url"] for row in result.kept.sort("place").collect()] == [
        "https://a/0",
        "https://a/7",
    ]
    reported = result.duplicates.groupBy("match_key", "reason").count().collect()
    assert [tuple(row) for row in reported] == [("https://a/0", "exact-copy", count - 1)]


def test_a_split_bucket_loses_no_pair(spark: SparkSession) -> None:
    """SimHashes of one bucket: all pairs within the distance, each once, as in a plain loop."""
    rng = np.random.default_rng(3)
    low = rng.integers(0, 1 << 12, 900, dtype=np.uint64)
    values = (np.uint64(0x1234 << 48) | low * np.uint64(0x0001_0001_0001)).tolist()
    rows = [
        (
            i,
            int(np.uint64(v).astype(np.int64)),
            packed_keys([simhash_bucket_keys(v)]).tolist(),
        )
        for i, v in enumerate(values)
    ]
    pages = spark.createDataFrame(rows, PAGES).select(
        "*",
        F.col("order").alias("last"),
        F.lit(None).cast("array<bigint>").alias("probes"),
        without_sieve(),
    )
    found = candidate_pairs(pages, Job(output="", hot=100, most=10**6), 3, EVERY_PAIR, 2)
    near = {
        (i, j) for i in range(900) for j in range(i) if (values[i] ^ values[j]).bit_count() <= 3
    }
    pairs = [(row["page"], row["candidate"]) for row in found.collect()]
    assert len(pairs) == len(near) > 900
    assert set(pairs) == near


@pytest.mark.parametrize("crowded", [False, True])
def test_a_pair_comes_from_its_lowest_common_block(spark: SparkSession, crowded: bool) -> None:
    """Pages with many blocks in common are found, each pair once; what is cut off elsewhere too."""
    rng = np.random.default_rng(8)
    shared = hash_bucket_key(6, 5 << 50)  # what half of the pages have, more than a task looks at
    rows, simhashes, places = [], [], []
    for i in range(300):
        words = rng.integers(0, 6, 4).tolist()
        simhash = sum(word << 48 - 16 * j for j, word in enumerate(words))
        signed = i % 7 != 0
        key = hash_bucket_key(KEY_TABLE, int(rng.integers(0, 30)) << 50)
        bands = [hash_bucket_key(7 + j, int(n) << 50) for j, n in enumerate(rng.integers(0, 40, 4))]
        bucket_keys = [key, *(simhash_bucket_keys(simhash) if signed else ()), *bands]
        bucket_keys += [shared] if i % 2 else []
        probes = probe_bucket_keys(simhash, (48, 16, 0)) if signed and i % 3 == 0 else ()
        packed = packed_keys([probes]).tolist()
        rows.append((i, simhash, packed_keys([bucket_keys]).tolist(), packed or None))
        simhashes.append(simhash)
        places.append((set(bucket_keys), set(probes)))
    pages = spark.createDataFrame(rows, f"{PAGES}, probes array<bigint>").select(
        "*", F.col("order").alias("last"), without_sieve()
    )

    def met(i: int, j: int) -> set[BucketKey]:
        bits = (simhashes[i] ^ simhashes[j]).bit_count()
        (mine, probes), (theirs, _) = places[i], places[j]
        buckets = {one.bucket for one in theirs if one.is_simhash}
        return (
            {one for one in mine & theirs if not one.is_simhash}
            | {one for one in mine if one.is_simhash and one.bucket in buckets and bits <= 3}
            | {one for one in probes if one.bucket in buckets and bits <= 4}
        )

    expected = {(i, j): met(i, j) for i in range(300) for j in range(i)}
    job = Job(output="", most=100) if crowded else Job(output="")
    found = [tuple(row) for row in candidate_pairs(pages, job, 3, EVERY_PAIR, 2).collect()]
    assert len(found) == len(set(found)) > 10_000
    every = {pair for pair, blocks in expected.items() if blocks}
    sure = {pair for pair, blocks in expected.items() if blocks - {shared}}
    if crowded:
        assert sure <= set(found) < every
    else:
        assert set(found) == every
    several = [pair for pair in found if len(expected[pair]) > 1]
    assert len(several) > 1000


def test_the_protocol_of_zhou(spark: SparkSession, tmp_path: Path) -> None:
    """Five classes with known near-duplicates: the decisions and figures of one machine."""
    method = "content"
    lines = madeup.documents(260)
    documents = [
        SourceDocument(Document(one["key"], one["title"], one["text"]), one["category"])
        for one in lines
    ]
    arrivals = zhou_documents(documents, 5, 40, 50)
    options = attrs.evolve(options_for(Options(), method), hash_key="5", index_url="memory:")
    alone = crawl(options, arrivals)
    rows = [(i, a.document.key, a.document.title, a.document.text) for i, a in enumerate(arrivals)]
    table = spark.createDataFrame(rows, "place bigint, url string, title string, text string")
    job = Job(output=str(tmp_path / "out"), order_by="place", partitions=2)
    matched = {
        row["key"]: row["match_key"]
        for row in deduplicate(table, options, job).duplicates.collect()
    }
    together = [Decision(a, matched.get(a.document.key)) for a in arrivals]
    assert [d.match for d in together] == [d.match for d in alone]
    truth = Truth(arrivals)
    first, second = (truth.score(one, method, "arrival", 1, 0.0) for one in (alone, together))
    assert (first.right, first.dropped) == (second.right, second.dropped)
    assert first.right > 10


def test_the_script_of_the_documentation(spark: SparkSession, tmp_path: Path) -> None:
    """What docs/spark.md shows works on a table, here with its result in an empty folder."""
    (code,) = (one.code for one in blocks(ROOT / "docs" / "spark.md") if one.language == "python")
    assert 'output="clean"' in code
    text = "A text of some words, which is here twice. " * 4
    rows = [("https://one.example/1", "", text, 1), ("https://two.example/1", "", text, 2)]
    names = {"df": spark.createDataFrame(rows, ["url", "title", "text", "fetched"])}
    exec(code.replace('"clean"', repr(str(tmp_path / "clean"))), names)
    (kept,) = spark.read.parquet(str(tmp_path / "clean" / "kept")).collect()
    assert kept["url"] == "https://one.example/1"


def test_java_is_silent(tmp_path: Path) -> None:
    """A command that has started Java itself says in one line what can't be read."""
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * 999)[:-9])
    words = [str(tmp_path / "cut.jsonl.gz"), "-o", str(tmp_path / "out"), "--master", "local[1]"]
    done = subprocess.run(
        [sys.executable, "-m", "dedup_middleware.spark", *words],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "repair or leave out this file" in done.stderr.splitlines()[-1]
    assert "\tat " not in done.stderr


def test_workers_import_no_scrapy() -> None:
    """Scrapy and Twisted take a second and 47 MB of each worker."""
    script = (
        "import sys, dedup_middleware.spark.signing, dedup_middleware.spark.verdicts\n"
        "print(sorted({'scrapy', 'twisted', 'itemadapter'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"
