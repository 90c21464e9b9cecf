"""Streams by any method, and each document compared with all others."""

from __future__ import annotations

import pytest

from dedup_middleware import Document
from dedup_middleware.evaluation.comparers import METHOD_NAMES, VARIANTS, methods_available
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.evaluation.stream import Truth, deduplicate, planted
from research.comparing import compare_stream, decide, duplicates, gather, load
from tests.evaluation.lines import page
from tests.evaluation.test_stream import OPTIONS, documents, with_copies


@pytest.mark.parametrize("name", ["content", "jaccard"])
def test_loading_leaves_nothing_behind(name: str) -> None:
    """A method that was loaded decides like one that was not; no stream at all is no error."""
    stream = with_copies(5)
    (comparer,) = methods_available(OPTIONS, [name]).values()
    before = decide(comparer, stream, OPTIONS)
    load(comparer, stream, OPTIONS)
    load(comparer, [], OPTIONS)
    assert decide(comparer, stream, OPTIONS) == before


@pytest.mark.parametrize("name", ["jaccard", "minhash", "csu", "rules:rule=R3", "content"])
def test_other_methods_see_the_same_stream(name: str) -> None:
    """In the real deduplicator, or with the common candidates, they drop copies only."""
    comparer = methods_available(OPTIONS, [name])[name]
    stream = with_copies(20)
    decisions = decide(comparer, stream, OPTIONS)
    result = Truth(stream).score(decisions, name, "arrival", 1, 1.0)
    assert result.losses == 0
    assert result.right == result.dropped > 10
    for decision in decisions:
        if decision.match is not None:
            assert decision.arrival.document.key == f"{decision.match}#copy"


def test_content_decides_alike_alone_and_in_the_deduplicator() -> None:
    """The comparison with candidates drops what the real deduplicator drops."""
    stream = planted(documents(60), 0.5, seed=3)
    content = methods_available(OPTIONS, ["content"])["content"]
    alone = [d.arrival.document.key for d in compare_stream(content, stream, OPTIONS) if d.match]
    real = [d.arrival.document.key for d in deduplicate(OPTIONS, stream) if d.match]
    # The index has a random hash key, so estimates near the threshold may fall on either side.
    assert len(set(alone) ^ set(real)) <= 0.1 * len(stream)


@pytest.mark.parametrize("name", [*METHOD_NAMES, *VARIANTS])
def test_many_at_once_are_judged_like_one_by_one(name: str) -> None:
    """Over copies, another page and a page without text, a batch has the verdicts of the pairs."""
    comparer = methods_available(OPTIONS, [name])[name]
    texts = [page(3), edit(page(3), "words-changed", 0.02, 1), page(2000), " \n"]
    signed = [comparer.sign(Document(key="d", text=text)) for text in texts]
    gathered = gather(comparer, signed)
    for new in signed:
        expected = [comparer.compare(new, stored).duplicate for stored in signed]
        assert duplicates(comparer, new, gathered).tolist() == expected
