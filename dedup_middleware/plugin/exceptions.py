"""Exceptions that make Scrapy drop an item."""

from __future__ import annotations

from scrapy.exceptions import DropItem

from dedup_middleware.model.documents import Verdict


class Dropped(DropItem):
    """An item that the plugin drops.

    :ivar key: document key of the dropped item
    :ivar verdict: outcome, reason and, for a duplicate, the stored page that it matches
    """

    def __init__(self, verdict: Verdict, log_level: str | None = None) -> None:
        super().__init__(f"{verdict.key}: {verdict}", log_level=log_level)
        self.key = verdict.key
        self.verdict = verdict


class NearDuplicate(Dropped):
    """An item is dropped because a stored page already holds its text."""
