"""A job by its arguments, for ``scrapy dedup spark`` and for ``spark-submit`` alike."""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession
from rich.console import Console

from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.spark.job import finish, start
from dedup_middleware.spark.job_settings import Job, SparkError, local_session, submitted_session
from dedup_middleware.spark.loading import load, with_key_of_index, write_index_file
from dedup_middleware.spark.reading import read_files
from dedup_middleware.tools.commands.context import progress_bars

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Self


STEPS = {
    "work/pages": "fingerprints",
    "work/ordered": "order of the pages",
    "work/groups": "exact copies",
    "work/single": "exact copies collapsed",
    "work/pairs": "candidates",
    "work/edges": "verdicts",
    "work/settled": "which pages are kept",
    "work/matches": "best matches",
    "work/index": "pages for the index",
    "duplicates": "duplicates",
    "kept": "kept pages",
    "clusters": "clusters",
    "rejects": "rejected rows",
}
_SECONDS = 0.5


class SparkProgress:
    """A progress bar for the running step, with its tasks; a context manager.

    :param quiet: show nothing
    """

    def __init__(self, session: SparkSession, console: Console, *, quiet: bool = False) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._bars = progress_bars(console)
        self._quiet = quiet
        self._current = self._bars.add_task("reading", total=None)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            self._bars.start()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._quiet:
            self._end.set()
            self._thread.join()
            self._bars.stop()

    def note(self, step: str) -> None:
        """A step begins."""
        self._bars.stop_task(self._current)
        self._current = self._bars.add_task(STEPS.get(step, step.removeprefix("work/")), total=None)

    def _watch(self) -> None:
        while not self._end.wait(_SECONDS):
            done, total = self.tasks()
            if total:
                self._bars.update(self._current, completed=done, total=total)

    def tasks(self) -> tuple[int, int]:
        """Tasks done and in all, of the stages that run at this moment."""
        done = total = 0
        for number in self._tracker.getActiveStageIds():
            stage = self._tracker.getStageInfo(number)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
        return done, total


async def run(
    arguments: argparse.Namespace, options: Options, master: str | None, *, quiet: bool
) -> dict[str, Any]:
    """Do the job; returns its numbers.

    :param master: as Spark names it; None: that of ``spark-submit``
    :raises DedupError: it can't be done
    """
    if arguments.load and options.index_url == "memory:":
        raise SparkError(
            "--load with DEDUP_INDEX_URL=memory: can't be used: name an index that stays"
        )
    job = Job(
        output=arguments.output,
        keep=arguments.keep,
        order_by=arguments.order_by,
        date_field=arguments.date_field,
        against=arguments.against,
        near=arguments.near,
        partitions=arguments.partitions,
    )
    if arguments.load:
        options = await with_key_of_index(options, open_index(options))
    with spark_errors("Spark can't be started (it needs Java 17)"):
        session = submitted_session() if master is None else local_session(master)
    began = time.perf_counter()
    console = Console(stderr=True)
    quiet = quiet or not console.is_terminal
    with (
        spark_errors("Spark can't do the job, which goes on from here when it is started again"),
        SparkProgress(session, console, quiet=quiet) as progress,
    ):
        source = read_files(session, arguments.paths, options, job, arguments.format)
        steps = await asyncio.to_thread(start, source, options, job, progress.note)
        result = await asyncio.to_thread(finish, steps)
        state: dict[str, Any] = {**result.numbers, "output": job.output}
        if arguments.index_file is not None:
            written = await asyncio.to_thread(write_index_file, steps, arguments.index_file)
            state["index_file"] = attrs.asdict(written)
        if arguments.load:
            async with open_index(options) as index:
                state["loaded"] = attrs.asdict(await load(steps, index))
    state["seconds"] = round(time.perf_counter() - began, 1)
    return state


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Errors of Spark and of Java as one line.

    :raises SparkError: instead of them
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"{what}: {reason_of(error)}") from error


def reason_of(error: PySparkException | Py4JError) -> str:
    """What an error of Spark says, without its stack trace."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if isinstance(error, PythonException):  # ends with what the worker raised
        return next((line for line in reversed(lines) if not line.startswith(" ")), str(error))
    if not isinstance(error, Py4JJavaError):
        return " ".join(lines[:2])
    causes: list[str] = []
    fault: Any = error.java_exception
    while fault is not None:
        said = str(fault.getMessage() or fault.toString()).strip().split("\n")[0]
        causes += [said] * (said not in causes)
        fault = fault.getCause()
    return ": ".join(causes)


def sentences(state: dict[str, Any]) -> str:
    """The numbers for people."""
    lines = [
        f"{state['read']:,} rows: {state['kept']:,} kept, {state['duplicates']:,} dropped, "
        f"{state['rejects']:,} rejected, in {state['seconds']:,.0f} s",
        f"The result is in {state['output']}: kept, duplicates, clusters, rejects.",
    ]
    if "index_file" in state:
        lines.append(f"{state['index_file']['pages']:,} pages are in the index file.")
    if "loaded" in state:
        loaded = state["loaded"]
        lines.append(f"{loaded['pages']:,} pages loaded, {loaded['known']:,} were known.")
    return "\n".join(lines)
