"""Clusters as files: JSON lines with one cluster a line, CSV and Parquet with one page a row."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.newfiles import write_whole
from dedup_middleware.base.settingfields import CLUSTER_SUFFIXES
from dedup_middleware.journal.clusters import Cluster, Mirror

COLUMNS = ("stored", "stored_host", "kind", "key", "host", "title", "time", "similarity",
           "reason", "spider", "crawl", "seen")  # fmt: skip
_OF_PAGE = COLUMNS[3:]
MIRROR, NEAR = "mirror", "near"  # kinds


class ClusterFileError(DedupError):
    """A file of clusters can't be written; the message names the fix."""


def write_clusters(clusters: Iterable[Cluster], path: Path, *, replace: bool) -> int:
    """Write clusters in the format that the name of the file ends in, as a whole or not at all.

    :param replace: replace a file of this name
    :returns: the number of clusters
    :raises ClusterFileError: another suffix, a file that exists, or one that can't be written
    """
    made = list(clusters)
    data = encoder(path)(made)
    try:
        write_whole(path, data, replace=replace)
    except FileExistsError:
        raise ClusterFileError(f"{path} exists: name a new file") from None
    except OSError as error:
        raise ClusterFileError(f"{path} can't be written: {error.strerror or error}") from error
    return len(made)


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
        state["mirrors"] = [_state(page) for page in cluster.mirrors]
        if cluster.near:
            state["near"] = [_state(page) for page in cluster.near]
        lines.append(json.dumps(state, ensure_ascii=False) + "\n")
    # Lone surrogates are written as question marks rather than not at all.
    return "".join(lines).encode("utf-8", "replace")


def _state(page: Mirror) -> dict[str, Any]:
    return {**{name: getattr(page, name) for name in _OF_PAGE}, "time": _moment(page).isoformat()}


def to_csv(clusters: Iterable[Cluster]) -> bytes:
    """A head, then one page a row."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    for row in rows(clusters):
        table.writerow({**row, "time": row["time"].isoformat()})
    return text.getvalue().encode("utf-8", "replace")


def to_parquet(clusters: Iterable[Cluster]) -> bytes:
    """One page a row; times in UTC."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    types = {
        "time": arrow.timestamp("ms", tz="UTC"),
        "similarity": arrow.float64(),
        "seen": arrow.int64(),
    }
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
        for kind, pages in ((MIRROR, cluster.mirrors), (NEAR, cluster.near)):
            for page in pages:
                head = {"stored": cluster.stored, "stored_host": cluster.host, "kind": kind}
                own = {name: getattr(page, name) for name in _OF_PAGE}
                yield {**head, **own, "time": _moment(page)}


def _moment(page: Mirror) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(round(page.time, 3), datetime.timezone.utc)
