"""Settings that make an index smaller, from the options to what is kept of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import RECORD
from dedup_middleware.model.documents import Document
from dedup_middleware.model.records import State
from tests.servers import RedisServer

TEXT = " ".join(f"word{i}" for i in range(200))


def options(kind: str, folder: Path, server: RedisServer, **settings: object) -> Options:
    """Options with an index of their own."""
    url = server.url if kind == "redis" else f"sqlite:{folder / 'index.db'}"
    if kind == "redis":
        settings["namespace"] = folder.name[-40:].replace("[", "-").replace("]", "-")
    return Options(index_url=url, segmenter="words", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
@pytest.mark.parametrize("method", ["content", "simhash"])
@pytest.mark.parametrize("keep", [True, False])
async def test_copies_are_found_in_small_indexes(
    kind: str, method: str, keep: bool, tmp_path: Path, redis_server: RedisServer
) -> None:
    """With and without addresses, and with SimHash tables alone, a copy is found, and the page it
    is a copy of by its address or its number."""
    chosen = options(kind, tmp_path, redis_server, method=method, keep_address=keep)
    async with Deduplicator(chosen) as dedup:
        first = await dedup.decide(Document(key="https://a/1", text=TEXT))
        await dedup.commit(first)
        copy = await dedup.decide(Document(key="https://a/2", text=TEXT))
        again = await dedup.decide(Document(key="https://a/1", text=TEXT))
    assert copy.is_duplicate
    assert again.is_revisit
    assert copy.match is not None
    assert copy.match.key == ("https://a/1" if keep else None)
    assert copy.match.jaccard == 1.0
    async with open_index(chosen) as index:
        record = (await index.attach())[RECORD].split()
        (found,) = [part async for part in index.pages()]
        (content,) = found.content[found.states == State.COMMITTED]
    assert ("text" in record) == (keep or method == "content")  # evidence is kept with addresses
    assert not content["sketch"].any()
    names = {field.partition(":")[0] for field in record} - {"text"}
    if method == "simhash":
        assert names == {"size", "simhash", "exact", "key"}
    else:
        assert names == {*content.dtype.names} - {"sketch"}


async def test_addresses_are_kept_by_all_or_none(tmp_path: Path, redis_server: RedisServer) -> None:
    """An index that keeps no text of pages is refused where addresses are to be kept."""
    small = {"evidence": "sketch"}
    async with Deduplicator(options("sqlite", tmp_path, redis_server, keep_address=False, **small)):
        pass
    with pytest.raises(IndexRefusedError, match=r"record: the index has .* asks? for .*text"):
        async with Deduplicator(options("sqlite", tmp_path, redis_server, **small)):
            pass
