"""Drives one page through the index: propose, judge, settle, wait or propose again."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.core.availability import Count, FaultLog
from dedup_middleware.core.former import FORMER, Former
from dedup_middleware.core.judge import NOTHING_ALIKE, Ruling, judge
from dedup_middleware.core.settlement import OpenClaims
from dedup_middleware.index.base import MOST_JUDGED, Index, release_soon, release_surely
from dedup_middleware.methods.base import Method
from dedup_middleware.model.buckets import NO_NEIGHBOURS, BucketKey, Neighbours, most_met, united
from dedup_middleware.model.claims import (
    NO_CANDIDATES,
    NOTHING_KNOWN,
    Candidates,
    Claim,
    Claimed,
    Entry,
    Known,
)
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import in_a_line
from dedup_middleware.model.records import CONTENT, NO_PAGES, PageRecords, State, chosen, joined

logger = logging.getLogger(__name__)

_FLOOD = "look at what the host of these pages publishes"
_FIRST_POLL = 0.02  # seconds
_LONGEST_POLL = 0.5
_MOST_PROPOSALS = 1000  # of one page


@attrs.define(eq=False)
class Gathered:
    """Candidates of one page, each once, with their newest page records.

    All are judged together: only then is text that several pages of one host share recognised.
    Of more than `MOST_JUDGED`, only those found in most tables are judged.
    """

    near: Neighbours = NO_NEIGHBOURS
    records: PageRecords = NO_PAGES
    addresses: dict[int, str | None] = attrs.field(factory=dict)
    payloads: dict[int, bytes] = attrs.field(factory=dict)
    full: int = 0  # full buckets among those of the page
    upto: int = 0  # all ids up to this one count as judged, because too many were found
    _own: PageRecords = NO_PAGES

    @property
    def missing(self) -> NDArray[np.uint64]:
        """Ids of candidates without a page record."""
        if len(self.records) == len(self.near):
            return NO_PAGES.page_ids
        return np.setdiff1d(self.near.page_ids, self.records.page_ids, assume_unique=True)

    def give_back(self, page_id: int, content: NDArray[np.void]) -> None:
        """Note a released claim of the page itself: it is no candidate and blocks no claim.

        :param content: CONTENT[1]
        """
        released = np.array([State.RELEASED], np.uint8)
        own = PageRecords(np.array([page_id], np.uint64), content, released)
        self._own = joined([self._own, own])

    def add(self, found: Candidates, before: int | None = None) -> None:
        """Add the candidates of a reply of the index.

        :param before: add only smaller page ids, as pages claimed later yield to this claim
        """
        self.full = max(self.full, found.near.full)
        near, records = found.near, found.pages
        if before is not None or len(self._own):
            keep = ~np.isin(near.page_ids, self._own.page_ids)
            if before is not None:
                keep &= near.page_ids < np.uint64(before)
            near = near.chosen(keep)
            records = chosen(records, np.isin(records.page_ids, near.page_ids))
        if len(near):
            self.near = united(self.near, near) if len(self.near) else near
        self.update(records)
        self.addresses.update(found.addresses)
        self.payloads.update(found.payloads)
        if len(self.near) > MOST_JUDGED:
            self._cut()

    def update(self, records: PageRecords) -> None:
        """Add page records, replacing older records of the same pages."""
        if not len(records):
            return
        if len(self.records):
            self._forget_replaced(records)
            rest = chosen(self.records, ~np.isin(self.records.page_ids, records.page_ids))
            records = joined([rest, records])
            records = chosen(records, np.argsort(records.page_ids))
        self.records = records

    def _forget_replaced(self, records: PageRecords) -> None:
        """Drop address and payload of page ids that now belong to other pages: a server that comes
        back in an older state assigns ids again."""
        held = {page_id: row for row, page_id in enumerate(self.records.page_ids.tolist())}
        for row, page_id in enumerate(records.page_ids.tolist()):
            at = held.get(page_id)
            if at is None:
                continue
            if self.records.content[at].tobytes() != records.content[row].tobytes():
                self.addresses.pop(page_id, None)
                self.payloads.pop(page_id, None)

    def without_payload(self, page_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Select the page ids whose payload was not fetched yet."""
        lacking = [page_id for page_id in page_ids.tolist() if page_id not in self.payloads]
        return np.array(lacking, np.uint64)

    def described(self) -> Neighbours:
        """Candidates that have a page record, in the order of :attr:`records`."""
        if len(self.records) == len(self.near):
            return self.near
        return self.near.chosen(np.isin(self.near.page_ids, self.records.page_ids))

    def known(self) -> Known:
        """The argument ``known`` of the next proposal: these candidates do not decide the page."""
        pages = joined([self.records, self._own]) if len(self._own) else self.records
        if self.upto:
            pages = chosen(pages, pages.page_ids > np.uint64(self.upto))
        return Known(pages, self.missing, self.upto)

    def _cut(self) -> None:
        """Keep the `MOST_JUDGED` candidates found in most tables; the others count as judged."""
        self.upto = max(self.upto, int(self.near.page_ids[-1]))
        self.near = most_met(self.near, MOST_JUDGED)
        self.records = chosen(self.records, np.isin(self.records.page_ids, self.near.page_ids))


@attrs.frozen
class Driver:
    """Decides pages against one index by one method.

    :param claims: open claims of this process, to notice at once when one is settled
    :param lease: seconds until a claim without a commit expires
    :param pending_wait: most seconds that a page waits for similar pending pages
    :param former: a former index, whose pages are carried over when they decide a page
    """

    index: Index
    method: Method
    count: Count
    claims: OpenClaims = attrs.field(factory=OpenClaims)
    lease: float = 60.0
    pending_wait: float = 10.0
    former: Former | None = None
    faults: FaultLog = attrs.field(factory=lambda: FaultLog(logger, time.monotonic))

    async def decide(self, page: Fingerprint, entry: Entry) -> tuple[Ruling, Claim | None]:
        """Decide a page, and claim it if it is new.

        :returns: ruling and claim; neither match nor claim if a similar page was pending for too
            long, or if each of ``_MOST_PROPOSALS`` proposals found new candidates
        """
        return await _Decision(self, page, entry, self.method.probes(page)).run()


@attrs.define(eq=False)
class _Decision:
    _driver: Driver
    _page: Fingerprint
    _entry: Entry
    _probes: tuple[BucketKey, ...]
    _found: Gathered = attrs.field(factory=Gathered)
    _carried: Candidates = NO_CANDIDATES
    _deadline: float = 0.0
    _poll: float = _FIRST_POLL
    _flood_is_logged: bool = False

    async def run(self) -> tuple[Ruling, Claim | None]:
        """Decide the page, after looking it up in the former index if there is one."""
        former = self._driver.former
        if former is None:
            return await self._decide()
        self._carried, own = await former.carry_over(self._page, self._entry, self._probes)
        ruling, claim = await self._decide()
        if claim is not None and own:
            try:
                await former.forget(self._page, own)
            except BaseException:
                release_soon(self._driver.index, claim)
                raise
        return ruling, claim

    async def _decide(self) -> tuple[Ruling, Claim | None]:
        """Propose the page until it is claimed, has a match, or has waited too long."""
        driver, found = self._driver, self._found
        known, ruling = NOTHING_KNOWN, NOTHING_ALIKE
        if self._carried is not NO_CANDIDATES:
            found.add(self._carried)
            ruling = self._judge()
            if ruling.match is not None:
                return await self._named(ruling), None
            known = found.known()
        for _ in range(_MOST_PROPOSALS):
            made = await driver.index.propose(
                self._entry, driver.method.scan_distance, driver.lease, self._probes, known
            )
            if isinstance(made, Claimed):
                if made.candidates is NO_CANDIDATES and not known:
                    return NOTHING_ALIKE, made.claim
                ruling = await self._with_claim(made, ruling)
                if ruling.match is None and not ruling.pending:
                    return await self._with_names(ruling, made.claim), made.claim
                found.give_back(made.claim.page_id, np.frombuffer(self._entry.content, CONTENT))
            else:
                if known:
                    driver.count("claim/retry", 1)
                await self._take(made)
                keeps = driver.method.keeps_payload
                lacking = keeps and len(found.without_payload(found.records.page_ids))
                ruling = await self._judge_all() if lacking else self._judge()
                if len(found.missing) and (ruling.match is not None or ruling.pending):
                    ruling = await self._judge_all()
            while ruling.pending and ruling.match is None:
                if not await self._wait(ruling):
                    return ruling, None
                ruling = await self._judge_all()
            if ruling.match is not None:
                return await self._named(ruling), None
            known = found.known()
        # Each proposal found new candidates: better stored unchecked than delayed for ever.
        return NOTHING_ALIKE, None

    async def _with_claim(self, made: Claimed, ruling: Ruling) -> Ruling:
        """Judge a claimed page, and release its claim unless it is new."""
        driver = self._driver
        try:
            if made.candidates is not NO_CANDIDATES or len(self._found.missing):
                own = made.claim.page_id
                await self._take(made.candidates, None if made.is_mutual else own)
                ruling = await self._judge_all()
                # Pages with smaller ids keep their claims, or wait for others. So a page that keeps
                # its claim waits for greater ids only, and no pages wait in a circle.
                while (
                    made.is_mutual and ruling.match is None and min(ruling.pending, default=0) > own
                ):
                    driver.claims.add(made.claim)  # its lease is extended meanwhile
                    if not await self._wait(ruling):
                        break
                    ruling = await self._judge_all()
        except BaseException:
            release_soon(driver.index, made.claim)
            raise
        finally:
            driver.claims.settle(made.claim)
        if ruling.match is not None or ruling.pending:
            # A similar page was found after the claim was granted, so the claim must not stay.
            await release_surely(driver.index, made.claim)
        return ruling

    async def _take(self, made: Candidates, before: int | None = None) -> None:
        """Add the candidates of a reply; if it holds only some of them, read all of them first."""
        driver, found = self._driver, self._found
        if made.near.corrupt:
            driver.count("corrupt/bytes", made.near.corrupt)
        if made.more:
            bucket_keys: Sequence[BucketKey] = (*self._entry.bucket_keys, *self._probes)
            distance = driver.method.scan_distance
            made = await driver.index.candidates(bucket_keys, distance)
        total = len(made.near)
        found.add(made, before)
        if found.upto:
            if not self._flood_is_logged:
                driver.count("candidates/cut", 1)
            self._log_flood(f"{total} candidates")
        elif found.full:
            self._log_flood(f"{found.full} full buckets")

    def _log_flood(self, met: str) -> None:
        """Count and log a flood, once per page; ``met``: number and kind of what was found."""
        if not self._flood_is_logged:
            self._flood_is_logged = True
            self._driver.count("flood", 1)
            self._driver.faults.warn(
                _FLOOD,
                "Flood: %s met %s. Either pages are crafted to fill one bucket of the index, or "
                "many pages share a template. A decision takes no longer than reading full buckets "
                "does, and similar pages are still found by other tables",
                in_a_line(self._page.key),
                met,
            )

    async def _judge_all(self) -> Ruling:
        """Fetch missing page records and payloads, then judge all candidates."""
        driver, found = self._driver, self._found
        if driver.method.keeps_payload:
            wanted = found.without_payload(found.near.page_ids)
            if len(wanted):
                seen = await driver.index.look(wanted)
                found.update(seen.records)
                found.payloads.update(zip(wanted.tolist(), seen.payloads, strict=True))
        elif len(found.missing):
            found.update(await driver.index.fetch(found.missing))
        return self._judge()

    def _judge(self) -> Ruling:
        """Judge the candidates that have a page record."""
        driver, found = self._driver, self._found
        near = found.described()
        if not len(near):
            return NOTHING_ALIKE
        driver.count("candidates", len(near))
        payloads: Sequence[bytes] = ()
        if driver.method.keeps_payload:
            payloads = [found.payloads[page_id] for page_id in near.page_ids.tolist()]
        return judge(driver.method, self._page, near, found.records, found.addresses, payloads)

    async def _wait(self, ruling: Ruling) -> bool:
        """Wait until one of the pending pages may be settled; False if the time is up."""
        driver, now = self._driver, time.monotonic()
        self._deadline = self._deadline or now + driver.pending_wait
        left = min(self._deadline, driver.claims.waits_end) - now
        if left <= 0:
            return False
        driver.count("pending/wait", 1)
        await driver.claims.wait(ruling.pending, min(self._poll, left))
        self._poll = min(self._poll * 2, _LONGEST_POLL)
        # Not only of the pending ones: a stored one may have been replaced and forgotten meanwhile.
        self._found.update(await driver.index.fetch(self._found.records.page_ids))
        return True

    async def _with_names(self, ruling: Ruling, claim: Claim) -> Ruling:
        """Add the addresses of superseded pages to the ruling on a claimed page."""
        held, addresses = ruling.supersedes, self._found.addresses
        missing = [one.number for one in held if one.number not in addresses]
        if not missing:
            return ruling
        try:
            found = await self._driver.index.addresses(missing)
        except IndexUnavailableError:
            return attrs.evolve(ruling, supersedes=())  # the page has its claim all the same
        except BaseException:
            release_soon(self._driver.index, claim)
            raise
        addresses.update(zip(missing, found, strict=True))
        named = tuple([attrs.evolve(one, key=addresses[one.number]) for one in held])
        return attrs.evolve(ruling, supersedes=named)

    async def _named(self, ruling: Ruling) -> Ruling:
        """Add the address of the match to a ruling."""
        match, addresses = ruling.match, self._found.addresses
        if match is None:
            return ruling
        if match.number in self._carried.near.page_ids:
            self._driver.count("former/found", 1)
            match = attrs.evolve(match, tables=(FORMER, *match.tables))
            ruling = attrs.evolve(ruling, match=match)
        if ruling.same_key or match.number in addresses:
            return ruling
        (addresses[match.number],) = await self._driver.index.addresses([match.number])
        return attrs.evolve(ruling, match=attrs.evolve(match, key=addresses[match.number]))
