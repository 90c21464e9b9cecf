"""What the model of the protocol over many masters passes on: messages, clients, states.

See :mod:`tests.index.cluster_model`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

ATTEMPTS = 16  # ids that a page may use; if it needs more, it counts as never ending

MISSING, PENDING, COMMITTED, GONE = range(4)  # states of an id on its home shard


class Kind(IntEnum):
    """The kind of a message."""

    READ = 0
    LOOK = 1
    CREATE = 2
    APPEND = 3
    CHALLENGE = 4
    STORE = 6  # to the storage, not to a shard
    COMMIT = 7
    WITHDRAW = 8
    REMOVE = 9  # of the sweeper: takes all records of ids that are gone out of a bucket


class Phase(IntEnum):
    """What a client waits for, or how it ended."""

    READING = 0
    LOOKING = 1
    ANNOUNCING = 2
    CHECKING = 3
    WITHDRAWING = 4
    STANDING = 5  # keeps its announcement until those with greater ids are settled
    STORING = 6
    COMMITTING = 7
    WAITING = 8
    STORED = 9
    DROPPED = 10
    FAILED = 11  # the lease had lapsed when it committed, or its item was not stored after all
    DEAD = 12
    SWEEPING = 13  # reads a bucket
    PROBING = 14  # asks which of its records belong to pages that are gone
    REMOVING = 15
    SWEPT = 16
    READING_REST = 17


ENDS = frozenset({Phase.STORED, Phase.DROPPED, Phase.FAILED, Phase.DEAD, Phase.SWEPT})


class Message(NamedTuple):
    """``target`` is a bucket or an id, ``mask`` the ids that a ``REMOVE`` takes out."""

    kind: Kind
    target: int
    mask: int = 0


class Client(NamedTuple):
    """One page on its way, or the sweeper. Sets of ids and pages are bit masks."""

    phase: Phase
    attempt: int = 0
    unanswered: tuple[Message, ...] = ()
    seen: int = 0  # ids in the buckets
    held: int = 0  # of these, alive and not stored
    stored: int = 0  # of these, stored
    known: int = 0  # judged to be unlike
    waits: int = 0
    refused: bool = False
    bucket: int = 0  # of the sweeper: the next one


class State(NamedTuple):
    """The state of everything at one moment. ``buckets`` are masks of ids, ``homes`` states by
    id."""

    buckets: tuple[int, ...]
    homes: tuple[int, ...]
    clients: tuple[Client, ...]
    stored: int = 0  # pages
    stalled: int = 0  # pages whose lease lapsed after they had claimed
    lost: bool = False  # whether a master has lost writes
    crashes: int = 0  # that may still happen
    lapses: int = 0  # of leases of living clients
    failures: int = 0  # of items that are not stored after all


def put(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    """Return a copy of a tuple with another value at one place."""
    return (*values[:at], value, *values[at + 1 :])


def ids(mask: int) -> Iterator[int]:
    """Return the ids in a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
