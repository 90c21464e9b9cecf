"""Chooses the journal from the options, and reads it from Python, with or without asyncio."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import SCHEMES
from dedup_middleware.journal.clusters import Cluster, collect_clusters
from dedup_middleware.journal.entries import (
    DROPS,
    Drop,
    JournalError,
    JournalStore,
    Kept,
    Query,
    is_change,
    is_near_miss,
)
from dedup_middleware.model.documents import NEW

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_OFF = {"off", "false", "no", "0", "none", ""}
_ON = {"on", "true", "yes", "1"}


def choose_journal(options: Options) -> JournalStore | None:
    """The journal for ``DEDUP_JOURNAL`` (``options.journal``), not open yet; None: no journal.

    An index in memory has a journal only if a file is named, as its pages end with the process. The
    default file is next to the index: ``index.journal.db`` for ``index.db``.
    """
    chosen = options.journal.strip()
    scheme, _, rest = options.index_url.partition(":")
    is_file = chosen.lower() not in _ON
    if chosen.lower() in _OFF or (scheme == "memory" and not is_file):
        return None
    if is_file or scheme == "sqlite":
        from dedup_middleware.journal.sqlite import SQLiteJournal

        index = Path(rest)
        path = Path(chosen) if is_file else index.with_name(f"{index.stem}.journal{index.suffix}")
        return SQLiteJournal(path, max_bytes=options.journal_max_bytes)
    from dedup_middleware.journal.redis import RedisJournal

    return RedisJournal(options, max_bytes=options.journal_max_bytes)


def open_journal(options: Options) -> JournalStore:
    """The journal for ``DEDUP_JOURNAL``, opened without creating anything.

    :raises JournalError: there is no journal, or it can't be read
    """
    journal = choose_journal(options)
    if journal is None:
        raise JournalError(
            f"DEDUP_JOURNAL={options.journal!r} keeps no journal with "
            f"DEDUP_INDEX_URL={options.safe_index_url}: name the journal's file"
        )
    journal.open(create=False)
    return journal


T = TypeVar("T")
_PART = 500  # entries read per call in a thread


class Filters(TypedDict, total=False):
    """Filters of journal entries; an entry must satisfy all that are given.

    ``keys``, ``hosts``, ``reasons``, ``spiders`` and ``crawls`` each take one string or several,
    and apply to the page that was decided. ``since`` and ``until`` (exclusive) are seconds since
    1970 or datetimes; a naive datetime is in this machine's time zone.
    """

    keys: str | Iterable[str]
    hosts: str | Iterable[str]
    reasons: str | Iterable[str]
    spiders: str | Iterable[str]
    crawls: str | Iterable[str]
    since: float | datetime.datetime
    until: float | datetime.datetime


class Reading(Generic[T]):
    """Iterable over journal entries, for ``for``, and for ``async for``, which reads in a thread;
    each loop reads the journal again."""

    def __init__(self, start: Callable[[], Iterator[T]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[T]:
        return self._start()

    async def __aiter__(self) -> AsyncIterator[T]:
        entries = self._start()
        while part := await asyncio.to_thread(list, itertools.islice(entries, _PART)):
            for one in part:
                yield one


class Journal:
    """Read-only access to the journal of an index.

    The journal is opened at the first read; nothing is created. Use this as a context manager,
    plain or asynchronous, or call :meth:`close`.

    :param place: address of the index as in ``DEDUP_INDEX_URL`` (``sqlite:...``, ``redis://...``),
        or path of a journal file
    :param namespace: namespace of an index in Redis (``DEDUP_NAMESPACE``)
    :raises OptionsError: the address can't be used
    """

    def __init__(self, place: str | Path, *, namespace: str = "dedup") -> None:
        if isinstance(place, str) and (place.startswith(SCHEMES) or "://" in place):
            self._options = Options(index_url=place, namespace=namespace)
        else:
            # An absolute path, because a file named `on` would be taken for the setting's value.
            self._options = Options(journal=str(Path(place).absolute()))
        self._store: JournalStore | None = None

    def open(self) -> JournalStore:
        """Open the journal if it is not open; other methods do this themselves.

        :raises JournalError: there is no journal, or it can't be read
        """
        if self._store is None:
            self._store = open_journal(self._options)
        return self._store

    def close(self) -> None:
        """Close files and connections; a further read opens the journal again."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def drops(self, *, texts: bool = False, **filters: Unpack[Filters]) -> Reading[Drop]:
        """The dropped pages, the oldest first.

        :param texts: set ``body``, with the text and the item of the page; else it is None
        """
        query = query_of(filters, DROPS)
        return Reading(lambda: self.open().drops(query, bodies=texts))

    def near_misses(self, *, texts: bool = False, **filters: Unpack[Filters]) -> Reading[Drop]:
        """Pages that were let through although similar to a stored one (``match``, ``number``).

        :param texts: set ``body``, with the text of the page; else it is None
        """
        query = query_of(filters, frozenset({NEW}))
        return Reading(lambda: filter(is_near_miss, self.open().drops(query, bodies=texts)))

    def clusters(self, *, near: bool = False, **filters: Unpack[Filters]) -> Reading[Cluster]:
        """Stored pages, each with the pages dropped as its duplicates.

        The filters apply to the dropped pages; clusters without any are left out.

        :param near: include near misses
        """
        query = query_of(filters, frozenset())
        return Reading(lambda: collect_clusters(self.open(), query, near=near))

    def changes(self, *, texts: bool = False, **filters: Unpack[Filters]) -> Reading[Drop]:
        """Pages that had changed since they were stored, compared with their last version.

        :param texts: set ``body``, with the new text, and with the ``change`` if the journal still
            held the last version
        """
        query = query_of(filters, frozenset({NEW}))
        return Reading(lambda: filter(is_change, self.open().drops(query, bodies=texts)))

    def stored(self, drop: Drop) -> Kept | None:
        """The stored page that an entry matched, with its text; None if the journal lacks it."""
        return self.open().kept(drop)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


_TIMES = frozenset({"since", "until"})


def query_of(filters: Filters, outcomes: frozenset[str]) -> Query:
    """Convert filters to a query for these outcomes; raises TypeError for an unknown filter."""
    unknown = filters.keys() - Filters.__annotations__.keys()
    if unknown:
        known = ", ".join(Filters.__annotations__)
        raise TypeError(f"no such filter: {', '.join(sorted(unknown))}; use {known}")
    given: dict[str, Any] = {}
    for name, value in filters.items():
        if isinstance(value, datetime.datetime):
            given[name] = value.timestamp()
        elif name in _TIMES and not isinstance(value, (int, float, NoneType)):
            raise TypeError(f"{name}={value!r}: give seconds since 1970 or a datetime")
        elif isinstance(value, Iterable):
            given[name] = frozenset([value] if isinstance(value, str) else value)
        else:
            given[name] = value
    given["hosts"] = frozenset(map(str.lower, given.get("hosts", ())))
    return Query(**given, outcomes=outcomes)
