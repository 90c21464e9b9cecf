"""Bytes per page of the shared indexes, part by part.

Usage: ``python -m benchmarks.index_size [--pages 100000 1000000] [--kinds redis sqlite memory]``

Each index is filled with random pages whose addresses have 80 characters, as in large crawls, and
measured as a whole: Redis by ``used_memory`` before and after, SQLite by its file after a
checkpoint, an index in memory by the private memory of a process of its own (Linux), spare capacity
included. Parts of a Redis index are ``MEMORY USAGE`` of a sample of each kind of key, parts of a
file the lengths of its columns; the rest is the server's own hash table, or the overhead of pages
and rows in the file.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import random
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import Pages, packed_simhash_keys, starts_of
from dedup_middleware.index.parameters import RECORD, RecordLayout
from dedup_middleware.index.redis.expiry import held_by
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature.ribbon import filter_size
from tests.servers import RedisServer, running_redis

ADDRESS = 80
SHINGLES = 280  # per page: the median, which is also the mean of Chinese news
ANCHORS = 15  # mean over a week of Chinese news
PART = 100_000  # pages loaded at once
SAMPLE = 300  # keys of each kind
LIMITS = {"default": 450.0, "SimHash tables only": 130.0}
PARTS = ("key table", "SimHash tables", "bands", "page records", "addresses", "the rest", "all")


@attrs.frozen
class Setting:
    """A configuration to compare."""

    name: str
    options: Mapping[str, object]


SETTINGS = (
    Setting("default", {}),
    Setting("no address", {"keep_address": False}),
    Setting("4 bands", {"bands": 4}),
    Setting("sketch", {"evidence": "sketch"}),
    Setting("SimHash tables only", {"method": "simhash", "keep_address": False}),
)


def pages_of(options: Options, total: int) -> Iterator[Pages]:
    """Yield random pages in parts."""
    bands = 0 if options.method == "simhash" else options.band_count
    tables = [KEY_TABLE, *SIMHASH_TABLES, *range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + bands)]
    evidence = choose_method(options).keeps_payload
    if evidence:
        tables += [table for i in range(ANCHORS) for table in ANCHOR_TABLES[i % 4 : i % 4 + 1]]
    for start in range(0, total, PART):
        count = min(PART, total - start)
        rng = np.random.default_rng(start)
        content = np.zeros(count, CONTENT)
        content["size"] = rng.integers(20, 3000, count)
        for field in ("simhash", "exact", "key"):
            content[field] = rng.integers(0, 1 << 64, count, np.uint64)
        bucket_keys = np.empty((count, len(tables)), np.uint64)
        for i, table in enumerate(tables):
            numbers = np.full(count, table, np.uint64)
            if table in SIMHASH_TABLES:
                bucket_keys[:, i] = packed_simhash_keys(content["simhash"], numbers)
            else:
                hashes = rng.integers(0, 1 << 40, count, np.uint64)
                bucket_keys[:, i] = numbers << np.uint64(40) | hashes
        addresses: list[bytes | None] = [None] * count
        if options.keep_address:
            addresses = [
                f"https://www.example.com/{start + i:0{ADDRESS - 24}}".encode()
                for i in range(count)
            ]
        starts = starts_of(np.full(count, len(tables), np.int64))
        times = np.full(count, 1_700_000_000, np.uint32)
        payloads = [b""] * count
        if evidence:
            shingles = np.minimum(8192, np.exp(rng.normal(np.log(SHINGLES), 0.6, count)))
            payloads = [rng.bytes(1 + filter_size(int(one))) for one in shingles]
        yield Pages(content, addresses, payloads, times, bucket_keys.ravel(), starts)


async def fill(index: Index, options: Options, total: int) -> None:
    """Create the index and fill it."""
    method = choose_method(options)
    record = RecordLayout(method.fields, text=options.keep_address or method.keeps_payload)
    await index.open({RECORD: record.parameter})
    for pages in pages_of(options, total):
        await index.load(pages)


def kind_of(name: bytes) -> str:
    """Return the part of the index that a key belongs to, by the name after the namespace."""
    end = name.index(b"}") + 1
    rest, held = name[end:], held_by(name, name[:end])
    if held is not None:
        if held.table == KEY_TABLE:
            return "key table"
        return "SimHash tables" if held.table in SIMHASH_TABLES else "bands"
    if len(rest) == 5 and rest[:1] in b"sa":
        return "page records" if rest[:1] == b"s" else "addresses"
    return "the rest"


def redis_parts(server: RedisServer, base: int, total: int) -> dict[str, float]:
    """Return bytes per page by part."""
    with server.client() as client:
        used = int(client.info("memory")["used_memory"]) - base
        names: dict[str, list[bytes]] = {}
        for name in client.scan_iter(count=10_000):
            names.setdefault(kind_of(name), []).append(name)
        found = dict.fromkeys(PARTS, 0.0)
        for kind, members in names.items():
            chosen = random.Random(1).sample(members, min(SAMPLE, len(members)))
            pipe = client.pipeline(transaction=False)
            for name in chosen:
                pipe.memory_usage(name, samples=0)  # sample all fields of a hash
            sizes = [size for size in pipe.execute() if size]
            found[kind] += sum(sizes) / len(sizes) * len(members) / total
    found["all"] = used / total
    found["the rest"] = found["all"] - sum(found[part] for part in PARTS[:-2])
    return found


def sqlite_parts(file: Path, total: int) -> dict[str, float]:
    """Return bytes per page by part."""
    db = sqlite3.connect(file)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found = dict.fromkeys(PARTS, 0.0)
    for table, size in db.execute("SELECT id >> 16, sum(length(data)) FROM bucket GROUP BY 1"):
        part = "key table" if table == KEY_TABLE else "SimHash tables"
        found[part if table <= SIMHASH_TABLES[-1] else "bands"] += size / total
    content, addresses = db.execute(
        "SELECT sum(length(content)), coalesce(sum(length(address)), 0) FROM page"
    ).fetchone()
    db.close()
    found["page records"], found["addresses"] = content / total, addresses / total
    found["all"] = file.stat().st_size / total
    found["the rest"] = found["all"] - sum(found[part] for part in PARTS[:-2])
    return found


def private_memory() -> int:
    """Return the bytes of this process that it shares with no other."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(kilobytes) for kilobytes in re.findall(r"Private_\w+: +(\d+)", text)) * 1024


def memory_parts(options: Options, total: int) -> dict[str, float]:
    """Return bytes per page, all in one part; called in a process of its own."""

    async def work() -> float:
        async with open_index(options) as first:
            await fill(first, options, 1_000)  # loads the code
        gc.collect()
        before = private_memory()
        async with open_index(options) as index:
            await fill(index, options, total)
            gc.collect()
            return (private_memory() - before) / total

    found = dict.fromkeys(PARTS, 0.0)
    found["the rest"] = found["all"] = asyncio.run(work())
    return found


async def measure(kind: str, setting: Setting, total: int) -> dict[str, float]:
    """Return bytes per page of one index by part."""
    if kind == "memory":
        options = Options(index_url="memory:", **setting.options)  # type: ignore[arg-type]
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            return pool.submit(memory_parts, options, total).result()
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            file = Path(folder) / "index.db"
            options = Options(index_url=f"sqlite:{file}", timeout=600, **setting.options)  # type: ignore[arg-type]
            async with open_index(options) as index:
                await fill(index, options, total)
            return sqlite_parts(file, total)
        with running_redis(Path(folder)) as server:
            with server.client() as client:
                base = int(client.info("memory")["used_memory"])
            options = Options(index_url=server.url, timeout=600, **setting.options)  # type: ignore[arg-type]
            async with open_index(options) as index:
                await fill(index, options, total)
            return redis_parts(server, base, total)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", default=["redis", "sqlite"])
    arguments = parser.parse_args()
    console = Console(width=120)
    for kind in arguments.kinds:
        for total in arguments.pages:
            table = Table(title=f"{kind}, {total:,} pages: bytes a page")
            table.add_column("")
            for part in PARTS:
                table.add_column(part, justify="right")
            table.add_column("limit", justify="right")
            for setting in SETTINGS:
                found = asyncio.run(measure(kind, setting, total))
                limit = LIMITS.get(setting.name) if kind == "redis" and total >= 1e6 else None
                shown = "" if limit is None else f"{limit:.0f}"
                if limit is not None:
                    shown += " ok" if found["all"] <= limit else " EXCEEDED"
                table.add_row(setting.name, *(f"{found[part]:.1f}" for part in PARTS), shown)
            console.print(table)


if __name__ == "__main__":
    main()
