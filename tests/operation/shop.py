"""A Scrapy project whose spider yields one text from two hosts and any number of other pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SPIDER = """
import scrapy

TEXT = "The council will repair the old bridge over the river in spring. " * 4

class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {"DOWNLOAD_DELAY": 0.02}
    many = 0

    async def start(self):
        for host in ("one", "two"):
            yield {"url": f"https://{host}.example/1", "text": TEXT}
        for number in range(int(self.many)):
            yield scrapy.Request(f"data:,{number}")

    def parse(self, response):
        words = " ".join(f"{response.text}x{word}" for word in range(40))
        yield {"url": f"https://one.example/page-{response.text}", "text": words}
"""
STORAGE = """
import asyncio

class Slow:
    async def process_item(self, item):
        await asyncio.sleep(0.3)
        return item
"""
SETTINGS = """
SPIDER_MODULES = ["shop.spiders"]
ADDONS = {"dedup_middleware.Addon": 500}
"""
SLOW_STORAGE = """
ITEM_PIPELINES = {"shop.storage.Slow": 800}
CONCURRENT_ITEMS = 50
"""


def make_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the project to a folder. Its storage is slow, so that there are open claims to look at.

    :param files: by path, files that the documentation shows: they replace those here, or are added
    """
    project = {
        "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
        "shop/__init__.py": "",
        "shop/settings.py": SETTINGS,
        "shop/storage.py": STORAGE,
        "shop/spiders/__init__.py": "",
        "shop/spiders/pages.py": SPIDER,
        **files,
    }
    project["shop/settings.py"] += SLOW_STORAGE
    for name, text in project.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
