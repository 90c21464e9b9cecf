"""Sorted rows in batches, cut where a group ends."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_middleware.spark import columns
from dedup_middleware.spark.columns import whole_groups


def batches(keys: list[int], sizes: list[int]) -> list[Any]:
    """Rows with these keys and a number each, in batches of these sizes."""
    table = pa.table({"key": pa.array(keys, pa.int64()), "row": [*range(len(keys))]})
    ends = np.cumsum(sizes).tolist()
    parts = zip(ends, sizes, strict=True)
    return [table.slice(end - size, size).combine_chunks().to_batches() for end, size in parts]


def test_groups_are_not_cut() -> None:
    """All rows come once, in their order, and those of a key together."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        sizes = rng.integers(0, 6, 8).tolist()
        keys = sorted(rng.integers(0, rng.integers(1, 12), sum(sizes)).tolist())
        given = (batch for some in batches(keys, sizes) for batch in some)
        found = [table.to_pydict() for table in whole_groups(given, "key")]
        assert [row for part in found for row in part["row"]] == [*range(len(keys))]
        assert all(len(part["row"]) for part in found)
        cut = [key for part in found for key, _ in groupby(part["key"])]
        assert len(cut) == len(set(cut))


def test_a_long_group_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch was joined to all before it: four million copies of a page took minutes."""
    looked = []
    words = columns.words

    def counted(column: Any) -> Any:
        looked.append(len(column))
        return words(column)

    monkeypatch.setattr(columns, "words", counted)
    some = batches([7] * 1000, [10] * 100)
    (table,) = whole_groups((batch for part in some for batch in part), "key")
    assert (table.num_rows, sum(looked)) == (1000, 1000)
    assert table.column("row").num_chunks == 1
