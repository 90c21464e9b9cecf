"""Finds words of a page's title that its text has where another page has different words.

Pages on one template name their subject, a product for example, in title and text. On a page of
fewer than 60 words :func:`.examine` counts such words; on longer pages, where they are seldom
needed, :func:`compare_title` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64, U8
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.held import (
    COUNT,
    LEVEL,
    TITLE_BEHIND,
    VALUE,
    filter_bytes,
    holds_twice,
    joined,
    mark_common,
    shingles_around,
)
from dedup_middleware.signature.ribbon import Filter, is_filter

MOST_OF_TITLE: Final = 16  # words of a title that are entered
NEW_IN_TEXT, NEW_IN_TITLE, REPLACED, AS_LONG = range(4)
_BYTE, _EIGHT = np.uint64(0xFF), np.uint64(8)
_HIGH: Final = np.uint64(48)  # shift that leaves 16 bits
_TITLE_LENGTH_SHIFT: Final = 5  # shift of the bits above `COUNT` in the last byte


class Values(NamedTuple):
    """``values``, ``positions`` and ``sorts`` of a page's :class:`.Wording`."""

    hashes: Any
    positions: Any
    sorts: Any


@subkernel
def count_new_subject(values: Any, page: Any, title: Any, width: Any, is_known: Any) -> Any:
    """Count words of the title that the page says and the other page lacks, or may lack."""
    found = 0
    for k in range(title.size):
        is_said, is_held = False, False
        for i in range(values.hashes.size):
            if values.hashes[i] == title[k]:
                held, all_of = shingles_around(page.common, np.int64(values.positions[i]), width)
                is_said = True
                is_held |= (held > 1) | (held == all_of)
        if is_known:
            is_held = holds_twice(page.other, title[k], VALUE) != 0
        found += np.int64(is_said & (not is_held))
    return found


def with_title(evidence: bytes, wording: Wording) -> bytes:
    """Append to evidence the words of the page's title that its text lacks: 16 bits of the hash of
    each, ``MOST_OF_TITLE`` words at most, then a byte with their number and the number of all words
    of the title modulo 8."""
    if not evidence or not len(wording.headline):
        return evidence
    words: bytes = _unsaid(wording.headline, wording.word_hashes, wording.titled).tobytes()
    head = bytes((evidence[0] | int(TITLE_BEHIND),))
    return b"".join((head, evidence[1:], words))


@kernel(U8(R64, R64, types.int64), check=False)  # the arrays of a fingerprint
def _unsaid(headline: Any, word_hashes: Any, titled: Any) -> Any:
    """The bytes that :func:`with_title` appends."""
    found, size = np.empty(2 * MOST_OF_TITLE + 1, np.uint8), 0
    for k in range(np.uint64(headline.size)):
        is_said = False
        for word in range(np.uint64(word_hashes.size)):
            is_said |= word_hashes[word] == headline[k]
        if not is_said and size < 2 * MOST_OF_TITLE:
            value = headline[k] >> _HIGH
            found[size], found[size + 1] = np.uint8(value & _BYTE), np.uint8(value >> _EIGHT)
            size += 2
    found[size] = np.uint8(size // 2 | titled << _TITLE_LENGTH_SHIFT)
    return found[: size + 1].copy()


def compare_title(wording: Wording, evidence: Sequence[bytes]) -> NDArray[np.int64]:
    """Compare the words of a page's title with n other pages; int64[n, 4].

    A word is *held* if, at one of its places, the other page holds all shingles with it. (Fewer
    would do for one other page, but of a hundred variants of a product one holds a shingle by
    mistake.) The columns count words of the title:

    * ``NEW_IN_TEXT``: that the text has, but that are not held
    * ``NEW_IN_TITLE``: that are neither held nor in the other title; at least 1 if both titles have
      equally many words, as they may differ in a word that both texts have, or in the order of
      their words (from A to B)
    * ``REPLACED``: those of ``NEW_IN_TITLE`` that the text has, at one place at least with fewer
      than two held shingles, so that the other page may say something else there
    * ``AS_LONG``: 1 if both titles have equally many words
    """
    words = wording.order, wording.headline, wording.word_hashes
    found: NDArray[np.int64] = _compare_title(*words, *joined(evidence), wording.titled)
    return found


@subkernel
def _is_in_title(word: Any, data: Any, end: Any) -> Any:
    """Whether a word is among the title words in the evidence that ends at `end`."""
    value = word >> _HIGH
    for k in range(1, np.int64(data[end - 1] & COUNT) + 1):
        low, high = np.uint64(data[end - 1 - 2 * k]), np.uint64(data[end - 2 * k])
        if low | high << _EIGHT == value:
            return True
    return False


@kernel(types.I64_2(R64, R64, R64, R8, RI64, types.int64))
def _compare_title(
    order: Any, headline: Any, word_hashes: Any, data: Any, ends: Any, titled: Any
) -> Any:  # fmt: skip
    count, shingles, words = ends.size - 1, np.int64(order.size), np.int64(word_hashes.size)
    found = np.zeros((count, 4), np.int64)
    common = np.empty(shingles, np.uint8)
    width = words - shingles + 1
    for row in range(count):
        size, head = filter_bytes(data, ends[row], ends[row + 1]), np.uint8(0)
        common[:] = np.uint8(0)
        if is_filter(size):
            head, other = data[ends[row]], Filter(data, np.uint64(ends[row]) + np.uint64(1), size)
            mark_common(order, other, np.int64(head & LEVEL), common)
        for k in range(headline.size):
            is_said, is_held, least = False, False, shingles
            for word in range(words):
                if word_hashes[word] == headline[k]:
                    held, all_of = shingles_around(common, word, width)
                    is_said = True
                    is_held |= held == all_of
                    least = min(least, held)
            if not is_held:
                is_titled = head & TITLE_BEHIND != 0
                is_titled = is_titled and _is_in_title(headline[k], data, ends[row + 1])
                found[row, NEW_IN_TEXT] += np.int64(is_said)
                found[row, NEW_IN_TITLE] += np.int64(not is_titled)
                found[row, REPLACED] += np.int64(is_said and least <= 1 and not is_titled)
        if head & TITLE_BEHIND != 0:
            length = np.int64(data[ends[row + 1] - 1] >> _TITLE_LENGTH_SHIFT)
            if length == titled:
                found[row, NEW_IN_TITLE] = max(found[row, NEW_IN_TITLE], 1)
                found[row, AS_LONG] = 1
    return found
