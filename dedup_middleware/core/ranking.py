"""The precedence of verdicts: which candidate decides what becomes of a page.

The crawl, ``scrapy dedup check`` and the job on Spark rank by the functions here, so all of them
name the same page for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.methods.base import Judgement
from dedup_middleware.methods.reasons import EXACT
from dedup_middleware.model.documents import DUPLICATE, EMPTY, NEW, REVISIT
from dedup_middleware.model.records import State

UNCHANGED = "unchanged"
FIRST = "nothing-alike"
CHANGED = "changed"
PENDING = "pending"
_PENDING, _COMMITTED = int(State.PENDING), int(State.COMMITTED)


@attrs.frozen(slots=False)  # with slots it takes longer to make
class Ranking:
    """What the candidates make of a page; rows are positions among them.

    ``match``: the stored page that makes it a duplicate, ``same_key`` whether that is the page
    itself. ``pending``: pages on their way to storage that it has to wait for. ``nearest``: the
    most similar stored page that does not make a new page a duplicate. ``earlier``: stored pages
    with the same key that say something else. ``supersedes``: stored pages with other keys all of
    whose words a new page holds.
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
        """Outcome of the verdict, unless a pending page has to be awaited first."""
        if self.match is None:
            return NEW
        return REVISIT if self.same_key else DUPLICATE


def best_match(judged: Judgement, rows: Iterable[int], same_key: Sequence[bool]) -> int:
    """The page to name, of stored ones that each make a page a duplicate.

    The page itself goes before others, then the most similar one, of these an exact copy, then the
    oldest.

    :param rows: positions of at least one candidate
    :param same_key: of each candidate, whether it has the key of the page
    """
    reasons, similarity = judged.reasons, judged.similarity.tolist()
    return min(
        rows, key=lambda row: (not same_key[row], -similarity[row], reasons[row] != EXACT, row)
    )


def rank(judged: Judgement, states: Sequence[int], same_key: Sequence[bool]) -> Ranking:
    """What n candidates, the oldest first, make of a page.

    In this order: a stored page that makes it a duplicate; a like page that may be stored soon, or
    one with its key, whatever that says, since a key has one claim at a time; a stored page with
    its key and other content; none of these.

    :param states: of each candidate its :class:`~dedup_middleware.model.records.State`
    """
    # Lists: most pages have one or two candidates, fewer than pay for a call of NumPy.
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
