"""Which of contested pages are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from dedup_middleware import Options
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import KEY_TABLE
from dedup_middleware.model.records import CONTENT
from dedup_middleware.spark.columns import numbers
from dedup_middleware.spark.signing import LATEST, moment
from dedup_middleware.spark.verdicts import (
    COULD,
    PLAIN,
    SURE,
    Candidates,
    Open,
    OpenPages,
    Page,
    _edges,
    matches,
    settle,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METHOD = choose_method(Options(method="simhash"))


def contested(order: int, *candidates: int, copies: tuple[int, ...] = ()) -> tuple[int, Open]:
    """A page that each of its candidates makes a duplicate if it is kept."""
    count = len(candidates)
    found = Candidates(
        np.array(candidates), np.zeros(count, int), np.zeros(count, CONTENT), [b""] * count
    )
    flags = np.full(count, COULD | SURE)
    return order, Open((order, *copies), np.zeros(1, CONTENT), b"", found, flags)


def test_a_chain_drops_no_page_against_one_it_does_not_resemble() -> None:
    """Of A ~ B ~ C, C is kept when B was dropped, unless it is like A too."""
    assert settle(dict([contested(2, 1), contested(3, 2)]), METHOD, {1: 1}) == {2: None, 3: 3}
    assert settle(dict([contested(2, 1), contested(3, 1, 2)]), METHOD, {1: 1}) == {
        2: None,
        3: None,
    }


def test_only_pages_kept_before_count() -> None:
    """A page that comes later makes none a duplicate, but does so for a later exact copy."""
    assert settle(dict([contested(2, 5)]), METHOD, {5: 5}) == {2: 2}
    # Page 2 goes against 1; its copy, behind 5, is dropped as well.
    assert settle(dict([contested(2, 1, 5, copies=(7,))]), METHOD, {1: 1, 5: 5}) == {2: None}
    # Nothing that is kept is like it: the copy is dropped against page 2 itself.
    assert settle(dict([contested(2, 9, copies=(7,))]), METHOD, {9: 9}) == {2: 2}


def test_rows_become_open_pages() -> None:
    """Rows in any order: of each page its own, candidates ascending; of a page whose edges are all
    sure no content is read, and a candidate that is not open itself is kept."""
    content = np.zeros(2, CONTENT)
    content["simhash"] = 1, 2
    own, other = (one.tobytes() for one in content)
    columns = {
        "page": (7, 3, 7, 7, 3),
        "candidate": (5, None, 3, None, 1),
        "flags": (COULD, PLAIN, COULD | SURE, 0, COULD | SURE | PLAIN),
        "content": (other, None, other, own, None),
        "payload": (b"five", None, None, b"own", None),
    }
    types = (pa.int64(),) * 3 + (pa.binary(),) * 2
    rows = pa.table(
        [pa.array(v, t) for v, t in zip(columns.values(), types, strict=True)], [*columns]
    )
    opened = OpenPages(rows, [(3, 9), (3, 4)])
    assert list(opened) == [3, 7]
    assert opened.kept == {1: 1, 5: 5}
    assert 5 not in opened
    plain, judged = opened[3], opened[7]
    assert plain.orders == (3, 4, 9)
    assert (plain.candidates.orders.tolist(), plain.flags.tolist()) == ([1], [7])
    assert (judged.own["simhash"][0], judged.payload) == (1, b"own")
    assert judged.candidates.orders.tolist() == [3, 5]
    assert judged.candidates.content["simhash"].tolist() == [2, 2]
    assert list(judged.candidates.payloads) == [b"", b"five"]
    assert list(OpenPages(rows.slice(0, 0), [])) == []


def test_pages_of_sure_edges_are_plain() -> None:
    """Contents follow to the driver for the other contested pages alone."""
    content = np.zeros(3, CONTENT)
    content["simhash"] = 5, 5, 5
    content["size"] = content["host"] = 1
    edges = _edges(METHOD, 9, content[:1], b"", Candidates(
        np.array([1, 2]), np.zeros(2, np.int64), content[1:], [b"", b""]
    ))  # fmt: skip
    assert edges is not None
    assert edges[3].tolist() == [PLAIN, *[COULD | SURE | PLAIN] * 2]


def test_numbers_need_no_python_workers(spark: SparkSession) -> None:
    """A table of numbers on the driver is given to Java as Arrow, not as rows for Python."""
    made = numbers(spark, page=(1, 2), kept_at=(None, 1))
    assert [tuple(row) for row in made.sort("page").collect()] == [(1, None), (2, 1)]
    assert "Python" not in made._jdf.queryExecution().toRdd().toDebugString()
    assert numbers(spark, page=()).count() == 0


def test_dates_as_they_are_met() -> None:
    """Dates of any form become microseconds; what is none comes last."""
    day = 86_400_000_000
    assert moment("1970-01-02") == moment("1970-01-02T00:00:00Z") == moment(86_400) == day
    assert moment("1970-01-02T08:00:00+08:00") == moment(86_400.0) == day
    for none in ("", "Z", "soon", None, float("nan"), float("inf"), [], "0000-00-00", 1e300):
        assert moment(none) == LATEST


@pytest.mark.parametrize(
    ("named", "verdict"),
    [(True, ("revisit", "unchanged")), (False, ("duplicate", "exact-copy"))],
)
def test_copies_are_ranked_as_in_a_crawl(named: bool, verdict: tuple[str, str]) -> None:
    """A copy under the same key is a revisit, but not under a key that was made of its content."""
    own = np.zeros(1, CONTENT)
    own["size"] = 50
    nothing = np.empty(0, np.int64)
    alone = Candidates(nothing, nothing, own[:0], [])
    page = Page(1, own, b"", 1 << KEY_TABLE, named, 1, alone, np.array([2]), np.array([True]))
    (row,) = matches(METHOD, page)
    assert row[:4] == (2, 1, *verdict)
