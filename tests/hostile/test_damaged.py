"""An index whose bytes something else has changed: a clear refusal, never a traceback from inside."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dedup_middleware.deduplicator import Deduplicator
from dedup_middleware.errors import IndexRefusedError
from dedup_middleware.options import Options


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE parameter SET value = x'00ff' WHERE name = 'bands'", "bands = b'\\x00\\xff'"),
        ("UPDATE parameter SET name = x'6e' WHERE name = 'hash_key'", "b'n'"),
        ("UPDATE parameter SET value = 'zz' WHERE name = 'hash_key'", "hash_key"),
        ("DELETE FROM parameter WHERE name = 'hash_key'", "hash_key"),
        ("UPDATE parameter SET value = x'3161' WHERE name = 'hash_key'", "hash_key = b'1a'"),
    ],
)
async def test_damaged_parameters(change: str, named: str, tmp_path: Path) -> None:
    """The refusal names what is damaged and what to do."""
    path = tmp_path / "index.db"
    options = Options(index_url=f"sqlite:{path}")
    async with Deduplicator(options):
        pass
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(change).rowcount == 1
    with pytest.raises(IndexRefusedError) as caught:
        async with Deduplicator(options):
            pass
    assert named in str(caught.value)
    assert "damaged parameters" in str(caught.value)
    assert "DEDUP_INDEX_URL" in str(caught.value)
