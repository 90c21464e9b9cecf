"""Documents, matches and verdicts."""

from __future__ import annotations

import math
from types import NoneType
from typing import Any, Final

import attrs

from dedup_middleware.model.claims import Claim
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import in_a_line

NEW = "new"
DUPLICATE = "duplicate"
REVISIT = "revisit"
EMPTY = "empty"
UNCHECKED = "unchecked"

# Reason of a page that is unchecked because it waited too long for a similar pending page.
PENDING_TIMEOUT = "pending-timeout"


_KINDS: Final = (
    ("key", (str,), "a str"),
    ("title", (str,), "a str"),
    ("text", (str, NoneType), "a str or None"),
    ("html", (str, bytes, NoneType), "a str, bytes or None"),
    ("charset", (str, NoneType), "a str or None"),
    ("description", (str,), "a str"),
)


def _or_empty(value: str | None) -> str:
    return "" if value is None else value


@attrs.frozen(slots=False)  # with slots it takes longer to make
class Document:
    """A page to be decided: its key, and its text or its HTML.

    :param key: permanent name of the page, usually its address; the same key again is a revisit
    :param text: the body text; computed from ``html`` when None
    :param html: the page; bytes are decoded with ``charset`` or what the page itself declares
    :param charset: charset of the Content-Type header, if known
    :param description: the page's own summary (meta description); taken from ``html`` when empty
    :param rest: digest of the part of a page that is too long to be read; equal for copies

    ``title`` and ``description`` may be given as None, which means empty.

    :raises TypeError: a field is of another type; the message names it
    """

    key: str
    title: str = attrs.field(default="", converter=_or_empty, repr=False)
    text: str | None = attrs.field(default=None, repr=False)
    html: bytes | str | None = attrs.field(default=None, repr=False)
    charset: str | None = None
    description: str = attrs.field(default="", converter=_or_empty, repr=False)
    rest: str = attrs.field(default="", repr=False)

    def __attrs_post_init__(self) -> None:
        for name, kinds, wanted in _KINDS:
            value = self.__dict__[name]
            if not isinstance(value, kinds):
                kind = type(value).__name__
                raise TypeError(f"Document({name}=...) is of type {kind}: give {wanted}")


@attrs.frozen(slots=False)  # with slots it takes longer to make
class Match:
    """A stored page that was compared with a new one.

    :param key: document key of the stored page; None if the index keeps no addresses
    :param number: its page id in the index
    :param similarity: highest threshold at which the method calls the new page a duplicate, 0 to 1
    :param jaccard: estimated Jaccard index of the two sets of shingles, 0 to 1
    :param distance: Hamming distance of the SimHashes in bits, None if the new page has none
    :param tables: names of the tables in which it was found
    :param shared: estimated number of common shingles, None if the method does not count them
    :param figures: number of places with different figures or names, None if they are not compared
    :param rule: the rule of the method that decided, even if the reason is ``unchanged``
    """

    key: str | None
    number: int
    similarity: float
    jaccard: float
    distance: int | None
    tables: tuple[str, ...] = ()
    shared: int | None = None
    figures: int | None = None
    rule: str = ""


@attrs.frozen(slots=False)  # with slots it takes longer to make
class Verdict:
    """The decision on a page.

    ``outcome`` is one of ``new``, ``duplicate``, ``revisit`` (same key, nothing new in it),
    ``empty`` (nothing to compare) and ``unchecked`` (the index was unavailable, or a similar page
    pending for too long); ``reason`` is the short name of the rule that decided. ``nearest`` is the
    stored page most similar to a new page; its key is None if reading it would take another round
    trip. ``earlier`` holds the page ids of earlier versions (reason ``changed``), which the index
    has forgotten with ``DEDUP_VERSIONS = "replace"``; ``previous`` is the newest of them, compared
    with the page. ``supersedes`` are stored pages whose words are all in this new page, as a full
    report holds the flash before it; see ``DEDUP_ON_FULLER``.
    """

    key: str
    outcome: str
    reason: str
    match: Match | None = None
    fingerprint: Fingerprint | None = attrs.field(default=None, repr=False, eq=False)
    claim: Claim | None = attrs.field(default=None, repr=False)
    document: Document | None = attrs.field(default=None, repr=False, eq=False)
    nearest: Match | None = attrs.field(default=None, repr=False)
    earlier: tuple[int, ...] = ()
    previous: Match | None = attrs.field(default=None, repr=False)
    supersedes: tuple[Match, ...] = attrs.field(default=(), repr=False)

    @property
    def is_duplicate(self) -> bool:
        """Whether a stored page with another key has the content of this page."""
        return self.outcome == DUPLICATE

    @property
    def is_revisit(self) -> bool:
        """Whether a page with this key is stored, and this one adds nothing to it."""
        return self.outcome == REVISIT

    def __str__(self) -> str:
        if self.match is None:
            return f"{self.outcome} ({self.reason})"
        page = in_a_line(self.match.key or f"page {self.match.number}")
        # Rounded down, so that nothing below 1 is shown as 100 %.
        share = f"{math.floor(self.match.similarity * 100)} % alike"
        return f"{self.outcome} of {page} ({share}, {self.reason})"


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """Convert a verdict to plain values for items and JSON; None for those of a missing match."""
    nearest = verdict.nearest
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        **_explained(verdict.match),
        "nearest": None if nearest is None else _explained(nearest),
        "earlier": list(verdict.earlier),
        "previous": None if verdict.previous is None else _explained(verdict.previous),
        "supersedes": [match.key or f"page {match.number}" for match in verdict.supersedes],
    }


def _explained(match: Match | None) -> dict[str, Any]:
    if match is None:
        names = ("match", "similarity", "jaccard", "distance", "shared", "figures", "rule")
        return {**dict.fromkeys(names), "tables": []}
    return {
        "match": match.key,
        "similarity": round(match.similarity, 4),
        "jaccard": round(match.jaccard, 4),
        "distance": match.distance,
        "shared": match.shared,
        "figures": match.figures,
        "rule": match.rule,
        "tables": list(match.tables),
    }
