"""A page is renewed while its row is replaced: its old text does not reappear."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from dedup_middleware import Deduplicator, Document
from dedup_middleware.index import base
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import NOTHING_KNOWN, Candidates, Claim, Claimed, Entry, Known
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.records import PageRecords
from tests.index.harness import Clock
from tests.index.versions import KEY, NEW, OLD, OPTIONS, OTHER, KilledError, Steps


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a page is forgotten by the same task that enters it anew, which must not wait for
    itself."""
    monkeypatch.setattr(base, "_SETTLED", 0.0)


class Interrupted(MemoryIndex):
    """An index in which something else happens between two of its own calls."""

    steps = Steps()

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        await self.steps()
        return await super().read_buckets(bucket_keys)

    async def fetch(self, numbers: NDArray[np.uint64]) -> PageRecords:
        await self.steps()
        return await super().fetch(numbers)

    async def propose(
        self,
        entry: Entry,
        distance: int,
        lease: float,
        probes: tuple[BucketKey, ...] = (),
        known: Known = NOTHING_KNOWN,
    ) -> Claimed | Candidates:
        await self.steps()
        return await super().propose(entry, distance, lease, probes, known)

    async def commit(self, claim: Claim) -> bool:
        await self.steps()
        return await super().commit(claim)


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("fate", ["begun", "stored"])
async def test_renewing_does_not_bring_back_a_replaced_text(at: int, fate: str) -> None:
    """At whatever step of a renewal the page changes, its old text is not entered again."""
    clock = Clock()
    index = Interrupted(window=200.0, clock=clock, wall=clock)
    options = attrs.evolve(OPTIONS, window=200.0, pending_wait=5.0)
    async with Deduplicator(options, index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        (old,) = await index.lookup((await dedup._ready())(Document(KEY, text=OLD)).key_hash)
        bucket_keys = dedup._method.bucket_key_array(
            (await dedup._ready())(Document("https://b/1", text=OLD))
        )
        clock.now += 100.0
        changes: list[Verdict] = []

        async def change() -> None:
            # Without waiting for the renewal, which is this very task.
            index.steps = Steps()
            dedup._driver = attrs.evolve(dedup._driver, pending_wait=0.0)
            changes.append(await dedup.decide(Document(KEY, text=NEW)))
            if fate == "stored":
                await dedup.commit(changes[0])

        index.steps = Steps(at, change)
        await index.refresh(old, bucket_keys)
        index.steps = Steps()
        if not changes:
            return  # a renewal has fewer steps
        if changes[0].outcome == "unchecked":
            # It met the renewal on its way; a crawl waits for that, and then forgets both.
            changes[0] = await dedup.decide(Document(KEY, text=NEW))
        if changes[0].claim is not None and fate == "begun":
            await dedup.commit(changes[0])
        assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"


@pytest.mark.parametrize("at", range(1, 9))
async def test_renewing_does_not_bring_back_a_text_replaced_without_a_claim(at: int) -> None:
    """A duplicate that is kept takes the page's row, at whatever step of its renewal."""
    clock = Clock()
    index = Interrupted(window=200.0, clock=clock, wall=clock)
    async with Deduplicator(attrs.evolve(OPTIONS, window=200.0), index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        await dedup.commit(await dedup.decide(Document("https://two.example/1", text=OTHER)))
        fingerprinter = await dedup._ready()
        (old,) = await index.lookup(fingerprinter(Document(KEY, text=OLD)).key_hash)
        bucket_keys = dedup._method.bucket_key_array(
            fingerprinter(Document("https://b/1", text=OLD))
        )
        clock.now += 100.0

        replaced = False

        async def replace() -> None:
            nonlocal replaced
            replaced, index.steps = True, Steps()
            kept = await dedup.decide(Document(KEY, text=OTHER))
            assert kept.is_duplicate
            await dedup.commit(await dedup.supersede(kept))

        index.steps = Steps(at, replace)
        await index.refresh(old, bucket_keys)
        index.steps = Steps()
        if replaced:  # a renewal has fewer steps
            assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"


class Mortal(Interrupted):
    """An index whose process dies as soon as one of its commits has been carried out."""

    dies = False

    async def commit(self, claim: Claim) -> bool:
        committed = await super().commit(claim)
        if self.dies:
            raise KilledError
        return committed


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("fate", ["stored", "not stored"])
async def test_renewing_that_is_killed_does_not_leave_a_replaced_text(at: int, fate: str) -> None:
    """At whatever step of a renewal the page has changed, no copy of its old text is left by a
    process that dies when it has entered one."""
    clock = Clock()
    index = Mortal(window=200.0, clock=clock, wall=clock)
    async with Deduplicator(attrs.evolve(OPTIONS, window=200.0), index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        fingerprinter = await dedup._ready()
        (old,) = await index.lookup(fingerprinter(Document(KEY, text=OLD)).key_hash)
        copy = fingerprinter(Document("https://b/1", text=OLD))
        clock.now += 100.0
        changed: list[Verdict] = []

        async def change() -> None:
            index.steps = Steps()
            verdict = await dedup.decide(Document(KEY, text=NEW))
            changed.append(verdict)
            await (dedup.commit if fate == "stored" else dedup.release)(verdict)
            index.dies = True

        index.steps = Steps(at, change)
        with contextlib.suppress(KilledError):
            await index.refresh(old, dedup._method.bucket_key_array(copy))
        index.steps, index.dies = Steps(), False
        if not changed or changed[0].claim is None:
            return  # a renewal has fewer steps, or the change has met it on its way
        assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"


class Renewed(MemoryIndex):
    """An index in which another process renews a page while a call to forget it is under way."""

    bucket_keys: Sequence[BucketKey] = ()

    async def forget(self, page_ids: Sequence[int]) -> int:
        bucket_keys, self.bucket_keys = self.bucket_keys, ()
        if bucket_keys:
            assert await self.refresh(page_ids[0], bucket_keys)
        return await super().forget(page_ids)


async def test_renewing_overtakes_a_call_that_forgets() -> None:
    """A duplicate that is kept takes the page's row: the page is forgotten before the duplicate
    goes on to storage, and so is what it was entered anew as meanwhile."""
    clock = Clock()
    index = Renewed(window=200.0, clock=clock, wall=clock)
    async with Deduplicator(attrs.evolve(OPTIONS, window=200.0), index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        await dedup.commit(await dedup.decide(Document("https://two.example/1", text=OTHER)))
        clock.now += 100.0
        kept = await dedup.decide(Document(KEY, text=OTHER))
        assert kept.is_duplicate
        copy = (await dedup._ready())(Document("https://b/1", text=OLD))
        index.bucket_keys = dedup._method.bucket_key_array(copy)
        await dedup.supersede(kept)
        assert not index.bucket_keys
        assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"
