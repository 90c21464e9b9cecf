"""Reasons that the rules on content give, and their codes within kernels."""

from __future__ import annotations

from typing import Final

EXACT: Final = "exact-copy"
CONTAINED: Final = "near-duplicate"
TOO_SHORT: Final = "too-short-to-compare"
TOO_LITTLE: Final = "too-little-in-common"
OTHER_FIGURES: Final = "other-figures"
TURNED: Final = "turned-round"
OTHER_TITLE: Final = "other-title"
COMMON: Final = "common-on-host"
#: all reasons by their codes; a page with one of the first two is a duplicate
REASONS: Final = (
    EXACT,
    CONTAINED,
    TOO_SHORT,
    TOO_LITTLE,
    OTHER_FIGURES,
    TURNED,
    OTHER_TITLE,
    COMMON,
)
EXACT_CODE, CONTAINED_CODE, TOO_SHORT_CODE, TOO_LITTLE_CODE = range(4)
OTHER_FIGURES_CODE, TURNED_CODE, OTHER_TITLE_CODE, COMMON_CODE = range(4, 8)

LONG: Final = 128  # shingles of a page below which it needs more than the threshold
#: least threshold for a page of the same host under another title
SAME_HOST: Final = 0.95
