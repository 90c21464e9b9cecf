"""A job by its arguments, for ``scrapy dedup spark`` and for ``spark-submit`` alike."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import attrs
from rich.console import Console

from dedup_middleware.index.opening import open_index
from dedup_middleware.options import Options
from dedup_middleware.spark.job import finish, start
from dedup_middleware.spark.loading import load, with_key_of_index, write_index_file
from dedup_middleware.spark.progress import SparkProgress
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.session import local_session, submitted_session
from dedup_middleware.spark.settings import Job, SparkError


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
        partitions=arguments.partitions,
    )
    if arguments.load:
        options = await with_key_of_index(options, open_index(options))
    session = submitted_session() if master is None else local_session(master)
    began = time.perf_counter()
    console = Console(stderr=True)
    quiet = quiet or not console.is_terminal
    with SparkProgress(session, console, quiet=quiet) as progress:
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
