"""Where the index is while the spiders are killed, and what happens to its server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.servers import running_redis, watched_redis
from tests.torture.run import Outcome, Plan, Torture

Scenario = Callable[[Plan, Path], Outcome]


def _folders(folder: Path) -> tuple[Path, Path]:
    places = folder / "server", folder / "spiders"
    for place in places:
        place.mkdir()
    return places


def steady(plan: Plan, folder: Path) -> Outcome:
    """A Redis that stays up."""
    server, spiders = _folders(folder)
    with running_redis(server) as redis:
        outcome = Torture(plan, spiders, redis.url).run()
    outcome.check(plan.articles)
    return outcome


def restarted(plan: Plan, folder: Path) -> Outcome:
    """A Redis with an append-only file that is killed and started again in the middle."""
    server, spiders = _folders(folder)
    with running_redis(server, "--appendonly", "yes", "--appendfsync", "always") as redis:

        def halfway() -> None:
            redis.kill()
            redis.start()

        outcome = Torture(plan, spiders, redis.url).run(halfway)
    outcome.check(plan.articles)
    return outcome


def failed_over(plan: Plan, folder: Path) -> Outcome:
    """A master under sentinels that is killed in the middle.

    Replication is asynchronous, so that the next master may miss the last commits: pages of which
    it knows nothing may be stored again. They are counted as doubles.
    """
    server, spiders = _folders(folder)
    with watched_redis(server) as watched:

        def halfway() -> None:
            watched.master.kill()
            watched.await_failover()

        outcome = Torture(plan, spiders, watched.url).run(halfway)
    outcome.check(plan.articles, lost=plan.processes * 40)
    return outcome


def embedded(plan: Plan, folder: Path) -> Outcome:
    """An index in a file that the processes share."""
    server, spiders = _folders(folder)
    outcome = Torture(plan, spiders, f"sqlite:{server / 'index.db'}").run()
    outcome.check(plan.articles)
    return outcome


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {"redis": steady, "aof": restarted, "sentinel": failed_over, "sqlite": embedded}
)
