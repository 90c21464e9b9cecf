"""The format of a portable file as other programs see it, and how damaged ones are refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.pages import pages_of
from dedup_middleware.tools.portable.portable import (
    RANGE,
    BucketKeySpool,
    export_index,
    import_index,
)
from dedup_middleware.tools.portable.portable_file import (
    Exported,
    Portable,
    PortableWriter,
    content_layout,
    fingerprint_of,
    read_portable,
)
from tests.index.bulk import (
    MADE_WITH,
    TIME,
    a_page,
    exported,
    loaded,
    read_all,
    some_pages,
)


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file of a hundred pages."""
    return await exported(tmp_path / "file.parquet")


async def refusal(path: Path) -> str:
    """How a file is refused; the index stays unchanged."""
    index = MemoryIndex()
    with pytest.raises(IndexRefusedError) as caught:
        await import_index(index, path)
    with pytest.raises(IndexRefusedError, match="there is no index"):
        await index.attach()
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_cut_files(file: Path) -> None:
    """A file that was cut short anywhere is refused before anything is entered."""
    whole = file.read_bytes()
    for size in (0, 3, 4, 100, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert "no whole Parquet file" in await refusal(file)


async def test_changed_bytes(file: Path) -> None:
    """A file with a changed byte is refused, or holds the same pages as before."""
    whole = file.read_bytes()
    wanted = read_all(file)
    refused = 0
    for at in range(4, len(whole), len(whole) // 60):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            found = read_all(file)
        except IndexRefusedError:
            refused += 1
        else:
            assert found == wanted
    assert refused > 40


async def test_a_file_without_a_right_to_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error must not call it a file of another kind."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Failed to open local file")  # as pyarrow does

    monkeypatch.setattr(pq, "ParquetFile", refused)
    with pytest.raises(DedupError, match="can't be read: Permission denied"):
        read_portable(file)


async def test_files_of_others(file: Path, tmp_path: Path) -> None:
    """Files that no index was exported to are refused, each with what it is instead."""
    assert "there is no file" in await refusal(tmp_path / "nothing.parquet")
    assert "there is no file" in await refusal(tmp_path)
    foreign = tmp_path / "foreign"
    foreign.write_text("key,title\n1,News\n")
    assert "a file of another kind" in await refusal(foreign)
    pq.write_table(pa.table({"a": [1]}), foreign)
    assert "no index was exported to it" in await refusal(foreign)


def rewritten(path: Path, name: str | None = None, value: str = "", **columns: object) -> Path:
    """The file with something else in its metadata, or with other columns."""
    table = pq.read_table(path)
    metadata = {**table.schema.metadata, **pq.ParquetFile(path).metadata.metadata}
    if name is not None:
        metadata[f"dedup.{name}".encode()] = value.encode()
    for column, new in columns.items():
        at = table.column_names.index(column)
        table = table.remove_column(at)
        if new is not None:
            table = table.add_column(at, column, new)  # type: ignore[arg-type]
    other = path.with_name("other.parquet")
    pq.write_table(table.replace_schema_metadata(metadata), other, use_dictionary=["size", "time"])
    return other


async def test_files_that_contradict_themselves(file: Path) -> None:
    """Whatever else is wrong with a file is named."""
    content = content_layout()
    content["sketch"] = "<u8[2]"
    short = pa.array([b"1"] * 100)
    nulls = pa.array([None] * 100, pa.int64())
    cases: list[tuple[Path, str]] = []
    for arguments, columns, message in [
        (("format", "9"), {}, "has format '9'"),
        (("content", json.dumps(content)), {}, "sketch: the file has '<u8[2]'"),
        (("content", "{"), {}, "is damaged"),
        (("parameters", "{}"), {}, "parameters were changed"),
        (("rows", "99"), {}, "says 99 pages and holds 100"),
        (("checksum", "00"), {}, "do not add up"),
        ((), {"slots": None}, "columns slots are missing"),
        ((), {"sketch": short}, "the column sketch has values of another length"),
        ((), {"key": nulls}, "the column key has nulls"),
        ((), {"simhash": pa.array(range(100))}, "differ from the SimHashes"),
    ]:
        cases.append((rewritten(file, *arguments, **columns), message))
        assert message in await refusal(cases[-1][0])
    assert read_all(rewritten(file)) == read_all(file)


async def test_file_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that fails leaves the former file as it was, and no other file."""
    path = tmp_path / "x.parquet"
    path.write_text("the former one")
    index = await loaded(MemoryIndex(), pages_of([a_page(1, 11)]))

    def broken(self: Portable) -> None:
        raise IndexRefusedError("damaged by the disk")

    with monkeypatch.context() as patch:
        patch.setattr(Portable, "verify", broken)
        with pytest.raises(IndexRefusedError, match="by the disk"):
            await export_index(index, path)
    assert path.read_text() == "the former one"
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]
    assert isinstance(await export_index(index, path), Exported)
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]
    with pytest.raises(DedupError, match="can't be written"):
        await export_index(index, tmp_path / "no" / "folder" / "x.parquet")


async def test_records_lost(tmp_path: Path) -> None:
    """An index of which no bucket is found is not exported as an empty one."""
    index = await loaded(MemoryIndex(), pages_of([a_page(1, 11)]))
    index._buckets.clear()  # type: ignore[attr-defined]
    with pytest.raises(DedupError, match="any of 1 pages: the index is damaged"):
        await export_index(index, tmp_path / "x.parquet")


def test_plain_columns(file: Path) -> None:
    """Other programs read the file as plain columns."""
    table = pq.read_table(file)
    assert table.column_names[:4] == ["address", "time", "slots", "payload"]
    row = table.slice(3, 1).to_pylist()[0]
    assert row["address"] == "https://a/3"
    assert int(row["time"].timestamp()) == TIME
    assert row["key"] == 3
    assert len(row["sketch"]) == 64
    assert row["slots"][0] >> 40 == 0
    assert [bucket_key >> 40 for bucket_key in row["slots"]] == [0, 2, 3, 4, 5, 10, 11]
    kinds = {str(field.type) for field in table.schema}
    assert kinds == {
        "string", "timestamp[ms, tz=UTC]", "list<element: int64>", "binary", "int64"
    }  # fmt: skip


def test_bucket_keys_over_many_pages(tmp_path: Path) -> None:
    """Slots find their pages over several ranges of page numbers; records of other pages, and of
    none, are left out."""
    numbers = [1, 5, RANGE - 1, RANGE, 3 * RANGE + 7]
    wanted = np.zeros(numbers[-1] + 1, np.bool_)
    wanted[numbers] = True
    spool = BucketKeySpool(tmp_path, wanted)
    for table, prefix in ((0, 9), (0, 10), (6, 4)):
        raw = b"".join(
            number.to_bytes(5, "little") + (number & 0xFFF).to_bytes(3, "little")
            for number in (*numbers, 2, 1 << 39)
        )
        spool.add(table << 16 | prefix, raw + b"odd")
    spool.flush()
    for number in numbers:
        bucket_keys, starts, _ = spool.places(np.array([number], np.uint64))
        assert bucket_keys.tolist() == [
            table << 40 | prefix << 24 | number & 0xFFF
            for table, prefix in ((0, 9), (0, 10), (6, 4))
        ]
        assert starts.tolist() == [0, 3]
    assert list(tmp_path.iterdir()) == []


async def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the message names the extra to install."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    index = await loaded(MemoryIndex(), pages_of([]))
    with pytest.raises(DedupError, match=r"pip install 'dedup-middleware\[parquet\]'"):
        await export_index(index, tmp_path / "x.parquet")
    with pytest.raises(DedupError, match=r"pip install 'dedup-middleware\[parquet\]'"):
        read_portable(tmp_path / "x.parquet")


def test_fingerprint_of_parameters() -> None:
    """The fingerprint does not depend on the order of parameters, and different ones have different
    fingerprints."""
    assert fingerprint_of({"a": "1", "b": "2"}) == fingerprint_of({"b": "2", "a": "1"})
    names: Sequence[str] = [fingerprint_of({"a": value}) for value in ("1", "2", "")]
    assert len(set(names)) == 3


def test_few_row_groups(tmp_path: Path) -> None:
    """A server gives its pages in small parts. A file with a row group for each of them would be
    too long a list for readers of Parquet."""
    path = tmp_path / "small.parquet"
    with PortableWriter(path, MADE_WITH) as writer:
        for key in range(300):
            writer.write(some_pages(1, key + 1))
        assert writer.finish().pages == 300
    assert pq.ParquetFile(path).num_row_groups == 1
