"""The sample crawl, page by page: which pages are stored, which are dropped, and for which page."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.test_sharing import crawl_sample, stored

STORED = {
    "https://news.jiuting-rexian.example": [
        "/news/20260304/20101.htm",
        "/news/20260305/20102.htm",
        "/news/20260305/20131.htm",
        "/news/20260306/20106.htm",
        "/news/20260306/20132.htm",
        "/news/20260307/20133.htm",
        "/news/20260307/20141.htm",
        "/news/20260308/20134.htm",
        "/society/20260304/20111.htm",
        "/society/20260305/20103.htm",
        "/society/20260306/20104.htm",
        "/society/20260306/20105.htm",
    ],
    "https://www.harrowmere-gazette.example": [
        "/business/brewery-heat-greenhouse",
        "/business/seaweed-farm-research",
        "/culture/library-of-things",
        "/culture/lighthouse-lantern",
        "/local/electric-buses-hills",
        "/local/fish-market-5-march",
        "/local/fish-market-6-march",
        "/local/fish-market-7-march",
        "/local/fish-market-8-march",
        "/local/harbour-dredging-plan",
    ],
    "https://www.huilan-wang.example": [
        "/a/202603/5001.html",
        "/a/202603/5002.html",
        "/a/202603/5003.html",
        "/a/202603/5004.html",
        "/a/202603/5011.html",
        "/a/202603/5012.html",
        "/a/202603/5201.html",
        "/a/202603/5202.html",
        "/a/202603/5203.html",
        "/a/202603/5204.html",
        "/a/202603/5302.html",
        "/global/202603/5013.html",
    ],
    "https://www.yunbo-chenbao.example": [
        "/2026/03/04/c1001.html",
        "/2026/03/04/c1002.html",
        "/2026/03/05/c1003.html",
        "/2026/03/05/c1004.html",
        "/2026/03/05/c1005.html",
        "/2026/03/05/c1301.html",
        "/2026/03/06/c1006.html",
        "/2026/03/06/c1007.html",
        "/2026/03/06/c1008.html",
        "/2026/03/06/c1101.html",
        "/2026/03/06/c1302.html",
        "/2026/03/07/c1102.html",
        "/2026/03/07/c1303.html",
        "/2026/03/07/c1401.html",
        "/2026/03/08/c1304.html",
        "/english/2026/03/c1103.html",
    ],
    "https://www.zhuting-minbao.example": [
        "/article/20260304/30011.html",
        "/article/20260304/30012.html",
        "/article/20260305/30013.html",
        "/article/20260305/30014.html",
        "/article/20260305/30016.html",
        "/article/20260306/30015.html",
        "/article/20260306/30017.html",
    ],
}

# Dropped page, and the stored page that already says what it says.
DROPPED = {
    "https://news.jiuting-rexian.example/news/20260306/20122.htm": (
        "https://www.yunbo-chenbao.example/2026/03/05/c1004.html"
    ),
    "https://news.jiuting-rexian.example/news/20260307/20125.htm": (
        "https://www.yunbo-chenbao.example/2026/03/06/c1008.html"
    ),
    "https://news.jiuting-rexian.example/news/20260307/20127.htm": (
        "https://www.yunbo-chenbao.example/2026/03/06/c1006.html"
    ),
    "https://news.jiuting-rexian.example/news/20260307/20128.htm": (
        "https://www.huilan-wang.example/a/202603/5003.html"
    ),
    "https://news.jiuting-rexian.example/society/20260306/20124.htm": (
        "https://www.yunbo-chenbao.example/2026/03/05/c1003.html"
    ),
    "https://news.jiuting-rexian.example/society/20260306/20126.htm": (
        "https://www.yunbo-chenbao.example/2026/03/05/c1005.html"
    ),
    "https://news.jiuting-rexian.example/society/20260307/20121.htm": (
        "https://www.yunbo-chenbao.example/2026/03/04/c1001.html"
    ),
    "https://news.jiuting-rexian.example/society/20260307/20123.htm": (
        "https://www.yunbo-chenbao.example/2026/03/06/c1007.html"
    ),
    "https://www.huilan-wang.example/a/202603/5101.html": (
        "https://www.yunbo-chenbao.example/2026/03/04/c1002.html"
    ),
    "https://www.huilan-wang.example/a/202603/5102.html": (
        "https://www.yunbo-chenbao.example/2026/03/05/c1005.html"
    ),
    "https://www.huilan-wang.example/a/202603/5103.html": (
        "https://news.jiuting-rexian.example/news/20260304/20101.htm"
    ),
    "https://www.huilan-wang.example/a/202603/5104.html": (
        "https://news.jiuting-rexian.example/society/20260305/20103.htm"
    ),
    "https://www.huilan-wang.example/a/202603/5105.html": (
        "https://www.yunbo-chenbao.example/2026/03/06/c1006.html"
    ),
    "https://www.huilan-wang.example/a/202603/5106.html": (
        "https://news.jiuting-rexian.example/society/20260306/20104.htm"
    ),
    "https://www.huilan-wang.example/a/202603/5107.html": (
        "https://www.yunbo-chenbao.example/2026/03/05/c1004.html"
    ),
    "https://www.huilan-wang.example/a/202603/5109.html": (
        "https://www.yunbo-chenbao.example/2026/03/06/c1007.html"
    ),
    "https://www.huilan-wang.example/a/202603/5110.html": (
        "https://news.jiuting-rexian.example/news/20260305/20102.htm"
    ),
    "https://www.huilan-wang.example/a/202603/5112.html": (
        "https://news.jiuting-rexian.example/news/20260306/20106.htm"
    ),
    "https://www.huilan-wang.example/a/202603/5113.html": (
        "https://www.yunbo-chenbao.example/2026/03/04/c1001.html"
    ),
    "https://www.huilan-wang.example/a/202603/5114.html": (
        "https://www.yunbo-chenbao.example/2026/03/06/c1008.html"
    ),
    "https://www.huilan-wang.example/a/202603/5301.html": (
        "https://news.jiuting-rexian.example/news/20260307/20141.htm"
    ),
    "https://www.huilan-wang.example/global/202603/5108.html": (
        "https://www.harrowmere-gazette.example/culture/lighthouse-lantern"
    ),
    "https://www.huilan-wang.example/global/202603/5111.html": (
        "https://www.harrowmere-gazette.example/local/electric-buses-hills"
    ),
    "https://www.yunbo-chenbao.example/2026/03/06/c1201.html": (
        "https://www.huilan-wang.example/a/202603/5001.html"
    ),
    "https://www.yunbo-chenbao.example/2026/03/07/c1204.html": (
        "https://news.jiuting-rexian.example/society/20260306/20105.htm"
    ),
    "https://www.yunbo-chenbao.example/english/2026/03/c1202.html": (
        "https://www.harrowmere-gazette.example/culture/library-of-things"
    ),
    "https://www.yunbo-chenbao.example/english/2026/03/c1203.html": (
        "https://www.harrowmere-gazette.example/business/brewery-heat-greenhouse"
    ),
    "https://www.zhuting-minbao.example/article/20260305/30021.html": (
        "https://www.zhuting-minbao.example/article/20260304/30011.html"
    ),
    "https://www.zhuting-minbao.example/article/20260306/30022.html": (
        "https://www.zhuting-minbao.example/article/20260305/30014.html"
    ),
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one crawl of the sample site on an empty index."""
    folder = tmp_path_factory.mktemp("crawl") / "out"
    crawl(folder)
    return folder


def crawl(folder: Path) -> None:
    """Run `scrapy crawl news`; the index is in the folder of the results."""
    index = f"sqlite:{folder.parent / 'index.db'}"
    process = crawl_sample(folder, "-s", f"DEDUP_INDEX_URL={index}", COLUMNS="200")
    assert process.wait(timeout=600) == 0


def addresses() -> set[str]:
    """The canonical addresses of all pages that are to be stored."""
    return {host + path for host, paths in STORED.items() for path in paths}


def test_feed_holds_exactly_these_pages(out: Path) -> None:
    """Originals, rewrites, bulletins and captions are stored once; their copies are not."""
    keys = [item["url"] for item in stored(out)]
    assert set(keys) == addresses()
    assert len(keys) == len(set(keys)) == 57


def rows(out: Path) -> list[tuple[str, str]]:
    """Addresses and texts in the database."""
    with contextlib.closing(sqlite3.connect(out / "news.db")) as database:
        return database.execute("SELECT url, text FROM articles ORDER BY url").fetchall()


def test_database_holds_the_same(out: Path) -> None:
    """What the feed has, the storage pipeline has too, each with its text."""
    assert {url for url, _ in rows(out)} == addresses()
    assert all(text for _, text in rows(out))


def test_table_names_every_dropped_page_with_its_original(out: Path) -> None:
    """The crawl ends with a table: each copy, the stored page it matches, how similar it is."""
    shown = "".join((out / "stdout").read_text(encoding="utf-8").split())
    for copy, original in DROPPED.items():
        assert copy in shown
        assert shown.index(original, shown.index(copy)) > 0
    assert "seen" in shown
    assert "stored57" in shown
    assert "dropped,exact-copy" in shown
    assert "dropped,near-duplicate" in shown


def test_nothing_broke(out: Path) -> None:
    """No traceback in the log; the page that answers 500 is the only error."""
    log = (out / "log").read_text(encoding="utf-8")
    assert "Traceback" not in log
    errors = [line for line in log.splitlines() if " ERROR: " in line]
    assert len(errors) == 1
    assert "500 Internal Server Error" in errors[0]


def test_second_crawl_stores_nothing(out: Path) -> None:
    """Unchanged pages are revisits; a third crawl without the index stores them again."""
    first = rows(out)
    crawl(out)
    assert len(stored(out)) == 57
    assert "dropped,unchanged58" in "".join((out / "stdout").read_text().split())
    for file in out.parent.glob("index.db*"):
        file.unlink()
    crawl(out)
    assert len(stored(out)) == 2 * 57
    # Each page has one row in the storage.
    assert rows(out) == first
