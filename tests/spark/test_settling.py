"""Which of contested pages are kept."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_middleware import Options
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import KEY_TABLE
from dedup_middleware.model.records import CONTENT
from dedup_middleware.spark import verdicts
from dedup_middleware.spark.columns import numbers
from dedup_middleware.spark.signing import LATEST, moment
from dedup_middleware.spark.verdicts import (
    COULD,
    PLAIN,
    SURE,
    Candidates,
    Page,
    _edges,
    matches,
    settle,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METHOD = choose_method(Options(method="simhash"))


def table(*rows: tuple[int, int | None, int, bytes | None, bytes | None]) -> Any:
    """Rows as the driver gets them."""
    names = ("page", "candidate", "flags", "content", "payload")
    types = (pa.int64(),) * 3 + (pa.binary(),) * 2
    columns = zip(*rows, strict=True) if rows else ((),) * 5
    return pa.table(
        {n: pa.array(values, t) for n, t, values in zip(names, types, columns, strict=True)}
    )


def settled(pages: dict[int, tuple[int, ...]], *copies: tuple[int, int]) -> dict[int, int | None]:
    """Pages of which each candidate makes them duplicates if it is kept."""
    own = [(page, None, PLAIN, None, None) for page in pages]
    edges = [
        (page, candidate, COULD | SURE | PLAIN, None, None)
        for page, candidates in pages.items()
        for candidate in candidates
    ]
    return settle(table(*edges, *own), copies, METHOD)


def test_a_chain_drops_no_page_against_one_it_does_not_resemble() -> None:
    """Of A ~ B ~ C, C is kept when B was dropped, unless it is like A too."""
    assert settled({2: (1,), 3: (2,)}) == {2: None, 3: 3}
    assert settled({2: (1,), 3: (1, 2)}) == {2: None, 3: None}


def test_only_pages_kept_before_count() -> None:
    """A page that comes later makes none a duplicate, but does so for a later exact copy."""
    assert settled({2: (5,)}) == {2: 2}
    # Page 2 goes against 1; its copy, behind 5, is dropped as well.
    assert settled({2: (1, 5)}, (2, 7)) == {2: None}
    # Nothing that is kept is like it: the copy is dropped against page 2 itself.
    assert settled({2: (9,)}, (2, 7)) == {2: 2}
    # A page without edges has copies too.
    assert settled({2: (1,)}, (9, 10)) == {2: None}


def test_copies_of_a_page_that_is_gone_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with 8,000 copies and 2,000 candidates took minutes."""
    looked = []
    before = verdicts._kept_before

    def counted(*given: Any) -> Any:
        looked.append(given[1])
        return before(*given)

    monkeypatch.setattr(verdicts, "_kept_before", counted)
    copies = [(5, order) for order in range(6, 100)]
    assert settled({5: (1, 2)}, *copies) == {5: None}
    assert looked == [5]
    # Nor are those of a page that is kept itself.
    assert settled({5: (9,), 9: (1,)}, *copies) == {5: 5, 9: None}
    assert looked[1:] == [5, 9]


def test_a_page_that_is_not_sure_is_judged() -> None:
    """With the candidates kept before it, by what its own rows hold, in whatever order these are; a
    candidate that is not open itself is kept."""
    content = np.zeros(2, CONTENT)
    content["size"] = content["host"] = 50, 50
    content["simhash"] = content["exact"] = 1, (1 << 64) - 1
    own, other = (one.tobytes() for one in content)
    for theirs, kept in ((own, None), (other, 7)):
        rows = table(
            (7, 5, COULD, theirs, b"five"),
            (3, None, PLAIN, None, None),
            (7, 3, COULD | SURE, own, None),
            (7, None, 0, own, b"own"),
            (3, 1, COULD | SURE | PLAIN, None, None),
        )
        assert settle(rows, [], METHOD) == {3: None, 7: kept}
    assert settle(table(), [], METHOD) == {}


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
    assert moment("1970-01-02Z") == moment("1970-01-02T00:00Z") == moment(b"1970-01-02") == day
    assert moment("1970-01-02+05:00") == moment("1970-01-01T19:00:00Z")
    assert moment("1700000000") == moment(Decimal("1700000000")) == moment(1_700_000_000)
    for none in ("", "Z", "soon", None, float("nan"), float("inf"), [], "0000-00-00", 1e300):
        assert moment(none) == LATEST


def test_dates_in_other_forms() -> None:
    """The same in all versions of Python: 3.10 took a date with +0800, without hyphens or with
    nanoseconds for none."""
    first = moment("2024-01-02T03:04:05Z")
    same = (
        "20240102T030405Z", "2024-01-02t03:04:05", "2024-01-02T11:04:05+0800", "2024-01-02 030405",
        "2024-01-02T11:04:05 +08:00", "2024-01-02T11:04:05+08", ["2024-01-02T03:04:05Z"],
        "2024-01-02T03:04:05.000000999Z", "2024-01-01T21:34:05-05:30",
    )  # fmt: skip
    assert {moment(each) for each in same} == {first}
    assert moment("2024-01-02T03:04:05,5") == moment("2024-01-02T03:04:05.5Z") == first + 500_000
    assert moment("20240102") == moment("2024-01-02") == moment(["20240102"])
    for none in ("2024-0102", "2024-01-32", "2024-01-02T24:30", "2024-01-02+99:00", "12", [1, 2]):
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
