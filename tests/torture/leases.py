"""Leases of a process that were over before it came to them, by the clock of the process itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import Claim, Claimed, Entry


class Watched:
    """An index that notes each lease which was renewed or used too late.

    A process that gets no processor for longer than its leases has lost them, and another one may
    have stored a like page. What counts is the time from one question to the next: a lease runs
    from the moment at which the server has the first one.

    :param lease: seconds
    :param file: gets a line for each: the address of the page, what was asked, and the seconds
    """

    def __init__(
        self, index: Index, lease: float, file: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._index = index
        self._lease = lease
        self._file = file
        self._clock = clock
        self._asked: dict[int, float] = {}
        self._addresses: dict[int, str | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    async def propose(self, entry: Entry, *arguments: Any, **named: Any) -> Any:
        """See :meth:`.Index.propose`."""
        now = self._clock()
        made = await self._index.propose(entry, *arguments, **named)
        if isinstance(made, Claimed):
            self._asked[made.claim.page_id] = now
            self._addresses[made.claim.page_id] = entry.address
        return made

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """See :meth:`.Index.renew`."""
        now = self._clock()
        for claim in claims:
            self._note("renew", claim, now)
        renewed = await self._index.renew(claims, lease)
        self._asked.update((claim.page_id, now) for claim in claims)
        return renewed

    async def commit(self, claim: Claim) -> bool:
        """See :meth:`.Index.commit`."""
        self._note("commit", claim, self._clock())
        return await self._index.commit(claim)

    def _note(self, what: str, claim: Claim, now: float) -> None:
        seconds = now - self._asked.get(claim.page_id, now)
        if seconds > self._lease:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{self._addresses.get(claim.page_id)} {what} {seconds:.3f}\n")
