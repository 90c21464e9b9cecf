"""An exact copy settles a page by its key and one of its bands."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.core.driver import Driver
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.base import Index
from dedup_middleware.index.parameters import RECORD, RecordLayout
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.scan import neighbours
from dedup_middleware.methods.base import content_bytes
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import (
    EXACT_TABLE,
    FIRST_BAND_TABLE,
    SIMHASH_TABLES,
    BucketKey,
    hash_bucket_key,
    record,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import Candidates, Claimed, Entry, Known
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import BAND_RECORD, CONTENT, SIMHASH_RECORD, State
from tests.index import bulk
from tests.index.bulk import all_buckets
from tests.index.claiming import candidates_of, entered
from tests.index.harness import (
    LARGE,
    PARAMETERS,
    Harness,
    RedisHarness,
    bucket_keys_of,
    check_race,
    in_steps,
)
from tests.index.redis_use import LEASE
from tests.index.windows import in_time
from tests.servers import RedisServer
from tests.texts import article

DISTANCE = 12
ALL_BUT_KEY = 0b1111 << 2 | 0b11 << FIRST_BAND_TABLE


def page(
    key: int,
    simhash: int = 7,
    bands: Sequence[int] = (5 << 50, 6 << 50),
    *,
    exact: int = 99,
    host: int = 0,
    title: int = 0,
    size: int = 9,
) -> Entry:
    """A page that an exact copy may settle."""
    content = np.zeros(1, CONTENT)
    content["size"], content["key"], content["simhash"] = size, key, simhash
    content["exact"], content["host"], content["title"] = exact, host, title
    return Entry(
        bucket_keys_of(key, simhash, bands), content.tobytes(), f"https://a/{key}", exact=True
    )


async def propose(index: Index, entry: Entry) -> Claimed | Candidates:
    """Propose a page and return the reply."""
    return await index.propose(entry, DISTANCE, LEASE)


@pytest.fixture
async def redis_harness(redis_server: RedisServer) -> RedisHarness:
    """A fresh namespace on the shared server."""
    return RedisHarness(redis_server)


@pytest.fixture
async def redis_index(redis_harness: RedisHarness) -> RedisIndex:
    """A client of it."""
    index = await redis_harness.client()
    assert isinstance(index, RedisIndex)
    return index


async def numbers_met(index: Index, entry: Entry) -> list[int]:
    """Ids of all candidates of a page that is blocked."""
    made = await propose(index, entry)
    assert isinstance(made, Candidates)
    return made.near.page_ids.tolist()


def is_settled(made: Claimed | Candidates, number: int) -> bool:
    """Whether a page was settled by one copy, in all tables but that of its key."""
    return (
        isinstance(made, Candidates)
        and not made.more
        and made.near.page_ids.tolist() == [number]
        and made.near.tables.tolist() == [ALL_BUT_KEY]
    )


async def test_stored_exact_copy_is_named(index: Index) -> None:
    """Every index returns the copy with all that is needed to judge it: row, address, tables."""
    number = await bulk.stored(index, page(1))
    made = await propose(index, page(2))
    assert is_settled(made, number)
    pages = candidates_of(made).pages
    assert pages.page_ids.tolist() == [number]
    assert pages.states.tolist() == [State.COMMITTED]
    assert pages.content["exact"].tolist() == [99]
    assert candidates_of(made).addresses == {number: "https://a/1"}


async def test_nothing_else_is_looked_into(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """The other buckets are not even read: what is damaged there does not matter. A page that is
    not settled meets the damage."""
    number = await bulk.stored(redis_index, page(1))
    redis_harness.put_bucket(page(2).bucket_keys[2].bucket, b"odd")
    assert is_settled(await propose(redis_index, page(2)), number)
    assert candidates_of(await propose(redis_index, page(2))).near.corrupt == 0
    for other in (page(2, exact=98), attrs.evolve(page(2), exact=False)):
        made = await propose(redis_index, other)
        assert isinstance(made, Candidates)
        assert made.near.corrupt == 3
    await redis_harness.close()


@pytest.mark.parametrize(
    "other",
    [
        {"exact": 98},
        {"size": 8},
        {"simhash": 6},
        {"host": 3, "title": 5},
    ],
)
async def test_other_page_settles_nothing(
    other: dict[str, int], redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """A page with another text, or with another title on the same host, is only a candidate: all
    tables are read, and all neighbours returned."""
    first = await bulk.stored(redis_index, page(1, host=3, title=4))
    far = await bulk.stored(redis_index, page(2, 7, (1 << 40, 6 << 50), exact=50))
    new = page(3, **{"host": 3, "title": 4, **other})  # type: ignore[arg-type]
    assert await numbers_met(redis_index, new) == [first, far]
    await redis_harness.close()


async def test_other_title_elsewhere_and_same_title_settle(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """Another title on another host, and the same title on the same host, settle a page."""
    number = await bulk.stored(redis_index, page(1, host=3, title=4))
    assert is_settled(await propose(redis_index, page(2, host=4, title=5)), number)
    assert is_settled(await propose(redis_index, page(2, host=3, title=4)), number)
    await redis_harness.close()


async def test_page_itself_goes_before_its_copies(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """For a page whose key is stored all neighbours are returned, itself included."""
    copy = await bulk.stored(redis_index, page(1))
    itself = await bulk.stored(redis_index, page(2))
    made = await propose(redis_index, page(2))
    assert isinstance(made, Candidates)
    assert made.near.page_ids.tolist() == [copy, itself]
    assert made.near.tables.tolist() == [ALL_BUT_KEY, ALL_BUT_KEY | 1]
    await redis_harness.close()


async def test_oldest_of_copies_is_named(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """Of several stored exact copies the oldest; one that was given back is none."""
    numbers = [await bulk.stored(redis_index, page(key)) for key in (1, 2, 3)]
    assert await redis_index.forget(numbers[:1]) == 1
    assert is_settled(await propose(redis_index, page(4)), numbers[1])
    await redis_harness.close()


async def test_pending_copy_settles_nothing(index: Index) -> None:
    """A copy on its way to storage is returned as pending, with all other candidates; once it is
    stored it settles, and once it is given back it does not."""
    for give_back in (True, False):
        claim = await entered(index, page(1), LEASE)  # what was given back before is still there
        waiting = await propose(index, page(2))
        assert isinstance(waiting, Candidates)
        assert claim.page_id in waiting.near.page_ids.tolist()
        assert State.PENDING in waiting.pages.states.tolist()
        if give_back:
            assert await index.release(claim)
            made = await propose(index, page(2))
            if not in_steps(index):  # which leaves out released pages
                assert isinstance(made, Candidates)
                assert made.pages.states.tolist() == [State.RELEASED]
                made = await index.propose(page(2), DISTANCE, LEASE, known=Known(made.pages))
            assert isinstance(made, Claimed)
            assert await index.release(made.claim)
            await index.compact()
        else:
            assert await index.commit(claim)
            assert claim.page_id in await numbers_met(index, page(2))


async def test_lease_that_ran_out_settles_nothing(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """A copy whose lease has run out does not count as stored."""
    await entered(redis_index, page(1), LEASE)
    redis_harness.advance(LEASE + 1)
    found = await propose(redis_index, page(2))
    assert isinstance(found, Candidates)
    assert found.pages.states.tolist() == [State.RELEASED]
    await redis_harness.close()


async def test_copy_whose_row_is_gone_or_damaged_settles_nothing(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """A page whose row has expired, or is damaged, reads as one that is gone, and keeps no page
    from a claim."""
    number = await bulk.stored(redis_index, page(1))
    for damage in (True, False):
        if damage:
            redis_harness.damage_page(number)
        else:
            redis_harness.admin.delete(redis_harness.prefix + b"s" + bytes(4))
        found = await propose(redis_index, page(2))
        assert isinstance(found, Candidates)
        assert found.pages.states.tolist() == [State.FREE]
        assert redis_index.corrupt == 1
        if not damage:
            known = Known(found.pages)
            made = await redis_index.propose(page(2), DISTANCE, LEASE, known=known)
            assert isinstance(made, Claimed)
    await redis_harness.close()


async def test_damaged_band_or_key_bucket_settles_nothing(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """Bytes that are no record, where the copy is looked for, are counted as in other buckets."""
    number = await bulk.stored(redis_index, page(1))
    key, band = page(2).bucket_keys[0].bucket, page(2).bucket_keys[5]
    (raw,) = await redis_index.read_buckets((band,))
    for bucket, good in ((key, b""), (band.bucket, raw)):
        redis_harness.put_bucket(bucket, good + b"odd")
        made = await propose(redis_index, page(2))
        assert isinstance(made, Candidates)
        assert made.near.corrupt == 3
        assert made.near.page_ids.tolist() == [number]
        redis_harness.put_bucket(bucket, good)
    await redis_harness.close()


async def test_settled_and_other_pages_in_one_call(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """New pages, exact copies, near copies and short pages proposed together get the replies that
    each would get alone."""
    stored = {
        i: await bulk.stored(redis_index, page(i, i << 40, (i << 50, i << 52))) for i in (1, 2, 3)
    }
    short = Entry((BucketKey(1, 77), BucketKey(1 << 16, 5)), page(1).content, None, exact=True)
    made = await asyncio.gather(
        propose(redis_index, page(11, 1 << 40, (1 << 50, 1 << 52))),
        propose(redis_index, page(12, 9 << 40, (9 << 50, 9 << 52))),
        propose(redis_index, page(13, 2 << 40, (2 << 50, 8 << 52), exact=5)),
        propose(redis_index, short),
        propose(redis_index, page(14, 3 << 40, (3 << 50, 3 << 52))),
        propose(redis_index, page(15, 9 << 40, (9 << 50, 9 << 52))),
    )
    assert is_settled(made[0], stored[1])
    assert isinstance(made[1], Claimed)
    # The SimHashes are near as well, that of the page claimed in the same call among them.
    near = candidates_of(made[2]).near
    assert near.page_ids.tolist() == [1, 2, 3, made[1].claim.page_id]
    assert isinstance(made[3], Claimed)
    assert is_settled(made[4], stored[3])
    assert isinstance(made[5], Candidates)
    assert made[1].claim.page_id in made[5].near.page_ids.tolist()
    assert candidates_of(made[0]).addresses == {stored[1]: "https://a/1"}
    await redis_harness.close()


async def test_records_of_unlike_pages_in_one_call(
    redis_index: RedisIndex, redis_harness: RedisHarness
) -> None:
    """Short pages, pages with probes and others, claimed in one call in any order, have the records
    that a reading finds by."""
    rng = random.Random(3)
    pages: list[tuple[Entry, tuple[BucketKey, ...]]] = []
    for i in range(1, 40):
        # In crowded buckets.
        bands = [rng.randrange(3) << 48 | rng.getrandbits(48) for _ in range(2)]
        simhash = rng.getrandbits(64)
        entry = page(i, simhash, bands)
        if i % 3 == 0:
            entry = attrs.evolve(
                entry, bucket_keys=(entry.bucket_keys[0], hash_bucket_key(EXACT_TABLE, bands[0]))
            )
        probes = simhash_bucket_keys(rng.getrandbits(64))[: i % 4] if i % 5 == 0 else ()
        pages.append((entry, probes))
    rng.shuffle(pages)
    made = await asyncio.gather(
        *(redis_index.propose(entry, 0, LEASE, probes) for entry, probes in pages)
    )
    for (entry, _), one in zip(pages, made, strict=True):
        assert isinstance(one, Claimed)
        found = neighbours(entry.bucket_keys, await redis_index.read_buckets(entry.bucket_keys), 0)
        assert found.corrupt == 0
        own = found.tables[found.page_ids == np.uint64(one.claim.page_id)]
        assert own.tolist() == [sum(1 << bucket_key.table for bucket_key in entry.bucket_keys)]
    await redis_harness.close()


async def test_a_call_writes_the_records_of_what_it_claims(harness: Harness) -> None:
    """Of calls that mix new pages, exact copies, near copies, copies of one another, short pages,
    and probes exactly the pages that are claimed get records, each in its order, in crowded buckets
    and in some that outgrow their field while the call runs."""
    rng = random.Random(11)
    index = await harness.client()
    crowded = 40_000
    expected: dict[int, list[tuple[int, bytes]]] = {}
    entries: list[Entry] = []
    key = 0
    for _ in range(60):
        call: list[tuple[Entry, tuple[BucketKey, ...]]] = []
        for _ in range(40):
            key += 1
            kind = rng.choice(("new", "new", "new", "copy", "near", "short", "probing"))
            prefixes = (crowded, rng.choice((crowded, crowded, rng.randrange(crowded))))
            bands = tuple(one << 48 | rng.getrandbits(48) for one in prefixes)
            entry = page(key, rng.getrandbits(64), bands, exact=key)
            if kind in ("copy", "near") and entries + [one for one, _ in call]:
                other = rng.choice(entries + [one for one, _ in call])
                exact = other.exact if kind == "copy" else False
                entry = attrs.evolve(
                    other, bucket_keys=(entry.bucket_keys[0], *other.bucket_keys[1:]), exact=exact
                )
            elif kind == "short":
                bucket_keys = (entry.bucket_keys[0], hash_bucket_key(EXACT_TABLE, bands[0]))
                entry = attrs.evolve(entry, bucket_keys=bucket_keys, exact=False)
            probes = simhash_bucket_keys(rng.getrandbits(64))[:2] if kind == "probing" else ()
            call.append((entry, probes))
        made = await asyncio.gather(
            *(index.propose(entry, 0, LEASE, probes) for entry, probes in call)
        )
        for (entry, _), one in zip(call, made, strict=True):
            if isinstance(one, Claimed):
                entries.append(entry)
                for bucket_key in entry.bucket_keys:
                    raw = record(bucket_key, one.claim.page_id)
                    expected.setdefault(bucket_key.bucket, []).append((one.claim.page_id, raw))
        claims = [one.claim for one in made if isinstance(one, Claimed)]
        await asyncio.gather(*map(index.commit, claims))
    assert len(entries) > 400
    buckets = {name: b"".join(raw for _, raw in sorted(some)) for name, some in expected.items()}
    assert sum(len(raw) > LARGE for raw in buckets.values()) == 2
    found = await all_buckets(index)
    if in_steps(index):
        await index.compact()  # takes out the records of pages that were withdrawn
        ordered = await all_buckets(index)
        assert ordered.keys() == buckets.keys()
        found = {
            name: b"".join(raw for _, raw in sorted(expected[name]))
            for name, value in ordered.items()
            if sorted(raw for _, raw in expected[name]) == in_records(name, value)
        }
    assert found == buckets
    await harness.close()


def in_records(bucket: int, value: bytes) -> list[bytes]:
    """The records of a bucket, sorted."""
    size = SIMHASH_RECORD if bucket >> 16 in SIMHASH_TABLES else BAND_RECORD
    return sorted(value[at : at + size] for at in range(0, len(value), size))


async def test_of_many_exact_copies_at_once_one_is_claimed(harness: Harness) -> None:
    """Exact copies proposed at the same time by several clients: one is claimed, all others are
    given it as a candidate while it is on its way, and named as stored afterwards."""
    clients = [await harness.client() for _ in range(3)]
    made = await asyncio.gather(*(propose(clients[i % 3], page(i + 1)) for i in range(60)))
    first = check_race(clients[0], made)
    for one in made:
        if isinstance(one, Claimed) and one.claim != first:
            assert await clients[0].release(one.claim)
    assert await clients[0].commit(first)
    made = await asyncio.gather(*(propose(clients[i % 3], page(i + 100)) for i in range(60)))
    if in_steps(clients[0]):  # records of pages that were withdrawn are in the buckets as well
        for one in made:
            assert isinstance(one, Candidates)
            assert one.pages.page_ids.tolist() == [first.page_id]
            assert one.pages.states.tolist() == [State.COMMITTED]
    else:
        assert all(is_settled(one, first.page_id) for one in made)


@pytest.mark.slow
@pytest.mark.parametrize("windows", ["redis"], indirect=True)
@in_time
async def test_generations(harness: Harness) -> None:
    """With a window, a copy of an older live generation settles a page; one that has expired is
    not met any more."""
    span = harness.window / 2
    index = await harness.client()
    number = await bulk.stored(index, page(1))
    await harness.pass_time(span)
    made = await propose(index, page(2))
    assert is_settled(made, number)
    await harness.pass_time(2 * span)
    made = await propose(index, page(2))
    assert isinstance(made, Claimed)
    assert made.claim.page_id > number


async def test_record_without_the_fields_settles_nothing(redis_server: RedisServer) -> None:
    """An index that keeps few fields can't tell an exact copy, and looks into all tables."""
    harness = RedisHarness(redis_server)
    few = RecordLayout(("size", "simhash", "exact", "key"))
    index = await harness.client({**PARAMETERS, RECORD: few.parameter})
    number = await bulk.stored(index, page(1))
    harness.put_bucket(page(2).bucket_keys[2].bucket, b"odd")
    made = await propose(index, page(2))
    assert number == 1
    assert isinstance(made, Candidates)
    assert made.near.corrupt == 3
    await harness.close()


def fingerprint(key: str, text: str, title: str = "") -> Fingerprint:
    """A page with a text."""
    return Fingerprinter(Options(), 1)(Document(key=key, text=text, title=title))


async def test_exact_copy_goes_before_an_older_page_that_holds_as_much(harness: Harness) -> None:
    """Of stored pages that hold all of a page the exact copy is named, on every index, although a
    longer page that holds it too is older."""
    index = await harness.client()
    method = choose_method(Options())
    driver = Driver(index, method, lambda _name, _n: None)
    text = article(1)
    whole = fingerprint("https://a/long", f"{text} {article(2)}")
    copy = fingerprint("https://b/copy", text)
    new = fingerprint("https://c/new", text)
    # A sketch estimates: the share that the long page holds is estimated as 1.
    size = new.size
    whole = attrs.evolve(whole, sketch=new.sketch, figures=new.figures, bands=new.bands, size=size)
    whole = attrs.evolve(whole, exact=whole.exact, simhash=new.simhash)
    for one in (whole, copy):
        await bulk.stored(index, Entry(method.bucket_key_array(one), content_bytes(one), one.key))
    entry = Entry(method.bucket_key_array(new), content_bytes(new), new.key, exact=True)
    ruling, claim = await driver.decide(new, entry)
    assert claim is None
    assert ruling.match is not None
    assert (ruling.match.key, ruling.reason) == ("https://b/copy", "exact-copy")
