"""An executable model of the protocol that spreads one index over many masters.

No script spans two shards, so a page is entered by messages to single shards, each of which they
carry out atomically:

* ``READ``: returns the records of a bucket. Some buckets are read first, the others only if these
  hold a page
* ``LOOK``: returns the state of a page on its home shard
* ``CREATE``: announces the page on its home shard; refused if its id was settled before
* ``APPEND``: adds its record to a bucket, and returns the earlier records
* ``CHALLENGE``: returns the state of another page; one without a row gets a row in state GONE, so
  that its ``CREATE`` is refused
* ``COMMIT`` and ``WITHDRAW``: settle the announcement
* ``REMOVE``: removes the records of pages that are gone from a bucket; sent by the sweeper

``STORE`` is the message to storage.

A page that has met no like page goes to storage. Of two like pages that have met each other, the
one with the greater id withdraws, and the one with the smaller id keeps its announcement until the
other is settled. A page that is judged for the first time withdraws for any page with a smaller id,
like or not.

Messages that a client sends together arrive in any order, and messages of others in between.
:mod:`tests.index.cluster_interleavings` goes through these orders, and lets processes die and
leases end between any two messages.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.index.cluster_states import (
    ATTEMPTS,
    COMMITTED,
    ENDS,
    GONE,
    MISSING,
    PENDING,
    Client,
    Kind,
    Message,
    Phase,
    State,
    ids,
    put,
)

_IN_BUCKETS = frozenset({Kind.READ, Kind.APPEND, Kind.REMOVE})
# For a message to a home shard: the state that it needs, and the state that it leaves.
_STEPS = {
    Kind.CREATE: (MISSING, PENDING),
    Kind.COMMIT: (PENDING, COMMITTED),
}


class BrokenError(AssertionError):
    """The protocol broke a promise."""


@attrs.frozen
class Rules:
    """Parts of the protocol; without any one of them (False) a promise must be broken."""

    checks_what_stood_before: bool = True
    greater_yields: bool = True
    smaller_stands: bool = True
    creates_by_compare: bool = True
    settles_missing: bool = True
    sweeper_settles_missing: bool = True


PROTOCOL = Rules()


@attrs.frozen
class Crawl:
    """Pages, the buckets of each, and which of them are alike.

    :param places: of each page its buckets
    :param groups: of each page its group; pages of one group are like
    :param shards: of each bucket its shard; home shards are ``page % number of shards``
    :param sweeps: whether a sweeper goes through all buckets meanwhile
    """

    places: tuple[tuple[int, ...], ...]
    groups: tuple[int, ...]
    shards: tuple[int, ...]
    sweeps: bool = False
    rules: Rules = PROTOCOL
    order: int = 0  # of the ids, see :meth:`age`
    reads_first: int = 0  # buckets read first, the others only if these hold a page; 0: all

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.places)

    def start(self, *, crashes: int = 0, lapses: int = 0, failures: int = 0) -> State:
        """The first state; crashes, lapses and failures that may happen from now on."""
        clients = [self._reading(page, 0) for page in range(self.pages)]
        if self.sweeps:
            clients.append(Client(Phase.SWEEPING, 0, (Message(Kind.READ, 0),)))
        return State(
            (0,) * len(self.shards),
            (MISSING,) * (self.pages * ATTEMPTS),
            tuple(clients),
            crashes=crashes,
            lapses=lapses,
            failures=failures,
        )

    def age(self, number: int) -> tuple[int, ...]:
        """A value by which ids are ordered: the later ids of a page may be above or below those of
        other pages, so there are three orders."""
        page, attempt = divmod(number, ATTEMPTS)
        return ((page, attempt), (attempt, page), (-attempt, page))[self.order]

    # Shards

    def deliver(self, state: State, at: int, message: Message) -> State:
        """Carry out a message of client ``at``, which receives the reply."""
        client = state.clients[at]
        place = client.unanswered.index(message)
        rest = client.unanswered[:place] + client.unanswered[place + 1 :]
        client = client._replace(unanswered=rest)
        if message.kind == Kind.STORE:
            self._check_store(state, at)
            state = state._replace(stored=state.stored | 1 << at)
        elif message.kind in _IN_BUCKETS:
            state, client = self._in_bucket(state, client, at, message)
        else:
            state, client = self._at_home(state, client, at, message)
        if not rest:
            client = self._next(state, at, client)
        return state._replace(clients=put(state.clients, at, client))

    def _in_bucket(
        self, state: State, client: Client, at: int, message: Message
    ) -> tuple[State, Client]:
        kind, target = message.kind, message.target
        found = now = state.buckets[target]
        if kind == Kind.APPEND:
            now |= 1 << (at * ATTEMPTS + client.attempt)
        elif kind == Kind.REMOVE:
            now &= ~message.mask
        if kind == Kind.READ or (kind == Kind.APPEND and self.rules.checks_what_stood_before):
            client = client._replace(seen=client.seen | found)
        return state._replace(buckets=put(state.buckets, target, now)), client

    def _at_home(
        self, state: State, client: Client, at: int, message: Message
    ) -> tuple[State, Client]:
        kind, target = message.kind, message.target
        was = now = state.homes[target]
        if kind in (Kind.LOOK, Kind.CHALLENGE):
            if kind == Kind.CHALLENGE:
                now = self._challenged(was, at)
            held = client.held | (now == PENDING) << target
            stored = client.stored | (now == COMMITTED) << target
            client = client._replace(held=held, stored=stored)
        elif kind == Kind.WITHDRAW:
            now = was if was == COMMITTED else GONE
        else:
            # A message sent again, as its reply was lost, finds its own earlier effect.
            before, after = _STEPS[kind]
            refused = was not in (before, after)
            if kind == Kind.CREATE and not self.rules.creates_by_compare:
                refused = False
            now = was if refused else after
            client = client._replace(refused=refused)
        return state._replace(homes=put(state.homes, target, now)), client

    def _challenged(self, was: int, at: int) -> int:
        """The state of an id after client ``at`` (a page or the sweeper) has challenged it."""
        rules = self.rules
        settles = rules.sweeper_settles_missing if at == self.pages else rules.settles_missing
        return GONE if was == MISSING and settles else was

    # A client whose messages are all answered

    def _next(self, state: State, at: int, client: Client) -> Client:
        if at == self.pages:
            return self._sweep(client)
        follow = {
            Phase.READING: self._has_read,
            Phase.READING_REST: self._has_read,
            Phase.LOOKING: self._judge,
            Phase.ANNOUNCING: self._has_announced,
            Phase.CHECKING: self._has_checked,
            Phase.WITHDRAWING: self._has_withdrawn,
            Phase.STORING: self._has_stored,
            Phase.COMMITTING: self._has_committed,
        }
        return follow[client.phase](state, at, client)

    def _has_read(self, _: State, at: int, client: Client) -> Client:
        others = self._others(at, client)
        if not others:
            return self._announcing(at, client)
        rest = self.places[at][self.reads_first :] if self.reads_first else ()
        if client.phase == Phase.READING and rest:
            messages = tuple(Message(Kind.READ, bucket) for bucket in rest)
            return client._replace(phase=Phase.READING_REST, unanswered=messages)
        return _sending(client, Phase.LOOKING, Kind.LOOK, others)

    def _has_announced(self, _: State, at: int, client: Client) -> Client:
        if client.refused:
            return self._again(at, client)
        others = self._others(at, client)
        if others:
            return _sending(client, Phase.CHECKING, Kind.CHALLENGE, others)
        return self._storing(at, client)

    def _has_checked(self, _: State, at: int, client: Client) -> Client:
        own = at * ATTEMPTS + client.attempt
        like = self._like(at, client.held | client.stored)
        earlier = sum(1 << other for other in ids(client.held) if self.age(other) < self.age(own))
        yields = client.stored & like or (
            self.rules.greater_yields and earlier & (like if client.known else earlier)
        )
        if yields:
            sent = _sending(client, Phase.WITHDRAWING, Kind.WITHDRAW, 1 << own)
            return sent._replace(held=client.held, stored=client.stored)
        waits = client.held & like
        if waits and self.rules.smaller_stands:
            known = client.known | (client.held | client.stored) & ~like
            return client._replace(phase=Phase.STANDING, waits=waits, known=known)
        return self._storing(at, client)

    def _has_withdrawn(self, state: State, at: int, client: Client) -> Client:
        return self._judge(state, at, client._replace(attempt=client.attempt + 1))

    def _storing(self, at: int, client: Client) -> Client:
        return _sending(client, Phase.STORING, Kind.STORE, 1 << at)

    def _has_stored(self, _: State, at: int, client: Client) -> Client:
        own = at * ATTEMPTS + client.attempt
        return _sending(client, Phase.COMMITTING, Kind.COMMIT, 1 << own)

    def _has_committed(self, _: State, __: int, client: Client) -> Client:
        return Client(Phase.FAILED if client.refused else Phase.STORED)

    def _others(self, at: int, client: Client) -> int:
        """The ids of other pages that a client has met and does not know."""
        return client.seen & ~client.known & ~(((1 << ATTEMPTS) - 1) << (at * ATTEMPTS))

    def _like(self, at: int, others: int) -> int:
        """Select from ids those whose pages are like page ``at``."""
        return sum(
            1 << other for other in ids(others) if self.groups[other // ATTEMPTS] == self.groups[at]
        )

    def _judge(self, state: State, at: int, client: Client) -> Client:
        """Drop the page, wait, or announce it; unlike pages that it has met become known."""
        like = self._like(at, client.held | client.stored)
        if client.stored & like:
            self._check_drop(state, at, client.stored & like)
            return Client(Phase.DROPPED)
        known = client.known | (client.held | client.stored) & ~like
        if client.held & like:
            waiting = Client(Phase.WAITING, client.attempt, known=known)
            return waiting._replace(waits=client.held & like)
        return self._announcing(at, client._replace(known=known))

    def _reading(self, page: int, attempt: int, known: int = 0) -> Client:
        self._check_attempts(page, attempt)
        first = self.places[page][: self.reads_first or None]
        messages = tuple(Message(Kind.READ, bucket) for bucket in first)
        return Client(Phase.READING, attempt, messages, known=known)

    def _announcing(self, page: int, client: Client) -> Client:
        own = page * ATTEMPTS + client.attempt
        self._check_attempts(page, client.attempt)
        messages = [Message(Kind.CREATE, own)]
        messages += [Message(Kind.APPEND, bucket) for bucket in self.places[page]]
        return Client(Phase.ANNOUNCING, client.attempt, tuple(messages), known=client.known)

    def _again(self, page: int, client: Client) -> Client:
        """Begin anew with the next id, as others have settled this one."""
        return self._reading(page, client.attempt + 1, client.known)

    def _sweep(self, client: Client) -> Client:
        if client.phase == Phase.SWEEPING and client.seen:
            return _sending(client, Phase.PROBING, Kind.CHALLENGE, client.seen)
        if client.phase == Phase.PROBING:
            gone = client.seen & ~client.held & ~client.stored
            if gone:
                remove = Message(Kind.REMOVE, client.bucket, gone)
                return client._replace(phase=Phase.REMOVING, unanswered=(remove,))
        bucket = client.bucket + 1
        if bucket == len(self.shards):
            return Client(Phase.SWEPT)
        return Client(Phase.SWEEPING, 0, (Message(Kind.READ, bucket),), bucket=bucket)

    # Other events

    def may_go_on(self, state: State, client: Client) -> bool:
        """Whether a waiting client may look again."""
        return client.phase in (Phase.WAITING, Phase.STANDING) and any(
            state.homes[other] != PENDING for other in ids(client.waits)
        )

    def go_on(self, state: State, at: int) -> State:
        """A waiting client reads its buckets again; a standing one challenges what it met."""
        client = state.clients[at]
        if client.phase == Phase.STANDING:
            looking = _sending(client, Phase.CHECKING, Kind.CHALLENGE, client.waits)
            return state._replace(clients=put(state.clients, at, looking))
        reading = self._reading(at, client.attempt, client.known)
        return state._replace(clients=put(state.clients, at, reading))

    def crash(self, state: State, at: int) -> State:
        """A client dies; its messages that have not arrived are lost."""
        clients = put(state.clients, at, Client(Phase.DEAD))
        return state._replace(clients=clients, crashes=state.crashes - 1)

    def fail(self, state: State, at: int) -> State:
        """The item of a claimed page is not stored after all: its claim is released."""
        client = state.clients[at]
        own = at * ATTEMPTS + client.attempt
        state = state._replace(
            clients=put(state.clients, at, Client(Phase.FAILED)), failures=state.failures - 1
        )
        return state._replace(homes=put(state.homes, own, GONE))

    def is_abandoned(self, state: State, number: int) -> bool:
        """Whether only the end of its lease will settle an id."""
        page, attempt = divmod(number, ATTEMPTS)
        client = state.clients[page]
        return client.phase in ENDS or client.attempt != attempt

    def lapse(self, state: State, number: int) -> State:
        """The lease of an announced page runs out."""
        if not self.is_abandoned(state, number):
            state = state._replace(lapses=state.lapses - 1)
        if state.homes[number] == PENDING:
            state = state._replace(stalled=state.stalled | 1 << number // ATTEMPTS)
        return state._replace(homes=put(state.homes, number, GONE))

    def successors(self, state: State) -> Iterator[State]:
        """Yield every state that the next event can lead to."""
        for at, client in enumerate(state.clients):
            for message in client.unanswered:
                yield self.deliver(state, at, message)
            if self.may_go_on(state, client):
                yield self.go_on(state, at)
            if client.phase not in ENDS and at < self.pages and state.crashes:
                yield self.crash(state, at)
            if client.phase == Phase.STORING and state.failures:
                yield self.fail(state, at)
        for number, home in enumerate(state.homes):
            if home == PENDING and (state.lapses or self.is_abandoned(state, number)):
                yield self.lapse(state, number)

    def tidied(self, state: State) -> State:
        """An equivalent state, so that fewer states have to be visited.

        An id that is gone stays gone, and the reply about one that is gone or stored can't change.
        So such replies are received at once, and the records of ids that are gone are removed. This
        holds while no master loses writes.
        """
        is_settled = GONE in state.homes or COMMITTED in state.homes
        while is_settled:
            is_settled = False
            for at, client in enumerate(state.clients):
                for message in client.unanswered:
                    is_question = message.kind in (Kind.LOOK, Kind.CHALLENGE)
                    if is_question and state.homes[message.target] in (GONE, COMMITTED):
                        state = self.deliver(state, at, message)
                        is_settled = True
        if GONE not in state.homes:
            return state
        gone = sum(1 << number for number, home in enumerate(state.homes) if home == GONE)
        clients = tuple(
            client._replace(seen=client.seen & ~gone, known=client.known & ~gone)
            if (client.seen | client.known) & gone
            else client
            for client in state.clients
        )
        buckets = tuple(bucket & ~gone for bucket in state.buckets)
        return state._replace(buckets=buckets, clients=clients)

    # Promises

    def _check_store(self, state: State, at: int) -> None:
        for other in ids(state.stored):
            is_excused = state.lost or state.stalled & (1 << other | 1 << at)
            if self.groups[other] == self.groups[at] and not is_excused:
                raise BrokenError(f"pages {other} and {at} are like and both stored")

    def _check_drop(self, state: State, at: int, matches: int) -> None:
        if not any(state.stored >> other // ATTEMPTS & 1 for other in ids(matches)):
            raise BrokenError(f"page {at} is dropped for one that is not stored")

    def _check_attempts(self, page: int, attempt: int) -> None:
        if attempt >= ATTEMPTS:
            raise BrokenError(f"page {page} began {ATTEMPTS} times and got nowhere")

    def check_end(self, state: State) -> None:
        """Check the promises in a state in which nothing can happen any more.

        :raises BrokenError: one is broken; the message says which
        """
        for at, client in enumerate(state.clients):
            if client.phase not in ENDS:
                raise BrokenError(f"page {at} waits for ever: {client}")
        if any(home == PENDING for home in state.homes):
            raise BrokenError("an announcement is not settled")
        for group in set(self.groups):
            members = [page for page in range(self.pages) if self.groups[page] == group]
            ends = {state.clients[page].phase for page in members}
            is_stored = any(state.stored >> page & 1 for page in members)
            is_excused = state.lost or ends & {Phase.DEAD, Phase.FAILED}
            if not is_stored and (Phase.DROPPED in ends or not is_excused):
                raise BrokenError(f"nothing of group {group} is stored")
        if not state.lost:
            self._check_records(state)

    def _check_records(self, state: State) -> None:
        """Check that the records of stored pages are in all of their buckets."""
        for number, home in enumerate(state.homes):
            if home == COMMITTED:
                for bucket in self.places[number // ATTEMPTS]:
                    if not state.buckets[bucket] >> number & 1:
                        raise BrokenError(f"the record of id {number} is gone from bucket {bucket}")


def _sending(client: Client, phase: Phase, kind: Kind, targets: int) -> Client:
    """Let a client send one message to some ids, with the replies so far discarded."""
    messages = tuple(Message(kind, target) for target in ids(targets))
    return client._replace(phase=phase, unanswered=messages, held=0, stored=0, refused=False)
