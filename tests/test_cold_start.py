"""A process with an empty cache compiles when the first item comes, logs that once, and caches
it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.signature.evidence import _examine
from dedup_middleware.signature.text import _sign_text
from dedup_middleware.text.extraction.markup import read_markup
from dedup_middleware.text.extraction.trim import trimmed
from dedup_middleware.text.shingle import read_words
from tests.test_warm import Probes, check

SPIDER = """
import scrapy

class Spider(scrapy.Spider):
    name = "pages"
    custom_settings = {
        "ADDONS": {"dedup_middleware.Addon": 500},
        "DEDUP_INDEX_URL": "memory:",
        "TELNETCONSOLE_ENABLED": False,
    }

    async def start(self):
        yield scrapy.Request("data:,page", self.parse)

    def parse(self, response):
        for n in range(int(self.items)):
            yield {"url": f"https://a.example/{n}", "text": f"page number {n} " * 40}
"""


def scrapy(folder: Path, *arguments: str, alone: bool = False) -> str:
    """The log of a Scrapy command whose kernels numba compiles, with a cache in a folder.

    :param alone: the dictionary is looked for there alone, not where other processes keep it
    """
    environment = {**os.environ, "DEDUP_COMPILE": "1", "DEDUP_CACHE_DIR": str(folder / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    if alone:
        environment |= {"XDG_CACHE_HOME": str(folder / "home"), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def compiled(folder: Path) -> set[str]:
    """Names of the files with machine code."""
    return {path.name for path in (folder / "cache").rglob("*.nbc")}


def test_without_items_nothing_is_compiled(tmp_path: Path) -> None:
    """A crawl that ends without an item, and `scrapy fetch`, leave the cache of kernels empty.

    So it is where no process has built the dictionary, which needs kernels of its own.
    """
    (tmp_path / "pages.py").write_text(SPIDER)
    (tmp_path / "page.html").write_text("<p>text</p>")
    log = scrapy(tmp_path, "runspider", "pages.py", "-a", "items=0", alone=True)
    addon = 'ADDONS={"dedup_middleware.Addon": 500}'
    log += scrapy(tmp_path, "fetch", "-s", addon, (tmp_path / "page.html").as_uri(), alone=True)
    assert "are compiled for this processor" not in log
    assert compiled(tmp_path) == set()


def without_smallest(folder: Path) -> None:
    """Take the two smallest kernels out of a cache."""
    for code in sorted((folder / "cache").rglob("*.nbc"), key=lambda one: one.stat().st_size)[:2]:
        code.unlink()


def copy_largest(cache: Path) -> None:
    """Copy the kernels that take a second or more from the cache of this machine, if there.

    `make warm` has compiled them in the same way, where there was no cache.
    """
    largest: tuple[Any, ...] = (_sign_text, read_words, trimmed, read_markup, _examine)
    for kernel in largest:
        own = Path(kernel.stats.cache_path)
        place = cache / own.parent.name / own.name
        place.mkdir(0o700, parents=True, exist_ok=True)
        for file in own.glob(f"*.{kernel.__name__}-*"):
            shutil.copy2(file, place)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with the spider and a cache that a process has filled, and the output of that
    process."""
    folder = tmp_path_factory.mktemp("opened")
    (folder / "pages.py").write_text(SPIDER)
    copy_largest(folder / "cache")
    with contextlib.closing(Probes(DEDUP_CACHE_DIR=str(folder / "cache"))) as probe:
        return folder, probe({"index_url": "memory:"})


@pytest.mark.empty_cache
def test_opening_compiles_all_kernels(opened: tuple[Path, dict[str, Any]]) -> None:
    """``open`` compiles all that decisions of texts and of HTML need and that no cache holds."""
    folder, found = opened
    check(found)
    assert found["before"] > 10
    assert len(compiled(folder)) > 10


@pytest.mark.empty_cache
def test_warmup_fills_the_cache(opened: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """A crawl after `scrapy dedup warmup` compiles nothing; the command opens no index.

    A command that compiles says so on stderr, as a crawl does in its log.

    tests/operation/test_containers.py begins without any kernel.
    """
    folder = tmp_path / "warm"
    shutil.copytree(opened[0], folder)
    without_smallest(folder)
    said = scrapy(folder, "dedup", "warmup", "-s", "DEDUP_INDEX_URL=memory:")
    assert said.count("scrapy dedup warmup: The functions that compare pages are compiled") == 1
    kept = compiled(folder)
    assert kept == compiled(opened[0])
    log = scrapy(folder, "runspider", "pages.py", "-a", "items=2")
    assert "are compiled for this processor" not in log
    assert compiled(folder) == kept


@pytest.mark.empty_cache
def test_the_first_item_compiles_and_one_line_says_so(
    opened: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """The line names the cache; the next crawl finds it filled and does not repeat the line."""
    every = compiled(opened[0])
    folder = tmp_path / "less"
    shutil.copytree(opened[0], folder)
    without_smallest(folder)
    assert len(compiled(folder)) == len(every) - 2
    cold = scrapy(folder, "runspider", "pages.py", "-a", "items=2")
    assert cold.count("are compiled for this processor") == 1
    assert str(folder / "cache") in cold
    assert compiled(folder) == every
    again = scrapy(folder, "runspider", "pages.py", "-a", "items=2")
    assert "are compiled for this processor" not in again
    assert compiled(folder) == every
