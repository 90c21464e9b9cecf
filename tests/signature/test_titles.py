from __future__ import annotations

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.evidence import make_evidence
from dedup_middleware.signature.titles import count_new_in_title
from tests.signature.plainfilter import WIDTH, PlainFilter, page_of

_M64 = (1 << 64) - 1


def new_in_title(page: Wording, stored: PlainFilter) -> int:
    """Words of the title of which no place in the text has common shingles alone."""
    held = [stored.holds(shingle) for shingle in page.order.tolist()]
    words = page.word_hashes.tolist()
    return sum(
        not any(
            all(held[max(0, place - WIDTH + 1) : place + 1])
            for place, word in enumerate(words)
            if word == one
        )
        for one in page.headline.tolist()
    )


@given(st.data(), st.lists(st.integers(0, _M64), min_size=6, max_size=20, unique=True))
def test_same_as_the_twin(data: st.DataObject, pool: list[int]) -> None:
    """A word counts unless the stored page holds all shingles around it in one place."""
    stored = page_of(np.array(pool[::2], np.uint64))
    order = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=40))
    words = data.draw(
        st.lists(
            st.integers(1, 9), min_size=len(order) + WIDTH - 1, max_size=len(order) + WIDTH - 1
        )
    )
    headline = sorted(set(data.draw(st.lists(st.sampled_from(words), max_size=4))))
    page = attrs.evolve(
        page_of(np.array(order, np.uint64)),
        word_hashes=np.array(words, np.uint64),
        headline=np.array(headline, np.uint64),
    )
    raw = make_evidence(stored)
    found = count_new_in_title(page, [raw, b"", raw]).tolist()
    expected = new_in_title(page, PlainFilter(stored))
    assert found == [expected, len(headline), expected]


def test_made_when_read() -> None:
    """The words of a title are computed once, when they are read; a packed page has them."""
    calls = []

    def words() -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        calls.append(1)
        return np.array([7, 9], np.uint64)

    page = attrs.evolve(page_of(np.arange(9, dtype=np.uint64)), headline=words)
    assert not calls
    assert page.headline.tolist() == page.headline.tolist() == [7, 9]
    assert Wording.from_bytes(page.to_bytes()).headline.tolist() == [7, 9]
    assert len(calls) == 1
