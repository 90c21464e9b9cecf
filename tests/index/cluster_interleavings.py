"""Interleavings of the messages of :mod:`tests.index.cluster_model`, all of them or random ones.

:func:`explore` visits every state that a few pages can reach; :func:`walk` goes one random way, and
lets masters fail that lose their last writes.

``python -m tests.index.cluster_interleavings --random 1000000`` goes a million random ways and
counts the faults on them; ``--all`` visits all states of the crawls that take minutes.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter

import attrs

from tests.index.cluster_model import PROTOCOL, BrokenError, Crawl, Rules
from tests.index.cluster_states import ATTEMPTS, PENDING, Client, Kind, Message, State, put


@attrs.frozen
class Explored:
    """Numbers of ``states`` that were reached, and of ``ends`` among them."""

    states: int
    ends: int


def explore(crawl: Crawl, start: State, most: int = 20_000_000) -> Explored:
    """Visit every state that can be reached, each once.

    :raises BrokenError: a promise was broken
    :raises MemoryError: more states than ``most``
    """
    seen = {hash(start)}
    stack = [start]
    ends = 0
    while stack:
        state = stack.pop()
        is_end = True
        for following in crawl.successors(state):
            is_end = False
            tidy = crawl.tidied(following)
            mark = hash(tidy)
            if mark not in seen:
                seen.add(mark)
                stack.append(tidy)
        if is_end:
            ends += 1
            crawl.check_end(state)
        if len(seen) > most:
            raise MemoryError(f"more than {most} states")
    return Explored(len(seen), ends)


@attrs.frozen
class Faults:
    """Chances, before each event, of what goes wrong in a random interleaving."""

    crash: float = 0.003
    lapse: float = 0.003  # of the lease of a living client
    failure: float = 0.05  # of an item that has its claim
    lost_answer: float = 0.02  # the message is carried out, and sent again
    failover: float = 0.001  # a master loses all writes since its last copy
    copy: float = 0.02


NO_FAULTS = Faults(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Walk:
    """One random interleaving.

    :param faults: chances of faults; a dead client's messages may still arrive later
    :ivar happened: how often what happened
    """

    def __init__(self, crawl: Crawl, chance: random.Random, faults: Faults = NO_FAULTS) -> None:
        self._crawl = crawl
        self._chance = chance
        self._faults = faults
        self._late: list[tuple[int, Client, Message]] = []  # of the dead
        self.happened: Counter[str] = Counter()
        # A walk has no limit of faults, so these numbers are high enough for all.
        self.state = crawl.start(crashes=1 << 30, lapses=1 << 30, failures=1 << 30)
        self._copy = self.state

    def run(self) -> State:
        """Go on until nothing can happen any more.

        :raises BrokenError: a promise was broken
        """
        while self._step():
            pass
        self._crawl.check_end(self.state)
        return self.state

    def _step(self) -> bool:
        crawl, chance, faults = self._crawl, self._chance, self._faults
        clients = self.state.clients
        ready = [
            at
            for at, client in enumerate(clients)
            if client.unanswered or crawl.may_go_on(self.state, client)
        ]
        if self._late and (not ready or chance.random() < 0.1):
            self._arrive_late()
            return True
        if not ready:
            return self._lapse_one(abandoned=True)
        draw = chance.random()
        if draw < faults.crash:
            self._crash(chance.choice(ready))
        elif (draw := draw - faults.crash) < faults.lapse:
            self._lapse_one(abandoned=False)
        elif (draw := draw - faults.lapse) < faults.failover:
            self._fail_over(chance.choice(crawl.shards))
        elif draw - faults.failover < faults.copy:
            self._copy = self.state
        else:
            self._deliver(chance.choice(ready))
        return True

    def _deliver(self, at: int) -> None:
        crawl, state = self._crawl, self.state
        client = state.clients[at]
        if not client.unanswered:
            self.state = crawl.go_on(state, at)
            return
        message = self._chance.choice(client.unanswered)
        if message.kind == Kind.STORE and self._chance.random() < self._faults.failure:
            self.happened["items not stored"] += 1
            self.state = crawl.fail(state, at)
            return
        self.happened["messages"] += 1
        self.state = crawl.deliver(state, at, message)
        if message.kind != Kind.STORE and self._chance.random() < self._faults.lost_answer:
            self.happened["replies lost"] += 1
            self.state = self.state._replace(clients=state.clients)

    def _crash(self, at: int) -> None:
        client = self.state.clients[at]
        if at < self._crawl.pages:
            for message in client.unanswered:
                if message.kind != Kind.STORE and self._chance.random() < 0.5:
                    self._late.append((at, client, message))
            self.happened["deaths"] += 1
            self.state = self._crawl.crash(self.state, at)

    def _arrive_late(self) -> None:
        self.happened["messages of the dead"] += 1
        at, client, message = self._late.pop(self._chance.randrange(len(self._late)))
        alone = client._replace(unanswered=(message, message))  # so that no message follows
        clients = self.state.clients
        before = self.state._replace(clients=put(clients, at, alone))
        self.state = self._crawl.deliver(before, at, message)._replace(clients=clients)

    def _lapse_one(self, *, abandoned: bool) -> bool:
        state = self.state
        alive = [
            number
            for number, home in enumerate(state.homes)
            if home == PENDING and (not abandoned or self._crawl.is_abandoned(state, number))
        ]
        if alive:
            self.happened["leases of the dead" if abandoned else "leases that lapsed"] += 1
            self.state = self._crawl.lapse(state, self._chance.choice(alive))
        return bool(alive)

    def _fail_over(self, shard: int) -> None:
        """Let a shard return to its last copy."""
        self.happened["failovers"] += 1
        state, copy, shards = self.state, self._copy, self._crawl.shards
        count = max(shards) + 1
        self.state = state._replace(
            buckets=tuple(
                (copy if one == shard else state).buckets[bucket]
                for bucket, one in enumerate(shards)
            ),
            homes=tuple(
                (copy if number // ATTEMPTS % count == shard else state).homes[number]
                for number in range(len(state.homes))
            ),
            lost=True,
        )


SHARDS = 4


def random_crawl(chance: random.Random, rules: Rules = PROTOCOL) -> Crawl:
    """Up to 6 pages over 4 shards; like pages share a bucket at least, others may."""
    pages = chance.randint(2, 6)
    buckets = chance.randint(1, 6)
    groups = tuple(chance.randrange(chance.randint(1, 3)) for _ in range(pages))
    places = tuple(
        tuple(sorted({group % buckets, *chance.choices(range(buckets), k=chance.randint(0, 3))}))
        for group in groups
    )
    shards = tuple(chance.randrange(SHARDS) for _ in range(buckets))
    return Crawl(
        places,
        groups,
        shards,
        chance.random() < 0.3,
        rules,
        chance.randrange(3),
        chance.randrange(3),
    )


def walk(seed: int, rules: Rules = PROTOCOL) -> State:
    """One random interleaving of a random crawl; half of them without any fault.

    :raises BrokenError: a promise was broken
    """
    return random_walk(seed, rules).run()


def random_walk(seed: int, rules: Rules = PROTOCOL) -> Walk:
    """The walk of a seed, before its first step."""
    chance = random.Random(seed)
    crawl = random_crawl(chance, rules)
    return Walk(crawl, chance, Faults() if seed % 2 else NO_FAULTS)


def main_random(count: int, first: int) -> None:
    """Make ``count`` random walks, and print what happened on them."""
    began = time.process_time()
    happened: Counter[str] = Counter()
    for seed in range(first, first + count):
        way = random_walk(seed)
        try:
            state = way.run()
        except BrokenError as error:
            raise SystemExit(f"seed {seed}: {error}") from error
        happened += way.happened
        pages = state.clients[: len(state.homes) // ATTEMPTS]
        happened[f"ways of {len(pages)} pages"] += 1
        happened.update(f"pages {client.phase.name.lower()}" for client in pages)
        happened["ways with lost writes"] += state.lost
        happened["ways with a sweeper"] += len(pages) < len(state.clients)
    seconds = time.process_time() - began
    print(f"{count} interleavings in {seconds:.0f} s of CPU; no promise broken")
    for what, times in sorted(happened.items()):
        print(f"  {what}: {times}")


def main_all() -> None:
    """Visit all states of three pages over two buckets, with stalls and with unlike pages."""
    # Two of the three read another bucket first.
    shared = ((0, 1), (1, 0), (0, 1))
    ways = (("like", (0, 0, 0), 1, 0), ("like", (0, 0, 0), 1, 1), ("unlike", (0, 1, 2), 0, 0))
    for name, groups, lapses, first in ways:
        crawl = Crawl(shared, groups, (0, 1), reads_first=first)
        began = time.monotonic()
        found = explore(crawl, crawl.start(lapses=lapses))
        print(
            f"three {name} pages, {lapses} stalls, {first or 'all'} read first: "
            f"{found.states} states, {found.ends} ends, "
            f"{time.monotonic() - began:.0f} s; no promise broken"
        )


def main() -> None:
    """Run what the arguments choose."""
    parser = argparse.ArgumentParser(prog="python -m tests.index.cluster_interleavings")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--random", type=int, metavar="N", help="go so many random ways")
    what.add_argument("--all", action="store_true", help="visit all states of three pages")
    parser.add_argument("--first", type=int, default=0, help="seed of the first way")
    given = parser.parse_args()
    if given.all:
        main_all()
    else:
        main_random(given.random, given.first)


if __name__ == "__main__":
    main()
