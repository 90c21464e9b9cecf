"""Archives of a crawl as input: WARC, ARC, and Parquet with pages of bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from dedup_middleware import Options
from dedup_middleware.tools.files import rows as reading
from dedup_middleware.tools.files.run import Plan, run_batch
from tests.batch.running import PAGE, batch, lines, warc
from tests.commands.running import dedup
from tests.texts import article, english


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz"])
def test_warc(tmp_path: Path, name: str) -> None:
    """HTML of status 200 is read in its charset; the body text is compared and written."""

    def page(text: str) -> str:
        return f"<html><head><title>题</title></head><body><article><p>{text}</p></article></body>"

    warc(
        tmp_path / name,
        [
            ("https://a/1", "200 OK", "text/html; charset=gbk", page(article(1)).encode("gbk")),
            ("https://b/1", "200 OK", "text/html; charset=utf-8", page(article(1)).encode()),
            ("https://a/2", "404 Not Found", "text/html", page(article(2)).encode()),
            ("https://a/3", "200 OK", "image/png", b"\x89PNG"),
        ],
    )
    done = batch(
        tmp_path / name, "-o", tmp_path / "kept.jsonl", "--dropped", tmp_path / "dropped.jsonl"
    )
    assert done.code == 0, done.err
    (kept,) = lines(tmp_path / "kept.jsonl")
    assert (kept["url"], kept["title"]) == ("https://a/1", "题")
    assert article(1)[:30] in kept["text"]
    assert "html" not in kept
    (dropped,) = lines(tmp_path / "dropped.jsonl")
    assert (dropped["url"], dropped["dedup"]["match"]) == ("https://b/1", "https://a/1")


def test_field_names_of_pages_in_warc(tmp_path: Path) -> None:
    """They are those of the settings, as on Spark: all rows were rejected."""
    pages = [(f"https://{host}/1", article(1)) for host in "ab"]
    kinds = "200 OK", "text/html; charset=gbk"
    warc(tmp_path / "in.warc", [(key, *kinds, PAGE % text.encode("gbk")) for key, text in pages])
    names = {"KEY": "address", "HTML": "page", "CHARSET": "coding"}
    settings: dict[str, Any] = {f"DEDUP_{part}_FIELD": name for part, name in names.items()}
    assert batch(tmp_path / "in.warc", "-o", tmp_path / "k.jsonl", **settings).code == 0
    (kept,) = lines(tmp_path / "k.jsonl")
    assert {*kept} == {"address", "coding", "date", "title", "text"}
    assert (kept["address"], kept["coding"]) == ("https://a/1", "gbk")
    settings["DEDUP_INDEX_URL"] = f"sqlite:{tmp_path / 'index.db'}"
    done = dedup("rebuild", str(tmp_path / "in.warc"), "--json", **settings)
    assert (done.code, done.json["entered"]) == (0, 2)


def test_names_in_bytes(tmp_path: Path) -> None:
    """Key, title and charset of tables are often bytes: they are text in UTF-8, or the row is
    rejected."""
    text = article(1)
    table = pyarrow.table({
        "url": [key.encode("gbk" if "坏" in key else "utf-8") for key in ("a/网页", "b/坏")],
        "title": [["标题".encode()], [b"T"]],
        "html": [f"<body><p>{text}".encode("gbk")] * 2,
        "charset": [b"gbk"] * 2,
    })  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    done = batch(tmp_path / "in.parquet", "-o", tmp_path / "k.jsonl", "--json")
    assert (done.code, done.json["left_out"]) == (0, {})
    (kept,) = lines(tmp_path / "k.jsonl")
    assert kept == {"url": "a/网页", "title": ["标题"], "charset": "gbk", "text": text}
    (rejected,) = lines(tmp_path / "k.jsonl.rejected")
    assert rejected["error"].startswith("field 'url' can't be read: 'utf-8' codec can't decode")


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz"])
def test_a_page_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is rejected: half of it could be a duplicate, and the rest would be lost."""
    pages = [PAGE % english(n).encode() for n in (1, 2)]
    pages[0] += b" " * 1000
    named = [(f"https://a/{n}", "200 OK", "text/html", page) for n, page in enumerate(pages)]
    warc(tmp_path / name, named)
    monkeypatch.setattr(reading, "LARGEST_PAGE", len(pages[1]))
    found = [(row.raw["url"], row.error) for row in reading.read_warc(tmp_path / name)]  # type: ignore[call-overload]
    assert found == [
        ("https://a/0", f"the page has more than {len(pages[1]):,} bytes"), ("https://a/1", "")
    ]  # fmt: skip


def test_arc(tmp_path: Path) -> None:
    """The format before WARC, also under its name: with the addresses and dates of its pages."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE % english(1).encode()
    names = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n\n"
    (tmp_path / "in.warc").write_bytes(
        b"filedesc://a.arc 0.0.0.0 20260101000000 text/plain %d\n%s\n" % (len(names), names)
        + b"https://a/1 1.2.3.4 20260102030405 text/html %d\n%s\n" % (len(http), http)
    )
    assert batch(tmp_path / "in.warc", "-o", tmp_path / "k.jsonl").code == 0
    (kept,) = lines(tmp_path / "k.jsonl")
    assert (kept["url"], kept["date"]) == ("https://a/1", "2026-01-02T03:04:05Z")


def test_files_without_rows(tmp_path: Path) -> None:
    """They are no error, but it says what is no row, as in archives of other records."""
    record = (
        b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 4\r\n\r\ntext\r\n\r\n"
    )
    (tmp_path / "in.warc").write_bytes(record)
    done = batch(tmp_path / "in.warc", "-o", tmp_path / "k.jsonl")
    assert (done.code, "of WARC only responses of status 200" in done.out) == (0, True)


def test_progress_counts_what_is_no_row(tmp_path: Path) -> None:
    """An archive of pictures has been read, too, when the next one begins."""
    warc(tmp_path / "1.warc", [("https://a/1", "200 OK", "image/png", b"\x89PNG" * 9999)])
    warc(tmp_path / "2.warc", [("https://a/2", "200 OK", "text/html", PAGE % b"x")])
    inputs = [tmp_path / "1.warc", tmp_path / "2.warc"]
    plan = Plan(inputs=tuple(inputs), kept=tmp_path / "k", dropped=None, rejected=tmp_path / "r")
    shown: list[float] = []
    asyncio.run(run_batch(plan, Options(), shown.append))
    assert shown == [sum(path.stat().st_size for path in inputs)]


def test_fields_that_json_can_not_hold_are_counted(tmp_path: Path) -> None:
    """They are named with the number of rows; that of a page whose text is there is none."""
    table = pyarrow.table(
        {
            "url": ["https://a/1", "https://a/2"],
            "html": [PAGE % english(n).encode() for n in (1, 2)],
            "raw": pyarrow.array([b"x", None], pyarrow.binary()),
            "took": pyarrow.array([1, 2], pyarrow.duration("s")),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    done = batch(tmp_path / "in.parquet", "-o", tmp_path / "1.jsonl", "--json")
    assert done.json["left_out"] == {"raw": 1, "took": 2}
    done = batch(tmp_path / "in.parquet", "-o", tmp_path / "2.jsonl")
    assert "Pages whose field raw could not be kept: 1.\n" in done.out
    assert "Pages whose field took could not be kept: 2.\n" in done.out


@pytest.mark.parametrize(
    ("fields", "settings"), [({}, {"DEDUP_FILL_TEXT": False}), ({"text": "—"}, {})]
)
def test_pages_of_bytes_whose_text_goes_nowhere(
    tmp_path: Path, fields: dict[str, str], settings: dict[str, Any]
) -> None:
    """Their HTML is kept as text: without it nothing would be left of the page."""
    html = PAGE % english(1).encode()
    table = pyarrow.Table.from_pylist([{"url": "https://a/1", "html": html, **fields}])
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    assert batch(tmp_path / "in.parquet", "-o", tmp_path / "k.jsonl", **settings).code == 0
    (kept,) = lines(tmp_path / "k.jsonl")
    assert kept["html"] == html.decode()
