"""From the options to the index they name."""

from __future__ import annotations

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index


def open_index(options: Options) -> Index:
    """The index that ``options.index_url`` names, not connected yet (see :meth:`.Index.open`).

    The back end is imported here, so that only the one in use is loaded.
    """
    scheme, _, rest = options.index_url.partition(":")
    if scheme == "memory":
        from dedup_middleware.index.memory.index import MemoryIndex

        return MemoryIndex(window=options.window)
    if scheme == "sqlite":
        from dedup_middleware.index.sqlite.index import SQLiteIndex

        return SQLiteIndex(rest, timeout=options.timeout, window=options.window)
    if scheme.endswith("+cluster"):
        from dedup_middleware.index.cluster.index import ClusterIndex

        return ClusterIndex(options, window=options.window)
    from dedup_middleware.index.redis.index import RedisIndex

    return RedisIndex(options, window=options.window)
