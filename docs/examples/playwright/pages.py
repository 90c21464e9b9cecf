"""Pages whose text is written by scripts: fetched by a browser, compared as it shows them."""

import os

import scrapy
from scrapy_playwright.page import PageMethod

HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"


class Pages(scrapy.Spider):
    """Waits until each page has its article."""

    name = "pages"

    custom_settings = {  # noqa: RUF012
        "ADDONS": {"dedup_middleware.Addon": 500},
        "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
        # A browser that is installed already, such as Debian's; without it Playwright's own.
        "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": os.environ.get("CHROMIUM")},
    }

    async def start(self):
        """The addresses in the argument ``urls``."""
        article = PageMethod("wait_for_selector", "article p")
        meta = {"playwright": True, "playwright_page_methods": [article]}
        for url in self.urls.split():
            yield scrapy.Request(url, meta=meta)

    def parse(self, response):
        """The HTML after the scripts have run."""
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "html": response.text,
        }
