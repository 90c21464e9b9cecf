"""Pages for the tests of loading, exporting and importing."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np

from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.pages import Pages, joined, pages_of
from dedup_middleware.model.buckets import hash_bucket_key
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import CONTENT
from dedup_middleware.tools.portable.portable import export_index
from dedup_middleware.tools.portable.portable_file import read_portable
from tests.index.claiming import entered
from tests.index.harness import (
    bucket_keys_of,
)

TIME = 1_700_000_000
LEASE = 1000.0
KEY = "00112233445566778899aabbccddeeff"
MADE_WITH = {"shingle_width": "3", "bands": "2", "hash_key": KEY}


def page(key: int, simhash: int = 0, *, address: str | None = None, payload: bytes = b"") -> Entry:
    """A page whose content names its key and its SimHash."""
    content = np.zeros(1, CONTENT)
    content["size"], content["key"], content["simhash"] = 9, key, simhash
    bucket_keys = bucket_keys_of(key, simhash, (key << 45 & (1 << 64) - 1, 7 << 50))
    return Entry(bucket_keys, content.tobytes(), address, payload)


def some_pages(count: int, first: int = 1) -> Pages:
    """Pages of which every fourth is too short for more than its key and its exact hash."""
    entries = []
    for key in range(first, first + count):
        entry = page(key, key * 0x9E3779B97F4A7C15 & (1 << 64) - 1, address=f"https://a/{key}")
        if key % 4 == 0:
            short = (entry.bucket_keys[0], hash_bucket_key(1, key << 33))
            entry = attrs.evolve(entry, bucket_keys=short, address=None, payload=b"p" * key)
        entries.append(entry)
    return pages_of(entries, [TIME + key if key % 3 else 0 for key in range(first, first + count)])


async def stored(index: Index, entry: Entry) -> int:
    """Claim and commit a page, and return its id."""
    claim = await entered(index, entry, LEASE)
    assert await index.commit(claim)
    return claim.page_id


async def all_buckets(index: Index) -> dict[int, bytes]:
    """Return every bucket; checks that they ascend and that none is empty."""
    found = [item async for item in index.buckets()]
    buckets = [bucket for bucket, _ in found]
    assert buckets == sorted(set(buckets))
    assert all(raw for _, raw in found)
    return dict(found)


def a_page(
    key: int, simhash: int, *, address: str | None = None, payload: bytes = b"", short: bool = False
) -> Entry:
    """A page with all fields of its content filled from its key."""
    content = np.zeros(1, CONTENT)
    raw = np.random.default_rng(key).integers(0, 256, CONTENT.itemsize, np.uint8)
    content = raw.view(CONTENT)
    content["key"], content["simhash"] = key, simhash
    bucket_keys = bucket_keys_of(key, simhash, (key << 45 & (1 << 64) - 1, 7 << 50))
    if short:
        content["simhash"] = 0
        bucket_keys = (bucket_keys[0], hash_bucket_key(1, simhash))
    return Entry(bucket_keys, content.tobytes(), address, payload)


def rows_of(pages: Pages) -> list[tuple[object, ...]]:
    """Pages as comparable rows, whatever their order."""
    return sorted(
        (
            pages.content[i].tobytes(),
            pages.addresses[i] or b"",
            pages.payloads[i],
            int(pages.times[i]),
            tuple(sorted(pages.bucket_keys[pages.starts[i] : pages.starts[i + 1]].tolist())),
        )
        for i in range(len(pages))
    )


def read_all(path: Path) -> list[tuple[object, ...]]:
    """All rows of a file."""
    parts = list(read_portable(path).pages())
    return rows_of(joined(parts)) if parts else []


async def loaded(index: Index, pages: Pages) -> Index:
    """The index, opened and with pages."""
    await index.open(MADE_WITH)
    await index.load(pages)
    return index


async def exported(path: Path) -> Path:
    """A file to which an index of a hundred pages was exported."""
    entries = [
        a_page(key, key * 0x9E3779B97F4A7C15 & (1 << 64) - 1, address=f"https://a/{key}")
        for key in range(100)
    ]
    index = await loaded(MemoryIndex(), pages_of(entries, [TIME] * 100))
    await export_index(index, path)
    return path
