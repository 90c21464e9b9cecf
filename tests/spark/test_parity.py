"""The batch decides what the crawl decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import DataFrame, SparkSession

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.journal.entries import host_of, is_near_miss
from dedup_middleware.journal.writer import make_notes
from dedup_middleware.spark import Job, Result, deduplicate
from dedup_middleware.spark.columns import to_places
from dedup_middleware.spark.job import start
from dedup_middleware.spark.signing import BASE, Source
from tests.golden import FILE, KEY, documents, stored, vectors
from tests.methods.test_open_word import variants
from tests.spark.streams import Row, Seen, crawled, stream
from tests.texts import article

OPTIONS = Options(hash_key="5")
STORED = json.loads(FILE.read_text(encoding="utf-8"))


def table(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """Pages with their places, in two partitions and not in order."""
    numbered = [{**row, "place": i} for i, row in enumerate(rows)]
    names = "url string, title string, text string, place bigint"
    return spark.createDataFrame(numbered[::-1], names).repartition(2)


def decided(result: Result, rows: list[Row]) -> list[Seen]:
    """The verdicts of the batch, by the places of the pages."""
    places = {row["dedup_order"]: row["place"] for row in result.kept.collect()}
    dropped = result.duplicates.collect()
    found = {place: Seen("new" if rows[place]["text"] else "empty") for place in places.values()}
    # Orders ascend with places, and a page is kept or dropped.
    orders = sorted([*places, *(row["order"] for row in dropped)])
    assert len(orders) == len(rows)
    by_order = {order: place for place, order in enumerate(orders)}
    assert all(by_order[order] == place for order, place in places.items())
    for row in dropped:
        found[by_order[row["order"]]] = Seen(
            row["outcome"], by_order[row["match"]], row["match_key"], row["reason"],
            round(row["similarity"], 9), tuple(row["tables"]),
        )  # fmt: skip
    return [found[place] for place in range(len(rows))]


CASES: dict[str, dict[str, Any]] = {
    "content": {},
    "content-aggressive": {"preset": "aggressive"},
    "content-novelty": {"preset": "strict", "measure": "novelty"},
    "content-probes": {"probes": 4, "preset": "aggressive"},
    "simhash": {"method": "simhash"},
    "weighted-simhash": {"method": "weighted-simhash"},
    "minhash": {"method": "minhash"},
}


# A preset alone is compared without Spark's steps, in test_alone.py; here it comes with probes.
IN_STEPS = [name for name in CASES if name != "content-aggressive"]
NEAR = ("content", "minhash")  # with near misses all pairs are judged, else those a sieve leaves


@cache
def pages(name: str) -> list[Row]:
    """The stream of a case."""
    return stream(400, seed=len(name))


@cache
def crawl(name: str) -> list[Seen]:
    """What the crawl decides of it, which jobs of several kinds are compared with."""
    return asyncio.run(crawled(pages(name), attrs.evolve(OPTIONS, **CASES[name])))


@pytest.fixture(scope="module")
def batch(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Result, list[Row]]]:
    """One job for each case, with its near misses for those of ``NEAR``; the tests share it."""

    @cache
    def run(name: str) -> tuple[Result, list[Row]]:
        output = str(tmp_path_factory.mktemp("batch") / "result")
        job = Job(output=output, order_by="place", partitions=2, near=name in NEAR, alone=0)
        rows = pages(name)
        return deduplicate(table(spark, rows), attrs.evolve(OPTIONS, **CASES[name]), job), rows

    return run


@pytest.mark.parametrize("name", IN_STEPS)
def test_same_verdicts_as_the_crawl(
    batch: Callable[[str], tuple[Result, list[Row]]], name: str
) -> None:
    """Page for page: outcome, matched page, reason, similarity and the tables that found it."""
    result, rows = batch(name)
    expected = crawl(name)
    found = decided(result, rows)
    assert [(i, one) for i, one in enumerate(found)] == list(enumerate(expected))
    # Not by chance: the stream has many of them.
    dropped = sum(one.outcome in {"duplicate", "revisit"} for one in expected)
    assert dropped > 40


async def test_a_template_with_an_open_word(spark: SparkSession, tmp_path: Path) -> None:
    """Whether a word is open depends on which other pages are kept, on all hosts."""
    texts = variants(24, 3)  # fewer than make a clause text of the site
    texts += [text.replace("yellow", "yelow") for text in texts[::6]]
    rows: list[Row] = [
        {"url": f"https://site{i}.example/1", "title": "", "text": text}
        for i, text in enumerate(texts)
    ]
    job = Job(output=str(tmp_path / "result"), order_by="place", partitions=2, alone=0)
    expected = await crawled(rows, OPTIONS)
    found = decided(deduplicate(table(spark, rows), OPTIONS, job), rows)
    assert found == expected
    assert 4 <= sum(one.outcome == "duplicate" for one in expected) <= 12


async def noted(rows: list[Row], options: Options) -> dict[str, tuple[str, str, float]]:
    """The near misses of the crawl, by their keys: stored page, reason and similarity."""
    found, names = {}, {}
    keeping = attrs.evolve(options, versions="keep", journal_keep_texts=False)
    async with Deduplicator(keeping, index=MemoryIndex()) as dedup:
        for row in rows:
            document = Document(row["url"], row["title"], row["text"])
            verdict = await dedup.decide(document)
            if verdict.claim is not None:
                names[verdict.claim.page_id] = verdict.key
                await dedup.commit(verdict)
            for note in filter(is_near_miss, make_notes(verdict, document, keeping, 0.0)):
                assert note.number is not None
                assert note.similarity is not None
                found[note.key] = (names[note.number], note.reason, round(note.similarity, 9))
    return found


@pytest.mark.parametrize("name", NEAR)
async def test_clusters_are_those_of_the_crawl(
    batch: Callable[[str], tuple[Result, list[Row]]], name: str
) -> None:
    """A kept page with the pages dropped for it: site, reason and similarity; near misses too.

    Of kept pages that are equally near either may be named: the crawl meets them in several steps.
    """
    result, rows = batch(name)
    members = result.clusters.collect()
    near = {
        page["key"]: (page["stored"], page["reason"], round(page["similarity"], 9))
        for page in members
        if page["kind"] == "near"
    }
    expected = await noted(rows, attrs.evolve(OPTIONS, **CASES[name]))
    assert {key: one[1:] for key, one in near.items()} == {
        key: one[1:] for key, one in expected.items()
    }
    assert len(near) > 10
    assert sum(near[key] == one for key, one in expected.items()) > 0.9 * len(near)
    dropped = sorted(
        (row["match"], row["order"], row["match_key"], row["outcome"], row["key"], row["reason"])
        for row in result.duplicates.where("match is not null").collect()
    )
    names = ("cluster", "order", "stored", "kind", "key", "reason")
    others = [page for page in members if page["kind"] in {"duplicate", "revisit"}]
    assert sorted(tuple(page[name] for name in names) for page in others) == dropped
    kept = [page for page in members if page["kind"] == "kept"]
    assert len(kept) == len({page["cluster"] for page in members})
    assert all(page["cluster"] == page["order"] and page["stored"] == page["key"] for page in kept)
    for page in members:
        assert (page["stored_host"], page["host"]) == (
            host_of(page["stored"]),
            host_of(page["key"]),
        )


def test_hosts_of_addresses_are_those_of_the_journal(spark: SparkSession, output: str) -> None:
    """Also of keys that are no proper addresses. Here one process makes the table; Spark calls the
    same function, and test_alone.py compares the two."""
    keys = [
        "https://www.News.example:8080/a?b#c", "http://u:p@news.example/", "isbn 1",
        "http://[2001:DB8::1]:8080/a", "http://u@[::1]/", "text:00ff", "http://u@p@news.example/",
        "//news.example/1", "http://[::1", " https://news.example/2",
    ]  # fmt: skip
    text = article(7, 10)
    rows = spark.createDataFrame([(key, text) for key in keys], "url string, text string")
    clusters = deduplicate(rows, OPTIONS, Job(output=output)).clusters.collect()
    assert {row["key"]: row["host"] for row in clusters} == {key: host_of(key) for key in keys}
    assert {row["stored_host"] for row in clusters} == {"www.news.example"}


@pytest.mark.parametrize("method", ["content", "simhash", "weighted-simhash", "minhash"])
def test_golden_vectors_hold_in_a_job(spark: SparkSession, output: str, method: str) -> None:
    """What a worker makes of a page is what is stored of it elsewhere, byte for byte."""
    options = Options(method=method, hash_key=f"{KEY:x}")
    rows = [
        {"url": page.key, "title": page.title, "text": page.text, BASE: i}
        for i, page in enumerate(documents())
    ]
    df = spark.createDataFrame(rows, f"url string, title string, text string, {BASE} bigint")
    # Only the first step of a job: the fingerprints.
    signed = start(Source(rows=df, identity="golden"), options, Job(output=output)).pages
    made = {
        row["title"]: (row["dedup_slots"], bytes(row["dedup_content"]), bytes(row["dedup_payload"]))
        for row in signed.collect()
    }
    expected = list(stored(method))
    assert vectors(method) == STORED[method]
    for name, places, content, payload in expected:
        assert made[name] == (to_places([places])[0].as_py(), content, payload), name
    assert len(made) == len(expected) == len(rows)


async def test_split_buckets_and_rounds_change_nothing(spark: SparkSession, output: str) -> None:
    """Hot buckets in chunks, and pages settled in rounds instead of one after the other."""
    rows = stream(250, seed=3)
    expected = await crawled(rows, OPTIONS)
    job = Job(output=output, order_by="place", partitions=2, hot=6, settle=1, most=100_000, alone=0)
    result = deduplicate(table(spark, rows), OPTIONS, job)
    assert decided(result, rows) == expected
    # It did go in rounds.
    assert spark.read.parquet(str(Path(output, "work", "decided-1"))).count() > 10
