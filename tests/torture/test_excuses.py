"""Which pages the attacks accept as stored twice, as the lease of their process was over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import NO_CANDIDATES, Claim, Claimed, Entry
from tests.torture.driver import admitted_in
from tests.torture.leases import Watched

TEXT = "https://one.example/7 was stored although it is a duplicate of https://two.example/7"


@pytest.mark.parametrize(
    "line",
    [
        f"INFO:dedup_middleware.core.settlement:{TEXT}",
        f"2026-01-02 03:04:05 [dedup_middleware.core.settlement] INFO: {TEXT}",
    ],
)
def test_a_process_says_it_in_its_log(line: str) -> None:
    """In the format of Python's logs as in that of Scrapy's."""
    assert admitted_in(f"{line} (100 % alike, exact-copy)\n") == ["https://one.example/7"]


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
