"""``python -m dedup_middleware.evaluation``: tables on the screen and in files."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dedup_middleware.evaluation.__main__ import main
from dedup_middleware.evaluation.everything import SECTIONS
from dedup_middleware.evaluation.output import flat, write
from dedup_middleware.evaluation.scores import Interval
from tests.evaluation.lines import documents, labelled, page, write_lines
from tests.texts import english


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A file of documents."""
    return write_lines(tmp_path / "pages.jsonl", documents(30))


def rows(out: Path, name: str) -> list[dict[str, str]]:
    """A table that was written, after checking that CSV and JSON agree."""
    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    values = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    assert [list(row) for row in values] == [list(row) for row in table]
    return table


def test_pairs_command_writes_tables_and_plots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row a method and order, with and without the trivial pairs; the wrong pairs listed."""
    pytest.importorskip("matplotlib")
    file = write_lines(tmp_path / "pairs.jsonl.gz", labelled(5))
    out = tmp_path / "out"
    arguments = ["pairs", str(file), "--out", str(out), "--methods", "md5", "content"]
    assert main(arguments) == 0
    hard, every = rows(out, "pairs"), rows(out, "pairs-all")
    assert [(r["method"], r["order"]) for r in hard[:4]] == [
        ("md5", "either"),
        ("md5", "b new"),
        ("md5", "a new"),
        ("content", "either"),
    ]
    assert float(hard[0]["recall"]) == 0
    assert float(every[0]["recall"]) == 0.5
    assert float(hard[3]["f1"]) == 1
    assert {row["pair"] for row in rows(out, "wrong-pairs")} == {f"near{i}" for i in range(5)}
    printed = capsys.readouterr().out
    assert "pairs that md5 gets wrong: 5" in printed
    assert "| md5 | either | 1.000 |" in (out / "pairs.md").read_text(encoding="utf-8")
    for name in ("pairs-precision-recall", "pairs-all-precision-recall"):
        assert (out / f"{name}.svg").read_bytes().startswith(b"<?xml")
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_stream_command_runs_orders_and_workers(tmp_path: Path, pages: Path) -> None:
    """Every method in every order, and those of a crawl once more by several processes."""
    out = tmp_path / "out"
    arguments = ["stream", str(pages), "--out", str(out), "--workers", "2", "--planted", "0.5"]
    assert main([*arguments, "--methods", "content", "jaccard", "idf"]) == 0
    table = rows(out, "stream")
    assert [(r["method"], r["order"], r["workers"]) for r in table] == [
        (method, order, "1")
        for order in ("arrival", "reversed", "shuffled")
        for method in ("content", "jaccard", "idf")
    ] + [("content", "arrival", "2"), ("idf", "arrival", "2")]
    assert len({row["documents"] for row in table}) == 1
    assert all(int(r["right"]) + int(r["losses"]) == int(r["dropped"]) for r in table)
    assert sum(int(row["losses"]) for row in table) == len(rows(out, "stream-lost"))


def test_li_and_zhou_commands(tmp_path: Path, pages: Path) -> None:
    """The tables of both protocols."""
    out = tmp_path / "out"
    common = [str(pages), "--out", str(out)]
    assert main(["li", *common, "--size", "10", "--methods", "md5", "content"]) == 0
    md5, content = (float(row["recall_percent"]) for row in rows(out, "li"))
    assert md5 == 50
    assert content >= 90
    sizes = rows(out, "li-sizes")
    assert not sizes  # 20 pages are less than the smallest size
    assert rows(out, "li")[0]["published_recall"] == "50.0"
    assert main(["zhou", *common, "--size", "30", "--planted", "6", "--methods", "content"]) == 0
    (row,) = rows(out, "zhou")
    assert (row["documents"], row["planted"]) == ("30", "6")


def test_candidates_and_surface_commands(tmp_path: Path, pages: Path) -> None:
    """Tables, and plots unless they are not wanted."""
    out = tmp_path / "out"
    assert main(["candidates", "--out", str(out), "--count", "5", "--no-plots"]) == 0
    assert [row["jaccard"] for row in rows(out, "candidates")] == [
        str(round(0.5 + 0.05 * i, 2)) for i in range(10)
    ]
    assert not list(out.glob("*.svg"))
    pytest.importorskip("matplotlib")
    assert main(["surface", str(pages), "--out", str(out), "--per-cell", "1"]) == 0
    assert len(rows(out, "surface-content-cells")) == 20 * 7 * 3
    assert len(rows(out, "surface-content")) == 20 * 3
    first = (out / "surface-content.svg").read_bytes()
    assert main(["surface", str(pages), "--out", str(out), "--per-cell", "1"]) == 0
    assert (out / "surface-content.svg").read_bytes() == first


def test_settings_reach_the_methods(tmp_path: Path) -> None:
    """A threshold given as in a Scrapy project decides."""
    text = page(3)
    lines = [{"label": 1, "a_text": text, "b_text": text[: len(text) // 2] + english(5)}]
    file = write_lines(tmp_path / "pairs.jsonl", lines)
    for threshold, recall in (("0.9", "0.0"), ("0.1", "1.0")):
        out = tmp_path / threshold
        given = ["--set", f"THRESHOLD={threshold}", "--methods", "content", "--no-plots"]
        assert main(["pairs", str(file), "--out", str(out), *given]) == 0
        assert rows(out, "pairs")[0]["recall"] == recall


def test_collisions_command_explains_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight hashes and the ideal one; whole hashes collide for the copies alone."""
    assert main(["collisions", "--out", str(tmp_path)]) == 0
    table = rows(tmp_path, "collisions")
    assert len(table) == 9
    assert {row["whole_64"] for row in table} == {"419"}
    assert "an ideal hash collides 556.5 +- 8.0 times" in capsys.readouterr().out


def test_everything_on_made_up_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command runs every experiment without any data and writes one report of them all."""
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert main(["all", "--quick", "--out", str(out), "--methods", "content", "md5"]) == 0
    printed = capsys.readouterr().out
    assert "1 of 7: pairs" in printed
    assert "7 of 7: surface" in printed
    report = (out / "report.md").read_text(encoding="utf-8")
    headings = [line[3:] for line in report.splitlines() if line.startswith("## ")]
    assert headings == [heading for _, heading, _ in SECTIONS]
    for plot in re.findall(r"!\[.*?\]\((.*?)\)", report):
        assert (out / plot).read_bytes().startswith(b"<?xml")
    pairs = {row["method"]: row for row in rows(out, "pairs") if row["order"] == "either"}
    assert float(pairs["content"]["f1"]) > 0.9
    assert float(pairs["md5"]["f1"]) == 0
    li = {row["method"]: row for row in rows(out, "li")}
    assert (li["content"]["recall_percent"], li["content"]["flagged"]) == ("100.0", "0")


def test_alias_is_the_same_command(tmp_path: Path) -> None:
    """``python -m dedup_middleware.evaluate`` runs the evaluation."""
    command = [sys.executable, "-m", "dedup_middleware.evaluate", "collisions"]
    arguments = ["--out", str(tmp_path / "out")]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    assert "collisions among 1000 documents" in done.stdout
    assert (tmp_path / "out" / "collisions.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all"], "--out is missing"),
        (["all", "--out", "o", "--pairs", "none.jsonl", "--no-plots"], "none.jsonl can't be read"),
        (["candidates", "--set", "METHOD=idf"], "DEDUP_METHOD='idf' can't be used: use content"),
        (["pairs", "none.jsonl"], "none.jsonl can't be read"),
        (["candidates", "--set", "DEDUP_THRESHOLD=2"], "DEDUP_THRESHOLD=2.0 can't be used"),
        (["candidates", "--set", "NO=1"], "DEDUP_NO='1' can't be used"),
        (["stream", "none.jsonl", "--methods", "sha1"], "none.jsonl can't be read"),
    ],
)
def test_what_cannot_be_used_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and one line, no traceback."""
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_name_of_a_method_may_carry_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each variant is a method of its own; a parameter that it lacks is refused by name."""
    file = write_lines(tmp_path / "pairs.jsonl", labelled(2))
    names = ["rules:rule=R1", "rules:rule=R3"]
    out = tmp_path / "out"
    assert main(["pairs", str(file), "--out", str(out), "--no-plots", "--methods", *names]) == 0
    assert {row["method"] for row in rows(out, "pairs")} == set(names)
    assert main(["pairs", str(file), "--methods", "rules:role=R1"]) == 1
    assert "the parameters of rules are: rule, keyword_count" in capsys.readouterr().err


def test_unknown_method_is_named(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the methods."""
    assert main(["stream", str(pages), "--methods", "sha1"]) == 1
    assert "method='sha1' can't be used: use one of content" in capsys.readouterr().err


def test_two_documents_with_one_key_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream would take the second for a revisit."""
    file = write_lines(tmp_path / "pages.jsonl", [*documents(2), *documents(1)])
    assert main(["stream", str(file)]) == 1
    assert "have one key" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream", "f", "--planted", "2"],
        ["stream", "f", "--workers", "0"],
        ["li", "f", "--size", "x"],
        ["candidates", "--count", "-1"],
    ],
)
def test_numbers_out_of_bounds_are_refused(arguments: list[str]) -> None:
    """By the usage message, with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_folder_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in the way is no traceback, and nothing is measured in vain."""
    (tmp_path / "file").write_text("")
    assert main(["candidates", "--out", str(tmp_path / "file" / "out")]) == 1
    assert "can't be made" in capsys.readouterr().err


def test_without_matplotlib_the_message_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the measurement, not after it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["candidates", "--out", str(tmp_path)]) == 1
    assert "dedup-middleware[evaluate]" in capsys.readouterr().err


def test_tables_are_flat_and_have_no_nan(tmp_path: Path) -> None:
    """Intervals become three columns, NaN an empty cell, lists one cell."""
    nan = float("nan")
    row = flat({"a": Interval(nan, nan, nan), "b": (1, 2), "c": 1 / 3, "d": True})
    assert row == {
        "a": None, "a_low": None, "a_high": None, "b": "1 2", "c": 0.333333, "d": True
    }  # fmt: skip
    write(tmp_path, "empty", [])
    assert json.loads((tmp_path / "empty.json").read_text()) == []
