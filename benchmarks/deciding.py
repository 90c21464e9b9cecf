"""Check-then-insert with ready fingerprints: ours, and that of datasketch, rensa and FAISS.

Ours is the whole decision: propose (read, scan, claim), judge the candidates by their sketches,
commit. Each peer does what it offers: datasketch queries and inserts with the same eight bands of
three minima, and so finds the same candidates; rensa's deduplicator and FAISS's
IndexBinaryMultiHash (four tables of 16 bits of the SimHash, within 3 bits) use their own
signatures.

For a copy, datasketch's query returns candidates without judging them. On Redis it is therefore
measured a second time, ``verified``: each page's minima are kept on the same server, and those of
candidates are fetched in one command and compared. It compares 24 minima where ours compares
sketches of 512 bits, which judges less well and costs less than an equal number of minima would.
One page is in flight at a time: AsyncMinHashLSH, which allows more, was slower with 64 than with
one. In a third row it inserts every page after its query, copies included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import faiss
import numpy as np
import redis
import rensa  # type: ignore[import-untyped]
from datasketch import MinHash, MinHashLSH

from benchmarks.fingerprints import BANDS, PERMUTATIONS, ROWS, Fingerprints
from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import NOTHING_KNOWN, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT, NO_PAGES, PageRecords, State, joined
from tests.index.claiming import missing

IN_FLIGHT = 100  # pages that a process decides at once: Scrapy's CONCURRENT_ITEMS
SCAN_DISTANCE = 12
_LEASE = 60.0
_SKETCH = CONTENT.itemsize - 64  # offset of the sketch
_JACCARD = 2 / 3
_DIFFERENT = 85  # of 512 sketch bits, as many as differ at that Jaccard index


async def decide(index: Index, entry: Entry) -> bool:
    """Decide a page and store it if it is new; return whether it was new."""
    known = NOTHING_KNOWN
    judged = NO_PAGES
    while True:
        made = await index.propose(entry, SCAN_DISTANCE, _LEASE, known=known)
        found = made.candidates if isinstance(made, Claimed) else made
        if len(found.near):
            pages, unread = found.pages, missing(found)
            if len(unread):
                pages = joined([pages, await index.fetch(unread)])
            if _has_copy(pages, entry.content):
                if isinstance(made, Claimed):
                    await index.release(made.claim)
                return False
            judged = joined([judged, pages]) if len(judged) else pages
        if isinstance(made, Claimed):
            await index.commit(made.claim)
            return True
        known = Known(judged)


def _has_copy(near: PageRecords, content: bytes) -> bool:
    own = int.from_bytes(content[_SKETCH:], "little")
    for state, raw in zip(near.states.tolist(), near.content["sketch"], strict=True):
        if state == State.COMMITTED:
            bits = (int.from_bytes(raw.tobytes(), "little") ^ own).bit_count()
            if bits <= _DIFFERENT:
                return True
    return False


async def decide_all(index: Index, entries: Sequence[Entry], in_flight: int = IN_FLIGHT) -> int:
    """Decide pages, ``in_flight`` at a time as a spider does; return the number of new ones."""
    queue = iter(entries)

    async def worker() -> int:
        return sum([await decide(index, entry) for entry in queue])

    return sum(await asyncio.gather(*(worker() for _ in range(in_flight))))


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    """Return the CPU seconds of decisions in all threads of this process, and how many were new.

    CPU time does not count other programs on the machine.
    """
    started = time.process_time()
    new = work()
    return time.process_time() - started, new


def datasketch_index(pages: Fingerprints, port: int | None = None) -> MinHashLSH:
    """Return a datasketch index with these pages, in memory or on a Redis server."""
    config = None
    if port is not None:
        server = {"host": "127.0.0.1", "port": port}
        config = {"type": "redis", "basename": b"peer", "redis": server}
    peer = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS), storage_config=config)
    with peer.insertion_session(buffer_size=2000) as session:
        for i, minhash in enumerate(pages.minhashes()):
            session.insert(pages.address(i), minhash, check_duplication=False)
    return peer


class Minima:
    """The minima of pages, one key per page, on the Redis server of datasketch's index."""

    def __init__(self, port: int) -> None:
        self._client = redis.Redis(port=port)

    def keep(self, names: Sequence[str], hashes: Sequence[MinHash]) -> None:
        """Store the minima of pages."""
        self._client.mset(
            {
                f"minima:{name}": minhash.hashvalues.tobytes()
                for name, minhash in zip(names, hashes, strict=True)
            }
        )

    def has_copy(self, names: Sequence[str], minhash: MinHash) -> bool:
        """Whether one of these pages shares as many minima as copies do."""
        raw: list[bytes | None] = self._client.mget([f"minima:{name}" for name in names])  # type: ignore[assignment]
        kept = [np.frombuffer(one, np.uint32) for one in raw if one]
        return any((one == minhash.hashvalues).mean() >= _JACCARD for one in kept)


def decide_datasketch(
    peer: MinHashLSH,
    names: Sequence[str],
    hashes: Sequence[MinHash],
    minima: Minima | None = None,
    *,
    always: bool = False,
) -> int:
    """Query and insert pages with datasketch; return the number of new ones.

    :param minima: if given, candidates are compared by these
    :param always: whether to insert copies too
    """
    new = 0
    for name, minhash in zip(names, hashes, strict=True):
        found = peer.query(minhash)
        is_new = not found or (minima is not None and not minima.has_copy(found, minhash))
        if is_new or always:
            peer.insert(name, minhash, check_duplication=False)
        if is_new:
            if minima is not None:
                minima.keep([name], [minhash])
            new += 1
    return new


class Rensa:
    """rensa's deduplicator, which decides and inserts in one call."""

    def __init__(self, pages: Fingerprints) -> None:
        self._peer = rensa.RMinHashDeduplicator(
            threshold=0.7, num_perm=128, use_lsh=True, num_bands=16
        )
        decide_rensa(self, pages)

    def add(self, name: str, minhash: object) -> bool:
        """Insert a page unless it is a duplicate; return whether it was new."""
        return bool(self._peer.add(name, minhash))


def rensa_hashes(pages: Fingerprints) -> list[object]:
    """Return rensa's signatures: it hashes the minima of a page as its shingles."""
    made = []
    for row in pages.minima:
        one = rensa.RMinHash(num_perm=128, seed=42)
        one.update([f"{value}" for value in row.tolist()])
        made.append(one)
    return made


def decide_rensa(peer: Rensa, pages: Fingerprints, hashes: Sequence[object] | None = None) -> int:
    """Decide pages with rensa; return the number of new ones."""
    return sum(
        peer.add(pages.address(i), one)
        for i, one in enumerate(rensa_hashes(pages) if hashes is None else hashes)
    )


def faiss_index(pages: Fingerprints) -> faiss.IndexBinaryMultiHash:
    """Return a FAISS index with these pages: four tables of 16 bits of the SimHash."""
    peer = faiss.IndexBinaryMultiHash(64, 4, 16)
    peer.add(_rows(pages))
    return peer


def decide_faiss(peer: faiss.IndexBinaryMultiHash, pages: Fingerprints) -> int:
    """Range search within 3 bits, then add, page by page; return the number of new ones."""
    new = 0
    rows = _rows(pages)
    for i in range(len(rows)):
        limits, _, _ = peer.range_search(rows[i : i + 1], 4)
        if limits[1] == 0:
            peer.add(rows[i : i + 1])
            new += 1
    return new


def _rows(pages: Fingerprints) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return pages.simhashes.view(np.uint8).reshape(-1, 8)
