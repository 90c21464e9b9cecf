"""A spider whose pages are archived: ``scrapy runspider warc_pages.py -a urls="..."``."""

import scrapy
from warc_archive import capture


class Pages(scrapy.Spider):
    """Archives the pages of the argument ``urls``."""

    name = "pages"

    custom_settings = {  # noqa: RUF012
        "ADDONS": {"dedup_middleware.Addon": 500},
        "ITEM_PIPELINES": {"warc_archive.WarcArchive": 800},
        "WARC_FILE": "pages.warc.gz",
        "WARC_CAPTURES": "captures.db",
        # Each version of a page has a record of its own.
        "DEDUP_VERSIONS": "keep",
    }

    async def start(self):
        """One request for each address."""
        for url in self.urls.split():
            yield scrapy.Request(url)

    def parse(self, response):
        """One item for each page."""
        yield {"url": response.url, **capture(response)}
