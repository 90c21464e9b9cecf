"""What a journal holds, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import attrs

SEEN = "seen"
STORED = "stored"
DROPPED = "dropped/"
HOUR = 3600
# What of an address says its host; of another form it is left as it is.
_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
DROPS = frozenset({"duplicate", "revisit", "empty", "unchecked"})  # outcomes that can drop a page

# Counters of an hour: (hour, host, name) -> how many.
Activity = Mapping[tuple[int, str, str], int]


def host_of(key: str) -> str:
    """Host of a page's key, empty if the key is no address.

    >>> host_of("https://News.Example:8080/1"), host_of("text:00ff")
    ('news.example', '')
    """
    site = _SITE.match(key)
    return _host_of(key if site is None else site[0])


@lru_cache(1024)  # of a site come many pages
def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


@attrs.frozen
class Body:
    """What a dropped page said.

    ``item`` holds the fields of the dropped item as JSON values, None if there was no item or it
    was too large; ``left_out`` names its fields that are not in it.
    """

    text: str = attrs.field(repr=False)
    item: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    left_out: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Drop:
    """A page that was not stored, and why; or one that nearly was not.

    With the outcome ``new`` the page was let through although a stored page is much like it, which
    is then the ``match``: it lies near the threshold, on its other side.

    ``id`` orders the drops of one journal and is empty before the drop is written; ``time`` is in
    seconds since 1970. ``match`` is the key of the stored page and ``number`` its number in the
    index. ``similarity`` (0 to 1), ``jaccard`` (0 to 1), ``distance`` (bits), ``shared``
    (shingles) and ``figures`` (places) are as in :class:`~dedup_middleware.fingerprint.Match`,
    None without a match. ``item_type`` names the class of the item.
    """

    id: str = ""
    time: float
    key: str
    title: str = ""
    outcome: str
    reason: str
    match: str | None = None
    number: int | None = None
    similarity: float | None = None
    jaccard: float | None = None
    distance: int | None = None
    shared: int | None = None
    figures: int | None = None
    tables: tuple[str, ...] = ()
    item_type: str = ""
    body: Body | None = attrs.field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Host of the dropped page."""
        return host_of(self.key)


@attrs.frozen(kw_only=True)
class Kept:
    """A page that was stored, as far as the journal still knows it.

    ``by_number``: the index keeps no name of it, so drops name it by its number alone.
    """

    key: str
    number: int
    by_number: bool = False
    title: str = ""
    text: str = attrs.field(repr=False)
    time: float

    @property
    def host(self) -> str:
        """Host of the stored page."""
        return host_of(self.key)


@attrs.frozen
class Hour:
    """What happened to the pages of one host in one hour.

    ``hour``: seconds since 1970 at its start; ``dropped``: numbers by reason.
    """

    hour: int
    host: str
    seen: int
    stored: int
    dropped: Mapping[str, int]


@attrs.frozen
class JournalSize:
    """How much a journal holds; ``bytes`` counts what its cap is compared with."""

    drops: int
    kept: int
    bytes: int


@attrs.frozen(kw_only=True)
class Query:
    """Which drops are wanted: those that fit every part that is given.

    ``keys`` are those of dropped pages, ``matches`` those of stored ones and ``numbers`` their
    numbers in the index; ``since`` and ``until``
    are seconds since 1970, the end not included; ``limit`` takes the newest.
    """

    keys: frozenset[str] = frozenset()
    matches: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None
    limit: int | None = None

    def wants(self, drop: Drop) -> bool:
        """Whether a drop is one of those; ``limit`` is not looked at."""
        return (
            (not self.keys or drop.key in self.keys)
            and (not self.matches or drop.match in self.matches)
            and (not self.numbers or drop.number in self.numbers)
            and (not self.hosts or drop.host in self.hosts)
            and (not self.reasons or drop.reason in self.reasons)
            and (not self.outcomes or drop.outcome in self.outcomes)
            and (self.since is None or drop.time >= self.since)
            and (self.until is None or drop.time < self.until)
        )


def to_hours(activity: Activity) -> list[Hour]:
    """Counters as hours, ascending by hour, then by host.

    >>> to_hours({(0, "a", "seen"): 2, (0, "a", "dropped/exact-copy"): 1})
    [Hour(hour=0, host='a', seen=2, stored=0, dropped={'exact-copy': 1})]
    """
    found: dict[tuple[int, str], dict[str, int]] = {}
    for (hour, host, name), number in activity.items():
        found.setdefault((hour, host), {})[name] = number
    return [
        Hour(
            hour,
            host,
            names.get(SEEN, 0),
            names.get(STORED, 0),
            {
                name[len(DROPPED) :]: number
                for name, number in sorted(names.items())
                if name.startswith(DROPPED)
            },
        )
        for (hour, host), names in sorted(found.items())
    ]
