"""Judges one page by its candidates and ranks these: pure functions without I/O.

The crawl, ``scrapy dedup check`` and the job on Spark rank verdicts by :func:`rank`, so all of them
name the same page for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.methods.base import EXACT, Judgement, Method
from dedup_middleware.model.buckets import Neighbours
from dedup_middleware.model.documents import DUPLICATE, EMPTY, NEW, REVISIT, Match
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.model.records import PageRecords, State

UNCHANGED = "unchanged"
FIRST = "nothing-alike"
CHANGED = "changed"
PENDING = "pending"
_PENDING, _COMMITTED = int(State.PENDING), int(State.COMMITTED)


@attrs.frozen(slots=False)  # with slots it takes longer to make
class Ranking:
    """The candidates that decide a page, as rows: positions among all candidates.

    ``match``: the stored page that makes it a duplicate; ``same_key``: the match has the page's
    key. ``pending``: pages on their way to storage that it has to wait for. ``nearest``: the most
    similar stored page, if none is a match. ``earlier``: stored pages with its key and other
    content. ``supersedes``: stored pages with other keys, all of whose words it holds.
    """

    reason: str
    match: int | None = None
    same_key: bool = False
    pending: tuple[int, ...] = ()
    nearest: int | None = None
    earlier: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()

    @property
    def outcome(self) -> str:
        """Outcome of the verdict; meaningless if there are pending pages to wait for."""
        if self.match is None:
            return NEW
        return REVISIT if self.same_key else DUPLICATE


def best_match(judged: Judgement, rows: Iterable[int], same_key: Sequence[bool]) -> int:
    """Choose the page to name as the match, among stored pages that each make a page a duplicate.

    Order of preference: the key of the page, similarity, an exact copy, the older page.

    :param rows: rows of at least one candidate
    :param same_key: for each candidate, whether it has the key of the page
    """
    reasons, similarity = judged.reasons, judged.similarity.tolist()
    return min(
        rows, key=lambda row: (not same_key[row], -similarity[row], reasons[row] != EXACT, row)
    )


def rank(judged: Judgement, states: Sequence[int], same_key: Sequence[bool]) -> Ranking:
    """Rank n candidates of a page, the oldest first.

    The first of these that applies decides: the page is a duplicate of a stored page; it would be
    one of a pending page, or a pending page has its key (a key has one claim at a time); a stored
    page has its key and other content; none of these.

    :param states: :class:`~dedup_middleware.model.records.State` of each candidate
    """
    # Lists: most pages have one or two candidates, too few for NumPy to pay off.
    duplicate = judged.duplicate.tolist()
    stored = [row for row, state in enumerate(states) if state == _COMMITTED]
    alike = [row for row in stored if duplicate[row]]
    if alike:
        best = best_match(judged, alike, same_key)
        reason = UNCHANGED if same_key[best] else judged.reasons[best]
        return Ranking(reason, match=best, same_key=same_key[best])
    pending = tuple(
        [
            row
            for row, state in enumerate(states)
            if state == _PENDING and (duplicate[row] or same_key[row])
        ]
    )
    if pending:
        return Ranking(PENDING, pending=pending)
    if not stored:
        return Ranking(FIRST)
    held = judged.held
    supersedes = (
        () if held is None else tuple([row for row in stored if held[row] and not same_key[row]])
    )
    earlier = tuple([row for row in stored if same_key[row]])
    if earlier:
        return Ranking(CHANGED, earlier=earlier, supersedes=supersedes)
    nearest = max(stored, key=judged.similarity.tolist().__getitem__)
    return Ranking(judged.reasons[nearest], nearest=nearest, supersedes=supersedes)


def is_dropped(outcome: str, options: Options) -> bool:
    """Whether a page with this outcome is dropped, by ``DEDUP_REVISIT`` and ``DEDUP_ON_EMPTY``."""
    return (
        outcome == DUPLICATE
        or (outcome == REVISIT and options.revisit == "drop")
        or (outcome == EMPTY and options.on_empty == "drop")
    )


@attrs.frozen(slots=False)  # with slots it takes longer to make
class Ruling:
    """A :class:`Ranking` with matches and page ids instead of rows.

    A match has a key if its address is known. ``pending`` and ``earlier`` are page ids.
    ``previous``: the newest page of ``earlier``, compared with the page.
    """

    reason: str
    match: Match | None = None
    same_key: bool = False
    pending: frozenset[int] = frozenset()
    nearest: Match | None = None
    earlier: tuple[int, ...] = ()
    previous: Match | None = None
    supersedes: tuple[Match, ...] = ()


NOTHING_ALIKE = Ruling(FIRST)


def judge(
    method: Method,
    page: Fingerprint,
    near: Neighbours,
    records: PageRecords,
    addresses: Mapping[int, str | None],
    payloads: Sequence[bytes] = (),
) -> Ruling:
    """Judge a page by its candidates.

    :param near: at least one candidate, the oldest first
    :param records: page records of the candidates, in the same order
    :param payloads: payloads of the candidates, if the method keeps any
    """
    judged = method.judge(page, records.content, payloads)

    def match_of(row: int) -> Match:
        page_id, own = int(records.page_ids[row]), page.simhash
        theirs = int(records.content["simhash"][row])
        return Match(
            key=addresses.get(page_id),
            number=page_id,
            similarity=float(judged.similarity[row]),
            jaccard=float(judged.jaccard[row]),
            distance=None if own is None else int.bit_count(theirs ^ own),
            tables=names_of(method, int(near.tables[row])),
            shared=None if judged.shared is None else int(judged.shared[row]),
            figures=None if judged.figures is None else int(judged.figures[row]),
            rule=judged.reasons[row],
        )

    ranking = rank(judged, records.states.tolist(), same_keys(page, records))
    named = ranking.nearest if ranking.match is None else ranking.match
    match = None if named is None else match_of(named)
    if ranking.match is not None:
        if ranking.same_key and match is not None:
            match = attrs.evolve(match, key=page.key)
        return Ruling(ranking.reason, match, ranking.same_key)
    if ranking.pending:
        page_ids = frozenset([int(records.page_ids[row]) for row in ranking.pending])
        return Ruling(ranking.reason, pending=page_ids)
    earlier = tuple([int(records.page_ids[row]) for row in ranking.earlier])
    supersedes = tuple(map(match_of, ranking.supersedes))
    previous = None
    if ranking.earlier:
        last = max(ranking.earlier, key=records.page_ids.__getitem__)
        previous = attrs.evolve(match_of(last), key=page.key)
    return Ruling(
        ranking.reason, nearest=match, earlier=earlier, previous=previous, supersedes=supersedes
    )


def same_keys(page: Fingerprint, records: PageRecords) -> list[bool]:
    """For each candidate, whether it has the key of the page. The key table does not show it: on a
    cluster a candidate may be found in another table before its record in that one is written."""
    if is_content_key(page.key):
        return [False] * len(records)
    keys: list[int] = records.content["key"].tolist()
    return [key == page.key_hash for key in keys]


def names_of(method: Method, mask: int) -> tuple[str, ...]:
    """Distinct names of the tables in a bit mask."""
    return _names_of(method.table_name, mask)


@lru_cache(maxsize=4096)  # most copies are found in one of a few sets of tables
def _names_of(table_name: Callable[[int], str], mask: int) -> tuple[str, ...]:
    tables = [table for table in range(mask.bit_length()) if mask >> table & 1]
    return tuple(dict.fromkeys(map(table_name, tables)))
