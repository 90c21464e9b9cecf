"""Words of a title that the text of its page says where another page says something else.

Two pages on one template name their subjects in their titles and in their texts: two products,
say. Of a page of fewer than 60 words :func:`.examine` counts such words; of a longer one, where
they are seldom asked for, :func:`count_new_in_title`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.held import LEVEL, holds_value, mark_common
from dedup_middleware.signature.ribbon import PADDING, is_filter


@subkernel
def count_new_subject(
    values: Any, positions: Any, title: Any, data: Any, start: Any, size: Any, common: Any,
    width: Any, is_known: Any,
) -> Any:  # fmt: skip
    """Count words of the title that a page says and the other one lacks, or may lack."""
    found = 0
    for k in range(title.size):
        is_said, is_held = False, False
        for i in range(values.size):
            if values[i] != title[k]:
                continue
            last = np.int64(positions[i])
            first, end = max(0, last - width + 1), min(last + 1, common.size)
            held = 0
            for shingle in range(first, end):
                held += np.int64(common[shingle])
            is_said = True
            is_held |= (held > 1) | (held == end - first)
        if is_known:
            is_held = holds_value(data, start, size, title[k]) != 0
        found += np.int64(is_said & (not is_held))
    return found


def count_new_in_title(wording: Wording, evidence: Sequence[bytes]) -> NDArray[np.int64]:
    """Words of its title that a page of 60 words and more has in its text, but nowhere in passages
    that n others hold: int64[n].

    All shingles with the word must be held in one place. Fewer would do if a page were compared
    with one other: but of a hundred variants of a product one holds a shingle by mistake.
    """
    ends = list(accumulate(map(len, evidence), initial=0))
    found: NDArray[np.int64] = _count_new_in_title(
        wording.order, wording.headline, wording.word_hashes,
        np.frombuffer(b"".join((*evidence, bytes(PADDING))), np.uint8), np.array(ends, np.int64),
    )  # fmt: skip
    return found


@kernel(types.I64(R64, R64, R64, R8, RI64))
def _count_new_in_title(
    order: Any, headline: Any, word_hashes: Any, data: Any, ends: Any
) -> Any:  # fmt: skip
    count, shingles, words = ends.size - 1, np.int64(order.size), np.int64(word_hashes.size)
    found = np.zeros(count, np.int64)
    common = np.empty(shingles, np.uint8)
    width = words - shingles + 1
    for row in range(count):
        start = np.uint64(ends[row]) + np.uint64(1)
        size = ends[row + 1] - ends[row] - 1
        if not is_filter(size):
            found[row] = headline.size
            continue
        level = np.int64(data[start - np.uint64(1)] & LEVEL)
        mark_common(order, data, start, size, level, common)
        for k in range(headline.size):
            is_held = False
            for word in range(words):
                if word_hashes[word] == headline[k]:
                    first, end = max(0, word - width + 1), min(word + 1, shingles)
                    held = 0
                    for shingle in range(first, end):
                        held += np.int64(common[shingle])
                    is_held |= held == end - first
            found[row] += np.int64(not is_held)
    return found
