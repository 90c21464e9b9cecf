"""A crawl for every method, run as a program: ``python -m tests.methods.crawling URL METHOD...``.

One spider a method, all in one process, yields pages and edited copies of them; Scrapy and the
plugin are the real ones. ``{method}`` in the URL of the index is replaced. Prints what was dropped
as JSON: ``{method: {key: [matched key, similarity, reason, tables]}}``.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess

from dedup_middleware import NearDuplicate
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.methods.literature.charset import level_1
from tests.servers import namespace_for

TITLE = "水务局改造果园"
Dropped = dict[str, list[Any]]


def story(seed: int) -> str:
    """A body of forty sentences with words of its own, unlike those of other seeds."""
    rng = random.Random(seed)
    characters = level_1()
    sentences = (
        "".join(rng.choices(characters, k=16)) + f"，共计{rng.randrange(10**4)}件。"
        for _ in range(40)
    )
    return "".join(line + "\n" * (i % 4 == 3) for i, line in enumerate(sentences))


def with_a_word_more(text: str) -> str:
    """A word before the full stop in the middle."""
    place = text.index("。", len(text) // 2)
    return f"{text[:place]}昨日{text[place:]}"


def variants(text: str) -> dict[str, str]:
    """Copies of a page, by the name of what was done to it."""
    return {
        "copy": text,
        "layout": text.replace("。", "。\n\u3000"),
        "width": edit(text, "full-width", 1.0, 1),
        "word": with_a_word_more(text),
        "order": edit(text, "sentence-order", 1.0, 3),
        "figures": edit(text, "figures-changed", 0.3, 3),
    }


def items() -> Iterator[dict[str, str]]:
    """For each variant a page of its own and the variant of it, ``page/NAME`` and ``copy/NAME``."""
    for seed, name in enumerate(variants("。"), 1):
        text = story(seed)
        yield {"url": f"page/{name}", "title": TITLE, "text": text}
        yield {"url": f"copy/{name}", "title": TITLE, "text": variants(text)[name]}


class Pages(Spider):
    """Yields the pages."""

    name = "pages"

    async def start(self) -> Any:
        """One request, answered by Scrapy itself."""
        yield Request("data:,pages")

    def parse(self, _: Any) -> Iterator[dict[str, str]]:
        """The items, one after the other."""
        yield from items()


def spider_for(method: str, url: str) -> type[Pages]:
    """The spider with the settings of a method."""
    settings = {
        "ADDONS": {"dedup_middleware.Addon": 500},
        "DEDUP_INDEX_URL": url.replace("{method}", method),
        "DEDUP_NAMESPACE": namespace_for(url, f"crawl-{method}"),
        "DEDUP_METHOD": method,
        "DEDUP_HASH_KEY": "5",
        # One item at a time, so that a page is stored before its copy comes.
        "CONCURRENT_ITEMS": 1,
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
    }
    return type("PagesOfMethod", (Pages,), {"custom_settings": settings})


def noting(dropped: Dropped) -> Callable[..., None]:
    """A listener that keeps what Scrapy says of dropped items."""

    def note(item: dict[str, str], exception: Exception) -> None:
        assert isinstance(exception, NearDuplicate)
        match = exception.verdict.match
        assert match is not None
        reason, tables = exception.verdict.reason, list(match.tables)
        dropped[item["url"]] = [match.key, match.similarity, reason, tables]

    return note


def main(url: str, methods: list[str]) -> None:
    """Run all crawls."""
    process = CrawlerProcess({"LOG_LEVEL": "WARNING"})
    results: dict[str, Dropped] = {method: {} for method in methods}
    for method, dropped in results.items():
        crawler = process.create_crawler(spider_for(method, url))
        crawler.signals.connect(noting(dropped), signals.item_dropped, weak=False)
        process.crawl(crawler)
    process.start()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
