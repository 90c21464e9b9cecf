"""Entries of the journal, their packing, and the interface of every journal."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
import json
import logging
import re
import uuid
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs

from dedup_middleware.base.errors import DedupError
from dedup_middleware.model.documents import NEW

logger = logging.getLogger(__name__)


def plain_item(item: Any, without: Collection[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of an item as JSON values, and the names of the fields left out.

    Dates and times become ISO strings; decimals, UUIDs and names of fields strings; sets and tuples
    lists; items dicts; NaN and infinity None. Fields with bytes or other objects that JSON can't
    represent are left out.

    :param without: names of fields to leave out, such as the raw HTML

    >>> plain_item({"url": "https://a/1", "price": decimal.Decimal("1.50"), "html": b"<p>"})
    ({'url': 'https://a/1', 'price': '1.50'}, ('html',))
    """
    from itemadapter import ItemAdapter  # lazy: it imports Scrapy, which Spark workers don't need

    fields: dict[str, Any] = {}
    left_out = []
    for field, value in ItemAdapter(item).items():
        name = str(field)  # the key of a dict may be a tuple
        if name in fields or (name in without and not _is_blank(value)):
            left_out.append(name)
            continue
        try:
            # The round trip leaves only JSON types: tuples become lists, keys strings.
            written = json.dumps(value, default=_plain)
            fields[name] = json.loads(written, parse_constant=lambda _: None)
        except Exception:  # of a class of the user's, too
            left_out.append(name)
    return fields, tuple(left_out)


def _is_blank(value: Any) -> bool:
    """Whether the value of a field stands for none; arrays have no truth value.

    >>> [_is_blank(value) for value in (None, "", [], 0, "text")]
    [True, True, True, False, False]
    """
    return value is None or (isinstance(value, (str, bytes, list, tuple)) and not value)


def _plain(value: Any) -> Any:
    from itemadapter import ItemAdapter

    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, Mapping):
        return dict(value)
    if ItemAdapter.is_item(value):
        return ItemAdapter(value).asdict()
    raise TypeError(type(value).__name__)


SEEN = "seen"
STORED = "stored"
DROPPED = "dropped/"
HOUR = 3600
# The start of a URL, up to its host and port; other keys are parsed as a whole.
_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
DROPS = frozenset({"duplicate", "revisit", "empty", "unchecked"})  # outcomes that can drop a page

# Hourly counters: (start of the hour in seconds since 1970, host, name) -> count.
Activity = Mapping[tuple[int, str, str], int]


def host_of(key: str) -> str:
    """Host of a page's key, with "www." if it has that; empty if the key is not a URL.

    >>> host_of("https://News.Example:8080/1"), host_of("text:00ff")
    ('news.example', '')
    """
    site = _SITE.match(key)
    return _host_of(key if site is None else site[0])


@lru_cache(1024)  # many pages share a site
def _host_of(address: str) -> str:
    try:
        host = urlsplit(address).hostname or ""
        return host.encode(errors="replace").decode()  # no journal takes lone surrogates
    except ValueError:
        return ""


# A word of letters and digits, or one Chinese character or kana.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*%?")
MOST_FIGURES = 20  # maximum figures recorded for each version


@attrs.frozen
class Change:
    """The difference between a page and its last version.

    ``added`` and ``removed`` count words regardless of position; a Chinese character counts as one.
    ``old_figures`` and ``new_figures`` are the numbers in digits that only one version has, in the
    order of its text.
    """

    added: int
    removed: int
    old_figures: tuple[str, ...] = ()
    new_figures: tuple[str, ...] = ()


def compare_versions(old: str, new: str) -> Change:
    """The change from an old text to a new one.

    >>> compare_versions("Cod costs 4 crowns.", "Cod costs 7.50 crowns today.")
    Change(added=3, removed=1, old_figures=('4',), new_figures=('7.50',))
    """
    # Multisets of words, in linear time: an alignment would block the journal's thread.
    before, after = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    old_figures, new_figures = Counter(_FIGURE.findall(old)), Counter(_FIGURE.findall(new))
    return Change(
        added=(after - before).total(),
        removed=(before - after).total(),
        old_figures=tuple((old_figures - new_figures).elements())[:MOST_FIGURES],
        new_figures=tuple((new_figures - old_figures).elements())[:MOST_FIGURES],
    )


@attrs.frozen
class Body:
    """Text and item of a dropped page.

    ``item`` holds the fields of the dropped item as JSON values, None if there was no item;
    ``left_out`` names the fields that are not in it. ``change`` is the difference between a changed
    page and its last version.
    """

    text: str = attrs.field(repr=False)
    item: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    left_out: tuple[str, ...] = ()
    change: Change | None = None


@attrs.frozen(kw_only=True)
class Drop:
    """A dropped page and the reason; or, with the outcome ``new``, a near miss or a changed page.

    A near miss was let through although it is similar to the stored page ``match``. A changed page
    was let through as a new version; its ``match`` has the page's own key.

    ``id`` orders the entries of a journal and is empty until the entry is written; ``time`` is in
    seconds since 1970. ``match`` is the key of the stored page, ``number`` its page id in the
    index. ``similarity``, ``jaccard``, ``distance``, ``shared`` and ``figures`` are as in
    :class:`.Match`, None without a match. ``item_type`` is the class name of the item. ``spider``
    and ``crawl`` (an id) identify the crawl; they are empty for batch runs.
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
    spider: str = ""
    crawl: str = ""
    body: Body | None = attrs.field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Host of the dropped page."""
        return host_of(self.key)


def is_near_miss(drop: Drop) -> bool:
    """Whether an entry is a page that was let through although it is similar to a stored one."""
    return drop.outcome == NEW and drop.match != drop.key


def is_change(drop: Drop) -> bool:
    """Whether an entry is a page that had changed since it was stored."""
    return drop.outcome == NEW and drop.match == drop.key


@attrs.frozen(kw_only=True)
class Kept:
    """A stored page with its text, which is kept until it ages out of the journal."""

    key: str
    number: int
    by_number: bool = False  # the index stores no address: drops refer to it by page id only
    title: str = ""
    text: str = attrs.field(repr=False)
    time: float

    @property
    def host(self) -> str:
        """Host of the stored page."""
        return host_of(self.key)


@attrs.frozen
class Hour:
    """Counts of the pages of one host in one hour."""

    hour: int  # start of the hour in seconds since 1970
    host: str
    seen: int
    stored: int
    dropped: Mapping[str, int]  # by reason


@attrs.frozen
class JournalSize:
    """Number of entries of a journal, and their bytes."""

    drops: int
    kept: int
    bytes: int  # compared with the cap


@attrs.frozen(kw_only=True)
class Query:
    """A filter of drops; a drop must satisfy every part that is given.

    ``keys`` are keys of dropped pages, ``matches`` keys and ``numbers`` page ids of stored ones;
    ``since`` and ``until`` (exclusive) are seconds since 1970; ``limit`` selects the newest.
    """

    keys: frozenset[str] = frozenset()
    matches: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    spiders: frozenset[str] = frozenset()
    crawls: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None
    limit: int | None = None

    def wants(self, drop: Drop) -> bool:
        """Whether a drop satisfies the filter, ignoring ``limit``."""
        return (
            all(getattr(drop, name) in wanted for name, wanted in self.parts())
            and (self.since is None or drop.time >= self.since)
            and (self.until is None or drop.time < self.until)
        )

    def parts(self) -> list[tuple[str, frozenset[Any]]]:
        """The filtered fields of a drop, each with its accepted values."""
        given = {
            "key": self.keys, "match": self.matches, "number": self.numbers, "host": self.hosts,
            "reason": self.reasons, "outcome": self.outcomes, "spider": self.spiders,
            "crawl": self.crawls,
        }  # fmt: skip
        return [(name, wanted) for name, wanted in given.items() if wanted]


def to_hours(activity: Activity) -> list[Hour]:
    """Convert hourly counters to Hour objects, ascending by hour, then by host.

    >>> to_hours({(0, "a", "seen"): 2, (0, "a", "dropped/exact-copy"): 1})
    [Hour(hour=0, host='a', seen=2, stored=0, dropped={'exact-copy': 1})]
    """
    found: dict[tuple[int, str], dict[str, int]] = {}
    for (hour, host, name), number in sorted(activity.items()):
        found.setdefault((hour, host), {})[name] = number
    hours = []
    for place, names in found.items():
        seen, stored = names.pop(SEEN, 0), names.pop(STORED, 0)
        reasons = filter(lambda name: name.startswith(DROPPED), names)
        dropped = {name.removeprefix(DROPPED): names[name] for name in reasons}
        hours.append(Hour(*place, seen, stored, dropped))
    return hours


_GB18030, _UTF8 = b"g", b"u"
_LEVEL = 6


def pack(text: str) -> bytes:
    """Compress a text, as GB18030 or UTF-8, whichever is shorter; lone surrogates are kept."""
    marker, plain = _UTF8, text.encode("utf-8", "surrogatepass")
    with contextlib.suppress(UnicodeEncodeError):
        other = text.encode("gb18030")
        if len(other) < len(plain):
            marker, plain = _GB18030, other
    return marker + zlib.compress(plain, _LEVEL)


def unpack(raw: bytes) -> str:
    """Inverse of :func:`pack`; raises ValueError if the bytes are damaged."""
    try:
        marker, plain = raw[:1], zlib.decompress(raw[1:])
    except (zlib.error, TypeError) as error:  # TypeError: SQLite returned a value of another type
        raise ValueError(f"damaged: {error}") from error
    if marker == _GB18030:
        return plain.decode("gb18030")
    return plain.decode("utf-8", "surrogatepass")


def pack_body(body: Body) -> bytes:
    """Serialise a body; item fields equal to the page's text are not stored twice."""
    parts: dict[str, Any] = {"text": body.text}
    if body.item is not None:
        same = [name for name, value in body.item.items() if body.text and value == body.text]
        rest = {name: value for name, value in body.item.items() if name not in same}
        parts.update(item=rest, same=same, order=list(body.item))
    if body.left_out:
        parts["left_out"] = body.left_out
    if body.change is not None:
        parts["change"] = attrs.astuple(body.change)
    return pack(json.dumps(parts, ensure_ascii=False, separators=(",", ":")))


def unpack_body(raw: bytes) -> Body:
    """Inverse of :func:`pack_body`; raises ValueError if the bytes are damaged."""
    parts = json.loads(unpack(raw))
    item: Mapping[str, Any] | None = None
    if "item" in parts:
        whole = {**parts["item"], **dict.fromkeys(parts["same"], parts["text"])}
        item = {name: whole[name] for name in parts["order"]}
    change = None
    if "change" in parts:
        added, removed, *figures = parts["change"]
        change = Change(added, removed, *map(tuple, figures))
    return Body(parts["text"], item, tuple(parts.get("left_out", ())), change)


_LOST = Body("", left_out=("text",))


class JournalError(DedupError):
    """The journal can't be read or written; the message names it and says what to do."""


class JournalStore(ABC):
    """Drops, texts of stored pages, and hourly counters; a cap limits the bytes of the first two.

    Calls block, and all may raise :class:`JournalError`. Several processes may write to one
    journal.

    :ivar where: the journal as the user knows it, without a password
    """

    where: str

    @abstractmethod
    def open(self, *, create: bool) -> None:
        """Connect.

        :param create: create the journal if it is missing
        :raises JournalError: it is missing, can't be reached, or is no journal
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    @abstractmethod
    def append(
        self,
        drops: Sequence[Drop],
        kept: Sequence[Kept],
        activity: Activity,
        *,
        again: bool = False,
    ) -> None:
        """Write all or nothing, then remove the oldest entries above the cap.

        Redis 6 may write a part if its user lacks a right that the documentation lists.

        :param again: the last call, which failed, had the same batch: it is not written twice, even
            if that call failed after writing it
        """

    @abstractmethod
    def drops(self, query: Query = Query(), *, bodies: bool = False) -> Iterator[Drop]:
        """The drops selected by a query, oldest first; ``body`` is None unless ``bodies``."""

    @abstractmethod
    def bodies(self, ids: Sequence[str]) -> list[Body | None]:
        """The bodies of up to some hundred drops, None where the drop has aged out.

        A damaged body, also in :meth:`drops`, is empty, with "text" in ``left_out``.
        """

    @abstractmethod
    def kept_of_each(self, drops: Sequence[Drop]) -> list[Kept | None]:
        """The stored pages that up to some hundred drops matched.

        None: the text of the page was not kept, aged out or is damaged.
        """

    def kept(self, drop: Drop) -> Kept | None:
        """The stored page that a drop matched, as in :meth:`kept_of_each`."""
        return self.kept_of_each([drop])[0]

    @abstractmethod
    def hours(self) -> list[Hour]:
        """The hourly counts, ascending by hour, then by host."""

    @abstractmethod
    def size(self) -> JournalSize:
        """Number of entries and their bytes."""

    def body_of(self, drop_id: str, raw: bytes) -> Body:
        """Unpack a body; a damaged one is logged and returned empty, with its text left out."""
        try:
            return unpack_body(raw)
        except ValueError as error:
            self._lost(f"what the dropped page {drop_id} said", error)
            return _LOST

    def unpacked(self, key: str, number: int, title: str, raw: bytes, time: float) -> Kept | None:
        """Unpack the text of a stored page; if it is damaged, log that and return None."""
        try:
            return Kept(key=key, number=number, title=title, text=unpack(raw), time=time)
        except ValueError as error:
            self._lost(f"the text of the stored page {key}", error)
            return None

    def _lost(self, what: str, error: object) -> None:
        logger.warning("The journal %s has lost %s: %s", self.where, what, error)

    def __enter__(self) -> JournalStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


T = TypeVar("T")
_PART = 50  # both texts of each pair are in memory, and a page may have a megabyte


def in_parts(entries: Iterable[T]) -> Iterator[list[T]]:
    """Split entries into parts for :meth:`JournalStore.bodies` and the like."""
    left = iter(entries)
    while part := list(itertools.islice(left, _PART)):
        yield part


def kept_name(key: str | None, number: int | None) -> str:
    """Name under which the journal keeps the text of a stored page: its key, since a refreshed page
    gets another page id; ``#`` and the page id if ``key`` is None, as the index has no address or
    the key is made of the content."""
    return key if key is not None else f"#{number}"
