"""Text kernels against jieba and rjieba, in one process and one run.

Usage: ``python benchmarks/text.py [--corpus FILE.jsonl.gz] [--rounds N] [--linear]``

Peers come from PyPI: ``pip install jieba rjieba rich``. Pages have 1,000 characters: drawn from
jieba's dictionary by frequency, or cut from the "text" fields of a corpus. Many different pages
are used, so that the dictionary is as cold in the caches as in a crawl. Every round times each
candidate once, one after the other, so that a change of the machine's speed hits all of them.
``--linear`` prints the cost a character of texts of 100 to 10,000,000 characters.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import rjieba
from rich.console import Console
from rich.table import Table

from dedup_middleware.text import cutting, dictionary
from dedup_middleware.text.figures import find_figures
from dedup_middleware.text.fold import code_points, fold, load_characters
from dedup_middleware.text.hashing import constants
from dedup_middleware.text.segment import cut
from dedup_middleware.text.shingle import Shingler
from dedup_middleware.text.trie import load_trie

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba

LENGTH = 1000
PAGES = 200


@attrs.frozen
class Row:
    """Something to time on every page: `action` gets what `prepare` made of the page."""

    name: str
    action: Callable[..., object]
    pages: list[tuple[object, ...]]
    measured: list[float] = attrs.field(factory=list)

    def time(self) -> None:
        """Add the mean microseconds a page of one pass over all pages."""
        begun = time.perf_counter()
        for page in self.pages:
            self.action(*page)
        self.measured.append((time.perf_counter() - begun) / len(self.pages) * 1e6)


def synthetic(characters: int) -> str:
    """Words of jieba's dictionary by frequency, with some punctuation and numbers."""
    frequencies = dictionary.parse(dictionary.jieba_dictionary().read_bytes()).frequencies
    draw = random.Random(1)
    words = draw.choices(list(frequencies), list(frequencies.values()), k=characters)
    for place in range(7, len(words), 8):
        words[place] = draw.choice(("，", "。", "、", "2020年", "３.5%", "”"))
    return "".join(words)[:characters]


def corpus(path: Path, characters: int) -> str:
    """The texts of a gzipped JSON Lines file, joined."""
    text = ""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text += json.loads(line)["text"]
            if len(text) > characters:
                break
    return text[:characters]


def rows(pages: list[str]) -> list[Row]:
    """What is timed; the first three are segmentation alone."""
    shingler, trie, characters = Shingler(), load_trie(), load_characters({}, "")
    keys = constants(0, 3)
    raw = [code_points(page) for page in pages]
    folded = [fold(codes, False, characters.table, characters.expansions, keys) for codes in raw]
    starts, ends = np.empty(20 * LENGTH, np.int32), np.empty(20 * LENGTH, np.int32)
    texts: list[tuple[object, ...]] = [(page,) for page in pages]

    def segment(codes: object, flags: object) -> object:
        return cutting.lossless(  # type: ignore[no-any-return]
            codes, flags, cutting.JIEBA, trie.roots, trie.nodes, trie.values, starts, ends
        )

    pairs: list[tuple[object, ...]] = [(codes, flags) for _, codes, flags, _ in folded]
    return [
        Row("segmentation: places of the tokens", segment, pairs),
        Row("rjieba.cut: list of str", lambda page: rjieba.cut(page, False), texts),
        Row("jieba.lcut: list of str", lambda page: jieba.lcut(page, HMM=False), texts[:40]),
        Row("segment.cut: list of str", lambda page: cut("jieba", page), texts),
        Row("str to Shingles, all of it", shingler, texts),
        Row("  of this: str to code points", code_points, texts),
        Row(
            "  of this: normal form, exact hash",
            lambda codes: fold(codes, False, characters.table, characters.expansions, keys),
            [(codes,) for codes in raw],
        ),
        Row("  of this: figures", find_figures, pairs),
    ]


def linear(console: Console) -> None:
    """Cost a character at several lengths."""
    shingler = Shingler(max_chars=10_000_000)
    text = synthetic(10_000_000)
    table = Table("characters", "ns a character")
    for size in (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        repeats = max(3, 1_000_000 // size)
        begun = time.perf_counter()
        for repeat in range(repeats):
            first = repeat * size % (len(text) - size + 1)
            shingler(text[first : first + size])
        spent = (time.perf_counter() - begun) / repeats
        table.add_row(f"{size:,}", f"{spent / size * 1e9:.0f}")
    console.print(table)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="gzipped JSON Lines with a field `text`")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--linear", action="store_true")
    options = parser.parse_args()
    console = Console()
    jieba.setLogLevel(60)
    Shingler.warm_up()
    if options.linear:
        linear(console)
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
        del row.measured[0]  # warms up
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
