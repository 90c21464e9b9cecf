"""Passages of a page that have changed places inside their clauses.

A clause that goes on with other words than in the stored page has a **joint** there: the shingle
across it is not in the stored page, the one behind it is. Which of the other passages followed in
the stored page is asked of its filter. If the answers lead round in a circle, passages have changed
places: two regions of a forecast exchanged their weather, say. Clauses and lines in another order
have no joint inside a clause, and words that were put in or left out make no circle.

Words that stand alone where the other page has others replaced them. A name that did so twice is
what the page is about: another town, firm or person.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.signature.ribbon import holds
from dedup_middleware.text.hashing import mix
from dedup_middleware.text.names import CAPITAL
from dedup_middleware.text.wording import NO_NEWS

TRIPLE: Final = 3  # words of a shingle, but in texts of few different words
_JOINTS: Final = 32  # of a page with more it can't be said which of its parts changed places


@subkernel
def _continues(
    word_hashes: Any, seeds: Any, data: Any, start: Any, size: Any, a: Any, b: Any
) -> Any:
    """Whether the words behind `b` follow those up to `a` in the other page, as far as shingles
    tell."""
    base = seeds[0]
    two, one = word_hashes[a - 1], word_hashes[a]
    then, last = word_hashes[b + 1], word_hashes[b + 2]
    return (
        then != word_hashes[a + 1]
        and holds(data, start, size, mix((two * base + one) * base + then ^ seeds[1]))
        and holds(data, start, size, mix((one * base + then) * base + last ^ seeds[1]))
    )


@subkernel
def _end_of_new(common: Any, word: Any, most: Any) -> Any:
    """The last of some words in no common shingle, the first of them at `word`, between words that
    are in common ones; -1 if there are none, or more than `most`."""
    if word >= TRIPLE and common[word - TRIPLE] and not common[word - TRIPLE + 1]:
        for last in range(word, min(word + most, common.size - 1)):
            if common[last + 1] and not common[last]:
                return last
    return -1


@subkernel
def _says(word_hashes: Any, one: Any, then: Any) -> Any:
    """Whether a page says one word behind another anywhere."""
    for i in range(1, word_hashes.size):
        if word_hashes[i - 1] == one and word_hashes[i] == then:
            return True
    return False


@subkernel
def is_put_in(
    common: Any, word_hashes: Any, seeds: Any, data: Any, start: Any, size: Any, first: Any,
    last: Any,
) -> Any:  # fmt: skip
    """Whether the words from `first` to `last`, or up to three with them, stand between words that
    follow each other in the other page, but nowhere else in this one: there the other page may say
    them, too, and something else here (`Flower show` above `Flower show 2031`)."""
    before, behind = first - 1, last
    inside = before > 0 and behind < word_hashes.size - TRIPLE + 1
    found = inside and _continues(word_hashes, seeds, data, start, size, before, behind)
    for word in range(max(0, last - TRIPLE + 1), min(first + 1, common.size)):
        end = -1 if found else _end_of_new(common, word, TRIPLE)
        if end >= last:
            before, behind = word - 1, end
            found = _continues(word_hashes, seeds, data, start, size, before, behind)
    return found and not _says(word_hashes, word_hashes[before], word_hashes[behind + 1])


@subkernel
def _find_joints(common: Any, word_hashes: Any, begins: Any, joints: Any) -> Any:
    """Write the words behind which a clause goes on with a passage that the other page has, but
    not there; how many there are, 0 if there are too many."""
    found = 0
    for word in range(1, word_hashes.size - TRIPLE):
        if common[word] or not common[word + 1]:
            continue
        is_inside, is_news = True, word_hashes[word - 1] != np.uint64(NO_NEWS)
        for i in range(word, word + TRIPLE):
            is_inside &= begins[i] & ~CAPITAL == 0
            is_news &= word_hashes[i] != np.uint64(NO_NEWS)
        if is_inside and is_news:
            if found == _JOINTS:
                return 0
            joints[found] = np.int32(word)
            found += 1
    return found


@allocating_subkernel
def count_exchanged(
    common: Any, word_hashes: Any, begins: Any, seeds: Any, data: Any, start: Any, size: Any
) -> Any:
    """Count passages that have changed places: joints that lie on a circle, in which the other page
    has behind each the passage of the next."""
    joints = np.empty(_JOINTS, np.int32)
    count = _find_joints(common, word_hashes, begins, joints)
    if count <= 1:
        return 0
    follows = np.zeros((count, count), np.uint8)
    for i in range(count):
        for k in range(count):
            if i != k and _continues(word_hashes, seeds, data, start, size, joints[i], joints[k]):
                follows[i, k] = np.uint8(1)
    left, before = np.ones(count, np.uint8), count + 1
    exchanged = count
    while exchanged < before:  # what leads nowhere, or from nowhere, is on no circle
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
def count_renamed(
    common: Any, firsts: Any, word_hashes: Any, begins: Any, seeds: Any, data: Any, start: Any,
    size: Any,
) -> Any:  # fmt: skip
    """How often a page says a name, alone or with one more word, in place of something else, less
    how often it says it as the other page does: of all names, words that it never writes without a
    capital letter, the largest number."""
    times, alone = np.zeros(word_hashes.size, np.int64), np.zeros(word_hashes.size, np.uint8)
    for word in range(TRIPLE, common.size):
        name = firsts[word]
        if name >= 0:
            times[name] -= common[word - 2] + common[word - 1] + common[word] > 1
        last = _end_of_new(common, word, 2)
        if last < 0 or _continues(word_hashes, seeds, data, start, size, word - 1, last):
            continue
        beside = (begins[word - 1] | begins[last + 1]) & CAPITAL
        for i in range(word, last + 1):
            if firsts[i] >= 0:
                times[firsts[i]] += 1
                # What is always next to another name may be a title, or a state behind its town.
                alone[firsts[i]] |= np.uint8(beside == 0)
    for word in range(TRIPLE, common.size):
        if firsts[word] >= 0 and not (begins[word] & CAPITAL and alone[firsts[word]]):
            times[firsts[word]] = 0
    return times.max()
