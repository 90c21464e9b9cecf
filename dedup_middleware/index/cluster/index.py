"""The index spread over the masters of a cluster (see :mod:`.propose` for its protocol)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Wanted
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.cluster.propose import TURNS, propose
from dedup_middleware.index.cluster.shards import Announced, Reserved, text_of
from dedup_middleware.index.cluster.upkeep import ClusterUpkeep
from dedup_middleware.index.cluster.visits import Visit
from dedup_middleware.index.pages import LEASE, Pages, lapsed, suffixes_of
from dedup_middleware.index.redis.propose import BUCKETS, batches
from dedup_middleware.index.redis.scripts import FIRST_SECOND
from dedup_middleware.model.buckets import KEY_TABLE, BucketKey, BucketKeys, hash_bucket_key
from dedup_middleware.model.claims import Candidates, Claimed, Proposed
from dedup_middleware.model.records import PageRecords, State, chosen

_PROPOSED = 128  # pages per batch; more than on one server, as every shard touched costs a call
_LANES = 2
_CROWD = 20
# Maximum buckets of a batch on all shards; each call reads one table and generation at a time.
_BUCKETS = 2 * BUCKETS
_LOADED = 512  # maximum pages loaded together
_LOADED_OF_SHARD = 64  # the same per shard: fields and values must fit on Lua's stack


def most_buckets(shards: int) -> int:
    """Maximum number of buckets of the pages proposed together."""
    return min(_BUCKETS, BUCKETS * shards)


class ClusterIndex(ClusterUpkeep):
    """Buckets and page records spread over hash tags; pages are entered by announcements.

    :param options: ``index_url``, ``namespace``, ``shards``, ``timeout`` and ``retries`` are used
    :param window: seconds for which a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        super().__init__(options, window=window)
        self._proposals = Batcher(self._propose, _PROPOSED, lanes=_LANES, crowd=_CROWD)
        # Cache of ``expiring``: the oldest generation, and each shard's first id after it.
        self._expiring: tuple[int, list[int]] = (-1, [])

    async def _propose(self, pages: list[Proposed]) -> list[Claimed | Candidates | Exception]:
        made: list[Claimed | Candidates | Exception] = []
        for group in batches(pages, 1, most_buckets(self.spread.shards)):
            made += await propose(self, group)
        return made

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        return await self.read_all([one.bucket for one in bucket_keys])

    async def settled_of_key(self, key_hash: int) -> PageRecords:
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        # An announced page is in its buckets before it has a page record, perhaps in the next
        # generation. ``settles`` denies it a record from now on, so it must be announced again.
        bucket_key = hash_bucket_key(KEY_TABLE, key_hash)
        data = await self.read_all([bucket_key.bucket], later=1)
        near = neighbours([bucket_key], data, 0)
        found = (await self.look(near.page_ids, texts=Wanted.NOTHING, settles=True)).records
        return chosen(found, found.content["key"] == np.uint64(key_hash))

    async def expiring(self, page_id: int) -> bool:
        if not self._window.seconds:
            return False
        oldest = self.moment().oldest
        if self._expiring[0] != oldest:
            later = [
                min(
                    (first for one, first in state.firsts.items() if one > oldest),
                    default=state.counters[0] + 1,
                )
                for state in await self.states()
            ]
            self._expiring = oldest, later
        return self.spread.local(page_id) < self._expiring[1][self.spread.home_of(page_id)]

    async def _load(self, pages: Pages) -> None:
        count = min(_LOADED, _LOADED_OF_SHARD * self.spread.shards)
        for start in range(0, len(pages), count):
            await self._load_some(pages.part(start, start + count))

    async def _load_some(self, pages: Pages) -> None:
        """Announce and commit pages without looking at their candidates; again, if others settled
        their ids or their generation has ended meanwhile."""
        for _ in range(TURNS):
            made = await self._load_once(pages, await self.take_ids(len(pages)))
            if made.all():
                return
            self.drop_ids()
            pages = pages.chosen(~made)
        raise lapsed(self._where)

    async def _load_once(self, pages: Pages, reserved: Sequence[Reserved]) -> NDArray[np.bool_]:
        """Announce and commit pages once; returns a mask of those that succeeded."""
        kept = self.record.pack(pages.content)
        texts = self.record.text
        announced = [
            Announced(
                one,
                secrets.randbits(64),
                kept[i].tobytes() + State.PENDING.to_bytes(4, "little"),
                text_of(pages.addresses[i] or b"", pages.payloads[i]) if texts else b"",
            )
            for i, one in enumerate(reserved)
        ]
        of_page = np.repeat(np.arange(len(pages)), np.diff(pages.starts))
        words = np.empty(2 * len(of_page), np.uint64)
        words[::2] = pages.bucket_keys >> np.uint64(24)
        words[1::2] = suffixes_of(pages.bucket_keys, pages.content["simhash"][of_page])
        bounds = (2 * pages.starts).tolist()
        keys: list[Sequence[BucketKey]] = [BucketKeys(words[a:b]) for a, b in pairwise(bounds)]
        page_ids = [one.page_id for one in reserved]
        newest = reserved[0].generation
        counts = list(map(len, keys))
        visited = Visit(self, keys, counts, page_ids, [newest], newest, returns=False)
        parts, creating = self.creating(announced, LEASE)
        stamps = np.maximum(
            np.where(pages.times, pages.times, np.uint32(time.time())), FIRST_SECOND
        )
        try:
            replies, _ = await self.together([*visited.calls, *creating], ())
            flags = self.created(len(pages), parts, replies[len(visited.calls) :])
            made = np.array([one is True for one in flags], np.bool_)
            await self._commit_loaded(
                [one for one, is_made in zip(announced, made, strict=True) if is_made],
                stamps[made].astype("<u4"),
            )
        except BaseException:
            # Pages left pending would block similar pages until the lease ends.
            self.give_up([one.claim for one in announced])
            raise
        return made

    async def _commit_loaded(
        self, announced: Sequence[Announced], stamps: NDArray[np.uint32]
    ) -> None:
        claims = [one.claim for one in announced]
        contents = [one.row[: self.record.itemsize] for one in announced]
        self._claimed.update(zip(claims, contents, strict=True))
        parts = self.spread.by_home(claim.page_id for claim in claims)
        calls = [
            self._commit([claims[at] for at in part], stamps[part].tobytes()) for part in parts
        ]
        try:
            flags = await asyncio.gather(*calls)
        finally:
            for claim in claims:
                self._claimed.pop(claim, None)
        if not all(map(all, flags)):
            raise lapsed(self._where)
