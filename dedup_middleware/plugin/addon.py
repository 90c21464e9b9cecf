"""The Scrapy add-on; in the settings: ``ADDONS = {"dedup_middleware.Addon": 500}``."""

from __future__ import annotations

from scrapy.settings import BaseSettings

from dedup_middleware.plugin.logformatter import DropLogFormatter
from dedup_middleware.plugin.pipeline import DedupPipeline
from dedup_middleware.plugin.requestmeta import RequestMeta

# After the pipelines that clean items (300 by custom), before pipelines that store them (800).
PRIORITY = 450
# Near the engine: after the spider middlewares that make or change items.
NOTING = 60


class Addon:
    """Adds :class:`~dedup_middleware.DedupPipeline` to the item pipelines.

    A priority given in ``ITEM_PIPELINES`` is kept; None there switches the pipeline off. The spider
    middleware that reads ``dedup_skip`` and ``dedup_key`` of requests is added likewise. Dropped
    pages are logged in one line each, unless the project sets a ``LOG_FORMATTER``.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Called by Scrapy before the crawl."""
        settings.setdefault_in_component_priority_dict("ITEM_PIPELINES", DedupPipeline, PRIORITY)
        settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", RequestMeta, NOTING)
        settings.set("LOG_FORMATTER", DropLogFormatter, "addon")
