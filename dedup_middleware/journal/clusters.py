"""Clusters of a journal: a stored page with all pages that were dropped for it; also as files.

JSON lines have one cluster a line, CSV and Parquet one page a row.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.base.settingfields import CLUSTER_SUFFIXES
from dedup_middleware.base.writing import write_whole
from dedup_middleware.journal.entries import (
    Drop,
    JournalStore,
    Query,
    host_of,
    is_near_miss,
    kept_name,
)
from dedup_middleware.model.documents import DUPLICATE, NEW

COLUMNS = ("stored", "stored_host", "kind", "key", "host", "title", "time", "similarity",
           "reason", "spider", "crawl", "seen")  # fmt: skip
_OF_PAGE = COLUMNS[3:]
_OF_DROP = ("key", "title", "time", "similarity", "reason", "spider", "crawl")
MIRROR, NEAR = "mirror", "near"  # kinds


@attrs.frozen(kw_only=True)
class Mirror:
    """A page that is like a stored one, by the newest decision on it.

    ``seen`` counts the decisions; all else is as in :class:`~.entries.Drop`.
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


class Clusters:
    """Gathers decisions by their stored page.

    :param near: with near misses
    """

    def __init__(self, *, near: bool) -> None:
        self.near = near
        # Mirrors and near misses of each stored page, by their keys.
        self._found: dict[str, tuple[dict[str, Mirror], dict[str, Mirror]]] = {}

    def takes(self, drop: Drop) -> bool:
        """Whether a decision belongs to a cluster."""
        if drop.number is None:
            return False
        return drop.outcome == DUPLICATE or (self.near and is_near_miss(drop))

    def add(self, drop: Drop, stored: str) -> None:
        """Add a decision to the cluster of a stored page.

        :param stored: its key, or ``#`` and its page id where no key is kept
        """
        mirrors, near = self._found.setdefault(stored, ({}, {}))
        pages = near if drop.outcome == NEW else mirrors
        before = pages.get(drop.key)
        own = {name: getattr(drop, name) for name in _OF_DROP}
        pages[drop.key] = Mirror(**own, seen=1 if before is None else before.seen + 1)

    def all(self) -> Iterator[Cluster]:
        """The clusters, in the order of their first decisions."""
        for stored, (mirrors, near) in self._found.items():
            yield Cluster(stored=stored, mirrors=_sorted(mirrors), near=_sorted(near))


def collect_clusters(journal: JournalStore, query: Query, *, near: bool) -> Iterator[Cluster]:
    """The clusters of the pages that a query chooses, by the time of their first page.

    :param query: its outcomes are not used
    :param near: with near misses
    """
    clusters, name_of = Clusters(near=near), stored_names(journal)
    outcomes = frozenset({DUPLICATE, NEW} if near else {DUPLICATE})
    for drop in journal.drops(attrs.evolve(query, outcomes=outcomes)):
        stored = name_of(drop) if clusters.takes(drop) else None
        if stored is not None:
            clusters.add(drop, stored)
    yield from clusters.all()


def stored_names(journal: JournalStore) -> Callable[[Drop], str | None]:
    """A function that gives the key of an entry's stored page; None if the entry has no such page.

    Many near misses have only the page id: their keys are looked up in the journal, each once.
    """
    addresses: dict[int, str] = {}

    def name_of(drop: Drop) -> str | None:
        if drop.match is not None or drop.number is None:
            return drop.match
        if drop.number not in addresses:
            kept = journal.kept(drop)
            addresses[drop.number] = kept_name(None, drop.number) if kept is None else kept.key
        return addresses[drop.number]

    return name_of


def _sorted(pages: dict[str, Mirror]) -> tuple[Mirror, ...]:
    return tuple(sorted(pages.values(), key=attrgetter("time", "key")))


class ClusterFileError(DedupError):
    """A file of clusters can't be written; the message names the fix."""


def write_clusters(clusters: Iterable[Cluster], path: Path, *, replace: bool) -> int:
    """Write clusters in the format that the name of the file ends in, as a whole or not at all.

    :param replace: replace a file of this name
    :returns: the number of clusters
    :raises ClusterFileError: another suffix, a file that exists, or one that can't be written
    """
    encode, made = encoder(path), list(clusters)
    write_new(path, encode(made), ClusterFileError, replace=replace)
    return len(made)


def write_new(path: Path, data: bytes, kind: type[DedupError], *, replace: bool = False) -> None:
    """Write a file as a whole or not at all; one that exists is not replaced unless asked for.

    :param kind: of the error if it exists or can't be written
    """
    with os_errors(f"{path} can't be written", kind):
        try:
            write_whole(path, data, replace=replace)
        except FileExistsError:
            raise kind(f"{path} exists: name a new file") from None


def to_bytes(text: str) -> bytes:
    """Lines of JSON in UTF-8, which can't hold a lone surrogate: it is written as JSON's escape."""
    return text.encode("utf-8", "backslashreplace")


def encoder(path: Path) -> Callable[[list[Cluster]], bytes]:
    """The function that makes the bytes of a file.

    :raises ClusterFileError: there is none for its suffix, or a package is missing
    """
    suffix = path.suffix.lower()
    if suffix not in CLUSTER_SUFFIXES:
        raise ClusterFileError(f"{path}: name a file that ends in {', '.join(CLUSTER_SUFFIXES)}")
    if suffix == ".csv":
        return to_csv
    if suffix != ".parquet":
        return to_json_lines
    try:
        import_module("pyarrow.parquet")
    except ImportError:
        raise ClusterFileError(
            f"{path} needs pyarrow: pip install 'dedup-middleware[parquet]'"
        ) from None
    return to_parquet


def to_json_lines(clusters: Iterable[Cluster]) -> bytes:
    """One object a line; near misses only where there are any."""
    lines = []
    for cluster in clusters:
        state: dict[str, Any] = {"stored": cluster.stored, "host": cluster.host}
        state["mirrors"] = [_written(_row(page)) for page in cluster.mirrors]
        if cluster.near:
            state["near"] = [_written(_row(page)) for page in cluster.near]
        lines.append(json.dumps(state, ensure_ascii=False) + "\n")
    return to_bytes("".join(lines))


def _row(page: Mirror) -> dict[str, Any]:
    moment = datetime.datetime.fromtimestamp(round(page.time, 3), datetime.timezone.utc)
    return {**{name: getattr(page, name) for name in _OF_PAGE}, "time": moment}


def _written(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "time": row["time"].isoformat()}


def to_csv(clusters: Iterable[Cluster]) -> bytes:
    """A head, then one page a row."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    table.writerows(map(_written, rows(clusters)))
    return text.getvalue().encode("utf-8", "replace")


def to_parquet(clusters: Iterable[Cluster]) -> bytes:
    """One page a row; times in UTC."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    types = {"time": arrow.timestamp("ms", tz="UTC"), "similarity": arrow.float64()}
    types["seen"] = arrow.int64()
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in COLUMNS])
    made = [{name: _encodable(value) for name, value in row.items()} for row in rows(clusters)]
    file = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(made, schema=schema), file)
    return file.getvalue()


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def rows(clusters: Iterable[Cluster]) -> Iterator[dict[str, Any]]:
    """The pages of clusters, one after the other, with the stored page of each."""
    for cluster in clusters:
        head = {"stored": cluster.stored, "stored_host": cluster.host}
        for kind, pages in ((MIRROR, cluster.mirrors), (NEAR, cluster.near)):
            for page in pages:
                yield {**head, "kind": kind, **_row(page)}
