"""Names of inputs and outputs: nothing is lost that has one of them already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch.running import batch, lines, rows, write
from tests.commands.running import dedup


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
