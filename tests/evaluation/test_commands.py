"""``python -m dedup_middleware.evaluation``: tables on the screen and in files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from dedup_middleware.evaluation.__main__ import main
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.evaluation.output import flat, show, write
from dedup_middleware.evaluation.pairs import Interval
from tests.evaluation.lines import documents, labelled, page, rows, write_lines


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A file of documents."""
    return write_lines(tmp_path / "pages.jsonl", documents(30))


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


def test_half_a_surrogate_pair_is_no_reason_to_lose_the_tables(tmp_path: Path) -> None:
    """JSON can name one, UTF-8 can't."""
    line = {"a_text": "quay \ud800 five", "b_text": "mill \ud800 six", "label": 1}
    text = json.dumps({**line, "type": "\ud800", "pair_id": "\ud800"})
    (tmp_path / "pairs.jsonl").write_text(text)
    out = tmp_path / "out"
    arguments = ["pairs", str(tmp_path / "pairs.jsonl"), "--out", str(out), "--no-plots"]
    assert main([*arguments, "--methods", "md5"]) == 0
    assert [row["pair"] for row in rows(out, "wrong-pairs")] == ["?"]


def test_plot_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the folder."""
    pytest.importorskip("matplotlib")
    file = write_lines(tmp_path / "pairs.jsonl", labelled(1))
    out = tmp_path / "out"
    (out / "pairs-all-precision-recall.svg").mkdir(parents=True)
    assert main(["pairs", str(file), "--out", str(out), "--methods", "md5"]) == 1
    assert f"{out} can't be written to: Is a directory" in capsys.readouterr().err


@pytest.mark.slow
def test_stream_command_runs_orders_and_workers(tmp_path: Path, pages: Path) -> None:
    """Every method in every order, and those of a crawl once more by several processes."""
    out = tmp_path / "out"
    arguments = ["stream", str(pages), "--out", str(out), "--workers", "2", "--planted", "0.5"]
    assert main([*arguments, "--methods", "content", "idf"]) == 0
    table = rows(out, "stream")
    assert [(r["method"], r["order"], r["workers"]) for r in table] == [
        (method, order, "1")
        for order in ("arrival", "reversed", "shuffled")
        for method in ("content", "idf")
    ] + [("content", "arrival", "2"), ("idf", "arrival", "2")]
    assert len({row["documents"] for row in table}) == 1
    assert all(int(r["right"]) + int(r["losses"]) == int(r["dropped"]) for r in table)
    assert sum(int(row["losses"]) for row in table) == len(rows(out, "stream-lost"))


@pytest.mark.slow
def test_index_of_the_settings_is_left_alone(tmp_path: Path, pages: Path) -> None:
    """Streams have an index of their own, in memory or in a file, whatever a crawl uses."""
    out = tmp_path / "out"
    given = ["--methods", "content", "--workers", "2"]
    for setting in (
        "INDEX_URL=redis://localhost:1/0",
        "NAMESPACE=news",
        "FORMER_INDEX_URL=redis://localhost:1/1",
        "FORMER_NAMESPACE=old",
    ):
        given += ["--set", setting]
    assert main(["stream", str(pages), "--out", str(out), *given]) == 0
    assert {row["workers"] for row in rows(out, "stream")} == {"1", "2"}


def test_settings_reach_the_methods(tmp_path: Path) -> None:
    """A threshold given as in a Scrapy project decides."""
    text = page(3)
    lines = [{"label": 1, "a_text": text, "b_text": edit(text, "words-changed", 0.1, 1)}]
    file = write_lines(tmp_path / "pairs.jsonl", lines)
    for threshold, recall in (("0.95", "0.0"), ("0.1", "1.0")):
        out = tmp_path / threshold
        given = ["--set", f"THRESHOLD={threshold}", "--methods", "content", "--no-plots"]
        assert main(["pairs", str(file), "--out", str(out), *given]) == 0
        assert rows(out, "pairs")[0]["recall"] == recall


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pairs", "none.jsonl"], "none.jsonl can't be read"),
        (["pairs", "f", "--set", "DEDUP_THRESHOLD=2"], "DEDUP_THRESHOLD=2.0 can't be used"),
        (["pairs", "f", "--set", "NO=1"], "DEDUP_NO='1' can't be used"),
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


def test_two_pairs_have_a_table_without_nan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the tutorial: none of them is left out, and no threshold can be chosen by others."""
    monkeypatch.setenv("COLUMNS", "200")
    near, _, far, _ = labelled(1)
    file = write_lines(tmp_path / "pairs.jsonl", [near, far])
    assert main(["pairs", str(file), "--methods", "content"]) == 0
    shown = capsys.readouterr().out
    assert "all pairs: 2" in shown
    assert "left out" not in shown
    assert "nan" not in shown


def test_unknown_method_is_named(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the methods."""
    assert main(["stream", str(pages), "--methods", "sha1"]) == 1
    assert "--methods='sha1' can't be used: use one of content" in capsys.readouterr().err


def test_method_of_no_crawl_is_refused(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stream goes through the deduplicator, which has no exact Jaccard index."""
    assert main(["stream", str(pages), "--methods", "jaccard"]) == 1
    assert "--methods='jaccard' can't be used: no crawl decides by it" in capsys.readouterr().err


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
        ["pairs", "f", "--seed", "-1"],
        ["pairs", "f", "--folds", "1"],
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
    assert main(["pairs", "f", "--out", str(tmp_path / "file" / "out")]) == 1
    assert "can't be made" in capsys.readouterr().err


def test_without_matplotlib_the_message_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the measurement, not after it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["pairs", "f", "--out", str(tmp_path)]) == 1
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


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """What is printed may be short enough to be written only at the end."""
    file = write_lines(tmp_path / "pairs.jsonl", labelled(2))
    command = ["dedup_middleware.evaluation", "pairs", str(file), "--methods", "md5"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    assert (done.returncode, done.stderr) == (1, "pairs: [Errno 28] No space left on device\n")


def test_without_standard_output(tmp_path: Path) -> None:
    """A run that is started without one, as by `>&-`, writes its tables."""
    file, out = write_lines(tmp_path / "pairs.jsonl", labelled(1)), tmp_path / "out"
    arguments = ["pairs", str(file), "--out", str(out), "--methods", "md5", "--no-plots"]
    run = [sys.executable, "-m", "dedup_middleware.evaluation", *arguments]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *run], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert rows(out, "pairs")


def test_keys_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are shown, and sequences that would reach the terminal are escaped."""
    keys = ["http://[fe80::1]/a", "https://a/[/b]", "https://a/\x1b[2J"]
    show(Console(width=100), "keys", [{"key": key} for key in keys])
    shown = capsys.readouterr().out
    assert all(key in shown for key in keys[:2])
    assert "\x1b" not in shown
