"""Sketches of clauses, and how many of them two pages turn round."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.signature.comparison import (
    CLAUSE_BYTES,
    PARTS,
)
from tests.signature import oracles
from tests.signature.differing import clause_sketch, turned_clauses
from tests.text.oracles import mix

Clauses = list[tuple[int, int]]
pages = st.lists(
    st.tuples(
        st.tuples(oracles.words, st.integers(0, 15)).map(lambda pair: pair[0] >> 4 | pair[1] << 60),
        st.one_of(st.just(0), oracles.words),
    ),
    max_size=40,
)


def made(page: Clauses) -> NDArray[np.uint8]:
    """The sketch of some clauses."""
    return clause_sketch(np.array(page, np.uint64).reshape(-1, 2))


def plain_sums(page: Clauses) -> list[tuple[int, int]]:
    """Twin of clause_sketch: the two sums of each part."""
    sums = [(0, 0)] * PARTS
    for words, turn in page:
        part = (words >> 56) * PARTS // 256
        first, second = sums[part]
        turned = mix((words + turn * 0x9E3779B97F4A7C15) & oracles.WORD) >> 56 if turn else 0
        sums[part] = (first + words) % 2**16, (second + turned) % 2**8
    return sums


@given(pages)
def test_sums_like_the_twin(page: Clauses) -> None:
    """Three bytes a part, whatever the order of the clauses."""
    wanted = b"".join(a.to_bytes(2, "little") + bytes([b]) for a, b in plain_sums(page))
    assert made(page).tobytes() == made(page[::-1]).tobytes() == wanted
    assert len(wanted) == CLAUSE_BYTES


@given(pages, st.lists(pages, max_size=4), st.sets(st.integers(0, 39)))
def test_counts_like_the_twin(page: Clauses, others: list[Clauses], changed: set[int]) -> None:
    """A page against others, one of them the same with other turns."""
    near = [(words, turn ^ (i in changed)) for i, (words, turn) in enumerate(page)]
    others = [*others, near, page]
    sketches = np.stack([made(other) for other in others])
    wanted = [
        sum(a == c and b != d for (a, b), (c, d) in zip(plain_sums(page), theirs, strict=True))
        for theirs in map(plain_sums, others)
    ]
    assert turned_clauses(made(page), sketches).tolist() == wanted
    assert wanted[-1] == 0


def test_a_clause_of_one_page_turns_nothing() -> None:
    """An added clause says nothing of the others in its part, turned or not."""
    one = [(5 << 60 | 1, 0), (6 << 60 | 2, 0)]
    more = [*one, (5 << 60 | 3, 9)]
    turned = [one[0], (6 << 60 | 2, 9)]
    sketches = np.stack([made(more), made(turned), made([*more[:1], more[2], turned[1]])])
    assert turned_clauses(made(one), sketches).tolist() == [0, 1, 1]
