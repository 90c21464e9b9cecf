"""Counts the calls of a crawl to its index, and their round trips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dedup_middleware.index.base import Index

CALLS = frozenset(
    "read_buckets candidates fetch addresses payloads "
    "propose commit release renew expiring refresh forget lookup".split()
)


def counted(index: Index, count: Callable[[str, float], None]) -> Index:
    """The same index; ``count`` is called with the name of the counter and 1 for each call.

    Calls that the index makes of itself are not counted. Round trips are counted as well, apart
    from calls: many calls may share one, and one call may need several. So are the SimHash records
    that the Hamming kernel compares.
    """
    index.watch_round_trips(lambda: count("index/round-trips", 1))
    index.watch_scans(lambda records: count("index/scanned", records))
    return cast("Index", _Counted(index, count))


class _Counted:
    def __init__(self, index: Index, count: Callable[[str, float], None]) -> None:
        self._index = index
        self._count = count

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._index, name)
        if name not in CALLS:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self._count("index/calls", 1)
            return found(*arguments, **named)

        setattr(self, name, call)  # made once
        return call
