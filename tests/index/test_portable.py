"""Export to one file and import from it, between all back ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import Pages, pages_of
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.model.buckets import simhash_bucket_keys
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.documents import Document
from dedup_middleware.tools.portable.portable import Imported, export_index, import_index
from dedup_middleware.tools.portable.portable_file import PortableWriter, read_portable
from tests.index.bulk import (
    KEY,
    MADE_WITH,
    TIME,
    a_page,
    exported,
    loaded,
    read_all,
    rows_of,
)
from tests.index.claiming import entered
from tests.index.harness import Harness, RedisHarness
from tests.index.load_workers import import_file, loaded_article, options_of
from tests.index.windows import in_time
from tests.servers import RedisServer

KINDS = ("memory", "sqlite", "redis")


def url_of(kind: str, name: str, folder: Path, server: RedisServer) -> Options:
    """Options of a fresh index."""
    urls = {"memory": "memory:", "sqlite": f"sqlite:{folder / name}.db", "redis": server.url}
    if kind != "redis":
        return Options(index_url=urls[kind])
    return Options(index_url=urls[kind], namespace=f"{folder.name}-{name}")


_HASHES = st.integers(0, (1 << 64) - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_ENTRIES = st.lists(
    st.builds(
        a_page,
        _HASHES,
        _HASHES,
        address=st.none() | _TEXTS,
        payload=st.binary(max_size=40),
        short=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda entry: entry.content,
)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
async def test_round_trip(
    source: str, target: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """Whatever pages hold, they are the same in the file and in the index it is imported to."""
    runs = 0

    @settings(max_examples=5)
    @given(_ENTRIES, st.integers(TIME, 0xFFFF_FFFF))
    def check(entries: list[Entry], when: int) -> None:
        nonlocal runs
        runs += 1
        asyncio.run(trip(pages_of(entries, [when] * len(entries)), f"{runs}"))

    async def trip(pages: Pages, name: str) -> None:
        path, again = tmp_path / f"{name}.parquet", tmp_path / f"{name}-again.parquet"
        one = open_index(url_of(source, f"{name}-from", tmp_path, redis_server))
        two = open_index(url_of(target, f"{name}-to", tmp_path, redis_server))
        await loaded(one, pages)
        exported = await export_index(one, path)
        assert (exported.pages, exported.left_out) == (len(pages), 0)
        assert exported.bytes == path.stat().st_size
        assert read_all(path) == rows_of(pages)
        assert await import_index(two, path) == Imported(pages=len(pages), known=0)
        copied = await export_index(two, again)
        assert attrs.evolve(copied, bytes=0) == attrs.evolve(exported, bytes=0)
        assert (await two.attach())["hash_key"] == KEY
        await one.close()
        await two.close()

    await asyncio.to_thread(check)


TEXTS = [
    "The harbour of the old town was closed on Monday after a storm had sunk two fishing boats "
    f"near the northern pier, and {name} said that divers would look for the crews as soon as the "
    "wind allowed it, while the ferries to the islands stay in port for the rest of the week."
    for name in ("the mayor", "a speaker of the coast guard")
] + [
    "市政府周三宣布，新的地铁线路将于明年春天开始建设，预计五年内完成，沿线共设二十三座车站，"
    "连接东部工业区与西部大学城，每天可运送约四十万名乘客，工程总投资超过一百亿元。",
    "",
    "short",
    "Nothing that any of the other pages says is said on this one, which speaks of the price of "
    "bread, of flour and of butter in the bakeries of three valleys and of nothing else at all.",
]


async def verdicts(index: Index, options: Options) -> list[tuple[str, str, object]]:
    """Decide some pages, none of which is stored."""
    found: list[tuple[str, str, object]] = []
    async with Deduplicator(options, index=index) as dedup:
        for i, text in enumerate([*TEXTS, TEXTS[0] + " And more.", TEXTS[2][:60]]):
            document = Document(key=f"https://b/{i}", title="News", text=text)
            verdict = await dedup.decide(document)
            await dedup.release(verdict)
            match = verdict.match and (verdict.match.key, round(verdict.match.similarity, 3))
            found.append((verdict.outcome, verdict.reason, match))
    return found


@pytest.mark.parametrize("target", KINDS)
async def test_same_verdicts(target: str, tmp_path: Path, redis_server: RedisServer) -> None:
    """After an import the same is decided as before, with the same reasons and matches."""
    options = Options(index_url=f"sqlite:{tmp_path / 'from.db'}")
    path = tmp_path / "index.parquet"
    async with Deduplicator(options) as dedup:
        for i in (0, 2, 4):
            document = Document(key=f"https://a/{i}", title="News", text=TEXTS[i])
            assert await dedup.commit(await dedup.decide(document))
    index = open_index(options)
    exported = await export_index(index, path)
    assert exported.pages == 3
    wanted = await verdicts(index, options)
    assert {"duplicate", "new", "empty"} <= {outcome for outcome, _, _ in wanted}
    others = url_of(target, "to", tmp_path, redis_server)
    copy = open_index(others)
    assert (await import_index(copy, path)).pages == 3
    assert await verdicts(copy, others) == wanted


async def test_pages_are_not_entered_twice(file: Path, harness: Harness) -> None:
    """Pages that are there already are counted and left alone; a page with the same key and other
    content is another page."""
    index = harness.connect()
    harness.clients.append(index)
    progress: list[tuple[int, int]] = []
    counted = await import_index(index, file, lambda done, total: progress.append((done, total)))
    assert counted == Imported(pages=100, known=0)
    assert progress == [(100, 100)]
    assert await import_index(index, file) == Imported(pages=0, known=100)
    other = a_page(1, 99)
    await index.load(pages_of([other, other]))
    double = file.with_name("double.parquet")
    assert (await export_index(index, double)).pages == 102
    fresh = MemoryIndex()
    assert await import_index(fresh, double) == Imported(pages=101, known=1)
    assert await fresh.count() == 101


async def test_only_committed_pages_are_exported(harness: Harness, tmp_path: Path) -> None:
    """Pages that are pending, released, forgotten or whose lease has run out stay out."""
    index = await harness.client()
    await index.load(pages_of([a_page(1, 11)], [TIME]))
    stored = await entered(index, a_page(2, 12))
    await index.commit(stored)
    await entered(index, a_page(3, 13))
    await index.release(await entered(index, a_page(4, 14)))
    assert await index.forget([stored.page_id]) == 1
    exported = await export_index(index, tmp_path / "x.parquet")
    assert exported.pages == 1
    assert read_all(tmp_path / "x.parquet") == rows_of(pages_of([a_page(1, 11)], [TIME]))


async def test_empty_index(tmp_path: Path) -> None:
    """An index without pages gives a file without rows, which makes an index without pages."""
    index = MemoryIndex()
    await index.open(MADE_WITH)
    assert (await export_index(index, tmp_path / "x.parquet")).pages == 0
    other = MemoryIndex()
    assert await import_index(other, tmp_path / "x.parquet") == Imported(pages=0, known=0)
    assert (await other.attach())["bands"] == "2"


async def test_export_beside_other_work(harness: Harness, tmp_path: Path) -> None:
    """Pages stored before an export begins are complete in it, whoever writes meanwhile."""
    index, other = await harness.client(), await harness.client()
    pages = pages_of([loaded_article(i) for i in range(400)], [TIME] * 400)
    await index.load(pages)

    async def write() -> None:
        for i in range(1000, 1020):
            await other.load(pages_of([loaded_article(i)]))

    exported, _ = await asyncio.gather(export_index(index, tmp_path / "x.parquet"), write())
    assert exported.left_out == 0
    assert set(rows_of(pages)) <= set(read_all(tmp_path / "x.parquet"))


@in_time
async def test_window(harness: Harness) -> None:
    """Pages of all live generations are exported, expired ones are not, and they enter the newest
    generation of an index with another window."""
    index = await harness.client()
    await index.load(pages_of([a_page(1, 11)], [TIME]))
    await harness.pass_time(harness.window / 2)
    await index.load(pages_of([a_page(2, 12)], [TIME]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        assert (await export_index(index, path)).pages == 2
        await harness.pass_time(harness.window)
        assert (await export_index(index, path)).pages == 1
        other = MemoryIndex(window=500.0)
        assert (await import_index(other, path)).pages == 1
    assert (await other.attach())["window"] == "500"


async def test_all_pages_have_expired(redis_server: RedisServer, tmp_path: Path) -> None:
    """An index whose pages have all expired is exported as an empty one, not called damaged."""
    harness = RedisHarness(redis_server, 2.0)
    index = await harness.client()
    await index.load(pages_of([a_page(1, 11)], [TIME]))
    await harness.pass_time(2 * harness.window)
    assert (await export_index(index, tmp_path / "x.parquet")).pages == 0
    await harness.close()


async def test_other_window(redis_server: RedisServer, tmp_path: Path) -> None:
    """An index that was opened with another window is refused, with the setting that mends it."""
    harness = RedisHarness(redis_server, 600.0)
    await harness.client()
    other = RedisIndex(harness.options, window=0.0)
    with pytest.raises(DedupError, match=r"set DEDUP_WINDOW = 600$"):
        await export_index(other, tmp_path / "x.parquet")
    await other.close()
    await harness.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shingle_width": "2"}, r"shingle_width: the index has '2', the file has '3'"),
        ({"more": "x"}, r"more: the index has 'x', the file has None"),
        ({"minhash": "7"}, r"the index has '7', the file has None \(DEDUP_NUM_PERM\)"),
        ({"hash_key": "ff" * 16}, r"hash_key: the index has 'its own', the file has 'another one'"),
    ],
)
async def test_other_parameters(
    file: Path, harness: Harness, changes: dict[str, str], message: str
) -> None:
    """An index made with other parameters is refused, naming each difference but not the secret
    key; nothing is entered."""
    index = harness.connect()
    harness.clients.append(index)
    await index.open({**MADE_WITH, **changes})
    with pytest.raises(IndexRefusedError, match=message) as caught:
        await import_index(index, file)
    assert "Import into a new index" in str(caught.value)
    assert KEY not in str(caught.value)
    assert await index.count() == 0


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_import_killed_and_repeated(kind: str, tmp_path: Path, workers_server: RedisServer) -> None:
    """An import that is killed at any moment is finished by repeating it: every page is there
    once, in all its tables."""
    count = 6_000
    path = tmp_path / "articles.parquet"
    pages = pages_of([loaded_article(i) for i in range(count)], [TIME] * count)
    with PortableWriter(path, {"shingle_width": "3", "bands": "2", "hash_key": KEY}) as writer:
        writer.write(pages)
        writer.finish()
    url = f"sqlite:{tmp_path / 'index.db'}" if kind == "sqlite" else workers_server.url
    options = options_of(url)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.index.workers"])
    for delay in (0.0, 0.1, 0.3):
        process = context.Process(target=import_file, args=(url, path))
        process.start()
        deadline = time.monotonic() + 300
        while not asyncio.run(issued(options)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(delay)
        process.kill()
        process.join()

    async def finish() -> None:
        index = open_index(options)
        imported = await import_index(index, path)
        assert imported.pages + imported.known == count
        assert await index.count() == count
        again = tmp_path / "again.parquet"
        assert (await export_index(index, again)).pages == count
        assert read_all(again) == rows_of(pages)
        await index.close()

    asyncio.run(finish())


async def issued(options: Options) -> int:
    """The number of page ids given out by an index, 0 if there is no index."""
    index = open_index(options)
    try:
        await index.attach()
        stats = await index.stats()
        return stats.committed + stats.released + stats.pending
    except DedupError:
        return 0
    finally:
        await index.close()


async def test_simhash_that_is_only_in_the_tables(tmp_path: Path) -> None:
    """An index that keeps SimHashes in its tables alone is exported with them."""
    parameters = {**MADE_WITH, "record": "size:4 key:8"}
    index = MemoryIndex()
    await index.open(parameters)
    await index.load(pages_of([a_page(7, 0x0123_4567_89AB_CDEF)], [TIME]))
    await export_index(index, tmp_path / "x.parquet")
    (pages,) = read_portable(tmp_path / "x.parquet").pages()
    assert pages.content["simhash"].tolist() == [0x0123_4567_89AB_CDEF]
    assert pages.content["sketch"].any() == np.False_
    other = MemoryIndex()
    assert await import_index(other, tmp_path / "x.parquet") == Imported(pages=1, known=0)
    assert await import_index(other, tmp_path / "x.parquet") == Imported(pages=0, known=1)
    bucket_keys = simhash_bucket_keys(0x0123_4567_89AB_CDEF)
    assert all(await other.read_buckets(bucket_keys))


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file of a hundred pages."""
    return await exported(tmp_path / "file.parquet")
