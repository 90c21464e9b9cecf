"""Carries ``dedup_skip`` and ``dedup_key`` from the meta of a request to the items of its page.

A pipeline does not get the response of an item, so a spider middleware makes a note for each item
that a callback yields, and the pipeline looks it up by the item's identity.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import Request

from dedup_middleware.plugin.items import NOTHING, Note, Notes
from dedup_middleware.plugin.pipeline import DedupPipeline

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

logger = logging.getLogger(__name__)

SKIP, KEY = "dedup_skip", "dedup_key"


class RequestMeta:
    """Spider middleware that reads ``dedup_skip`` and ``dedup_key``."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._has_warned = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        return cls(crawler)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterator[Any]:
        """Called by Scrapy with what a callback yields."""
        for one in result:
            # Read for each item anew: a callback may change the meta before it yields one.
            self._add(one, response)
            yield one

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Called by Scrapy with what an asynchronous callback yields."""
        async for one in result:
            self._add(one, response)
            yield one

    def _add(self, one: Any, response: Response) -> None:
        note = NOTHING if isinstance(one, Request) else self._read(response)
        for notes in () if note is NOTHING else self._notes:
            notes.add(one, note)

    @cached_property
    def _notes(self) -> list[Notes]:
        # A project may have several pipelines of the plugin, each with an index of its own.
        engine = self._crawler.engine
        pipelines = () if engine is None else engine.scraper.itemproc.middlewares
        return [one.notes for one in pipelines if isinstance(one, DedupPipeline)]

    def _read(self, response: Response) -> Note:
        request = response.request
        meta = {} if request is None else request.meta
        if SKIP not in meta and KEY not in meta:
            return NOTHING
        key = meta.get(KEY)
        if key is not None and not (isinstance(key, str) and key.strip()):
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "request.meta[%r]=%r of %s can't be used: use a text that is not empty, or "
                    "None. The items of such pages keep their own keys",
                    KEY,
                    key,
                    response.url,
                )
            key = None
        return Note(bool(meta.get(SKIP)), key)
