"""Clusters in a journal: a stored page with all pages dropped as its duplicates; file export.

JSON Lines has one cluster per line; CSV and Parquet have one page per row.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.errors import DedupError, extra_needed
from dedup_middleware.base.settingfields import CLUSTER_SUFFIXES
from dedup_middleware.base.writing import to_json, write_new
from dedup_middleware.journal.entries import (
    Drop,
    JournalStore,
    Query,
    host_of,
    in_parts,
    is_near_miss,
    kept_name,
)
from dedup_middleware.model.documents import DUPLICATE, NEW

COLUMNS = ("stored", "stored_host", "kind", "key", "host", "title", "time", "similarity",
           "reason", "spider", "crawl", "seen")  # fmt: skip
_OF_PAGE = COLUMNS[3:]
_OF_DROP = ("key", "title", "time", "similarity", "reason", "spider", "crawl")
# The first bytes of a cluster file: the header of CSV, or a cluster in JSON.
_HEAD = 1 << 15  # bytes; an address has at most 4,096
_BEGINS = re.compile(
    rb'%s\r?\n|\{"stored": "(?:[^"\\]|\\.)*", "host": "' % ",".join(COLUMNS).encode()
)
MIRROR, NEAR = "mirror", "near"  # values of the column ``kind``


@attrs.frozen(kw_only=True)
class Mirror:
    """A duplicate or near miss of a stored page, as of the newest decision on it.

    ``seen`` is the number of decisions; the other fields are as in :class:`~.entries.Drop`.
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
    """A stored page and the pages similar to it, the oldest first.

    ``stored`` is the key of the stored page, or ``#`` and its page id if the index stores no
    addresses. ``mirrors`` were dropped as its duplicates; ``near`` were let through although their
    similarity is at least 0.5 or they contain all of its words.
    """

    stored: str
    mirrors: tuple[Mirror, ...] = ()
    near: tuple[Mirror, ...] = ()

    @property
    def host(self) -> str:
        """Host of the stored page, empty if its address is unknown."""
        return host_of(self.stored)


class Clusters:
    """Groups decisions by stored page; ``near``: including near misses."""

    def __init__(self, *, near: bool) -> None:
        self.near = near
        # For each stored page its mirrors and its near misses, by key.
        self._found: dict[str, tuple[dict[str, Mirror], dict[str, Mirror]]] = {}

    def takes(self, drop: Drop) -> bool:
        """Whether a decision is a duplicate or, with ``near``, a near miss of a stored page."""
        if drop.number is None:
            return False
        return drop.outcome == DUPLICATE or (self.near and is_near_miss(drop))

    def add(self, drop: Drop, stored: str) -> None:
        """Add a decision to the cluster of a stored page, named as in :class:`Cluster`."""
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
    """The clusters of the pages selected by a query, in the order of their first decisions.

    :param query: its ``outcomes`` are ignored
    :param near: include near misses
    """
    clusters = Clusters(near=near)
    outcomes = frozenset({DUPLICATE, NEW} if near else {DUPLICATE})
    taken = filter(clusters.takes, journal.drops(attrs.evolve(query, outcomes=outcomes)))
    for drop, stored in with_stored(journal, taken):
        if stored is not None:
            clusters.add(drop, stored)
    yield from clusters.all()


def with_stored(journal: JournalStore, drops: Iterable[Drop]) -> Iterator[tuple[Drop, str | None]]:
    """Each entry with the key of its stored page, None if it has none. Many near misses have only
    the page id of theirs; each such id is looked up in the journal once."""
    addresses: dict[int | None, str | None] = {None: None}
    for part in in_parts(drops):
        unnamed = {drop.number: drop for drop in part if drop.match is None}
        new = [drop for number, drop in unnamed.items() if number not in addresses]
        for drop, kept in zip(new, journal.kept_of_each(new), strict=True):
            addresses[drop.number] = kept_name(None, drop.number) if kept is None else kept.key
        for drop in part:
            yield drop, addresses[drop.number] if drop.match is None else drop.match


def _sorted(pages: dict[str, Mirror]) -> tuple[Mirror, ...]:
    return tuple(sorted(pages.values(), key=attrgetter("time", "key")))


def write_clusters(clusters: Iterable[Cluster], path: Path, *, replace: bool) -> int:
    """Write clusters atomically, in the format given by the file's suffix.

    :returns: the number of clusters
    :raises DedupError: unknown suffix, or the file exists or can't be written
    """
    encode, made = encoder(path), list(clusters)
    write_new(path, encode(made), replace=replace)
    return len(made)


def is_replaceable(path: Path) -> bool:
    """Whether a name is free, or that of an empty file or of an earlier cluster file."""
    if not path.is_file():
        return not path.exists()
    if path.suffix.lower() == ".parquet":
        parquet = import_module("pyarrow.parquet")
        try:
            return path.stat().st_size == 0 or parquet.read_schema(path).names == list(COLUMNS)
        except Exception:  # raised by pyarrow for any other file
            return False
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return not head or _BEGINS.match(head) is not None


def encoder(path: Path) -> Callable[[list[Cluster]], bytes]:
    """The function that encodes clusters for this suffix; may raise DedupError."""
    suffix = path.suffix.lower()
    if suffix not in CLUSTER_SUFFIXES:
        raise DedupError(f"{path}: name a file that ends in {', '.join(CLUSTER_SUFFIXES)}")
    if suffix == ".csv":
        return to_csv
    if suffix != ".parquet":
        return to_json_lines
    with extra_needed(f"{path} needs pyarrow", "parquet"):
        import_module("pyarrow.parquet")
    return to_parquet


def to_json_lines(clusters: Iterable[Cluster]) -> bytes:
    """JSON Lines, one cluster per line; ``near`` only if there are near misses."""
    lines = []
    for cluster in clusters:
        state: dict[str, Any] = {"stored": cluster.stored, "host": cluster.host}
        state["mirrors"] = [_written(_row(page)) for page in cluster.mirrors]
        if cluster.near:
            state["near"] = [_written(_row(page)) for page in cluster.near]
        lines.append(to_json(state) + b"\n")
    return b"".join(lines)


def _row(page: Mirror) -> dict[str, Any]:
    moment = datetime.datetime.fromtimestamp(round(page.time, 3), datetime.timezone.utc)
    return {**{name: getattr(page, name) for name in _OF_PAGE}, "time": moment}


def _written(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "time": row["time"].isoformat()}


def to_csv(clusters: Iterable[Cluster]) -> bytes:
    """CSV with a header, one page per row."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    table.writerows(map(_written, rows(clusters)))
    return text.getvalue().encode("utf-8", "replace")


def to_parquet(clusters: Iterable[Cluster]) -> bytes:
    """Parquet, one page per row; times in UTC."""
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
    """One row (COLUMNS) for each page of each cluster, with its stored page."""
    for cluster in clusters:
        head = {"stored": cluster.stored, "stored_host": cluster.host}
        for kind, pages in ((MIRROR, cluster.mirrors), (NEAR, cluster.near)):
            for page in pages:
                yield {**head, "kind": kind, **_row(page)}
