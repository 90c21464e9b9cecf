"""Classifies Redis errors: the remedy, and the message for users."""

from __future__ import annotations

import asyncio
import re
import ssl
from enum import Enum

import attrs
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from dedup_middleware.base.errors import DedupError, IndexRefusedError, IndexUnavailableError
from dedup_middleware.index.redis.servers import NoSentinelError


class Remedy(Enum):
    """What may help after an error; the values describe it."""

    NONE = "nothing that this process could do"
    WAIT = "time"
    RECONNECT = "another connection"
    REDIRECT = "another server of the cluster"
    SCRIPT = "sending the whole script"
    OPEN = "opening the index again"


@attrs.frozen
class Complaint:
    """An error's message for users, its remedy, and whether retries are useless."""

    text: str
    remedy: Remedy = Remedy.NONE
    refused: bool = False  # the index can't be used as configured: retries would not help
    replaced: bool = False  # another index is at the address now


_MOVES = Complaint("the namespace is being moved to another server", Remedy.WAIT)
_DOWN = Complaint("the cluster is down", Remedy.WAIT)
_READONLY = Complaint(
    "it is a replica, which can't be written to (name its master, or sentinels)", Remedy.RECONNECT
)
_OOM = Complaint("it is out of memory and may not evict (raise maxmemory, or use another server)")
_AUTH = Complaint(
    "it does not accept this user and password: correct them in DEDUP_INDEX_URL", refused=True
)
NO_RIGHT = "its user lacks a right"
_GRANT = "grant those listed in docs/redis.md, for a cluster also those in docs/cluster.md"
_NOPERM = Complaint(f"{NO_RIGHT}: {_GRANT}")
_DATABASE = Complaint(
    "it has no such database: correct the number at the end of DEDUP_INDEX_URL", refused=True
)
# redis-py has classes for some errors, whose texts lack the error code.
_CLASSES: dict[type[Exception], Complaint] = {
    NoScriptError: Complaint("it has forgotten a script", Remedy.SCRIPT),
    MovedError: Complaint("the namespace is on another server of the cluster", Remedy.REDIRECT),
    AskError: _MOVES,
    TryAgainError: _MOVES,
    ClusterDownError: _DOWN,
    SlotNotCoveredError: _DOWN,
    BusyLoadingError: Complaint("it is still loading its data", Remedy.WAIT),
    MasterDownError: Complaint("it is a replica that has lost its master", Remedy.RECONNECT),
    ReadOnlyError: _READONLY,
    OutOfMemoryError: _OOM,
    NoPermissionError: _NOPERM,
    AuthenticationError: _AUTH,
}
# Codes of all other error replies, and of errors inside a script in Redis 6.
_CODES: dict[str, Complaint] = {
    "OOM": _OOM,
    "READONLY": _READONLY,
    "BUSY": Complaint("it is busy with a script", Remedy.WAIT),
    # This master was cut off from the others, which may have elected another one.
    "NOREPLICAS": Complaint("it has too few replicas to accept writes", Remedy.RECONNECT),
    "MISCONF": Complaint("it can't save to its disk and accepts no writes"),
    "WRONGTYPE": Complaint(
        "another program keeps its data under these keys: choose another DEDUP_NAMESPACE",
        refused=True,
    ),
    "DAMAGED": Complaint(
        "parts of the index are gone; restore a backup, choose another DEDUP_NAMESPACE, or remove "
        "its keys to begin anew",
        refused=True,
    ),
    "GONE": Complaint("the index was removed from it, or set up anew", Remedy.OPEN),
    "BEHIND": Complaint(
        "its counter of pages is lower than the numbers of pages in it, so no page can be added: "
        "restore a backup, or choose another DEDUP_NAMESPACE"
    ),
    "FULL": Complaint(
        "it has taken all pages or texts that it can number: choose another DEDUP_NAMESPACE"
    ),
}
_NO_SCRIPTS = Complaint(
    "it runs no scripts: it is a sentinel or no Redis server at all, or its script commands "
    "are renamed: correct host and port in DEDUP_INDEX_URL, or begin it with redis+sentinel:// and "
    "name the master, or take rename-command out of the server's configuration",
    refused=True,
)
# Phrases of error replies without a code.
_PHRASES = (
    ("unauthenticated", _AUTH),  # a call of more than ten words before signing on
    ("DB index is out of range", _DATABASE),
    ("invalid DB index", _DATABASE),
    ("SELECT is not allowed in cluster mode", _DATABASE),
    ("can't run this command", _NOPERM),  # by a script
    ("ACL failure in script", _NOPERM),
    ("can't access at least one of the keys", _NOPERM),
    ("No permissions to access a key", _NOPERM),
)
NO_NODE = Complaint(
    "it is not a node of a cluster: leave +cluster out of DEDUP_INDEX_URL, or correct its host and "
    "port",
    refused=True,
)
# Replies of a server outside a cluster; redis-py takes any error reply for that.
_NO_NODE_REPLIES = ("cluster support disabled", "unknown command")


def understand(error: Exception, timeout: float = 0.0) -> Complaint:
    """Explain an error of redis-py; an unknown error keeps its own text.

    :param timeout: the time limit of a reply in seconds, for the message

    >>> understand(BusyLoadingError("Redis is loading the dataset in memory")).text
    'it is still loading its data'
    """
    if isinstance(error, RedisClusterException) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the error of the node that was tried last
        reply = error.__context__
        if (
            isinstance(error, RedisClusterException)
            and isinstance(reply, ResponseError)
            and not is_no_node(reply)
        ):
            error = reply
    text = str(error)
    command = re.search(r"run the '([\w|]+)' command", text)
    if command is not None and isinstance(error, NoPermissionError):
        return Complaint(f"{NO_RIGHT} (+{command[1]}): {_GRANT}")
    if type(error) in _CLASSES:
        return _CLASSES[type(error)]
    if isinstance(error, ResponseError):
        return _understand_text(text)
    if isinstance(error, (RedisTimeoutError, asyncio.TimeoutError)):
        return Complaint(f"no answer within {timeout:g} seconds", Remedy.RECONNECT)
    refusal = _understand_refusal(error, text)
    if refusal is not None:
        return refusal
    if " connecting to " in text:
        text += " Start the server, or correct DEDUP_INDEX_URL."
    return Complaint(text or type(error).__name__, Remedy.RECONNECT)


def _understand_refusal(error: Exception, text: str) -> Complaint | None:
    """The complaint about an error caused by the address or its options; None for any other."""
    if isinstance(error, InvalidResponse):
        return Complaint(
            f"its answer is not that of a Redis server ({text[:200]}): correct host and port in "
            "DEDUP_INDEX_URL",
            Remedy.RECONNECT,
            refused=True,
        )
    if isinstance(error.__context__, ssl.SSLCertVerificationError):
        return Complaint(
            f"{text}; give its authority with ?ssl_ca_certs=FILE, or correct the host in "
            "DEDUP_INDEX_URL",
            refused=True,
        )
    if isinstance(error, NoSentinelError):
        return Complaint(text, Remedy.RECONNECT, refused=True)
    if isinstance(error, RedisClusterException) and "Cluster mode is not enabled" in text:
        return NO_NODE
    return None


def is_no_node(error: Exception) -> bool:
    """Whether this is the error of CLUSTER SLOTS on a server that is no node of a cluster."""
    text = str(error).lower()
    return isinstance(error, ResponseError) and any(part in text for part in _NO_NODE_REPLIES)


def _understand_text(text: str) -> Complaint:
    if re.match("unknown command .EVAL(SHA)?[^A-Z]", text):  # our arguments follow in the reply
        return _NO_SCRIPTS
    # For errors inside a script, Redis 6 puts the position before the code.
    for word in text.replace("@user_script:", "@user_script: ").split():
        code = word.lstrip("-").rstrip(":")
        complaint = _CODES.get(code)
        if complaint is not None and code == "DAMAGED":
            what = text.partition(code)[2].strip()
            return attrs.evolve(complaint, text=f"{what}: {complaint.text}")
        if complaint is not None:
            return complaint
    for part, complaint in _PHRASES:
        if part in text:
            return complaint
    return Complaint(f"it answers {text[:200]!r}")


def as_error(text: str, where: str, *, refused: bool) -> DedupError:
    """The exception to raise to the user: IndexRefusedError or IndexUnavailableError.

    :param where: address of the server, without its password
    """
    kind = IndexRefusedError if refused else IndexUnavailableError
    return kind(f"the index at DEDUP_INDEX_URL={where} can't be used: {text}")
