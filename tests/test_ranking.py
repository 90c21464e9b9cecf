"""The precedence of verdicts, which the crawl, the commands and Spark share."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.core.judge import (
    CHANGED,
    FIRST,
    PENDING,
    UNCHANGED,
    Ranking,
    best_match,
    rank,
)
from dedup_middleware.methods.base import EXACT, Judgement
from dedup_middleware.model.records import State

REASONS = (EXACT, "near-duplicate", "other-figures")
rows = st.lists(
    st.tuples(
        st.sampled_from(list(State)),
        st.booleans(),  # duplicate
        st.booleans(),  # same key
        st.sampled_from((0.0, 0.8, 1.0)),
        st.sampled_from(REASONS),
    ),
    max_size=8,
)


def judgement(some: list[tuple[State, bool, bool, float, str]]) -> Judgement:
    """The judgement of a method on the candidates."""
    similarity = np.array([row[3] for row in some])
    return Judgement(
        np.array([row[1] for row in some], np.bool_),
        similarity,
        similarity,
        tuple(row[4] for row in some),
    )


@given(rows)
def test_match_is_the_first_in_order(some: list[tuple[State, bool, bool, float, str]]) -> None:
    """The page itself, then the most similar, then an exact copy, then the oldest."""
    if not some:
        return
    order = np.lexsort(
        (
            np.arange(len(some)),
            [row[4] != EXACT for row in some],
            [-row[3] for row in some],
            [not row[2] for row in some],
        )
    )
    same_key = [row[2] for row in some]
    assert best_match(judgement(some), range(len(some)), same_key) == order[0]


@given(rows)
def test_verdicts_in_their_order(some: list[tuple[State, bool, bool, float, str]]) -> None:
    """A stored like page goes before one on its way, that before a stored page of the same key, and
    only pages that are stored or on their way count."""
    ranking = rank(judgement(some), [int(row[0]) for row in some], [row[2] for row in some])
    stored = [i for i, row in enumerate(some) if row[0] is State.COMMITTED]
    like = [i for i in stored if some[i][1]]
    pending = [i for i, row in enumerate(some) if row[0] is State.PENDING and (row[1] or row[2])]
    if like:
        assert ranking.match in like
        assert ranking.same_key == any(some[i][2] for i in like)
        assert (ranking.reason == UNCHANGED) == ranking.same_key
    elif pending:
        assert ranking == Ranking(PENDING, pending=tuple(pending))
    elif any(some[i][2] for i in stored):
        earlier = tuple(i for i in stored if some[i][2])
        assert ranking == Ranking(CHANGED, earlier=earlier)
    elif stored:
        assert ranking.match is None
        assert ranking.nearest in stored
        assert some[ranking.nearest][3] == max(some[i][3] for i in stored)
        assert ranking.reason == some[ranking.nearest][4]
    else:
        assert ranking == Ranking(FIRST)
