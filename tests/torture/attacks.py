"""The scenarios of killed processes: where the index is, and what is done to it meanwhile."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import attrs

from tests.servers import running_redis, watched_redis
from tests.torture.chaos import chaos
from tests.torture.damage import RedisDamage, SQLiteDamage
from tests.torture.driver import Attack, Driver, Effort, Outcome, Promise, Tell
from tests.torture.rollback import BY_LOG, BY_SNAPSHOT, CutLog, Snapshots
from tests.torture.start import SCRAPY
from tests.torture.task import Faults

PLACES = ("redis", "aof", "sentinel", "sqlite")
_LIFE = {"workers": (0.02, 0.4), SCRAPY: (0.02, 0.6)}  # seconds
_WAIT = 1.0  # seconds a call waits where servers go away and answers get lost


@attrs.frozen(kw_only=True)
class Setup:
    """An index and what is done to it.

    :param done: how often what was done, beyond kills and stops
    """

    url: str
    promise: Promise
    attacks: tuple[Attack, ...] = ()
    calm: Callable[[], None] = lambda: None
    done: Counter[str] = attrs.field(factory=Counter)


@contextlib.contextmanager
def _plain(place: str, folder: Path, effort: Effort) -> Iterator[Setup]:
    """An index that stays as it is; servers with a log are killed now and then, masters once."""
    if place == "redis":
        with running_redis(folder) as server:
            yield Setup(url=server.url, promise=Promise.STORED_ONCE)
    elif place == "aof":
        with running_redis(folder, *BY_LOG) as server:
            done: Counter[str] = Counter()

            def restart(_rng: random.Random) -> None:
                server.kill()
                server.start()
                done["server killed"] += 1

            attack = Attack(strike=restart, every=2.0, times=2 + effort.kills // 100)
            yield Setup(url=server.url, promise=Promise.STORED_ONCE, attacks=(attack,), done=done)
    elif place == "sentinel":
        with watched_redis(folder) as watched:
            lost: Counter[str] = Counter()

            def fail_over(_rng: random.Random) -> None:
                watched.master.kill()
                watched.await_failover()
                lost["failover"] += 1

            attack = Attack(strike=fail_over, every=5.0, times=1)
            # Replication is asynchronous: the next master may lack the last commits.
            yield Setup(url=watched.url, promise=Promise.SOUND_INDEX, attacks=(attack,), done=lost)
    else:
        yield Setup(url=f"sqlite:{folder / 'index.db'}", promise=Promise.STORED_ONCE)


@contextlib.contextmanager
def _rolled_back(place: str, folder: Path, effort: Effort) -> Iterator[Setup]:
    """A server that comes back in an older state, again and again."""
    arguments = BY_SNAPSHOT if place == "redis" else BY_LOG
    with running_redis(folder, *arguments) as server:
        back = (Snapshots if place == "redis" else CutLog)(server, folder)
        attack = Attack(strike=back.strike, every=0.6, times=6 + effort.kills // 4)
        # Redis 7.0 cuts a log that ends inside a transaction behind its first commands, and applies
        # these at the next start.
        promise = Promise.SOUND_INDEX if place == "redis" else Promise.TRUE_INDEX
        yield Setup(url=server.url, promise=promise, attacks=(attack,), done=back.done)


@contextlib.contextmanager
def _behind_chaos(place: str, folder: Path, effort: Effort) -> Iterator[Setup]:
    """A server behind a line that cuts, stalls, half-closes, truncates and swallows."""
    with (
        running_redis(folder) as server,
        chaos(server.port, share=0.05, seconds=2 * _WAIT, seed=effort.seed) as proxy,
    ):

        def calm() -> None:
            proxy.share = 0.0

        yield Setup(url=proxy.url, promise=Promise.SOUND_INDEX, calm=calm, done=proxy.done)


@contextlib.contextmanager
def _damaged(place: str, folder: Path, effort: Effort) -> Iterator[Setup]:
    """An index whose bytes change behind its back."""
    with contextlib.ExitStack() as stack:
        damage: RedisDamage | SQLiteDamage
        if place == "redis":
            server = stack.enter_context(running_redis(folder))
            url, damage = server.url, RedisDamage(server)
        else:
            url, damage = f"sqlite:{folder / 'index.db'}", SQLiteDamage(folder / "index.db")
        attack = Attack(strike=damage.strike, every=0.05, times=20 + effort.kills * 2)
        yield Setup(
            url=url,
            promise=Promise.NOTHING_LOST,
            attacks=(attack,),
            calm=damage.heal,
            done=damage.done,
        )


@attrs.frozen(kw_only=True)
class Scenario:
    """What is done, and to which kinds of index.

    :param change: what it needs of the effort
    """

    places: tuple[str, ...]
    setup: Callable[[str, Path, Effort], contextlib.AbstractContextManager[Setup]] = _plain
    change: Callable[[Effort], Effort] = lambda effort: effort


def _hurried(effort: Effort) -> Effort:
    return attrs.evolve(effort, timeout=_WAIT, retries=2)


def _damaging(effort: Effort) -> Effort:
    # A lease whose end is damaged may never end, and each page like it waits that long.
    return attrs.evolve(_hurried(effort), pending_wait=2 * effort.lease)


def _with_stops(effort: Effort) -> Effort:
    return attrs.evolve(effort, stops=max(1, effort.kills), kills=effort.kills // 2)


def _with_faults(effort: Effort) -> Effort:
    faults = Faults(before=0.15, after=0.1, hang=0.02, seconds=2.5 * effort.lease)
    return attrs.evolve(effort, faults=faults)


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "kills": Scenario(places=PLACES),
        "rollback": Scenario(places=("redis", "aof"), setup=_rolled_back, change=_hurried),
        "proxy": Scenario(places=("redis",), setup=_behind_chaos, change=_hurried),
        "damage": Scenario(places=("redis", "sqlite"), setup=_damaged, change=_damaging),
        "stops": Scenario(places=("redis", "sqlite"), change=_with_stops),
        "storage": Scenario(places=("redis", "sqlite"), change=_with_faults),
    }
)


def run(name: str, place: str, effort: Effort, folder: Path, tell: Tell) -> Outcome:
    """Run a scenario in an empty folder.

    :raises BrokenPromiseError: something was lost
    """
    scenario = SCENARIOS[name]
    if place not in scenario.places:
        raise ValueError(f"{name} is for {', '.join(scenario.places)}, not for {place}")
    server, processes = folder / "server", folder / "processes"
    for part in (server, processes):
        part.mkdir()
    given = attrs.evolve(effort, life=_LIFE[effort.kind])
    changed = scenario.change(given)
    with scenario.setup(place, server, changed) as setup:
        driver = Driver(changed, processes, setup.url, attacks=setup.attacks, tell=tell)
        full_name = f"{name} {effort.kind} {place}"
        outcome = driver.run(full_name, setup.promise, calm=setup.calm)
    return attrs.evolve(outcome, done=dict(setup.done))
