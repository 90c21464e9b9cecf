"""A dropped page takes one line in the log, and its record holds no page."""

from __future__ import annotations

import logging

import pytest
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from dedup_middleware import Addon, Deduplicator, Document, Options
from dedup_middleware.plugin.acting import Dropped
from dedup_middleware.plugin.logformatter import DropLogFormatter
from tests.texts import article


async def test_record_has_key_match_similarity_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    """One line; the page is neither in the line nor in any attribute of the record."""
    text = article(1, 30)
    async with Deduplicator(Options(index_url="memory:")) as dedup:
        await dedup.commit(await dedup.decide(Document(key="https://a.example/1", text=text)))
        verdict = await dedup.decide(Document(key="https://b.example/1", text=text))
    spider = Spider("pages")
    spider.crawler = get_crawler()
    item = {"url": verdict.key, "text": text}
    with caplog.at_level(logging.DEBUG):
        assert DropLogFormatter().dropped(item, Dropped(verdict), None, spider) is None
    (record,) = caplog.records
    assert record.dedup == {
        "key": "https://b.example/1",
        "outcome": "duplicate",
        "reason": "exact-copy",
        "match": "https://a.example/1",
        "similarity": 1.0,
    }
    assert "\n" not in record.getMessage()
    assert text not in str(vars(record))


def test_addon_installs_the_formatter_unless_the_project_has_one() -> None:
    """A formatter of the project's settings is kept."""
    settings = Settings()
    Addon().update_settings(settings)
    assert settings["LOG_FORMATTER"] is DropLogFormatter
    own = Settings({"LOG_FORMATTER": "project.Formatter"})
    Addon().update_settings(own)
    assert own["LOG_FORMATTER"] == "project.Formatter"
