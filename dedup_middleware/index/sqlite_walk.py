"""Walking through all buckets of a file, some in each transaction."""

from __future__ import annotations

import sqlite3

from dedup_middleware.index.window import Moment

_BYTES = 4 << 20  # of buckets that one transaction reads in one generation
_MOST = 2_000  # buckets read by one transaction in one generation
_GENERATION = 24  # bits of a bucket's id below its generation
LAST_BUCKET = (1 << _GENERATION) - 1


def buckets_after(
    db: sqlite3.Connection, bucket: int, moment: Moment
) -> tuple[list[tuple[int, bytes]], int]:
    """The next buckets behind one, ascending, with their records of all live generations.

    :returns: the buckets, and the last one looked at (2^24 - 1 at the end)
    """
    found: dict[int, list[bytes]] = {}
    end = LAST_BUCKET
    for generation in moment.live:
        base = generation << _GENERATION
        rows = db.execute(
            "SELECT id, CAST(data AS BLOB) FROM bucket WHERE id > ? AND id <= ? ORDER BY id",
            (base + bucket, base + end),
        )
        total = 0
        for count, (number, raw) in enumerate(rows, 1):
            found.setdefault(number - base, []).append(raw)
            total += len(raw)
            if count == _MOST or total >= _BYTES:
                # The next generations need to be read no further than this one.
                end = number - base
                break
        rows.close()
    return [
        (one, b"".join(found[one])) for one in sorted(found) if one <= end and any(found[one])
    ], end
