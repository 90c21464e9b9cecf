"""The item that the spider yields."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.define(kw_only=True)
class Article:
    """One article.

    ``url`` is its key: the canonical address if the page names a trustworthy one, or else the
    address it was fetched from. The latter is always in ``source_url``. Times are ISO 8601.
    """

    url: str
    title: str
    text: str
    # repr=False: Scrapy logs the whole item when it is dropped.
    html: str | None = attrs.field(default=None, repr=False)
    site: str
    author: str | None = None
    published: str | None = None
    language: str | None = None
    source_url: str
    fetched: str
    # The page's own summary, compared by DEDUP_METHOD = "rules" only and not stored.
    description: str | None = None
    # Filled by the plugin when DEDUP_ACTION is "mark".
    dedup: Any = None
