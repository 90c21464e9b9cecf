"""Entries of the journal, how they are packed, and what every journal does with them."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import logging
import re
import uuid
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from dedup_middleware.base.errors import DedupError
from dedup_middleware.model.documents import NEW

if TYPE_CHECKING:
    from typing_extensions import Self


logger = logging.getLogger(__name__)


def plain_item(item: Any, without: Collection[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of an item as JSON values, and the names of the fields left out.

    Dates and times become ISO texts, sets lists, NaN and infinity None. Fields with bytes or
    objects of other classes, which JSON can't hold, are left out.

    :param item: anything that itemadapter knows
    :param without: names of fields to leave out in any case, such as the raw HTML

    >>> plain_item({"url": "https://a/1", "price": decimal.Decimal("1.50"), "html": b"<p>"})
    ({'url': 'https://a/1', 'price': '1.50'}, ('html',))
    """
    from itemadapter import ItemAdapter  # it imports Scrapy, and workers of Spark this module

    fields: dict[str, Any] = {}
    left_out = []
    for name, value in ItemAdapter(item).items():
        if name in without and value:
            left_out.append(name)
            continue
        try:
            # A round trip leaves only what JSON can say: tuples become lists, keys texts.
            written = json.dumps(value, default=_plain)
            fields[name] = json.loads(written, parse_constant=lambda _: None)
        except (TypeError, ValueError, RecursionError):
            left_out.append(name)
    return fields, tuple(left_out)


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
# The beginning of an address, up to its host; a key of another form is parsed as a whole.
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


# A word of letters and digits, or one Chinese character or kana.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*%?")
MOST_FIGURES = 20  # of each version that are kept


@attrs.frozen
class Change:
    """How a page differs from its last version.

    ``added`` and ``removed`` count words, wherever they are; a Chinese character counts as one.
    ``old_figures`` and ``new_figures`` are the numbers, written in digits, that only one of the two
    has, in the order of the text.
    """

    added: int
    removed: int
    old_figures: tuple[str, ...] = ()
    new_figures: tuple[str, ...] = ()


def compare_versions(old: str, new: str) -> Change:
    """The change from one text to another.

    >>> compare_versions("Cod costs 4 crowns.", "Cod costs 7.50 crowns today.")
    Change(added=3, removed=1, old_figures=('4',), new_figures=('7.50',))
    """
    # Sets of words in linear time: an alignment would hold up the thread of the journal.
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
    """What a dropped page said.

    ``item`` holds the fields of the dropped item as JSON values, None if there was no item or it
    was too large; ``left_out`` names its fields that are not in it. ``change`` says how a page that
    had changed differs from its last version.
    """

    text: str = attrs.field(repr=False)
    item: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    left_out: tuple[str, ...] = ()
    change: Change | None = None


@attrs.frozen(kw_only=True)
class Drop:
    """A page that was not stored, and why; or one that nearly was not.

    With the outcome ``new`` the page was let through although a stored page is much like it, which
    is then the ``match``: it lies near the threshold, on its other side. Or the ``match`` has the
    page's own key, and the page had changed.

    ``id`` orders the drops of one journal and is empty before the drop is written; ``time`` is in
    seconds since 1970. ``match`` is the key of the stored page and ``number`` its page id in the
    index. ``similarity`` (0 to 1), ``jaccard`` (0 to 1), ``distance`` (bits), ``shared``
    (shingles) and ``figures`` (places) are as in :class:`.Match`, None without a match.
    ``item_type`` names the class of the item. ``spider`` and ``crawl`` (an id) say which crawl
    decided, empty in journals of earlier versions and of batch runs.
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
    """Whether an entry is a page that was stored although another one is much like it."""
    return drop.outcome == NEW and drop.match != drop.key


def is_change(drop: Drop) -> bool:
    """Whether an entry is a page that had changed since it was stored."""
    return drop.outcome == NEW and drop.match == drop.key


@attrs.frozen(kw_only=True)
class Kept:
    """A page that was stored, as far as the journal still knows it."""

    key: str
    number: int
    by_number: bool = False  # the index keeps no name of it: drops name it by its page id alone
    title: str = ""
    text: str = attrs.field(repr=False)
    time: float

    @property
    def host(self) -> str:
        """Host of the stored page."""
        return host_of(self.key)


@attrs.frozen
class Hour:
    """What happened to the pages of one host in one hour."""

    hour: int  # seconds since 1970 at its start
    host: str
    seen: int
    stored: int
    dropped: Mapping[str, int]  # numbers by reason


@attrs.frozen
class JournalSize:
    """How much a journal holds."""

    drops: int
    kept: int
    bytes: int  # what its cap is compared with


@attrs.frozen(kw_only=True)
class Query:
    """A filter of drops: they must fit every part that is given.

    ``keys`` are those of dropped pages, ``matches`` those of stored ones and ``numbers`` their
    numbers in the index; ``since`` and ``until`` are seconds since 1970, the end not included;
    ``limit`` takes the newest.
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
        """Whether a drop is one of those; ``limit`` is not looked at."""
        return (
            all(getattr(drop, name) in wanted for name, wanted in self.parts())
            and (self.since is None or drop.time >= self.since)
            and (self.until is None or drop.time < self.until)
        )

    def parts(self) -> list[tuple[str, frozenset[Any]]]:
        """The fields of a drop that are looked at, and the values that fit."""
        given = {
            "key": self.keys, "match": self.matches, "number": self.numbers, "host": self.hosts,
            "reason": self.reasons, "outcome": self.outcomes, "spider": self.spiders,
            "crawl": self.crawls,
        }  # fmt: skip
        return [(name, wanted) for name, wanted in given.items() if wanted]


def to_hours(activity: Activity) -> list[Hour]:
    """Counters as hours, ascending by hour, then by host.

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
    """A text as bytes; any text, lone surrogates too."""
    marker, plain = _UTF8, text.encode("utf-8", "surrogatepass")
    with contextlib.suppress(UnicodeEncodeError):
        other = text.encode("gb18030")
        if len(other) < len(plain):
            marker, plain = _GB18030, other
    return marker + zlib.compress(plain, _LEVEL)


def unpack(raw: bytes) -> str:
    """The text of :func:`pack`.

    :raises ValueError: the bytes are damaged
    """
    try:
        marker, plain = raw[:1], zlib.decompress(raw[1:])
    except (zlib.error, TypeError) as error:  # the latter: the file's type of the value is damaged
        raise ValueError(f"damaged: {error}") from error
    if marker == _GB18030:
        return plain.decode("gb18030")
    return plain.decode("utf-8", "surrogatepass")


def pack_body(body: Body) -> bytes:
    """A body as bytes. Item fields that are the page's text are not written twice."""
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
    """The body of :func:`pack_body`.

    :raises ValueError: the bytes are damaged
    """
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
    """The journal can't be read or written; the message names it and the way out."""


class JournalStore(ABC):
    """Drops, texts of stored pages, and counters by the hour, under a cap on their bytes.

    Calls block, and all may raise :class:`JournalError`. Several processes may write to one
    journal.

    :ivar where: the journal as a user knows it, without a password
    """

    where: str

    @abstractmethod
    def open(self, *, create: bool) -> None:
        """Connect.

        :param create: make it if it is missing
        :raises JournalError: it is missing, can't be reached, or is something else
        """

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections."""

    @abstractmethod
    def append(self, drops: Sequence[Drop], kept: Sequence[Kept], activity: Activity) -> None:
        """Write, all or nothing, and let the oldest go where the cap is passed."""

    @abstractmethod
    def drops(self, query: Query = Query(), *, bodies: bool = False) -> Iterator[Drop]:
        """The drops that fit, oldest first.

        :param bodies: fill ``body``; else it is None
        """

    @abstractmethod
    def bodies(self, ids: Sequence[str]) -> list[Body | None]:
        """What some hundred dropped pages at most said, None where the drop has aged out.

        Of a damaged one, also among :meth:`drops`, ``left_out`` names the text.
        """

    @abstractmethod
    def kept(self, drop: Drop) -> Kept | None:
        """The stored page that a drop names; None: its text is not kept, aged out, or damaged."""

    @abstractmethod
    def hours(self) -> list[Hour]:
        """What happened, by hour and host, ascending."""

    @abstractmethod
    def size(self) -> JournalSize:
        """How much there is."""

    def body_of(self, drop_id: str, raw: bytes) -> Body:
        """An unpacked body; what is damaged is logged, and names the text as left out."""
        try:
            return unpack_body(raw)
        except ValueError as error:
            self._lost(f"what the dropped page {drop_id} said", error)
            return _LOST

    def kept_of(self, key: str, number: int, title: str, raw: bytes, time: float) -> Kept | None:
        """A stored page with its text unpacked; None if that is damaged, which is logged."""
        try:
            return Kept(key=key, number=number, title=title, text=unpack(raw), time=time)
        except ValueError as error:
            self._lost(f"the text of the stored page {key}", error)
            return None

    def _lost(self, what: str, error: object) -> None:
        logger.warning("The journal %s has lost %s: %s", self.where, what, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kept_name(key: str | None, number: int | None) -> str:
    """Name under which the text of a stored page is kept.

    By key, since a page that is renewed gets another page id; by page id where the index keeps no
    address, as for pages that are named by their content.
    """
    return key if key is not None else f"#{number}"
