"""A project of the user's own, and ten pages of the sample site that it crawls."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import attrs

from crawler.sample_site.server import SampleSite
from tests.trial.environment import Done, Environment, Running

COPIES = 3  # among the ten pages
PAGES = 10
ADDON = '\nADDONS = {"dedup_middleware.Addon": 500}\nDOWNLOAD_DELAY = 0\n'
SPIDER = """
import scrapy


class PagesSpider(scrapy.Spider):
    name = "pages"
    kind = "text"  # what its items hold
    repeat = 1  # items a page

    async def start(self):
        for number, url in enumerate(self.pages.split()):
            yield scrapy.Request(url, priority=-number)

    def parse(self, response):
        for number in range(int(self.repeat)):
            yield from getattr(self, self.kind)(response, f"{response.url}?{number or ''}")

    def text(self, response, url):
        yield {"url": url, "html": response.text, "title": "", "text": ""}

    def bytes(self, response, url):
        yield {"url": url, "html": response.body}

    def odd(self, response, url):
        yield {"link": url, "body": response.text}

    def nothing(self, response, url):
        yield from ()
"""


def ten_pages(site: SampleSite) -> list[str]:
    """Addresses of ten of its articles: three copies, behind the pages that they are copies of.

    Word for word: all outlets are one host here, where another headline makes another page.
    """
    places = {page.outlet + page.path: site.urls[page.outlet] + page.path for page in site.pages()}
    copies = [page for page in site.pages() if page.kind == "verbatim"][:COPIES]
    stored = [page.outlet + page.path for page in site.pages() if page.kind == "original"]
    names = [page.original for page in copies if page.original is not None]
    originals = list(dict.fromkeys([*names, *stored]))[: PAGES - COPIES]
    return [places[name] for name in (*originals, *(one.outlet + one.path for one in copies))]


@attrs.define(eq=False)
class Project:
    """A project that ``scrapy startproject`` has made, with one line of settings added."""

    environment: Environment
    pages: list[str]
    folder: Path = attrs.field(init=False)
    _indexes: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.folder = self.environment.folder / "own"
        package = self.folder / "own"
        if self.folder.exists():  # with the indexes of an earlier run
            shutil.rmtree(self.folder)
        self.environment.run("scrapy", "startproject", "own", str(self.folder))
        with (package / "settings.py").open("a", encoding="utf-8") as settings:
            settings.write(ADDON)
        (package / "spiders" / "pages.py").write_text(SPIDER, encoding="utf-8")

    def index(self) -> str:
        """The address of an index of its own, in a file that is not there yet."""
        self._indexes += 1
        return f"sqlite:index-{self._indexes}.db"

    def begin(
        self,
        index: str,
        *arguments: str,
        settings: dict[str, object] | None = None,
        cache: str = "cache",
        **variables: str,
    ) -> Running:
        """Start a crawl of the ten pages, in their order.

        :param settings: given on the command line
        """
        # So that what is a copy of what does not depend on the order of downloads.
        all_settings = {"DEDUP_INDEX_URL": index, "CONCURRENT_REQUESTS": 1, **(settings or {})}
        given = [part for name, value in all_settings.items() for part in ("-s", f"{name}={value}")]
        if not any(one.startswith("pages=") for one in arguments):
            arguments = ("-a", f"pages={' '.join(self.pages)}", *arguments)
        return self.environment.begin(
            *("scrapy", "crawl", "pages", *given, *arguments),
            cwd=self.folder,
            cache=cache,
            **variables,
        )

    def crawl(self, index: str, *arguments: str, seconds: float = 300, **options: Any) -> Done:
        """Crawl to the end. The command is shown without the addresses of the pages."""
        done = self.begin(index, *arguments, **options).wait(seconds)
        return attrs.evolve(done, command=done.command.replace(" ".join(self.pages), "..."))

    def dedup(self, name: str, *arguments: str, index: str = "", **variables: str) -> Done:
        """Run ``scrapy dedup``."""
        given = ("-s", f"DEDUP_INDEX_URL={index}") if index else ()
        return self.environment.run(
            "scrapy", "dedup", name, *arguments, *given, cwd=self.folder, **variables
        )

    def feed(self, name: str) -> list[dict[str, Any]]:
        """The rows of a feed of JSON lines; none if there is no file."""
        file = self.folder / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


def stat(done: Done, name: str) -> float:
    """A number among the stats that a crawl has logged; 0 where it is not."""
    for line in done.text.splitlines():
        key, found, value = line.strip().strip("{},").partition(": ")
        if found and key.strip("'") == name:
            return float(value)
    return 0.0
