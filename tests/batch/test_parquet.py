"""Parquet files of strangers: what is in them is read, what would fill the memory is refused."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedup_middleware.tools.files.rows import BatchError, read_parquet

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20


def read(path: Path) -> list[Any]:
    """The fields of all rows."""
    return [row.raw for row in read_parquet(path)]


@pytest.mark.slow
@pytest.mark.parametrize("dictionaries", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_values(tmp_path: Path, dictionaries: bool, version: str, compression: str) -> None:
    """Fields of every kind are read as pyarrow itself would give them."""
    rows = [
        {
            "url": f"https://a/{n}", "text": "正文" * (n % 3) if n % 5 else None, "html": b"<p>",
            "size": n, "share": n / 2, "tags": ["a", "b"][: n % 3] if n % 4 else None,
            "author": {"name": "x", "ages": [n, None]} if n % 7 else None, "map": [("k", "v")],
        }
        for n in range(3000)
    ]  # fmt: skip
    types = {
        "url": pa.string(), "text": pa.string(), "html": pa.binary(), "size": pa.int64(),
        "share": pa.float64(), "tags": pa.list_(pa.string()),
        "author": pa.struct([("name", pa.string()), ("ages", pa.list_(pa.int32()))]),
        "map": pa.map_(pa.string(), pa.string()),
    }  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))
    pq.write_table(
        table, tmp_path / "a.parquet", use_dictionary=dictionaries, row_group_size=1000,
        data_page_version=version, compression=compression,
    )  # fmt: skip
    assert read(tmp_path / "a.parquet") == rows


def test_dates_that_python_does_not_have(tmp_path: Path) -> None:
    """They ended the run; they are texts, also in lists."""
    days = pa.array([0, 4_000_000, None, -4_000_000], pa.date32())
    times = pa.array([0, 4 * 10**17, None, 1], pa.timestamp("us"))
    lists = pa.ListArray.from_arrays([0, 2, 4, 4, 4], times)
    table = pa.table({"day": days, "time": times, "times": lists})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = read(tmp_path / "a.parquet")
    epoch = datetime(1970, 1, 1)
    later, last = "14645-06-30 15:06:40.000000", epoch.replace(microsecond=1)
    assert [row["day"] for row in rows] == [date(1970, 1, 1), "12921-08-18", None, "-8982-05-17"]
    assert [row["time"] for row in rows] == [epoch, later, None, last]
    assert [row["times"] for row in rows] == [[epoch, later], [None, last], [], []]


def test_a_date_in_a_map_names_its_column(tmp_path: Path) -> None:
    """Nothing said which column has to be left out."""
    kind = pa.map_(pa.string(), pa.date32())
    days = pa.array([4_000_000], pa.date32())
    column = pa.MapArray.from_arrays([0, 1], pa.array(["a"]), days)
    assert column.type == kind
    pq.write_table(pa.table({"days": column}), tmp_path / "a.parquet")
    with pytest.raises(BatchError, match=r"a\.parquet can't be read: column 'days': "):
        read(tmp_path / "a.parquet")


MEASURE = """
import resource, sys
from pathlib import Path
from dedup_middleware.tools.files.rows import read_parquet
from dedup_middleware.tools.files.rows import BatchError
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
list(read_parquet(Path(sys.argv[1])))
before, count = peak(), 0
try:
    for row in read_parquet(Path(sys.argv[2])):
        count += 1
except BatchError as error:
    print(error, file=sys.stderr)
print(peak() - before, count)
"""


def cost(path: Path) -> tuple[int, int, str]:
    """Bytes that it takes to read a file, rows that were read, and why it was refused."""
    good = path.with_name("good.parquet")
    pq.write_table(pa.table({"text": ["a"], "tags": [["a"]]}), good)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(good), str(path)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    taken, count = done.stdout.split()
    return int(taken), int(count), done.stderr


def test_long_text_of_a_dictionary(tmp_path: Path) -> None:
    """A text of 1 MB that 2,000 rows name is read, and in memory once."""
    path = tmp_path / "a.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["x" * 1_000_000])
    pq.write_table(pa.table({"text": text}), path, compression="zstd", store_schema=False)
    taken, count, why = cost(path)
    assert (count, why) == (2000, "")
    assert taken < 100 * MEGABYTE


def test_value_beyond_all_measure(tmp_path: Path) -> None:
    """A text of 300 MB that takes some kilobytes in the file is refused, by its column."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["x" * 300_000_000]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    taken, count, why = cost(path)
    assert count == 0
    assert "a part of the column text takes 300,000," in why
    assert taken < 60 * MEGABYTE


def test_list_beyond_all_measure(tmp_path: Path) -> None:
    """A list of twenty million values in some kilobytes is refused, by its column."""
    path = tmp_path / "a.parquet"
    values = pa.nulls(20_000_000, pa.int64()).fill_null(0)
    tags = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    pq.write_table(pa.table({"tags": tags}), path, compression="zstd")
    assert path.stat().st_size < 100_000
    taken, count, why = cost(path)
    assert count == 0
    assert "the column tags.list.element holds 20,000,000 values" in why
    assert taken < 60 * MEGABYTE


def test_very_many_rows(tmp_path: Path) -> None:
    """Three million empty rows in some kilobytes are read as they come, not all at once."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": pa.nulls(3_000_000, pa.string())})
    pq.write_table(table, path, row_group_size=1 << 30)
    taken, count, why = cost(path)
    assert (count, why) == (3_000_000, "")
    assert taken < 60 * MEGABYTE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_any_bytes(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes of a file are changed, it is read or refused, and nothing else happens."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["a", "b", None] * 9, "tags": [["x"], [], None] * 9})
    pq.write_table(table, path)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        read(path)
    except BatchError:
        return
