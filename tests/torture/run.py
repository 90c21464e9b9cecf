"""Starts spiders, kills them at random moments, starts them again, and counts what was stored."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.records import State
from tests.forks import Forked
from tests.torture.articles import number_of, shares
from tests.torture.spider import BATCH, RESPONSE

ROOT = Path(__file__).parent.parent.parent


@attrs.frozen(kw_only=True)
class Plan:
    """What to do: numbers of articles, of processes and of kills, and how long it may take.

    ``batches`` are under way in a process at once, for a ``lease`` of so many seconds.
    """

    articles: int
    processes: int
    kills: int
    batches: int = 2
    lease: float = 6.0
    seed: int = 1
    seconds: float = 3600.0


@attrs.frozen(kw_only=True)
class Outcome:
    """What was found at the end.

    ``stored`` and ``committed`` give the addresses of each article, ``pending`` the leases that
    were left after the lease time, ``interrupted`` how many pages may have been between storage
    and commit when something was killed, ``twice`` how many a process that lived on has stored
    although a like one was.
    """

    stored: dict[int, list[str]]
    committed: dict[int, list[str]]
    pending: int
    kills: int
    interrupted: int
    twice: int
    seconds: float
    note: str = ""

    def with_note(self, note: str) -> Outcome:
        """The same, and what else was done."""
        return attrs.evolve(self, note=note)

    @property
    def doubles(self) -> list[str]:
        """Stored pages that are no committed ones: their process died between the two."""
        known = {url for urls in self.committed.values() for url in urls}
        return [url for urls in self.stored.values() for url in urls if url not in known]

    def check(self, articles: int, *, lost: int = 0) -> None:
        """Each article stored, once but for the pages that were interrupted.

        :param lost: pages that the index itself may have lost (a server without its last second)
        """
        missing = set(range(articles)) - set(self.stored)
        assert not missing, f"articles that were never stored: {sorted(missing)[:20]}"
        twice = {n: urls for n, urls in self.committed.items() if len(urls) > 1}
        assert not twice, f"committed more than once: {dict(list(twice.items())[:5])}"
        unknown = {n: self.stored[n] for n in set(range(articles)) - set(self.committed)}
        assert not unknown, f"stored, but not in the index: {dict(list(unknown.items())[:5])}"
        assert self.twice <= lost, f"{self.twice} stored twice by processes that lived on"
        assert len(self.doubles) <= self.interrupted + lost
        assert self.pending == 0

    def __str__(self) -> str:
        stored = sum(map(len, self.stored.values()))
        return (
            f"{len(self.stored)} articles, {stored} pages stored, {self.kills} kills, "
            f"{len(self.doubles)} stored by a process that died before its commit "
            f"(at most {self.interrupted} were under way), {self.twice} by one that lived on, "
            f"{self.pending} leases left, "
            f"{self.seconds:.0f} s" + (f"; {self.note}" if self.note else "")
        )


class Torture:
    """The spiders of one run; ``url`` may change in the middle if the server moves.

    :param folder: where they keep their databases and logs
    :param settings: further ones of all spiders, as ``NAME=VALUE``
    """

    def __init__(self, plan: Plan, folder: Path, url: str, *, settings: Sequence[str] = ()) -> None:
        self.plan = plan
        self.settings = settings
        self.folder = folder
        self.url = url
        self._processes: list[Forked] = []

    def start(self, process: int, *settings: str) -> Forked:
        """Start a spider, or start it again.

        :param settings: further ones, as ``NAME=VALUE``
        """
        plan = self.plan
        words = [self.folder, process, plan.processes, plan.articles, plan.seed, self.url]
        words += [
            f"DEDUP_LEASE={plan.lease}",
            # Two more requests while all but two batches are at work, so never more than these.
            "CONCURRENT_REQUESTS=2",
            f"SCRAPER_SLOT_MAX_ACTIVE_SIZE={(plan.batches - 2) * RESPONSE + 1}",
            *self.settings,
        ]
        errors = self.folder / f"errors-{process}"
        return Forked(
            ["-m", "tests.torture.spider", *map(str, words), *settings],
            cwd=ROOT,
            env=os.environ,
            stdout=errors,
            stderr=errors,
        )

    def done(self) -> int:
        """Pages that are through."""
        files = [self.folder / f"done-{process}" for process in range(self.plan.processes)]
        return sum(file.read_bytes().count(b"\n") for file in files if file.exists())

    def run(
        self,
        halfway: Callable[[], None] = lambda: None,
        calm: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Until every spider has come to its end.

        :param halfway: called once, when half of the kills are done
        :param calm: called once, when all spiders are through
        """
        plan, started = self.plan, time.monotonic()
        rng = random.Random(plan.seed)
        pages = sum(map(len, shares(plan.articles, plan.processes, plan.seed)))
        # A kill follows progress, at an uneven pace, so that it hits spiders at their work.
        moments = sorted(rng.uniform(0.02, 0.9) * pages for _ in range(plan.kills))
        self._processes = [self.start(process) for process in range(plan.processes)]
        try:
            for kill, moment in enumerate(moments):
                self._await(moment, started)
                time.sleep(rng.random() * 0.05)
                if kill == plan.kills // 2:
                    halfway()
                alive = [p for p in range(plan.processes) if self._processes[p].poll() is None]
                victim = rng.choice(alive or [0])
                self._processes[victim].kill()
                self._processes[victim].wait()
                self._processes[victim] = self.start(victim)
            for process in self._processes:
                code = process.wait(max(1.0, started + plan.seconds - time.monotonic()))
                assert code == 0, self._logs()
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
        assert self.done() >= pages, self._logs()
        calm()
        time.sleep(plan.lease)
        return asyncio.run(self._outcome(time.monotonic() - started))

    def _await(self, pages: float, started: float) -> None:
        while self.done() < pages:
            assert time.monotonic() - started < self.plan.seconds, self._logs()
            # All may have ended before their pages are done if none was left to kill.
            assert any(process.poll() is None for process in self._processes), self._logs()
            time.sleep(0.02)

    def _logs(self) -> str:
        files = [*self.folder.glob("errors-*"), *self.folder.glob("log-*")]
        return "\n".join(file.read_text(errors="replace")[-1500:] for file in files)

    async def _outcome(self, seconds: float) -> Outcome:
        stored: dict[int, list[str]] = {}
        for process in range(self.plan.processes):
            for url in _rows(self.folder / f"stored-{process}.db"):
                stored.setdefault(number_of(url), []).append(url)
        committed: dict[int, list[str]] = {}
        async with open_index(Options(index_url=self.url, timeout=30)) as index:
            await index.attach()
            async for pages in index.pages():
                found = pages.page_ids[pages.states == State.COMMITTED].tolist()
                for url in await index.addresses(found):
                    assert url is not None
                    committed.setdefault(number_of(url), []).append(url)
            pending = (await index.stats()).pending
        return Outcome(
            stored=stored,
            committed=committed,
            pending=pending,
            kills=self.plan.kills,
            interrupted=self.plan.kills * BATCH * self.plan.batches,
            twice=sum(
                file.read_text(errors="replace").count(" was stored although it is ")
                for file in self.folder.glob("log-*")
            ),
            seconds=seconds,
        )


def _rows(path: Path) -> list[str]:
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as database:
        counts = Counter(url for (url,) in database.execute("SELECT url FROM articles"))
    return list(counts)
