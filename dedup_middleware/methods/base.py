"""What every method does: say where a page stands, and which candidates make it a duplicate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import Fingerprint
from dedup_middleware.index.records import CONTENT
from dedup_middleware.index.tables import (
    EXACT_TABLE,
    KEY_TABLE,
    Slot,
    band_slots,
    narrow_slot,
    simhash_slots,
)


@attrs.frozen(eq=False)
class Judgement:
    """What a method says of n candidates.

    ``duplicate`` bool[n]; ``similarity`` float64[n], 0 to 1, how much of the new page the
    candidate holds; ``jaccard`` float64[n]; ``reasons`` names the rule that made each a duplicate
    or kept it apart.
    """

    duplicate: NDArray[np.bool_]
    similarity: NDArray[np.float64]
    jaccard: NDArray[np.float64]
    reasons: tuple[str, ...]


class Method(ABC):
    """A rule that decides; frozen and without state, so that all processes decide alike."""

    name: ClassVar[str]
    scan_distance: int
    min_features: int

    @abstractmethod
    def judge(self, page: Fingerprint, candidates: NDArray[np.void]) -> Judgement:
        """Judge a page against candidates.

        :param candidates: CONTENT[n] (see :mod:`dedup_middleware.index.records`), stored before it
        """

    def slots(self, page: Fingerprint) -> tuple[Slot, ...]:
        """Places of a page: its key; its exact text if it is short, else SimHash and bands."""
        key = narrow_slot(KEY_TABLE, page.key_hash)
        if page.simhash is None or page.size < self.min_features:
            return (key, narrow_slot(EXACT_TABLE, page.exact))
        return (key, *simhash_slots(page.simhash), *band_slots(page.bands))


def content_record(page: Fingerprint) -> NDArray[np.void]:
    """CONTENT[1] of a page: what an index keeps of it and a method judges by."""
    record = np.zeros(1, CONTENT)
    record["size"] = page.size
    record["figure_count"] = page.figure_count
    record["simhash"] = page.simhash or 0
    record["exact"] = page.exact
    record["key"] = page.key_hash
    record["figures"] = page.figures
    record["sketch"] = page.sketch
    return record
