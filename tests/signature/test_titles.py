from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.evidence import make_evidence
from dedup_middleware.signature.titles import MOST_OF_TITLE, compare_title, with_title
from tests.signature.plainfilter import WIDTH, PlainFilter, page_of

_M64 = (1 << 64) - 1


def hashes(words: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Words as they are given to kernels."""
    return np.array(list(words), np.uint64)


def places_of(page: Wording, stored: PlainFilter, one: int) -> list[list[bool]]:
    """Of each place of a word, whether each shingle with it is common."""
    held = [stored.holds(shingle) for shingle in page.order.tolist()]
    words = page.word_hashes.tolist()
    return [
        held[max(0, place - WIDTH + 1) : place + 1]
        for place, word in enumerate(words)
        if word == one
    ]


@given(st.data(), st.lists(st.integers(0, _M64), min_size=6, max_size=20, unique=True))
def test_same_as_the_twin(data: st.DataObject, pool: list[int]) -> None:
    """A word is new unless the stored page holds all shingles around it in one place, or has it in
    its title; and whether the text has it, and where fewer than two shingles are held, is counted
    apart. One is new at least if both titles have equally many."""
    stored = page_of(np.array(pool[::2], np.uint64))
    order = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=40))
    size = len(order) + WIDTH - 1
    names = st.integers(1, 9).map(lambda name: name << 48)
    words = data.draw(st.lists(names, min_size=size, max_size=size))
    headline = data.draw(st.lists(names, max_size=6, unique=True))
    said, unsaid = data.draw(st.lists(names, max_size=2)), data.draw(st.lists(names, max_size=3))
    many, fewer = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    titled = attrs.evolve(
        stored, word_hashes=hashes(said), headline=hashes({*said, *unsaid}), titled=fewer
    )
    title = set(unsaid) - set(said)
    page = attrs.evolve(
        page_of(np.array(order, np.uint64)),
        word_hashes=hashes(words),
        headline=hashes(headline),
        titled=many,
    )
    plain = PlainFilter(stored)
    places = {one: places_of(page, plain, one) for one in headline}
    new = [one for one in headline if not any(map(all, places[one]))]
    mentioned = sum(bool(places[one]) for one in new)
    replaced = [one for one in new if places[one] and min(map(sum, places[one])) < 2]
    raw = make_evidence(stored)
    found = compare_title(page, [raw, b"", with_title(raw, titled), raw])
    plainly = [mentioned, len(new), len(replaced), 0]
    least = many == fewer and len(titled.headline) > 0
    in_text = sum(one in words for one in headline)
    untitled = max(least, sum(one not in title for one in new))
    assert found.tolist() == [
        plainly,
        [in_text, len(headline), in_text, 0],
        [mentioned, untitled, sum(one not in title for one in replaced), least],
        plainly,
    ]


@given(st.binary(max_size=80))
def test_evidence_that_no_page_can_have(raw: bytes) -> None:
    """No bytes make the comparison read beyond them."""
    words = np.arange(1, 5, dtype=np.uint64) << np.uint64(48)
    page = attrs.evolve(page_of(np.arange(9, dtype=np.uint64)), headline=words)
    new, unsaid, replaced, _ = compare_title(page, [raw])[0].tolist()
    assert 0 <= replaced <= new <= len(words) >= unsaid >= new


def test_words_of_a_title_that_are_entered() -> None:
    """Those that the text says are not: another page is compared with the text. Of a long title
    some are not entered, so that a page is kept rather than dropped."""
    words = np.arange(1, MOST_OF_TITLE + 3, dtype=np.uint64) << np.uint64(48)
    stored = attrs.evolve(page_of(np.arange(9, dtype=np.uint64)), headline=words)
    raw = make_evidence(stored)
    other = attrs.evolve(page_of(np.arange(100, 109, dtype=np.uint64)), headline=words, titled=5)
    assert compare_title(other, [with_title(raw, stored)])[0].tolist() == [0, 2, 0, 0]
    said = attrs.evolve(stored, word_hashes=words[3:])
    assert len(with_title(raw, said)) == len(raw) + 2 * 3 + 1
    assert len(with_title(raw, attrs.evolve(stored, word_hashes=words))) == len(raw) + 1
    assert with_title(raw, attrs.evolve(stored, headline=words[:0])) == raw
    assert with_title(b"", stored) == b""
