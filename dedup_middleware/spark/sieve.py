"""Which pages of one block can't be duplicates: told by a few bits, before they are judged.

Most pages that share a clause or a band have little else in common, and to judge them their whole
wordings would be moved. A sieve is a Bloom filter of the shingles of a page with one hash: a bit
that a page has and a candidate lacks proves a shingle that the candidate lacks. A page with more of
these than the rule allows is no duplicate of the candidate, whatever the rest says. Of a page with
over 600 shingles a sieve is too full to prove much; such pairs are judged.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel
from dedup_middleware.base.kerneltypes import R64_2, RI64, U8
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content_evidence import ContentByEvidence
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.signature._vector import ones

BITS: Final = 1024
HOST, COUNT, FIRST = 0, 1, 2  # words of a sieve: host, different shingles, and from here on bits
WORDS: Final = FIRST + BITS // 64
SIEVE_BYTES: Final = 8 * WORDS
NO_SIEVE: Final = bytes(SIEVE_BYTES)
EVERY_PAIR: Final = 2.0  # a limit that no page exceeds
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - BITS.bit_length() + 1)  # the first ten bits name one of BITS
# The rule counts shingles by evidence, which reports some as held that are not, and each as often
# as it occurs, where a tenth may be repetitions.
_REPEATED: Final = 0.9
_MISTAKEN: Final = 0.05


def make_sieve(method: Method, page: Fingerprint) -> bytes:
    """The sieve of a page, ``SIEVE_BYTES``; zeros where the method compares no wordings."""
    if not isinstance(method, ContentByEvidence) or not len(page.wording.order):
        return NO_SIEVE
    bits = np.zeros(BITS, np.bool_)
    bits[(page.wording.order * _SPREAD) >> _SHIFT] = True
    head = np.array((page.host, page.size), np.uint64)
    return head.tobytes() + np.packbits(bits).tobytes()


def limit_of(method: Method) -> float:
    """The share of its shingles that a duplicate may lack in a sieve, at the most."""
    if not isinstance(method, ContentByEvidence):
        return EVERY_PAIR
    from dedup_middleware.methods.evidence_rule import most_lacking

    return most_lacking(method.threshold) / _REPEATED + _MISTAKEN


def may_match(
    sieves: NDArray[np.uint64],
    pages: NDArray[np.int64],
    candidates: NDArray[np.int64],
    limit: float,
) -> NDArray[np.bool_]:
    """Which of m pairs have to be judged, bool[m].

    Pages of one host always are, since what several pages of a host have in common does not count
    (see :mod:`dedup_middleware.methods.content`), and so are pages without a sieve.

    :param sieves: uint64[n, WORDS]
    :param pages, candidates: int64[m], rows of ``sieves``
    :param limit: see :func:`limit_of`
    """
    kept = np.empty(len(pages), np.bool_)
    _may_match(sieves, pages, candidates, limit, kept.view(np.uint8))
    return kept


@kernel(types.void(R64_2, RI64, RI64, types.float64, U8))
def _may_match(sieves: Any, pages: Any, candidates: Any, limit: Any, kept: Any) -> None:
    for pair in range(len(pages)):
        own, other = pages[pair], candidates[pair]
        lacking = np.uint64(0)
        for word in range(FIRST, WORDS):
            lacking += ones(sieves[own, word] & ~sieves[other, word])
        count = np.float64(sieves[own, COUNT])
        # Evidence of a short page is less sure: three standard deviations of what it reports.
        few = np.float64(lacking) <= limit * count + 0.5 * np.sqrt(count)
        of_one_host = sieves[own, HOST] == sieves[other, HOST] and sieves[own, HOST] != 0
        kept[pair] = few or sieves[other, COUNT] == 0 or of_one_host
