"""What each command of ``python -m research`` measures, prints and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.evaluation.comparers import methods_available
from dedup_middleware.evaluation.corpus import read_documents
from dedup_middleware.evaluation.edits import KINDS
from dedup_middleware.evaluation.runs import Run, counted
from dedup_middleware.methods.literature.registry import LITERATURE
from research import candidates, expansion, plots, protocols, stringhashes, surface, tables


@contextmanager
def _progress(run: Run) -> Iterator[Callable[[str], None]]:
    """Show an endless progress bar; yield a function that names the current measurement."""
    with run.progress() as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


def run_li(run: Run) -> None:
    """Run the protocol of LI, and time it."""
    arguments = run.arguments
    documents = [s.document for s in read_documents(arguments.files, arguments.limit)]
    pages = protocols.li_pages(documents, arguments.size, arguments.min_chars, arguments.seed)
    comparers = run.comparers(protocols.LI_METHODS)
    with _progress(run) as describe:
        table = protocols.li(pages, comparers, describe)
    records = [
        {
            **attrs.asdict(row),
            "accuracy_percent": row.accuracy,
            "recall_percent": row.recall,
            **_published(row.method),
        }
        for row in table
    ]
    run.report("li", "protocol of LI", records)
    with _progress(run) as describe:
        sizes = protocols.li_sizes(pages, comparers, progress=describe, whole=table)
    run.report("li-sizes", "protocol of LI with 50 to 1000 pages", sizes)
    if sizes:
        run.plot("li-sizes", plots.seconds_by_pages, sizes)


def _published(method: str) -> dict[str, Any]:
    accuracy, recall = protocols.LI_PUBLISHED.get(method, (None, None))
    return {"published_accuracy": accuracy, "published_recall": recall}


def run_zhou(run: Run) -> None:
    """Run the protocol of ZHOU, with an ablation of the weights."""
    arguments = run.arguments
    documents = read_documents(arguments.files, arguments.limit)
    arrivals = protocols.zhou_documents(
        documents, arguments.classes, arguments.size, arguments.planted, arguments.seed
    )
    comparers = run.comparers(protocols.ZHOU_METHODS)
    with _progress(run) as describe:
        table = protocols.zhou(arrivals, comparers, run.options, describe)
    records = [
        {**attrs.asdict(row), "precision": row.precision, "recall": row.recall, "F1": row.f1}
        for row in table
    ]
    run.report("zhou", "protocol of ZHOU", records)


def run_collisions(run: Run) -> None:
    """Measure collisions of the eight string hashes of SURVEY, and their cause."""
    rows = stringhashes.collision_table(run.arguments.seed)
    title = f"collisions among {stringhashes.DOCUMENTS} documents"
    run.report("collisions", title, [attrs.asdict(row) for row in rows])
    mean, deviation = stringhashes.expected_collisions(stringhashes.SLOTS)
    run.console.print(
        f"{stringhashes.DUPLICATES} documents are copies, which is what whole hashes of 32 and 64 "
        f"bits find.\nIn a table of {stringhashes.SLOTS} slots an ideal hash collides "
        f"{mean:.1f} +- {deviation:.1f} times, which fits three of the published counts.",
        markup=False,
        highlight=False,
    )


def run_expansion(run: Run) -> None:
    """Compare ways to find all fingerprints within three bits of one, on random fingerprints."""
    arguments = run.arguments
    with _progress(run) as describe:
        rows = expansion.measure(arguments.count, arguments.queries, arguments.seed, describe)
    title = f"{arguments.queries} queries of {arguments.count} fingerprints"
    run.report("expansion", title, [attrs.asdict(row) for row in rows])


def run_tables(run: Run) -> None:
    """Print the tables of docs/methods.md, and write them to a page with ``--page``."""
    arguments = run.arguments
    unknown = set(arguments.only or ()) - set(tables.TABLES)
    if unknown:
        fix = f"use {', '.join(tables.TABLES)}"
        raise OptionsError("--only", " ".join(sorted(unknown)), fix)
    sizes = tables.Sizes(arguments.size, arguments.documents, arguments.planted)
    documents = read_documents(arguments.files, arguments.limit)
    with _progress(run) as describe:
        source = tables.Source(documents, sizes, arguments.seed, run.options, describe)
        made = [tables.TABLES[name](source) for name in arguments.only or tables.TABLES]
    for table in made:
        print(tables.begin(table.name) + table.markdown)
    if arguments.page is not None:
        tables.fill(arguments.page, made)


def run_surface(run: Run) -> None:
    """Measure the recall surface of one method."""
    arguments = run.arguments
    documents = [s.document for s in read_documents([arguments.file], arguments.limit)]
    names = arguments.methods or ["content"]
    for name, comparer in methods_available(run.options, names).items():
        steps = len(KINDS) * len(surface.INTENSITIES) * len(surface.LENGTHS)
        with run.progress() as bar, counted(bar, name, steps) as advance:
            cells = surface.surface(
                documents,
                comparer,
                per_cell=arguments.per_cell,
                seed=arguments.seed,
                progress=advance,
            )
        file = f"surface-{name.replace(':', '-')}"
        run.write(f"{file}-cells", [attrs.asdict(cell) for cell in cells])
        run.report(file, f"edited copies found by {name}", _surface_records(cells))
        run.plot(file, plots.heat_map, cells)


def run_scripts(run: Run) -> None:
    """Measure the recall of each kind of edit by script, for one method."""
    arguments = run.arguments
    documents = [s.document for s in read_documents([arguments.file], arguments.limit)]
    for name, comparer in methods_available(run.options, arguments.methods or ["content"]).items():
        with run.progress() as bar, counted(bar, name, None) as advance:
            cells = surface.by_script(
                documents,
                comparer,
                intensity=arguments.intensity,
                per_script=arguments.per_cell,
                seed=arguments.seed,
                progress=advance,
            )
        table: dict[str, dict[str, Any]] = {}
        for cell in cells:
            row = table.setdefault(cell.kind, {"kind": cell.kind})
            row[cell.script] = cell.share
        pages: dict[str, Any] = {"kind": "pages"}
        for cell in cells:
            pages[cell.script] = max(cell.pages, pages.get(cell.script, 0))
        run.report(
            f"scripts-{name.replace(':', '-')}",
            f"edited copies found by {name}, by script (figures-changed, next-page: 0 is right)",
            [pages, *table.values()],
        )


def _surface_records(cells: Sequence[surface.SurfaceCell]) -> list[dict[str, Any]]:
    table: dict[tuple[str, int], dict[str, Any]] = {}
    for cell in cells:
        row = table.setdefault(
            (cell.kind, cell.length), {"kind": cell.kind, "characters": f">= {cell.length}"}
        )
        row[f"{cell.intensity:g}"] = cell.recall
    return list(table.values())


def run_candidates(run: Run) -> None:
    """Measure the recall of the tables."""
    arguments = run.arguments
    if run.options.method in LITERATURE:
        fix = "use content, simhash or minhash: the others make no tables of sets of shingles"
        raise OptionsError("DEDUP_METHOD", run.options.method, fix)
    steps = arguments.count * len(candidates.JACCARDS)
    with run.progress() as bar, counted(bar, "pairs", steps) as advance:
        rows = candidates.measure(
            run.options,
            pairs=arguments.count,
            size=arguments.shingles,
            seed=arguments.seed,
            progress=advance,
        )
    sizes = f"{run.options.band_count} bands of {run.options.rows} rows"
    records = [attrs.asdict(row, recurse=False) for row in rows]
    run.report("candidates", f"candidates found by {run.options.method}, {sizes}", records)
    run.plot("candidates", plots.candidate_recall, rows)
