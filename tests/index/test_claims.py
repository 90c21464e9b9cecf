"""Claims, leases, known pages and growing buckets: one suite over every index."""

from __future__ import annotations

import asyncio

import attrs
import numpy as np
import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.index.pages import pages_of
from dedup_middleware.model.buckets import BUCKET_LIMIT
from dedup_middleware.model.claims import MOST_KNOWN, Candidates, Claim, Claimed, Entry, Known
from dedup_middleware.model.records import State, chosen, joined
from tests.index.claiming import BUCKET_KEYS, LEASE, claimed, entered, states
from tests.index.harness import Harness, bucket_keys_of, check_race, entry, in_steps


async def test_claim_writes_one_record_per_bucket_key(index: Index) -> None:
    """A claim appends suffix and page id to the bucket of each of its bucket keys."""
    claim = await claimed(index)
    data = await index.read_buckets(BUCKET_KEYS)
    number = claim.page_id
    for bucket_key, raw in zip(BUCKET_KEYS, data, strict=True):
        suffix = bucket_key.suffix.to_bytes(6 if bucket_key.is_simhash else 3, "little")
        assert raw == number.to_bytes(5, "little") + suffix


async def test_life_of_a_stored_page(index: Index) -> None:
    """A page is pending after its claim, committed after its commit, and counted then."""
    claim = await claimed(index, size=123, address="https://a/1")
    assert await states(index, claim.page_id) == [State.PENDING]
    assert await index.count() == 0
    assert await index.commit(claim)
    found = await index.fetch(np.array([claim.page_id], np.uint64))
    assert found.states.tolist() == [State.COMMITTED]
    assert found.content.tobytes() == entry(BUCKET_KEYS, size=123).content
    assert await index.count() == 1
    assert await index.addresses([claim.page_id]) == ["https://a/1"]


async def test_second_commit_or_release_finds_nothing(index: Index) -> None:
    """A claim ends once; later calls return False and change nothing."""
    claim = await claimed(index)
    assert await index.commit(claim)
    assert not await index.commit(claim)
    assert not await index.release(claim)
    assert await index.renew([claim], LEASE) == [False]
    assert await states(index, claim.page_id) == [State.COMMITTED]
    assert await index.count() == 1


async def test_released_page_stays_released(index: Index) -> None:
    """A released claim can't be committed any more, and its page reads as released."""
    claim = await claimed(index)
    assert await index.release(claim)
    assert await states(index, claim.page_id) == [State.RELEASED]
    assert not await index.commit(claim)
    assert not await index.release(claim)
    assert await index.count() == 0


@pytest.mark.parametrize("operation", ["commit", "release", "renew"])
async def test_only_the_claimant_ends_a_claim(index: Index, operation: str) -> None:
    """A claim of the same number with another token ends or extends nothing."""
    claim = await claimed(index)
    false = Claim(claim.page_id, claim.token ^ 1)
    if operation == "renew":
        assert await index.renew([false], LEASE) == [False]
    else:
        assert not await getattr(index, operation)(false)
    assert await states(index, claim.page_id) == [State.PENDING]
    assert await index.commit(claim)


async def test_renewing_with_another_token_extends_nothing(harness: Harness, index: Index) -> None:
    """Renewing a claim with another token does not extend its lease."""
    claim = await claimed(index)
    assert await index.renew([Claim(claim.page_id, claim.token ^ 1)], 10 * LEASE) == [False]
    harness.advance(LEASE + 1)
    assert await states(index, claim.page_id) == [State.RELEASED]


async def test_lease_runs_out_for_ever(harness: Harness, index: Index) -> None:
    """A page whose lease has run out reads as released, and can never be committed or renewed
    again."""
    claim = await claimed(index)
    harness.advance(LEASE + 1)
    assert await states(index, claim.page_id) == [State.RELEASED]
    harness.advance(-LEASE)
    assert await states(index, claim.page_id) == [State.RELEASED]
    assert await index.renew([claim], LEASE) == [False]
    assert not await index.commit(claim)
    assert not await index.release(claim)
    assert await index.count() == 0


@pytest.mark.parametrize("operation", ["commit", "release", "renew"])
async def test_late_call_is_refused_even_unseen(
    harness: Harness, index: Index, operation: str
) -> None:
    """The end of a lease counts although the page was not read since."""
    claim = await claimed(index)
    harness.advance(LEASE + 1)
    if operation == "renew":
        assert await index.renew([claim], LEASE) == [False]
    else:
        assert not await getattr(index, operation)(claim)
    assert await states(index, claim.page_id) == [State.RELEASED]


async def test_renewed_lease_lasts_longer(harness: Harness, index: Index) -> None:
    """A renewed lease counts from now; each claim has a result of its own."""
    first = await claimed(index)
    second = await claimed(index)
    assert await index.release(second)
    harness.advance(LEASE * 0.7)
    assert await index.renew([first, second], LEASE) == [True, False]
    harness.advance(LEASE * 0.7)
    assert await states(index, first.page_id) == [State.PENDING]
    assert await index.commit(first)
    assert await index.renew([], LEASE) == []


async def not_known(index: Index, known: Known) -> Candidates:
    """Candidates of a page that do not count as known: they block it, or come with its claim."""
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=known)
    assert isinstance(made, Claimed) == in_steps(index)
    if isinstance(made, Claimed):
        assert made.is_mutual
        assert await index.release(made.claim)
        return made.candidates
    return made


async def test_what_is_not_known_blocks_a_claim(harness: Harness, index: Index) -> None:
    """A page that came after the candidates were judged blocks the claim, and nothing is written;
    known too, it does not."""
    other = await harness.client()
    before = await claimed(index)
    found = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [before.page_id]
    first = await claimed(other, bucket_keys_of(2, 0x0123_4567_89AB_CDEF, (5 << 40, 1 << 63)))
    newer = await not_known(index, Known(found.pages))
    assert newer.near.page_ids.tolist() == [first.page_id]
    assert newer.pages.states.tolist() == [State.PENDING]
    if not in_steps(index):
        assert await states(index, first.page_id + 1) == [State.FREE]
    known = Known(joined([found.pages, newer.pages]))
    again = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=known)
    assert isinstance(again, Claimed)
    assert in_steps(index) or again.claim.page_id == first.page_id + 1


async def test_probes_block_a_claim(index: Index) -> None:
    """A page in a bucket of band records that is only looked into blocks a claim, too."""
    held = await claimed(index, BUCKET_KEYS[:1])
    found = await index.propose(entry(BUCKET_KEYS[1:]), 0, LEASE, probes=BUCKET_KEYS[:1])
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [held.page_id]


async def test_page_that_comes_back_to_life_blocks_a_claim(harness: Harness, index: Index) -> None:
    """What was judged as released counts only while it is: a load makes pages of such rows stored
    ones. What was judged as pending or stored is known whatever has become of it."""
    claim = await claimed(index)
    found = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(found, Candidates)
    for state in (State.RELEASED, State.FREE):
        gone = attrs.evolve(found.pages, states=np.full(1, state, np.uint8))
        blocked = await not_known(index, Known(gone))
        assert blocked.pages.states.tolist() == [State.PENDING]
    assert await index.release(claim)
    for judged in (found.pages, gone):
        made = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(judged))
        assert isinstance(made, Claimed)
        await index.release(made.claim)
        await index.compact()


async def test_known_id_of_another_page_blocks_a_claim(index: Index) -> None:
    """An id means the page that was judged: if it now belongs to other content, as after a server
    has lost its last second, the page is not known."""
    claim = await claimed(index, size=7)
    found = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(found, Candidates)
    content = found.pages.content.copy()
    content["sketch"][0, 7] ^= np.uint64(1)
    lost = attrs.evolve(found.pages, content=content)
    blocked = await not_known(index, Known(lost))
    assert blocked.near.page_ids.tolist() == [claim.page_id]
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(found.pages))
    assert isinstance(made, Claimed)


async def test_many_known_pages(index: Index) -> None:
    """A proposal may name thousands of known pages; one that is left out blocks the claim. If there
    are more than can be named, the last id of all is named instead."""
    count = MOST_KNOWN + 3
    bucket_key = BUCKET_KEYS[:1]
    pages = [Entry(bucket_key, entry(bucket_key, size=i).content, None) for i in range(count)]
    await index.load(pages_of(pages))
    every = joined([some async for some in index.pages()])
    ids = every.page_ids.tolist()
    assert in_steps(index) or ids == list(range(1, count + 1))
    with pytest.raises(ValueError, match=f"at most {MOST_KNOWN}"):
        Known(every)
    some = chosen(every, np.arange(count) < MOST_KNOWN)
    found = await index.propose(entry(bucket_key), 0, LEASE, known=Known(some))
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == ids[-3:]
    found = await index.propose(entry(bucket_key), 0, LEASE, known=Known(upto=ids[-2]))
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == ids[-1:]
    first = await index.propose(entry(bucket_key), 0, LEASE)
    assert isinstance(first, Candidates)
    assert first.more
    everything = await index.candidates(bucket_key, 0, 50)
    near = everything.near.page_ids.tolist()
    assert (set(ids) <= set(near)) if in_steps(index) else (near == ids)
    assert everything.more
    # All are found in one table, so these are the first, withdrawn pages of a cluster included.
    assert everything.pages.page_ids.tolist() == near[:50]
    assert isinstance(
        await index.propose(entry(bucket_key), 0, LEASE, known=Known(upto=ids[-1])), Claimed
    )


async def test_candidates_claim_nothing(index: Index) -> None:
    """The candidates of a page can be looked up: records and addresses, and nothing is written."""
    claim = await claimed(index, address="https://a/1")
    before = await index.stats()
    found = await index.candidates(BUCKET_KEYS, 0)
    assert found.near.page_ids.tolist() == [claim.page_id]
    assert found.near.tables.tolist() == [sum(1 << bucket_key.table for bucket_key in BUCKET_KEYS)]
    assert found.pages.states.tolist() == [State.PENDING]
    assert found.addresses == {claim.page_id: "https://a/1"}
    assert not found.more
    elsewhere = bucket_keys_of(77, 0xFFFF_FFFF, (1 << 40, 2 << 40))
    assert len((await index.candidates(elsewhere, 0)).near) == 0
    after = await index.stats()
    assert attrs.evolve(after, bytes=0) == attrs.evolve(before, bytes=0)


@pytest.mark.parametrize("bytes_before", [0, 8, 4080, 4096, 4104, 70_000])
async def test_buckets_of_any_size_grow(harness: Harness, index: Index, bytes_before: int) -> None:
    """Records are appended alike to small and to large buckets."""
    bucket_key = BUCKET_KEYS[0]
    old = np.random.default_rng(7).bytes(bytes_before)
    harness.put_bucket(bucket_key.bucket, old)
    numbers = [(await claimed(index, [bucket_key])).page_id for _ in range(3)]
    suffix = bucket_key.suffix.to_bytes(3, "little")
    expected = old + b"".join(number.to_bytes(5, "little") + suffix for number in numbers)
    assert await index.read_buckets([bucket_key]) == [expected]


async def test_full_bucket_takes_no_more(harness: Harness, index: Index) -> None:
    """At its limit a bucket stays as it is; the page goes into its other buckets."""
    full = BUCKET_LIMIT // BUCKET_KEYS[1].width * BUCKET_KEYS[1].width
    harness.put_bucket(BUCKET_KEYS[1].bucket, bytes(full))
    claim = await claimed(index, BUCKET_KEYS[:3])
    data = await index.read_buckets(BUCKET_KEYS[:3])
    assert list(map(len, data)) == [8, full, 11]
    assert (await index.stats()).overflow == 1
    assert await index.commit(claim)


async def test_racing_claims_have_one_winner(harness: Harness) -> None:
    """Of clients that claim one bucket at the same moment exactly one gets it."""
    clients = [await harness.client() for _ in range(4)]
    outcomes = await asyncio.gather(
        *(client.propose(entry(BUCKET_KEYS), 0, LEASE) for client in clients for _ in range(5))
    )
    assert await clients[0].commit(check_race(clients[0], outcomes))


async def test_many_concurrent_calls(index: Index) -> None:
    """Each of the calls that run at the same time in one process gets its own reply."""

    async def one(key: int) -> Claim:
        bucket_keys = bucket_keys_of(
            key, key << 48 | key << 32 | key << 16 | key, (key << 48, key << 50)
        )
        return await claimed(index, bucket_keys, size=key, address=f"https://a/{key}")

    claims = await asyncio.gather(*(one(key) for key in range(1, 301)))
    assert all(await asyncio.gather(*(index.commit(claim) for claim in claims)))
    numbers = [claim.page_id for claim in claims]
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.content["size"].tolist() == list(range(1, 301))
    assert await index.addresses(numbers) == [f"https://a/{key}" for key in range(1, 301)]
    assert await index.count() == 300


async def test_cancelled_claim_is_given_back(harness: Harness, index: Index) -> None:
    """A claim whose caller is gone blocks no page: it is released as soon as it is made."""
    task = asyncio.ensure_future(index.propose(entry(BUCKET_KEYS), 0, LEASE))
    await asyncio.sleep(0)
    task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(outcome, Claimed):  # the memory index has returned before
        await index.release(outcome.claim)
    await index.close()
    again = await harness.client()
    assert State.PENDING not in await states(again, 1, 2)


@pytest.mark.parametrize("harness", ["sqlite", "redis", "cluster"], indirect=True)
async def test_clock_that_goes_back_by_a_day(harness: Harness) -> None:
    """A lease ends no later than its own length from then on, also that of a process that died;
    that of one that lives is extended as before."""
    index = await harness.client()
    dead, living = await entered(index, entry(BUCKET_KEYS), 50.0), await claimed(index)
    harness.advance(-86_400)
    assert await states(index, dead.page_id, living.page_id) == [State.PENDING] * 2
    harness.advance(25)
    assert await states(index, dead.page_id) == [State.PENDING]
    assert await index.renew([living], LEASE) == [True]
    harness.advance(25.5)
    assert await states(index, dead.page_id, living.page_id) == [State.RELEASED, State.PENDING]
    assert not await index.commit(dead)
    assert await index.commit(living)


async def test_closing_keeps_claims(harness: Harness) -> None:
    """An index that is closed and opened again holds what it held, claims included."""
    first = await harness.client()
    claim = await claimed(first, address="x")
    await first.close()
    await first.close()
    second = await harness.client()
    assert await states(second, claim.page_id) == [State.PENDING]
    assert await second.commit(claim)


async def test_commit_twice_at_the_same_time_counts_once(index: Index) -> None:
    """Of two commits of one claim at the same time one stores the page; others are not held up."""
    claim, other = await claimed(index), await claimed(index)
    gone = Claim(claim.page_id + 1000, 5)
    outcome = await asyncio.gather(*map(index.commit, (claim, claim, gone, other)))
    assert sorted(outcome[:2]) == [False, True]
    assert outcome[2:] == [False, True]
    assert await index.count() == 2
    assert await states(index, claim.page_id, other.page_id) == [State.COMMITTED] * 2
