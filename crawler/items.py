"""What the spider yields."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.define(kw_only=True)
class Article:
    """One article page.

    ``url`` is its key: the canonical address where the page names a trustworthy one, else the
    address it was fetched from, which ``source_url`` always holds. Times are ISO 8601.
    """

    url: str
    title: str
    text: str
    # Kept out of the log: a dropped item is logged whole.
    html: str | None = attrs.field(default=None, repr=False)
    site: str
    author: str | None = None
    published: str | None = None
    language: str | None = None
    source_url: str
    fetched: str
    # Filled by the plugin when DEDUP_ACTION is "mark".
    dedup: Any = None
