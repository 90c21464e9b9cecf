"""Every code block of the documentation works."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.settings import BaseSettings
from scrapy.settings import default_settings as scrapy_defaults
from scrapy.utils.misc import load_object

from dedup_middleware import DedupPipeline
from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import PREFIX
from dedup_middleware.evaluation import __main__ as evaluation
from dedup_middleware.evaluation.corpus import read_pairs
from tests.commands.running import crawl, dedup, item
from tests.docblocks import (
    ROOT,
    Block,
    Command,
    all_blocks,
    blocks,
    commands,
    file_name,
    is_settings,
    missing,
    pages,
)
from tests.itemcrawl import SETTINGS
from tests.java import JAVA
from tests.servers import running_redis
from tests.texts import article

BLOCKS = all_blocks()


def test_every_block_is_of_a_kind_that_is_run() -> None:
    """Python, commands, labelled pairs, the output of a script, and commands for Redis."""
    for page in pages():
        before = None
        for block in blocks(page):
            if block.language == "text" and page.name != "redis.md":
                # tests/test_docs_redis.py runs those of redis.md.
                assert before is not None, f"{block}: it is the output of no command"
                assert kind(before) == "script", f"{block}: it is the output of no command"
            else:
                assert block.language in {"python", "console", "sh", "json", "text"}, str(block)
            before = block


def kind(block: Block) -> str:
    """What a block is: a piece of settings, a file of the tutorial, a script, or no Python."""
    if block.language != "python":
        return block.language
    if is_settings(block) and file_name(block) is None:
        return "settings"
    return "script" if file_name(block) is None else "file"


def of_kind(wanted: str) -> list[Block]:
    """All blocks of a kind."""
    return [block for block in BLOCKS if kind(block) == wanted]


def test_files_are_those_of_the_tutorial() -> None:
    """Files are saved and used by tests/test_new_user.py, which follows the tutorial alone."""
    assert {block.page for block in of_kind("file")} == {"tutorial.md"}


@pytest.mark.parametrize("block", of_kind("settings"), ids=str)
def test_settings_are_usable(block: Block) -> None:
    """Settings of the plugin are accepted, others are Scrapy's, and what is named is there."""
    names: dict[str, Any] = {}
    exec(block.code, names)
    given = {name: value for name, value in names.items() if name.isupper()}
    Options.from_mapping({k: v for k, v in given.items() if k.startswith(PREFIX)})
    for name, value in given.items():
        assert name.startswith(PREFIX) or hasattr(scrapy_defaults, name), name
        if name in {"ADDONS", "ITEM_PIPELINES"}:
            for path in value:
                load_object(path)
    if "ADDONS" in given:
        settings = BaseSettings(given)
        load_object(next(iter(given["ADDONS"])))().update_settings(settings)
        assert len(settings["ITEM_PIPELINES"]) == 1


def scripts() -> list[Block]:
    """The scripts but that of docs/spark.md, which tests/spark/test_job.py runs in its Spark."""
    return [block for block in of_kind("script") if block.page != "spark.md"]


def run_script(code: str, folder: Path) -> str:
    """Run a script in a process of its own, which a crawl needs, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", scripts(), ids=str)
def test_scripts_run(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each runs unchanged, in an empty folder, and prints what is shown below it."""
    monkeypatch.chdir(tmp_path)
    if block.page == "report.md":
        pair = item("a.example", 1), item("b.example", 1, text=article(1)[4:])
        crawl({"DEDUP_INDEX_URL": "sqlite:index.db"}, *pair)
    if block.page == "journal.md":
        crawls_of_the_journal()
    if "CrawlerProcess" in block.code or "Batch" in block.code:
        printed = run_script(block.code, tmp_path)
    else:
        exec(compile(block.code, str(block), "exec"), {"__name__": "__main__"})
        printed = capsys.readouterr().out
    (page,) = (page for page in pages() if page.name == block.page)
    found = blocks(page)
    after = found[found.index(block) + 1 :][:1]
    if after and after[0].language == "text":
        assert printed == after[0].code


def crawls_of_the_journal() -> None:
    """The two crawls that the script of journal.md reads about."""
    bridge = (
        "The council will repair the old bridge over the river in spring. The work takes a year "
        "and costs two million crowns, says the mayor; until then buses drive through the next "
        "village."
    )
    more = " In autumn the school gets a new roof, and the library will open on Sundays as well."
    for name, *items in (
        ("monday", {"url": "https://one.example/1", "title": "Bridge", "text": bridge}),
        ("tuesday", {"url": "https://two.example/9", "title": "Old bridge", "text": bridge},
         {"url": "https://three.example/5", "text": bridge},
         {"url": "https://four.example/7", "text": bridge + more}),
    ):  # fmt: skip
        crawl({"DEDUP_INDEX_URL": "sqlite:index.db", "DEDUP_CRAWL_ID": name}, *items)


def named_in(page: str, name: str) -> Any:
    """Return the object of this name from the last script of a page that contains the name."""
    names: dict[str, Any] = {}
    exec([one for one in scripts() if one.page == page and name in one.code][-1].code, names)
    return names[name]


async def test_links_of_a_copy_are_not_followed() -> None:
    """The spider middleware of signals.md does not follow the links of a copy."""
    followed = []

    class Pages(Spider):
        name = "pages"

        async def start(self) -> AsyncIterator[Any]:
            for host in ("one", "two"):
                yield Request(f"data:,{host}")

        async def parse(self, response: Any) -> AsyncIterator[Any]:
            yield item(f"{response.text}.example", 1)
            yield Request(f"data:,more-of-{response.text}", callback=self.parse_more)

        def parse_more(self, response: Any) -> None:
            followed.append(response.text)

    more = {"CONCURRENT_REQUESTS": 1, "ITEM_PIPELINES": {DedupPipeline: 450}}
    more["SPIDER_MIDDLEWARES"] = {named_in("signals.md", "StopAtCopies"): 50}
    await AsyncCrawlerRunner(SETTINGS | more).crawl(Pages)
    assert followed == ["more-of-one"]


async def test_spider_turns_an_argument_into_a_setting(tmp_path: Path) -> None:
    """The spider of commands.md starts a crawl anew with ``reset=1``."""

    class Pages(named_in("commands.md", "Pages")):  # type: ignore[misc]
        start_urls = ("data:,",)  # for an item of `start` Scrapy waits five seconds

        def parse(self, _response: Any) -> Iterator[Any]:
            yield item("one.example", 1)

    given = {
        "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'index.db'}",
        "ITEM_PIPELINES": {DedupPipeline: 450},
    }
    runner, stored = AsyncCrawlerRunner(SETTINGS | given), []
    for reset in ("0", "0", "1"):
        crawler = runner.create_crawler(Pages)
        await runner.crawl(crawler, reset=reset)
        assert crawler.stats is not None
        stored.append(crawler.stats.get_value("item_scraped_count", 0))
    assert stored == [1, 0, 1]


@pytest.mark.parametrize("block", of_kind("json"), ids=str)
def test_labels_are_read(block: Block, tmp_path: Path) -> None:
    """Lines of labels are what the evaluation reads."""
    file = tmp_path / "pairs.jsonl"
    file.write_text(block.code, encoding="utf-8")
    assert {pair.label for pair in read_pairs(file)} == {True, False}


# Commands that a test of their own runs, or CI; all others are run below.
RUN_BY = {
    "make crawl": "tests/test_quickstart.py::test_make_crawl_in_a_fresh_clone",
    "make test": ".ci/run",
    "make bench": "Makefile",
    "python3 -m venv .venv": "Makefile",
    ".venv/bin/pip install -e '.[crawler,dev]'": "Makefile",
    ".venv/bin/scrapy crawl news": (
        "tests/test_sample_crawl.py::test_feed_holds_exactly_these_pages"
    ),
    ".venv/bin/python -m pytest": "Makefile",
    ".venv/bin/scrapy crawl news -a start=https://one.example/,https://two.example/ "
    "-a pages=500": "tests/crawler/test_news.py",
    "pip install dedup-middleware": "tests/test_new_user.py::test_tutorial_works_as_written",
    "SCRAPY_PROJECT=shared scrapy crawl news": "tests/test_compose.py::test_topology",
    "scrapy crawl news -s DEDUP_INDEX_URL=redis://127.0.0.1:6379/0": (
        "tests/test_sharing.py::test_four_spiders_on_four_mirrors_and_one_redis"
    ),
    "DEDUP_REDIS_PASSWORD=... docker compose up --build --scale crawler=4": (
        "tests/test_compose.py::test_topology"
    ),
    "pip install 'dedup-middleware[spark]'": (
        "tests/test_docs_reference.py::test_extras_are_documented"
    ),
    "scrapy dedup spark 'archive/*.parquet' -o clean": "tests/spark/test_job.py::test_the_command",
    'spark-submit --master spark://host:7077 "$(python -c '
    "'import dedup_middleware.spark.__main__ as m; print(m.__file__)')\" "
    "s3a://bucket/archive -o s3a://bucket/clean -s DEDUP_HASH_KEY=1f3a...": (
        "tests/test_docs.py::test_spark_submit"
    ),
    "scrapy dedup spark 2024/ -o clean-2024 --index-file 2024.parquet -s DEDUP_HASH_KEY=1f3a...": (
        "tests/spark/test_index.py::test_new_pages_against_an_exported_index"
    ),
    "scrapy dedup spark 2025/ -o clean-2025 --against 2024.parquet": (
        "tests/spark/test_index.py::test_new_pages_against_an_exported_index"
    ),
    "scrapy dedup spark pages.jsonl -o result --index-file kept.parquet": (
        "tests/spark/test_job.py::test_the_command"
    ),
    "python -m research tables pages.jsonl": (
        "tests/research/test_tables.py::test_command_fills_a_page"
    ),
    "python -m research all --quick --out results": (
        "tests/research/test_commands.py::test_everything_on_made_up_data"
    ),
    **dict.fromkeys(
        (
            "pip install scrapyd scrapyd-client dedup-middleware",
            "scrapyd &",
            "scrapyd-deploy",
            "scrapyd-client schedule -p shop pages",
            "scrapyd-client schedule -p shop pages --arg setting=DEDUP_REVISIT=keep",
        ),
        "tests/operation/test_scrapyd.py::test_jobs_share_the_index",
    ),
    **dict.fromkeys(
        (
            "scrapy dedup report -o report.html --crawl JOB "
            "-s DEDUP_INDEX_URL=sqlite:/var/lib/scrapyd/dedup.db",
            "scrapy dedup restore -o back.jsonl --crawl JOB "
            "-s DEDUP_INDEX_URL=sqlite:/var/lib/scrapyd/dedup.db",
        ),
        "tests/operation/test_scrapyd.py::test_the_job_is_the_crawl_of_the_journal",
    ),
    **dict.fromkeys(
        (
            "pip install scrapy-redis dedup-middleware",
            "scrapy runspider pages.py &",
            "redis-cli lpush pages:start https://one.example/ https://two.example/",
        ),
        "tests/operation/test_scrapy_redis.py::test_two_crawlers_share_queue_and_index",
    ),
    **dict.fromkeys(
        (
            "pip install scrapy-playwright dedup-middleware",
            "CHROMIUM=/usr/bin/chromium scrapy runspider pages.py "
            '-a urls="https://one.example/1 https://two.example/1"',
        ),
        "tests/operation/test_playwright.py::test_rendered_pages_are_compared",
    ),
    "kubectl create secret generic dedup-index "
    "--from-literal=url=rediss://USER:PASSWORD@HOST:6379/0": (
        "tests/operation/test_containers.py::test_manifest_fits_the_image"
    ),
    "kubectl apply -f kubernetes.yml": (
        "tests/operation/test_containers.py::test_manifest_is_valid"
    ),
    "curl http://127.0.0.1:6800/cancel.json -d project=shop -d job=JOB": (
        "tests/operation/test_scrapyd.py::test_cancelled_job_gives_its_claims_back"
    ),
}
PLUGIN = "scrapy dedup "
EVALUATION = re.compile(r"(?:\.venv/bin/)?python -m dedup_middleware\.evaluation ")


def elsewhere(page: Path) -> bool:
    """Whether another test runs all commands of a page."""
    return page.name == "tutorial.md"


def shown(page: Path) -> list[Command]:
    """The commands of a page."""
    return [
        command
        for block in blocks(page)
        if block.language in {"console", "sh"}
        for command in commands(block)
    ]


def test_every_other_command_is_run_by_a_test() -> None:
    """No command is shown that nothing runs, and no test of the list is gone."""
    others = {
        command.text
        for page in pages()
        if not elsewhere(page)
        for command in shown(page)
        if command.text in RUN_BY
        or not (command.text.startswith(PLUGIN) or EVALUATION.match(command.text))
    }
    assert others == set(RUN_BY)
    for place in RUN_BY.values():
        file, _, test = place.partition("::")
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), place
        assert (ROOT / file).exists(), place


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name, and an index with its journal."""
    monkeypatch.chdir(tmp_path)
    given = {"DEDUP_INDEX_URL": "sqlite:index.db"}
    crawl(given, *(item("one.example", n) for n in range(1, 4)), item("spam.example", 9),
          *(item("two.example", n, text=article(n)[4:]) for n in range(1, 3)))  # fmt: skip
    chosen = [{"key": "https://two.example/1"}, {"key": "https://two.example/2"}]
    Path("decisions.json").write_text(json.dumps(chosen), encoding="utf-8")
    for name, seed in (("page", 1), ("a", 2), ("b", 2)):
        html = f"<html><body><h1>{name}</h1><article><p>{article(seed)}</p></article></body></html>"
        Path(f"{name}.html").write_text(html, encoding="utf-8")
    rows = [item("three.example", n) for n in range(8)] + [
        item("four.example", n) for n in range(4)
    ]
    lines(Path("pages.jsonl"), rows)
    with Path("pages.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["url", "body"], *([row["url"], row["text"]] for row in rows)])
    pairs = [("a", 1, 1, 5), ("b", 2, 2, 9), ("c", 3, 4, 0), ("d", 5, 6, 0)]
    lines(
        Path("pairs.jsonl"),
        [
            {"pair_id": name, "a_text": article(one)[cut:], "b_text": article(other),
             "label": int(one == other)}
            for name, one, other, cut in pairs
        ],
    )  # fmt: skip
    return tmp_path


def lines(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write JSON lines."""
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture
def redis_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server with an index of some pages."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        crawl({"DEDUP_INDEX_URL": server.url}, *(item("one.example", n) for n in range(3)))
        yield f"127.0.0.1:{server.port}"


def with_commands(pattern: str) -> list[Path]:
    """The pages that show commands of a kind."""
    return [
        page
        for page in pages()
        if not elsewhere(page) and any(re.match(pattern, command.text) for command in shown(page))
    ]


@pytest.mark.parametrize("page", with_commands(PLUGIN), ids=lambda page: page.name)
def test_commands_of_the_plugin_do_what_they_say(page: Path, desk: Path, redis_at: str) -> None:
    """Those of a page are typed one after the other; each ends well and prints what is shown."""
    for command in shown(page):
        if not command.text.startswith(PLUGIN) or command.text in RUN_BY:
            continue
        words = shlex.split(command.text.replace("127.0.0.1:6379", redis_at))[2:]
        done = dedup(*words, DEDUP_INDEX_URL="sqlite:index.db")
        # The page that is checked in the documentation is a copy.
        expected = 3 if words[0] == "check" else 0
        assert done.code == expected, f"{command}: {done.err}"
        assert missing(command.output, done.out) is None, done.out


def evaluations() -> list[Command]:
    """The commands of the evaluation that are quick, each once, whatever Python they name."""
    found = {
        EVALUATION.sub("", command.text): command
        for page in pages()
        if not elsewhere(page)
        for command in shown(page)
        if EVALUATION.match(command.text) and command.text not in RUN_BY
    }
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("command", evaluations(), ids=str)
def test_evaluations_run(command: Command, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each runs on a file of its kind and prints a table of the methods."""
    try:
        code = evaluation.main(shlex.split(EVALUATION.sub("", command.text)))
    except DedupError as error:
        pytest.fail(f"{command}: {error}")
    assert code == 0, capsys.readouterr().err
    assert "content" in capsys.readouterr().out


@pytest.mark.services
def test_spark_submit(desk: Path) -> None:
    """The command of docs/spark.md runs, here with files of this machine and no cluster."""
    (text,) = (text for text in RUN_BY if text.startswith("spark-submit "))
    for shown_there, here in {
        "spark://host:7077": "'local[1]'", "s3a://bucket/archive": "pages.jsonl",
        "s3a://bucket/clean": "clean", "1f3a...": "1f3a",
    }.items():  # fmt: skip
        assert shown_there in text
        text = text.replace(shown_there, here)
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    path = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": os.pathsep.join(folders)}
    path["JDK_JAVA_OPTIONS"] = JAVA
    done = subprocess.run(text, shell=True, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (desk / "clean" / "kept" / "_SUCCESS").exists()


WITHOUT_SCRAPY = """
import asyncio, sys
from dedup_middleware import Deduplicator, Document, Options

async def main():
    async with Deduplicator(Options()) as dedup:
        await dedup.commit(await dedup.decide(Document("k", html="<p>A page of a few words</p>")))

asyncio.run(main())
assert "scrapy" not in sys.modules and "twisted" not in sys.modules
"""


def test_deduplicator_loads_no_scrapy() -> None:
    """What docs/without-scrapy.md shows imports nothing of Scrapy, as the page says."""
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", WITHOUT_SCRAPY], check=True, env=path)
