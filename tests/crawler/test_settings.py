"""The settings modules of the news crawler."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

import settings.local
from crawler.items import Article
from crawler.spiders.news import NewsSpider
from dedup_middleware import Options
from settings.shared import with_password

ROOT = Path(__file__).parents[2]


def test_every_project_of_scrapy_cfg_exists() -> None:
    """The names for SCRAPY_PROJECT lead to modules that are there."""
    config = ConfigParser()
    config.read(ROOT / "scrapy.cfg")
    assert dict(config["settings"]) == {
        "default": "settings.local",
        "local": "settings.local",
        "shared": "settings.shared",
        "cluster": "settings.cluster",
    }


def test_components_can_be_loaded() -> None:
    """Pipelines, extensions, add-ons and the index address of the settings are real."""
    loaded = Settings()
    loaded.setmodule(settings.local)
    for name in ("ITEM_PIPELINES", "EXTENSIONS", "ADDONS"):
        assert all(load_object(path) for path in loaded[name])
    assert Options(index_url=loaded["DEDUP_INDEX_URL"]).index_url.startswith("sqlite:")
    assert set(loaded["FEED_EXPORT_FIELDS"]) <= set(Article.__slots__)
    assert "html" not in loaded["FEED_EXPORT_FIELDS"]


def test_real_sites_are_throttled_and_the_sample_is_not() -> None:
    """Only the crawl of the sample goes without pauses, and one page at a time."""
    for arguments, throttled in (({}, False), ({"start": "https://daily.example/"}, True)):
        loaded = Settings()
        loaded.setmodule(settings.local)
        crawler = Crawler(NewsSpider, loaded)
        NewsSpider.from_crawler(crawler, **arguments)
        assert crawler.settings.getbool("AUTOTHROTTLE_ENABLED") is throttled
        assert (crawler.settings.getint("CONCURRENT_REQUESTS") == 1) is not throttled
        assert crawler.settings.getbool("ROBOTSTXT_OBEY")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://cache:6379/0", "redis://:p%40ss@cache:6379/0"),
        ("rediss://user@cache/1", "rediss://user:p%40ss@cache/1"),
        ("redis+cluster://a:1,b:2", "redis+cluster://:p%40ss@a:1,b:2"),
        ("redis://:own@cache/1", "redis://:own@cache/1"),
        ("sqlite:x.db", "sqlite:x.db"),
    ],
)
def test_the_password_joins_the_address(url: str, expected: str) -> None:
    """DEDUP_REDIS_PASSWORD is quoted; a password in the address stays."""
    assert with_password(url, "p@ss") == expected
    assert with_password(url, None) == url


def test_shared_settings_keep_the_password_out_of_the_log(tmp_path: Path) -> None:
    """SCRAPY_PROJECT=shared uses the environment, and no log line of a crawl has the password."""
    environment = os.environ | {
        "SCRAPY_PROJECT": "shared",
        "DEDUP_INDEX_URL": "redis://127.0.0.1:9/0",
        "DEDUP_REDIS_PASSWORD": "open-sesame",
        "PYTHONPATH": str(ROOT),
    }
    (tmp_path / "scrapy.cfg").write_text((ROOT / "scrapy.cfg").read_text())
    command = [sys.executable, "-m", "scrapy", "crawl", "news", "-L", "DEBUG", "-a", "pages=x"]
    done = subprocess.run(
        [*command, "-s", "DEDUP_RETRIES=0", "-s", "DEDUP_TIMEOUT=1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "pages=x can't be used" in done.stderr
    assert "127.0.0.1:9" in done.stderr
    assert "open-sesame" not in done.stderr + done.stdout
