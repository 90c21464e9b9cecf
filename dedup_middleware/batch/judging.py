"""The crawl's own deduplicator, given fingerprints that were made in other processes."""

from __future__ import annotations

import attrs

from dedup_middleware.deduplicator import Deduplicator
from dedup_middleware.fingerprint import Document, Fingerprint, Verdict
from dedup_middleware.options import Options

HASH_KEY = "1"  # of every run without DEDUP_HASH_KEY, so that all runs decide alike


def batch_options(options: Options) -> Options:
    """Options of a run: the rule of the crawl on an index of its own in memory.

    A row that is written stays, whatever comes later under its key.
    """
    return attrs.evolve(
        options,
        index_url="memory:",
        hash_key=options.hash_key or HASH_KEY,
        window=0.0,
        versions="keep",
    )


class BatchDeduplicator(Deduplicator):
    """Decides one page after the other; each that is new counts as stored at once."""

    async def judge(self, page: Fingerprint, document: Document) -> Verdict:
        """The verdict on a page, in the order of the calls.

        :param document: the same page, for whoever reads the verdict
        """
        verdict = await self.decide_fingerprint(page)
        await self.commit(verdict)
        return attrs.evolve(verdict, document=document)
