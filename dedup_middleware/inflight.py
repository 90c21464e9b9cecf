"""Items between our pipeline and storage, by document key.

Scrapy's signals carry another object than ``process_item`` saw, so the key is all that links
them. Several items may have one key at the same time (a page and its comments, say); then it
can't be told which of them a signal means, and a claim is committed only when all of them have
been stored.
"""

from __future__ import annotations

import attrs

from dedup_middleware.fingerprint import Verdict


@attrs.define
class _Group:
    waiting: int = 0
    failed: bool = False
    verdicts: list[Verdict] = attrs.field(factory=list)


class InFlight:
    """Counts the items of each key on their way, and holds their verdicts."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, key: str, verdict: Verdict | None) -> None:
        """An item with this key goes on to the next pipeline."""
        group = self._groups.setdefault(key, _Group())
        group.waiting += 1
        if verdict is not None:
            group.verdicts.append(verdict)

    def leave(self, key: str, *, stored: bool) -> tuple[bool, list[Verdict]]:
        """One item of this key is through.

        :returns: whether all were stored, and the verdicts to settle: none while others of the
            key are on their way
        """
        group = self._groups.get(key)
        if group is None:
            return stored, []
        group.waiting -= 1
        group.failed = group.failed or not stored
        if group.waiting > 0:
            return False, []
        del self._groups[key]
        return not group.failed, group.verdicts
