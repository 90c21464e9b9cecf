"""Proposals on a cluster: read the buckets, announce the page, look at concurrent announcements.

No script spans two shards, so a page is entered in steps, each for many pages at a time:

1. *Read* some of the page's buckets, then the others and the records of the pages found. If one of
   these is alive and not known, it is returned as a candidate: most copies end here, without a
   write. A copy that the first read misses is announced, found in step 3, and withdrawn.
2. *Announce* the page: append a record to each of its buckets, where the script returns the earlier
   records, and write a row in state PENDING on its home shard. Appends to a bucket are ordered, so
   of two pages that share a bucket at least one sees the other.
3. *Look* at the unknown pages found. A page without a row yet gets one in state RELEASED, so that
   its own announcement fails and it starts again. The others are returned with the claim, to be
   judged: see :class:`~dedup_middleware.model.claims.Claimed`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.index.cluster.shards import Announced, ClusterShards
from dedup_middleware.index.cluster.spread import FIRST, FIRST_TABLES, REST
from dedup_middleware.index.cluster.visits import Visit
from dedup_middleware.index.redis.link import Call
from dedup_middleware.model.buckets import (
    FIRST_BAND_TABLE,
    KEY_TABLE,
    NO_NEIGHBOURS,
    NON_SIMHASH_TABLES,
    BucketKeys,
    Neighbours,
    most_met,
    united,
)
from dedup_middleware.model.claims import (
    NO_CANDIDATES,
    Candidates,
    Claim,
    Claimed,
    Known,
    Proposed,
    Seen,
)
from dedup_middleware.model.records import CONTENT, NO_PAGES, State, chosen, joined

MOST = 64  # maximum candidates whose records are returned
TURNS = 20  # maximum number of announcements of a page
_CHECKED = 256  # maximum known pages of a proposal whose records are read again
_NOTHING = np.empty(0, np.uint64)
_FIRST_BANDS = np.uint64(sum(1 << table for table in FIRST_TABLES if table >= FIRST_BAND_TABLE))
_KEY = np.uint64(1 << KEY_TABLE)
_TWINS = 16  # an exact copy is searched for only among fewer candidates than this
_NOT_COPIED = ("key", "host", "title")  # fields in which exact copies may differ


@attrs.define(eq=False)
class _Page:
    proposed: Proposed
    gone: NDArray[np.uint64] = _NOTHING  # ids of released candidates
    known: NDArray[np.uint64] = _NOTHING  # ids of known pages unchanged since they were judged
    own: list[int] = attrs.field(factory=list)  # ids under which the page was announced
    near: Neighbours = NO_NEIGHBOURS  # the unknown pages found
    wanted: Seen | None = None  # the page records that the client requested
    result: Claimed | Candidates | Exception | None = None

    def set_near(self, near: Neighbours | None) -> None:
        """Set ``near`` to the neighbours found in the buckets, without known and released pages."""
        # Corruption that an earlier announcement found, and repaired by its write, stays counted.
        corrupt = self.near.corrupt if self.own[:-1] else 0
        if near is None:
            self.near = attrs.evolve(NO_NEIGHBOURS, corrupt=corrupt)
            return
        ids, known = near.page_ids, self.proposed.known
        keep = ~np.isin(ids, self.gone) & ~np.isin(ids, self.known)
        keep &= ~np.isin(ids, np.array(self.own, np.uint64))
        if known.upto:
            keep &= ids > np.uint64(known.upto)
        self.near = attrs.evolve(near.chosen(keep), corrupt=max(corrupt, near.corrupt))


async def propose(
    index: ClusterShards, proposed: Sequence[Proposed]
) -> list[Claimed | Candidates | Exception]:
    """Propose pages of equal lease and distance; an exception concerns all of them."""
    pages = [_Page(one) for one in proposed]
    fresh = [page for page in pages if not page.proposed.known]
    if fresh:
        index.reserve_ahead(len(pages))
        await _read(index, fresh)
    for _ in range(TURNS):
        waiting = [page for page in pages if page.result is None]
        if not waiting:
            break
        await _announce(index, waiting)
    return [page.result or _unsettled(index) for page in pages]


def _unsettled(index: ClusterShards) -> IndexUnavailableError:
    return IndexUnavailableError(
        f"{index._where}: a page was announced {TURNS} times, and each time its id had been "
        "settled or a new generation had begun: the masters lose writes, or DEDUP_WINDOW = "
        f"{index.window:g} seconds is too short"
    )


async def _read(index: ClusterShards, pages: list[_Page]) -> None:
    """Read the buckets of pages; set the result of those with unknown candidates."""
    await _visit(index, pages, None, FIRST)
    met = [page for page in pages if len(page.near)]
    if not met:
        return
    # Most exact copies are decided by the first read alone.
    settling = [_may_be_settled(index, page) for page in met]
    rests = [_Page(page.proposed) for page in met]
    at_once = [rest for rest, may in zip(rests, settling, strict=True) if not may]
    seen, _ = await asyncio.gather(_look(index, met, settles=False), _rest(index, at_once))
    for page, may, found_there in zip(met, settling, seen, strict=True):
        page.result = _settled(index, page, found_there) if may else None
    left = [i for i, page in enumerate(met) if page.result is None]
    await _rest(index, [rests[i] for i in left if settling[i]])
    further = [i for i in left if _add_rest(met[i], rests[i].near)]
    looked = await _look(index, [met[i] for i in further], settles=False)
    seen_of = dict(enumerate(seen)) | dict(zip(further, looked, strict=True))
    for i in left:
        page, rest, records = met[i], rests[i].near, seen_of[i].records
        # A page without a row may be in the middle of its announcement: not treated as gone.
        page.gone = records.page_ids[records.states == State.RELEASED]
        is_cut = len(page.near) > len(records)
        if records.alive.any() or is_cut:
            index._report_scanned(rest.scanned)
            made = _candidates(page.near, seen_of[i], records.alive, more=is_cut)
            near = united(made.near, _without(rest, page.gone))
            corrupt, full = page.near.corrupt + rest.corrupt, page.near.full + rest.full
            page.result = attrs.evolve(made, near=attrs.evolve(near, corrupt=corrupt, full=full))


def _add_rest(page: _Page, rest: Neighbours) -> bool:
    """Add what the second read found outside the SimHash tables; return whether any is new."""
    bands = (rest.tables & np.uint64(NON_SIMHASH_TABLES)) != 0
    more = _without(rest, rest.page_ids[~bands])
    if np.isin(more.page_ids, page.near.page_ids).all():
        return False
    near = page.near
    page.near = attrs.evolve(united(near, more), corrupt=near.corrupt, full=near.full)
    return True


def _without(near: Neighbours, page_ids: NDArray[np.uint64]) -> Neighbours:
    return near.chosen(~np.isin(near.page_ids, page_ids))


async def _rest(index: ClusterShards, pages: list[_Page]) -> None:
    if pages:
        await _visit(index, pages, None, REST)


def _may_be_settled(index: ClusterShards, page: _Page) -> bool:
    """Whether a page is probably an exact copy, whose decision needs no other candidate."""
    near = page.near
    tables = np.bitwise_or.reduce(near.tables)
    bands = _own_tables(page) & _FIRST_BANDS
    return bool(
        page.proposed.entry.exact
        and index.layout.settles_exact
        and bands
        and not near.corrupt
        and not near.full
        and not tables & _KEY
        and len(near) < _TWINS
        and ((near.tables & bands) == bands).any()
    )


def _settled(index: ClusterShards, page: _Page, seen: Seen) -> Candidates | None:
    """The committed exact copy of a page as its only candidate; None if there is none, or if one
    on the same host has another title: the method must choose then."""
    records = seen.records
    own = np.frombuffer(page.proposed.entry.content, CONTENT)
    same = records.states == State.COMMITTED
    for name in index.record.fields:
        if name in _NOT_COPIED:
            continue
        equal = records.content[name] == own[name]
        same &= equal.reshape(len(records), -1).all(axis=1)
    retitled = records.content["title"] != own["title"]
    if not same.any() or (same & retitled & (records.content["host"] == own["host"])).any():
        return None
    first = np.arange(len(records)) == np.argmax(same)
    tables = np.array([_own_tables(page) & ~_KEY])
    near = attrs.evolve(page.near, page_ids=records.page_ids[first], tables=tables)
    return _candidates(near, seen, first, more=False)


def _own_tables(page: _Page) -> np.uint64:
    words = BucketKeys.of(page.proposed.bucket_keys).words
    mask: np.uint64 = np.bitwise_or.reduce(np.uint64(1) << (words[::2] >> np.uint64(16)))
    return mask


async def _announce(index: ClusterShards, pages: list[_Page]) -> None:
    """Announce pages and look up the unknown pages found; sets the results of announced pages."""
    reserved = await index.take_ids(len(pages))
    announced = []
    for page, one in zip(pages, reserved, strict=True):
        row, text = index.row_of(page.proposed.entry)
        announced.append(Announced(one, secrets.randbits(64), row, text))
        page.own.append(one.page_id)
    try:
        made = await _visit(index, pages, announced)
        index._report_scanned(sum(page.near.scanned for page in pages))
        seen = await _look(index, pages, settles=True)
    except BaseException:
        # No caller knows these claims, which would block similar pages until their leases end.
        index.give_up([one.claim for one in announced])
        raise
    withdrawn = []
    for page, new, is_made, one_seen in zip(pages, announced, made, seen, strict=True):
        if is_made is not True:  # settled by another page, or a new generation: announce again
            index.drop_ids()
            continue
        page.result = _claimed(page, new.claim, one_seen)
        if isinstance(page.result, Candidates):
            withdrawn.append(new.claim)
    if withdrawn:
        await index.withdraw(withdrawn)


def _claimed(page: _Page, claim: Claim, seen: Seen) -> Claimed | Candidates:
    """The result of an announced page: its claim with candidates, or candidates that block it.

    A committed page blocks. A pending one with a smaller id blocks only if ``known`` is empty:
    otherwise the pages of a template would withdraw for each other again and again.
    """
    records, near, candidates = seen.records, page.near, NO_CANDIDATES
    is_cut = len(near) > len(records)
    alive = chosen(records, records.alive)
    tables = near.tables[np.searchsorted(near.page_ids, alive.page_ids)]
    blocking = (tables & np.uint64(NON_SIMHASH_TABLES)) != 0
    earlier = alive.page_ids < np.uint64(claim.page_id)
    stored = alive.states == State.COMMITTED
    if (blocking & (stored | (earlier & (not page.proposed.known)))).any() or is_cut:
        return _candidates(near, seen, records.alive, more=is_cut)
    if len(alive) or near.corrupt or near.full:
        candidates = _candidates(near, seen, records.alive, more=False)
    if page.wanted is not None:
        candidates = _with_wanted(candidates, page.wanted)
    return Claimed(claim, candidates, is_mutual=True)


async def _visit(
    index: ClusterShards,
    pages: list[_Page],
    announced: list[Announced] | None,
    group: int | None = None,
) -> list[bool | int]:
    """Read the buckets of pages in one exchange, and announce the pages if ``announced`` is given.

    :param group: the group of tables to read; None: all
    :returns: see :meth:`.ClusterShards.created`; empty if nothing was announced
    """
    distance = pages[0].proposed.distance
    moment = index.moment()
    generations = list(moment.live)
    newest = moment.generation
    if announced is not None and index.window:
        newest = announced[0].reserved.generation
        # Read the next generation as well: a concurrent announcement may be in it already.
        generations = [*index._window.of_generation(newest).live, newest + 1]
    written = [len(page.proposed.entry.bucket_keys) if announced else 0 for page in pages]
    ids = [one.reserved.page_id for one in announced] if announced else [0] * len(pages)
    keys = [page.proposed.bucket_keys for page in pages]
    made = Visit(index, keys, written, ids, generations, newest, group=group)
    parts: list[list[int]] = []
    creating: list[Call] = []
    checked: list[tuple[_Page, Known]] = []
    if announced is not None:
        parts, creating = index.creating(announced, pages[0].proposed.lease)
        checked = [(page, page.proposed.known) for page in pages if page.proposed.known]
    lookups = [
        index.look(np.concatenate((known.pages.page_ids[:_CHECKED], known.wanted)))
        for _, known in checked
    ]
    replies, looked = await index.together([*made.calls, *creating], lookups)
    _check_known(checked, looked)
    every = made.found(replies[: len(made.calls)], distance)
    for page, near in zip(pages, every, strict=True):
        page.set_near(near)
    if announced is None:
        index.reads_whole &= made.are_short(replies)
        return []
    return index.created(len(pages), parts, replies[len(made.calls) :])


def _check_known(checked: Sequence[tuple[_Page, Known]], looked: Sequence[Seen]) -> None:
    """Set ``known`` of each page to the known pages that have not changed, and ``wanted``."""
    for (page, known), seen in zip(checked, looked, strict=True):
        count = min(len(known.pages), _CHECKED)
        first = np.arange(len(known.pages)) < count
        judged = attrs.evolve(known, pages=chosen(known.pages, first))
        now = chosen(seen.records, np.arange(len(seen.records)) < count)
        page.known = np.concatenate((judged.still(now), known.pages.page_ids[count:]))
        if len(known.wanted):
            page.wanted = seen.chosen(range(count, len(seen.records)))


async def _look(index: ClusterShards, pages: list[_Page], *, settles: bool) -> list[Seen]:
    """Records and texts of at most MOST neighbours of each page: those found in most tables."""
    best = [most_met(page.near, MOST).page_ids for page in pages]
    wanted = np.unique(np.concatenate([_NOTHING, *best]))
    seen = await index.look(wanted, settles=settles) if len(wanted) else Seen(NO_PAGES, [], [])
    return [seen.chosen(np.searchsorted(wanted, page_ids).tolist()) for page_ids in best]


def _candidates(
    near: Neighbours, seen: Seen, wanted: NDArray[np.bool_], *, more: bool
) -> Candidates:
    """The ``wanted`` pages as candidates; with ``more``, ``near`` keeps all neighbours."""
    seen = seen.chosen(np.flatnonzero(wanted).tolist())
    if not more:
        near = near.chosen(np.isin(near.page_ids, seen.records.page_ids))
    return Candidates(near, seen.records, *seen.texts(), more=more)


def _with_wanted(candidates: Candidates, wanted: Seen) -> Candidates:
    """Add the pages whose records the client requested, without tables, to the candidates."""
    new = chosen(wanted.records, ~np.isin(wanted.records.page_ids, candidates.near.page_ids))
    met = united(candidates.near, Neighbours(new.page_ids, np.zeros(len(new), np.uint64)))
    records = joined([candidates.pages, new])
    addresses, payloads = wanted.texts()
    return attrs.evolve(
        candidates,
        near=attrs.evolve(candidates.near, page_ids=met.page_ids, tables=met.tables),
        pages=chosen(records, np.argsort(records.page_ids)),
        addresses={**addresses, **candidates.addresses},
        payloads={**payloads, **candidates.payloads},
    )
