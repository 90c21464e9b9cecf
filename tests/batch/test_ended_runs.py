"""Runs of `scrapy dedup files` that are ended, fail at their end, or meet another run."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import Options
from dedup_middleware.index.base import Index
from dedup_middleware.journal.access import open_journal
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.files import results
from dedup_middleware.tools.files.results import Output
from dedup_middleware.tools.files.rows import BatchError
from dedup_middleware.tools.files.run import Outputs, executor_of, result_of
from tests.batch.running import batch, lines, rows, write


def begun(tmp_path: Path) -> subprocess.Popen[str]:
    """A run of two processes that has written its first rows."""
    source = write(tmp_path / "in.jsonl", rows(6000))
    part = tmp_path / "kept.jsonl.part"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "scrapy", "dedup", "files", str(source), "--workers", "2",
            "-o", str(tmp_path / "kept.jsonl"),
        ],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run of the tests in the background of a shell ignores Ctrl-C, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process


def children(process: int) -> list[int]:
    """Processes that a process has started."""
    return [
        int(one)
        for task in Path(f"/proc/{process}/task").iterdir()
        for one in (task / "children").read_text().split()
    ]


def is_out_of_reach(process: int) -> bool:
    """Whether a process ignores or blocks Ctrl-C."""
    status = Path(f"/proc/{process}/status").read_text()
    masks = [
        int(line.split()[1], 16)
        for line in status.splitlines()
        if line[:3] == "Sig" and line[3:6] in {"Blk", "Ign"}
    ]
    return any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)


def lives(process: int) -> bool:
    """Whether a process is there and not only waiting for its exit code to be read."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_ctrl_c(tmp_path: Path) -> None:
    """A terminal sends it to all processes: the run ends with one line, and no worker breaks the
    queue that another one reads."""
    process = begun(tmp_path)
    assert all(map(is_out_of_reach, children(process.pid)))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert err == "scrapy dedup files: ended by Ctrl-C\n"
    assert not (tmp_path / "kept.jsonl").exists()


def test_workers_end_with_the_run(tmp_path: Path) -> None:
    """Also if it is killed alone, as for want of memory: they would wait for rows for ever."""
    process = begun(tmp_path)
    started = children(process.pid)
    assert started
    process.kill()
    process.communicate(timeout=120)  # their output is this one's
    deadline = time.monotonic() + 120
    while any(map(lives, started)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def die_midway() -> None:
    """In a worker: be killed while the result is sent."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1000))
    os.kill(os.getpid(), signal.SIGKILL)


async def test_a_worker_that_is_killed_while_it_sends() -> None:
    """The run ends, instead of waiting for the rest."""
    with executor_of(2) as executor:
        assert executor is not None
        work: Any = executor.submit(die_midway)
        with pytest.raises(BrokenProcessPool):
            await asyncio.wait_for(result_of(work, executor), 120)


def test_another_run_writes_the_same_file(tmp_path: Path) -> None:
    """It is refused: one of the two would give its name to what the other has written so far."""
    source = write(tmp_path / "in.jsonl", rows(3))
    first = Output(tmp_path / "kept.jsonl")
    first.write(b"{}")
    done = batch(source, "-o", tmp_path / "kept.jsonl")
    assert (done.code, "another run is writing" in done.err) == (1, True), done.err
    first.complete()
    first.finish()
    assert lines(tmp_path / "kept.jsonl") == [{}]


def test_another_run_at_the_same_moment(tmp_path: Path) -> None:
    """What has replaced the unfinished file does not get the name of the finished one."""
    first = Output(tmp_path / "kept.jsonl")
    first.part.unlink()
    first.part.write_text("half of a r")
    first.complete()
    with pytest.raises(BatchError, match="another run has replaced"):
        first.finish()
    first.close()
    assert not (tmp_path / "kept.jsonl").exists()


def test_no_file_has_its_name_before_all_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the end of the kept rows finds no room, the others are not taken for a result."""
    source = write(tmp_path / "in.jsonl", rows(3))
    complete = Output.complete

    def full(output: Output) -> None:
        if output.part.name == "kept.jsonl.part":
            raise BatchError("no room")
        complete(output)

    monkeypatch.setattr(Output, "complete", full)
    done = batch(
        source, "-o", tmp_path / "kept.jsonl", "--dropped", tmp_path / "dropped.jsonl",
        "--journal", tmp_path / "journal.db", "--clusters", tmp_path / "clusters.csv",
    )  # fmt: skip
    assert (done.code, "no room" in done.err) == (1, True)
    assert {path.suffix for path in tmp_path.iterdir() if path != source} == {".part"}


def test_a_file_that_appears_under_the_name_of_an_output(tmp_path: Path) -> None:
    """It is not replaced, unless it was there when the run began (``--overwrite``)."""
    path = tmp_path / "kept.jsonl"
    for is_there in (True, False):
        path.write_text("mine") if is_there else path.unlink()
        output = Output(path)
        output.write(b"row")
        output.complete()
        if is_there:
            output.finish()
            assert path.read_bytes() == b"row\n"
            continue
        path.write_text("mine")
        with pytest.raises(BatchError, match="has appeared"):
            output.finish()
        assert (path.read_text(), output.part.read_bytes()) == ("mine", b"row\n")
        output.close()


@pytest.mark.parametrize("replaces", [False, True])
def test_a_journal_that_appears_during_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, replaces: bool
) -> None:
    """As of a crawl that begins meanwhile. It is whole, with its log, and no output has its name;
    with --overwrite it is replaced, as one that was there before."""
    source, journal = write(tmp_path / "in.jsonl", rows(9)), tmp_path / "journal.db"
    finish, others = Outputs.finish, []

    async def finish_late(self: Outputs, index: Index) -> None:
        others.append(sqlite3.connect(journal, isolation_level=None))
        others[0].execute("PRAGMA journal_mode=wal")
        others[0].execute("CREATE TABLE of_a_crawl (page)")
        others[0].execute("INSERT INTO of_a_crawl VALUES ('a drop')")
        assert (tmp_path / "journal.db-wal").stat().st_size
        await finish(self, index)

    monkeypatch.setattr(Outputs, "finish", finish_late)
    arguments = (
        source, "-o", tmp_path / "kept.jsonl", "--dropped", tmp_path / "dropped.jsonl",
        "--journal", journal, "--clusters", tmp_path / "clusters.csv",
    )  # fmt: skip
    done = batch(*arguments, *["--overwrite"] * replaces)
    if replaces:
        assert done.code == 0, done.err
        with open_journal(Options(journal=str(journal))) as opened:
            assert len(list(opened.drops())) == 3
    else:
        assert (done.code, f"{journal} can't be written: a file of this" in done.err) == (1, True)
        with closing(sqlite3.connect(journal)) as db:
            assert db.execute("SELECT page FROM of_a_crawl").fetchall() == [("a drop",)]
        names = {"kept.jsonl", "kept.jsonl.rejected", "dropped.jsonl", "journal.db", "clusters.csv"}
        there = {path.name for path in tmp_path.iterdir()}
        assert {name for name in there if name.endswith(".part")} == {f"{n}.part" for n in names}
        assert there & names == {"journal.db"}
    others[0].close()


def test_a_file_of_rejected_rows_that_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in the way, and stays, where the run has rejected no row."""
    source, rejected = write(tmp_path / "in.jsonl", rows(3)), tmp_path / "kept.jsonl.rejected"
    finish = Outputs.finish

    async def finish_late(self: Outputs, index: Index) -> None:
        rejected.write_text("mine")
        await finish(self, index)

    monkeypatch.setattr(Outputs, "finish", finish_late)
    done = batch(source, "-o", tmp_path / "kept.jsonl")
    assert (done.code, rejected.read_text()) == (0, "mine"), done.err
    assert not list(tmp_path.glob("*.part"))


def test_a_full_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system reports only when it writes is reported, too."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(results.os, "fsync", full)
    done = batch(write(tmp_path / "in.jsonl", rows(3)), "-o", tmp_path / "kept.jsonl")
    assert (done.code, "can't be written: No space left" in done.err) == (1, True)
    assert not (tmp_path / "kept.jsonl").exists()


@pytest.mark.parametrize("option", ["--clusters", "--journal", "--dropped"])
def test_files_that_can_not_be_written_are_noticed_at_once(tmp_path: Path, option: str) -> None:
    """Not when all rows are decided."""
    source = write(tmp_path / "in.jsonl", [{"no": "page"}] * 3)
    arguments: list[Any] = [source, "-o", tmp_path / "kept.jsonl", option]
    done = batch(*arguments, tmp_path / "nowhere" / "file.csv.jsonl")
    assert (done.code, "can't be written: No such file" in done.err) == (1, True), done.err
    rejected = tmp_path / "kept.jsonl.rejected.part"
    assert not rejected.exists() or not rejected.stat().st_size


def test_a_journal_that_stays_in_its_log_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that fills up while SQLite moves the entries from its log into the file: without
    the log the file could not be read, and it may be all that is left of the dropped rows."""
    source, journal = write(tmp_path / "in.jsonl", rows(9)), tmp_path / "journal.db"
    close, others = SQLiteJournal.close, []

    def close_but_not_as_the_last(self: SQLiteJournal) -> None:
        if self._db is not None:
            others.append(sqlite3.connect(self.path))
            others[-1].execute("SELECT count(*) FROM dropped").fetchone()
        close(self)

    monkeypatch.setattr(SQLiteJournal, "close", close_but_not_as_the_last)
    done = batch(source, "-o", tmp_path / "kept.jsonl", "--journal", journal)
    for other in others:
        other.close()
    assert (done.code, f"{journal} can't be written" in done.err) == (1, True)
    assert not journal.exists()
    assert not (tmp_path / "kept.jsonl").exists()
