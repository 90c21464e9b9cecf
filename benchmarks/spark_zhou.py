"""The protocol of ZHOU on Spark and in the crawl's deduplicator, with the verdicts compared."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from dedup_middleware.base.options import Options
from dedup_middleware.evaluation.comparers import options_for
from dedup_middleware.evaluation.corpus import SourceDocument, read_documents
from dedup_middleware.evaluation.stream import Arrival, Decision, Truth, deduplicate
from dedup_middleware.model.documents import Document
from dedup_middleware.spark import Job
from dedup_middleware.spark.job import run
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.stages import METHODS, local_session
from research.madeup import documents
from research.protocols import zhou_documents

_OPTIONS = Options(hash_key="5", journal="off")
_MADE_UP = 10_000


def _sources(texts: Sequence[Path]) -> list[SourceDocument]:
    """Read documents with their classes; a file without categories is one class."""
    if not texts:
        return [
            SourceDocument(
                Document(key=line["key"], title=line["title"], text=line["text"]), line["category"]
            )
            for line in documents(_MADE_UP)
        ]
    files = [
        file
        for path in texts
        for file in (sorted(path.glob("*.jsonl*")) if path.is_dir() else [path])
    ]
    return [
        attrs.evolve(source, category=source.category or file.name)
        for file in files
        for source in read_documents([file])
    ]


def compare(texts: Sequence[Path], folder: Path) -> Table:
    """Return the table of the protocol: each method in the crawl's deduplicator and on Spark.

    :param folder: for the documents and the results
    :raises InputError: too few documents
    """
    arrivals = zhou_documents(_sources(texts))
    truth = Truth(arrivals)
    pages = folder / "zhou.parquet"
    pq.write_table(
        pa.Table.from_pylist(
            [
                {"url": d.key, "title": d.title, "text": d.text, "place": place}
                for place, d in enumerate(arrival.document for arrival in arrivals)
            ]
        ),
        pages,
    )
    copies = {a.document.key for a in arrivals if a.document.key != a.story}
    table = Table(title=f"ZHOU: {len(arrivals):,} documents, {len(copies)} near-duplicates")
    for name in ("method", "where", "dropped", "right", "found", "precision", "recall", "F1",
                 "s", "other verdicts"):  # fmt: skip
        table.add_column(name, justify="left" if name in {"method", "where"} else "right")
    for method in METHODS:
        options = options_for(_OPTIONS, method)
        alone: list[Decision] | None = None
        ways: dict[str, Callable[[], list[Decision]]] = {
            "crawl": lambda options=options: deduplicate(options, arrivals),  # type: ignore[misc]
            "Spark": lambda options=options: _on_spark(options, arrivals, pages, folder),  # type: ignore[misc]
        }
        for where, decide in ways.items():
            began = time.perf_counter()
            decisions = decide()
            seconds = time.perf_counter() - began
            alone = alone or decisions
            scored = truth.score(decisions, method, "arrival", 1, seconds)
            found = sum(d.match is not None and d.arrival.document.key in copies for d in decisions)
            precision = scored.right / max(1, scored.dropped)
            recall = found / max(1, len(copies))
            table.add_row(
                method, where, str(scored.dropped), str(scored.right), str(found),
                f"{precision:.4f}", f"{recall:.4f}",
                f"{2 * precision * recall / max(1e-9, precision + recall):.4f}",
                f"{seconds:.1f}",
                str(sum(a != b for a, b in zip(alone, decisions, strict=True))),
            )  # fmt: skip
    return table


def _on_spark(
    options: Options, arrivals: Sequence[Arrival], pages: Path, folder: Path
) -> list[Decision]:
    output = folder / "zhou-result"
    shutil.rmtree(output, ignore_errors=True)
    session = local_session("local[2]")
    job = Job(output=str(output), order_by="place")
    result = run(read_files(session, [str(pages)], options, job), options, job)
    dropped = result.duplicates.select("key", "match_key").where("outcome = 'duplicate'")
    matches = {row["key"]: row["match_key"] for row in dropped.toArrow().to_pylist()}
    return [Decision(arrival, matches.get(arrival.document.key)) for arrival in arrivals]
