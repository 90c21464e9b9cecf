"""Document in, verdict out; a page is dropped only against one that is stored."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import pytest

from dedup_middleware import Deduplicator, Document, IndexUnavailableError, Options
from dedup_middleware.core.availability import Breaker
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import DUPLICATE, EMPTY, NEW, REVISIT, UNCHECKED
from tests.outages import Counts, UnsteadyIndex, page, stored
from tests.texts import article, english

OPTIONS = Options(index_url="memory:", pending_wait=5.0)


async def until_committed(index: MemoryIndex, pages: int) -> None:
    """Wait until so many pages are committed."""
    deadline = time.monotonic() + 600
    while await index.count() < pages:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_copy_of_a_stored_page_is_a_duplicate() -> None:
    """The verdict names the stored page, how similar it is, and why."""
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/1", article(1)))
        verdict = await dedup.decide(page("b/1", article(1)))
        assert verdict.is_duplicate
        assert verdict.reason == "exact-copy"
        assert verdict.match is not None
        assert verdict.match.key == "https://a/1"
        assert verdict.match.similarity == 1.0
        assert verdict.match.distance == 0
        assert "simhash/0" in verdict.match.tables
        assert "https://a/1" in str(verdict)


async def test_objects_of_other_types_are_refused() -> None:
    """Methods that take a verdict refuse its claim or key, and those that take a page refuse a
    text, with a message that says so; the claim can still be committed."""
    async with Deduplicator(OPTIONS) as dedup:
        verdict = await dedup.decide(page("a/1", article(1)))
        calls: list[Callable[[Any], Awaitable[object]]] = [
            dedup.commit, dedup.release, dedup.supersede, dedup.superseded
        ]  # fmt: skip
        for call in calls:
            for wrong in (verdict.claim, verdict.key, None):
                with pytest.raises(TypeError, match=r"needs a Verdict that decide\(\) returned"):
                    await call(wrong)
        with pytest.raises(TypeError, match=r"decide needs a Document, as .* this is a str"):
            await dedup.decide(article(1))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="needs a Fingerprint; this is a Document"):
            await dedup.decide_fingerprint(page("a/1", article(1)))  # type: ignore[arg-type]
        assert await dedup.commit(verdict)
        assert (await dedup.decide(page("b/1", article(1)))).is_duplicate


@pytest.mark.parametrize("text", [article(3, 20), english(3)], ids=["chinese", "english"])
async def test_light_edit_is_a_near_duplicate(text: str) -> None:
    """A page with a note in front is found, which an exact hash would miss."""
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/1", text))
        verdict = await dedup.decide(page("b/1", "本报讯 " + text + " 责任编辑"))
        assert verdict.is_duplicate
        assert verdict.reason == "near-duplicate"
        assert verdict.match is not None
        assert 0.8 <= verdict.match.similarity < 1.0 or verdict.match.similarity == 1.0


async def test_other_page_is_new() -> None:
    """Pages that share words but not their order are kept apart."""
    async with Deduplicator(OPTIONS) as dedup:
        for seed in range(20):
            await stored(dedup, page(f"a/{seed}", article(seed)))


async def test_excerpt_is_a_duplicate_but_the_longer_page_is_not() -> None:
    """What adds nothing is dropped; a page that says much more than the stored one is kept."""
    long, excerpt, short = article(5, 40), article(5, 36), article(5, 28)
    assert long.startswith(excerpt)
    assert excerpt.startswith(short)
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/long", long))
        assert (await dedup.decide(page("b/excerpt", excerpt))).is_duplicate
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/short", short))
        await stored(dedup, page("b/long", long))


async def test_other_figures_make_another_page() -> None:
    """Bulletins on one template that differ only in their figures are all stored."""
    template = article(7, 30) + "今日最高气温{}度，水位{}米。"
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/1", template.format(31, "12.5")))
        verdict = await dedup.decide(page("a/2", template.format(28, "11.9")))
        assert verdict.outcome == NEW
        assert verdict.reason == "other-figures"


async def test_page_seen_again_is_a_revisit() -> None:
    """The same key with the same text is no duplicate of another page."""
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/1", article(1)))
        verdict = await dedup.decide(page("a/1", article(1)))
        assert verdict.outcome == REVISIT
        assert verdict.is_revisit
        assert not verdict.is_duplicate
        assert verdict.match is not None
        assert verdict.match.key == "https://a/1"


async def test_page_that_changed_is_stored_again() -> None:
    """The same key with another text is new, and then known by that text; by both if storage keeps
    versions."""
    for versions, known in (("replace", False), ("keep", True)):
        async with Deduplicator(attrs.evolve(OPTIONS, versions=versions)) as dedup:
            await stored(dedup, page("a/1", article(1)))
            changed = await dedup.decide(page("a/1", article(2)))
            assert (changed.outcome, changed.reason) == (NEW, "changed")
            assert changed.earlier == (1,)
            await dedup.commit(changed)
            assert (await dedup.decide(page("b/1", article(2)))).is_duplicate
            assert (await dedup.decide(page("b/2", article(1)))).is_duplicate is known


@pytest.mark.parametrize("text", ["", "   \n", "。！？——", "\u200b\ufeff"])
async def test_pages_without_text_are_never_duplicates(text: str) -> None:
    """An empty page has no content, so no other page is like it."""
    async with Deduplicator(OPTIONS) as dedup:
        for key in ("a/1", "b/1", "b/1"):
            verdict = await dedup.decide(page(key, text))
            assert verdict.outcome == EMPTY
            assert await dedup.commit(verdict)


async def test_short_pages_are_compared_by_their_exact_text_and_title() -> None:
    """A caption is a duplicate only of the very same caption under the same title."""
    caption = "渔船在清晨返回码头"
    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, page("a/1", caption, title="早归"))
        assert (await dedup.decide(page("b/1", caption + "。", title="早归"))).is_duplicate
        await stored(dedup, page("b/2", caption, title="另一张照片"))
        await stored(dedup, page("b/3", "渔船在傍晚返回码头", title="早归"))


async def test_nothing_is_dropped_against_a_page_that_was_not_stored() -> None:
    """After a release the next copy is new."""
    async with Deduplicator(OPTIONS) as dedup:
        verdict = await dedup.decide(page("a/1", article(1)))
        await dedup.release(verdict)
        await stored(dedup, page("b/1", article(1)))


async def test_copy_waits_for_the_page_that_is_being_stored() -> None:
    """While a like page is on its way to storage the copy waits, without blocking others."""
    async with Deduplicator(OPTIONS) as dedup:
        first = await dedup.decide(page("a/1", article(1)))
        copy = asyncio.create_task(dedup.decide(page("b/1", article(1))))
        await stored(dedup, page("c/1", article(2)))
        assert not copy.done()
        await dedup.commit(first)
        assert (await copy).is_duplicate


async def test_copy_takes_the_place_of_a_page_that_failed() -> None:
    """When the page that is waited for is not stored, the copy is."""
    async with Deduplicator(OPTIONS) as dedup:
        first = await dedup.decide(page("a/1", article(1)))
        copy = asyncio.create_task(dedup.decide(page("b/1", article(1))))
        await asyncio.sleep(0.05)
        await dedup.release(first)
        assert (await copy).outcome == NEW


async def test_what_is_forgotten_during_a_wait_is_judged_as_gone() -> None:
    """A stored page that storage replaces while another page waits no longer counts as stored when
    that page is judged."""
    index = MemoryIndex()
    async with Deduplicator(OPTIONS, index=index) as dedup:
        await stored(dedup, page("a/1", article(2)))
        first = await dedup.decide(page("b/1", article(1)))
        waits = asyncio.create_task(dedup.decide(page("a/1", article(1))))
        await asyncio.sleep(0.05)
        assert await index.forget([1]) == 1
        await dedup.release(first)
        verdict = await waits
        assert (verdict.outcome, verdict.reason, verdict.earlier) == (NEW, "nothing-alike", ())


@pytest.mark.parametrize("seed", range(3))
async def test_of_racing_copies_exactly_one_is_stored(seed: int) -> None:
    """60 concurrent decisions on 6 articles, some failing in storage: each is stored once."""
    rng = random.Random(seed)
    kept: Counter[int] = Counter()
    async with Deduplicator(OPTIONS) as dedup:

        async def arrive(number: int, copy: int) -> None:
            await asyncio.sleep(rng.random() * 0.01)
            verdict = await dedup.decide(page(f"{copy}/{number}", article(number)))
            if verdict.outcome == NEW:
                await asyncio.sleep(rng.random() * 0.02)
                if copy == 0 and number % 2:
                    await dedup.release(verdict)
                else:
                    await dedup.commit(verdict)
                    kept[number] += 1
            else:
                assert verdict.outcome == DUPLICATE

        await asyncio.gather(*(arrive(n, c) for n in range(6) for c in range(10)))
    assert kept == dict.fromkeys(range(6), 1)


async def test_waiting_ends() -> None:
    """A page that waits too long goes by unchecked instead of blocking the crawl."""
    counts = Counts()
    options = Options(index_url="memory:", pending_wait=0.1)
    async with Deduplicator(options, count=counts) as dedup:
        first = await dedup.decide(page("a/1", article(1)))
        verdict = await dedup.decide(page("b/1", article(1)))
        assert (verdict.outcome, verdict.reason) == (UNCHECKED, "pending-timeout")
        await dedup.commit(first)
        await dedup.commit(verdict)
    assert counts.of["stored-twice"] == 1


async def test_lease_of_a_slow_page_is_extended() -> None:
    """Storing may take longer than the lease as long as the process lives."""
    now = [0.0]
    renewed = asyncio.Event()

    class Renewing(MemoryIndex):
        async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
            renewed.set()
            return await super().renew(claims, lease)

    options = Options(index_url="memory:", lease=0.1, pending_wait=60)
    index = Renewing(clock=lambda: now[0])
    async with Deduplicator(options, index=index) as dedup:
        slow = await dedup.decide(page("a/1", article(1)))
        copy = asyncio.create_task(dedup.decide(page("b/1", article(1))))
        for _ in range(3):
            now[0] += 0.08
            renewed.clear()
            await renewed.wait()
        assert not copy.done()
        assert await dedup.commit(slow)
        assert (await copy).is_duplicate


async def test_page_of_a_dead_process_can_be_claimed_after_its_lease() -> None:
    """A claim that is not renewed blocks a like page no longer than the lease."""
    index = MemoryIndex()
    options = Options(index_url="memory:", lease=0.2, pending_wait=60)
    dead = Deduplicator(options, index=index)
    await dead.open()
    lost = await dead.decide(page("a/1", article(1)))
    assert dead._heartbeat is not None
    dead._heartbeat.cancel()
    alive = Deduplicator(options, index=index)
    await stored(alive, page("b/1", article(1)))
    # The dead process returns: its page is stored, but another one holds the claim.
    assert not await dead.commit(lost)
    await alive.close()


async def test_open_claims_are_given_back_at_the_end() -> None:
    """What is neither committed nor released when the crawl ends blocks no page."""
    index = MemoryIndex()
    counts = Counts()
    first = Deduplicator(OPTIONS, index=index, count=counts)
    await first.decide(page("a/1", article(1)))
    await first.close()
    assert counts.of["claim/unresolved"] == 1
    second = Deduplicator(OPTIONS, index=index)
    await stored(second, page("b/1", article(1)))
    await second.close()


async def test_pages_go_by_while_the_index_is_down_and_are_checked_later() -> None:
    """No page is lost or held up; when the index is back it gets the pages that passed."""
    index, counts, now = UnsteadyIndex(), Counts(), [1000.0]
    dedup = Deduplicator(OPTIONS, index=index, count=counts)
    dedup._outage.breaker = Breaker(lambda: now[0])
    index.down = True
    with pytest.raises(IndexUnavailableError):
        await dedup.open()
    for number in range(5):
        verdict = await dedup.decide(page(f"a/{number}", article(number)))
        assert verdict.outcome == UNCHECKED
        assert not verdict.is_duplicate
        assert await dedup.commit(verdict)
    assert index.calls < 5  # not every page calls the index
    index.down = False
    now[0] += 0.6
    await stored(dedup, page("b/9", article(9)))
    await until_committed(index, 6)
    for number in range(5):
        assert (await dedup.decide(page(f"b/{number}", article(number)))).is_duplicate
    await dedup.close()
    assert counts.of["unchecked"] == 5


async def test_pages_that_wait_for_one_opening_fail_with_it() -> None:
    """Pages that wait for an index that can't be opened fail after one common attempt, not after
    one attempt each: such a crawl decided one page every few seconds."""
    attempts = 0

    class Closed(MemoryIndex):
        async def open(self, _parameters: Any) -> dict[str, str]:
            nonlocal attempts
            attempts += 1
            await asyncio.sleep(0.05)
            raise IndexUnavailableError("it takes its time to say no")

    async with contextlib.AsyncExitStack() as stack:
        dedup = Deduplicator(OPTIONS, index=Closed())
        stack.push_async_callback(dedup.close)
        pages = [page(f"a/{number}", article(number)) for number in range(20)]
        verdicts = await asyncio.gather(*map(dedup.decide, pages))
        assert {verdict.outcome for verdict in verdicts} == {UNCHECKED}
        assert attempts == 1


async def test_commit_that_the_index_missed_is_made_good() -> None:
    """A page stored while the index was cut off is committed when it is back."""
    index, now = UnsteadyIndex(), [1000.0]
    dedup = Deduplicator(OPTIONS, index=index)
    dedup._outage.breaker = Breaker(lambda: now[0])
    await dedup.open()
    verdict = await dedup.decide(page("a/1", article(1)))
    index.down = True
    assert await dedup.commit(verdict)
    index.down = False
    now[0] += 0.6
    await stored(dedup, page("c/1", article(2)))
    await until_committed(index, 2)
    assert (await dedup.decide(page("b/1", article(1)))).is_duplicate
    await dedup.close()


async def test_html_is_extracted() -> None:
    """A document may bring its HTML instead of its text; chrome around it does not matter."""
    text = article(4, 25)

    def html(menu: str) -> bytes:
        return (
            f"<html><head><meta charset=utf-8><title>标题</title></head><body><nav>{menu}</nav>"
            f"<article><h1>标题</h1><p>{text}</p></article></body></html>"
        ).encode()

    async with Deduplicator(OPTIONS) as dedup:
        await stored(dedup, Document(key="https://a/1", html=html("首页 新闻 体育")))
        verdict = await dedup.decide(Document(key="https://b/1", html=html("登录 注册 关于我们")))
        assert verdict.is_duplicate


async def test_hash_key_is_the_indexs_own() -> None:
    """Two indexes hash alike pages differently, so that buckets can't be aimed at."""
    fingerprints = []
    for _ in range(2):
        async with Deduplicator(OPTIONS) as dedup:
            verdict = await dedup.decide(page("a/1", article(1)))
            assert verdict.fingerprint is not None
            fingerprints.append(verdict.fingerprint)
    assert fingerprints[0].simhash != fingerprints[1].simhash
    assert fingerprints[0].key_hash != fingerprints[1].key_hash


async def test_pages_expire_unless_they_are_seen_again() -> None:
    """With DEDUP_WINDOW a page is forgotten after its time; a copy in between renews it."""
    now = [1_000_000.0]
    options = Options(index_url="memory:", window=100.0)
    index = MemoryIndex(window=100.0, clock=lambda: now[0])
    counts = Counts()
    dedup = Deduplicator(options, index=index, count=counts)
    await dedup.open()
    await stored(dedup, page("a/seen", article(1)))
    await stored(dedup, page("a/unseen", article(2)))
    now[0] += 110
    assert (await dedup.decide(page("b/seen", article(1)))).is_duplicate
    assert counts.of["renewed"] == 1
    # Once per generation, not for each copy: the copies name the page by its old id.
    for number in range(5):
        assert (await dedup.decide(page(f"b/{number}", article(1)))).is_duplicate
    assert (counts.of["renewed"], await index.count()) == (1, 3)
    now[0] += 90
    assert (await dedup.decide(page("c/seen", article(1)))).is_duplicate
    await stored(dedup, page("c/unseen", article(2)))
    await dedup.close()


async def test_fingerprints_are_decided_as_their_documents_are() -> None:
    """A page given by its fingerprint gets the verdict that its document gets, and is counted and
    committed alike."""
    documents = [page(f"{host}/{seed}", article(seed)) for seed in range(6) for host in "ab"]
    make = Fingerprinter(OPTIONS, 1)
    options = attrs.evolve(OPTIONS, hash_key="1")
    counts = Counts(), Counts()
    verdicts = []
    for by_fingerprint, count in zip((False, True), counts, strict=True):
        async with Deduplicator(options, count=count) as dedup:
            made = []
            for document in documents:
                if by_fingerprint:
                    verdict = await dedup.decide_fingerprint(make(document))
                else:
                    verdict = await dedup.decide(document)
                assert await dedup.commit(verdict)
                made.append(verdict)
            verdicts.append(made)
    assert [str(one) for one in verdicts[0]] == [str(one) for one in verdicts[1]]
    assert [one.match for one in verdicts[0]] == [one.match for one in verdicts[1]]
    assert [one.document for one in verdicts[1]] == [None] * len(documents)
    for name in ("pages", "new", "duplicate", "reason/exact-copy", "candidates", "committed"):
        assert counts[0].of[name] == counts[1].of[name] > 0
    assert counts[1].of["duplicate"] == 6


async def test_fingerprint_that_could_not_be_checked_is_entered_later() -> None:
    """While the index is away a fingerprint is let through and remembered; it is put into the index
    when that is back, and found by its copies."""
    index, now = UnsteadyIndex(), [1000.0]
    options = attrs.evolve(OPTIONS, hash_key="1")
    make = Fingerprinter(options, 1)
    async with Deduplicator(options, index=index) as dedup:
        dedup._outage.breaker = Breaker(lambda: now[0])
        index.down = True
        verdict = await dedup.decide_fingerprint(make(page("a/1", article(1))))
        assert (verdict.outcome, verdict.reason) == (UNCHECKED, "index-unavailable")
        assert await dedup.commit(verdict)
        index.down = False
        now[0] += 0.6
        await dedup.commit(await dedup.decide_fingerprint(make(page("a/2", article(2)))))
        await until_committed(index, 2)
        copy = await dedup.decide_fingerprint(make(page("b/1", article(1))))
        assert copy.is_duplicate
        assert copy.match is not None
        assert copy.match.key == "https://a/1"
        empty = await dedup.decide_fingerprint(make(page("b/2", "")))
        assert empty.outcome == EMPTY


async def test_many_in_one_process_leave_garbage_to_be_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the first one, which may load or compile the kernels, has the collector of cycles count
    anew: else a process of many crawls would keep the garbage of each of them."""
    frozen = 0

    def freeze() -> None:
        nonlocal frozen
        frozen += 1

    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)  # conftest.py has frozen the tests
    monkeypatch.setattr(gc, "freeze", freeze)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
    for lease in (61.0, 62.0, 63.0):  # tests use the kernels once for options that are equal
        async with Deduplicator(attrs.evolve(OPTIONS, lease=lease)):
            pass
    assert frozen <= 1


async def test_a_closed_one_is_freed() -> None:
    """The index of a closed deduplicator is freed at once, not by the next collection of cycles."""
    gc.disable()
    try:
        async with Deduplicator(OPTIONS) as deduplicator:
            await deduplicator.commit(await deduplicator.decide(Document("a", text=english(3))))
            freed = weakref.ref(deduplicator)
        del deduplicator
        for _ in range(1000):  # a thread may still hold what it ran last
            if freed() is None:
                break
            await asyncio.sleep(0.01)
        assert freed() is None
    finally:
        gc.enable()
