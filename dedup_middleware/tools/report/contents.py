"""What a report shows, gathered from a journal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from dedup_middleware.base.options import SKETCH_BITS
from dedup_middleware.journal.base import JournalStore
from dedup_middleware.journal.entries import HOUR, Drop, Hour, Query, host_of, is_near_miss
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import Content, required
from dedup_middleware.methods.content_evidence import ContentByEvidence
from dedup_middleware.model.documents import NEW

Line = Callable[[Drop], "float | None"]
_STEP = 1e-4  # a line has four digits


def line_of(method: Method) -> Line:
    """A function that gives the largest threshold at which a page would be dropped.

    For most methods that is its similarity. With ``DEDUP_EVIDENCE=sketch`` the rule `content` has a
    higher threshold for short pages and subtracts the standard error of the estimate, so that pages
    above the threshold may be kept.
    """
    if isinstance(method, Content) and not isinstance(method, ContentByEvidence):
        return lambda drop: _of_content(drop, method)
    return lambda drop: drop.similarity


def _of_content(drop: Drop, method: Content) -> float | None:
    similarity, jaccard, shared = drop.similarity, drop.jaccard, drop.shared
    if not similarity or not jaccard or not shared:
        return similarity
    size = max(1, round(shared / similarity))
    both = shared * (1 + jaccard) / jaccard
    # The same as in the rule: Li and Konig 2010, theorem 2.
    chance = 0.5**method.sketch_bits
    agreement = jaccard + (1 - jaccard) * chance
    variance = agreement * (1 - agreement) / (SKETCH_BITS // method.sketch_bits)
    error = math.sqrt(variance) / (1 - chance)
    compared = jaccard
    if method.measure != "jaccard":
        compared, error = similarity, error * both / (size * (1 + jaccard) ** 2)
    allowance = 1 - required(0.0, size, method.measure)
    return max(0.0, 1 - (1 - compared + error) / allowance)


def settled(line: float | None, drop: Drop, threshold: float) -> float | None:
    """The line of a page on the side of the threshold in force where the page was decided.

    The line is an estimate, because a journal has rounded numbers; the decision is a fact.
    """
    if line is None:
        return None
    if drop.outcome == NEW:
        return min(line, threshold - _STEP)
    return max(line, threshold)


NEAR = 2_000  # pages next to the threshold whose texts go in before all others
_DIGITS = 4


@attrs.frozen
class Limits:
    """How much goes into one file.

    :param decisions: newest decisions that are shown
    :param text_bytes: UTF-8 bytes of all texts together, before compression
    """

    decisions: int = 100_000
    text_bytes: int = 24_000_000


class _Names:
    """Strings by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


def collect(
    journal: JournalStore,
    *,
    query: Query = Query(),  # noqa: B008
    threshold: float,
    about: dict[str, str],
    now: float,
    limits: Limits = Limits(),
    line: Line = lambda drop: drop.similarity,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Everything that the report shows, as values of JSON.

    :param query: which decisions; counters by hour are shown only where it chooses by host and time
    :param threshold: similarity from which on a page was dropped
    :param about: names and values of the settings that are shown
    :param now: seconds since 1970 at which the report was made
    :param line: the largest threshold at which a page would be dropped, if no other rule decides
    :param progress: called with the number of decisions that have been read
    :raises JournalError: the journal can't be read
    """
    report = progress or (lambda _: None)
    drops: list[Drop] = []
    for drop in journal.drops(attrs.evolve(query, limit=limits.decisions)):
        if drop.outcome == NEW and not is_near_miss(drop):
            continue  # a new version of a page was never near the threshold
        drops.append(drop)
        if len(drops) % 1000 == 0:
            report(len(drops))
    report(len(drops))
    hosts, reasons, outcomes, tables = _Names(), _Names(), _Names(), _Names()
    spiders, crawls = _Names(), _Names()
    stored, match = _stored(drops)
    texts = _Texts(limits.text_bytes)
    chosen = dict(_texts_of(journal, drops, threshold, texts))
    return {
        "about": about,
        "made": round(now),
        "threshold": threshold,
        "total": journal.size().drops,
        "pages": {
            "key": [drop.key for drop in drops],
            "title": [drop.title for drop in drops],
            "time": [round(drop.time) for drop in drops],
            "host": [hosts.number(drop.host) for drop in drops],
            "outcome": [outcomes.number(drop.outcome) for drop in drops],
            "reason": [reasons.number(drop.reason) for drop in drops],
            "match": match,
            "similarity": [_rounded(drop.similarity) for drop in drops],
            "line": [_rounded(settled(line(drop), drop, threshold)) for drop in drops],
            "jaccard": [_rounded(drop.jaccard) for drop in drops],
            "distance": [drop.distance for drop in drops],
            "shared": [drop.shared for drop in drops],
            "figures": [drop.figures for drop in drops],
            "tables": [[tables.number(name) for name in drop.tables] for drop in drops],
            "spider": [spiders.number(drop.spider) for drop in drops],
            "crawl": [crawls.number(drop.crawl) for drop in drops],
            "text": [chosen[i].dropped if i in chosen else -1 for i in range(len(drops))],
        },
        "stored": {
            "key": stored,
            "host": [hosts.number(host_of(name)) for name in stored],
            "title": _titles(chosen, match, len(stored)),
            "text": _stored_texts(chosen, match, len(stored)),
        },
        "texts": texts.all,
        "hours": [_hour(hour, hosts, reasons) for hour in _hours(journal, query)],
        "hosts": hosts.all(),
        "outcomes": outcomes.all(),
        "reasons": reasons.all(),
        "tables": tables.all(),
        "spiders": spiders.all(),
        "crawls": crawls.all(),
    }


def _hours(journal: JournalStore, query: Query) -> Iterator[Hour]:
    """The counters of the hours that a query chooses; they do not say more than hour and host."""
    if attrs.evolve(query, hosts=frozenset(), since=None, until=None) != Query():
        return
    for hour in journal.hours():
        if (
            (not query.hosts or hour.host in query.hosts)
            and (query.since is None or hour.hour + HOUR > query.since)
            and (query.until is None or hour.hour < query.until)
        ):
            yield hour


def _rounded(value: float | None) -> float | None:
    # Down, so that none crosses the threshold by being rounded.
    return None if value is None else math.floor(value * 10**_DIGITS) / 10**_DIGITS


def _stored(drops: Sequence[Drop]) -> tuple[list[str], list[int]]:
    """The stored pages, each once, and for each drop the place of its own among them, or -1."""
    names = _Names()
    match = []
    for drop in drops:
        if drop.match is None and drop.number is None:
            match.append(-1)
        else:
            match.append(names.number(drop.match or f"#{drop.number}"))
    return names.all(), match


class _Texts:
    """Texts under a cap on their bytes."""

    def __init__(self, size: int) -> None:
        self.all: list[str] = []
        self._left = size
        self._numbers: dict[str, int] = {}

    def take(self, *texts: str) -> list[int] | None:
        """Numbers of some texts; None: they don't all fit any more."""
        new = {text for text in texts if text not in self._numbers}
        size = sum(len(text.encode("utf-8", "replace")) for text in new)
        if size > self._left:
            return None
        self._left -= size
        for text in texts:
            if text not in self._numbers:
                self._numbers[text] = len(self.all)
                self.all.append(text)
        return [self._numbers[text] for text in texts]


@attrs.frozen
class _Pair:
    """Numbers of the texts of a dropped page and of its stored one, and the latter's title."""

    dropped: int
    stored: int
    title: str


def _texts_of(
    journal: JournalStore, drops: Sequence[Drop], threshold: float, texts: _Texts
) -> Iterator[tuple[int, _Pair]]:
    """Texts of pairs, in the order of :func:`_order`, up to the limit."""
    for i in _order(drops, threshold):
        drop = drops[i]
        body = journal.body(drop.id)
        if body is None or not body.text:
            continue
        kept = journal.kept(drop)
        # An exact copy has the text of the stored page.
        same = kept is None and drop.similarity == 1.0 and drop.reason == "exact-copy"
        other = kept.text if kept is not None else body.text if same else ""
        numbers = texts.take(body.text, other) if other else texts.take(body.text)
        if numbers is None:
            return
        title = kept.title if kept is not None else ""
        yield i, _Pair(numbers[0], numbers[1] if other else -1, title)


def _order(drops: Sequence[Drop], threshold: float) -> list[int]:
    """Drops by the priority of their texts.

    First those next to the threshold, then one of each cluster, the largest first, then the rest
    from the newest to the oldest.
    """
    matched = [i for i, drop in enumerate(drops) if drop.similarity is not None]
    near = sorted(matched, key=lambda i: abs((drops[i].similarity or 0.0) - threshold))[:NEAR]
    sizes = Counter(drops[i].match for i in matched)
    first: dict[str | None, int] = {}
    for i in matched:
        first.setdefault(drops[i].match, i)
    examples = sorted(first.values(), key=lambda i: -sizes[drops[i].match])
    return list(dict.fromkeys([*near, *examples, *reversed(range(len(drops)))]))


def _titles(chosen: dict[int, _Pair], match: Sequence[int], count: int) -> list[str]:
    titles = [""] * count
    for i, pair in chosen.items():
        if match[i] >= 0 and pair.title:
            titles[match[i]] = pair.title
    return titles


def _stored_texts(chosen: dict[int, _Pair], match: Sequence[int], count: int) -> list[int]:
    found = [-1] * count
    for i, pair in chosen.items():
        if match[i] >= 0 and pair.stored >= 0:
            found[match[i]] = pair.stored
    return found


def _hour(hour: Hour, hosts: _Names, reasons: _Names) -> list[Any]:
    dropped = [[reasons.number(name), number] for name, number in hour.dropped.items()]
    return [hour.hour, hosts.number(hour.host), hour.seen, hour.stored, dropped]
