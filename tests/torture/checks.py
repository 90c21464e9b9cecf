"""What must hold at the end of a run, whatever was done to it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto
from pathlib import Path

import attrs
import numpy as np

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.verification import Verification, verify
from dedup_middleware.model.records import State
from tests.torture.articles import VARIANTS, address, number_of
from tests.torture.ledger import DROPPED, FAILED, KEPT_OUT, STORED, Record, records

_NAMED = 5  # of each kind of fault


class BrokenPromiseError(AssertionError):
    """What must hold does not; the message names the pages."""


@attrs.frozen(kw_only=True)
class Lives:
    """Processes by what was done to them: all, and the numbers of some.

    ``late``: pages whose lease was over when their process came to it, as it noted: the number of
    the process and the address.
    """

    started: int = 0
    killed: frozenset[int] = frozenset()
    stopped: frozenset[int] = frozenset()
    late: frozenset[tuple[int, str]] = frozenset()


@attrs.frozen(kw_only=True)
class Held:
    """What an index holds at the end.

    ``committed``: the addresses of each article; ``pending``: leases left after their time.
    """

    committed: Mapping[int, list[str]]
    pending: int
    verification: Verification


@attrs.frozen(kw_only=True)
class Figures:
    """What happened in a run.

    ``at_work``: processes that were killed after their first page; ``between``: pages that such a
    process had stored and not committed; ``twice``: pages stored although a like one was, the
    former included; ``late``: of those, said by a process whose lease was over; ``failed``: errors
    of the storage; ``lost``: articles of which nothing is stored.
    """

    articles: int
    pages: int
    stored: int
    dropped: int
    failed: int
    at_work: int
    between: int
    twice: int
    late: int
    lost: int


async def held_by(url: str) -> Held:
    """Read the whole index, and verify it."""
    options = Options(index_url=url, timeout=60, retries=10)
    async with open_index(options) as index:
        await index.attach()
        return Held(
            committed=await _committed(index),
            pending=(await index.stats()).pending,
            verification=await verify(index),
        )


async def _committed(index: Index) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    async for pages in index.pages():
        numbers = pages.page_ids[pages.states == State.COMMITTED]
        for url in await index.addresses(np.asarray(numbers).tolist()):
            if url:
                found[number_of(url)].append(url)
    return dict(found)


class Names(Enum):
    """What the name in a drop is worth.

    SURE: the page of that name was stored before. MAYBE_GONE: so it is, or there is no name, since
    the index lost it between two questions. MAYBE_DAMAGED: it may be anything. In any case a page
    of the same article was stored before.
    """

    SURE = auto()
    MAYBE_GONE = auto()
    MAYBE_DAMAGED = auto()


def check_pages(ledger: Path, articles: Collection[int], names: Names) -> Counter[str]:
    """Every page has come to an end, nothing is lost, and whatever was dropped is stored.

    :param articles: those of which all pages are through
    :returns: how many records of each kind there are, and how many articles are ``lost``
    :raises BrokenPromiseError: it is not so
    """
    counts: Counter[str] = Counter()
    stored_at: dict[str, int] = {}
    on_disk: set[int] = set()
    ended: set[str] = set()
    failed: set[str] = set()
    wrong: list[str] = []
    for record in records(ledger):
        counts[record.what] += 1
        ended.add(record.url)
        if record.what == STORED:
            stored_at.setdefault(record.url, record.place)
            on_disk.add(number_of(record.url))
        elif record.what == DROPPED:
            excused = names == Names.MAYBE_DAMAGED or (
                names == Names.MAYBE_GONE and not record.more
            )
            if not excused or number_of(record.url) not in on_disk:
                wrong += _faults_of_drop(record, stored_at)
        elif record.what == FAILED:
            failed.add(record.url)
        elif record.what == KEPT_OUT:
            wrong.append(f"{record.url} was kept out: {record.more}")
    _refuse("pages dropped for what was not stored", wrong)
    every = {n: [address(n, variant) for variant in range(VARIANTS)] for n in articles}
    without = [url for urls in every.values() for url in urls if url not in ended]
    _refuse("pages of which nothing is known", without)
    # An article is rightly missing only if the storage has failed at each of its pages.
    lost = [
        str(n)
        for n, urls in every.items()
        if not any(url in stored_at for url in urls) and not all(url in failed for url in urls)
    ]
    counts["lost"] = len(lost)
    _refuse("articles that were never stored", lost)
    return counts


def _faults_of_drop(record: Record, stored_at: Mapping[str, int]) -> list[str]:
    if record.more not in stored_at:
        return [f"{record.url} for {record.more or 'a page without a name'}"]
    if number_of(record.more) != number_of(record.url):
        return [f"{record.url} for {record.more}, which is another article"]
    return []


def check_index(ledger: Path, held: Held) -> None:
    """The index calls stored what is stored, and no lease is left.

    :raises BrokenPromiseError: it is not so
    """
    on_disk = {record.url for record in records(ledger) if record.what == STORED}
    named = {url for urls in held.committed.values() for url in urls}
    _refuse("pages that the index calls stored and are not", named - on_disk)
    _refuse("leases left", [str(held.pending)] if held.pending else [])


def check_sound(held: Held) -> None:
    """The index fits together.

    :raises BrokenPromiseError: it does not
    """
    if not held.verification.is_sound:
        raise BrokenPromiseError(f"the index does not fit together: {held.verification}")


def check_once(ledger: Path, held: Held, lives: Lives, admitted: Collection[str]) -> None:
    """Each article is stored once, as it is with an index that loses nothing and is always there.

    Not counted are pages of processes that were killed or stopped, of a storage that failed behind
    the write, and pages that a process reports as stored twice because its lease was over. A page
    of which its process wrote down that it came too late to the lease may be stored in addition to
    another one of its article, which is in the index.

    :param admitted: the latter
    :raises BrokenPromiseError: it is not so
    """
    every = list(records(ledger))
    failed = {(record.process, record.url) for record in every if record.what == FAILED}
    excused = lives.killed | lives.stopped
    alive = [
        record
        for record in every
        if record.what == STORED
        and record.process not in excused
        and record.url not in admitted
        and (record.process, record.url) not in failed
    ]
    several = [f"{urls}" for urls in held.committed.values() if len(urls) > 1]
    _refuse("articles committed twice", several)
    missing = {number_of(record.url) for record in alive} - set(held.committed)
    _refuse("articles stored and not in the index", map(str, missing))
    in_time = [record for record in alive if (record.process, record.url) not in lives.late]
    counts = Counter(number_of(record.url) for record in in_time)
    twice = [f"article {n}" for n, count in counts.items() if count > 1]
    _refuse("articles stored twice by processes that lived on", twice)
    named = {url for urls in held.committed.values() for url in urls}
    orphans = [record.url for record in in_time if record.url not in named]
    _refuse("pages stored by processes that lived on, and not in the index", orphans)


def extras(ledger: Path, lives: Lives) -> tuple[int, int]:
    """Pages that were stored although one of their article was, or is.

    :returns: pages that a killed process had stored and not committed, and all
    """
    last: dict[int, Record] = {}
    every: list[Record] = []
    for record in records(ledger):
        if record.what == STORED:
            last[number_of(record.url)] = record
            every.append(record)
    extra = [record for record in every if last[number_of(record.url)] is not record]
    return sum(record.process in lives.killed for record in extra), len(extra)


def at_work(ledger: Path, lives: Lives) -> int:
    """How many processes were killed after their first page."""
    return len(lives.killed & {record.process for record in records(ledger)})


def _refuse(what: str, those: Iterable[str]) -> None:
    listed = sorted(those)
    if listed:
        raise BrokenPromiseError(f"{len(listed)} {what}: {'; '.join(listed[:_NAMED])}")
