"""The command line for ``spark-submit``: ``python -m dedup_middleware.spark PATH... -o FOLDER``.

Settings are given as ``-s DEDUP_NAME=VALUE``; the master is that of ``spark-submit``. ``scrapy
dedup spark`` calls the same :func:`run`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession
from rich.console import Console

from dedup_middleware.base.errors import DedupError, OptionsError, named_as_given, os_errors
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import is_replaceable
from dedup_middleware.index.opening import open_index
from dedup_middleware.spark.filesystem import without_links
from dedup_middleware.spark.job import (
    finish,
    load,
    start,
    with_key_of_index,
    write_index_file,
)
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.stages import (
    Job,
    Note,
    SparkError,
    Stages,
    local_session,
    submitted_session,
)
from dedup_middleware.tools.commands.dedup import check_output, check_portable, progress_bars
from dedup_middleware.tools.commands.files import (
    add_spark_arguments,
    check_rejected,
    doubtful_lines,
)

STEPS = {
    "work/pages": "fingerprints",
    "work/ordered": "order of the pages",
    "work/groups": "exact copies",
    "work/single": "exact copies collapsed",
    "work/pairs": "candidates",
    "work/edges": "verdicts",
    "work/settled": "which pages are kept",
    "work/matches": "best matches",
    "work/alone": "verdicts",
    "work/index": "pages for the index",
    "duplicates": "duplicates",
    "kept": "kept pages",
    "clusters": "clusters",
    "rejects": "rejected rows",
}
_SECONDS = 0.5
#: fields of :class:`Job` that are arguments of the command
_PARAMETERS = ("output", "keep", "order_by", "date_field", "against", "near", "partitions")


@contextmanager
def step_progress(session: SparkSession, *, quiet: bool) -> Iterator[Note]:
    """Show a progress bar of Spark's tasks if there is a terminal, unless ``quiet``; yield a
    function to call with the name of each step that begins."""
    console = Console(stderr=True)
    tracker, bars = session.sparkContext.statusTracker(), progress_bars(console)
    current = bars.add_task("reading", total=None)
    end = threading.Event()

    def note(step: str) -> None:
        nonlocal current
        bars.stop_task(current)
        current = bars.add_task(STEPS.get(step, step.removeprefix("work/")), total=None)

    def watch() -> None:
        while not end.wait(_SECONDS):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            total = sum(stage.numTasks for stage in stages if stage is not None)
            if total:
                bars.update(current, completed=done, total=total)

    if quiet or not console.is_terminal:
        yield note
        return
    thread = threading.Thread(target=watch, daemon=True)
    with bars:
        thread.start()
        try:
            yield note
        finally:
            end.set()
            thread.join()


async def run(
    arguments: argparse.Namespace, options: Options, master: str | None, *, quiet: bool
) -> dict[str, Any]:
    """Run a job on Spark and return its counts, as printed by ``--json``.

    :param master: Spark's name of the master; None: that of ``spark-submit``
    :raises DedupError: the job can't be done
    """
    check_portable(arguments.index_file)
    if arguments.load and options.index_url == "memory:":
        raise SparkError(
            "--load with DEDUP_INDEX_URL=memory: can't be used: name an index that stays"
        )
    with named_as_given({f"{name}=": f"--{name.replace('_', '-')}=" for name in _PARAMETERS}):
        job = Job(**{name: getattr(arguments, name) for name in _PARAMETERS})
        if arguments.load:
            options = await with_key_of_index(options, open_index(options), job.against)
        is_own = SparkSession.getActiveSession() is None
        with spark_errors("Spark can't be started (it needs Java 17)"):
            session = submitted_session() if master is None else local_session(master)
            if is_own and master is not None and master.startswith("local"):
                # The error says what failed; Spark logs the same several times, with stack traces.
                session.sparkContext.setLogLevel("OFF")
        began = time.perf_counter()
        failed = "the Spark job failed; started again, it continues after its last complete step"
        with spark_errors(failed), step_progress(session, quiet=quiet) as note:
            source = read_files(session, arguments.paths, options, job, arguments.format)
            if arguments.index_file is not None:
                files = (file for file, *_ in source.states)
                check_index_file(session, arguments.index_file, files, job)
            steps = await asyncio.to_thread(start, source, options, job, note)
            result = await asyncio.to_thread(finish, steps)
            doubtful, first = await asyncio.to_thread(steps.doubtful)
            state: dict[str, Any] = {
                **result.numbers, "doubtful": doubtful, "first_doubtful": first,
                "output": job.output,
            }  # fmt: skip
            if arguments.index_file is not None:
                written = await asyncio.to_thread(write_index_file, steps, arguments.index_file)
                state["index_file"] = attrs.asdict(written)
            if arguments.load:
                async with open_index(options) as index:
                    state["loaded"] = attrs.asdict(await load(steps, index))
    state["seconds"] = round(time.perf_counter() - began, 1)
    return state


def check_index_file(session: SparkSession, path: Path, paths: Iterable[str], job: Job) -> None:
    """Refuse a name for :func:`write_index_file` before the job starts. Only a job that goes on may
    have written the file already.

    :param paths: of the input
    :raises DedupError: a file would be replaced, or can't be written there
    """
    check_output(path)
    own = os.path.realpath(path)
    if job.against is not None and own == os.path.realpath(job.against):
        raise SparkError(f"{path} is the index of against={job.against!r}: name another file")
    if any(own == without_links(file).removeprefix("file:") for file in paths):
        raise SparkError(f"{path} is a file of the input: name another one for the index")
    if Path(own).is_relative_to(os.path.realpath(job.output)):
        raise SparkError(f"{path} is in the output folder {job.output}: name a file outside it")
    goes_on = Stages(session, job.output, lambda _: None).is_complete("work/index")
    if path.exists() and not (goes_on and is_replaceable(path, b"PAR1")):
        raise SparkError(f"{path} exists: name another file, or remove it")
    with (
        os_errors(f"{path} can't be written", fix="; name another file"),
        tempfile.TemporaryFile(dir=path.parent),
    ):
        pass


_FIXES = {  # by a part of Spark's error message
    "[FAILED_READ_FILE": "repair or leave out this file",
    "TIMESTAMP(NANOS": "write the times of the Parquet files in microseconds",
    "No space left on device": "SPARK_LOCAL_DIRS names the folder of Spark's temporary files",
}


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Turn errors of Spark, of Java and of files into a one-line :class:`SparkError`."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        fixes = "".join(f"; {fix}" for part, fix in _FIXES.items() if part in reason)
        raise SparkError(f"{what}: {reason}{fixes}") from error
    except (OSError, pa.ArrowException) as error:
        raise SparkError(f"{what}: {error}") from error


def reason_of(error: PySparkException | Py4JError) -> str:
    """Return the message of a Spark error without its stack trace."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if isinstance(error, PythonException):  # its last line is the exception of the worker
        return next((line for line in reversed(lines) if not line.startswith(" ")), str(error))
    if not isinstance(error, Py4JJavaError):
        return " ".join(lines[:2])
    causes: list[str] = []
    fault: Any = error.java_exception
    while fault is not None:
        cause = str(fault.getMessage() or fault.toString()).strip().split("\n")[0]
        causes += [cause] * (cause not in causes)
        fault = fault.getCause()
    return ": ".join(causes)


def sentences(state: dict[str, Any]) -> str:
    """Format the counts of a job as text for people."""
    lines = [
        f"{state['read']:,} rows: {state['kept']:,} kept, {state['duplicates']:,} dropped, "
        f"{state['rejects']:,} rejected, in {state['seconds']:,.0f} s",
        f"The result is in {state['output']}: kept, duplicates, clusters, rejects.",
    ]
    lines += doubtful_lines(state)
    if state.get("undated"):
        lines.append(f"{state['undated']:,} pages have no date that can be read: they come last.")
    if "index_file" in state:
        lines.append(f"{state['index_file']['pages']:,} pages are in the index file.")
    if "loaded" in state:
        loaded = state["loaded"]
        lines.append(f"{loaded['pages']:,} pages loaded, {loaded['known']:,} were known.")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Run a job and return the exit code: 0, or 1 if it failed."""
    parser = argparse.ArgumentParser(
        prog="python -m dedup_middleware.spark", description="De-duplicate an archive on Spark."
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.add_argument(
        "--master", help="as Spark names it, such as local[4] (default: that of spark-submit)"
    )
    parser.add_argument(
        "-s", dest="settings", metavar="NAME=VALUE", action="append", default=[], help="a setting"
    )
    add_spark_arguments(parser)
    arguments = parser.parse_args(words)
    try:
        options = _options(arguments.settings)
        state = asyncio.run(run(arguments, options, arguments.master, quiet=arguments.json))
        print(json.dumps(state) if arguments.json else sentences(state))
        reasons = f"the reasons are in {arguments.output}/rejects"
        check_rejected(state["rejects"], state["read"], reasons)
    except DedupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _options(settings: list[str]) -> Options:
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise OptionsError(setting, "", "write NAME=VALUE")
        values[name] = value
    return Options.from_mapping(values)


if __name__ == "__main__":
    sys.exit(main())
