"""A batch run: reads rows, computes fingerprints on all cores, decides, writes rows in input order.

This process decides, and computes fingerprints too when the workers have none ready. Each process
has its own interpreter, kernels and dictionary, so by default there is only one per core.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import tempfile
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import to_json
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.tools.files.results import ClusterOutput, JournalOutput, Lines, Output
from dedup_middleware.tools.files.rows import BatchError, Row, formats_of, read_rows
from dedup_middleware.tools.files.signing import (
    Parcel,
    Signed,
    batch_key,
    end_with_parent,
    sign_rows,
    unpack,
)


def batch_options(options: Options) -> Options:
    """Return the options of a run: the rules of the crawl with an index of its own in memory.

    A row that was written stays, even if its key or a fuller row comes later.
    """
    return attrs.evolve(
        options,
        index_url="memory:",
        former_index_url="",
        former_namespace="",
        hash_key=batch_key(options),
        window=0.0,
        versions="keep",
        on_fuller="keep",
    )


_ROWS = 256  # rows in one part, the unit of work for a worker
_CHARS = 4_000_000  # characters in a part
_AHEAD = 3  # parts in memory per process
_PATIENCE = 1.0  # seconds between checks for dead workers

T = TypeVar("T", bound=Output)
Progress = Callable[[float], None]


@attrs.frozen
class Plan:
    """The inputs and outputs of a run."""

    inputs: tuple[Path, ...]
    kept: Path
    dropped: Path | None
    rejected: Path
    journal: Path | None = None
    clusters: Path | None = None
    near: bool = False
    file_format: str | None = None
    workers: int = 1  # processes that compute fingerprints, this one included; 0: only this one
    overwrite: bool = False  # also replace a file that appears during the run


@attrs.define
class Report:
    """The result of a run: row counts, seconds, and rows by field that JSON can't hold."""

    read: int = 0
    kept: int = 0
    dropped: int = 0
    rejected: int = 0
    reasons: dict[str, int] = attrs.field(factory=dict)
    left_out: dict[str, int] = attrs.field(factory=dict)
    doubtful: int = 0  # rows that were read but may contain others
    first_doubtful: str = ""  # place of the first one
    seconds: float = 0.0


async def run_batch(plan: Plan, options: Options, progress: Progress) -> Report:
    """Read all inputs in order and keep the first of each set of duplicates. The result depends
    only on the inputs and the options.

    :raises DedupError: a file can't be read or written
    """
    options = batch_options(options)
    formats = formats_of(plan.inputs, plan.file_format)
    started = time.perf_counter()
    with contextlib.ExitStack() as closing:
        outputs = Outputs(plan, options, closing)
        try:
            # Addresses and evidence go into unnamed files.
            folder = plan.kept.parent
            addresses, payloads = (
                closing.enter_context(tempfile.TemporaryFile(buffering=0, dir=folder))
                for _ in range(2)
            )
            index = MemoryIndex(files=(addresses, payloads))
            executor = closing.enter_context(executor_of(plan.workers))
            async with Deduplicator(options, index=index) as dedup:
                parts = _parts(plan.inputs, formats, options)
                async for path, rows, signed, done in _signed(parts, executor, plan, options):
                    for row, one in zip(rows, signed, strict=True):
                        await outputs.take(path, row, one, dedup)
                    progress(done)
                await outputs.finish(index)
        except BrokenProcessPool as error:
            raise BatchError(
                "a worker process was ended, as by too little memory: use fewer --workers"
            ) from error
    outputs.report.seconds = time.perf_counter() - started
    return outputs.report


class Outputs:
    """Decides each row and writes it to the right file."""

    def __init__(self, plan: Plan, options: Options, closing: contextlib.ExitStack) -> None:
        self._options = options
        replaces = plan.overwrite

        def opened(output: T) -> T:
            return closing.enter_context(contextlib.closing(output))

        self._clusters = self._dropped = self._journal = None
        # ClusterOutput may refuse the name of its file, so it comes before any other file is made.
        if plan.clusters is not None:
            clusters = ClusterOutput(plan.clusters, options, near=plan.near, replaces=replaces)
            self._clusters = opened(clusters)
        self._kept = opened(Output(plan.kept, replaces=replaces))
        if plan.dropped is not None:
            self._dropped = opened(Output(plan.dropped, replaces=replaces))
        self._rejected = opened(Output(plan.rejected, keeps_empty=False, replaces=replaces))
        if plan.journal is not None:
            self._journal = opened(JournalOutput(plan.journal, options, replaces=replaces))
        self._lines = Lines(options)
        self._reasons: Counter[str] = Counter()
        self.report = Report()

    async def take(self, path: Path, row: Row, signed: Signed, dedup: Deduplicator) -> None:
        """Decide a row and write it."""
        report = self.report
        report.read += 1
        if signed.page is None:
            report.rejected += 1
            why = {"error": signed.error, "raw": row.shown}
            self._rejected.write(to_json({"file": str(path), "row": row.number, **why}))
            return
        if row.doubtful:
            report.doubtful += 1
            report.first_doubtful = report.first_doubtful or f"row {row.number} of {path}"
        verdict = await dedup.decide_fingerprint(signed.page)
        await dedup.commit(verdict)  # a new page counts as stored at once
        verdict = attrs.evolve(verdict, document=signed.document)
        self._reasons[verdict.reason] += 1
        now = time.time()
        if self._clusters is not None:
            self._clusters.decided(signed, verdict, now)
        if not is_dropped(verdict.outcome, self._options):
            report.kept += 1
            self._kept.write(self._lines.kept(row, signed))
            if self._journal is not None:
                self._journal.kept(signed, verdict, now)
            return
        report.dropped += 1
        if self._dropped is not None:
            self._dropped.write(self._lines.dropped(row, signed, verdict))
        if self._journal is not None:
            self._journal.dropped(row, signed, verdict, now)

    async def finish(self, index: Index) -> None:
        """Complete all files, then rename them, the kept rows last."""
        if self._clusters is not None:
            await self._clusters.gather(index)
        every = (self._clusters, self._rejected, self._journal, self._dropped, self._kept)
        files = [file for file in every if file is not None]
        for file in files:
            file.complete()
        for file in files:
            file.check_name()
        for file in files:
            file.finish()
        self.report.reasons = dict(self._reasons.most_common())
        self.report.left_out = dict(self._lines.left_out)


def _parts(
    inputs: Sequence[Path], formats: Sequence[str], options: Options
) -> Iterator[tuple[Path, list[Row], float]]:
    """Yield all inputs in parts: the path, rows of that file, and the bytes of all files read."""
    before = 0
    for path, file_format in zip(inputs, formats, strict=True):
        rows: list[Row] = []
        chars = done = 0
        for row in read_rows(path, file_format, options.field_names):
            rows.append(row)
            done = row.done
            fields = () if isinstance(row.raw, bytes) else row.raw.values()
            texts = (len(value) for value in fields if isinstance(value, (str, bytes)))
            chars += len(row.raw) if isinstance(row.raw, bytes) else max(2000, sum(texts))
            if len(rows) == _ROWS or chars > _CHARS:
                yield path, rows, before + done
                rows, chars = [], 0
        if rows:
            yield path, rows, before + done
        before += path.stat().st_size  # the reader may not have read to the end


async def _signed(
    parts: Iterator[tuple[Path, list[Row], float]],
    executor: ProcessPoolExecutor | None,
    plan: Plan,
    options: Options,
) -> AsyncIterator[tuple[Path, list[Row], list[Signed], float]]:
    """Yield parts with their fingerprints in order, while later parts are being computed."""
    sign = partial(sign_rows, options, plan.journal is not None)
    others = 0 if executor is None else plan.workers - 1
    waiting: deque[tuple[Path, list[Row], float, Future[Parcel]]] = deque()
    part = next(parts, None)
    while part is not None or waiting:
        busy = sum(not work.done() for *_, work in waiting)
        has_room = len(waiting) < _AHEAD * (others + 1)
        if part is not None and has_room and executor is not None and busy < _AHEAD * others:
            with _ctrl_c_blocked():
                work = executor.submit(sign, part[1])
        elif part is not None and has_room and not (waiting and waiting[0][-1].done()):
            work = Future()
            work.set_result(sign(part[1]))
        else:
            path, rows, done, work = waiting.popleft()
            yield path, rows, unpack(await result_of(work, executor)), done
            continue
        waiting.append((*part, work))
        part = next(parts, None)


@contextlib.contextmanager
def executor_of(workers: int) -> Iterator[ProcessPoolExecutor | None]:
    """Start the worker processes; if the run ends early, waiting work is cancelled."""
    if workers <= 1:
        yield None
        return
    # A fork can hang in a process with threads, such as those of numba and the event loop.
    executor = ProcessPoolExecutor(
        workers - 1, multiprocessing.get_context("spawn"), initializer=end_with_parent
    )
    try:
        yield executor
    finally:
        _end_if_broken(executor)
        executor.shutdown(cancel_futures=True)


async def result_of(work: Future[Parcel], executor: ProcessPoolExecutor | None) -> Parcel:
    """Wait for the result of a worker, and check that the workers live."""
    future = asyncio.wrap_future(work)
    while not (await asyncio.wait({future}, timeout=_PATIENCE))[0]:
        if executor is not None:
            _end_if_broken(executor)
    return future.result()


def _end_if_broken(executor: ProcessPoolExecutor) -> None:
    """Shut down an executor if one of its processes was killed. Otherwise it would wait forever for
    the rest of a result, because this process holds the writing end of the pipe too."""
    processes = list((executor._processes or {}).values())
    if any(not process.is_alive() for process in processes):
        for process in processes:
            process.terminate()
        results: Any = executor._result_queue
        results._writer.close()


@contextlib.contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Block Ctrl-C in workers that start meanwhile. A terminal sends it to all processes, and a
    worker killed while reading would leave the queue locked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
