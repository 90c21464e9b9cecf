"""What a Redis server's complaints mean, and what to do about them."""

from __future__ import annotations

from enum import Enum

import attrs

from dedup_middleware.errors import DedupError, IndexRefusedError, IndexUnavailableError


class Remedy(Enum):
    """What may help after an error reply."""

    NONE = "nothing that this process could do"
    WAIT = "time"
    RECONNECT = "another connection"
    REDIRECT = "another server, which the reply names"
    SCRIPT = "sending the whole script"
    OPEN = "opening the index again"


@attrs.frozen
class Complaint:
    """An error reply understood."""

    text: str
    remedy: Remedy = Remedy.NONE
    refused: bool = False  # not to be used as it is, however often one tries


_MEMORY = "it is out of memory and may not evict (raise maxmemory, or use another server)"
_CODES: dict[str, Complaint] = {
    "NOSCRIPT": Complaint("it has forgotten a script", Remedy.SCRIPT),
    "MOVED": Complaint("the namespace is on another server of the cluster", Remedy.REDIRECT),
    "ASK": Complaint("the namespace is being moved to another server", Remedy.WAIT),
    "TRYAGAIN": Complaint("the namespace is being moved to another server", Remedy.WAIT),
    "CLUSTERDOWN": Complaint("the cluster is down", Remedy.WAIT),
    "LOADING": Complaint("it is still loading its data", Remedy.WAIT),
    "BUSY": Complaint("it is busy with somebody's script", Remedy.WAIT),
    "MASTERDOWN": Complaint("it is a replica that has lost its master", Remedy.RECONNECT),
    "READONLY": Complaint("it is a replica, which can't be written to", Remedy.RECONNECT),
    "NOREPLICAS": Complaint("it has too few replicas to accept writes", Remedy.WAIT),
    "MISCONF": Complaint("it can't save to its disk and accepts no writes"),
    "OOM": Complaint(_MEMORY),
    "NOAUTH": Complaint("it wants a password: put one in DEDUP_INDEX_URL", refused=True),
    "WRONGPASS": Complaint(
        "it does not know this user and password: correct them in DEDUP_INDEX_URL", refused=True
    ),
    "NOPERM": Complaint(
        "its user lacks a right: grant those listed in docs/redis.md", refused=True
    ),
    "WRONGTYPE": Complaint(
        "another program keeps its data under these keys: choose another DEDUP_NAMESPACE",
        refused=True,
    ),
    "DAMAGED": Complaint(
        "parts of the index are gone: choose another DEDUP_NAMESPACE, or remove its keys",
        refused=True,
    ),
    "GONE": Complaint("the index was removed from it", Remedy.OPEN),
    "FULL": Complaint("it has no page number left: choose another DEDUP_NAMESPACE"),
}

# Complaints without a code.
_PHRASES = (
    ("invalid password", "WRONGPASS"),
    ("AUTH <password> called without", "WRONGPASS"),
    ("unauthenticated", "NOAUTH"),  # a call of more than ten words before signing on
    ("can't run this command", "NOPERM"),  # by a script
    ("can't access at least one of the keys", "NOPERM"),
    ("No permissions to access a key", "NOPERM"),
)


def understand(reply: Exception) -> Complaint:
    """Meaning of an error reply; one that is not known is passed on as it is.

    >>> understand(Exception("LOADING Redis is loading the dataset in memory")).text
    'it is still loading its data'
    """
    text = str(reply)
    # Inside a script, Redis 6 puts the place of the error before the code of the error.
    for word in text.replace("@user_script:", "@user_script: ").split():
        complaint = _CODES.get(word.lstrip("-").rstrip(":"))
        if complaint is not None:
            return complaint
    for part, code in _PHRASES:
        if part in text:
            return _CODES[code]
    return Complaint(f"it answers {text[:200]!r}")


def as_error(text: str, where: str, *, refused: bool) -> DedupError:
    """The error a user meets.

    :param where: address of the server without its password
    """
    kind = IndexRefusedError if refused else IndexUnavailableError
    return kind(f"the index at DEDUP_INDEX_URL={where} can't be used: {text}")
