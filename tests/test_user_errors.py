"""Messages at the start of a crawl, and when it must not go on."""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scrapy
from rich.console import Console
from scrapy.settings import Settings

from dedup_middleware import Addon, DedupPipeline, Document, Options
from dedup_middleware.base.errors import IndexRefusedError, OptionsError
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.opening import open_index
from dedup_middleware.plugin.logformatter import DropLogFormatter
from dedup_middleware.plugin.notices import log_contents
from dedup_middleware.tools.commands.dedup import add_row, plain_table
from tests.commands.running import crawl as crawl_items
from tests.commands.running import dedup, item, settings_for
from tests.forks import run
from tests.itemcrawl import Crawled, crawl
from tests.servers import RedisServer
from tests.texts import article

SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {"ADDONS": {"dedup_middleware.Addon": 500}, "TELNETCONSOLE_ENABLED": False}

    async def start(self):
        yield scrapy.Request("data:,x")

    def parse(self, response):
        for number in range(3):
            yield {"url": f"https://a.example/{number}", "text": f"a page without words {number}"}
"""


def run_spider(folder: Path, *arguments: str) -> tuple[int, str]:
    """`scrapy runspider` as a user starts it: its exit code and its log."""
    (folder / "pages.py").write_text(SPIDER)
    done = run(["-m", "scrapy", "runspider", "pages.py", *arguments], cwd=folder, env=os.environ)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-s", "DEDUP_THRESHOLD=7"], "DEDUP_THRESHOLD=7.0 can't be used: use a number from"),
        (["-s", "DEDUP_TRESHOLD=0.9"], "do you mean DEDUP_THRESHOLD?"),
        (["-s", "DEDUP_INDEX_URL=sqlite:/nonexistent/b/c.db"], "no folder /nonexistent;"),
        (["-s", "DEDUP_JOURNAL=/nonexistent/b/c.db"], "no folder /nonexistent;"),
        (
            ["-s", "DEDUP_NAMESPACE=b", "-s", "DEDUP_INDEX_URL=sqlite:x.db"],
            "only an index in Redis",
        ),
        (
            ["-s", "DEDUP_ON_ERROR=close", "-s", "DEDUP_INDEX_URL=redis://127.0.0.1:1"],
            "Start the server, or correct DEDUP_INDEX_URL",
        ),
    ],
)
def test_crawl_that_is_not_started_exits_with_one(
    tmp_path: Path, arguments: list[str], line: str
) -> None:
    """One line at ERROR names the setting and the fix, without a traceback."""
    code, log = run_spider(tmp_path, *arguments)
    assert code == 1, log
    (said,) = [one for one in log.splitlines() if " ERROR: " in one]
    assert line in said
    assert "Traceback" not in log


def test_crawl_that_ends_well_exits_with_zero(tmp_path: Path) -> None:
    """Its last line of the plugin is the summary, however short it was."""
    code, log = run_spider(tmp_path, "-s", "DEDUP_INDEX_URL=sqlite:new/index.db")
    assert code == 0, log
    assert "Checked 3 pages, dropped 0" in log
    assert "Traceback" not in log


async def test_two_pipelines_of_the_plugin_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A subclass next to the pipeline of the add-on: items would wait for themselves."""

    class Own(DedupPipeline):
        pass

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a/1", "text": "never crawled"}

    crawled = await crawl(source, {Own: 460})
    assert (crawled.scraped, crawled.stats["finish_reason"]) == ([], "dedup_settings")
    (error,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert "set one of them to None" in error
    assert "DedupPipeline" in error
    assert "Own" in error


def test_namespace_is_refused_where_it_does_nothing() -> None:
    """Spiders with different namespaces would drop each other's pages in one file."""
    with pytest.raises(OptionsError, match="DEDUP_NAMESPACE"):
        Options(index_url="sqlite:x.db", namespace="b")
    assert Options(index_url="redis://x", namespace="b").namespace == "b"
    with pytest.raises(
        OptionsError, match=r"^DEDUP_FORMER_NAMESPACE='b' .* DEDUP_FORMER_INDEX_URL"
    ):
        Options(former_index_url="sqlite:x.db", former_namespace="b")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("DEDUP_Window", "do you mean DEDUP_WINDOW?"),
        ("DEDUP_WINDOWS", "do you mean DEDUP_WINDOW?"),
        ("DEDUP_URL", "do you mean DEDUP_INDEX_URL?"),
        ("DEDUP_REDIS_URL", "do you mean DEDUP_INDEX_URL?"),
        ("DEDUP_TEXT", "do you mean DEDUP_TEXT_FIELD?"),
        ("DEDUP_FOO", "see docs/settings.md"),
        ("DEDUP_KEY_PREFIX", "see docs/settings.md"),  # no DEDUP_HASH_KEY
        ("DEDUP_MAX_AGE", "see docs/settings.md"),  # no DEDUP_MAX_CHARS
        ("DEDUP_ON", "see docs/settings.md"),  # one of three
    ],
)
def test_a_setting_like_none_is_not_guessed(name: str, hint: str) -> None:
    """The prefix that all names share does not make a name similar."""
    with pytest.raises(OptionsError, match=re.escape(f"no such setting; {hint}")):
        Options.from_mapping({name: "1"})


async def test_refusal_names_the_settings(tmp_path: Path) -> None:
    """The parameter that differs is followed by the settings that it is computed from."""
    url = f"sqlite:{tmp_path / 'index.db'}"
    async with Deduplicator(Options(index_url=url)):
        pass
    other = Deduplicator(Options(index_url=url, shingle_width=4, window=3600))
    with pytest.raises(IndexRefusedError) as caught:
        await other.open()
    assert "DEDUP_SHINGLE_WIDTH" in str(caught.value)
    assert "DEDUP_WINDOW" in str(caught.value)
    await other.close()


async def items(*fields: str, count: int = 25) -> AsyncIterator[dict[str, Any]]:
    """Items that have these fields."""
    for number in range(count):
        yield {name: f"{name} {number}" for name in fields}


@pytest.mark.parametrize("fields", [("body", "link"), ("url", "body")])
async def test_fields_that_never_match_are_named(
    fields: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """After twenty items one warning names the fields of the item and the settings."""
    await crawl(lambda _: items(*fields), {})
    (record,) = [one for one in caplog.records if "DEDUP_TEXT_FIELD" in one.getMessage()]
    assert ", ".join(fields) in record.getMessage()


async def test_fields_with_another_object_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A selector or a response in the field of the HTML is no page, though the name is right."""

    async def pages(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        for number in range(3):
            yield {"url": f"u{number}", "html": scrapy.Selector(text="<p>x"), "text": ""}

    await crawl(pages, {})
    assert "Their fields: url, html (a Selector), text (empty). Name those" in caplog.text


async def test_items_without_text_among_others_cause_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Items that are comments, among pages, are usual."""

    async def mixed(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        yield {"url": "u", "text": article(1)}
        async for one in items("comment"):
            yield one

    await crawl(mixed, {})
    assert "DEDUP_TEXT_FIELD" not in caplog.text


async def test_start_says_what_the_index_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The number of pages at INFO; a warning if a feed is overwritten while revisits are dropped,
    not of a feed that is new; DEDUP_RESET forgets them first."""
    caplog.set_level(logging.INFO)

    async def pages(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        for seed in range(3):
            yield item("a.example", seed)

    async def again(place: str = str(tmp_path / "out.jsonl"), **settings: Any) -> Crawled:
        caplog.clear()
        feed = {place: {"format": "jsonl", "overwrite": True}}
        where = settings_for(tmp_path)
        return await crawl(pages, {}, FEEDS=feed, LOG_LEVEL="INFO", **where, **settings)

    first = await again()
    assert "holds no pages yet" in caplog.text
    assert "is overwritten" not in caplog.text
    assert (first.stat("new"), first.stat("index/calls")) == (3, 6)
    assert (await again()).stat("revisit") == 3
    assert "holds 3 pages of earlier crawls, the newest stored on 20" in caplog.text
    assert "out.jsonl is overwritten" in caplog.text
    new = tmp_path / "new feed.jsonl"
    await again(new.as_uri())
    assert "is overwritten" not in caplog.text
    await again(new.as_uri())
    assert f"{new.as_uri()} is overwritten" in caplog.text
    await again(str(tmp_path / "%(name)s.jsonl"))
    assert "is overwritten" in caplog.text
    for place in ("%(time)s.jsonl", "%(batch_time)s-%(batch_id)d.jsonl"):  # new in each crawl
        await again(str(tmp_path / place))
        assert "is overwritten" not in caplog.text
    await again(DEDUP_REVISIT="keep")
    assert "is overwritten" not in caplog.text
    assert (await again(DEDUP_RESET=1)).stat("new") == 3
    assert "3 pages of earlier crawls are forgotten" in caplog.text
    assert "is overwritten" not in caplog.text


@pytest.mark.parametrize(
    ("place", "feed", "is_replaced"),
    [
        ("s3://bucket/out.jl", {}, True),
        ("gs://bucket/out.jl", {"overwrite": False}, True),  # neither can append
        ("s3://bucket/%(time)s.jl", {}, False),
        ("ftp://user:secret@host/out.jl", {}, True),
        ("ftp://user:secret@host/out.jl", {"overwrite": False}, False),
        ("stdout:", {}, False),
    ],
)
async def test_feeds_elsewhere_are_overwritten_unless_they_append(
    place: str,
    feed: dict[str, Any],
    is_replaced: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Scrapy's storages overwrite by default."""
    options = Options(index_url=f"sqlite:{tmp_path / 'i.db'}")
    async with Deduplicator(options) as dedup:
        await dedup.commit(await dedup.decide(Document("a", text=article(1))))
        await log_contents(dedup._index, options, Settings({"FEEDS": {place: feed}}))
    assert ("is overwritten" in caplog.text) is is_replaced
    assert "secret" not in caplog.text


async def test_bytes_in_a_json_feed_are_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The feed would be empty; not if the field is left out. Pages that no feed has are new to the
    next crawl, so there is no warning about them."""

    async def pages(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        for seed in range(3):
            yield {"url": f"u{seed}", "html": f"<p>{article(seed)}".encode()}

    feed: dict[str, Any] = {"format": "jsonl", "fields": ["url", "text"]}
    await crawl(pages, {}, FEEDS={str(tmp_path / "good.jsonl"): feed})
    assert "can't hold" not in caplog.text
    del feed["fields"]
    await crawl(pages, {}, FEEDS={str(tmp_path / "bad.jsonl"): feed})
    assert caplog.text.count("which JSON can't hold") == 1
    assert "later crawls" not in caplog.text


async def test_pages_of_a_killed_crawl_are_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl that begins at once waits for their leases, and would not say why."""
    caplog.set_level(logging.INFO)
    where = settings_for(tmp_path)
    killed = Deduplicator(Options.from_mapping(where))
    await killed.open()
    verdict = await killed.decide(Document(key="u1", text=article(1)))
    assert verdict.claim is not None

    async def nothing(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        return
        yield {}

    said = "Pages on their way to storage, in other crawls or in one that was killed: 1. Similar"
    await crawl(nothing, {}, LOG_LEVEL="INFO", DEDUP_PENDING_WAIT=50, **where)
    assert said in caplog.text
    assert "for 50 seconds at the most (DEDUP_PENDING_WAIT)" in caplog.text
    await killed.close()
    caplog.clear()
    await crawl(nothing, {}, LOG_LEVEL="INFO", **where)
    assert "on their way" not in caplog.text


@pytest.mark.parametrize(
    ("place", "feed", "said"),
    [
        ("a.csv", {"format": "csv"}, "which CSV holds as text in the encoding of the feed"),
        ("a.xml", {"format": "xml"}, "which XML holds as b'...'"),
        pytest.param(
            "a.jl", {}, "which JSON can't hold",
            marks=pytest.mark.skipif(scrapy.version_info < (2, 19), reason="a feed has a format"),
        ),
        ("a.pickle", {"format": "pickle"}, ""),
    ],
)  # fmt: skip
async def test_bytes_in_feeds_of_other_formats(
    place: str, feed: dict[str, Any], said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A page in another encoding is lost by CSV, and XML has no page at all; not where the fields
    of all feeds leave it out. The format is that of the name where none is given."""

    async def page(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        yield {"url": "u", "html": f"<meta charset=gbk><p>{'新桥已经修好。' * 30}".encode("gbk")}

    feeds = {str(tmp_path / place): feed}
    await crawl(page, {}, FEEDS=feeds, FEED_EXPORT_FIELDS=["url", "text"])
    assert "holds bytes" not in caplog.text
    await crawl(page, {}, FEEDS=feeds)
    assert caplog.text.count("holds bytes") == bool(said)
    assert said in caplog.text
    caplog.clear()  # None of a feed's own are all fields, whatever those of all feeds are
    all_fields = {str(tmp_path / place): {**feed, "fields": None}}
    await crawl(page, {}, FEEDS=all_fields, FEED_EXPORT_FIELDS=["url", "text"])
    assert caplog.text.count("holds bytes") == bool(said)


async def test_fields_of_feeds_that_are_not_there(caplog: pytest.LogCaptureFixture) -> None:
    """A setting that Scrapy does not read, and objects that are neither true nor false, end no
    crawl."""

    async def pages(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        for number in range(21):
            yield {"url": f"u{number}", "html": np.zeros(2)}

    crawled = await crawl(pages, {}, FEED_EXPORT_FIELDS={"url", "html"})
    assert crawled.stats["item_scraped_count"] == 21
    assert "Their fields: url, html (a ndarray). Name those" in caplog.text
    assert crawled.stat("error/internal") == 0


async def test_slips_in_the_beginning_of_a_name(caplog: pytest.LogCaptureFixture) -> None:
    """They may be settings of something else, so they are only warned of."""
    slips = {"DEDUPE_THRESHOLD": 0.9, "dedup_action": "mark", "DEUP_ENABLED": 1}
    others = {"DEDUPE_FOLDER": "x", "PDUDE_ENABLED": 1, "FEED_ACTION": 1}

    async def nothing(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        return
        yield {}

    await crawl(nothing, {}, **slips, **others)
    for name in slips:
        meant = f"DEDUP_{name.upper().partition('_')[2]}"
        assert f"{name} is no setting of dedup-middleware; do you mean {meant}?" in caplog.text
    assert not any(name in caplog.text for name in others)


async def test_drop_is_logged_without_the_page(caplog: pytest.LogCaptureFixture) -> None:
    """The log has one line; the record has the facts of the drop, and the page in none of its
    attributes."""
    caplog.set_level(logging.INFO)

    async def pages(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        yield item("a.example", 1)
        yield item("b.example", 1)

    settings = {"ADDONS": {Addon: 500}, "DEDUP_DROP_LOG_LEVEL": "INFO"}
    await crawl(pages, {}, **settings)
    (record,) = [one for one in caplog.records if "Dropped: " in one.getMessage()]
    assert "\n" not in record.getMessage()
    assert not hasattr(record, "item")
    assert item("b.example", 1)["text"] not in str(vars(record))
    assert record.__dict__["dedup"] == {
        "key": "https://b.example/1",
        "outcome": "duplicate",
        "reason": "exact-copy",
        "match": "https://a.example/1",
        "similarity": 1.0,
    }


def test_addon_installs_the_formatter_unless_the_project_has_one() -> None:
    """A formatter of the project's settings is kept."""
    settings = Settings()
    Addon().update_settings(settings)
    assert settings["LOG_FORMATTER"] is DropLogFormatter
    own = Settings({"LOG_FORMATTER": "project.Formatter"})
    Addon().update_settings(own)
    assert own["LOG_FORMATTER"] == "project.Formatter"


async def refusal(url: str) -> str:
    """The message with which an index is refused at the start."""
    index = open_index(Options(index_url=url, retries=0))
    try:
        with pytest.raises(IndexRefusedError) as caught:
            await index.open({})
    finally:
        await index.close()
    return str(caught.value)


async def test_wrong_password_and_database_are_errors_at_the_start(tmp_path: Path) -> None:
    """Waiting would not help: the message says what to correct, without the password."""
    server = RedisServer(tmp_path, ["--requirepass", "right"])
    server.start()
    try:
        address = f"127.0.0.1:{server.port}"
        said = await refusal(f"redis://:wrong@{address}/0")
        assert "user and password" in said
        assert "wrong" not in said
        assert "database" in await refusal(f"redis://:right@{address}/99")
        assert "begin it with redis://" in await refusal(f"rediss://:right@{address}/0")
    finally:
        server.stop()


def test_command_that_is_misspelt_names_the_one_meant(tmp_path: Path) -> None:
    """One line, exit code 2."""
    done = dedup("stat", **settings_for(tmp_path))
    assert done.code == 2
    assert "scrapy dedup stats" in done.err
    assert len(done.err.splitlines()) == 1


def test_clear_forgets_all_pages_after_asking(tmp_path: Path) -> None:
    """Without a terminal it wants --yes; afterwards the same pages are stored again."""
    settings = settings_for(tmp_path)
    crawl_items(settings, item("a.example", 1), item("a.example", 2))
    refused = dedup("clear", **settings)
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert dedup("clear", "--yes", "--json", **settings).json == {"forgotten": 2}
    assert dedup("stats", "--json", **settings).json["committed"] == 0
    crawl_items(settings, item("a.example", 1))
    assert dedup("stats", "--json", **settings).json["committed"] == 1


def test_addresses_are_printed_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the terminal is."""
    long = "long.example/" + "a" * 200
    settings = settings_for(tmp_path)
    crawl_items(settings, item(long, 1), item("b.example", 1))
    (tmp_path / "page.txt").write_text(article(1))
    for command in (("check", str(tmp_path / "page.txt")), ("explain", f"https://{long}/1")):
        printed = dedup(*command, **settings).out
        assert any(f"https://{long}/1" in line for line in printed.splitlines()), printed


def test_long_values_of_a_table_are_folded() -> None:
    """The path of a journal on a narrow terminal: all of its characters are there."""
    path = "/srv/" + "abcdefghij" * 9
    table = plain_table("index")
    add_row(table, "journal", path)
    narrow = Console(width=40, file=io.StringIO())
    narrow.print(table)
    assert isinstance(narrow.file, io.StringIO)
    cells = [line.split("│")[2] for line in narrow.file.getvalue().splitlines() if "│" in line]
    assert "".join(cell.strip() for cell in cells) == path


@pytest.mark.parametrize("columns", [80, 200])
def test_names_and_addresses_in_stats_are_not_folded(tmp_path: Path, columns: int) -> None:
    """However long the path of the index is: what the tutorial shows is found in it, and the
    addresses can be copied."""
    folder = tmp_path / ("long" * 50)
    folder.mkdir()
    settings = settings_for(folder)
    crawl_items(settings, item("a.example", 1))
    printed = dedup("stats", columns=columns, **settings).out
    addresses = [f"sqlite:{folder / 'index.db'}", f"journal: {folder / 'index.journal.db'}"]
    assert [line.rstrip() for line in printed.splitlines()[:2]] == addresses
    for name in (
        "entries in the journal: drops, near pages",
        "found at Jaccard 0.5: bands / and SimHash",
    ):
        assert f"│ {name} │" in printed


def test_compare_prints_the_usual_methods(tmp_path: Path) -> None:
    """Three methods by default, and all of them with the option."""
    pages = []
    for number in (1, 2):
        (tmp_path / f"{number}.txt").write_text(article(number))
        pages.append(str(tmp_path / f"{number}.txt"))
    methods = dedup("compare", *pages, "--json").json["methods"]
    assert [one["method"] for one in methods] == ["content", "minhash", "simhash"]
    assert len(dedup("compare", *pages, "--all-methods", "--json").json["methods"]) > 10


def test_files_are_not_named_by_another_format(tmp_path: Path) -> None:
    """Lines of JSON in a file called Parquet can't be read by any program."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"body": "x"}\n')
    refused = dedup("files", str(rows), "-o", str(tmp_path / "a.parquet"))
    assert (refused.code, ".jsonl" in refused.err) == (1, True)
    assert not (tmp_path / "a.parquet").exists()


def test_run_in_which_all_rows_are_rejected_fails(tmp_path: Path) -> None:
    """The message names the settings of the fields."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('no json\n{"broken\n')
    done = dedup("files", str(rows), "-o", str(tmp_path / "out.jsonl"), "--workers", "0")
    assert (done.code, "DEDUP_TEXT_FIELD" in done.err) == (1, True), done


async def test_error_of_one_kind_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A package that can't be imported, say, fails with every page: one traceback, all counted,
    also in the last line. What differs is logged at DEBUG level."""
    caplog.set_level(logging.DEBUG)

    def missing(_: Any, document: Document) -> Any:
        raise ImportError(f"{document.key} needs resiliparse")

    async def pages(_: Crawled) -> AsyncIterator[dict[str, Any]]:
        for number in range(5):
            yield {"url": f"u{number}", "text": article(number)}

    monkeypatch.setattr(Deduplicator, "decide", missing)
    crawled = await crawl(pages, {})
    assert (crawled.stats["item_scraped_count"], crawled.stat("error/internal")) == (5, 5)
    assert caplog.text.count("Traceback") == 1
    assert caplog.text.count("an error of the plugin while checking") == 1
    assert all(f"u{number} needs resiliparse" in caplog.text for number in range(5))
    assert "0 unchecked, 5 errors of the plugin" in caplog.text
