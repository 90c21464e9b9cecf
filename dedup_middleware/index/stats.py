"""What an index can say of itself."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class IndexStats:
    """State of an index at one moment.

    ``committed``, ``pending`` and ``released`` are numbers of pages (a pending page whose lease
    has run out counts as released), ``buckets`` the number of buckets that hold a record,
    ``bytes`` the memory or the disk the index takes (an estimate from samples on Redis),
    ``corrupt`` the satellites this process found damaged, ``overflow`` the records left out
    because their bucket was full.
    """

    committed: int
    pending: int
    released: int
    buckets: int
    bytes: int
    corrupt: int
    overflow: int
    parameters: Mapping[str, str]
