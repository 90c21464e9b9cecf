"""Passages of a page that have changed places inside their clauses.

A clause that goes on with other words than in the stored page has a **joint** there: the shingle
across it is not in the stored page, the one behind it is. Which of the other passages followed in
the stored page is asked of its filter. If the answers lead round in a circle, passages have changed
places: two regions of a forecast exchanged their weather, say. Clauses and lines in another order
have no joint inside a clause, and words that were put in or left out make no circle.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.signature.ribbon import holds
from dedup_middleware.text.hashing import mix
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
def _find_joints(common: Any, word_hashes: Any, begins: Any, joints: Any) -> Any:
    """Write the words behind which a clause goes on with a passage that the other page has, but
    not there; how many there are, 0 if there are too many."""
    found = 0
    for word in range(1, word_hashes.size - TRIPLE):
        if common[word] or not common[word + 1]:
            continue
        is_inside, is_news = True, word_hashes[word - 1] != np.uint64(NO_NEWS)
        for i in range(word, word + TRIPLE):
            is_inside &= begins[i] == 0
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
