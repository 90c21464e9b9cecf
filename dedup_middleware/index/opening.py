"""Creates the index object that the options name, and derives options for another index."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.parameters import window_parameter


def open_index(options: Options) -> Index:
    """Create the index for ``options.index_url``, unconnected; imports only its back end."""
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


async def open_existing(options: Options) -> tuple[Index, dict[str, str]]:
    """Attach to an existing index with the window it was created with, ignoring the setting.

    With another window its buckets would not be found, and it would look damaged.

    :returns: the index, which the caller must close, and its parameters
    :raises DedupError: there is no index, or it can't be read
    """
    index = open_index(options)
    try:
        stored = await index.attach()
        made = _window(stored, options)
        if window_parameter(index.window) == window_parameter(made):
            return index, stored
    except BaseException:
        await index.close()
        raise
    await index.close()
    return await open_existing(attrs.evolve(options, window=made))


def _window(stored: Mapping[str, str], options: Options) -> float:
    text = stored.get("window", "0")
    try:
        return float(text)
    except ValueError:
        raise IndexRefusedError(
            f"the index at {options.safe_index_url} is damaged: its window is {text!r}, which is "
            "no number of seconds; restore a copy"
        ) from None


def former_options(options: Options) -> Options:
    """Options for the former index (``former_index_url``) of these options."""
    url = options.former_index_url or Options().index_url
    return options_of_other(options, url, options.former_namespace)


def options_of_other(options: Options, url: str, namespace: str | None) -> Options:
    """Options for another index, without a former one.

    :param namespace: None: that of ``options``; on SQLite, which has none, the default
    """
    own = Options().namespace if url.startswith("sqlite:") else options.namespace
    return attrs.evolve(
        options, index_url=url, namespace=namespace or own, former_index_url="", former_namespace=""
    )
