"""What the racing processes do: decide one variant of each article, all at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.model.documents import NEW, Document
from tests.servers import namespace_for
from tests.torture.articles import BANDS, HASH_KEY, address, text_of


async def _race(
    url: str, variant: int, rounds: Sequence[Sequence[int]], start: Barrier, kept: Queue[str]
) -> None:
    options = Options(
        index_url=url,
        namespace=namespace_for(url, "race"),
        timeout=60,
        hash_key=HASH_KEY,
        bands=BANDS,
    )
    async with Deduplicator(options) as dedup:
        for articles in rounds:
            documents = [
                Document(key=address(number, variant), text=text_of(number, variant))
                for number in articles
            ]
            await asyncio.to_thread(start.wait, 120)

            async def one(document: Document) -> None:
                verdict = await dedup.decide(document)
                if verdict.outcome == NEW:
                    await asyncio.sleep(0.01)  # storage takes its time
                    if await dedup.commit(verdict):
                        kept.put(document.key)

            await asyncio.gather(*map(one, documents))


def race(
    url: str, variant: int, rounds: Sequence[Sequence[int]], start: Barrier, kept: Queue[str]
) -> None:
    """Entry point of a child process.

    :param rounds: the articles that all decide at once, then the next ones
    :param start: where all wait for each other before each round
    :param kept: gets the address of every page that was stored
    """
    asyncio.run(_race(url, variant, rounds, start, kept))
