"""Where the index is while the spiders are killed, and what happens to its server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from dedup_middleware.index.cluster.spread import Spread
from tests.clusters import Cluster, Mover, logging_cluster, replicated_cluster
from tests.servers import running_redis, watched_redis
from tests.torture.run import Outcome, Plan, Torture

Scenario = Callable[[Plan, Path], Outcome]
SHARDS = 8  # of an index on a cluster
_DOWN = 4.0  # seconds that a master of a cluster is away
_PAUSE = 2.0  # seconds between two slots that move


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


def _mover(cluster: Cluster, plan: Plan) -> Mover:
    slots = cluster.slots(Spread("dedup", SHARDS))
    return Mover(cluster, slots, pause=_PAUSE, seed=plan.seed)


def _run_while_moving(
    plan: Plan, spiders: Path, cluster: Cluster, mover: Mover, halfway: Callable[[], None]
) -> Outcome:
    """Crawl while slots move; what the index holds is read when all slots have a master."""

    def calm() -> None:
        mover.stop()
        cluster.await_all_slots()

    settings = (f"DEDUP_SHARDS={SHARDS}",)
    outcome = Torture(plan, spiders, cluster.url, settings=settings).run(halfway, calm)
    assert mover.error is None, mover.error
    assert mover.done["slots moved"] > 0
    return outcome


def spread_out(plan: Plan, folder: Path) -> Outcome:
    """Three masters of a cluster, each with an append-only file, between which slots move all the
    time; one is killed in the middle, maybe while a slot moves from or to it, and started again."""
    server, spiders = _folders(folder)
    rng = random.Random(plan.seed)
    with logging_cluster(server) as cluster, _mover(cluster, plan) as mover:

        def halfway() -> None:
            victim = rng.choice(cluster.masters)
            victim.kill()
            time.sleep(_DOWN)  # the others declare the cluster down meanwhile
            victim.start()
            cluster.await_all_slots()

        outcome = _run_while_moving(plan, spiders, cluster, mover, halfway)
    outcome.check(plan.articles)
    return outcome.with_note(f"{mover.done['slots moved']} slots moved, a master restarted")


def taken_over(plan: Plan, folder: Path) -> Outcome:
    """Three masters of a cluster with a replica each, between which slots move; one is killed in
    the middle, and its replica takes over.

    Replication is asynchronous: pages of which the replica knows nothing may be stored again.
    """
    server, spiders = _folders(folder)
    rng = random.Random(plan.seed)
    with replicated_cluster(server) as cluster, _mover(cluster, plan) as mover:

        def halfway() -> None:
            # Redis 7.0 tells no replica that a slot is on its way: none is when a master is lost.
            with mover.lock:
                cluster.fail_over(rng.randrange(len(cluster.masters)))

        outcome = _run_while_moving(plan, spiders, cluster, mover, halfway)
    outcome.check(plan.articles, lost=plan.processes * 40)
    return outcome.with_note(f"{mover.done['slots moved']} slots moved, a master lost")


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "redis": steady,
        "aof": restarted,
        "sentinel": failed_over,
        "sqlite": embedded,
        "cluster": spread_out,
        "cluster-failover": taken_over,
    }
)
