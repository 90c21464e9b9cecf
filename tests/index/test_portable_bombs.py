"""Portable files made to exhaust the memory, or to damage the index that they are imported into."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.pages import pages_of
from dedup_middleware.tools.commands.asking import reading_index
from dedup_middleware.tools.portable.parquetpages import read_groups
from dedup_middleware.tools.portable.portable import export_index, import_index
from dedup_middleware.tools.portable.portable_file import fingerprint_of
from tests.index.bulk import MADE_WITH, TIME, a_page, loaded
from tests.index.harness import payloads

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file of a hundred pages."""
    entries = [a_page(key, key * 0x9E3779B97F4A7C15 & (1 << 64) - 1) for key in range(100)]
    index = await loaded(MemoryIndex(), pages_of(entries, [TIME] * 100))
    await export_index(index, tmp_path / "file.parquet")
    return tmp_path / "file.parquet"


def repeated(
    good: Path,
    rows: int,
    groups: int = 1,
    remarks: dict[str, str] | None = None,
    dictionaries: bool | list[str] = True,
    **columns: Any,
) -> Path:
    """The file with its first page again and again, in few bytes; some columns are others."""
    table = pq.read_table(good).slice(0, 1)
    metadata = {**table.schema.metadata, **pq.ParquetFile(good).metadata.metadata}
    metadata[b"dedup.rows"] = str(rows * groups).encode()
    indices = pa.array([0]).take(pa.nulls(rows, pa.int64()).fill_null(0))
    arrays = []
    for name in table.column_names:
        column = columns.get(name)
        if column is None:
            one = table.column(name).combine_chunks()
            column = (
                one.take(indices)
                if pa.types.is_list(one.type) or one.null_count
                else pa.DictionaryArray.from_arrays(indices.cast("int32"), one)
            )
        arrays.append(column)
    made = pa.table(arrays, names=table.column_names).replace_schema_metadata(metadata)
    path = good.with_name("bomb.parquet")
    # Without Arrow's own description the columns are of their usual types when they are read.
    with pq.ParquetWriter(
        path, made.schema, compression="zstd", store_schema=False, use_dictionary=dictionaries
    ) as writer:
        for _ in range(groups):
            writer.write_table(made, row_group_size=1 << 30)
        texts = {name.decode(): text.decode() for name, text in metadata.items()}
        writer.add_key_value_metadata({**texts, **(remarks or {})})
    return path


MEASURE = """
import asyncio, resource, sys
from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.tools.portable.portable import import_index
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
asyncio.run(import_index(MemoryIndex(), sys.argv[1]))
before = peak()
try:
    asyncio.run(import_index(MemoryIndex(), sys.argv[2]))
except IndexRefusedError as error:
    print(error, file=sys.stderr)
print(peak() - before)
"""


def cost(good: Path, path: Path) -> tuple[int, str]:
    """Bytes that it takes to import a file, beyond those for a good one; and why it is refused."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(good), str(path)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr


def test_dictionary_of_long_payloads(file: Path) -> None:
    """Pages that all name one payload of a dictionary are refused before they are unpacked."""
    payload = pa.DictionaryArray.from_arrays(
        pa.nulls(20_000, pa.int32()).fill_null(0), pa.array([b"p" * 30_000])
    )
    path = repeated(file, 20_000, dictionaries=["payload"], payload=payload)
    assert path.stat().st_size < 200_000
    taken, why = cost(file, path)
    assert taken < 60 * MEGABYTE
    assert "the column payload is encoded in a way that an export does not use" in why


def test_long_value(file: Path) -> None:
    """A value of 300 MB that takes some kilobytes in the file is refused."""
    path = file.with_name("bomb.parquet")
    table = pq.read_table(file).slice(0, 1)
    metadata = {
        **table.schema.metadata,
        **pq.ParquetFile(file).metadata.metadata,
        b"dedup.rows": b"1",
    }
    at = table.column_names.index("payload")
    table = table.set_column(at, "payload", pa.array([b"p" * 300_000_000]))
    table = table.replace_schema_metadata(metadata)
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    del table
    assert path.stat().st_size < 100_000
    taken, why = cost(file, path)
    assert taken < 60 * MEGABYTE
    assert "a part of the column payload takes 300,000,0" in why


def test_billions_of_pages(file: Path) -> None:
    """More pages than can fit in the file are refused by their number."""
    path = repeated(file, 1_000_000, groups=10)
    taken, why = cost(file, path)
    assert taken < 60 * MEGABYTE
    assert "it claims 10,000,000 pages, and its size allows" in why


def test_large_group(file: Path) -> None:
    """A group of rows that is larger than any export makes it is refused."""
    # Texts about the file are no pages, but they make it large enough for so many.
    path = repeated(file, (1 << 20) + 1, remarks={f"{n}": "x" * 900_000 for n in range(4)})
    taken, why = cost(file, path)
    assert taken < 60 * MEGABYTE
    assert "a group of 1,048,577 rows" in why


def test_page_in_very_many_places(file: Path) -> None:
    """A page with ten million slots, in a file of some kilobytes, is refused."""
    values = pa.nulls(10_000_000, pa.int64()).fill_null(0)
    slots = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    path = repeated(file, 1, dictionaries=["slots.list.element"], slots=slots)
    assert path.stat().st_size < 100_000
    taken, why = cost(file, path)
    assert taken < 60 * MEGABYTE
    assert "has 10,000,000 values for 1 pages" in why


@pytest.mark.slow
async def test_long_payloads_of_ones_own(tmp_path: Path) -> None:
    """Pages whose payloads are as long as they may be are exported and imported, in parts."""
    entries = [a_page(key, key + 7, payload=bytes([key % 251]) * 65_000) for key in range(3000)]
    index = await loaded(MemoryIndex(), pages_of(entries, [TIME] * len(entries)))
    await export_index(index, tmp_path / "long.parquet")
    other = MemoryIndex()
    imported = await import_index(other, tmp_path / "long.parquet")
    assert imported.pages == 3000
    assert await payloads(other, [5, 2999]) == await payloads(index, [5, 2999])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content", "[]"),
        ("content", "[" * 100_000),
        ("content", "3"),
        ("content", '{"size": 4}'),
        ("parameters", "[]"),
        ("parameters", '{"hash_key": 5}'),
        ("parameters", "null"),
        ("parameters", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")),
        ("rows", ""),
        ("checksum", "\x00"),
    ],
)
async def test_malformed_descriptions(file: Path, name: str, value: str) -> None:
    """Whatever the metadata of a file hold, it is refused by name, without a traceback."""
    path = described(file, **{name: value})
    with pytest.raises(IndexRefusedError, match=r"bomb\.parquet"):
        await import_index(MemoryIndex(), path)


def described(good: Path, **values: str) -> Path:
    """The file with other texts in its metadata."""
    table = pq.read_table(good)
    metadata = {**table.schema.metadata, **pq.ParquetFile(good).metadata.metadata}
    metadata.update({f"dedup.{name}".encode(): value.encode() for name, value in values.items()})
    path = good.with_name("bomb.parquet")
    pq.write_table(table.replace_schema_metadata(metadata), path, use_dictionary=["size"])
    return path


@pytest.mark.parametrize("key", ["zz", "", "0x1f", "-1", "1" * 33, "1 ", "１", None])
async def test_unusable_hash_key(file: Path, key: str | None) -> None:
    """A file whose hash key can't be one is refused; the index is not made, the key not shown."""
    parameters = {**MADE_WITH, "hash_key": key}
    if key is None:
        del parameters["hash_key"]
    found: dict[str, str] = {name: str(value) for name, value in parameters.items()}
    path = described(file, parameters=json.dumps(found), fingerprint=fingerprint_of(found))
    index = MemoryIndex()
    with pytest.raises(IndexRefusedError, match="no usable hash_key") as caught:
        await import_index(index, path)
    if key:
        assert repr(key) not in str(caught.value)
    with pytest.raises(IndexRefusedError, match="there is no index"):
        await index.attach()


async def test_index_with_an_unusable_key(tmp_path: Path) -> None:
    """An index that holds such a key already is refused by a crawl and by the commands, instead of
    ending them with an error from inside."""
    options = Options(index_url=f"sqlite:{tmp_path / 'index.db'}")
    async with Deduplicator(options):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "index.db")) as db, db:
        db.execute("UPDATE parameter SET value = 'zz' WHERE name = 'hash_key'")
    with pytest.raises(IndexRefusedError, match="hash_key is not a hexadecimal number"):
        await Deduplicator(options).open()
    with pytest.raises(IndexRefusedError, match="hash_key is not a hexadecimal number"):
        async with reading_index(options):
            pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
async def test_any_bytes(file: Path, data: st.DataObject) -> None:
    """Whatever bytes of a file are changed, it is refused as damaged, or holds what it held."""
    whole = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = file.with_name("changed.parquet")
    path.write_bytes(whole)
    try:
        imported = await import_index(MemoryIndex(), path)
    except DedupError:
        return
    assert imported.pages == 100


def varint(value: int) -> bytes:
    """A number as Thrift's compact protocol writes it, zigzagged."""
    value = value << 1 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(distance: int, kind: int, value: bytes) -> bytes:
    """A field of a struct, by its distance from the one before."""
    return bytes([distance << 4 | kind]) + value


def page(kind: int, unpacked: int, packed: int, count: int, encoding: int = 0) -> bytes:
    """A page with its header."""
    sizes = b"".join(field(1, 5, varint(size)) for size in (kind, unpacked, packed))
    detail = field(1, 5, varint(count)) + field(3 if kind == 3 else 1, 5, varint(encoding))
    place = {0: 2, 2: 4, 3: 5}.get(kind, 3)  # fields 5, 7, 8; 6 is an index
    return sizes + field(place, 12, detail + b"\0") + b"\0" + b"." * packed


def parquet(pages: bytes, values: int = 5, wide: int = 6) -> bytes:
    """A file with one column, ``key``; ``wide``: the kind of the place of its dictionary."""
    root = field(4, 8, b"\6schema") + field(1, 5, varint(1)) + b"\0"
    leaf = field(1, 5, varint(2)) + field(2, 5, varint(0)) + field(1, 8, b"\3key") + b"\0"
    about = field(5, 6, varint(values)) + field(2, 6, varint(len(pages)))
    about += field(2, 6, varint(4)) + field(2, wide, varint(4)) + b"\0"
    column = field(3, 12, about) + b"\0"
    group = field(1, 9, b"\x1c" + column) + field(2, 6, varint(5)) + b"\0"
    end = field(2, 9, b"\x2c" + root + leaf) + field(1, 6, varint(5))
    end += field(1, 9, b"\x1c" + group) + b"\0"
    return b"PAR1" + pages + end + len(end).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize(
    ("pages", "wrong"),
    [
        ([(0, 40, 3, 5)], ""),
        ([(2, 16, 3, 2), (0, 40, 3, 2, 8), (3, 40, 3, 3, 8)], ""),
        ([(0, (1 << 31) - 1, 3, 5)], ""),
        ([(0, -1, 3, 5)], "is -1"),
        ([(0, 1 << 31, 3, 5)], "is 2,147,483,648"),
        ([(0, 40, 3, -5)], "is -5"),
        ([(0, 40, 3, 4)], "has 4 values, and should have 5"),
        ([(1, 40, 3, 5)], "of kind 1"),
        ([(2, 16, 3, 1 << 30), (0, 40, 3, 5)], "dictionary of the column key is damaged"),
        ([(0, 40, 3, 5), (2, 16, 3, 2)], "dictionary of the column key is damaged"),
    ],
)
def test_heads_of_pages(pages: list[tuple[int, ...]], wrong: str) -> None:
    """Page headers give sizes; impossible ones are refused."""
    raw = parquet(b"".join(page(*one) for one in pages))
    if wrong:
        with pytest.raises(ValueError, match=wrong):
            read_groups(BytesIO(raw))
        return
    (group,) = read_groups(BytesIO(raw))
    (found,) = group.chunks
    assert (group.rows, found.name, found.kind, found.repeated) == (5, "key", 2, False)
    assert (found.values, found.largest) == (5, max(one[1] for one in pages))
    assert found.size == sum(one[1] for one in pages)
    assert found.dictionary == sum(one[1] for one in pages if one[0] == 2)


def test_ends_that_readers_understand_differently() -> None:
    """A footer with a field of another type, which pyarrow skips, or with one field twice, is
    refused; so the pages that are checked are those that are read."""
    assert read_groups(BytesIO(parquet(page(0, 40, 3, 5))))
    with pytest.raises(ValueError, match="of kind 6 is one of kind 5"):
        read_groups(BytesIO(parquet(page(0, 40, 3, 5), wide=5)))
    twice = field(1, 5, varint(0)) + b"\5" + varint(1) + varint(40)
    with pytest.raises(ValueError, match="has a field twice"):
        read_groups(BytesIO(parquet(twice + b"\0")))


def test_sizes_are_those_of_pyarrow(file: Path) -> None:
    """Names, numbers of values and sizes equal what pyarrow reads in an intact file."""
    about = pq.ParquetFile(file).metadata
    with file.open("rb") as raw:
        (group,) = read_groups(raw)
    assert group.rows == about.num_rows == 100
    for number, chunk in enumerate(group.chunks):
        column = about.row_group(0).column(number)
        assert (chunk.name, chunk.values) == (column.path_in_schema, column.num_values)
        assert chunk.packed == column.total_compressed_size
        assert chunk.size <= column.total_uncompressed_size  # which counts page headers too
        assert chunk.repeated == (chunk.name == "slots.list.element")


@given(st.binary(max_size=300))
def test_heads_of_nothing(raw: bytes) -> None:
    """Bytes that are no pages, and no end, are a ValueError, whatever they are."""
    for whole in (parquet(raw), b"PAR1" + raw + len(raw).to_bytes(4, "little") + b"PAR1"):
        with contextlib.suppress(ValueError):
            for group in read_groups(BytesIO(whole)):
                assert all(chunk.values == 5 for chunk in group.chunks)
