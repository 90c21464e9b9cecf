"""The candidates of one page, gathered over several answers of the index."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Candidates, Known
from dedup_middleware.index.records import NO_PAGES, Satellites, State, chosen, joined
from dedup_middleware.index.tables import NOBODY, Neighbours, most_met


class Gathered:
    """Candidates of one page, each once, with their newest page records.

    They are judged together: text that several pages of a host share can only be seen across all
    candidates.

    :param most: candidates that are judged; of more, those that were found in most tables
    """

    def __init__(self, most: int) -> None:
        self.near: Neighbours = NOBODY
        self.records: Satellites = NO_PAGES
        self.addresses: dict[int, str | None] = {}
        self.full = 0  # full buckets among those of the page
        self.is_cut = False  # whether there were more candidates than are judged
        self._most = most
        self._upto = 0  # the last candidate that a cut has seen
        self._own = NO_PAGES

    def __len__(self) -> int:
        return len(self.near)

    @property
    def missing(self) -> NDArray[np.uint64]:
        """Ids of candidates without a page record."""
        if len(self.records) == len(self.near):
            return NO_PAGES.numbers
        return np.setdiff1d(self.near.numbers, self.records.numbers, assume_unique=True)

    def give_back(self, number: int, content: NDArray[np.void]) -> None:
        """Note a released claim of the page itself: it is no candidate and blocks no claim.

        :param content: CONTENT[1]
        """
        released = np.array([State.RELEASED], np.uint8)
        own = Satellites(np.array([number], np.uint64), content, released)
        self._own = joined([self._own, own])

    def add(self, found: Candidates, before: int | None = None) -> None:
        """Take in an answer of the index.

        :param before: only pages with smaller ids; pages claimed later yield to this claim
        """
        self.full = max(self.full, found.near.full)
        self.addresses.update(found.addresses)
        near, records = found.near, found.pages
        if before is not None or len(self._own):
            keep = ~np.isin(near.numbers, self._own.numbers)
            if before is not None:
                keep &= near.numbers < np.uint64(before)
            near = Neighbours(near.numbers[keep], near.tables[keep])
            records = chosen(records, np.isin(records.numbers, near.numbers))
        if len(near):
            self.near = _united(self.near, near) if len(self.near) else near
        self.update(records)
        if len(self.near) > self._most:
            self._cut()

    def update(self, records: Satellites) -> None:
        """Take in page records, which replace older ones of the same pages."""
        if not len(records):
            return
        if len(self.records):
            rest = chosen(self.records, ~np.isin(self.records.numbers, records.numbers))
            numbers = np.concatenate([rest.numbers, records.numbers])
            order = np.argsort(numbers)
            records = Satellites(
                numbers[order],
                np.concatenate([rest.content, records.content])[order],
                np.concatenate([rest.states, records.states])[order],
                np.concatenate([rest.times, records.times])[order],
            )
        self.records = records

    def described(self) -> Neighbours:
        """Those candidates that have a page record, in the order of :attr:`records`."""
        if len(self.records) == len(self.near):
            return self.near
        keep = np.isin(self.near.numbers, self.records.numbers)
        return Neighbours(self.near.numbers[keep], self.near.tables[keep])

    def known(self) -> Known:
        """The candidates as ``known`` of the next proposal, if none is like the page."""
        pages = joined([self.records, self._own]) if len(self._own) else self.records
        if self._upto:
            pages = chosen(pages, pages.numbers > np.uint64(self._upto))
        return Known(pages, self.missing, self._upto)

    def _cut(self) -> None:
        """Keep the candidates that are judged; the others count as judged."""
        self.is_cut = True
        self._upto = max(self._upto, int(self.near.numbers[-1]))
        self.near = most_met(self.near, self._most)
        self.records = chosen(self.records, np.isin(self.records.numbers, self.near.numbers))


def _united(one: Neighbours, other: Neighbours) -> Neighbours:
    """The candidates of two answers, and all tables in which either found them."""
    numbers = np.union1d(one.numbers, other.numbers)
    tables = np.zeros(len(numbers), np.uint64)
    for part in (one, other):
        tables[np.searchsorted(numbers, part.numbers)] |= part.tables
    return Neighbours(numbers, tables)
