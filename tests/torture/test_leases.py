"""Which leases a worker notes as over, so that the attacks accept a page that is stored twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import NO_CANDIDATES, Claim, Claimed, Entry
from tests.torture.leases import Watched


class Refusing:
    """An index whose calls take a time, and which refuses every commit and renewal."""

    def __init__(self, takes: float) -> None:
        self.takes, self.now = takes, 0.0

    def clock(self) -> float:
        """The time in seconds."""
        return self.now

    async def propose(self, _: Entry) -> Claimed:
        """Claim at once."""
        return Claimed(Claim(1, 1), NO_CANDIDATES)

    async def commit(self, _: Claim) -> bool:
        """The lease is over."""
        self.now += self.takes
        return False

    async def renew(self, claims: Sequence[Claim], _: float) -> list[bool]:
        """The leases are over."""
        self.now += self.takes
        return [False] * len(claims)


@pytest.mark.parametrize("call", ["commit", "renew"])
@pytest.mark.parametrize(("takes", "is_noted"), [(0.5, False), (1.5, True)])
async def test_a_call_may_outlast_the_lease(
    call: str, takes: float, is_noted: bool, tmp_path: Path
) -> None:
    """A call waits for a processor or a lock, too: a lease that is over at its reply is noted."""
    index, file = Refusing(takes), tmp_path / "late"
    watched = Watched(cast("Index", index), 1.0, file, index.clock)
    entry = cast("Entry", type("Entry", (), {"address": "https://one.example/7"}))
    claim = (await watched.propose(entry)).claim
    if call == "commit":
        assert not await watched.commit(claim)
    else:
        assert await watched.renew([claim], 1.0) == [False]
    assert file.exists() == is_noted
    if is_noted:
        assert file.read_text(encoding="utf-8") == f"https://one.example/7 {call} 1.500\n"
