"""Opens existing indexes, and computes what a crawl would decide about a page."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

import attrs
import numpy as np

from dedup_middleware.base.errors import named_as_given
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import SCHEMES
from dedup_middleware.core.deduplicator import entry_of
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.core.former import FORMER
from dedup_middleware.core.judge import FIRST, names_of, rank, same_keys
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import (
    former_options,
    open_existing,
    open_index,
    options_of_other,
)
from dedup_middleware.index.parameters import HASH_KEY, agree, hash_key_of, window_parameter
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import Neighbours
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.documents import EMPTY, NEW
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.model.records import State


@attrs.frozen
class Compared:
    """A page of the index, compared with the page in question; see :class:`.Match`."""

    key: str | None
    number: int
    state: str  # committed (stored), pending (not stored yet) or released (not stored after all)
    same_key: bool
    duplicate: bool
    reason: str
    similarity: float
    jaccard: float
    distance: int | None
    tables: tuple[str, ...]


@attrs.frozen
class Opinion:
    """What a crawl would decide about a page now: outcome, reason and every comparison."""

    outcome: str  # that of a verdict, or ``waits`` if a similar page is pending
    reason: str
    match: Compared | None
    candidates: tuple[Compared, ...]


@attrs.frozen
class Reader:
    """An open index, its method, and a Fingerprinter with the index's hash key."""

    index: Index
    method: Method
    fingerprinter: Fingerprinter

    async def ask(self, page: Fingerprint) -> Opinion:
        """Return what a crawl would decide about a page."""
        if page.is_empty:
            return Opinion(EMPTY, "no-text", None, ())
        method, index = self.method, self.index
        bucket_keys = (*method.bucket_keys(page), *method.probes(page))
        found = await index.candidates(bucket_keys, method.scan_distance)
        near, records = found.near, found.pages
        if not len(records):
            return Opinion(NEW, FIRST, None, ())
        if found.more:
            keep = np.isin(near.page_ids, records.page_ids)
            near = Neighbours(near.page_ids[keep], near.tables[keep])
        numbers = near.page_ids.tolist()
        payloads = [found.payloads[number] for number in numbers] if method.keeps_payload else ()
        judged = method.judge(page, records.content, payloads)
        same_key = same_keys(page, records)
        compared = [
            Compared(
                key=found.addresses[number],
                number=number,
                state=State(int(records.states[i])).name.lower(),
                same_key=same_key[i],
                duplicate=bool(judged.duplicate[i]),
                reason=judged.reasons[i],
                similarity=round(float(judged.similarity[i]), 4),
                jaccard=round(float(judged.jaccard[i]), 4),
                distance=None
                if page.simhash is None
                else int.bit_count(int(records.content["simhash"][i]) ^ page.simhash),
                tables=names_of(method, int(near.tables[i])),
            )
            for i, number in enumerate(numbers)
        ]
        ranking = rank(judged, records.states.tolist(), same_key)
        ordered = tuple(sorted(compared, key=lambda one: (-one.similarity, one.number)))
        match = None if ranking.match is None else compared[ranking.match]
        outcome = "waits" if ranking.pending else ranking.outcome
        return Opinion(outcome, ranking.reason, match, ordered)

    async def ask_former(self, page: Fingerprint, opinion: Opinion, former: Index) -> Opinion:
        """Return the decision if a former index is searched too; ``opinion``: by this one alone."""
        if opinion.outcome != NEW:
            return opinion
        found = await attrs.evolve(self, index=former).ask(page)
        if found.match is None or (
            found.match.key is not None and await self.page_ids_of(found.match.key)
        ):
            return opinion  # this index has a newer text of that page

        def marked(one: Compared) -> Compared:
            return attrs.evolve(one, tables=(FORMER, *one.tables))

        candidates = (*map(marked, found.candidates), *opinion.candidates)
        return attrs.evolve(found, match=marked(found.match), candidates=candidates)

    def entry(self, page: Fingerprint) -> Entry:
        """Return the entry of a page that is to be entered even if the index has copies of it."""
        return attrs.evolve(entry_of(self.method, self.fingerprinter.options, page), exact=False)

    async def page_ids_of(self, key: str) -> list[int]:
        """Return the ids of the stored pages with this key, ascending."""
        return list(await self.index.lookup(keyed_hash(key, self.fingerprinter.hash_key)))


@contextlib.asynccontextmanager
async def reading_index(options: Options) -> AsyncIterator[Reader]:
    """Open an existing index, which has to have the parameters of the options."""
    async with open_index(options) as index:
        stored = await index.attach()
        # The parameters do not depend on the hash key, which is known only from the index.
        plain = Fingerprinter(options, 0).parameters
        wanted = {**plain, **window_parameter(options.window)}
        fingerprinter = Fingerprinter(options, hash_key_of(stored, options.safe_index_url))
        # Other stored parameters affect neither fingerprints nor the window.
        names = {*wanted, HASH_KEY, *window_parameter(1.0)}
        known = {name: value for name, value in stored.items() if name in names}
        agree(known, wanted, options.safe_index_url)
        yield Reader(index, choose_method(options), fingerprinter)


def former_index(options: Options) -> contextlib.AbstractAsyncContextManager[Index | None]:
    """Open the index that the crawl migrates from (``DEDUP_FORMER_INDEX_URL``); None if not set."""
    if not options.former_index_url:
        return contextlib.nullcontext()
    return existing_index(former_options(options), {"DEDUP_INDEX_URL": "DEDUP_FORMER_INDEX_URL"})


def other_index(
    options: Options, address: str, namespace: str | None, argument: str
) -> contextlib.AbstractAsyncContextManager[Index]:
    """Open an existing index whose address is given by an argument."""
    names = {"DEDUP_INDEX_URL": argument}
    if namespace is not None:
        names["DEDUP_NAMESPACE"] = "--namespace"
    with named_as_given(names):
        other = options_of_other(options, address, namespace)
    return existing_index(other, names)


def is_address(text: str) -> bool:
    """Whether a text is the address of a persistent index and not a file name.

    >>> is_address("sqlite:index.db"), is_address("pages.parquet")
    (True, False)
    """
    return text.startswith(tuple(scheme for scheme in SCHEMES if scheme != "memory:"))


@contextlib.asynccontextmanager
async def existing_index(
    options: Options, names: Mapping[str, str] | None = None
) -> AsyncIterator[Index]:
    """Attach to an existing index, by :func:`.open_existing`."""
    with named_as_given(names or {}):
        index, _ = await open_existing(options)
    async with index:
        yield index
