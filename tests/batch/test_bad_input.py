"""Rows and files that can't be read: a row is written aside, a file ends the run."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.tools.files import rows as reading
from dedup_middleware.tools.files import signing
from dedup_middleware.tools.files.rows import Row
from tests.batch.running import batch, lines, rows, write
from tests.commands.running import dedup
from tests.texts import english

BAD = [
    (b"{not json", "it is no JSON"),
    (b"[1, 2]", "it is no JSON object"),
    (b'"text"', "it is no JSON object"),
    (b'{"url": "u"}', "no field 'text' or 'html'"),
    (b'{"url": "u", "text": 5}', "field 'text' is no text"),
    (b'{"url": "u", "text": ["a", 5]}', "field 'text' is no text"),
    (b'{"url": "u", "html": 5}', "field 'html' is no text"),
    (b'{"text": "\xff"}', "it is not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
]


def test_bad_rows_are_written_aside(tmp_path: Path) -> None:
    """Each with its file, row and reason; all others are decided."""
    good = json.dumps({"url": "https://a/1", "text": english(1)}).encode()
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([good, *(raw for raw, _ in BAD), b""]))
    done = batch(tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl", "--json")
    assert (done.code, done.json["kept"], done.json["rejected"]) == (0, 1, len(BAD))
    rejected = lines(tmp_path / "kept.jsonl.rejected")
    for number, (row, (raw, error)) in enumerate(zip(rejected, BAD, strict=True), 2):
        assert row["row"] == number
        assert error in row["error"]
        assert row["file"].endswith("in.jsonl")
        assert row["raw"] == raw.decode("utf-8", "replace")[:1000]


@pytest.mark.parametrize("depth", [690, 710, 960, 980, 1000])
def test_the_bound_of_nested_rows(tmp_path: Path, depth: int) -> None:
    """It does not depend on how deep the parser's caller is: dropped rows are parsed again."""
    row = f'"text": {json.dumps(english(1))}, "more": {"[" * depth}{"]" * depth}}}\n'
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"url": "https://site{i}/1", {row}' for i in range(2)))
    done = batch(source, "-o", tmp_path / "1.jsonl", "--dropped", tmp_path / "2.jsonl", "--json")
    kept = depth < 700
    numbers = [done.json[name] for name in ("kept", "dropped", "rejected")]
    assert numbers == ([1, 1, 0] if kept else [0, 0, 2])


def test_rows_that_are_nested_deeply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ended the run, and a rebuild, with a traceback. Any other exception rejects only its
    row."""
    deep = "[" * 600 + "%s" + "]" * 600
    texts = [json.dumps(english(n)) for n in range(3)]
    keys = [deep % "", deep % '"x"', '"https://a/2"']
    pairs = zip(keys, texts, strict=True)
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(f'{{"url": {key}, "text": {text}}}' for key, text in pairs))
    done = batch(source, "-o", tmp_path / "1.jsonl", "--json")
    assert (done.code, done.json["kept"]) == (0, 3)
    index = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'index.db'}"}
    assert dedup("rebuild", str(source), "--json", **index).json["entered"] == 3

    def fails(fields: dict[str, Any], *_: object) -> Any:
        if fields["url"] == "https://a/2":
            raise RecursionError("too deep")
        return read(fields, *_)  # type: ignore[arg-type]

    read = signing.read_fields
    monkeypatch.setattr(signing, "read_fields", fails)
    done = batch(source, "-o", tmp_path / "2.jsonl", "--json")
    assert (done.code, done.json["rejected"]) == (0, 1)
    (rejected,) = lines(tmp_path / "2.jsonl.rejected")
    assert rejected["error"] == "RecursionError: too deep"
    assert dedup("rebuild", str(source), "--json", **index).json["rejected"] == 1


def test_bad_rows_of_csv(tmp_path: Path) -> None:
    """A wrong number of fields, and bytes that are not UTF-8."""
    (tmp_path / "in.csv").write_bytes(
        b"url,text\nu1,one two three\nu2\nu3,a,b\nu4,\xff\xfe\n\nu5,four five six\n"
    )
    done = batch(tmp_path / "in.csv", "-o", tmp_path / "kept.jsonl", "--json")
    assert (done.json["kept"], done.json["rejected"]) == (2, 3)
    errors = [row["error"] for row in lines(tmp_path / "kept.jsonl.rejected")]
    assert errors == [
        "it has 1 fields, the first line has 2", "it has 3 fields, the first line has 2",
        "it is not UTF-8",
    ]  # fmt: skip


def test_rows_of_csv_that_may_hold_others(tmp_path: Path) -> None:
    """A quote closed at the end of a later field can't be told from a text of several lines: such
    rows are counted, and the first is named."""
    (tmp_path / "in.csv").write_text(
        f'url,text\nhttps://a/1,"{english(1)}\n{english(2)}"\nhttps://a/2,"open {english(3)}\n'
        f'https://a/3,a pipe of 5"\nhttps://a/4,{english(4)}\n'
    )
    done = batch(tmp_path / "in.csv", "-o", tmp_path / "kept.jsonl", "--json")
    found = (done.json["read"], done.json["doubtful"], done.json["first_doubtful"])
    assert found == (3, 1, f"row 2 of {tmp_path / 'in.csv'}")
    done = batch(tmp_path / "in.csv", "-o", tmp_path / "kept-2.jsonl")
    assert "1 rows may hold others, as where quotes are missing; the first is row 2 of" in done.out


def test_a_line_that_is_a_list_is_rejected(tmp_path: Path) -> None:
    """It costs its row alone."""
    row = {"url": "https://a/1", "text": english(1)}
    (tmp_path / "in.jsonl").write_text(f"{json.dumps([row])}\n{json.dumps(row)}\n")
    done = batch(tmp_path / "in.jsonl", "-o", tmp_path / "k.jsonl")
    assert (done.code, "1 kept" in done.out) == (0, True)


@pytest.mark.parametrize("first", ["", " ", ",,"])
def test_csv_with_a_blank_first_line(tmp_path: Path, first: str) -> None:
    """It has no names of columns; the message says where they belong."""
    (tmp_path / "in.csv").write_text(f"{first}\nurl,text\nhttps://a/1,{english(1)}\n")
    done = batch(tmp_path / "in.csv", "-o", tmp_path / "k.jsonl")
    assert (done.code, "the first line is blank: remove it" in done.err) == (1, True)


@pytest.mark.parametrize("text", ["[\n%s\n]\n", "[%s]", "\n[ %s\n]"])
def test_json_in_one_list(tmp_path: Path, text: str) -> None:
    """As Scrapy writes .json: of its lines only the last one would be a row."""
    items = (json.dumps({"url": f"https://a/{n}", "text": english(n)}) for n in range(3))
    (tmp_path / "in.json").write_text(text % ",\n".join(items))
    done = batch(tmp_path / "in.json", "-o", tmp_path / "k.jsonl")
    assert (done.code, "is one list, as Scrapy writes .json" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.jsonl", None),
        ("cut.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 1000, mtime=0)[:-20]),
        ("plain.jsonl.gz", b'{"text": "a"}\n'),
        ("no.parquet", b"PAR1 and nothing else"),
        ("no.warc", b"this is no WARC\r\n\r\n" * 10),
        ("what.bin", b"x"),
    ],
)
def test_files_that_can_not_be_read(tmp_path: Path, name: str, content: bytes | None) -> None:
    """Exit code 1, a message that names the file, and no result that looks complete."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = batch(tmp_path / name, "-o", tmp_path / "kept.jsonl")
    assert done.code == 1
    assert name in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "kept.jsonl").exists()


@pytest.mark.parametrize("arguments", [[], ["--format", "jsonl"]])
@pytest.mark.parametrize("name", ["in.jsonl.bz2", "in.warc.ZST"])
def test_files_packed_otherwise(tmp_path: Path, name: str, arguments: list[str]) -> None:
    """The message named --format, with which every row was rejected."""
    (tmp_path / name).write_bytes(bz2.compress(b'{"text": "a"}\n'))
    done = batch(tmp_path / name, "-o", tmp_path / "kept.jsonl", *arguments)
    message = f"{name}: only gzip compression (.gz) is supported: decompress the file or use gzip"
    assert (done.code, message in done.err, "--format" in done.err) == (1, True, False)


@pytest.mark.parametrize(
    ("ending", "begins"),
    [("zst", "502a4d18"), ("lz4", "02214c18"), ("zip", "504b0506"), ("zip", "504b0708")],
)
def test_packed_files_that_begin_otherwise(tmp_path: Path, ending: str, begins: str) -> None:
    """As pzstd and ``lz4 -l`` write them, and ZIP that is empty or in several parts: rows of these
    were read, and all rejected."""
    path = tmp_path / f"in.jsonl.{ending}"
    path.write_bytes(bytes.fromhex(begins) + bytes(99))
    done = batch(path, "-o", tmp_path / "k.jsonl", "--format", "jsonl")
    assert (done.code, "only gzip compression (.gz) is supported" in done.err) == (1, True)


@pytest.mark.parametrize("ending", ["bz2", "xz", "lzma", "zst", "zip", "7z", "lz4"])
def test_a_plain_file_with_the_name_of_a_packed_one(tmp_path: Path, ending: str) -> None:
    """It was refused as packed, whatever --format said; without it the message names the option."""
    source = write(tmp_path / f"in.{ending}", rows(3))
    done = batch(source, "-o", tmp_path / "k.jsonl", "--format", "jsonl", "--json")
    assert (done.code, done.json["read"]) == (0, 3)
    done = batch(source, "-o", tmp_path / "l.jsonl")
    assert (done.code, "use --format" in done.err) == (1, True)


def test_a_byte_order_mark_alone(tmp_path: Path) -> None:
    """Such a file has no rows, as on Spark; it had one that was rejected."""
    (tmp_path / "in.jsonl").write_bytes(b"\xef\xbb\xbf")
    done = batch(tmp_path / "in.jsonl", "-o", tmp_path / "k.jsonl", "--json")
    assert (done.code, done.json["read"], done.json["rejected"]) == (0, 0, 0)


def test_a_name_that_says_brotli(tmp_path: Path) -> None:
    """Such files begin as they like, so the message says what to do with a plain one."""
    source = write(tmp_path / "in.br", rows(3))
    done = batch(source, "-o", tmp_path / "k.jsonl", "--format", "jsonl")
    assert (done.code, "if it is not compressed, rename it" in done.err) == (1, True)


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    """It is no file."""
    (tmp_path / "in.jsonl").symlink_to("in.jsonl")
    done = batch(tmp_path / "in.jsonl", "-o", tmp_path / "k.jsonl")
    assert (done.code, "in.jsonl is no file" in done.err) == (1, True)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_loses_rows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """Rows that were there when the run began are not passed over."""
    source = write(tmp_path / "in.jsonl", rows(9))
    read = reading.read_jsonl

    def read_and_change(path: Path) -> Iterator[Row]:
        yield from read(path)
        os.truncate(path, 100) if is_there else path.unlink()

    monkeypatch.setitem(reading._READERS, "jsonl", read_and_change)
    done = batch(source, "-o", tmp_path / "kept.jsonl")
    assert (done.code, f"{source} has changed while it was read" in done.err) == (1, True)
    assert not (tmp_path / "kept.jsonl").exists()
