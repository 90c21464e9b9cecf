"""``python -m research``: tables on the screen and in files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from research.__main__ import main
from research.everything import SECTIONS
from tests.evaluation.lines import documents, rows, write_lines
from tests.texts import sentences


def english(seed: int) -> str:
    """A page of thirty sentences."""
    return " ".join(sentences(seed, 30))


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A file of documents."""
    return write_lines(tmp_path / "pages.jsonl", documents(30))


def test_li_and_zhou_commands(tmp_path: Path, pages: Path) -> None:
    """The tables of both protocols. A noun that an edit puts in place of another one in a Chinese
    page makes another page, so pages for the first are English."""
    out = tmp_path / "out"
    common = [str(pages), "--out", str(out)]
    texts = [{"url": f"https://example.org/{i}", "text": english(i)} for i in range(30)]
    words = str(write_lines(tmp_path / "english.jsonl", texts))
    assert main(["li", words, *common[1:], "--size", "10", "--methods", "md5", "content"]) == 0
    md5, content = (float(row["recall_percent"]) for row in rows(out, "li"))
    assert md5 == 50
    assert content >= 90
    sizes = rows(out, "li-sizes")
    assert not sizes  # 20 pages are less than the smallest size
    assert rows(out, "li")[0]["published_recall"] == "50.0"
    assert (
        main(
            [
                "zhou",
                *common,
                "--size",
                "30",
                "--planted",
                "6",
                "--classes",
                "1",
                "--methods",
                "content",
            ]
        )
        == 0
    )
    (row,) = rows(out, "zhou")
    assert (row["documents"], row["planted"]) == ("30", "6")


@pytest.mark.slow
def test_collisions_command_explains_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight hashes and the ideal one; whole hashes collide for the copies alone."""
    assert main(["collisions", "--out", str(tmp_path)]) == 0
    table = rows(tmp_path, "collisions")
    assert len(table) == 9
    assert {row["whole_64"] for row in table} == {"419"}
    assert "an ideal hash collides 556.5 +- 8.0 times" in capsys.readouterr().out


@pytest.mark.slow
def test_expansion_command(tmp_path: Path) -> None:
    """A row for each way to search; all found the same."""
    assert main(["expansion", "--out", str(tmp_path), "--count", "2000", "--queries", "10"]) == 0
    table = rows(tmp_path, "expansion")
    assert [row["way"] for row in table] == ["linear scan", "query expansion", "four tables"]
    (found,) = {int(row["found"]) for row in table}
    assert found >= 5


@pytest.mark.slow
def test_candidates_command(tmp_path: Path) -> None:
    """A table, and no plots where they are not wanted."""
    out = tmp_path / "out"
    assert main(["candidates", "--out", str(out), "--count", "5", "--no-plots"]) == 0
    assert [row["jaccard"] for row in rows(out, "candidates")] == [
        str(round(0.5 + 0.05 * i, 2)) for i in range(10)
    ]
    assert not list(out.glob("*.svg"))


@pytest.mark.slow
def test_surface_command(tmp_path: Path, pages: Path) -> None:
    """A row for each kind of edit and length; the plot is the same each time."""
    out = tmp_path / "out"
    pytest.importorskip("matplotlib")
    assert main(["surface", str(pages), "--out", str(out), "--per-cell", "1"]) == 0
    assert len(rows(out, "surface-content-cells")) == 20 * 7 * 3
    assert len(rows(out, "surface-content")) == 20 * 3
    first = (out / "surface-content.svg").read_bytes()
    assert main(["surface", str(pages), "--out", str(out), "--per-cell", "1"]) == 0
    assert (out / "surface-content.svg").read_bytes() == first


@pytest.mark.slow
def test_everything_on_made_up_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command runs every experiment without any data and writes one report of them all."""
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert main(["all", "--quick", "--out", str(out), "--methods", "content", "md5"]) == 0
    printed = capsys.readouterr().out
    assert "1 of 8: pairs" in printed
    assert "8 of 8: expansion" in printed
    report = (out / "report.md").read_text(encoding="utf-8")
    headings = [line[3:] for line in report.splitlines() if line.startswith("## ")]
    assert headings == [heading for _, heading, _ in SECTIONS]
    for plot in re.findall(r"!\[.*?\]\((.*?)\)", report):
        assert (out / plot).read_bytes().startswith(b"<?xml")
    pairs = {row["method"]: row for row in rows(out, "pairs") if row["order"] == "either"}
    assert float(pairs["content"]["f1"]) > 0.9
    # Lines of times, which a crawl leaves out too, are all that differs in two of twelve copies.
    assert float(pairs["md5"]["precision"]) == 1
    assert 0 < float(pairs["md5"]["recall"]) < 0.2
    li = {row["method"]: row for row in rows(out, "li")}
    assert float(li["content"]["recall_percent"]) >= 95
    assert li["content"]["flagged"] == "0"


def test_module_is_a_command(tmp_path: Path) -> None:
    """``python -m research`` runs in a checkout."""
    command = [sys.executable, "-m", "research", "collisions", "--out", str(tmp_path / "out")]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert "collisions among 1000 documents" in done.stdout
    assert (tmp_path / "out" / "collisions.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all"], "--out is missing"),
        (["all", "--out", "o", "--pairs", "none.jsonl", "--no-plots"], "none.jsonl can't be read"),
        (["candidates", "--set", "METHOD=idf"], "DEDUP_METHOD='idf' can't be used: use content"),
        (["li", "none.jsonl"], "none.jsonl can't be read"),
        (["zhou", "none.jsonl", "--set", "NO=1"], "DEDUP_NO='1' can't be used"),
    ],
)
def test_what_cannot_be_used_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and one line, no traceback."""
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["li", "f", "--size", "x"],
        ["expansion", "--count", "0"],
        ["surface", "f", "--per-cell", "-1"],
        ["pairs", "f"],
        ["candidates", "--count", "-1"],
    ],
)
def test_what_is_not_understood_is_refused(arguments: list[str]) -> None:
    """By the usage message, with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
