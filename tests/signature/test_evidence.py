"""Evidence of a stored page, against a plain twin of the filter and of the comparison."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.model.fingerprint import NO_WORDING, Wording
from dedup_middleware.signature import evidence as kernels
from dedup_middleware.signature.evidence import (
    COMMON,
    EXCHANGED,
    FALSE_POSITIVES,
    LONGEST,
    LONGEST_OF_ALL,
    LOOSE_VALUES,
    NEW,
    NEW_FRAME,
    NEW_SUBJECT,
    NEW_TITLE,
    NEW_VALUES,
    examine,
    make_evidence,
)
from dedup_middleware.text.stamps import DATED, STAMP, YEAR
from dedup_middleware.text.wording import NAME, NO_NEWS, WORD
from tests.signature.plainfilter import TITLE, WIDTH, PlainFilter, page_of, plain_common
from tests.text.oracles import mix

_M64 = (1 << 64) - 1


def plain_new_words(page: Wording, stored: PlainFilter) -> list[bool]:
    """Of each word whether no common shingle holds it; one that none continues does not count."""
    common = plain_common(page, stored)
    width = page.words - len(common) + 1
    new = [True] * page.words
    for i, one in enumerate(is_sure(common, width)):
        if one:
            new[i : i + width] = [False] * len(new[i : i + width])
    return new


def is_sure(common: list[bool], width: int) -> list[bool]:
    """Of each shingle whether it is common, and so is one next to it or just before or behind."""
    places = {i for i, one in enumerate(common) if one}
    return [
        i in places and bool(places & {i - width, i - 1, i + 1, i + width})
        for i in range(len(common))
    ]


def is_replaced(new: list[bool], place: int, numerals: set[int]) -> bool:
    """Whether a word belongs to a run of one or two new words, all of them numerals."""
    first, last = place, place
    while first > 0 and new[first - 1]:
        first -= 1
    while last + 1 < len(new) and new[last + 1]:
        last += 1
    return new[place] and last - first <= 1 and {first, last} <= numerals


def says_nothing(page: Wording, word: int) -> bool:
    """Whether a word is of a date line, or a numeral that says when the page was made."""
    if page.word_hashes[word] == NO_NEWS:
        return True
    marked = set(zip(page.positions.tolist(), page.sorts.tolist(), strict=True))
    return bool(marked & {(word, DATED), (word, STAMP)})


def count_distinct(page: Wording) -> int:
    """Different words, and words that say nothing."""
    word_hashes = page.word_hashes.tolist()
    firsts = [i for i in range(page.words) if word_hashes.index(word_hashes[i]) == i]
    unsaid: int = word_hashes.count(NO_NEWS)
    return unsaid + sum(not says_nothing(page, i) for i in firsts)


def repeats(page: Wording) -> bool:
    """Whether fewer than half of the words are different ones."""
    return 2 * count_distinct(page) < page.words


def is_of_few(page: Wording) -> bool:
    """Whether there are few different words, and so few equally frequent ones would be equal as
    often as those of the page: shingles of another one are in it by chance."""
    said = [one for i, one in enumerate(page.word_hashes.tolist()) if not says_nothing(page, i)]
    equal = sum(one == other for one in said for other in said)
    frequent = page.words**2 / max(equal, 1)
    is_varied = count_distinct(page) ** 3 >= 320 * page.words or frequent**3 >= 8 * page.words
    return repeats(page) and not is_varied


def halves(page: Wording, new: list[bool]) -> list[int]:
    """What each new word adds to a passage, in halves."""
    word_hashes = page.word_hashes.tolist()
    known = {word_hashes[i] for i in range(page.words) if not new[i] and not says_nothing(page, i)}
    half = set() if repeats(page) else known
    return [
        0 if not new[i] or says_nothing(page, i) else 1 if word_hashes[i] in half else 2
        for i in range(page.words)
    ]


def new_subject(page: Wording, stored: PlainFilter) -> set[int]:
    """Words of the title that a page says and the stored one lacks, or may lack."""
    width, common = page.words - len(page.order) + 1, plain_common(page, stored)
    values = list(zip(page.values.tolist(), page.positions.tolist(), page.sorts, strict=True))
    words = [stored.holds_value(value) for value, _, sort in values if sort >= NAME]
    found = set()
    for word in page.title.tolist():
        places = [place for value, place, _ in values if value == word]
        around = [common[max(0, place - width + 1) : place + 1] for place in places]
        is_held = any(sum(one) > 1 or all(one) for one in around)
        if 2 * sum(words) > len(words):
            is_held = stored.holds_value(word)
        if places and not is_held:
            found.add(word)
    return found


def longest_passage(page: Wording, stored: PlainFilter, lead: int, tail: int) -> int:
    """Words of the longest passage of mostly new words, in halves, over all stretches."""
    width, common = page.words - len(page.order) + 1, plain_common(page, stored)
    new = plain_new_words(page, stored)
    counted, off = halves(page, new), 1 if repeats(page) else 2
    longest = 0
    for least, cost in ((0, off), (2, 2)):
        weights = []
        for i, is_held in enumerate(is_sure(common, width)):
            if lead <= i and i + width <= tail:
                last = i + width - 1
                gain = max(counted[last], least * min(1, counted[last])) if new[last] else 2
                weights.append(-cost if is_held else gain)
        count = len(weights)
        sums = [sum(weights[i:j]) for i in range(count) for j in range(i + 1, count + 1)]
        words = max(sums, default=0) - 2 * (width - 1)
        longest = max(longest, words // 2 * 3 // 2 if least else words)
    return longest


def wording(draw: st.DataObject, pool: list[int]) -> Wording:
    """A page whose shingles come from a small pool, so that pages share some."""
    count = draw.draw(st.integers(1, 60))
    order = draw.draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
    words = count + WIDTH - 1
    size = draw.draw(st.integers(0, 6))
    values = draw.draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size))
    places = sorted(draw.draw(st.lists(st.integers(0, words - 1), min_size=size, max_size=size)))
    sorts = draw.draw(
        st.lists(st.sampled_from((0, YEAR, DATED, STAMP, NAME, WORD)), min_size=size, max_size=size)
    )
    title = sorted(set(draw.draw(st.lists(st.sampled_from(pool), max_size=4))))
    return Wording(
        np.array(order, np.uint64),
        words,
        np.array(values, np.uint64),
        np.array(places, np.int32),
        np.array(sorts, np.uint8),
        np.array(title, np.uint64),
        np.array(
            draw.draw(st.lists(st.integers(0, 40), min_size=words, max_size=words)), np.uint64
        ),
    )


@given(st.data(), st.lists(st.integers(0, _M64), min_size=8, max_size=40, unique=True))
def test_same_as_the_twin(data: st.DataObject, pool: list[int]) -> None:
    """The filter byte for byte, and all that is counted of another page's words."""
    stored, page = wording(data, pool), wording(data, pool)
    raw = make_evidence(stored)
    plain = PlainFilter(stored)
    assert raw[1:] == plain.to_bytes()
    found = examine(page, [raw])[0].tolist()
    new = plain_new_words(page, plain)
    lead, tail = min(16, page.words // 6), page.words - min(10, page.words // 6)
    counted = [2 * (new[i] and not says_nothing(page, i)) for i in range(page.words)]
    end = tail if new[-1] else page.words
    begins_alike = [new[i] for i in range(lead) if not says_nothing(page, i)][:1] == [False]
    first = 0 if begins_alike else lead
    assert found[COMMON] == sum(plain_common(page, plain))
    assert found[NEW] == sum(counted[first:end])
    assert found[NEW_FRAME] == sum(counted) - sum(counted[first:end])
    inner = longest_passage(page, plain, first, end)
    behind = longest_passage(page, plain, first, page.words)
    assert found[LONGEST] == max(inner, (2 * behind + 2) // 3)
    assert found[LONGEST_OF_ALL] == longest_passage(page, plain, 0, page.words)
    values = list(zip(page.values.tolist(), page.sorts, page.positions.tolist(), strict=True))
    stated = [
        (value, sort, place)
        for value, sort, place in values
        if sort not in {DATED, WORD}
        and not (sort == NAME and not new[place])
        and not (sort == YEAR and not plain.years)
        and not (sort == STAMP and not lead <= place < tail and page.words >= 60)
    ]
    assert found[NEW_VALUES] == sum(not plain.holds_value(value) for value, _, _ in stated)
    numerals = {place for _, sort, place in values if sort < NAME}
    dated = {value for value, sort, _ in values if sort == DATED}
    assert found[LOOSE_VALUES] == sum(
        lead <= place < tail and is_replaced(new, place, numerals) and value not in dated
        for value, sort, place in stated
        if sort != NAME
    )
    missing = -1
    if plain.titled and len(page.title) and page.words < kernels.TITLED:
        salted = [[mix(one ^ salt) for salt in TITLE] for one in page.title.tolist()]
        missing = sum(not plain.holds(*one) for one in salted)
    assert found[NEW_TITLE] == missing
    assert found[NEW_SUBJECT] == len(new_subject(page, plain))
    assert found[FALSE_POSITIVES] == 62_500
    assert found[EXCHANGED] == is_of_few(page)


@pytest.mark.parametrize("size", [100, 2_000, 60_000])
def test_part_of_a_page_of_any_length(size: int) -> None:
    """All of an excerpt is in the page that it was cut from; of another page nearly nothing is."""
    rng = np.random.default_rng(size)
    stored = page_of(rng.integers(0, 1 << 64, size, np.uint64, endpoint=False))
    raw = make_evidence(stored)
    assert len(raw) <= 1 + 8192 * 4.4 / 8
    part = page_of(stored.order[size // 3 : size // 3 + 60])
    other = page_of(rng.integers(0, 1 << 64, 300, np.uint64, endpoint=False))
    assert examine(part, [raw])[0, [NEW, NEW_FRAME]].tolist() == [0, 0]
    if size <= kernels.MOST:
        found = examine(other, [raw])[0]
        assert found[NEW] + found[NEW_FRAME] > 2 * 0.85 * other.words


@pytest.mark.parametrize(("apart", "new"), [(1, 28), (2, 32), (3, 26), (4, 32)])
def test_a_common_shingle_must_be_continued(apart: int, new: int) -> None:
    """Of two common shingles words are known if they are next to each other, or the second is that
    of the words behind the first; any others are false positives."""
    rng = np.random.default_rng(1)
    stored = page_of(rng.integers(0, 1 << 64, 300, np.uint64, endpoint=False))
    raw = [make_evidence(stored)]
    others = rng.integers(0, 1 << 64, 60, np.uint64, endpoint=False)
    lacking = [one for one in others if not examine(page_of(np.array([one])), raw)[0, COMMON]]
    order = np.array(lacking[:30])
    order[[12, 12 + apart]] = stored.order[[7, 70]]
    found = examine(page_of(order), raw)[0]
    assert found[COMMON] == 2
    assert found[NEW] + found[NEW_FRAME] == 2 * new


def of_the_sample(values: NDArray[np.uint64], level: int) -> NDArray[np.uint64]:
    """Hashes that are in the sample of a level: the highest six bits are 0, then the lowest."""
    low = max(level - 6, 0)
    return values >> np.uint64(6 + low) << np.uint64(low)


@pytest.mark.parametrize("level", [5, 6, 7, 8, 9, 12])
def test_longest_pages_hold_little_of_others(level: int) -> None:
    """However long a page is, its filter has room for the sample that is entered."""
    rng, nothing = np.random.default_rng(level), np.empty(0, np.uint64)
    others = of_the_sample(rng.integers(0, 1 << 64, 4_096, np.uint64, endpoint=False), level)
    shares = []
    for extra in range(9 if level < 9 else 2):
        count = (kernels.MOST << (level - 1)) + (extra + 1) * (50 << level)
        order = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
        raw = kernels.fill_evidence(order, nothing, np.empty(0, np.uint8), nothing).tobytes()
        assert raw[0] & 0x0F == level
        assert len(raw) < 1 + 8192 * 4.4 / 8
        part = page_of(order[: 1_000 << max(level - 6, 0)])
        assert examine(part, [raw])[0, COMMON] == len(part.order)
        shares.append(examine(page_of(others), [raw])[0, COMMON] / len(others))
    assert np.mean(shares) < 0.12


def test_overfull_evidence_of_earlier_versions_is_none() -> None:
    """They entered twice as many shingles of such a page as its filter holds, or more."""
    rng = np.random.default_rng(7)
    stored = page_of(rng.integers(0, 1 << 64, 600_000, np.uint64, endpoint=False))
    part, raw = page_of(stored.order[:8_000]), make_evidence(stored)
    former = bytes((raw[0] & 0x0F,)) + raw[1:]
    assert examine(part, [raw])[0, COMMON] == 8_000
    assert examine(part, [former])[0].tolist() == examine(part, [b""])[0].tolist()


def test_sample_that_is_larger_than_expected_finds_room() -> None:
    """All shingles of a page may be in the sample; then the filter is as large as they need."""
    rng = np.random.default_rng(3)
    order = rng.integers(0, 1 << 64, 20_000, np.uint64, endpoint=False) >> np.uint64(6)
    others = rng.integers(0, 1 << 64, 4_096, np.uint64, endpoint=False) >> np.uint64(6)
    raw = make_evidence(page_of(order))
    assert examine(page_of(order), [raw])[0, COMMON] == 20_000
    assert examine(page_of(others), [raw])[0, COMMON] < 0.15 * 4_096


def test_sample_with_few_shingles_of_a_page_says_nothing() -> None:
    """A page of three shingles is not held by one of 60,000 that has an eighth of its own."""
    rng = np.random.default_rng(1)
    stored = page_of(rng.integers(0, 1 << 64, 60_000, np.uint64, endpoint=False))
    raw = [make_evidence(stored)]
    for first in range(0, 400, 8):
        found = examine(page_of(stored.order[first : first + 3]), raw)[0]
        assert (found[COMMON], found[NEW] + found[NEW_FRAME]) == (0, 10)


def test_repeated_shingles_are_kept_once() -> None:
    """All shingles of a long page that repeats a few are in its evidence, not only a sample."""
    few, others = np.random.default_rng(1).integers(0, 1 << 64, (2, 300), np.uint64, endpoint=False)
    raw = make_evidence(page_of(np.tile(few, 100)))
    assert len(raw) < 1000
    assert examine(page_of(few), [raw])[0, COMMON] == 300
    assert examine(page_of(others), [raw])[0, COMMON] < 60


def page_with_words(words: NDArray[np.uint64]) -> Wording:
    """A short page: its words are values, and three in a row are a shingle."""
    order = np.array([mix(int(a) ^ mix(int(b) ^ mix(int(c)))) for a, b, c in zip(
        words, words[1:], words[2:], strict=False
    )], np.uint64)  # fmt: skip
    places = np.arange(len(words), dtype=np.int32)
    sorts = np.full(len(words), WORD, np.uint8)
    return Wording(order, len(words), words, places, sorts, words[:0], words)


def test_words_that_a_short_page_lacks_are_new() -> None:
    """A short page holds its words, so no false positive hides a passage of other words."""
    draw = np.random.default_rng(5)
    for _ in range(200):
        words = draw.integers(0, _M64, 48, dtype=np.uint64)
        copy = words.copy()
        copy[20:28] = draw.integers(0, _M64, 8, dtype=np.uint64)
        found = examine(page_with_words(words), [make_evidence(page_with_words(copy))])[0]
        assert found[NEW] >= 2 * 7
        assert found[LONGEST] >= 2 * 6


def test_few_words_among_millions() -> None:
    """The cube of the number of distinct words may need more than 64 bits."""
    rng = np.random.default_rng(2)
    distinct = rng.integers(1 << 60, 1 << 64, 2_100_000, np.uint64, endpoint=False)
    words = np.concatenate([distinct, np.full(2_200_000, distinct[0])])
    page = attrs.evolve(page_of(distinct[:40]), words=len(words), word_hashes=words)
    assert examine(page, [make_evidence(page_of(distinct[:40]))])[0, EXCHANGED] == 0


def test_page_with_too_many_values_has_no_evidence() -> None:
    """Its values are never left out, so its evidence would be longer than an index may keep."""
    page = page_of(np.arange(100, dtype=np.uint64))
    for count, is_kept in ((kernels.MOST, True), (kernels.MOST + 1, False)):
        values = np.arange(count, dtype=np.uint64) << np.uint64(40)
        sorts, places = np.zeros(count, np.uint8), np.zeros(count, np.int32)
        raw = make_evidence(attrs.evolve(page, values=values, positions=places, sorts=sorts))
        assert bool(raw) == is_kept
        assert len(raw) < 65_536


def test_without_evidence_everything_is_new() -> None:
    """So a page whose evidence is lost makes nothing a duplicate."""
    page = page_of(np.arange(1, 41, dtype=np.uint64) << np.uint64(58))
    sampled_out = bytes([0x3F]) + make_evidence(page)[1:]
    for raw in (b"", b"\0", b"12345678", bytes(32), bytes(32 + 2), sampled_out):
        found = examine(page, [raw])[0]
        assert found[NEW] + found[NEW_FRAME] == 2 * page.words
        assert found[COMMON] == 0


@pytest.mark.parametrize("size", [8, 52, 280, 2_000, 8_192])
def test_one_hash_in_sixteen_is_held_by_mistake(size: int) -> None:
    """The share of false positives is 1/16 in filters of any size, and .08 in single ones."""
    rng = np.random.default_rng(size)
    shares = []
    for _ in range(30):
        stored = page_of(rng.integers(0, 1 << 64, size, np.uint64, endpoint=False))
        other = rng.integers(0, 1 << 64, 2_048, np.uint64, endpoint=False)
        raw = make_evidence(stored)
        assert examine(stored, [raw])[0, COMMON] == size
        shares.append(examine(page_of(other), [raw])[0, COMMON] / len(other))
    assert np.mean(shares) == pytest.approx(1 / 16, rel=0.06)
    assert np.median(shares) < 0.08


@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x33, 0x3C])
def test_overwritten_evidence_holds_little(byte: int) -> None:
    """Bytes that a crash or a gap left behind are taken for hardly any page's shingles."""
    page = page_of(np.random.default_rng(byte).integers(0, 1 << 64, 2_000, np.uint64))
    raw = make_evidence(page)
    whole = examine(page, [raw[:1] + bytes([byte]) * (len(raw) - 1)])[0, COMMON]
    assert whole < 0.3 * len(page.order)
    half = len(raw) // 2
    assert examine(page, [raw[:half] + bytes(len(raw) - half)])[0, COMMON] < 0.4 * len(page.order)


@given(st.binary(max_size=60))
def test_any_bytes_are_read(raw: bytes) -> None:
    """Damaged evidence is compared like any other."""
    found = examine(page_of(np.arange(30, dtype=np.uint64)), [raw, b"", raw])
    assert found.shape == (3, kernels.COLUMNS)
    assert (found[0] == found[2]).all()


@given(st.data(), st.lists(st.integers(0, _M64), min_size=8, max_size=20, unique=True))
def test_wording_as_bytes(data: st.DataObject, pool: list[int]) -> None:
    """What is packed comes back."""
    page = wording(data, pool)
    again = Wording.from_bytes(page.to_bytes())
    assert again.words == page.words
    for name in ("order", "values", "positions", "sorts", "title"):
        np.testing.assert_array_equal(getattr(again, name), getattr(page, name))
    assert Wording.from_bytes(b"") is NO_WORDING
