"""Which pages of one block can't be duplicates, by a few bits, before they are judged.

Most pages that share a clause or a band have little else in common, and to judge them their whole
wordings would be moved. A sieve is a Bloom filter of the shingles of a page with one hash: a bit
that a page has and a candidate lacks proves a shingle that the candidate lacks. A page with more of
these than the rule allows is no duplicate of the candidate, whatever the rest says. Of a page with
over 600 shingles a sieve is too full to prove much; such pairs are judged.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content_evidence import ContentByEvidence
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.spark.pairing import BITS, WORDS

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
