"""What the log of a run is checked for is really found in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from tests.index.harness import Clock
from tests.texts import article
from tests.torture import checks
from tests.torture.articles import VARIANTS, address
from tests.torture.leases import Watched
from tests.torture.ledger import DROPPED, FAILED, KEPT_OUT, STORED, Ledger, records
from tests.torture.task import Progress, Task, block_pages


def good(ledger: Ledger) -> None:
    """Article 0 is stored, all its other variants are dropped for that."""
    ledger.write(STORED, address(0, 0))
    for variant in range(1, VARIANTS):
        ledger.write(DROPPED, address(0, variant), address(0, 0))


def test_in_order(tmp_path: Path) -> None:
    """A run as it should be passes."""
    good(Ledger(tmp_path / "ledger", 1))
    counts = checks.check_pages(tmp_path / "ledger", [0], checks.Names.SURE)
    assert counts == {STORED: 1, DROPPED: VARIANTS - 1, "lost": 0}


def too_early(ledger: Ledger) -> None:
    """A page is dropped, and then the other one is stored."""
    ledger.write(DROPPED, address(0, 1), address(0, 0))
    good(ledger)


def another_article(ledger: Ledger) -> None:
    """A page is dropped for a stored one that says something else."""
    good(ledger)
    ledger.write(STORED, address(1, 0))
    ledger.write(DROPPED, address(0, 2), address(1, 0))


def nameless(ledger: Ledger) -> None:
    """A drop names no page."""
    good(ledger)
    ledger.write(DROPPED, address(0, 1))


def kept_out(ledger: Ledger) -> None:
    """A page is dropped, and for no other one."""
    good(ledger)
    ledger.write(KEPT_OUT, address(0, 1), "an error")


def forgotten(ledger: Ledger) -> None:
    """Of one page nothing is known."""
    ledger.write(STORED, address(0, 0))
    for variant in range(1, VARIANTS - 1):
        ledger.write(DROPPED, address(0, variant), address(0, 0))


def never_stored(ledger: Ledger) -> None:
    """The storage failed at some pages, and the others were dropped for the first of these."""
    ledger.write(FAILED, address(0, 0), "before")
    for variant in range(1, VARIANTS):
        ledger.write(DROPPED, address(0, variant), address(0, 0))


@pytest.mark.parametrize(
    "fault", [too_early, another_article, nameless, kept_out, forgotten, never_stored]
)
def test_faults(fault: Callable[[Ledger], None], tmp_path: Path) -> None:
    """Each breaks the promise."""
    fault(Ledger(tmp_path / "ledger", 1))
    with pytest.raises(checks.BrokenPromiseError):
        checks.check_pages(tmp_path / "ledger", [0], checks.Names.SURE)


def test_storage_that_failed_at_every_page_has_lost_nothing_of_ours(tmp_path: Path) -> None:
    """Each page was let through to the storage, which stored none."""
    ledger = Ledger(tmp_path / "ledger", 1)
    for variant in range(VARIANTS):
        ledger.write(FAILED, address(0, variant), "before")
    assert checks.check_pages(tmp_path / "ledger", [0], checks.Names.SURE)["lost"] == 0


def held(*committed: str) -> checks.Held:
    """An index that calls these pages of article 0 stored."""
    return checks.Held(committed={0: list(committed)}, pending=0, verification=None)  # type: ignore[arg-type]


def test_index_that_calls_stored_what_is_not(tmp_path: Path) -> None:
    """It is found by the storage's own log."""
    good(Ledger(tmp_path / "ledger", 1))
    checks.check_index(tmp_path / "ledger", held(address(0, 0)))
    with pytest.raises(checks.BrokenPromiseError, match="calls stored"):
        checks.check_index(tmp_path / "ledger", held(address(0, 0), address(0, 1)))


def test_stored_twice(tmp_path: Path) -> None:
    """By a process that lived on it is a fault, unless that says so; by a killed one it is none."""
    path = tmp_path / "ledger"
    Ledger(path, 1).write(STORED, address(0, 0))
    Ledger(path, 2).write(STORED, address(0, 1))
    index, killed = held(address(0, 1)), checks.Lives(killed=frozenset({1}))
    checks.check_once(path, index, killed, [])
    checks.check_once(path, index, checks.Lives(), [address(0, 0)])
    with pytest.raises(checks.BrokenPromiseError, match="stored twice"):
        checks.check_once(path, index, checks.Lives(), [])
    assert checks.extras(path, killed) == (1, 1)


def test_stored_twice_by_a_process_that_came_late(tmp_path: Path) -> None:
    """It is excused by what the process wrote down of its lease, and by nothing else; a page that
    no other one of its article stands for in the index is missing all the same."""
    path = tmp_path / "ledger"
    Ledger(path, 1).write(STORED, address(0, 0))
    Ledger(path, 2).write(STORED, address(0, 1))
    index, late = held(address(0, 1)), checks.Lives(late=frozenset({(1, address(0, 0))}))
    checks.check_once(path, index, late, [])
    for other in ((1, address(3, 0)), (2, address(0, 0))):  # another page, or another process
        with pytest.raises(checks.BrokenPromiseError, match="stored twice"):
            checks.check_once(path, index, checks.Lives(late=frozenset({other})), [])
    with pytest.raises(checks.BrokenPromiseError, match="not in the index"):
        checks.check_once(path, held(), late, [])


async def test_a_late_process_writes_it_down(tmp_path: Path) -> None:
    """One that stood still for longer than its lease says so when it can't renew or commit; one
    that comes in time, or late to a lease that it has still, says nothing."""
    file, clock, server = tmp_path / "late", Clock(), Clock()
    index = Watched(MemoryIndex(clock=server), 60.0, file, clock)
    async with Deduplicator(Options(index_url="memory:"), index=cast("Index", index)) as dedup:
        claims = []
        for number in range(3):
            verdict = await dedup.decide(Document(f"https://a/{number}", text=article(number)))
            assert verdict.claim is not None
            claims.append(verdict.claim)
        clock.now += 61.0
        assert await index.renew(claims[:2], 60.0) == [True, True]
        assert await index.commit(claims[2])
        assert not file.exists()
        clock.now += 61.0
        server.now += 61.0
        assert await index.renew(claims[:1], 60.0) == [False]
        assert not await index.commit(claims[1])
    assert file.read_text().splitlines() == [
        "https://a/0 renew 61.000",
        "https://a/1 commit 61.000",
    ]


def test_record_without_its_end_is_none(tmp_path: Path) -> None:
    """A process may be killed while it writes; what comes behind is read all the same."""
    path = tmp_path / "ledger"
    Ledger(path, 1).write(STORED, "https://a/1")
    with path.open("ab") as file:
        file.write(b"\nstored\t1\thttps://a/")
    Ledger(path, 2).write(STORED, "https://a/3")
    assert [record.url for record in records(path)] == ["https://a/1", "https://a/3"]


def test_progress_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another process of the slot gets the pages that were not through, then the next block."""
    (tmp_path / "limit").write_text("1")
    task = Task(folder=str(tmp_path), slot=1, slots=2, process=1, url="memory:", articles=2)
    first = [page for block in (0, 1) for page in block_pages(block, 2, 1, 2, task.seed)]
    progress = Progress(task)
    pages = iter(progress.pages())
    done = [next(pages) for _ in range(3)]
    for page in done:
        progress.through(address(*page))
    assert os.path.exists(task.first_page)  # noqa: PTH110
    assert list(Progress(task).pages()) == first[3:]
