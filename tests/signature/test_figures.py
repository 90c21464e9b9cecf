"""Sketches of figures in their places."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.signature.comparison import ENTRIES, FIGURE_BYTES
from dedup_middleware.text.places import NAMES, SECONDS
from tests.signature.differing import differing_figures, figure_sketch

# Few places and values, so that they meet, in each of the three ranges; and the largest there are.
entries = st.one_of(
    st.tuples(
        st.sampled_from((0, NAMES - 3, NAMES, SECONDS - 3, SECONDS)),
        st.integers(0, 5),
        st.integers(0, 3),
    ).map(lambda e: (e[0] + e[1]) << 8 | e[2]),
    st.integers(0xFFFE00, 0xFFFFFE),
)
pages = st.lists(entries, max_size=40)


def made(page: list[int]) -> NDArray[np.uint8]:
    """The sketch of some entries."""
    return figure_sketch(np.array(page, np.uint32))


def plain_sketch(page: list[int]) -> list[int]:
    """Twin of figure_sketch: its entries."""
    return sorted(set(page))[:ENTRIES]


def plain_differing(a: list[int], b: list[int]) -> int:
    """Twin of the kernel for the entries of two sketches."""
    known = min((page[-1] >> 8 if len(page) == ENTRIES else 1 << 16) for page in (a, b))
    values: tuple[dict[int, set[int]], ...] = (defaultdict(set), defaultdict(set))
    for page, places in zip((a, b), values, strict=True):
        for entry in page:
            places[entry >> 8].add(entry & 0xFF)
    agreed = {entry & 0xFF for entry in {*a} & {*b} if NAMES <= entry >> 8 < SECONDS}
    found = {"first": 0, "name": 0, "second": 0}
    for place in values[0].keys() & values[1].keys():
        mine, theirs = (
            values[0][place] - values[1][place],
            values[1][place] - values[0][place],
        )
        if place >= known or not mine or not theirs:
            continue
        if place < NAMES:
            found["first"] += 1
        elif place >= SECONDS:
            found["second"] += 1
        elif not (mine | theirs) & agreed:
            found["name"] += 1
    return found["name"] + max(found["first"], found["second"])


@given(pages)
def test_keeps_the_smallest_entries(page: list[int]) -> None:
    """Up to sixteen entries, ascending, three bytes each; unused bytes are filled with ones."""
    found = made(page)
    expected = b"".join(entry.to_bytes(3, "little") for entry in plain_sketch(page))
    assert found.shape == (FIGURE_BYTES,)
    assert found.tobytes() == expected.ljust(FIGURE_BYTES, b"\xff")


@given(pages, st.lists(pages, max_size=5))
def test_counts_places_like_the_twin(page: list[int], others: list[list[int]]) -> None:
    """A page against none, one and several others."""
    sketches = np.array([made(other) for other in others], np.uint8).reshape(-1, FIGURE_BYTES)
    expected = [plain_differing(plain_sketch(page), plain_sketch(other)) for other in others]
    assert differing_figures(made(page), sketches) == expected


def test_one_more_value_in_a_place_is_no_difference() -> None:
    """A place differs only if each page has a value there that the other lacks."""
    one, more, other = made([0x100]), made([0x100, 0x101]), made([0x100, 0x102])
    assert differing_figures(one, np.stack([one, more, other])) == [0, 0, 0]
    assert differing_figures(more, np.stack([one, more, other])) == [0, 0, 1]


def test_a_figure_counts_once() -> None:
    """Of two entries of one figure that both differ one counts; one that differs is enough."""
    one, other = made([0x100, SECONDS << 8]), made([0x101, SECONDS << 8 | 1])
    confused = made([0x100, SECONDS << 8 | 1])
    assert differing_figures(one, np.stack([one, other, confused])) == [0, 1, 1]


def test_another_name_counts_unless_it_stands_elsewhere() -> None:
    """Names count like figures, but not if both pages have one of the two in another place: then
    one mention was edited."""
    smith, jones = NAMES << 8 | 1, NAMES << 8 | 2
    one, other = made([0x100, smith]), made([0x101, jones])
    assert differing_figures(one, other[np.newaxis]) == [2]
    for named in (smith, jones):
        again = named + 0x100
        a, b = made([smith, again]), made([jones, again])
        assert differing_figures(a, b[np.newaxis]) == [0]


def test_what_a_full_sketch_may_have_lost_does_not_count() -> None:
    """The last place of a full sketch may have had more values."""
    full = made([place << 8 for place in range(ENTRIES)])
    last = made([ENTRIES - 1 << 8 | 1])
    first = made([1])
    assert differing_figures(full, np.stack([last, first])) == [0, 1]
