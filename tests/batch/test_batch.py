"""`scrapy dedup files`: files in, kept and dropped rows out, by the rule of the crawl."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.journal.access import open_journal
from dedup_middleware.tools.files import rows as reading
from dedup_middleware.tools.files.rows import Row
from dedup_middleware.tools.files.run import Plan, batch_options, run_batch
from tests.commands.running import dedup, run
from tests.texts import article, english


def rows(count: int) -> list[dict[str, Any]]:
    """Pages, every third of them a light edit of the one before."""
    made = []
    for n in range(count):
        text = article(n - 1)[7:] + "记者报道。" if n % 3 == 2 else article(n)
        made.append({"url": f"https://h{n % 5}.example/{n}", "title": f"题{n}", "text": text})
    return made


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    """A file of JSON lines."""
    path.write_text(
        "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8"
    )
    return path


def lines(path: Path) -> list[Any]:
    """The JSON lines of a file, packed or not."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


def batch(*arguments: str | Path, **settings: Any) -> Any:
    """Run it in this process alone."""
    return dedup("files", *map(str, arguments), "--workers", "0", **settings)


def test_same_rule_as_the_crawl(tmp_path: Path) -> None:
    """Kept, dropped and each verdict are those of a deduplicator that meets the pages in order."""
    items = rows(30)
    done = batch(
        write(tmp_path / "in.jsonl", items), "-o", tmp_path / "kept.jsonl",
        "--dropped", tmp_path / "dropped.jsonl", "--json",
    )  # fmt: skip
    assert done.code == 0

    async def decide() -> list[tuple[str, str | None, float | None]]:
        said = []
        async with Deduplicator(batch_options(Options())) as one:
            for item in items:
                verdict = await one.decide(
                    Document(item["url"], title=item["title"], text=item["text"])
                )
                await one.commit(verdict)
                match = verdict.match
                said.append(
                    (verdict.outcome, match and match.key, match and round(match.similarity, 4))
                )
        return said

    expected = run(decide())
    kept = [item for item, one in zip(items, expected, strict=True) if one[0] == "new"]
    assert lines(tmp_path / "kept.jsonl") == kept
    dropped = lines(tmp_path / "dropped.jsonl")
    assert [{k: v for k, v in item.items() if k != "dedup"} for item in dropped] == [
        item for item in items if item not in kept
    ]
    assert [
        (i["dedup"]["outcome"], i["dedup"]["match"], i["dedup"]["similarity"]) for i in dropped
    ] == [one for one in expected if one[0] != "new"]
    assert len(dropped) == 10
    report = done.json
    assert (report["read"], report["kept"], report["dropped"], report["rejected"]) == (
        30,
        20,
        10,
        0,
    )
    assert sum(report["reasons"].values()) == 30
    assert report["pages_per_second"] > 0
    assert report["peak_bytes"] > 10_000_000


@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path) -> None:
    """Two worker processes give, byte for byte, what none gives."""
    items = rows(700)
    source = write(tmp_path / "in.jsonl", items)
    for workers in ("0", "2"):
        folder = tmp_path / workers
        folder.mkdir()
        done = dedup(
            "files", str(source), "-o", str(folder / "kept.jsonl"),
            "--dropped", str(folder / "dropped.jsonl"), "--workers", workers,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert "700 rows" in done.out
    for name in ("kept.jsonl", "dropped.jsonl"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_kept_lines_are_untouched(tmp_path: Path) -> None:
    """Spaces, order and unknown fields of a line of JSON stay as they were."""
    line = '{ "extra": [1,2] ,"text":"' + article(1) + '",   "url":"https:\\/\\/a\\/1"}'
    (tmp_path / "in.jsonl").write_text(line + "\r\n\n", encoding="utf-8")
    assert batch(tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl").code == 0
    assert (tmp_path / "kept.jsonl").read_text(encoding="utf-8") == line + "\n"


def test_formats_agree(tmp_path: Path) -> None:
    """The same pages as JSON lines, packed, as CSV, TSV and Parquet are decided alike."""
    items = rows(12)
    write(tmp_path / "a.jsonl", items)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    for name, delimiter in (("c.csv", ","), ("d.tsv", "\t")):
        text = io.StringIO()
        writer = csv.DictWriter(text, ["url", "title", "text"], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(items)
        (tmp_path / name).write_text(text.getvalue(), encoding="utf-8-sig")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(items), tmp_path / "e.parquet")
    found = []
    for name in ("a.jsonl", "b.jsonl.gz", "c.csv", "d.tsv", "e.parquet"):
        kept = tmp_path / f"{name}.kept.jsonl.gz"
        done = batch(tmp_path / name, "-o", kept)
        assert done.code == 0, done.err
        found.append(lines(kept))
    assert len(found[0]) == 8
    assert all(one == found[0] for one in found)


def warc(path: Path, pages: list[tuple[str, str, str, bytes]]) -> None:
    """A WARC file of (address, status, content type, body); packed record by record."""
    with path.open("wb") as file:
        for number, (address, status, kind, body) in enumerate(pages):
            http = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n\r\n".encode() + body
            head = (
                "WARC/1.0\r\nWARC-Type: response\r\n"
                f"WARC-Target-URI: {address}\r\nWARC-Date: 2026-01-02T03:04:05Z\r\n"
                f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n"
                "Content-Type: application/http; msgtype=response\r\n"
                f"Content-Length: {len(http)}\r\n\r\n"
            )
            record = head.encode() + http + b"\r\n\r\n"
            file.write(gzip.compress(record) if path.suffix == ".gz" else record)


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


def test_clusters(tmp_path: Path) -> None:
    """As those of the journal of the same run, near misses on request; in all three formats."""
    items = [*rows(12), {"url": "https://n.example/1", "text": article(4) + article(40)}]
    source = write(tmp_path / "in.jsonl", items)
    found = []
    for number, more in enumerate(([], ["--near"])):
        journal, clusters = tmp_path / f"{number}.db", tmp_path / f"{number}.jsonl"
        done = batch(
            source, "-o", tmp_path / f"kept-{number}.jsonl", "--journal", journal,
            "--clusters", clusters, *more,
        )  # fmt: skip
        assert done.code == 0, done.err
        read = dedup("clusters", "-o", "-", *more, DEDUP_JOURNAL=str(journal))
        found.append(lines(clusters))
        assert found[-1] == [json.loads(line) for line in read.out.splitlines()]
    assert [one["stored"] for one in found[0]] == [
        f"https://h{n % 5}.example/{n}" for n in (1, 4, 7, 10)
    ]
    assert all(len(one["mirrors"]) == 1 and "near" not in one for one in found[0])
    near = [one for one in found[1] if "near" in one]
    assert [page["key"] for one in near for page in one["near"]] == ["https://n.example/1"]
    for name in ("pages.csv", "pages.parquet"):
        kept = tmp_path / f"{name}.jsonl"
        assert batch(source, "-o", kept, "--clusters", tmp_path / name).code == 0
    with (tmp_path / "pages.csv").open(encoding="utf-8", newline="") as file:
        assert [row["key"] for row in csv.DictReader(file)] == [
            one["mirrors"][0]["key"] for one in found[0]
        ]
    assert pyarrow.parquet.read_table(tmp_path / "pages.parquet").num_rows == 4


def test_clusters_that_can_not_be_written(tmp_path: Path) -> None:
    """Another format, a file that exists, near misses of no file; nothing else is written."""
    source = write(tmp_path / "in.jsonl", rows(3))
    kept = tmp_path / "kept.jsonl"
    (tmp_path / "there.csv").touch()
    for arguments, message in (
        (["--clusters", tmp_path / "c.xml"], "name a file that ends in"),
        (["--clusters", tmp_path / "there.csv"], "exists: name another file"),
        (["--clusters", kept], "is named twice"),
        (["--near"], "name their file by --clusters"),
    ):
        done = batch(source, "-o", kept, *arguments)
        assert (done.code, message in done.err) == (1, True), done.err
        assert not kept.exists()


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


def test_an_input_that_has_the_name_of_an_unfinished_output_is_kept(tmp_path: Path) -> None:
    """Who goes on with what an ended run has left in .part does not lose it."""
    source = write(tmp_path / "kept.jsonl.part", rows(3))
    done = batch(source, "--format", "jsonl", "-o", tmp_path / "kept.jsonl")
    assert (done.code, "rename the one" in done.err) == (1, True)
    assert len(lines(source)) == 3
    other = write(tmp_path / "in.jsonl", rows(3))
    assert batch(other, "-o", tmp_path / "kept.jsonl", "--rejected", source).code == 1
    assert len(lines(source)) == 3


@pytest.mark.parametrize("ending", ["-journal", "-wal", ".part-shm"])
def test_files_that_a_journal_has_next_to_it(tmp_path: Path, ending: str) -> None:
    """They would be removed as its own: no input, and no other output, may have such a name."""
    other, kept = tmp_path / f"crawl{ending}", ("-o", tmp_path / "kept.jsonl")
    journal = ("--journal", tmp_path / "crawl")
    source = write(tmp_path / "in.jsonl", [*rows(3), {"url": "https://bad.example/"}])
    whole = source.read_bytes()
    other.write_bytes(whole)
    done = batch(other, "--format", "jsonl", *kept, *journal, "--overwrite")
    assert (done.code, "rename the one" in done.err, other.read_bytes()) == (1, True, whole)
    done = batch(source, *kept, *journal, "--rejected", other, "--overwrite")
    assert (done.code, "rename the one" in done.err) == (1, True)


def test_a_file_that_looks_like_the_log_of_a_journal(tmp_path: Path) -> None:
    """It is not replaced without --overwrite, and a folder is noticed at once."""
    source, other = write(tmp_path / "in.jsonl", rows(3)), tmp_path / "crawl-journal"
    arguments = (source, "-o", tmp_path / "kept.jsonl", "--journal", tmp_path / "crawl")
    other.write_text("mine")
    done = batch(*arguments)
    assert (done.code, f"{other} exists" in done.err, other.read_text()) == (1, True, "mine")
    assert batch(*arguments, "--overwrite").code == 0
    assert not other.exists()
    other.mkdir()
    done = batch(*arguments, "--overwrite")
    assert (done.code, f"{other} is no file" in done.err) == (1, True)


def test_an_unfinished_output_behind_a_link(tmp_path: Path) -> None:
    """It is next to the link."""
    (tmp_path / "there").mkdir()
    source = write(tmp_path / "kept.jsonl.part", rows(3))
    (tmp_path / "kept.jsonl").symlink_to(tmp_path / "there" / "kept.jsonl")
    done = batch(source, "--format", "jsonl", "-o", tmp_path / "kept.jsonl", "--overwrite")
    assert (done.code, "rename the one" in done.err, source.exists()) == (1, True, True)
    linked = tmp_path / "new.jsonl.part"
    linked.symlink_to(tmp_path / "there" / "rejected")
    other = write(tmp_path / "in.jsonl", [*rows(3), {"url": "https://bad.example/"}])
    done = batch(other, "-o", tmp_path / "new.jsonl", "--rejected", linked, "--overwrite")
    assert (done.code, "rename the one" in done.err, linked.is_symlink()) == (1, True, True)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Without --overwrite; and never an input."""
    source = write(tmp_path / "in.jsonl", rows(3))
    (tmp_path / "kept.jsonl").write_text("mine")
    done = batch(source, "-o", tmp_path / "kept.jsonl")
    assert (done.code, (tmp_path / "kept.jsonl").read_text()) == (1, "mine")
    assert batch(source, "-o", tmp_path / "kept.jsonl", "--overwrite").code == 0
    assert len(lines(tmp_path / "kept.jsonl")) == 2
    assert "is named twice" in batch(source, "-o", source, "--overwrite").err
    for no_file in (".", tmp_path, "/dev/null"):
        done = batch(source, "-o", no_file, "--overwrite")
        assert (done.code, "is no file" in done.err) == (1, True)
        done = batch(source, "-o", tmp_path / "new.jsonl", "--journal", no_file, "--overwrite")
        assert (done.code, "is no file" in done.err) == (1, True)
    assert len(lines(source)) == 3
    assert dedup("files", str(source), "-o", "x", "--workers", "-1").code == 2


def test_pages_without_text_and_revisits(tmp_path: Path) -> None:
    """The settings of the crawl say what becomes of them."""
    page = {"url": "https://a/1", "text": article(1)}
    source = write(tmp_path / "in.jsonl", [page, page, {"url": "https://a/2", "text": " "}])
    keep = batch(source, "-o", tmp_path / "1.jsonl", "--json", DEDUP_REVISIT="keep")
    drop = batch(source, "-o", tmp_path / "2.jsonl", "--json", DEDUP_ON_EMPTY="drop")
    assert (keep.json["kept"], drop.json["kept"]) == (3, 1)


@pytest.mark.parametrize("name", ["j.db", "j.gz"])
def test_journal_of_a_run(tmp_path: Path, name: str) -> None:
    """Drops with their items, texts of kept pages, and counts, as a crawl writes them; it is not
    packed, whatever its name is."""
    source = write(tmp_path / "in.jsonl", rows(9))
    assert batch(source, "-o", tmp_path / "k.jsonl", "--journal", tmp_path / name).code == 0
    with open_journal(Options(journal=str(tmp_path / name))) as journal:
        drops = list(journal.drops(bodies=True))
        assert [drop.key for drop in drops] == [rows(9)[n]["url"] for n in (2, 5, 8)]
        assert drops[0].body is not None
        assert drops[0].body.item == rows(9)[2]
        stored = journal.kept(drops[0])
        assert stored is not None
        assert stored.text == article(1)
        assert sum(hour.seen for hour in journal.hours()) == 9
        assert sum(hour.stored for hour in journal.hours()) == 6
    assert not list(tmp_path.glob("*.part*"))


def test_run_that_was_killed_is_repeated(tmp_path: Path) -> None:
    """It leaves no finished file; the next run gives what an undisturbed one gives."""
    source = write(tmp_path / "in.jsonl", rows(3000))
    command = [
        sys.executable, "-m", "scrapy", "dedup", "files", str(source), "--workers", "1",
        "--dropped", str(tmp_path / "dropped.jsonl"), "-o",
    ]  # fmt: skip
    kept, part = tmp_path / "kept.jsonl", tmp_path / "kept.jsonl.part"
    process = subprocess.Popen(
        [*command, str(kept)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 120
    while not (part.exists() and part.stat().st_size) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not kept.exists()
    # Made of few different clauses, the pages are found by bands rather than by anchors.
    again = batch(source, "-o", kept, "--dropped", tmp_path / "dropped.jsonl", DEDUP_BANDS=8)
    assert again.code == 0
    other = batch(source, "-o", tmp_path / "k2", "--dropped", tmp_path / "d2", DEDUP_BANDS=8)
    assert other.code == 0
    assert kept.read_bytes() == (tmp_path / "k2").read_bytes()
    assert (tmp_path / "dropped.jsonl").read_bytes() == (tmp_path / "d2").read_bytes()
    assert not part.exists()
    assert len(lines(kept)) == 2000


PAGE = b"<html><head><title>T</title></head><body><article><p>%s</p></article></body></html>"


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
    assert "The field raw of 1 pages could not be kept.\n" in done.out
    assert "The field took of 2 pages could not be kept.\n" in done.out


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


def test_a_line_that_is_a_list_is_rejected(tmp_path: Path) -> None:
    """It costs its row alone."""
    row = {"url": "https://a/1", "text": english(1)}
    (tmp_path / "in.jsonl").write_text(f"{json.dumps([row])}\n{json.dumps(row)}\n")
    done = batch(tmp_path / "in.jsonl", "-o", tmp_path / "k.jsonl")
    assert (done.code, "1 kept" in done.out) == (0, True)


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
