"""What each command of ``python -m dedup_middleware.evaluation`` measures, prints and writes."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
from rich.console import Console
from rich.progress import Progress

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import METHODS, Options
from dedup_middleware.evaluation import output, pairs, stream
from dedup_middleware.evaluation.comparers import (
    METHOD_NAMES,
    VARIANTS,
    Comparer,
    methods_available,
)
from dedup_middleware.evaluation.corpus import InputError, Pair, read_documents, read_pairs

_WORDS_SHOWN = 16


@attrs.frozen
class Run:
    """One call of the command: arguments, options of the methods, and the console."""

    arguments: argparse.Namespace
    options: Options
    console: Console

    def progress(self) -> Progress:
        """Return a progress bar that disappears when it is done."""
        return Progress(console=self.console, transient=True)

    def comparers(self, default: Sequence[str] = ()) -> dict[str, Comparer]:
        """Return the methods requested, or else the defaults of the experiment."""
        return methods_available(self.options, self.arguments.methods or default)

    def report(self, name: str, title: str, records: output.Records) -> None:
        """Print a table, and write it if ``--out`` is given."""
        output.show(self.console, title, records)
        self.write(name, records)

    def write(
        self, name: str, records: output.Records, shown: output.Records | None = None
    ) -> None:
        """Write a table if ``--out`` is given."""
        if self.arguments.out is not None:
            output.write(self.arguments.out, name, records, shown)

    def plot(self, name: str, draw: Any, data: Any) -> None:
        """Draw a plot if ``--out`` is given, unless ``--no-plots`` is."""
        if self.arguments.out is not None and not self.arguments.no_plots:
            output.save(draw(data), self.arguments.out, name)


def run_pairs(run: Run) -> None:
    """Measure methods on labelled pairs: on non-trivial ones, and on all if some are trivial."""
    every = read_pairs(run.arguments.file)
    hard = [pair for pair in every if not pair.trivial]
    comparers = run.comparers((*METHOD_NAMES, *VARIANTS))
    some_left_out = len(hard) < len(every)
    for name, title, chosen in (
        ("pairs-all", "all pairs", every if some_left_out else []),
        ("pairs", "pairs without the trivial ones" if some_left_out else "all pairs", hard),
    ):
        if not chosen:
            continue
        with run.progress() as bar:
            task = bar.add_task(title, total=len(comparers))
            results = []
            for done, (method, comparer) in enumerate(comparers.items()):
                bar.update(task, completed=done, description=method)
                results.append(pairs.run(comparer, chosen))
        rows = pairs.rows(results, chosen, folds=run.arguments.folds)
        main = [row for row in rows if row["order"] == pairs.EITHER or row["method"] == "content"]
        summary = [_pair_summary(row) for row in main]
        run.write(name, rows, summary)
        output.show(run.console, f"{title}: {len(chosen)}", summary)
        drawn = [r for r in results if run.arguments.methods or r.name not in VARIANTS]
        run.plot(f"{name}-precision-recall", output.precision_recall, pairs.curves(drawn, chosen))
        if chosen is hard:
            _wrong(run, results, hard)


def _pair_summary(row: output.Record) -> dict[str, Any]:
    precision, recall = row["cv_precision_at_recall"], row["cv_recall_at_recall"]
    # Too few pairs to cross-validate a threshold.
    known = not math.isnan(precision)
    return {
        "method": row["method"],
        "order": row["order"],
        "at": row["threshold"],
        "precision": row["precision"],
        "recall": row["recall"],
        "F1": row["f1"],
        "cross-validated F1": row["cv_f1"],
        "P at R": f"{precision:.3f} at {recall:.3f}" if known else "-",
        "us a pair": round(row["pair_seconds"] * 1e6, 1),
        "us to sign": round(row["sign_seconds"] * 1e6),
    }


def _wrong(run: Run, results: Sequence[pairs.MethodRun], chosen: Sequence[Pair]) -> None:
    wrong = [pairs.wrong_pairs(result, chosen) for result in results]
    run.write("wrong-pairs", [*chain.from_iterable(wrong)])
    head = f"\npairs that {results[0].name} gets wrong: {len(wrong[0])}"
    run.console.print(head, markup=False)
    for record in wrong[0]:
        truth = "near-duplicates" if record["duplicate"] else "different pages"
        head = f"{record['pair']}: {truth}, score {record['score']:.2f}, {record['reason']}"
        run.console.print(head, markup=False, highlight=False)
        for field in ("only in a", "only in b", "figures only in a", "figures only in b"):
            words = record[field]
            more = " ..." if len(words) > _WORDS_SHOWN else ""
            line = f"    {field} ({len(words)}): {' '.join(words[:_WORDS_SHOWN])}{more}"
            run.console.print(line, markup=False, highlight=False, soft_wrap=True)


def run_stream(run: Run) -> None:
    """Measure methods on a stream in several orders, and with several processes on one index."""
    documents = [s.document for s in read_documents(run.arguments.files, run.arguments.limit)]
    arrivals = stream.planted(documents, run.arguments.planted, run.arguments.seed)
    keys = {arrival.document.key for arrival in arrivals}
    if len(keys) != len(arrivals):
        raise InputError("two documents have one key: give each its own 'key', 'url' or 'id'")
    truth = stream.Truth(arrivals)
    results = []
    methods = _of_crawls(run)
    for options in methods.values():
        stream.load(options, arrivals)
    with run.progress() as bar:
        for order in stream.ORDERS:
            ordered = stream.reordered(arrivals, order, run.arguments.seed)
            for name, options in methods.items():
                with counted(bar, f"{name}, {order}", len(ordered)) as advance:
                    work = partial(stream.deduplicate, options, ordered, advance)
                    decisions, seconds = stream.timed(work)
                results.append(truth.score(decisions, name, order, 1, seconds))
        results += _by_workers(run, bar, methods, arrivals, truth)
    run.report("stream", f"{len(arrivals)} documents", [_stream_record(r) for r in results])
    lost = [
        [
            {"method": r.method, "order": r.order, "workers": r.workers, "lost": new, "match": old}
            for new, old in r.lost
        ]
        for r in results
    ]
    run.write("stream-lost", [*chain.from_iterable(lost)])
    first = [record for some in lost for record in some[: run.arguments.show]]
    output.show(run.console, "first losses of each run", first)


def _of_crawls(run: Run) -> dict[str, Options]:
    """Return in-memory crawl options for each method requested."""
    found = {}
    for name, comparer in run.comparers(METHODS).items():
        if comparer.options is None:
            raise OptionsError("--methods", name, "no crawl decides by it: use it with `pairs`")
        found[name] = stream.with_own_index(comparer.options, "memory:")
    return found


@contextmanager
def counted(bar: Progress, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Add a line to the progress bar; yield the function that advances it."""
    task = bar.add_task(title, total=total)
    yield lambda n: bar.advance(task, n)
    bar.remove_task(task)


def _by_workers(
    run: Run,
    bar: Progress,
    methods: Mapping[str, Options],
    arrivals: Sequence[stream.Arrival],
    truth: stream.Truth,
) -> Iterator[stream.StreamResult]:
    """Measure methods with several processes on one index."""
    workers = run.arguments.workers
    if workers == 1:
        return
    with stream.worker_pool(workers, run.options) as pool:
        for name, options in methods.items():
            patient = attrs.evolve(options, timeout=60.0)
            with TemporaryDirectory() as folder, counted(bar, f"{name}, {workers} workers", None):
                work = partial(stream.deduplicate_in_pool, pool, patient, arrivals, workers)
                decisions, seconds = stream.timed(partial(work, Path(folder)), time.perf_counter)
            yield truth.score(decisions, name, "arrival", workers, seconds)


def _stream_record(result: stream.StreamResult) -> dict[str, Any]:
    record = attrs.asdict(result, filter=lambda field, _: field.name not in {"seconds", "lost"})
    pages_a_second = result.documents / max(result.seconds, 1e-9)
    return {**record, "cost": result.cost, "pages_a_second": pages_a_second}
