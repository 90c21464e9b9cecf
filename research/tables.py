"""Makes all tables of docs/methods.md in one run, as they appear there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from dedup_middleware.base.options import Options
from dedup_middleware.evaluation.comparers import Comparer, JaccardComparer, methods_available
from dedup_middleware.evaluation.corpus import SourceDocument
from dedup_middleware.evaluation.stream import (
    ORDERS,
    Arrival,
    StreamResult,
    Truth,
    reordered,
)
from dedup_middleware.evaluation.stream import planted as planted_stream
from research import stringhashes
from research.comparing import decide, duplicates, gather, load
from research.protocols import (
    LI_PUBLISHED_COUNTS,
    ZHOU_METHODS,
    Progress,
    ZhouRow,
    li,
    li_pages,
    zhou,
    zhou_documents,
)

LI_METHODS: Final = (
    "md5",
    "structure-tree",
    "feature-string",
    "charset",
    "machine-code",
    "content",
)
CSU_METHODS: Final = (
    "csu",
    *(f"csu:samples={n} sampling={way}" for n in (64, 128, 256) for way in ("hash", "position")),
    *(f"csu:width={width}" for width in (2, 4, 5)),
    *(f"csu:positions={positions}" for positions in (7, 9, 10)),
)
STREAM_METHODS: Final = (
    "content",
    "simhash",
    "minhash",
    "csu",
    *LI_METHODS[:-1],
    "luogang",
    "weighted-simhash",
    "segments",
    "rules",
    "feature-list",
    "random-projection",
    "text-profile",
    "idf",
    JaccardComparer.name,
)
VECTOR_METHODS: Final = ("charset", "machine-code")
SIMD_ROWS: Final = (1, 100, 10_000)


@attrs.frozen
class Table:
    """A table of docs/methods.md.

    :param name: selects it on the command line
    :param header: column titles; the first column names the rows
    :param rows: cells in the order of the header
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def markdown(self) -> str:
        """Return the lines of the table in Markdown."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


@attrs.frozen
class Sizes:
    """Samples of LI; documents per class and all copies of ZHOU; documents of the stream."""

    li: int = 500
    zhou: int = 2000
    planted: int = 500
    min_chars: int = 400
    stream: int = 3003


@attrs.frozen
class Source:
    """The data that tables are made from."""

    documents: Sequence[SourceDocument]
    sizes: Sizes
    seed: int
    options: Options
    progress: Progress | None = None

    def comparers(self, names: Sequence[str]) -> Mapping[str, Comparer]:
        """Return methods by name."""
        return methods_available(self.options, names)

    def planted(self, most: int | None = None) -> list[Arrival]:
        """Return the documents of the protocol of ZHOU, in five classes.

        :param most: documents per class; half as many copies in total
        """
        documents, copies = self.sizes.zhou, self.sizes.planted
        if most is not None:
            documents, copies = min(documents, most), min(copies, most // 2)
        return zhou_documents(self.documents, 5, documents, copies, self.seed)


def copies(source: Source) -> Table:
    """Run the protocol of LI."""
    documents = [one.document for one in source.documents]
    pages = li_pages(documents, source.sizes.li, source.sizes.min_chars, source.seed)
    rows = []
    for row in li(pages, source.comparers(LI_METHODS), source.progress):
        edited, flagged = LI_PUBLISHED_COUNTS.get(row.method, ("", ""))
        counts = (f"{row.edited}", f"{edited}", f"{row.flagged}", f"{flagged}")
        rows.append((f"`{row.method}`", f"{row.identical}", *counts, f"{row.seconds:.2f}"))
    header = ("method", "unchanged found", "edited found", "paper", "others flagged", "paper")
    return Table("copies", (*header, "seconds of CPU"), tuple(rows))


def _title(method: str) -> str:
    """Return a method's name for the first column: as code, if a crawl has the method."""
    return "exact Jaccard index" if method == JaccardComparer.name else f"`{method}`"


def _shares(row: ZhouRow) -> tuple[str, ...]:
    shares = (f"{value:.2f}" for value in (row.precision, row.recall, row.f1))
    return (f"{row.dropped}", f"{row.right}", f"{row.found}", *shares)


def _planted(source: Source, name: str, methods: Sequence[str], most: int | None = None) -> Table:
    found = zhou(source.planted(most), source.comparers(methods), source.options, source.progress)
    rows = tuple((_title(row.method), *_shares(row)) for row in found)
    header = ("method", "dropped", "correctly", "planted ones", "precision", "recall", "F1")
    return Table(name, header, rows)


def planted(source: Source) -> Table:
    """Run the protocol of ZHOU, with one factor of the weight switched off at a time."""
    return _planted(source, "planted", ZHOU_METHODS)


def csu(source: Source) -> Table:
    """Vary the parameters that the text of CSU leaves open, in a smaller protocol of ZHOU."""
    return _planted(source, "csu", CSU_METHODS, most=600)


def vectors(source: Source) -> Table:
    """Count what `charset` and `machine-code` drop in a crawl, and with all pairs compared."""
    arrivals = source.planted()
    rows = []
    for name, comparer in source.comparers(VECTOR_METHODS).items():
        if source.progress is not None:
            source.progress(f"{name}, all pairs and a crawl")
        signed = [comparer.sign(arrival.document) for arrival in arrivals]
        gathered = gather(comparer, signed)
        kept = np.zeros(len(signed), np.bool_)
        for i, signature in enumerate(signed):
            kept[i] = not (duplicates(comparer, signature, gathered) & kept).any()
        everything = int((~kept).sum())
        crawl = sum(d.match is not None for d in decide(comparer, arrivals, source.options))
        lost = f"{1 - crawl / everything:.0%}" if everything else "0%"
        rows.append((f"`{name}`", f"{everything}", f"{crawl}", lost))
    header = ("method", "dropped, comparing all pairs", "in a crawl", "not found")
    return Table("vectors", header, tuple(rows))


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


def stream(source: Source) -> Table:
    """Run a stream in three orders, in which a tenth of the documents have a later edited copy."""
    documents = [one.document for one in source.documents[: source.sizes.stream]]
    arrivals = planted_stream(documents, 0.1, source.seed)
    truth = Truth(arrivals)
    rows = []
    for name, comparer in source.comparers(STREAM_METHODS).items():
        load(comparer, arrivals, source.options)
        found: list[StreamResult] = []
        for order in ORDERS:
            if source.progress is not None:
                source.progress(f"{name}, {order}")
            decisions = decide(comparer, reordered(arrivals, order, source.seed), source.options)
            found.append(truth.score(decisions, name, order, 1, 0.0))
        lost, extras = [one.losses for one in found], [one.extras for one in found]
        costs = [one.cost for one in found]
        rows.append((_title(name), _range(lost), _range(extras), _range(costs)))
    return Table("stream", ("method", "lost", "copies too many", "cost"), tuple(rows))


def hashes(source: Source) -> Table:
    """Measure collisions and times of the string hashes of SURVEY."""
    rows = []
    mean, deviation = stringhashes.expected_collisions(stringhashes.SLOTS)
    texts = stringhashes.documents(source.seed)
    functions = {**stringhashes.STRING_HASHES, "ideal": stringhashes.ideal_hash}
    for row in stringhashes.collision_table(source.seed):
        started = time.process_time()
        for text in texts:
            functions[row.name](text, 32)
        micros = (time.process_time() - started) / len(texts) * 1e6
        off = "" if row.published is None else f"{(row.published - mean) / deviation:+.1f}"
        published = "" if row.published is None else f"{row.published}"
        counts = (published, off, f"{row.table}", f"{row.whole_32}", f"{row.whole_64}")
        rows.append((row.name, *counts, f"{micros:.0f}"))
    header = ("hash", "published", "deviations from 556.5", "in 1024 slots", "32 bits", "64 bits")
    return Table("hashes", (*header, "µs a text"), tuple(rows))


def _best_time(work: Callable[[], object], turns: int) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(turns):
            work()
        times.append((time.perf_counter() - started) / turns)
    return min(times)


def simd(source: Source) -> Table:
    """Time CSU's comparison in SIMD registers and in NumPy, best of five."""
    from dedup_middleware.methods.literature.csu import equal_positions

    rng = np.random.default_rng(source.seed)
    rows = []
    for count in SIMD_ROWS:
        values = rng.integers(0, 50, (count, 8)).astype(np.uint16)
        query = values[0].copy()
        turns = max(20, 50_000 // count // 10)
        equal_positions(values, query)
        own = _best_time(lambda v=values, q=query: equal_positions(v, q), turns)  # type: ignore[misc]
        other = _best_time(
            lambda v=values, q=query: np.count_nonzero(v == q, axis=1),  # type: ignore[misc]
            turns,
        )
        cells = (f"{own * 1e6:.1f}", f"{other * 1e6:.1f}", f"{other / own:.1f}")
        rows.append((f"{count:,}", *cells))
    return Table(
        "simd", ("fingerprints", "registers, µs", "NumPy, µs", "times faster"), tuple(rows)
    )


TABLES: Final[Mapping[str, Callable[[Source], Table]]] = {
    "copies": copies,
    "planted": planted,
    "csu": csu,
    "simd": simd,
    "vectors": vectors,
    "stream": stream,
    "hashes": hashes,
}


def begin(name: str) -> str:
    """Return the line that precedes a table in the page."""
    return f"<!-- table {name} -->\n"


def fill(page: Path, tables: Sequence[Table]) -> None:
    """Replace the tables in a page that follow a line ``begin(name)``, each up to an empty line."""
    text = page.read_text("utf-8")
    for table in tables:
        head, found, rest = text.partition(begin(table.name))
        if not found:
            raise ValueError(f"{page} has no line {begin(table.name).strip()!r}")
        _, _, after = rest.partition("\n\n")
        text = f"{head}{found}{table.markdown}\n{after}"
    page.write_text(text, "utf-8")
