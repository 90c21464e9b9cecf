"""Crawlers that share a queue by scrapy-redis, and an index by the plugin."""

import os

from scrapy_redis.spiders import RedisSpider

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")


class Pages(RedisSpider):
    """Follows the links of start pages, which are pushed to the list ``pages:start``."""

    name = "pages"
    redis_key = "pages:start"
    max_idle_time = 10  # seconds without a request after which it ends

    custom_settings = {  # noqa: RUF012
        "ADDONS": {"dedup_middleware.Addon": 500},
        "DEDUP_INDEX_URL": REDIS,
        "REDIS_URL": REDIS,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
        # Behind the plugin, which is at 450: what it drops is not stored.
        "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 800},
    }

    def parse(self, response):
        """A start page."""
        for link in response.css("li a"):
            yield response.follow(link, self.parse_page)

    def parse_page(self, response):
        """An article."""
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "html": response.text,
        }
