"""Keeps processes running, kills and stops them at random moments, and lets the rest finish."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path

import attrs

from tests.torture import checks
from tests.torture.start import SCRAPY, Forked, Fresh, Life, fork_context
from tests.torture.task import NO_FAULTS, Faults, Task, block_of, late_of, ledger_of

_ADMITTED = re.compile(r"(\S+) was stored although it is ")
TURN = 0.004  # seconds between two looks at the processes
_REPORTED = 5.0  # seconds between two messages
_PAUSE = 0.2  # seconds before a process that has ended is followed by another
_LONGEST = 30.0  # seconds that a process may take to its first page before it is killed
_BATCH_OF_CRAWL = 4  # times as many pages as CONCURRENT_ITEMS may be between storage and commit


@attrs.frozen(kw_only=True)
class Effort:
    """How much is done in a run.

    :param kind: WORKERS, which use the public API, or SCRAPY
    :param kills: processes that are killed
    :param fresh: of those, started as a user starts them and not forked
    :param stops: processes that stand still for longer than their lease
    :param slots: processes at once
    :param life: seconds until a process is killed, the least and the most: for half of them from
        their start, for the others from their first page
    :param rest: seconds that a run may take after the last kill
    """

    kind: str
    kills: int
    fresh: int = 0
    stops: int = 0
    slots: int = 4
    articles: int = 40
    under_way: int = 6
    lease: float = 1.0
    timeout: float = 5.0
    pending_wait: float = 90.0
    retries: int = 30
    life: tuple[float, float] = (0.02, 0.4)
    faults: Faults = NO_FAULTS
    seed: int = 1
    rest: float = 600.0


class Promise(Enum):
    """What must hold at the end; nothing is ever lost.

    STORED_ONCE: an index that loses nothing and can always be reached; no article is stored twice
    but by processes that were killed or stopped. SOUND_INDEX: the index may have lost something, or
    could not be reached; it is whole, and calls nothing stored that is not. TRUE_INDEX: it need not
    be whole, since the server may have carried out half a script. NOTHING_LOST: the index itself
    was damaged.
    """

    STORED_ONCE = auto()
    SOUND_INDEX = auto()
    TRUE_INDEX = auto()
    NOTHING_LOST = auto()


_NAMES = {
    Promise.STORED_ONCE: checks.Names.SURE,
    Promise.SOUND_INDEX: checks.Names.MAYBE_GONE,
    Promise.TRUE_INDEX: checks.Names.MAYBE_GONE,
    Promise.NOTHING_LOST: checks.Names.MAYBE_DAMAGED,
}


@attrs.frozen(kw_only=True)
class Attack:
    """Something that is done to the index while processes work.

    :param strike: does it; called with the dice of the run
    :param every: seconds between two strikes, on the average
    :param times: strikes at most
    """

    strike: Callable[[random.Random], None]
    every: float
    times: int


@attrs.frozen(kw_only=True)
class Outcome:
    """What was done and what came of it."""

    scenario: str
    kills: int
    fresh: int
    stops: int
    strikes: int
    seed: int
    seconds: float
    figures: checks.Figures
    done: Mapping[str, int] = attrs.field(factory=dict)


Tell = Callable[[str], None]


@attrs.define
class Span:
    """How long a process is left alone.

    :param till: when it is killed
    :param first_page: a file that is there from its first page on; then ``seconds`` count
    """

    life: Life
    till: float
    first_page: Path | None
    seconds: float

    def is_over(self, now: float) -> bool:
        """Whether its time has come, or it has come to its end by itself."""
        if self.life.exit_code() is not None:
            self.till = min(self.till, now + _PAUSE)
            self.first_page = None
        if self.first_page is not None and self.first_page.exists():
            self.first_page.unlink()
            self.first_page, self.till = None, now + self.seconds
        return now >= self.till


@attrs.define
class _Due:
    """How often an attack is still to be made, and when next."""

    attack: Attack
    left: int
    at: float


class Driver:
    """One run.

    :param folder: empty; ledger, progress and logs go there
    :param url: of the index
    :param attacks: what else is done meanwhile
    :param tell: called now and then with how far the run is
    """

    def __init__(
        self,
        effort: Effort,
        folder: Path,
        url: str,
        *,
        attacks: Sequence[Attack] = (),
        tell: Tell = lambda _line: None,
    ) -> None:
        self.effort = effort
        self.folder = folder
        self.url = url
        self._attacks = attacks
        self._tell = tell
        self._rng = random.Random(effort.seed)
        self._context = fork_context()
        self._started = 0
        self._fresh_left = effort.fresh
        self._lives: list[Life] = []
        self._killed: list[Life] = []
        self._fresh_killed = 0
        self._stops = 0
        self._strikes = 0

    def run(
        self, scenario: str, promise: Promise, *, calm: Callable[[], None] = lambda: None
    ) -> Outcome:
        """Kill as many processes as asked for, let the others come to their end, and check.

        :param calm: called once after the last kill: from now on nothing is in the way
        :raises BrokenPromiseError: something was lost
        """
        began = time.monotonic()
        alive: dict[int, Span] = {}
        try:
            self._disturb(alive)
            calm()
            self._finish(alive)
        finally:
            for span in alive.values():
                span.life.kill()
        seconds = time.monotonic() - began
        time.sleep(self.effort.lease + 0.1)
        figures = self._check(promise)
        return Outcome(
            scenario=scenario,
            kills=len(self._killed),
            fresh=self._fresh_killed,
            stops=self._stops,
            strikes=self._strikes,
            seed=self.effort.seed,
            seconds=round(seconds, 1),
            figures=figures,
        )

    def _disturb(self, alive: dict[int, Span]) -> None:
        """Until all kills, stops and strikes are done."""
        sleeping: list[tuple[float, Life]] = []
        due = [_Due(attack, attack.times, self._soon(attack)) for attack in self._attacks]
        reported = time.monotonic()
        while (
            len(self._killed) < self.effort.kills
            or self._stops < self.effort.stops
            or any(one.left for one in due)
        ):
            now = time.monotonic()
            for slot in range(self.effort.slots):
                if slot not in alive:
                    alive[slot] = self._start(slot)
                elif alive[slot].is_over(now):
                    self._end(slot, alive, sleeping)
            for end, life in [one for one in sleeping if now >= one[0]]:
                sleeping.remove((end, life))
                life.go_on()
            for one in due:
                if one.left and now >= one.at:
                    one.attack.strike(self._rng)
                    self._strikes += 1
                    one.left -= 1
                    one.at = self._soon(one.attack)
            if now - reported > _REPORTED:
                reported = now
                self._tell(f"{len(self._killed)} of {self.effort.kills} kills")
            time.sleep(TURN)
        for _, life in sleeping:
            life.go_on()

    def _soon(self, attack: Attack) -> float:
        return time.monotonic() + self._rng.expovariate(1 / attack.every)

    def _end(self, slot: int, alive: dict[int, Span], sleeping: list[tuple[float, Life]]) -> None:
        """Stop a process, or kill it."""
        span, rng = alive[slot], self._rng
        life = span.life
        if self._stops < self.effort.stops and not life.stopped and rng.random() < 0.5:
            self._stop(life, sleeping)
            span.till = sleeping[-1][0] + rng.uniform(*self.effort.life)
            return
        del alive[slot]
        if life.kill():
            self._killed.append(life)
            self._fresh_killed += isinstance(life, Fresh)
        else:
            self._ended(life)

    def _stop(self, life: Life, sleeping: list[tuple[float, Life]]) -> None:
        if life.exit_code() is None:
            life.stop()
            self._stops += 1
        lease = self.effort.lease
        sleeping.append((time.monotonic() + self._rng.uniform(1.1, 3.0) * lease, life))

    def _ended(self, life: Life) -> None:
        code = life.exit_code()
        if code:
            raise checks.BrokenPromiseError(f"a process ended with {code}: {self.logs()}")

    def _start(self, slot: int) -> Span:
        effort, rng = self.effort, self._rng
        self._started += 1
        task = Task(
            folder=str(self.folder),
            slot=slot,
            slots=effort.slots,
            process=self._started,
            url=self.url,
            articles=effort.articles,
            seed=effort.seed,
            under_way=effort.under_way,
            lease=effort.lease,
            timeout=effort.timeout,
            pending_wait=effort.pending_wait,
            retries=effort.retries,
            faults=effort.faults,
        )
        left = max(1, effort.kills - len(self._killed))
        life: Life
        if effort.kind == SCRAPY and rng.random() < self._fresh_left / left:
            self._fresh_left -= 1
            life = Fresh(task)
        else:
            life = Forked(self._context, effort.kind, task)
        self._lives.append(life)
        seconds = rng.uniform(*effort.life)
        if isinstance(life, Forked) and rng.random() < 0.5:
            return Span(life, time.monotonic() + seconds, None, 0.0)
        return Span(life, time.monotonic() + _LONGEST, task.first_page, seconds)

    def _finish(self, alive: dict[int, Span]) -> None:
        """Let every slot come to the end of the last block that was begun."""
        slots = range(self.effort.slots)
        last = max(block_of(self.folder, slot) for slot in slots) + 1
        (self.folder / "limit").write_text(str(last))
        deadline = time.monotonic() + self.effort.rest
        reported = time.monotonic()
        while any(block_of(self.folder, slot) <= last for slot in slots) or alive:
            if time.monotonic() > deadline:
                for span in alive.values():
                    span.life.show_where()
                time.sleep(1)
                raise checks.BrokenPromiseError(f"processes come to no end: {self.logs()}")
            for slot in slots:
                if slot in alive and alive[slot].life.exit_code() is not None:
                    self._ended(alive.pop(slot).life)
                if slot not in alive and block_of(self.folder, slot) <= last:
                    alive[slot] = self._start(slot)
            if time.monotonic() - reported > _REPORTED:
                reported = time.monotonic()
                self._tell(
                    "the rest: blocks "
                    + ", ".join(f"{block_of(self.folder, slot)} of {last}" for slot in slots)
                )
            time.sleep(0.05)

    def _check(self, promise: Promise) -> checks.Figures:
        effort, ledger = self.effort, ledger_of(self.folder)
        lives = checks.Lives(
            started=self._started,
            killed=frozenset(life.number for life in self._killed),
            stopped=frozenset(life.number for life in self._lives if life.stopped),
            late=frozenset(
                (number, line.split()[0])
                for number in range(1, self._started + 1)
                if (file := late_of(self.folder, number)).exists()
                for line in file.read_text().splitlines()
            ),
        )
        last = int((self.folder / "limit").read_text())
        articles = range((last + 1) * effort.articles)
        counts = checks.check_pages(ledger, articles, _NAMES[promise])
        between, twice = checks.extras(ledger, lives)
        if promise != Promise.NOTHING_LOST:
            held = asyncio.run(checks.held_by(self.url))
            checks.check_index(ledger, held)
            if promise != Promise.TRUE_INDEX:
                checks.check_sound(held)
            if promise == Promise.STORED_ONCE:
                # Workers note each lease that was over; what they only say is no excuse.
                admitted = self._admitted() if effort.kind == SCRAPY else ()
                checks.check_once(ledger, held, lives, admitted)
        if promise == Promise.STORED_ONCE:
            most = len(lives.killed | lives.stopped) * effort.under_way * _BATCH_OF_CRAWL
            if between > most:
                raise checks.BrokenPromiseError(f"{between} stored twice, {most} were under way")
        return checks.Figures(
            articles=len(articles),
            pages=counts[checks.STORED] + counts[checks.DROPPED],
            stored=counts[checks.STORED],
            dropped=counts[checks.DROPPED],
            failed=counts[checks.FAILED],
            at_work=checks.at_work(ledger, lives),
            between=between,
            twice=twice,
            late=len(self._admitted()),
            lost=counts["lost"],
        )

    def _admitted(self) -> frozenset[str]:
        """Pages that a process says it has stored although a like one was, its lease being over."""
        logs = (path.read_text(errors="replace") for path in self.folder.glob("log-*"))
        return frozenset(url for log in logs for url in _ADMITTED.findall(log))

    def logs(self) -> str:
        """The ends of all logs."""
        files = sorted(self.folder.glob("log-*"))
        return "\n".join(
            f"{file.name}: {file.read_text(errors='replace')[-2500:]}" for file in files
        )
