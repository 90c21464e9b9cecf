"""Samples of an index: committed pages drawn at random, whatever its back end."""

from __future__ import annotations

import numpy as np

from dedup_middleware.index.base import Index
from dedup_middleware.model.records import PageRecords, State, chosen, joined

_DRAWN = 1_000  # page ids read at once
_RARE = 0.05  # share of page ids that belong to committed pages, below which all are read


async def sample(index: Index, count: int, seed: int = 0) -> PageRecords:
    """Committed pages drawn at random, all with the same chance, none twice.

    A small share of a large index is drawn by page id, without reading the rest.

    :param count: how many; all, if there are no more
    :param seed: the same one draws the same pages from an index that has not changed
    :returns: the pages by ascending page id
    :raises ValueError: a negative number of pages
    """
    if count < 0:
        raise ValueError(f"count is {count}: ask for 0 pages or more")
    page_ids = await index.page_ids()
    random = np.random.default_rng(seed)
    # Drawing more than a quarter by page id would read nearly every page, many of them twice.
    if 4 * count < len(page_ids):
        drawn = await _drawn(index, count, page_ids, random)
        if drawn is not None:
            return drawn
    return await _of_all(index, count, random)


async def _drawn(
    index: Index, count: int, page_ids: range, random: np.random.Generator
) -> PageRecords | None:
    """Pages by random ids; None: too few of the ids belong to committed pages."""
    parts: list[PageRecords] = []
    seen = np.empty(0, np.uint64)
    hits = 0
    while hits < count:
        asked = random.integers(page_ids.start, page_ids.stop, _DRAWN, np.uint64)
        # The first of equal ones counts, so that the order of drawing decides who is cut off.
        asked = asked[np.sort(np.unique(asked, return_index=True)[1])]
        asked = asked[~np.isin(asked, seen)]
        seen = np.concatenate([seen, asked])
        found = await index.fetch(asked)
        found = chosen(found, found.states == State.COMMITTED)
        parts.append(found)
        hits += len(found)
        if hits < count and (hits < _RARE * len(seen) or 2 * len(seen) > len(page_ids)):
            return None
    drawn = joined(parts)
    return chosen(drawn, np.argsort(drawn.page_ids[:count], kind="stable"))


async def _of_all(index: Index, count: int, random: np.random.Generator) -> PageRecords:
    """Pages with the smallest of random marks, in one walk over all of them."""
    best, marks = joined([]), np.empty(0)
    async for pages in index.pages():
        found = chosen(pages, pages.states == State.COMMITTED)
        best = joined([best, found])
        marks = np.concatenate([marks, random.random(len(found))])
        if len(best) > 2 * count:
            kept = np.isin(np.arange(len(best)), np.argsort(marks, kind="stable")[:count])
            best, marks = chosen(best, kept), marks[kept]
    kept = np.isin(np.arange(len(best)), np.argsort(marks, kind="stable")[:count])
    return chosen(best, kept)
