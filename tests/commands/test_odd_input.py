"""Commands with odd files, names and numbers: nothing is lost, and a line says what to mend."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from dedup_middleware.tools.commands.check import read_page
from dedup_middleware.tools.commands.dedup import left_out_lines, parse_time
from tests.commands.running import Done, crawl, dedup, item, settings_for
from tests.texts import article


@pytest.fixture
def index(tmp_path: Path) -> str:
    """The address of an index of two pages."""
    crawl(settings_for(tmp_path), item("a", 1), item("b", 2))
    return str(settings_for(tmp_path)["DEDUP_INDEX_URL"])


def files(tmp_path: Path, name: str, content: bytes, *more: str) -> tuple[Done, list[Any]]:
    """Run `files` on one file; what it did, and the kept rows."""
    (tmp_path / name).write_bytes(content)
    kept = tmp_path / "kept.jsonl"
    done = dedup("files", str(tmp_path / name), "-o", str(kept), "--workers", "1", *more)
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    return done, [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("stat", "do you mean `scrapy dedup stats`? "), ("frobnicate", ""), ("dedup", "")],
)
def test_a_command_that_does_not_exist(name: str, meant: str) -> None:
    """One line names it, and the command meant if one is like it."""
    done = dedup(name)
    assert done.code == 2
    assert done.out == ""
    line = f"scrapy dedup: there is no command {name!r}; {meant}`scrapy dedup --help` lists all\n"
    assert done.err == line


def test_the_index_is_not_replaced_by_its_export(index: str) -> None:
    """Also with --overwrite only exported files are."""
    path = Path(index.removeprefix("sqlite:"))
    done = dedup("export", str(path), "--overwrite", DEDUP_INDEX_URL=index)
    assert done.code == 1
    assert "is no exported file and is not replaced" in done.err
    assert dedup("stats", "--json", DEDUP_INDEX_URL=index).json["committed"] == 2


def test_a_source_that_fails_while_it_is_copied(index: str, tmp_path: Path) -> None:
    """The error says that it is the argument of the command, and not the index of the settings."""
    with contextlib.closing(sqlite3.connect(index.removeprefix("sqlite:"))) as file:
        file.execute("DROP TABLE payload")
        file.commit()
    done = dedup("import", index, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'new.db'}")
    assert (done.code, f"the index ADDRESS={index} can't be used" in done.err) == (1, True), done


def test_an_export_into_no_folder(index: str, tmp_path: Path) -> None:
    """The line has the name that was given, not that of the folder that is made next to it."""
    path = tmp_path / "none" / "out.parquet"
    done = dedup("export", str(path), DEDUP_INDEX_URL=index)
    fault = f"{path} can't be written: No such file or directory; name another file"
    assert (done.code, done.err) == (1, f"scrapy dedup export: {fault}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "http://me:secret@127.0.0.1:1/"],
        ["compare", "http://127.0.0.1:1/", "http://me:s@cret@127.0.0.1:1/"],
        ["explain", "http://me:secret@a.example/9"],
        ["history", "http://me:secret@a.example/9"],
        ["explain", "http://me:secret@a.example/1"],
        ["history", "http://me:secret@a.example/1"],
        ["check", "http://127.0.0.1:1/", "--key", "http://me:secret@a.example/1"],
    ],
)
def test_the_password_of_an_address_is_not_shown(tmp_path: Path, arguments: list[str]) -> None:
    """Neither in errors nor in tables for people; the rest of the address is."""
    settings = settings_for(tmp_path)
    pages = (item(host, 1, url=f"http://me:secret@{host}/1") for host in ("a.example", "b.example"))
    crawl(settings, *pages)
    page = tmp_path / "page.txt"
    page.write_text(article(1), "utf-8")
    given = [str(page) if one == "http://127.0.0.1:1/" else one for one in arguments]
    done = dedup(*given, **settings)
    assert "cret@" not in done.out + done.err
    assert "http://me:***@" in done.out + done.err


@pytest.mark.parametrize("source", ["none.parquet", ""])
def test_an_import_of_nothing(tmp_path: Path, source: str) -> None:
    """The line says what can be imported."""
    done = dedup("import", source, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}")
    assert done.code == 1
    assert f"{source!r} is no file, and no address of an index: name a file that" in done.err


def test_an_old_index_that_is_no_address(tmp_path: Path) -> None:
    """The line names the option, not the setting, and no index is made before it is read."""
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    new = tmp_path / "new.db"
    done = dedup(
        "rebuild", str(tmp_path / "in.jsonl"), "--old", "memory:", DEDUP_INDEX_URL=f"sqlite:{new}"
    )
    assert (done.code, new.exists()) == (1, False)
    assert "--old memory: is no address of an index that stays" in done.err


def test_an_empty_file_of_keys(tmp_path: Path) -> None:
    """It is the file that has nothing, not the journal."""
    settings = settings_for(tmp_path)
    crawl(settings, item("a", 1), item("b", 1))
    (tmp_path / "keys").write_text(" \n")
    keys, out = str(tmp_path / "keys"), str(tmp_path / "out.jsonl")
    done = dedup("restore", "--keys", keys, "-o", out, "--no-index", **settings)
    assert (done.code, f"{keys} holds no keys" in done.err) == (1, True)


def test_a_page_without_a_name(index: str) -> None:
    """An empty name, as of an unset variable, was called a directory."""
    done = dedup("check", "", DEDUP_INDEX_URL=index)
    assert (done.code, "no page is named: give an address, a file" in done.err) == (1, True)


def test_an_address_that_does_not_answer(index: str) -> None:
    """The line says why, without the name of an error of Python's."""
    done = dedup("check", "http://127.0.0.1:1/", DEDUP_INDEX_URL=index)
    assert done.code == 1
    assert "http://127.0.0.1:1/ can't be fetched: [Errno " in done.err
    assert done.err.endswith("] Connection refused\n")


@pytest.mark.parametrize("content", [b"neither SQLite nor text" * 99, None])
def test_a_journal_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    """The line names the setting for a file of another kind, and for a folder."""
    path = tmp_path / "j.db"
    path.mkdir() if content is None else path.write_bytes(content)
    done = dedup("explain", "https://a.example/", DEDUP_JOURNAL=str(path))
    assert done.code == 1
    assert f"the journal {path} can't be opened: " in done.err
    assert done.err.endswith("; name another file by DEDUP_JOURNAL\n")


def test_nothing_is_imported_into_memory(index: str, tmp_path: Path) -> None:
    """It would be gone when the command ends."""
    exported = tmp_path / "index.parquet"
    assert dedup("export", str(exported), DEDUP_INDEX_URL=index).code == 0
    done = dedup("import", str(exported), DEDUP_INDEX_URL="memory:")
    assert done.code == 1
    assert "name an index that stays" in done.err


@pytest.mark.parametrize("time", ["99999999999999d", "800000d"])
def test_times_before_the_calendar(time: str, index: str) -> None:
    """They are not understood, instead of meaning all pages."""
    done = dedup("forget", f"--since={time}", "--yes", DEDUP_INDEX_URL=index)
    assert done.code == 2
    assert "is no time" in done.err
    assert dedup("stats", "--json", DEDUP_INDEX_URL=index).json["committed"] == 2


@pytest.mark.parametrize("option", ["--texts=inf", "--texts=nan", f"--decisions={10**25}"])
def test_numbers_without_end(option: str, index: str, tmp_path: Path) -> None:
    """They are refused with the range."""
    done = dedup("report", "-o", str(tmp_path / "r.html"), option, DEDUP_INDEX_URL=index)
    assert done.code == 1
    assert "1000000000" in done.err


def test_restored_pages_need_an_index(tmp_path: Path) -> None:
    """Where there is none, no file is written: it would not be known by the index."""
    own = {"DEDUP_JOURNAL": str(tmp_path / "journal.db")}
    crawl(settings_for(tmp_path) | own, item("a", 1), item("b", 1))
    output = tmp_path / "back.jsonl"
    nowhere = f"sqlite:{tmp_path / 'other.db'}"
    done = dedup("restore", "-o", str(output), "--all", DEDUP_INDEX_URL=nowhere, **own)
    assert done.code == 1
    assert not output.exists()
    done = dedup("restore", "-o", ".", "--all", DEDUP_INDEX_URL=nowhere, **own)
    assert done.code == 1
    assert "is no file" in done.err


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """One of them would be lost."""
    done, kept = files(tmp_path, "rows.csv", b"url,text,text\nhttps://a/1,one,two\n")
    assert (done.code, kept) == (1, [])
    assert "the column 'text' is there 2 times" in done.err
    done, kept = files(tmp_path, "latin.csv", "url,text,été\n1,2,3\n".encode("latin-1"))
    assert (done.code, kept) == (1, [])
    assert "the line of names is not UTF-8" in done.err
    assert "save the file as UTF-8" in done.err
    rows = b"url,text,,\nhttps://a/1,one,more,\n"
    done, kept = files(tmp_path, "sheet.csv", rows)
    assert done.code == 0
    assert kept == [{"url": "https://a/1", "text": "one", "column 3": "more", "column 4": ""}]


def test_parquet_without_rows(tmp_path: Path) -> None:
    """As other programs write parts: it holds nothing, and is not damaged."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    empty = io.BytesIO()
    names = pyarrow.schema([("url", pyarrow.string()), ("text", pyarrow.string())])
    parquet.write_table(names.empty_table(), empty)
    done, kept = files(tmp_path, "empty.parquet", empty.getvalue())
    assert (done.code, kept) == (0, [])


def warc(*pages: bytes, packed: bool = False, coding: str = "") -> bytes:
    """An archive of some pages, each record packed by itself."""
    records = []
    for number, page in enumerate(pages):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{coding}\r\n".encode()
        about = (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://w/{number}\r\n"
            "WARC-Date: 2031-03-04T05:06:07Z\r\nContent-Type: application/http\r\n"
            f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n"
            f"Content-Length: {len(head) + len(page)}\r\n\r\n"
        )
        record = about.encode() + head + page + b"\r\n\r\n"
        records.append(gzip.compress(record) if packed else record)
    return b"".join(records)


def html(seed: int) -> bytes:
    """A page."""
    return f"<title>{seed}</title><article><p>{article(seed)}</p></article>".encode()


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive_that_is_cut_short(tmp_path: Path, *, packed: bool) -> None:
    """A cut archive is an error, and its last, incomplete page is not read."""
    name = "pages.warc.gz" if packed else "pages.warc"
    whole = warc(*map(html, range(5)), packed=packed)
    done, kept = files(tmp_path, name, whole)
    assert (done.code, len(kept)) == (0, 5)
    for part in (0.5, 0.99):
        done, _ = files(tmp_path, name, whole[: int(len(whole) * part)], "--overwrite")
        assert done.code == 1, part
        assert "Traceback" not in done.err


def test_a_page_of_an_archive_without_text_keeps_its_html(tmp_path: Path) -> None:
    """Where no text was found in it, the row has the page itself."""
    page = "<title>x</title><p>kurz</p>"
    done, kept = files(tmp_path, "pages.warc", warc(page.encode(), html(1)))
    assert done.code == 0
    without, with_text = kept
    assert (without.get("text"), without["html"]) == (None, page)
    assert with_text["text"]
    assert "html" not in with_text


def test_a_page_that_cant_be_unpacked(tmp_path: Path) -> None:
    """It is rejected with its reason, and the others are read."""
    content = warc(html(1), coding="Content-Encoding: br\r\n") + warc(html(2))
    done, kept = files(tmp_path, "pages.warc", content)
    assert done.code == 0
    (row,) = kept
    assert row["title"] == "2"
    rejected = (tmp_path / "kept.jsonl.rejected").read_text("utf-8")
    assert "its content can't be read" in rejected


@pytest.mark.parametrize(
    ("coding", "page", "is_read"),
    [
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x00" + bytes(range(200)), False),
        ("gzip, br", b"\x8b\x07\x80" + bytes(range(200)), False),
        ("x-gzip", gzip.compress(html(1)), False),
        ("gzip", gzip.compress(gzip.compress(html(1))), False),
        ("zstd", html(1), True),  # a head from before the archive was written
        ("zstd", html(1).decode().encode("utf-16"), True),
        ("zstd", b"\x00" + html(1), True),
        ("gzip", html(1).decode().encode("utf-16"), True),
        ("gzip", gzip.compress(html(1).decode().encode("utf-16")), True),
        ("gzip", gzip.compress(b"<!doctype html>\x00\n" + html(1)), True),
        ("deflate", zlib.compress(b"\x1a" + html(1)), True),
        ("utf-8", html(1), True),
        ("utf-8", html(1).decode().encode("utf-16"), True),
        ("Identity", b"\x00" * 99 + html(1), True),
    ],
)
def test_a_page_in_a_coding_that_is_not_undone(
    tmp_path: Path, coding: str, page: bytes, *, is_read: bool
) -> None:
    """It is no page without text, which would be dropped; UTF-16 and odd bytes are no coding."""
    content = warc(page, coding=f"Content-Encoding: {coding}\r\n") + warc(html(2))
    done, kept = files(tmp_path, "pages.warc", content, "-s", "DEDUP_ON_EMPTY=drop")
    assert (done.code, len(kept)) == (0, 1 + is_read)
    rejected = tmp_path / "kept.jsonl.rejected"
    assert rejected.exists() is not is_read
    assert is_read or f"it is coded as '{coding}'" in rejected.read_text("utf-8")


def test_a_name_that_is_twice_in_a_row(tmp_path: Path) -> None:
    """A row with two values of a page's field is rejected; a field that decides nothing, or that
    has the same value twice, changes nothing."""
    same = json.dumps(article(1))
    rows = (
        f'{{"url": "https://a/1", "text": {same}}}\n'
        f'{{"url": "https://a/2", "text": {json.dumps(article(2))}, "text": {same}}}\n'
        f'{{"url": "https://a/3", "text": {json.dumps(article(3))}, "n": 1, "n": [{{"a": 1}}]}}\n'
        f'{{"url": "https://a/4", "text": {json.dumps(article(4))}, "url": "https://a/4"}}\n'
    )
    done, kept = files(tmp_path, "rows.jsonl", rows.encode())
    assert (done.code, [row["url"][-1] for row in kept]) == (0, ["1", "3", "4"])
    assert '"n": 1, "n": [' in (tmp_path / "kept.jsonl").read_text("utf-8")
    (rejected,) = (tmp_path / "kept.jsonl.rejected").read_text("utf-8").splitlines()
    assert json.loads(rejected)["error"] == "the field 'text' is there twice"


def test_a_field_that_the_verdict_takes_the_place_of(tmp_path: Path) -> None:
    """It is counted with those that could not be kept."""
    rows = [{"url": f"https://a/{n}", "text": article(1), "dedup": n} for n in range(2)]
    dropped = tmp_path / "dropped.jsonl"
    text = "\n".join(map(json.dumps, rows))
    done, _ = files(tmp_path, "rows.jsonl", text.encode(), "--dropped", str(dropped))
    assert done.code == 0
    assert "Pages whose field dedup could not be kept: 1." in done.out


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """One line names the file; what was written is no complete output."""
    rows = tmp_path / "rows.jsonl"
    lines = [json.dumps({"url": f"https://a/{n}", "text": article(n)}) for n in range(300)]
    rows.write_text("\n".join(lines), "utf-8")
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "from scrapy.cmdline import execute; execute()"
    )
    kept = tmp_path / "kept.jsonl"
    command = [sys.executable, "-c", limited, "dedup", "files", str(rows), "-o", str(kept)]
    done = subprocess.run(
        [*command, "--workers", "1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{kept} can't be written" in done.stderr
    assert not kept.exists()


def test_packed_output_is_whole(tmp_path: Path) -> None:
    """The same output as a gzip file."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"url": "https://a/1", "text": article(1)}), "utf-8")
    kept = tmp_path / "kept.jsonl.gz"
    assert dedup("files", str(rows), "-o", str(kept), "--workers", "1").code == 0
    assert json.loads(gzip.decompress(kept.read_bytes()))["url"] == "https://a/1"


def test_number_of_workers() -> None:
    """The message says which numbers there are."""
    done = dedup("files", "x", "-o", "y", "--workers", "-1")
    assert done.code == 2
    assert "give a number from 0 to 1024" in done.err


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    """The rest of the file would be one text: it is refused. One inside a field is a sign."""
    done, kept = files(tmp_path, "open.csv", b'url,text\nhttps://a/1,"one\nhttps://a/2,two\n')
    assert (done.code, kept) == (1, [])
    assert "the quote that row 1 opens is never closed" in done.err
    done, kept = files(tmp_path, "inch.csv", b'url,text\nhttps://a/1,a 5" disk\nhttps://a/2,two\n')
    assert (done.code, len(kept)) == (0, 2)
    done, kept = files(
        tmp_path, "lines.csv", b'url,text\nhttps://a/1,"one\ntwo"\nhttps://a/2,two\n', "--overwrite"
    )
    assert (done.code, len(kept)) == (0, 2)
    rows = b'url,text\nhttps://a/1,"one\n5"" two"\nhttps://a/2,6" wide\nhttps://a/3,three\n'
    done, kept = files(tmp_path, "both.csv", rows, "--overwrite")
    assert (done.code, len(kept)) == (0, 3)


def test_a_row_with_too_many_fields_is_rejected_whole(tmp_path: Path) -> None:
    """What is too much is in the file of rejected rows."""
    files(tmp_path, "rows.csv", b"url,text\nhttps://a/1,one,MORE\nhttps://a/2,two\n")
    assert "MORE" in (tmp_path / "kept.jsonl.rejected").read_text("utf-8")


def test_lines_of_json_are_utf8(tmp_path: Path) -> None:
    """A mark at the beginning is left out; a line of UTF-16 is rejected, not copied."""
    line = json.dumps({"url": "https://a/1", "text": article(1), "n": 1}, ensure_ascii=False)
    done, kept = files(tmp_path, "bom.jsonl", b"\xef\xbb\xbf" + line.encode() + b"\n")
    assert (done.code, [row["url"] for row in kept]) == (0, ["https://a/1"])
    done, kept = files(tmp_path, "wide.jsonl", line.encode("utf-16"), "--overwrite")
    assert (done.code, kept) == (1, [])


def test_numbers_that_are_none_become_null(tmp_path: Path) -> None:
    """The output is JSON that any program reads."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    raw = io.BytesIO()
    row = {"url": "https://a/1", "text": article(1), "d": float("nan"), "e": float("inf")}
    parquet.write_table(pyarrow.Table.from_pylist([row]), raw)
    done, _ = files(tmp_path, "rows.parquet", raw.getvalue())
    assert done.code == 0
    (kept,) = (tmp_path / "kept.jsonl").read_text("utf-8").splitlines()
    assert "NaN" not in kept
    assert "Infinity" not in kept
    assert json.loads(kept)["d"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "a.txt", "a.txt", "--method", "nope"], "--method='nope' can't be used: use"),
        (["compare", "a.txt", "a.txt", "--method", "csu:x=1"], "--method='csu:x=1' can't be used:"),
        (["import", "sqlite:none.db"], "name the one that a crawl has made (ADDRESS)"),
        (["import", "redis://127.0.0.1:1/x"], "ADDRESS='redis://***' can't be used"),
        (["import", "redis://h", "--namespace", "a{b"], "--namespace='a{b' can't be used"),
        (["rebuild", "in.jsonl", "--old", "sqlite:none.db"], "that a crawl has made (--old)"),
        (["report", "--against", "none.db"], "none.db: name it by --against"),
        (["report", "--against", "redis://127.0.0.1:1/x"], "--against='redis://***' can't be"),
        (["files", "in.jsonl", "-o", "k.jsonl", "--journal", "none/j.db"], "none/j.db can't be"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """A message names the argument, not the setting or the parameter it stands for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    settings = settings_for(tmp_path)
    crawl(settings, item("a", 1), item("b", 1))
    done = dedup(*arguments, DEDUP_RETRIES=0, **settings)
    assert (done.code, said in done.err) == (1, True), done.err
    assert "DEDUP_" not in done.err


def test_a_former_index_is_named_by_its_setting(index: str, tmp_path: Path) -> None:
    """Not by that of the current index."""
    former = f"sqlite:{tmp_path / 'none.db'}"
    done = dedup(
        "forget", "--key", "a", "--yes", DEDUP_INDEX_URL=index, DEDUP_FORMER_INDEX_URL=former
    )
    assert (done.code, "a crawl has made (DEDUP_FORMER_INDEX_URL)" in done.err) == (1, True)


def test_text_is_printed_as_it_is(tmp_path: Path) -> None:
    """Neither names of emoji in a key nor escape sequences in the name of a field change it."""
    settings = settings_for(tmp_path)
    crawl(settings, item("item:de:42/:fire:", 1))
    done = dedup("check", "-", "--key", "b", stdin=item("b", 1)["text"].encode(), **settings)
    assert "item:de:42/:fire:" in done.out
    assert left_out_lines({"\x1b]0;x": 1}) == ["Pages whose field \ufffd]0;x could not be kept: 1."]


def test_html_behind_a_byte_order_mark(tmp_path: Path) -> None:
    """A page that begins with < is HTML, also behind a mark."""
    path = tmp_path / "page"
    path.write_bytes(b"\xef\xbb\xbf <html><title>One</title><p>two</p>")
    page = read_page(str(path), Settings())
    assert (page.text, page.html is not None) == (None, True)


@pytest.mark.parametrize("text", ["0001-01-01T00:00Z", "9999-12-31T23:59-05:00"])
def test_times_at_the_ends_of_the_calendar(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They can't be shown in every time zone, so they are refused as others are."""
    monkeypatch.setenv("TZ", "America/New_York" if text[0] == "0" else "Asia/Tokyo")
    time.tzset()
    try:
        with pytest.raises(argparse.ArgumentTypeError, match="is no time"):
            parse_time(text)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_buckets_of_an_index_with_another_window(tmp_path: Path) -> None:
    """`stats` reads the index with its own window, whatever the settings say."""
    settings = settings_for(tmp_path)
    crawl({**settings, "DEDUP_WINDOW": 86_400.0}, item("a", 1), item("b", 2))
    skew = dedup("stats", "--buckets", "--json", **settings).json["skew"]
    assert skew["records"] > 0
