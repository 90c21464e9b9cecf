"""`scrapy dedup files`: files in, kept and dropped rows out, by the rule of the crawl."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.journal.access import open_journal
from dedup_middleware.tools.files.run import batch_options
from tests.batch.running import batch, lines, rows, write
from tests.commands.running import dedup, run
from tests.texts import article


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


def test_pages_without_text_and_revisits(tmp_path: Path) -> None:
    """The settings of the crawl say what becomes of them."""
    page = {"url": "https://a/1", "text": article(1)}
    source = write(tmp_path / "in.jsonl", [page, page, {"url": "https://a/2", "text": " "}])
    keep = batch(source, "-o", tmp_path / "1.jsonl", "--json", DEDUP_REVISIT="keep")
    drop = batch(source, "-o", tmp_path / "2.jsonl", "--json", DEDUP_ON_EMPTY="drop")
    assert (keep.json["kept"], drop.json["kept"]) == (3, 1)


def test_a_fuller_row_does_not_hide_the_one_that_was_written(tmp_path: Path) -> None:
    """DEDUP_ON_FULLER=replace is for storage that deletes. A copy of the shorter row was written
    too, under a headline that marks a correction of the longer one."""
    flash = article(1)
    pages = write(
        tmp_path / "pages.jsonl",
        [
            {"url": "https://one.example/1", "title": "题", "text": flash},
            {"url": "https://two.example/2", "title": "题", "text": flash + article(2)},
            {"url": "https://three.example/3", "title": "更正：题", "text": flash},
        ],
    )
    kept, dropped = tmp_path / "kept.jsonl", tmp_path / "dropped.jsonl"
    batch(pages, "-o", kept, "--dropped", dropped, DEDUP_ON_FULLER="replace")
    assert [row["url"][-1] for row in lines(kept)] == ["1", "2"]
    assert [row["dedup"]["match"] for row in lines(dropped)] == ["https://one.example/1"]


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
