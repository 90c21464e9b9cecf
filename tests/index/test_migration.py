"""Indexes of schema 1 are refused with the way out, and copied into new ones."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from dedup_middleware.errors import IndexRefusedError, OptionsError
from dedup_middleware.index.migration import migrate
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.tables import band_slots, narrow_slot, simhash_slots
from dedup_middleware.options import Options
from tests.index import schema1
from tests.index.schema1 import OldPage
from tests.servers import RedisServer

_names = itertools.count()
_MASK = (1 << 64) - 1


def hashed(value: int) -> int:
    """Any 64-bit value."""
    return value * 0x9E37_79B9_7F4A_7C15 & _MASK


def old_pages() -> list[OldPage]:
    """600 pages over three chunks: every fifth is not committed, every third has numerals."""
    return [
        OldPage(
            number,
            key=hashed(number),
            simhash=hashed(number + 5000),
            band=hashed(number + 9000),
            numerals=3 if number % 3 == 0 else 0,
            state=2 if number % 5 else 1 + 2 * (number % 2),
            address=f"https://例え.jp/{number}/".encode() + b"x" * (number % 90),
        )
        for number in range(1, 601)
    ]


def old_index(kind: str, folder: Path, server: RedisServer) -> Options:
    """An index of schema 1, written by hand."""
    if kind == "sqlite":
        schema1.write_sqlite(folder / "old.db", old_pages())
        return Options(index_url=f"sqlite:{folder / 'old.db'}")
    if kind == "sqlite with a window":
        schema1.write_sqlite(folder / "old.db", old_pages(), generation=1300)
        return Options(index_url=f"sqlite:{folder / 'old.db'}")
    namespace = f"old-{next(_names)}"
    generations = (700, 701, 703) if kind == "redis with a window" else ()
    with server.client() as client:
        schema1.write_redis(client, namespace, old_pages(), generations)
    return Options(index_url=server.url, namespace=namespace)


def new_index(kind: str, folder: Path, server: RedisServer) -> Options:
    """Where the new one shall be."""
    if kind == "sqlite":
        return Options(index_url=f"sqlite:{folder / 'new.db'}")
    return Options(index_url=server.url, namespace=f"new-{next(_names)}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sqlite", "sqlite"),
        ("sqlite", "redis"),
        ("redis", "redis"),
        ("redis", "sqlite"),
        ("sqlite with a window", "sqlite"),
        ("redis with a window", "redis"),
        ("redis with a window", "sqlite"),
    ],
)
async def test_old_index_is_copied(
    old: str, new: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """Every committed page is found again by all its tables, with its content and address; those
    whose figures can't be known any more are too short to be compared, so they drop nothing."""
    source = old_index(old, tmp_path, redis_server)
    target = new_index(new, tmp_path, redis_server)
    pages = [page for page in old_pages() if page.state == 2]
    done = await migrate(source, target, folder=tmp_path)
    assert (done.pages, done.known) == (len(pages), 0)
    async with open_index(target) as index:
        stored = await index.attach()
        assert {name: stored[name] for name in schema1.PARAMETERS} == schema1.PARAMETERS
        assert await index.count() == len(pages)
        assert (await index.verify()).is_sound
        for page in pages[::7]:
            (number,) = await index.lookup(page.key)
            found = (await index.fetch(np.array([number], np.uint64))).content[0]
            assert int(found["simhash"]) == page.simhash
            assert int(found["exact"]) == page.key ^ 7
            assert found["sketch"].tolist() == [page.key ^ i for i in range(8)]
            assert int(found["size"]) == (0 if page.numerals else 100 + page.number)
            assert set(found["figures"].tolist()) == {0xFF}
            assert await index.addresses([number]) == [page.address.decode()]
            slots = [
                narrow_slot(0, page.key),
                *simhash_slots(page.simhash),
                *band_slots([page.band]),
            ]
            near = neighbours(slots, await index.read_buckets(slots), 0)
            assert near.numbers.tolist() == [number]
            assert near.tables.tolist() == [0b111_1101]
    again = await migrate(source, target, folder=tmp_path)
    assert (again.pages, again.known) == (0, len(pages))


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_old_index_is_refused_with_the_way_out(
    kind: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """An old index is opened by nobody of today; the message names the migration."""
    source = old_index(kind, tmp_path, redis_server)
    for call in ("open", "attach"):
        index = open_index(source)
        with pytest.raises(IndexRefusedError, match=r"has schema '1'.*migration.migrate"):
            await (index.open({"bands": "1x3"}) if call == "open" else index.attach())
        await index.close()


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_only_old_indexes_are_migrated(
    kind: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """An index of today, one that does not exist, and a copy onto itself are refused."""
    current = new_index(kind, tmp_path, redis_server)
    with pytest.raises(IndexRefusedError, match="there is no index at"):
        await migrate(current, Options(index_url="memory:"))
    async with open_index(current) as index:
        await index.open({"bands": "1x3"})
    with pytest.raises(IndexRefusedError, match=r"has schema '[23]': only one of schema 1"):
        await migrate(current, Options(index_url="memory:"))
    with pytest.raises(OptionsError, match="another index than the old one"):
        await migrate(current, current)
    with pytest.raises(OptionsError, match="outlives us"):
        await migrate(Options(index_url="memory:"), current)
