"""Near-duplicates that come at the same moment: exactly one of them is kept."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.index.opening import open_index
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.documents import Document
from tests.index.proxy import Proxy
from tests.index.race_workers import race
from tests.servers import RedisServer, namespace_for
from tests.test_pipeline import Crawl, make_crawler
from tests.texts import article
from tests.torture.articles import VARIANTS, number_of

# Machines by the time that a reply takes, and the variants that each of them crawls.
MACHINES = {"127.0.0.1": 0.0, "127.0.0.2": 0.002, "127.0.0.3": 0.02}
PROCESSES = VARIANTS
ROUNDS = [range(start, start + 12) for start in range(0, 36, 12)]


@pytest.mark.parametrize("kind", ["redis", "sqlite", "cluster"])
async def test_eight_processes(
    kind: str, tmp_path: Path, redis_server: RedisServer, cluster_masters: list[RedisServer]
) -> None:
    """Eight processes, on Redis as if on three machines near and far, decide a variant each of the
    same articles at the same moment: one variant of each article is stored, the others are not."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.index.race_preload"])
    start, kept = context.Barrier(PROCESSES), context.Queue()
    async with contextlib.AsyncExitStack() as stack:
        urls = [f"sqlite:{tmp_path / 'index.db'}"]
        if kind == "cluster":
            urls = [f"redis+cluster://127.0.0.1:{master.port}" for master in cluster_masters]
        if kind == "redis":
            proxies = [
                await stack.enter_async_context(Proxy(redis_server.port, host=host, delay=delay))
                for host, delay in MACHINES.items()
            ]
            urls = [proxy.url for proxy in proxies]
        processes = [
            context.Process(
                target=race, args=(urls[variant % len(urls)], variant, ROUNDS, start, kept)
            )
            for variant in range(PROCESSES)
        ]
        for process in processes:
            process.start()
        for process in processes:
            await asyncio.to_thread(process.join, 240)
            assert process.exitcode == 0
    articles = [number for part in ROUNDS for number in part]
    stored = [kept.get(timeout=120) for _ in articles]
    assert kept.empty()
    assert Counter(map(number_of, stored)) == Counter(articles)
    url = redis_server.url if kind == "redis" else urls[0]
    async with open_index(Options(index_url=url, namespace=namespace_for(url, "race"))) as index:
        await index.attach()
        stats = await index.stats()
    assert (stats.committed, stats.pending) == (len(articles), 0)


def hundred() -> list[str]:
    """A hundred different texts, each a duplicate of every other one: it is left to chance which
    of those that come at once is stored. Sentences changed places in each; another letter in a word
    may make another noun, and another page."""
    edits = (edit(article(1, 30), "sentence-order", 0.05, seed=n) for n in range(150))
    return list(dict.fromkeys(edits))[:100]


def test_the_hundred_are_duplicates_of_each_other() -> None:
    """Whichever of them is stored, all others are its duplicates."""
    options = Options()
    method, fingerprint = choose_method(options), Fingerprinter(options, 0)
    pages = [fingerprint(Document(key=str(n), text=text)) for n, text in enumerate(hundred())]
    assert len({page.exact for page in pages}) == 100
    for stored in pages:
        record = content_record(stored, sketched=method.keeps_sketch)
        for page in pages:
            assert method.judge(page, record, [stored.payload]).duplicate.all()


@pytest.mark.parametrize("kind", ["memory", "redis", "sqlite", "cluster"])
async def test_hundred_items_of_one_response(
    kind: str, tmp_path: Path, redis_server: RedisServer, cluster_masters: list[RedisServer]
) -> None:
    """A hundred near-duplicates are in the pipeline at once: one is stored and the others are
    dropped, each naming the one that was."""
    places = {
        "memory": "memory:",
        "redis": redis_server.url,
        "cluster": f"redis+cluster://127.0.0.1:{cluster_masters[0].port}",
        "sqlite": f"sqlite:{tmp_path / 'index.db'}",
    }
    crawl = Crawl(
        make_crawler(DEDUP_INDEX_URL=places[kind], DEDUP_NAMESPACE=namespace_for(places[kind], "r"))
    )
    await crawl.pipeline.open_spider()
    items = [{"url": f"https://a/{n}", "text": text} for n, text in enumerate(hundred())]
    results = await asyncio.gather(*map(crawl.item, items))
    kept = [result for result in results if isinstance(result, dict)]
    assert len(kept) == 1
    dropped = [result for result in results if not isinstance(result, dict)]
    assert {error.verdict.match.key for error in dropped} == {kept[0]["url"]}
    assert crawl.stat("committed") == 1
    assert crawl.stat("error/index") == 0
    await crawl.pipeline.close_spider()
