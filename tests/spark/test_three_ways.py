"""A crawl's deduplicator, `scrapy dedup files` and Spark decide the same, page for page, on mixed
made-up pages: of two languages, with and without titles and keys, as texts and as HTML; and the
latter two find the same rows in CSV."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dedup_middleware import Deduplicator, Options
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.evaluation.edits import KINDS, edit
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.plugin.pagefields import document_of, read_fields
from dedup_middleware.spark import Job
from dedup_middleware.spark.job import run
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.signing import FAULT, FILE, PREFIX
from dedup_middleware.tools.files.rows import read_csv
from dedup_middleware.tools.files.run import Plan, batch_options, run_batch
from tests.spark.streams import HOSTS, Row
from tests.texts import article, english, sentences

Decided = dict[int, tuple[Any, ...]]  # of each row: what became of it
KEYS = ("", None, 7, "no address", "https://a.example/é", "https://a.example/e\u0301",
        "https://a.example/1 ", "https://a.example/\ud83d", "a" * 3000)  # fmt: skip
TEXTS = ("", " ", None, "下一页", "\u200b", "\x00\x01", 5, {"a": 1}, "a" * 20_000)


def text_of(rng: random.Random) -> str:
    """A text of its own, short or long."""
    seed = rng.randrange(10**6)
    made = rng.randrange(4)
    if made == 0:
        return article(seed, rng.choice((1, 2, 8, 30)))
    if made == 1:
        return english(seed, rng.choice((8, 30, 220)))
    report = " ".join(sentences(seed, rng.choice((1, 3, 12))))
    if made == 2:
        return report
    city, rise = rng.choice(("Bern", "Oslo")), rng.random() * 9
    return f"On {rng.randrange(1, 28)} March the {city} index rose by {rise:.2f} percent. {report}"


def exchanged(text: str, rng: random.Random) -> str:
    """Two clauses of a text have exchanged their ends."""
    parts = re.split("([.。，,])", text)
    places = [i for i in range(0, len(parts), 2) if len(parts[i]) > 8]
    if len(places) > 1:
        i, k = rng.sample(places, 2)
        one, two = len(parts[i]) // 2, len(parts[k]) // 2
        parts[i], parts[k] = parts[i][:one] + parts[k][two:], parts[k][:two] + parts[i][one:]
    return "".join(parts)


def like(text: str, rng: random.Random) -> str:
    """A copy, an edit (other figures among them), an excerpt, or a fuller version of a text."""
    made = rng.randrange(6)
    if made == 0 or len(text) < 20:
        return text
    if made == 5:
        return exchanged(text, rng)
    if made == 1:
        start = rng.randrange(len(text) // 2)
        return text[start : start + max(20, len(text) // rng.choice((2, 5)))]
    if made == 2:
        return f"{text} {text_of(rng)[: rng.choice((50, 1000))]}"
    share = rng.choice((0.01, 0.1, 0.6))
    return edit(text, rng.choice(sorted(KINDS)), share, rng.randrange(10**6))


def mixed(count: int, seed: int) -> list[Row]:
    """Pages, most of them made of earlier ones."""
    rng = random.Random(seed)
    rows: list[Row] = []
    texts: list[str] = []
    for n in range(count):
        row: Row = {"n": n, "url": f"https://{rng.choice(HOSTS)}/{n}"}
        text = text_of(rng)
        if rows and rng.random() < 0.7:
            source = rng.randrange(max(0, n - 80), n)
            text = like(texts[source], rng)
            if rng.random() < 0.1:
                row["url"] = rows[source].get("url")
            if rng.random() < 0.5:
                row["title"] = rows[source].get("title")
        if rng.random() < 0.8:
            row.setdefault("title", f"Title {rng.randrange(30)}")
            if rng.random() < 0.1:
                row["title"] = rng.choice(("CORRECTED - {}", "更正：{}")).format(row["title"])
        if rng.random() < 0.06:
            row["url"] = rng.choice(KEYS)
        row["text"] = text
        draw = rng.random()
        if draw < 0.05:
            row["text"] = rng.choice(TEXTS)
        elif draw < 0.12:
            body = "".join(f"<p>{part}</p>" for part in text.split("。"))
            row["html"] = f"<title>{row.get('title')}</title><article>{body}</article>"
            row["text"] = rng.choice(("", None, "—"))
        elif draw < 0.15:
            row["text"] = [text[:40], text[40:]]
        rows.append(row)
        texts.append(text)
    return rows


async def crawled(rows: list[Row], options: Options) -> Decided:
    """What a crawl decides: a match is named by the number of its row."""
    decided: Decided = {}
    numbers: dict[int, int] = {}
    async with Deduplicator(batch_options(options), index=MemoryIndex()) as dedup:
        for n, row in enumerate(rows):
            page = read_fields(row, options.field_names)
            document = None
            if not page.is_bare and (page.text or page.html or not page.is_unread):
                document = document_of(page)
            if document is None:
                decided[n] = ("rejected",)
                continue
            verdict = await dedup.decide(document)
            if verdict.claim is not None:
                numbers[verdict.claim.page_id] = n
            await dedup.commit(verdict)
            match = verdict.match
            if not is_dropped(verdict.outcome, options):
                decided[n] = ("kept",)
            elif match is None:
                decided[n] = (verdict.outcome, verdict.reason, None)
            else:
                decided[n] = (
                    verdict.outcome, verdict.reason, numbers[match.number],
                    round(match.similarity, 4), match.distance, match.tables,
                )  # fmt: skip
    return decided


async def of_files(path: Path, rows: list[Row], options: Options) -> Decided:
    """What `scrapy dedup files` does with the rows."""
    folder = path.parent
    plan = Plan((path,), folder / "kept", folder / "dropped", folder / "rejected", workers=0)
    await run_batch(plan, options, lambda _: None)
    lines = {
        name: [json.loads(line) for line in (folder / name).read_text("utf-8").split("\n")[:-1]]
        for name in ("kept", "dropped", "rejected")
    }
    decided: Decided = {row["n"]: ("kept",) for row in lines["kept"]}
    decided |= {row["row"] - 1: ("rejected",) for row in lines["rejected"]}
    assert [row for row in lines["kept"] if row != rows[row["n"]]] == []
    for row in lines["dropped"]:
        said = row["dedup"]
        found: tuple[Any, ...] = ()
        if said["similarity"] is not None:  # a match without a key has no name
            found = said["similarity"], said["distance"], tuple(said["tables"])
        decided[row["n"]] = (said["outcome"], said["reason"], *found)
    return decided


def of_spark(path: Path, session: SparkSession, options: Options, job: Job) -> Decided:
    """What a job does with them."""
    result = run(read_files(session, [str(path)], options, job), options, job)
    decided: Decided = {row["dedup_order"]: ("kept",) for row in result.kept.collect()}
    decided |= {row["position"]: ("rejected",) for row in result.rejects.collect()}
    for row in result.duplicates.collect():
        found: tuple[Any, ...] = ()
        if row["match"] is not None:
            found = round(row["similarity"], 4), row["distance"], tuple(row["tables"])
        decided[row["order"]] = (row["outcome"], row["reason"], row["match"], *found)
    return decided


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "settings"), [(1, {}), (2, {"preset": "aggressive", "on_empty": "drop"})]
)
async def test_every_page(
    spark: SparkSession, tmp_path: Path, seed: int, settings: dict[str, Any]
) -> None:
    """Outcome, reason, matched page, similarity and tables; no row is lost or there twice."""
    options = Options(hash_key="5", **settings)
    rows, path = mixed(300, seed), tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = await crawled(rows, options)
    assert sum(one[0] == "duplicate" for one in expected.values()) > 40
    for alone in (800_000, 0):
        job = Job(output=str(tmp_path / f"alone-{alone}"), partitions=2, alone=alone)
        assert of_spark(path, spark, options, job) == expected
    # It names matches by their keys, which several rows may have.
    without = {n: (*one[:2], *one[3:]) for n, one in expected.items()}
    assert await of_files(path, rows, options) == without


# Texts of CSV files, by their names: rows end in LF, CR LF or CR, which cells may have too.
CSV = {
    "lf": 'url,text\nu1,"one\r\ncell"\n\nu2,two\nu3,"a\rb"\n',
    "crlf": 'url,text\r\nu1,"one\ncell"\r\n\r\nu2,"two\r\n, ""more"""\r\nu3,three\r\n',
    "cr": 'url,text\ru1,"one"\r\ru2,two\ru3,three\r',
    "cr-lf-in-cell": 'url,text\ru1,"one\ncell"\ru2,"two\r\n"\ru3,three',
    "cr-far-lf": "url,text\r" + "u1,some words\r" * 900 + 'u2,"one\ncell"\r',
    "cr-lf-in-name": '"url","te\nxt"\ru1,"one\ncell"\ru2,two\r',
    "lf-cr-in-name": '"url","te\rxt"\nu1,"one\rcell"\nu2,two\n',
    "crlf-then-lf": 'url,text\r\nu1,"one"\nu2,two\r\n\nu3,"th\nree"\n',
    "lf-cr-between": 'url,text\nu1,one\ru2,two\nu3,"th\ree"\r\nu4,four\r',
    "cr-lf-between": 'url,text\ru1,one\nu2,two\ru3,"th\nree"\r\nu4,four\n',
    "one-name": "text\none\rtwo\n",
    "names-only": "url,text",
    "empty": "",
}


def csv_rows_of_spark(session: SparkSession, path: Path, folder: Path) -> list[dict[str, str]]:
    """Rows of some files, in their order."""
    rows = read_files(session, [str(path)], Options(), Job(output=str(folder / "out"))).rows
    shown = [row.asDict() for row in rows.collect()]
    assert [row for row in shown if row.get(FAULT)] == []
    shown.sort(key=lambda row: str(row[FILE]))
    return [{name: row[name] for name in row if not name.startswith(PREFIX)} for row in shown]


@pytest.mark.parametrize("name", CSV)
def test_rows_of_csv(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """None is lost or cut, however rows end and whatever ends of lines are within cells."""
    path = tmp_path / f"{name}.csv"
    path.write_bytes(CSV[name].encode())
    expected = [row.raw for row in read_csv(path)]
    assert csv_rows_of_spark(spark, path, tmp_path) == expected


@contextmanager
def logged(session: SparkSession) -> Iterator[Any]:
    """What Java logs meanwhile, as one text of Java."""
    machine: Any = session._jvm
    log = machine.org.apache.logging.log4j
    written = machine.java.io.StringWriter()
    make = log.core.appender.WriterAppender.createAppender
    root, appender = log.LogManager.getRootLogger(), make(None, None, written, "test", False, True)
    appender.start()
    root.addAppender(appender)
    try:
        yield written
    finally:
        root.removeAppender(appender)


def test_rows_of_csv_files_that_end_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    """Files of a folder are each read by their own ends; Spark does not warn of their names."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in CSV.items():
        if "name" not in name:
            (folder / f"{name}.csv").write_bytes(text.encode())
    expected = [row.raw for path in sorted(folder.iterdir()) for row in read_csv(path)]
    with logged(spark) as log:
        assert csv_rows_of_spark(spark, folder, tmp_path) == expected
    assert "does not conform" not in log.toString()
