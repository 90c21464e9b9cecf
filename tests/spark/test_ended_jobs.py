"""A job that was killed and is started again, on this machine and on a cluster.

Only the job that is killed has a Java of its own, with Spark's defaults, and so do the executors of
a cluster. What is started again runs in the Java of the other tests, which has loaded Spark, as do
the master and the workers of the cluster.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dedup_middleware.spark.__main__ import main
from dedup_middleware.spark.stages import SparkError, Stages
from tests.spark.streams import written

ROOT = Path(__file__).parents[2]
WORDS = ("-s", "DEDUP_HASH_KEY=5", "--partitions", "2")
# A program's beginning, as far as the way of locking.
LOCK = "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.flock(file, fcntl.LOCK_EX"


def dropped(output: Path) -> list[tuple[str, str]]:
    """Dropped pages and their matches."""
    rows = pq.read_table(output / "duplicates").sort_by("order").to_pylist()
    return [(row["key"], row["match_key"]) for row in rows]


def environment() -> dict[str, str]:
    """For programs of their own: this interpreter, this code, this machine."""
    return {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program and its children; all of them are ended."""
    process = subprocess.Popen(
        words, env=environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(what: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Until something is so; a program that ends before is an error."""
    deadline = time.monotonic() + 600
    while not what():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """Pages in a file, and which of them a job drops that is not killed, on this machine."""
    folder = tmp_path_factory.mktemp("whole")
    path, output = str(written(folder, 150)), folder / "out"
    assert main([path, *WORDS, "-o", str(output), "--master", "local[2]"]) == 0
    return path, dropped(output)


def test_a_killed_job_goes_on_on_this_machine(whole: tuple[str, Any], tmp_path: Path) -> None:
    """It is killed while it decides by itself: nothing that it left is in the way, fingerprints are
    not made again, and the result is that of a job that was not killed."""
    path, expected = whole
    output = tmp_path / "out"
    words = [path, *WORDS, "-o", str(output), "--master", "local[2]"]
    pages, half = output / "work" / "pages" / "_SUCCESS", output / "work" / "alone"
    with program(sys.executable, "-m", "dedup_middleware.spark", *words) as job:
        wait_for(half.exists, job)
    assert half.exists()
    assert not (output / "kept").exists()
    before = pages.stat().st_mtime_ns
    assert main(words) == 0
    assert pages.stat().st_mtime_ns == before
    assert not half.exists()
    assert dropped(output) == expected != []


def test_a_job_that_another_process_does(spark: SparkSession, tmp_path: Path) -> None:
    """Each would remove tables that the other one reads. When that is over the job goes on."""
    output = tmp_path / "out"
    Stages(spark, str(output), print).begin("one")
    words = [sys.executable, "-c", f"{LOCK}); print(flush=True); input()", str(output / "job.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        refused = []
        for _ in range(2):
            with pytest.raises(SparkError, match="another job is writing it") as error:
                Stages(spark, str(output), print).begin("one")
            refused.append(error)  # with what it held
    Stages(spark, str(output), print).begin("one")


def test_two_jobs_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """The folder is kept from other processes until the last one of them is over, whoever else
    reads job.json meanwhile."""
    output = str(tmp_path / "out")
    first, second = (Stages(spark, output, print) for _ in range(2))
    first.begin("one")
    second.begin("one")
    assert not is_free(tmp_path / "out")
    del second
    gc.collect()
    assert not is_free(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "job.json").read_text()) == {"job": "one"}
    assert not is_free(tmp_path / "out")
    del first
    gc.collect()
    assert is_free(tmp_path / "out")


def is_free(folder: Path) -> bool:
    """Whether another process may write a result there."""
    words = [sys.executable, "-c", f"{LOCK} | fcntl.LOCK_NB)", str(folder / "job.json")]
    return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize("name", ["out-17:05", "out:1", "a b%20#c[1]", "out/"])
def test_names_of_folders(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """A folder of any name is taken, and found again."""
    for _ in range(2):
        Stages(spark, f"{tmp_path}/{name}", print).begin("one")
    assert json.loads((tmp_path / name / "job.json").read_text()) == {"job": "one"}


def test_a_result_that_can_only_be_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of another user, or on a medium that is mounted so: it can be opened again."""
    Stages(spark, str(tmp_path / "out"), print).begin("one")
    opened = os.open

    def read_only(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY) and Path(path).is_relative_to(tmp_path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", read_only)
    Stages(spark, str(tmp_path / "out"), print).begin("one")


def test_a_killed_job_goes_on_on_a_cluster(
    spark: SparkSession, spark_settings: dict[str, str], whole: tuple[str, Any], tmp_path: Path
) -> None:
    """On a standalone cluster a job is killed and started again, with a second worker: what was
    written stays, both workers take part, and the result is that of local mode."""
    path, expected = whole
    output, folders = tmp_path / "out", [tmp_path / "worker-0", tmp_path / "worker-1"]
    groups = output / "work" / "groups" / "_SUCCESS"
    with cluster(spark) as (master, add_worker):
        add_worker(folders[0])
        words = [path, *WORDS, "--partitions", "4", "-o", str(output), "--master", master]
        with program(sys.executable, "-m", "dedup_middleware.spark", *words) as job:
            wait_for(groups.exists, job)
        assert not (output / "kept").exists()
        before = groups.stat().st_mtime_ns
        (killed,) = folders[0].glob("app-*")
        add_worker(folders[1])
        _stop_session(spark_settings)
        assert main(words) == 0
        assert _stop_session(spark_settings) == master
        assert groups.stat().st_mtime_ns == before
        for folder in folders:
            assert [one for one in folder.glob("app-*/*") if one.parent.name != killed.name]
    assert dropped(output) == expected != []
    assert pq.read_table(output / "kept").num_rows + len(dropped(output)) == 150


@contextmanager
def cluster(spark: SparkSession) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """A standalone cluster whose master and workers listen to ports of their own.

    :return: its address, and what adds a worker with a folder for its executors, which are
        processes
    """
    jvm, host = spark._jvm, "127.0.0.1"
    deploy, conf = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf(False)
    running = [deploy.master.Master.startRpcEnvAndEndpoint(host, 0, 0, conf)._1()]
    address = f"spark://{running[0].address().hostPort()}"
    masters = spark._sc._gateway.new_array(jvm.String, 1)
    masters[0] = address

    def add_worker(folder: Path) -> None:
        number = jvm.scala.Option.apply(len(running))
        worker = deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, 1500, masters, str(folder), number, conf, jvm.scala.Option.empty()
        )
        running.append(worker)

    try:
        yield address, add_worker
    finally:
        for one in reversed(running):  # a worker without its master would end this Java
            one.shutdown()
            one.awaitTermination()


def _stop_session(settings: dict[str, str]) -> str:
    """Stop Spark in this process, where Java goes on; what its master was.

    :param settings: Java was started with them; the next session has them only if it asks for them
    """
    session = SparkSession.getActiveSession()
    assert session is not None
    master: str = session.sparkContext.master
    for name in settings:
        session._jvm.System.clearProperty(name)
    session.stop()
    return master
