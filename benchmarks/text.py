"""Text kernels against jieba and rjieba, in one process and one run.

Usage: ``python benchmarks/text.py [--corpus FILE.jsonl.gz] [--rounds N]``,
    ``python -m benchmarks.text --linear [--plot FILE.svg]``

Peers come from PyPI: ``pip install jieba rjieba rich``. Pages have 1,000 characters: drawn from
jieba's dictionary by frequency, or cut from the "text" fields of a corpus. Many different pages
are used, so that the dictionary is as cold in the caches as in a crawl. Every round times each
candidate once, one after the other, so that a change of the machine's speed hits all of them.
``--linear`` prints the cost a character of texts of 100 to 10,000,000 characters, and ``--plot``
draws it (``pip install matplotlib``).
"""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import json
import random
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import attrs
import matplotlib
import numpy as np
from matplotlib import pyplot
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dedup_middleware import Document, Fingerprinter, Options
from dedup_middleware.text import cutting
from dedup_middleware.text import trie as dictionary
from dedup_middleware.text.characters import code_points, fold, load_characters
from dedup_middleware.text.figures import find_figures
from dedup_middleware.text.shingle import Shingler
from dedup_middleware.text.trie import open_dictionary

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba

LENGTH = 1000
PAGES = 200
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)


@attrs.frozen
class Row:
    """An action to time on every page; `action` gets the result of `prepare`."""

    name: str
    action: Callable[..., object]
    pages: list[tuple[object, ...]]
    measured: list[float] = attrs.field(factory=list)

    def time(self) -> None:
        """Time one pass over all pages; add the mean microseconds per page."""
        begun = time.perf_counter()
        for page in self.pages:
            self.action(*page)
        self.measured.append((time.perf_counter() - begun) / len(self.pages) * 1e6)


@functools.cache
def _frequencies() -> tuple[list[str], list[int]]:
    """Return the words of jieba's dictionary and their cumulative frequencies."""
    found = dictionary.parse(dictionary.jieba_file("dict.txt").read_bytes()).frequencies
    return list(found), list(itertools.accumulate(found.values()))


def synthetic(characters: int, seed: int = 1) -> str:
    """Return words of jieba's dictionary by frequency, with some punctuation and numbers."""
    known, sums = _frequencies()
    draw = random.Random(seed)
    words = draw.choices(known, cum_weights=sums, k=characters)
    for place in range(7, len(words), 8):
        words[place] = draw.choice(("，", "。", "、", "2020年", "３.5%", "”"))
    return "".join(words)[:characters]


def corpus(path: Path, characters: int) -> str:
    """Return the joined texts of a gzipped JSON Lines file."""
    text = ""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text += json.loads(line)["text"]
            if len(text) > characters:
                break
    return text[:characters]


def rows(pages: list[str]) -> list[Row]:
    """Return the actions to time; the first three are segmentation alone."""
    import rjieba  # not needed for synthetic texts

    shingler, characters = Shingler(), load_characters({}, "")
    _, load_trie = open_dictionary()
    trie = load_trie()
    raw = [code_points(page) for page in pages]
    folded = [fold(codes, False, characters.table, characters.expansions) for codes in raw]
    starts, ends = np.empty(20 * LENGTH, np.int32), np.empty(20 * LENGTH, np.int32)
    named = np.zeros(20 * LENGTH, np.uint8)
    texts: list[tuple[object, ...]] = [(page,) for page in pages]

    def segment(codes: NDArray[np.uint32], flags: NDArray[np.uint8]) -> object:
        return cutting.tokenize(codes, flags, cutting.JIEBA, *trie, starts, ends, named)

    pairs: list[tuple[object, ...]] = [(codes, flags) for _, codes, flags in folded]
    return [
        Row("segmentation: places of the tokens", segment, pairs),
        Row("rjieba.cut: list of str", lambda page: rjieba.cut(page, False), texts),
        Row("jieba.lcut: list of str", lambda page: jieba.lcut(page, HMM=False), texts[:40]),
        Row("Shingler.tokens: list of str", shingler.tokens, texts),
        Row("str to Shingles, all of it", shingler, texts),
        Row("  of this: str to code points", code_points, texts),
        Row(
            "  of this: normal form",
            lambda codes: fold(codes, False, characters.table, characters.expansions),
            [(codes,) for codes in raw],
        ),
        Row("  of this: figures", find_figures, pairs),
    ]


def seconds_a_page(text: str, size: int, max_chars: int) -> float:
    """Return the median CPU seconds of a fingerprint of `size` characters of the text."""
    fingerprinter = Fingerprinter(Options(max_chars=max_chars))
    spent = []
    for repeat in range(max(3, min(300, 1_000_000 // size))):
        first = repeat * size % (len(text) - size + 1)
        page = Document(key="https://one.example/1", text=text[first : first + size])
        begun = time.thread_time()
        fingerprinter(page)
        spent.append(time.thread_time() - begun)
    return statistics.median(spent)


def linear(console: Console, plot: Path | None) -> None:
    """Measure the cost per character by length, without a limit and with the default."""
    text = synthetic(SIZES[-1] // 10) * 10
    bound = Options().max_chars
    free = [seconds_a_page(text, size, SIZES[-1]) for size in SIZES]
    bounded = [seconds_a_page(text, size, bound) for size in SIZES]
    table = Table(
        "characters", "CPU seconds", "ns a character", f"seconds, DEDUP_MAX_CHARS={bound:,}"
    )
    for size, one, other in zip(SIZES, free, bounded, strict=True):
        table.add_row(f"{size:,}", f"{one:.2g}", f"{one / size * 1e9:.0f}", f"{other:.2g}")
    console.print(table)
    if plot is not None:
        draw(plot, free, bounded, bound)
        console.print(f"plot: {plot}")


def draw(path: Path, free: list[float], bounded: list[float], bound: int) -> None:
    """Plot seconds against characters, on logarithmic scales."""
    matplotlib.use("svg")
    figure, axes = pyplot.subplots()
    axes.loglog(SIZES, free, marker="o", label="no bound")
    axes.loglog(SIZES, bounded, marker="x", label=f"DEDUP_MAX_CHARS = {bound:,}")
    axes.loglog(SIZES, [free[2] / SIZES[2] * size for size in SIZES], ":", label="linear")
    axes.set_xlabel("characters")
    axes.set_ylabel("seconds from text to fingerprint")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="gzipped JSON Lines with a field `text`")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--linear", action="store_true")
    parser.add_argument("--plot", type=Path, help="SVG file for --linear, as build/linear.svg")
    options = parser.parse_args()
    console = Console()
    jieba.setLogLevel(60)
    Shingler()("一个页面的正文 and its words")
    if options.linear:
        linear(console, options.plot)
        return
    size = LENGTH * PAGES
    text = corpus(options.corpus, size) if options.corpus else synthetic(size)
    pages = [text[i : i + LENGTH] for i in range(0, len(text), LENGTH)]
    timed = rows(pages)
    with console.status("timing"):
        for _ in range(options.rounds + 1):
            for row in timed:
                row.time()
    for row in timed:
        del row.measured[0]  # the warm-up
    fast, slow = timed[1], timed[2]
    table = Table("1,000 characters", "µs (median)", "rjieba / this", "jieba / this")
    for row in timed:
        ratios = [
            statistics.median(a / b for a, b in zip(peer.measured, row.measured, strict=True))
            for peer in (fast, slow)
        ]
        table.add_row(
            row.name,
            f"{statistics.median(row.measured):.1f}",
            *(f"{ratio:.1f}" for ratio in ratios),
        )
    console.print(table)


if __name__ == "__main__":
    main()
