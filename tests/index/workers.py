"""What the child processes of the tests do: store each article once, as a spider would."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import numpy as np

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.buckets import hash_bucket_key, simhash_bucket_keys
from dedup_middleware.model.claims import NOTHING_KNOWN, Claim, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT, State, chosen, joined
from tests.index.claiming import missing
from tests.index.harness import PARAMETERS
from tests.servers import namespace_for

ALIVE = np.array([State.PENDING, State.COMMITTED], np.uint8)


def article_entry(article: int) -> Entry:
    """Variants of one article share its SimHash; ``exact`` names the article."""
    simhash = article * 0x9E37_79B9_7F4A_7C15 & (1 << 64) - 1
    content = np.zeros(1, CONTENT)
    content["exact"] = article
    bucket_keys = (hash_bucket_key(0, random.getrandbits(64)), *simhash_bucket_keys(simhash))
    return Entry(bucket_keys, content.tobytes(), f"https://example.org/{article}")


async def decide(index: Index, article: int, lease: float) -> Claim | None:
    """A claim on the article, or None when it is stored already."""
    entry = article_entry(article)
    known = NOTHING_KNOWN
    while True:
        made = await index.propose(entry, 0, lease, known=known)
        claim = made.claim if isinstance(made, Claimed) else None
        found = made.candidates if isinstance(made, Claimed) else made
        records = joined([found.pages, await index.fetch(missing(found))])
        like = chosen(records, records.content["exact"] == article)
        if claim is not None and np.isin(like.states, ALIVE).any():
            await index.release(claim)
            claim = None
        while (like.states == State.PENDING).any() and (like.states != State.COMMITTED).all():
            await asyncio.sleep(0.02)
            like = await index.fetch(like.page_ids)
        if (like.states == State.COMMITTED).any():
            return None
        if claim is not None:
            return claim
        known = Known(joined([known.pages, records]))


async def _store(url: str, log: Path, articles: int, seed: int, lease: float) -> None:
    index = open_index(Options(index_url=url, timeout=30, namespace=namespace_for(url, "workers")))
    await index.open(PARAMETERS)
    order = [article for article in range(articles) for _ in range(4)]
    random.Random(seed).shuffle(order)
    file = os.open(log, os.O_WRONLY | os.O_APPEND)

    async def one(article: int) -> None:
        while (claim := await decide(index, article, lease)) is not None:
            await asyncio.sleep(0.005)
            if random.random() > 0.1:  # else storage fails
                os.write(file, f"stored {article}\n".encode())
                if await index.commit(claim):
                    os.write(file, f"committed {article}\n".encode())
                    return
                # The process was starved of the processor for longer than its lease.
                os.write(file, f"late {article}\n".encode())
            else:
                await index.release(claim)

    for start in range(0, len(order), 8):
        await asyncio.gather(*(one(article) for article in order[start : start + 8]))
    os.close(file)
    await index.close()


def store_articles(url: str, log: Path, articles: int, seed: int, lease: float) -> None:
    """Entry point of a child process: writes to ``log`` which article it stores, and then whether
    the commit succeeded or came after the end of the lease."""
    asyncio.run(_store(url, log, articles, seed, lease))
