"""What the child processes of the tests of loading do: enter many articles, or a whole file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs
import numpy as np

from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import pages_of
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import CONTENT
from dedup_middleware.tools.portable.portable import import_index
from tests.index.harness import PARAMETERS
from tests.index.workers import article_entry


def options_of(url: str) -> Options:
    """Options of the index that the workers share; only one in Redis has a namespace."""
    if url.startswith("sqlite:"):
        return Options(index_url=url, timeout=30)
    return Options(index_url=url, timeout=30, namespace="workers")


def loaded_article(article: int) -> Entry:
    """The entry that a spider would claim for an article, with its SimHash in the content."""
    entry = article_entry(article)
    content = np.frombuffer(entry.content, CONTENT).copy()
    wide = next(bucket_key for bucket_key in entry.bucket_keys if bucket_key.table == 2)
    content["simhash"] = (wide.bucket & 0xFFFF) << 48 | wide.suffix
    return attrs.evolve(entry, content=content.tobytes())


def load_articles(url: str, first: int, count: int) -> None:
    """Entry point of a child process: loads articles from number ``first`` on."""

    async def work() -> None:
        index = open_index(options_of(url))
        await index.open(PARAMETERS)
        await index.load(pages_of([loaded_article(one) for one in range(first, first + count)]))
        await index.close()

    asyncio.run(work())


def import_file(url: str, path: Path) -> None:
    """Entry point of a child process: imports a portable file."""

    async def work() -> None:
        index = open_index(options_of(url))
        await import_index(index, path)
        await index.close()

    asyncio.run(work())
