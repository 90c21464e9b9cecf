"""Stored pages with their mirrors, from the journal to files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import DedupError, Options, OptionsError
from dedup_middleware.journal import clusters
from dedup_middleware.journal.access import choose_journal
from dedup_middleware.journal.clusters import (
    Cluster,
    collect_clusters,
    write_clusters,
)
from dedup_middleware.journal.entries import Drop, JournalStore, Kept, Query
from tests.commands.running import crawl as run_pipeline
from tests.commands.running import dedup, item, settings_for
from tests.itemcrawl import Crawled, crawl
from tests.texts import article

STORED = "https://one.example/1"
NEAR_TEXT = article(1, 8) + article(2, 5)


def drop(key: str, time: float, **more: Any) -> Drop:
    """A page that was dropped for the stored one."""
    values = {"match": STORED, "number": 1, "similarity": 0.9, "outcome": "duplicate"}
    values |= {"reason": "near-duplicate", "spider": "news", "crawl": "c1"}
    return Drop(key=key, time=time, **(values | more))


DROPS = [
    drop("https://two.example/1", 10.0, title="Two"),
    drop("https://three.example/1", 20.0, spider="shop", crawl="c2", similarity=1.0),
    drop("https://two.example/1", 30.0, reason="exact-copy", similarity=1.0),
    drop(STORED, 40.0, outcome="revisit", reason="unchanged"),
    drop("https://near.example/1", 50.0, outcome="new", match=None, similarity=0.6),
    drop("https://empty.example/", 55.0, outcome="empty", match=None, number=None),
    drop("https://four.example/2", 60.0, match=None, number=2),
]


@pytest.fixture(params=["sqlite", "redis"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalStore]:
    """A journal of two clusters; the index has the address of the first stored page only."""
    options = Options(index_url=f"sqlite:{tmp_path / 'index.db'}")
    if request.param == "redis":
        options = Options(index_url=request.getfixturevalue("redis_url"))
    made = choose_journal(options)
    assert made is not None
    made.open(create=True)
    with made:
        made.append(DROPS, [Kept(key=STORED, number=1, text="text", time=1.0)], {})
        yield made


def found(journal: JournalStore, *, near: bool = False, **query: Any) -> dict[str, Any]:
    """Keys of mirrors and near misses by the stored page."""
    query = {name: frozenset(v) if isinstance(v, set) else v for name, v in query.items()}
    return {
        one.stored.removeprefix("https://"): [
            [page.key.removeprefix("https://") for page in pages]
            for pages in (one.mirrors, one.near)
        ]
        for one in collect_clusters(journal, Query(**query), near=near)
    }


def test_mirrors_stand_once_under_their_stored_page(journal: JournalStore) -> None:
    """The newest decision counts; revisits, empty pages and near misses are no mirrors."""
    first, second = collect_clusters(journal, Query(), near=False)
    assert (first.stored, first.host, first.near) == (STORED, "one.example", ())
    three, two = first.mirrors
    assert (three.key, three.spider, three.seen) == ("https://three.example/1", "shop", 1)
    assert (two.time, two.reason, two.similarity, two.seen) == (30.0, "exact-copy", 1.0, 2)
    assert (second.stored, second.host) == ("#2", "")


def test_filters(journal: JournalStore) -> None:
    """By host, spider, crawl, reason and date of the mirror; near misses on request."""
    one = "one.example/1"
    assert found(journal, hosts={"two.example"}) == {one: [["two.example/1"], []]}
    assert found(journal, spiders={"shop"}) == {one: [["three.example/1"], []]}
    assert found(journal, crawls={"c2"}) == {one: [["three.example/1"], []]}
    assert found(journal, since=15.0, until=25.0) == {one: [["three.example/1"], []]}
    assert found(journal, reasons={"exact-copy"}) == {one: [["two.example/1"], []]}
    assert found(journal, near=True)[one][1] == ["near.example/1"]
    near_alone = found(journal, near=True, hosts={"near.example"})
    assert near_alone == {one: [[], ["near.example/1"]]}


def test_formats_say_the_same(journal: JournalStore, tmp_path: Path) -> None:
    """JSON lines, CSV and Parquet hold the same pages."""
    parquet = pytest.importorskip("pyarrow.parquet")
    clusters = list(collect_clusters(journal, Query(), near=True))
    for ending in ("jsonl", "csv", "parquet"):
        assert write_clusters(clusters, tmp_path / f"c.{ending}", replace=False) == 2
    lines = (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines()
    expected = []
    for line in map(json.loads, lines):
        for kind, pages in (("mirror", line["mirrors"]), ("near", line.get("near", []))):
            head = {"stored": line["stored"], "stored_host": line["host"], "kind": kind}
            expected += [head | page for page in pages]
    assert [row["kind"] for row in expected] == ["mirror", "mirror", "near", "mirror"]
    assert expected[0]["time"] == "1970-01-01T00:00:20+00:00"
    rows = parquet.read_table(tmp_path / "c.parquet").to_pylist()
    assert [row | {"time": row["time"].isoformat()} for row in rows] == expected
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert table == [{name: str(value) for name, value in row.items()} for row in expected]


def test_any_text_can_be_written(tmp_path: Path) -> None:
    """Lone surrogates become question marks; quotes and line ends stay."""
    pytest.importorskip("pyarrow")
    odd = drop("https://x.example/", 1.0, title='a "b",\nc \ud800', similarity=None)
    journal = choose_journal(Options(journal=str(tmp_path / "j.db")))
    assert journal is not None
    journal.open(create=True)
    with journal:
        journal.append([odd], [], {})
        clusters = list(collect_clusters(journal, Query(), near=False))
    evil = [Cluster(stored="https://\ud800/", mirrors=clusters[0].mirrors)]
    for ending in ("jsonl", "csv", "parquet"):
        write_clusters(evil, tmp_path / f"c.{ending}", replace=False)
    text = (tmp_path / "c.csv").read_text(encoding="utf-8")
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["title"] == 'a "b",\nc ?'
    assert row["stored"] == "https://?/"


def test_files_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file and the way out; existing files stay."""
    there = tmp_path / "there.csv"
    there.write_text("mine")
    for path, fix in (
        (there, "name a new file"),
        (tmp_path / "c.xml", "ends in .jsonl, .jl, .csv, .parquet"),
        (tmp_path / "nowhere" / "c.csv", "can't be written"),
    ):
        with pytest.raises(DedupError, match=fix):
            write_clusters([], path, replace=False)
    assert there.read_text() == "mine"

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(clusters, "import_module", missing)
    with pytest.raises(DedupError, match=r"pip install 'dedup-middleware\[parquet\]'"):
        write_clusters([], tmp_path / "c.parquet", replace=False)


def test_command(tmp_path: Path) -> None:
    """A file, or lines on standard output; filters and near misses by options."""
    settings = settings_for(tmp_path)
    run_pipeline(
        settings,
        item("one.example", 1, text=article(1, 8)),
        item("two.example", 1, text=article(1, 8)),
        item("near.example", 1, text=NEAR_TEXT),
    )
    out = tmp_path / "c.jsonl"
    done = dedup("clusters", "-o", str(out), "--json", **settings)
    assert (done.code, done.json) == (0, {"clusters": 1, "output": str(out)})
    (line,) = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert line["stored"] == STORED
    assert [page["key"] for page in line["mirrors"]] == ["https://two.example/1"]
    assert "near" not in line
    shown = dedup("clusters", "-o", "-", "--near", **settings)
    assert [page["key"] for page in json.loads(shown.out)["near"]] == ["https://near.example/1"]
    assert dedup("clusters", "-o", "-", "--host", "one.example", **settings).out == ""
    again = dedup("clusters", "-o", str(out), **settings)
    assert (again.code, "name a new file" in again.err) == (1, True)


async def stories(_: Crawled) -> AsyncIterator[dict[str, Any]]:
    """A page and a copy of it, and a page that is half like it."""
    for host, text in (("one", article(1, 8)), ("two", article(1, 8)), ("near", NEAR_TEXT)):
        yield {"url": f"https://{host}.example/1", "text": text}


async def test_a_crawl_writes_what_it_has_found(tmp_path: Path) -> None:
    """At its end, under a name of its own, without what other crawls have found."""
    settings = {
        "DEDUP_JOURNAL": str(tmp_path / "j.db"),
        "DEDUP_CLUSTERS": str(tmp_path / "out" / "%(name)s-%(crawl)s.jsonl"),
    }
    await crawl(stories, {}, **settings, DEDUP_CRAWL_ID="a")
    crawled = await crawl(stories, {}, **settings, DEDUP_CRAWL_ID="b", DEDUP_CLUSTERS_NEAR=True)
    assert crawled.stat("clusters/written") == 1
    for name, near in (("a", 0), ("b", 1)):
        text = (tmp_path / "out" / f"items-{name}.jsonl").read_text(encoding="utf-8")
        line = json.loads(text)
        assert [(page["seen"], page["crawl"]) for page in line["mirrors"]] == [(1, name)]
        assert len(line.get("near", [])) == near


async def test_a_crawl_that_does_not_start_leaves_the_file_of_the_last_one(tmp_path: Path) -> None:
    """It has found nothing, and nothing says that there is nothing to find."""
    path = tmp_path / "c.jsonl"
    settings = {
        "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'index.db'}",
        "DEDUP_JOURNAL": str(tmp_path / "j.db"),
        "DEDUP_CLUSTERS": str(path),
    }
    await crawl(stories, {}, **settings)
    written = path.read_bytes()
    refused = await crawl(stories, {}, **settings, DEDUP_SEGMENTER="char")
    assert refused.stats["finish_reason"] == "dedup_index_refused"
    assert path.read_bytes() == written != b""


async def test_a_crawl_without_copies_writes_an_empty_file(tmp_path: Path) -> None:
    """So that whoever waits for the file finds it."""

    async def nothing(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        yield {"url": STORED, "text": article(1)}

    path = tmp_path / "c.csv"
    await crawl(nothing, {}, DEDUP_JOURNAL=str(tmp_path / "j.db"), DEDUP_CLUSTERS=str(path))
    assert path.read_text(encoding="utf-8").splitlines() == [",".join(clusters.COLUMNS)]


async def test_a_file_that_can_not_be_written_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The crawl ends as without it, and the message names the command that writes it."""
    (tmp_path / "folder.csv").mkdir()
    crawled = await crawl(
        stories,
        {},
        DEDUP_JOURNAL=str(tmp_path / "j.db"),
        DEDUP_CLUSTERS=str(tmp_path / "folder.csv"),
        DEDUP_CRAWL_ID="c9",
    )
    assert crawled.stat("clusters/error") == 1
    assert crawled.stats["finish_reason"] == "finished"
    assert "scrapy dedup clusters -o FILE --crawl c9" in caplog.text


async def test_settings_that_can_not_be_used(caplog: pytest.LogCaptureFixture) -> None:
    """Another suffix, or no journal: the crawl does not start, and the setting is named."""
    with pytest.raises(OptionsError, match=r"DEDUP_CLUSTERS='c\.xml'.*\.jsonl"):
        Options(clusters="c.xml")
    await crawl(stories, {}, DEDUP_CLUSTERS="c.csv")
    assert "name its file in DEDUP_JOURNAL" in caplog.text


@pytest.mark.parametrize("place", ["a file/c.csv", "closed/c.csv", "closed/folder/c.csv"])
async def test_a_folder_that_can_not_be_written_to(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named at the start, not at the end of a long crawl."""
    (tmp_path / "a file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write everywhere
        monkeypatch.setattr(os, "access", lambda path, _: "closed" not in str(path))
    journal = str(tmp_path / "j.db")
    crawled = await crawl(stories, {}, DEDUP_JOURNAL=journal, DEDUP_CLUSTERS=str(tmp_path / place))
    assert crawled.stats["finish_reason"] == "dedup_settings"
    assert "can't be written to" in caplog.text


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
async def test_no_other_file_is_replaced(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A feed of an earlier crawl, whose pages the index calls stored, stays as it is; an empty file
    and the cluster file of an earlier crawl are replaced."""
    path = tmp_path / f"c.{suffix}"
    settings: dict[str, Any] = {
        "DEDUP_JOURNAL": str(tmp_path / "j.db"),
        "DEDUP_CLUSTERS": str(path),
    }
    path.touch()
    for _ in range(2):
        crawled = await crawl(stories, {}, **settings)
        assert crawled.stat("clusters/written") == 1
    feed = b'{"stored": "yes", "url": "https://one.example/1"}\n'
    path.write_bytes(b"PAR1" + feed if suffix == "parquet" else feed)
    before = path.read_bytes()
    crawled = await crawl(stories, {}, **settings)
    assert crawled.stats["finish_reason"] == "dedup_settings"
    assert "it is no cluster file, such as a feed" in caplog.text
    assert path.read_bytes() == before


async def test_a_feed_of_the_crawl_is_not_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it is named by the same words or not, and although it is empty at the end, as a
    packed one is written later."""
    path = tmp_path / "c.jsonl"
    settings: dict[str, Any] = {
        "DEDUP_JOURNAL": str(tmp_path / "j.db"),
        "DEDUP_CLUSTERS": str(path),
    }
    refused = await crawl(stories, {}, **settings, FEEDS={str(path): {"format": "jsonlines"}})
    assert refused.stats["finish_reason"] == "dedup_settings"
    assert "it is a feed of this crawl" in caplog.text
    packed = ["scrapy.extensions.postprocessing.GzipPlugin"]
    feed = {"format": "jsonlines", "postprocessing": packed}
    other = f"{tmp_path}/../{tmp_path.name}/c.jsonl"
    crawled = await crawl(stories, {}, **settings, FEEDS={other: feed})
    assert crawled.stat("clusters/error") == 1
    rows = gzip.decompress(path.read_bytes()).splitlines()
    assert [json.loads(row)["url"] for row in rows] == [STORED, "https://near.example/1"]


async def test_the_index_and_the_journal_are_not_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their files are refused as that of another setting, before they are made."""
    file = str(tmp_path / "c.csv")
    index, journal = {"DEDUP_INDEX_URL": f"sqlite:{file}"}, {"DEDUP_JOURNAL": file}
    other, clusters_file = {"DEDUP_JOURNAL": str(tmp_path / "j.db")}, {"DEDUP_CLUSTERS": file}
    former = {"DEDUP_FORMER_INDEX_URL": f"sqlite:{file}"}
    for settings, said in (
        (index | other | clusters_file, "it is the file of DEDUP_INDEX_URL"),
        (former | other | clusters_file, "it is the file of DEDUP_FORMER_INDEX_URL"),
        (journal | clusters_file, "it is the file of the journal"),
        (index | journal, "it is the file of DEDUP_INDEX_URL"),
    ):
        caplog.clear()
        crawled = await crawl(stories, {}, **settings)
        assert crawled.stats["finish_reason"] == "dedup_settings"
        assert said in caplog.text
        assert not Path(file).exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"DEDUP_CLUSTERS": "%(crawl)s.csv", "DEDUP_CRAWL_ID": "a\0b"}, "take the NUL character"),
        ({"DEDUP_CLUSTERS": "\ud800.csv"}, "that can't be encoded"),
        ({"DEDUP_CLUSTERS": "x" * 300 + ".csv"}, "shorten the names in the path to 255 bytes"),
        ({"DEDUP_JOURNAL": "\ud800.db"}, "that can't be encoded"),
        ({"DEDUP_USER_DICTIONARY": "a\0b"}, "take the NUL character"),
    ],
)
async def test_a_path_that_no_file_system_accepts(
    settings: dict[str, Any], said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused at the start, with the fix."""
    settings = {"DEDUP_JOURNAL": str(tmp_path / "j.db")} | settings
    crawled = await crawl(stories, {}, **settings)
    assert crawled.stats["finish_reason"] == "dedup_settings"
    assert said in caplog.text
    assert "Traceback" not in caplog.text
