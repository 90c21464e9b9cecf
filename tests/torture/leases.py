"""Leases of a process that were over before it came to them, by the clock of the process itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import Claim, Claimed, Entry


class Watched:
    """An index that notes each lease which had been lost when it was to be renewed or used.

    A process that gets no processor for longer than its leases has lost them, and another one may
    have stored a like page. Noted is what the index refuses and the clock of the process explains:
    more than the lease has passed since the process last asked for it.

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
        renewed = await self._index.renew(claims, lease)
        for claim, is_held in zip(claims, renewed, strict=True):
            if is_held:
                self._asked[claim.page_id] = now
            else:
                self._note("renew", claim)
        return renewed

    async def commit(self, claim: Claim) -> bool:
        """See :meth:`.Index.commit`."""
        is_held = await self._index.commit(claim)
        if not is_held:
            self._note("commit", claim)
        return is_held

    def _note(self, what: str, claim: Claim) -> None:
        # At the reply, as the call may have waited for a processor or a lock.
        now = self._clock()
        seconds = now - self._asked.get(claim.page_id, now)
        if seconds > self._lease:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{self._addresses.get(claim.page_id)} {what} {seconds:.3f}\n")
