"""Loads whatever a process of a run needs, in the process that all others are forked from.

So a start costs some ten milliseconds instead of seconds, and thousands can be killed. What is
shared is code: modules, compiled kernels, the dictionary. The parent has no thread, no event loop,
no reactor and no open index; each child makes its own.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import sys
import threading

from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.redis import index as redis
from dedup_middleware.index.sqlite import index as sqlite
from dedup_middleware.journal import writer
from dedup_middleware.model.documents import Document
from tests.torture import children
from tests.torture.articles import text_of
from tests.torture.start import IS_PARENT

LOADED = (children, writer, redis, sqlite)
# What Scrapy and the extraction load when a crawl begins, half a second of imports.
LATER = (
    *(
        f"dedup_middleware.{name}"
        for name in ("plugin.addon", "plugin.pipeline", "journal.redis", "journal.sqlite")
    ),
    *(
        f"scrapy.core.downloader.handlers.{name}"
        for name in ("datauri", "file", "ftp", "http11", "s3")
    ),
    *(
        f"scrapy.{name}"
        for name in ("dupefilters", "pqueues", "squeues", "resolver", "responsetypes")
    ),
    *("scrapy.core.downloader", "scrapy.logformatter", "scrapy.statscollectors"),
    *("queuelib", "trafilatura", "twisted.plugin", "twisted.conch.telnet"),
)
PARTS = ("DOWNLOADER_MIDDLEWARES_BASE", "EXTENSIONS_BASE", "SPIDER_MIDDLEWARES_BASE")


async def _decide() -> None:
    async with Deduplicator(Options(index_url="memory:")) as dedup:
        html = f"<html><body><article><p>{text_of(0, 0)}</p></article></body></html>"
        await dedup.read(Document(key="https://example.org/0", html=html))
        for variant in (0, 1):
            key = f"https://example.org/{variant}"
            verdict = await dedup.decide(Document(key=key, text=text_of(0, variant)))
            await dedup.commit(verdict)


def load() -> None:
    """Load every kernel and the dictionary by deciding some pages, and import the rest."""
    for name in LATER:
        importlib.import_module(name)
    for part in PARTS:
        for path in getattr(default_settings, part):
            load_object(path)
    asyncio.run(_decide())
    if threading.active_count() > 1:
        raise RuntimeError(f"a fork would lose threads: {threading.enumerate()}")
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a reactor is installed: children could not choose their own")
    gc.collect()
    gc.freeze()  # so that children do not copy what is shared


if os.environ.get(IS_PARENT):
    load()
