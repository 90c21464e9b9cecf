"""What each command of ``python -m research`` measures, shows and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.evaluation.corpus import read_documents
from dedup_middleware.evaluation.output import new_figure
from dedup_middleware.evaluation.runs import Run
from research import expansion, protocols, stringhashes, tables

LABELLED = (50, 100, 200, 500, 1000)  # numbers of pages; labels of those between would overlap

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def seconds_by_pages(rows: Sequence[Mapping[str, float | str]]) -> Figure:
    """Processor seconds against number of pages for each method, both on logarithmic scales."""
    figure = new_figure(8, 5)
    axes = figure.subplots()
    for i, name in enumerate(dict.fromkeys(str(row["method"]) for row in rows)):
        own = [row for row in rows if row["method"] == name]
        pages, seconds = [row["pages"] for row in own], [row["seconds"] for row in own]
        axes.plot(pages, seconds, ("-", "--", ":")[i // 8 % 3], color=f"C{i % 8}", label=name)
    axes.set(xlabel="pages", ylabel="processor seconds", xscale="log", yscale="log")
    sizes = sorted({row["pages"] for row in rows})
    axes.set_xticks(
        sizes, [f"{size}" if size in LABELLED or len(sizes) < 6 else "" for size in sizes]
    )
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, handlelength=3)
    return figure


@contextmanager
def _progress(run: Run) -> Iterator[Callable[[str], None]]:
    """A progress bar of unknown length; yields a function that shows what is being measured."""
    with run.progress() as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


def run_li(run: Run) -> None:
    """The protocol of LI, and its times."""
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
        run.plot("li-sizes", seconds_by_pages, sizes)


def _published(method: str) -> dict[str, Any]:
    accuracy, recall = protocols.LI_PUBLISHED.get(method, (None, None))
    return {"published_accuracy": accuracy, "published_recall": recall}


def run_zhou(run: Run) -> None:
    """The protocol of ZHOU, with the ablation of the weights."""
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
    """The eight string hashes of SURVEY, and why they collide so often."""
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
    """Ways to find all fingerprints within three bits, on random ones."""
    arguments = run.arguments
    with _progress(run) as describe:
        rows = expansion.measure(arguments.count, arguments.queries, arguments.seed, describe)
    title = f"{arguments.queries} queries of {arguments.count} fingerprints"
    run.report("expansion", title, [attrs.asdict(row) for row in rows])


def run_tables(run: Run) -> None:
    """The tables of docs/methods.md, printed, and put into a page with ``--page``."""
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
