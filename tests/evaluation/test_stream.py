"""Streams: what is dropped, rightly or not, in any order and by several processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest

from dedup_middleware import Document, Options
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.evaluation.stream import (
    LOSS_COST,
    ORDERS,
    Arrival,
    Decision,
    Truth,
    deduplicate,
    deduplicate_in_pool,
    planted,
    reordered,
    worker_pool,
)
from tests.evaluation.lines import page

OPTIONS = Options(index_url="memory:")


def documents(count: int) -> list[Document]:
    """Made-up documents, all different."""
    return [Document(key=f"d{i}", title=f"第{i}篇", text=page(i)) for i in range(count)]


def with_copies(count: int) -> list[Arrival]:
    """Each document, and later a lightly edited copy of it."""
    originals = documents(count)
    copies = [
        attrs.evolve(d, key=f"{d.key}#copy", text=edit(d.text or "", "words-changed", 0.002, i))
        for i, d in enumerate(originals)
    ]
    return [
        *(Arrival(d, d.key) for d in originals),
        *(Arrival(c, d.key) for c, d in zip(copies, originals, strict=True)),
    ]


def test_planted_copies_come_behind_their_originals() -> None:
    """The stream keeps its order; copies carry the story of the original, other pages their own."""
    stream = planted(documents(200), 0.5, seed=1)
    keys = [arrival.document.key for arrival in stream]
    originals = [key for key in keys if "#" not in key]
    extra = [arrival for arrival in stream if "#" in arrival.document.key]
    assert originals == [f"d{i}" for i in range(200)]
    assert 70 < len(extra) < 130
    for arrival in extra:
        original, kind = arrival.document.key.split("#")
        assert keys.index(arrival.document.key) > keys.index(original)
        assert arrival.story == (arrival.document.key if "figures" in kind else original)
        assert arrival.document.text != page(int(original[1:])) or kind == "full-width"
    assert 0.1 < sum("figures" in a.story for a in extra) / len(extra) < 0.4
    assert stream == planted(documents(200), 0.5, seed=1)
    assert stream != planted(documents(200), 0.5, seed=2)


def test_orders_hold_the_same_documents() -> None:
    """Nothing is lost by reordering; an unknown order is refused."""
    stream = with_copies(10)
    for order in ORDERS:
        assert Counter(a.document.key for a in reordered(stream, order)) == Counter(
            a.document.key for a in stream
        )
    assert reordered(stream, "arrival") == stream
    assert reordered(stream, "reversed") == stream[::-1]
    assert reordered(stream, "shuffled", 1) != reordered(stream, "shuffled", 2)
    with pytest.raises(ValueError, match="arrival, reversed, shuffled"):
        reordered(stream, "backwards")


@pytest.mark.parametrize("order", ORDERS)
def test_real_deduplicator_keeps_one_of_each(order: str) -> None:
    """Of a document and its copy one is kept, whatever comes first."""
    stream = reordered(with_copies(20), order)
    reported: list[int] = []
    decisions = deduplicate(OPTIONS, stream, reported.append)
    result = Truth(stream).score(decisions, "content", order, 1, 1.0)
    assert (result.documents, result.dropped, result.right) == (40, 20, 20)
    assert (result.losses, result.extras, result.cost) == (0, 0, 0)
    assert sum(reported) == 40


@pytest.mark.slow
def test_workers_share_one_index(tmp_path: Path) -> None:
    """Several processes keep one of each as well, by the default rule and by one with payloads."""
    stream = reordered(with_copies(12), "shuffled")
    with worker_pool(2, OPTIONS) as pool:
        for method in ("content", "charset"):
            (tmp_path / method).mkdir()
            options = attrs.evolve(OPTIONS, timeout=60, method=method)
            decisions = deduplicate_in_pool(pool, options, stream, 2, tmp_path / method)
            result = Truth(stream).score(decisions, method, "arrival", 2, 1.0)
            assert (result.documents, result.dropped, result.losses) == (24, 12, 0)
            assert result.extras == 0


def test_losses_cost_ten_times_an_extra_copy() -> None:
    """A story that is nowhere among those kept is lost; one kept twice is an extra copy."""
    stream = with_copies(3)
    a, b, c, a2, b2, c2 = stream
    decisions = [
        Decision(a, None),
        Decision(b, "d0"),  # lost: neither b nor its copy is kept
        Decision(c, None),
        Decision(a2, "d0"),
        Decision(b2, "d0"),  # lost
        Decision(c2, None),  # extra
    ]
    result = Truth(stream).score(decisions, "any", "arrival", 1, 1.0)
    assert (result.dropped, result.right, result.losses, result.extras) == (3, 1, 2, 1)
    assert result.cost == 1 + 2 * LOSS_COST
    assert result.lost == (("d1", "d0"), ("d1#copy", "d0"))


def test_natural_duplicates_are_right_if_nothing_is_lost() -> None:
    """Unlabelled documents may be dropped for one that holds their words and figures."""
    whole, part = Document(key="w", text=page(1)), Document(key="p", text=page(1)[:300])
    other = attrs.evolve(part, key="o", text=page(1)[:300].replace("共1003人", "共5人"))
    truth = Truth([Arrival(d, d.key) for d in (whole, part, other)])
    assert truth.holds(whole, part)
    assert not truth.holds(part, whole)
    assert not truth.holds(whole, other)


def test_keys_that_the_index_has_not() -> None:
    """Without addresses, and with keys that are too long for an index, the counts are the same."""
    stream = with_copies(10)
    long = [
        attrs.evolve(a, document=attrs.evolve(a.document, key=a.document.key + "x" * 5_000))
        for a in stream
    ]
    for arrivals, keeps in ((stream, False), (long, True)):
        decisions = deduplicate(attrs.evolve(OPTIONS, keep_address=keeps), arrivals)
        result = Truth(arrivals).score(decisions, "content", "arrival", 1, 1.0)
        assert (result.dropped, result.right, result.losses, result.extras) == (10, 10, 0, 0)
