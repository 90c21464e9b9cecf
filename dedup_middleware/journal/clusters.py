"""Clusters of a journal: a stored page with all pages that were dropped for it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import attrs

from dedup_middleware.journal.base import JournalStore, kept_name
from dedup_middleware.journal.entries import Drop, Query, host_of, is_near_miss
from dedup_middleware.model.documents import DUPLICATE, NEW


@attrs.frozen(kw_only=True)
class Mirror:
    """A page that is like a stored one, by the newest decision on it.

    ``key``, ``title``, ``time`` (seconds since 1970), ``similarity`` (0 to 1), ``reason``,
    ``spider`` and ``crawl`` are as in :class:`~.entries.Drop`; ``seen`` counts the decisions.
    """

    key: str
    title: str
    time: float
    similarity: float | None
    reason: str
    spider: str
    crawl: str
    seen: int = 1

    @property
    def host(self) -> str:
        """Host of the page."""
        return host_of(self.key)


@attrs.frozen(kw_only=True)
class Cluster:
    """A stored page and pages like it, the oldest first.

    ``stored`` is the key of the stored page, or ``#`` and its page id if the index keeps no
    addresses. ``mirrors`` were dropped for it; ``near`` were stored although
    they are at least half like it or hold all of its words.
    """

    stored: str
    mirrors: tuple[Mirror, ...] = ()
    near: tuple[Mirror, ...] = ()

    @property
    def host(self) -> str:
        """Host of the stored page, empty if its address is not known."""
        return host_of(self.stored)


@attrs.define
class _Found:
    mirrors: dict[str, Mirror] = attrs.field(factory=dict)
    near: dict[str, Mirror] = attrs.field(factory=dict)


class Clusters:
    """Gathers decisions by their stored page.

    :param near: with near misses
    """

    def __init__(self, *, near: bool) -> None:
        self.near = near
        self._found: dict[str, _Found] = {}

    def takes(self, drop: Drop) -> bool:
        """Whether a decision belongs to a cluster."""
        if drop.number is None:
            return False
        return drop.outcome == DUPLICATE or (self.near and is_near_miss(drop))

    def add(self, drop: Drop, stored: str) -> None:
        """Add a decision to the cluster of a stored page.

        :param stored: its key, or its name without one (:func:`.kept_name`)
        """
        cluster = self._found.setdefault(stored, _Found())
        pages = cluster.near if drop.outcome == NEW else cluster.mirrors
        before = pages.get(drop.key)
        pages[drop.key] = _mirror(drop, 1 if before is None else before.seen + 1)

    def all(self) -> Iterator[Cluster]:
        """The clusters, in the order of their first decisions."""
        for stored, one in self._found.items():
            yield Cluster(stored=stored, mirrors=_sorted(one.mirrors), near=_sorted(one.near))


def collect_clusters(journal: JournalStore, query: Query, *, near: bool) -> Iterator[Cluster]:
    """The clusters of the pages that a query chooses, by the time of their first page.

    :param query: which pages; its outcomes are not used
    :param near: with near misses
    :raises JournalError: the journal can't be read
    """
    clusters = Clusters(near=near)
    addresses: dict[int, str] = {}
    outcomes = frozenset({DUPLICATE, NEW} if near else {DUPLICATE})
    for drop in journal.drops(attrs.evolve(query, outcomes=outcomes)):
        if drop.number is None or not clusters.takes(drop):
            continue
        stored = drop.match
        if stored is None:
            # An index without addresses names pages by their ids, and near misses often are.
            if drop.number not in addresses:
                kept = journal.kept(drop)
                name = kept_name(None, drop.number) if kept is None else kept.key
                addresses[drop.number] = name
            stored = addresses[drop.number]
        clusters.add(drop, stored)
    yield from clusters.all()


def _mirror(drop: Drop, seen: int) -> Mirror:
    return Mirror(
        key=drop.key,
        title=drop.title,
        time=drop.time,
        similarity=drop.similarity,
        reason=drop.reason,
        spider=drop.spider,
        crawl=drop.crawl,
        seen=seen,
    )


def _sorted(pages: dict[str, Mirror]) -> tuple[Mirror, ...]:
    return tuple(sorted(pages.values(), key=attrgetter("time", "key")))
