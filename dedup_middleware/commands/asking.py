"""An index that is asked and not changed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import attrs

from dedup_middleware import fingerprint as fp
from dedup_middleware.fingerprint import Fingerprint, Fingerprinter, keyed_hash
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import HASH_KEY, agree, check_hash_key
from dedup_middleware.index.records import State
from dedup_middleware.index.tables import KEY_TABLE
from dedup_middleware.index.window import window_parameter
from dedup_middleware.judging import CHANGED, FIRST, UNCHANGED
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import EXACT
from dedup_middleware.options import Options

WAITS = "waits"
_MASK64 = (1 << 64) - 1


@attrs.frozen
class Compared:
    """A page of the index beside the one that is asked about.

    ``state`` is ``committed`` (stored), ``pending`` (on its way) or ``released`` (not stored after
    all); only the first makes a page a duplicate. The rest is as in
    :class:`~dedup_middleware.fingerprint.Match`.
    """

    key: str | None
    number: int
    state: str
    same_key: bool
    duplicate: bool
    reason: str
    similarity: float
    jaccard: float
    distance: int | None
    tables: tuple[str, ...]


@attrs.frozen
class Opinion:
    """What would be decided of a page at this moment: outcome, reason and each comparison.

    ``outcome`` is one of a verdict, or ``waits``: a like page is on its way to storage.
    """

    outcome: str
    reason: str
    match: Compared | None
    candidates: tuple[Compared, ...]


def _rank(one: Compared) -> tuple[bool, float, bool, int]:
    """In this order the crawl prefers one match to another."""
    return not one.same_key, -one.similarity, one.reason != EXACT, one.number


@attrs.frozen
class Reader:
    """An open index, and what makes fingerprints that fit it."""

    index: Index
    method: Method
    fingerprinter: Fingerprinter

    async def ask(self, page: Fingerprint) -> Opinion:
        """What would be decided of a page."""
        if page.is_empty:
            return Opinion(fp.EMPTY, "no-text", None, ())
        candidates = await self._compare(page)
        stored = [one for one in candidates if one.state == State.COMMITTED.name.lower()]
        alike = [one for one in stored if one.duplicate]
        if alike:
            best = min(alike, key=_rank)
            outcome = fp.REVISIT if best.same_key else fp.DUPLICATE
            return Opinion(outcome, UNCHANGED if best.same_key else best.reason, best, candidates)
        pending = State.PENDING.name.lower()
        if any(one.state == pending and (one.duplicate or one.same_key) for one in candidates):
            return Opinion(WAITS, pending, None, candidates)
        if any(one.same_key for one in stored):
            return Opinion(fp.NEW, CHANGED, None, candidates)
        nearest = max(stored, key=lambda one: one.similarity, default=None)
        return Opinion(fp.NEW, FIRST if nearest is None else nearest.reason, None, candidates)

    async def _compare(self, page: Fingerprint) -> tuple[Compared, ...]:
        """Every page that shares a bucket with it, the most similar first."""
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        method, index = self.method, self.index
        reading = await index.read((*method.slots(page), *method.probes(page)))
        found = neighbours(reading.slots, reading.data, method.scan_distance)
        if not len(found):
            return ()
        satellites = await index.fetch(found.numbers)
        numbers = found.numbers.tolist()
        payloads = await index.payloads(numbers) if method.keeps_payload else ()
        judged = method.judge(page, satellites.content, payloads)
        addresses = await index.addresses(numbers)
        unnamed = fp.is_content_key(page.key)
        compared = []
        for i, number in enumerate(numbers):
            tables = int(found.tables[i])
            content = satellites.content[i]
            compared.append(
                Compared(
                    key=addresses[i],
                    number=number,
                    state=State(int(satellites.states[i])).name.lower(),
                    same_key=not unnamed
                    and bool(tables >> KEY_TABLE & 1)
                    and int(content["key"]) == page.key_hash,
                    duplicate=bool(judged.duplicate[i]),
                    reason=judged.reasons[i],
                    similarity=round(float(judged.similarity[i]), 4),
                    jaccard=round(float(judged.jaccard[i]), 4),
                    distance=None
                    if page.simhash is None
                    else int.bit_count(int(content["simhash"]) ^ page.simhash),
                    tables=tuple(method.table_name(t) for t in range(64) if tables >> t & 1),
                )
            )
        return tuple(sorted(compared, key=lambda one: (-one.similarity, one.number)))

    async def numbers_of(self, key: str) -> list[int]:
        """Numbers of the stored pages that have this key, ascending."""
        return list(await self.index.lookup(keyed_hash(key, self.fingerprinter.hash_key)))


@contextlib.asynccontextmanager
async def reading_index(options: Options) -> AsyncIterator[Reader]:
    """Open an index that exists, as it is.

    :raises DedupError: there is none, it can't be read, or was made with other parameters
    """
    async with open_index(options) as index:
        stored = await index.attach()
        # The parameters do not depend on the key, which is the index's own.
        plain = Fingerprinter(options, 0).parameters
        wanted = {**plain, **window_parameter(options.window)}
        check_hash_key(stored, options.safe_index_url)
        fingerprinter = Fingerprinter(options, int(stored[HASH_KEY], 16) & _MASK64)
        # An index has parameters of its own beside those of the fingerprints and the window.
        names = {*wanted, HASH_KEY, *window_parameter(1.0)}
        known = {name: value for name, value in stored.items() if name in names}
        agree(known, wanted, options.safe_index_url)
        yield Reader(index, choose_method(options), fingerprinter)
