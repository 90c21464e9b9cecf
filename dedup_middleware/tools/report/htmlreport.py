"""The report of ``scrapy dedup report``: its contents, gathered from a journal, as one HTML file.

Styles, scripts and data are embedded; it needs no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import attrs

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.base.options import SKETCH_BITS, Options
from dedup_middleware.base.writing import is_replaceable, write_whole
from dedup_middleware.journal.access import Filters, Journal, query_of
from dedup_middleware.journal.clusters import with_stored
from dedup_middleware.journal.entries import (
    HOUR,
    Drop,
    Hour,
    JournalStore,
    Query,
    host_of,
    in_parts,
    is_change,
)
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import Content, ContentByEvidence, required
from dedup_middleware.model.documents import NEW

if TYPE_CHECKING:
    from typing_extensions import Unpack

_STEP = 1e-4  # thresholds are shown with four digits


def line_of(method: Method) -> Callable[[Drop], float | None]:
    """Return a function from a decision to the largest threshold that would drop the page.

    It is the similarity, except that with ``DEDUP_EVIDENCE=sketch`` the method `content` raises the
    threshold for short pages and subtracts the standard error of the estimate.
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
    # As in the method: Li and Konig 2010, theorem 2.
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
    """Correct a threshold of :func:`line_of`, which rests on rounded numbers in the journal: if the
    page was dropped, it is at least ``threshold``, that of the crawl, and else below it."""
    if line is None:
        return None
    return min(line, threshold - _STEP) if drop.outcome == NEW else max(line, threshold)


NEAR = 2_000  # pages next to the threshold, whose texts have priority
_DIGITS = 4


def collect(
    journal: JournalStore,
    options: Options,
    *,
    query: Query = Query(),  # noqa: B008
    chosen: Mapping[str, str] | None = None,
    now: float | None = None,
    decisions: int = 200_000,
    text_bytes: int = 24_000_000,
    other: JournalStore | None = None,
    given: Mapping[str, str] | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Return everything that the report shows, as JSON values.

    :param options: those of the crawl, for its method and threshold
    :param query: selects decisions; hourly counts are shown only if it is by host and time
    :param chosen: the query as its reader wrote it: names and values to show
    :param now: time of the report in seconds since 1970; None: the present
    :param decisions: number of decisions shown, the newest
    :param text_bytes: limit for all texts together, in UTF-8 before compression
    :param other: a journal to compare with
    :param given: settings with which a command reaches the same journal
    :param progress: called with the number of decisions read
    """
    method = choose_method(options)
    line, threshold = line_of(method), method.threshold
    drops: list[Drop] = []
    changed: list[Drop] = []
    read = 0
    for read, drop in enumerate(journal.drops(attrs.evolve(query, limit=decisions)), 1):
        # New versions of a page were never near the threshold.
        (changed if is_change(drop) else drops).append(drop)
        if read % 1000 == 0:
            progress(read)
    progress(read)
    names, tables, stored, texts = Lists(), Names(), Names(), _Texts(text_bytes)
    found = with_stored(journal, drops)
    match = [-1 if name is None else stored[name] for _, name in found]
    titles, text, stored_text = [""] * len(stored), [-1] * len(drops), [-1] * len(stored)
    for i, kept_title, (dropped, *kept) in _texts_of(journal, drops, threshold, texts):
        text[i] = dropped
        if match[i] >= 0:
            titles[match[i]] = kept_title or titles[match[i]]
            stored_text[match[i]] = kept[0] if kept else stored_text[match[i]]
    made = {
        "about": {
            "DEDUP_JOURNAL": journal.where,
            "DEDUP_NAMESPACE": options.namespace,
            "DEDUP_METHOD": options.method,
            "DEDUP_THRESHOLD": f"{threshold:g}",
            **(chosen or {}),
        },
        "made": math.ceil(time.time() if now is None else now),
        "threshold": threshold,
        "total": journal.size().drops,
        "query": _chosen(query, cut=read >= decisions),
        "given": dict(given or {}),
        "pages": {
            **names.columns(drops),
            **names.decisions(drops),
            "match": match,
            "line": [_rounded(settled(line(drop), drop, threshold)) for drop in drops],
            "text": text,
        },
        "stored": {
            "key": list(stored),
            "host": [names.hosts[host_of(name)] for name in stored],
            "title": titles,
            "text": stored_text,
        },
        "changes": changed_pages(journal, changed, names),
        "activity": activity_of(journal, query, names),
        "details": {
            "jaccard": [_rounded(drop.jaccard) for drop in drops],
            "distance": [drop.distance for drop in drops],
            "shared": [drop.shared for drop in drops],
            "figures": [drop.figures for drop in drops],
            "tables": [tables[", ".join(drop.tables)] for drop in drops],
            "texts": list(texts),
        },
    }
    if other is not None:
        made["other"] = other_journal(other, query, drops, decisions, names)
    return {
        **made,
        "tables": list(tables),
        **{name: list(list_) for name, list_ in attrs.asdict(names, recurse=False).items()},
    }


def _chosen(query: Query, *, cut: bool) -> dict[str, Any]:
    """Format a query for the command that restores the pages shown in the report."""
    parts = ("keys", "hosts", "reasons", "spiders", "crawls")
    chosen = {name.removesuffix("s"): sorted(getattr(query, name)) for name in parts}
    return {**chosen, "since": query.since, "until": query.until, "cut": cut}


def _rounded(value: float | None) -> float | None:
    # Rounded down, so that no value crosses the threshold.
    return None if value is None else math.floor(value * 10**_DIGITS) / 10**_DIGITS


class Names(dict[str, int]):
    """Numbers for strings, from 0 in the order of their first use."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


class _Texts(Names):
    """Numbers for texts, with a limit on their total size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._left = size

    def take(self, *texts: str) -> list[int] | None:
        """Return the numbers of texts, or None if they don't all fit."""
        new = {text for text in texts if text not in self}
        size = sum(len(text.encode("utf-8", "replace")) for text in new)
        if size > self._left:
            return None
        self._left -= size
        return [self[text] for text in texts]


def _texts_of(
    journal: JournalStore, drops: Sequence[Drop], threshold: float, texts: _Texts
) -> Iterator[tuple[int, str, list[int]]]:
    """Yield, in the order of :func:`_order` and up to the limit, index of the drop, title of the
    stored page, and numbers of the dropped text and, if known, of the stored text."""
    for part in in_parts(_order(drops, threshold)):
        chosen = [drops[i] for i in part]
        bodies = journal.bodies([drop.id for drop in chosen])
        pages = journal.kept_of_each(chosen)
        for i, drop, body, kept in zip(part, chosen, bodies, pages, strict=True):
            if body is None or not body.text:
                continue
            # An exact copy has the same text as the stored page.
            same = kept is None and drop.similarity == 1.0 and drop.reason == "exact-copy"
            other = kept.text if kept is not None else body.text if same else ""
            numbers = texts.take(body.text, other) if other else texts.take(body.text)
            if numbers is None:
                return
            yield i, "" if kept is None else kept.title, numbers


def _order(drops: Sequence[Drop], threshold: float) -> list[int]:
    """Return the drops in the priority of their texts: those nearest to the threshold, then one per
    cluster, largest first, then the newest."""
    matched = [i for i, drop in enumerate(drops) if drop.similarity is not None]
    near = sorted(matched, key=lambda i: abs((drops[i].similarity or 0.0) - threshold))[:NEAR]
    sizes = Counter(drops[i].match for i in matched)
    first = {drops[i].match: i for i in reversed(matched)}
    examples = (first[match] for match, _ in sizes.most_common())
    return list(dict.fromkeys([*near, *examples, *reversed(range(len(drops)))]))


@attrs.frozen
class Lists:
    """The strings that the columns of the report refer to by number."""

    hosts: Names = attrs.field(factory=Names)
    outcomes: Names = attrs.field(factory=Names)
    reasons: Names = attrs.field(factory=Names)
    spiders: Names = attrs.field(factory=Names)
    crawls: Names = attrs.field(factory=Names)

    def columns(self, drops: Sequence[Drop]) -> dict[str, list[Any]]:
        """Return the columns that every list of pages has."""
        return {
            "key": [drop.key for drop in drops],
            "title": [drop.title for drop in drops],
            "time": [math.floor(drop.time) for drop in drops],
            "host": [self.hosts[drop.host] for drop in drops],
            "similarity": [_rounded(drop.similarity) for drop in drops],
            "spider": [self.spiders[drop.spider] for drop in drops],
            "crawl": [self.crawls[drop.crawl] for drop in drops],
        }

    def decisions(self, drops: Sequence[Drop]) -> dict[str, list[int]]:
        """Return the columns of decisions."""
        return {
            "outcome": [self.outcomes[drop.outcome] for drop in drops],
            "reason": [self.reasons[drop.reason] for drop in drops],
        }


def activity_of(journal: JournalStore, query: Query, names: Lists) -> dict[str, list[list[int]]]:
    """Count pages by hour, site and reason; empty if the query selects by more than host and time.

    :returns: ``hours``: start in seconds since 1970, stored, dropped; ``sites``: number of the
        host, seen, stored, dropped; ``reasons``: number of the reason, dropped
    """
    by_hour: dict[Any, list[int]] = {}
    by_site: dict[Any, list[int]] = {}
    by_reason: Counter[str] = Counter()
    for hour in _hours(journal, query):
        counts = (hour.seen, hour.stored, sum(hour.dropped.values()))
        for group, place in ((by_hour, hour.hour), (by_site, hour.host)):
            before = group.get(place, (0, 0, 0))
            group[place] = [old + new for old, new in zip(before, counts, strict=True)]
        by_reason.update(hour.dropped)
    return {
        "hours": [[start, *counts[1:]] for start, counts in sorted(by_hour.items())],
        "sites": [[names.hosts[host], *counts] for host, counts in sorted(by_site.items())],
        "reasons": [[names.reasons[name], count] for name, count in by_reason.most_common()],
    }


def _hours(journal: JournalStore, query: Query) -> list[Hour]:
    plain: dict[str, Any] = {"hosts": frozenset(), "since": None, "until": None}
    if attrs.evolve(query, **plain) != Query():
        return []
    return [
        hour
        for hour in journal.hours()
        if (not query.hosts or hour.host in query.hosts)
        and (query.since is None or hour.hour + HOUR > query.since)
        and (query.until is None or hour.hour < query.until)
    ]


def changed_pages(
    journal: JournalStore, changed: Sequence[Drop], names: Lists
) -> dict[str, list[Any]]:
    """Return the columns of changed pages: words ``added`` and ``removed``, numbers that only the
    ``old`` or ``new`` version has; None if the journal did not have the previous version."""
    parts = in_parts(drop.id for drop in changed)
    found = [body and body.change for part in parts for body in journal.bodies(part)]
    return {
        **names.columns(changed),
        "figures": [drop.figures for drop in changed],
        "added": [one and one.added for one in found],
        "removed": [one and one.removed for one in found],
        "old": [one and list(one.old_figures) for one in found],
        "new": [one and list(one.new_figures) for one in found],
    }


def other_journal(
    other: JournalStore, query: Query, drops: Sequence[Drop], limit: int, names: Lists
) -> dict[str, Any]:
    """Return the newest decision of the other journal for each page that it has. A key that is
    among ``drops``, those of the report, is given as the index of its last decision there."""
    entries = other.drops(attrs.evolve(query, limit=limit))
    newest = {drop.key: drop for drop in entries if not is_change(drop)}
    places = {drop.key: place for place, drop in enumerate(drops)}
    found = list(newest.values())
    matches = Names()
    return {
        "name": other.where,
        "total": other.size().drops,
        "activity": activity_of(other, query, names),
        "pages": {
            **names.columns(found),
            **names.decisions(found),
            "key": [places.get(drop.key, drop.key) for drop in found],
            "title": ["" if drop.key in places else drop.title for drop in found],
            "match": [-1 if drop.match is None else matches[drop.match] for drop in found],
        },
        "matches": list(matches),
    }


# In the order of the page; each script depends on those before it.
SCRIPTS = ("words", "reasons", "memory", "dom", "route", "data", "filters", "difference", "files",
           "charts", "overview", "lists", "restore", "decisions", "explorer", "clusters", "changes",
           "comparison", "pair", "review", "start")  # fmt: skip

_HEAD = b"<!doctype html>"


def render(contents: dict[str, Any]) -> str:
    """Render the report as HTML.

    The data are compressed (100,000 decisions are 30 MB otherwise) and written in base64, so no
    text of a page can end a script. Texts and other details are decompressed when first needed.
    Only scripts and styles with known hashes run, so injected markup has no effect.
    """
    script = "\n".join(
        ['"use strict";', "(() => {", *(_asset(f"{name}.js") for name in SCRIPTS), "})();"]
    )
    style = _asset("report.css")
    first = {name: value for name, value in contents.items() if name != "details"}
    return Template(_asset("report.html")).substitute(
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}",
        style=style,
        script=script,
        data=_packed(first),
        details=_packed(contents["details"]),
    )


def write(contents: dict[str, Any], path: Path) -> int:
    """Write the report atomically; an earlier one with this name is replaced.

    :returns: its size in bytes
    :raises DedupError: the file can't be written, or exists and is no report
    """
    page = render(contents).encode()
    with os_errors(f"{path} can't be written", fix="; name another file by -o"):
        if not is_replaceable(path, _HEAD):  # such as a feed or the journal
            raise DedupError(f"{path} exists and is no report: name another file by -o")
        write_whole(path, page)
    return len(page)


def _packed(value: Any) -> str:
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    packed = zlib.compress(raw.encode("utf-8", "replace"), 6)
    return base64.b64encode(packed).decode("ascii")


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text("utf-8").rstrip("\n")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


class Report:
    """A report of what was dropped and why, read from a journal when it is created.

    :param journal: read once; may be closed afterwards
    :param options: those of the crawl, for its method and threshold
    :param against: a journal to compare with
    :param decisions: number of decisions shown, the newest
    :param texts: limit for all texts together, in bytes of UTF-8
    :param filters: select decisions, as for :class:`.Journal`
    :raises ValueError: ``decisions`` is below 1, or ``texts`` below 0
    :raises JournalError: a journal can't be read
    """

    def __init__(
        self,
        journal: Journal,
        *,
        options: Options | None = None,
        against: Journal | None = None,
        decisions: int = 200_000,
        texts: int = 24_000_000,
        **filters: Unpack[Filters],
    ) -> None:
        if decisions < 1 or texts < 0:
            fix = "give 1 or more decisions and 0 or more bytes of texts"
            raise ValueError(f"decisions={decisions} and texts={texts} can't be used: {fix}")
        self.contents: dict[str, Any] = collect(
            journal.open(),
            options or Options(),
            query=query_of(filters, frozenset()),
            decisions=decisions,
            text_bytes=texts,
            other=None if against is None else against.open(),
        )

    @property
    def decisions(self) -> int:
        """Number of decisions shown."""
        return len(self.contents["pages"]["key"])

    def html(self) -> str:
        """The report as one HTML page."""
        return render(self.contents)

    def write(self, path: str | Path) -> int:
        """Write the report, as :func:`write` does."""
        return write(self.contents, Path(path))
