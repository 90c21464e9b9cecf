"""Near misses: kept pages that are much like a page kept before them, as the crawl notes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from dedup_middleware.base.options import Options
from dedup_middleware.journal.writer import NEAR, SUPERSEDES
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.spark.columns import to_content, words
from dedup_middleware.spark.verdicts import ranked, whole_pages, with_candidates

NEAR_MISSES = pa.schema(
    [
        ("page", pa.int64()),
        ("candidate", pa.int64()),
        ("reason", pa.string()),
        ("similarity", pa.float64()),
    ]
)


def near_pages(options: Options) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over rows (page, kind, candidate, places, named, content,
    payload) as for :func:`.judge_pairs`, of kept pages and the candidates kept before each.

    ``named``: whether the key of the page names it. Returns :data:`NEAR_MISSES`, one row a page at
    most.
    """

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        method = choose_method(options)
        for rows in whole_pages(batches):
            # Rows of candidates have no value.
            given = words(rows.column("page")).tolist(), rows.column("named").to_pylist()
            named = {page for page, value in zip(*given, strict=True) if value}
            found = []
            pages = with_candidates(rows, to_content(rows.column("content")), method)
            for page, own, payload, candidates in pages:
                if not len(candidates):
                    continue
                judged, ranking = ranked(method, own, payload, candidates, page in named)
                if ranking.match is not None:
                    continue
                nearest, reason = ranking.nearest, ranking.reason
                if ranking.supersedes:
                    nearest, reason = ranking.supersedes[0], SUPERSEDES
                elif nearest is None or judged.similarity[nearest] < NEAR:
                    continue
                similarity = float(judged.similarity[nearest])
                found.append((page, int(candidates.orders[nearest]), reason, similarity))
            if found:
                columns = zip(*found, strict=True)
                arrays = [
                    pa.array(list(values), field.type)
                    for values, field in zip(columns, NEAR_MISSES, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=NEAR_MISSES)

    return work
