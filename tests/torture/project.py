"""Scrapy settings of the crawls that are killed; a crawl's task comes as TORTURE_TASK."""

SPIDER_MODULES = ["tests.torture.crawling"]
ADDONS = {"dedup_middleware.Addon": 500}
ITEM_PIPELINES = {"tests.torture.store.LedgerStorage": 800}
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
EXTENSIONS = {"scrapy.extensions.logstats.LogStats": None}
