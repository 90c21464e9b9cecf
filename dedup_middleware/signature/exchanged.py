"""Finds edits of a few words that change what a page says: exchanged passages, names, negations.

A **joint** is a place inside a clause where the page goes on with other words than the stored page,
which lacks the shingle across the joint and has the one behind it. For each pair of joints the
filter shows whether the stored page has the passage behind one of them after the words before the
other. A circle of such joints means that passages have changed places: two regions of a forecast
have exchanged their weather, say. Clauses and lines in another order have no joint inside a clause,
and inserted or deleted words form no circle.

New words between common ones replace something. A name that does so twice is another subject:
another town, firm or person, and so is any word that does so at three places. Two names that
replace each other have changed places (which of two teams beat the other). A negation that was
inserted, or that the filter has between two words of the page, denies what the other page says,
whatever else was edited. If a single word is all that is new, it is what was corrected (imposed,
proposed), unless it is another spelling of the same word (see :mod:`.spelling`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.signature.held import shingles_around
from dedup_middleware.signature.ribbon import holds
from dedup_middleware.text.capitals import CAPITAL
from dedup_middleware.text.clauses import BEGINS, RESTYLED
from dedup_middleware.text.hashing import mix
from dedup_middleware.text.names import PERSON
from dedup_middleware.text.numerals import SMALL
from dedup_middleware.text.wording import NO_NEWS

TRIPLE: Final = 3  # words of a shingle, except in texts of few distinct words
_JOINTS: Final = 32  # a page with more joints is not examined for exchanged passages
_MOST_SWAPPED, _MOST_TURNED = 3, 8  # words of a name, and of two names with the words between
_ROW: Final = 8  # most words of a row that names another subject
# Indexes of the first number and the first negation in `Wording.seeds`, and how many negations are
# looked up in the filter: only the commonest, as each is held by mistake at one place in 4,096.
_NUMBERS: Final = 4
_NEGATIONS, _LOOKED_UP = _NUMBERS + len(SMALL), 3


class Compared(NamedTuple):
    """A page as it is compared with another one: ``common`` marks the shingles that the `Filter` of
    the other page holds, and the rest is from :class:`.Wording`."""

    common: Any
    words: Any
    begins: Any
    seeds: Any
    other: Any


@subkernel
def _holds_between(page: Any, before: Any, behind: Any, said: Any) -> Any:
    """Whether the other page has `said` between the words up to `before` and from `behind` on. If
    fewer than two words precede it (`before` is 0 or -1), fewer shingles are looked up."""
    base, start = page.seeds[0], page.seeds[1]
    two, one = page.words[max(0, before - 1)], page.words[max(0, before)]
    for i in range(said.size + 2):
        then = said[i] if i < said.size else page.words[behind + i - said.size]
        is_whole = i + before > 0
        if is_whole and not holds(page.other, mix((two * base + one) * base + then ^ start)):
            return False
        two, one = one, then
    return True


@subkernel
def _continues(page: Any, a: Any, b: Any) -> Any:
    """Whether the other page has the words behind `b` after those up to `a`, by two shingles."""
    differs = page.words[b + 1] != page.words[a + 1]
    return differs and _holds_between(page, a, b + 1, page.words[:0])


@subkernel
def _end_of_row(common: Any, word: Any, most: Any) -> Any:
    """The last of up to `most` words from `word` on that are in no common shingle; -1 if none is
    followed by words in common shingles."""
    for last in range(word, min(word + most, common.size - 1)):
        if common[last + 1] and not common[last]:
            return last
    return -1


@subkernel
def _end_of_new(common: Any, word: Any, most: Any) -> Any:
    """The last of up to `most` words from `word` on that are in no common shingle, between words in
    common shingles; -1 if there is no such row of words."""
    if word >= TRIPLE and common[word - TRIPLE] and not common[word - TRIPLE + 1]:
        return _end_of_row(common, word, most)
    return -1


@subkernel
def _shows_names(begins: Any) -> Any:
    """Whether any word has a capital letter, so that capitals may show names."""
    capitals = False
    for word in range(begins.size):
        capitals |= begins[word] & CAPITAL != 0
    return capitals


@subkernel
def _is_small_number(page: Any, word: Any) -> Any:
    """Whether a word is a number of `SMALL`, in digits or in words."""
    small = False
    for k in range(_NUMBERS, min(page.seeds.size, _NEGATIONS)):
        small |= page.words[word] == page.seeds[k]
    return small


@subkernel
def is_another_number(page: Any, word: Any) -> Any:
    """Whether a small number stands in place of another word, between words that both pages have: a
    numeral in words has no place (see :mod:`~dedup_middleware.text.places`), so the value may be
    another one, although the other page has this one too. Not where capitals do not show names: in
    Chinese 三人 and 3人 are different words."""
    common = page.common
    if (
        not _is_small_number(page, word)
        or word == 0
        or word + 1 >= common.size
        or not common[word + 1]
    ):
        return False
    # The shingle in the middle may be a false positive; an outer one is also common if a word was
    # deleted next to the number.
    lacks = not common[word] and (word + 1 < TRIPLE or not common[word + 1 - TRIPLE])
    if not lacks or (word >= TRIPLE and not common[word - TRIPLE]):
        return False
    return _shows_names(page.begins) and not _continues(page, word - 1, word)


@subkernel
def _has_pair(word_hashes: Any, first: Any, second: Any) -> Any:
    """Whether a page has the word `second` directly behind the word `first` anywhere."""
    for i in range(1, word_hashes.size):
        if word_hashes[i - 1] == first and word_hashes[i] == second:
            return True
    return False


@subkernel
def is_put_in(page: Any, first: Any, last: Any) -> Any:
    """Whether the words from `first` to `last`, or up to three new words around them, were
    inserted: the other page has the words before and behind them side by side. If this page has
    these two words side by side as well, that may be what the other page has, with something else
    here (`Flower show` above `Flower show 2031`), so nothing counts as inserted."""
    before, behind = first - 1, last
    inside = before > 0 and behind < page.words.size - TRIPLE + 1
    found = inside and _continues(page, before, behind)
    for word in range(max(0, last - TRIPLE + 1), min(first + 1, page.common.size)):
        end = -1 if found else _end_of_new(page.common, word, TRIPLE)
        if end >= last:
            before, behind = word - 1, end
            found = _continues(page, before, behind)
    return found and not _has_pair(page.words, page.words[before], page.words[behind + 1])


@subkernel
def _find_joints(page: Any, joints: Any) -> Any:
    """Write the index of the last word before each joint to `joints`; return their number, 0 if
    there are more than `_JOINTS`."""
    found = 0
    for word in range(1, page.words.size - TRIPLE):
        if page.common[word] or not page.common[word + 1]:
            continue
        is_inside, is_news = True, page.words[word - 1] != np.uint64(NO_NEWS)
        for i in range(word, word + TRIPLE):
            is_inside &= page.begins[i] & BEGINS == 0
            is_news &= page.words[i] != np.uint64(NO_NEWS)
        if is_inside and is_news:
            if found == _JOINTS:
                return 0
            joints[found] = np.int32(word)
            found += 1
    return found


@allocating_subkernel
def count_exchanged(page: Any) -> Any:
    """Count passages that have changed places: joints on a circle, on which the other page has the
    passage behind each joint after the words before another."""
    joints = np.empty(_JOINTS, np.int32)
    count = _find_joints(page, joints)
    if count <= 1:
        return 0
    follows = np.zeros((count, count), np.uint8)
    for i in range(count):
        for k in range(count):
            if i != k and _continues(page, joints[i], joints[k]):
                follows[i, k] = np.uint8(1)
    left, before = np.ones(count, np.uint8), count + 1
    exchanged = count
    while exchanged < before:  # joints that lead nowhere, or that none leads to, are on no circle
        before, exchanged = exchanged, 0
        for i in range(count):
            out, into = np.uint8(0), np.uint8(0)
            for k in range(count):
                out |= follows[i, k] & left[k]
                into |= follows[k, i] & left[k]
            left[i] &= out & into
            exchanged += np.int64(left[i])
    return exchanged


@allocating_subkernel
def count_renamed(page: Any, firsts: Any) -> Any:
    """Count, in halves, how often a page has a name (alone or with one more word) where the other
    page has something else, less how often both have it; return the maximum over all names. Names
    are words that the page always writes with a capital letter. A first name with a surname counts
    one and a half times."""
    common, begins = page.common, page.begins
    times, alone = np.zeros(page.words.size, np.int64), np.zeros(page.words.size, np.uint8)
    any_alone = False
    for word in range(TRIPLE, common.size):
        last = _end_of_new(common, word, 2)
        if last < 0 or _continues(page, word - 1, last):
            continue
        neighbours = (begins[word - 1] | begins[last + 1]) & CAPITAL
        # Another first name and surname are another person; one of them may be a slip.
        is_full = last > word > TRIPLE and begins[word] & begins[last] & CAPITAL != 0
        is_full = is_full and last + 2 < common.size and common[word - 4] & common[last + 2] != 0
        for i in range(word, last + 1):
            if firsts[i] >= 0:
                times[firsts[i]] += 3 if is_full else 2
                # A word that is always next to another name may be a title, or a state of a town.
                alone[firsts[i]] |= np.uint8(neighbours == 0)
                any_alone |= neighbours == 0
    if not any_alone:  # as on most copies
        return 0
    for word in range(TRIPLE, common.size):
        name = firsts[word]
        if name >= 0 and not (begins[word] & CAPITAL and alone[name]):
            times[name] = 0
    most = np.int64(0)
    for word in range(TRIPLE, common.size):
        name = firsts[word]
        if name >= 0 and times[name] > 0:
            times[name] -= 2 * (common[word - 2] + common[word - 1] + common[word] > 1)
    for word in range(times.size):
        most = max(most, times[word])
    return most


@subkernel
def _count_row(page: Any, firsts: Any, first: Any, end: Any, times: Any) -> Any:
    """Count each word of a row of new words once, if the row replaces other words; return the
    largest count."""
    most, inside = np.int64(0), first > 0 and end < page.words.size
    if end - first > _ROW or (inside and _continues(page, first - 1, end - 1)):
        return most
    for word in range(first, end):
        is_said = firsts[word] < 0
        for before in range(first, word):
            is_said |= page.words[before] == page.words[word]
        if not is_said:
            times[firsts[word]] += 1
            most = max(most, times[firsts[word]])
    return most


@allocating_subkernel
def count_other_subject(page: Any, firsts: Any) -> Any:
    """How many rows of new words say one word in place of others, less how often the page says it
    where the other page does; the maximum over all words but those that editors put in place of
    others, 0 if no word is in two rows. Two less where capitals do not show names: in Chinese,
    names are abridged (人民银行 for 中国人民银行) and spelt in several ways."""
    common, words, begins = page.common, page.words, page.begins
    times, most = np.zeros(words.size, np.int64), np.int64(0)
    first, until = 0, 0
    for word in range(words.size + 1):
        if word < common.size and common[word]:
            until = word + TRIPLE
        if until <= word < words.size:
            continue
        if first < word:
            most = max(most, _count_row(page, firsts, first, word, times))
        first = word + 1
    if most <= 1:  # as on most copies
        return 0
    for word in range(words.size):
        if firsts[word] >= 0 and times[firsts[word]] > 0:
            held, _ = shingles_around(common, word, TRIPLE)
            times[firsts[word]] -= np.int64(held > 1)
    most = np.int64(0)
    for word in range(words.size):
        if not begins[word] & RESTYLED:
            most = max(most, times[word])
    return most if _shows_names(begins) else most - 2


@subkernel
def count_other_persons(page: Any, is_new: Any, firsts: Any, known: Any) -> Any:
    """Count Chinese names of persons that replace something else, and that the page does not say
    in a common passage.

    :param is_new, firsts, known: of the words, see ``_mark_new`` in :mod:`.evidence`
    """
    found, first = 0, 1
    for word in range(1, is_new.size - TRIPLE + 1):
        if not is_new[word] or not page.begins[word] & PERSON:
            first = word + 1
        elif not is_new[word + 1]:
            other = firsts[word] < 0 or not known[firsts[word]]
            for i in range(first, word):
                other |= firsts[i] < 0 or not known[firsts[i]]
            bounded = not is_new[first - 1] and word - first < TRIPLE
            found += other and bounded and not _continues(page, first - 1, word)
    return found


@subkernel
def _are_named(page: Any, first: Any, middle: Any, last: Any, end: Any) -> Any:
    """Whether names begin at `first` and `last`, and a verb at `middle`, behind a quotation mark,
    relates them («A» beat «B»). It must not be said of each («A» sings. «B» sings.), so another
    word is at `end`, nor be one that introduces a quotation (A said: «B»; «B», said A)."""
    begins, verb = page.begins, page.begins[middle]
    are_names = begins[first] & begins[last] & ~verb & CAPITAL != 0
    are_apart = verb & (BEGINS | RESTYLED) == BEGINS
    return are_names and are_apart and page.words[middle] != page.words[end]


@allocating_subkernel
def count_swapped_numbers(page: Any) -> Any:
    """Count pairs of small numbers near each other that stand in each other's places in the other
    page: eight killed, 14 hurt; 14 killed, eight hurt. At least two shingles must be missing."""
    found, common, words = 0, page.common, page.words
    for first in range(1, words.size - TRIPLE):
        held, around = shingles_around(common, first, TRIPLE)
        if held == around or not _is_small_number(page, first):
            continue
        for last in range(first + 1, min(first + _MOST_TURNED, words.size - TRIPLE + 1)):
            if words[last] == words[first] or not _is_small_number(page, last):
                continue
            lacking = 0
            for i in range(max(0, first - TRIPLE + 1), min(last + 1, common.size)):
                lacking += not common[i]
            said = words[first : last + 1].copy()
            said[0], said[said.size - 1] = words[last], words[first]
            found += lacking > 1 and _holds_between(page, first - 1, last + 1, said)
    return found


@allocating_subkernel
def count_swapped(page: Any) -> Any:
    """Count pairs of new passages up to three words long, such as names and numerals, that have
    changed places: with other words between them in one clause (A beat B), or anywhere."""
    places, count, found = np.empty((_JOINTS, 2), np.int64), 0, 0
    begun, common = True, page.common.copy()
    for i in range(1, common.size - 1):  # a lone common shingle may be a false positive
        common[i] &= page.common[i - 1] | page.common[i + 1]
    for word in range(common.size):
        end = _end_of_new(common, word, _MOST_TURNED) + 1
        begun &= word < TRIPLE and not common[word] and page.words[word] != np.uint64(NO_NEWS)
        if begun:
            end = _end_of_row(common, word, _MOST_TURNED) + 1
        if end == 0:
            continue
        words, inside = page.words[word:end], True
        said = np.empty(words.size, np.uint64)
        for i in range(word + 1, end):
            inside &= page.begins[i] & BEGINS == 0
        for middle in range(1, min(_MOST_SWAPPED, words.size - 2) + 1):
            for last in range(words.size - 1, max(middle, words.size - 1 - _MOST_SWAPPED), -1):
                if not inside and not _are_named(page, word, word + middle, word + last, end):
                    continue
                place = 0
                for first, behind in ((last, words.size), (middle, last), (0, middle)):
                    for i in range(first, behind):
                        said[place] = words[i]
                        place += 1
                found += _holds_between(page, word - 1, end, said)
        if words.size > _MOST_SWAPPED or count == _JOINTS:
            continue
        for i in range(count):
            first, last = places[i]
            swapped = _holds_between(page, word - 1, end, page.words[first:last])
            found += swapped and _holds_between(page, first - 1, last, words)
        places[count, 0], places[count, 1] = word, end
        count += 1
    return found


@subkernel
def count_denied(page: Any) -> Any:
    """Count places where one page has a negation and the other nothing. A negation in place of
    another word does not count (would not say, declined to say), nor one at the beginning of a
    clause, where other words may have been left out."""
    common, begins, seeds, found = page.common, page.begins, page.seeds, 0
    for word in range(TRIPLE, common.size):
        if not common[word - TRIPLE] or common[word - TRIPLE + 1] or common[word - 1]:
            continue
        last, denies = word - 1, False
        if common[word]:
            count = _LOOKED_UP if begins[word] & BEGINS == 0 else 0
            for i in range(_NEGATIONS, min(seeds.size, _NEGATIONS + count)):
                denies |= _holds_between(page, last, word, seeds[i : i + 1])
        else:
            last = _end_of_new(common, word, 2)
            for i in range(word, last + 1):
                for k in range(_NEGATIONS, seeds.size):
                    denies |= page.words[i] == seeds[k]
            denies &= (begins[word] & begins[last + 1]) & BEGINS == 0  # no clause of its own
            denies &= _continues(page, word - 1, last)
        found += denies
    return found


@subkernel
def count_of_other_word(page: Any) -> Any:
    """Number of shingles that the other page lacks, if all of them contain one word that replaces
    another; else 0. It is -1 if that word may be a name. Also return the place of the first such
    shingle, shifted by three bits that say which of its words are in all of them.

    Shingles at the beginning and the end of a page are left out. Two of the three shingles with the
    word are enough, as one in sixteen is a false positive. A word between words that are adjacent
    in the other page was inserted. In other cases the caller compares the numbers of shingles:
    inserted or deleted words change them, a replaced word does not.
    """
    common, words, begins = page.common, page.words, page.begins
    begin, end = 0, common.size
    while begin < end and not common[begin]:
        begin += 1
    while end > begin and not common[end - 1]:
        end -= 1
    first = begin
    while first < end and common[first]:
        first += 1
    if first == end or max(begin, common.size - end) >= TRIPLE:
        return 0, 0
    found, places, last = 0, 0, first + TRIPLE - 1
    if last + 2 < words.size and _continues(page, last - 1, last):
        return 0, 0
    for word in range(first, last + 1):
        said, others, inside = words[word], 0, 0
        for i in range(common.size):
            if not common[i]:
                has = words[i] == said or words[i + 1] == said
                others += not (has or words[i + 2] == said)
                inside += begin < i < end
        if others == 0 and inside > 1 and said != np.uint64(NO_NEWS):
            is_name = found < 0 or begins[word] & CAPITAL != 0
            found, places = -1 if is_name else inside, places | 1 << (word - first)
    return found, first << TRIPLE | places
