"""What pages of an attacker do to honest ones, by setting.

    python -m benchmarks.hostile_pages [FILE ...] [--articles 40] [--digests 37] [--sentences 60]

*Falsified copies*: a page that repeats an article and falsifies a part of it is stored first; then
the article itself comes. Falsified are sentences in a row, replaced by such of another article
(``passage``), or single words. *Digest pages*: a page of eight articles, one behind the other, is
stored first; then each of the articles comes. Printed is how many of the articles are dropped.

*One more sentence*: an article is stored first; then the article comes with a sentence of another
one. Printed is how many of them are dropped, by the words of the sentence without stop words.

FILEs hold documents, one JSON object a line, as for the evaluation; without them articles are made
up. The hash key is fixed, so every run prints the same.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.evaluation.corpus import read_documents
from dedup_middleware.evaluation.edits import edit, split_sentences
from dedup_middleware.model.documents import DUPLICATE, NEW, Document
from tests.texts import article

SHARES = (0.05, 0.1, 0.15)
SETTINGS: dict[str, dict[str, Any]] = {
    "strict": {"preset": "strict"},
    "balanced, the default": {},
    "aggressive": {"preset": "aggressive"},
    "measure = novelty": {"measure": "novelty"},
    "measure = jaccard": {"measure": "jaccard"},
    "strict, measure = novelty": {"preset": "strict", "measure": "novelty"},
    "strict, measure = jaccard": {"preset": "strict", "measure": "jaccard"},
    "threshold = 0.95": {"threshold": 0.95},
    "method = simhash": {"method": "simhash"},
    "method = md5": {"method": "md5"},
}
BANDS = (2, 4, 8, 16, 32)
DIGEST = 8  # articles on a page
LENGTHS = (1, 8, 13, 19, 25, 33)  # words of a sentence, from each of them on
_SHORTEST = 400  # characters of an article that is taken from a file

console = Console(width=110)


def falsified(text: str, other: str, share: float, seed: int) -> str:
    """A text in which a passage with this share of its letters is one of another text.

    Whole sentences in a row: of all falsifications this leaves most of the text as it was.
    """
    parts = ["".join(sentence) for sentence in split_sentences(text)]
    wanted = share * len(text)
    behind = np.cumsum([len(part) for part in reversed(parts)])[::-1]  # letters from each one on
    first = random.Random(seed).randrange(max(1, int((behind >= wanted).sum())))
    last, length = first, 0
    while last < len(parts) and length < wanted:
        length += len(parts[last])
        last += 1
    foreign = other[: max(length, 1)]
    return "".join([*parts[:first], foreign, *parts[last:]])


async def dropped(options: Options, first: Sequence[str], then: Sequence[str]) -> int:
    """How many texts are duplicates once others are stored."""
    async with Deduplicator(options) as dedup:
        for n, text in enumerate(first):
            verdict = await dedup.decide(Document(key=f"https://attacker.example/{n}", text=text))
            if verdict.outcome == NEW:
                await dedup.commit(verdict)
        count = 0
        for n, text in enumerate(then):
            verdict = await dedup.decide(Document(key=f"https://honest{n}.example/", text=text))
            count += verdict.outcome == DUPLICATE
            if verdict.outcome == NEW:
                await dedup.commit(verdict)
        return count


def options_of(**settings: Any) -> Options:
    """Options with a fixed key of the hashes."""
    return Options(index_url="memory:", hash_key="1", **settings)


def print_falsified(articles: Sequence[str]) -> None:
    """The table of falsified copies."""
    others = [*articles[1:], articles[0]]
    table = Table(title=f"of {len(articles)} honest articles, dropped behind a copy that falsifies")
    table.add_column("setting")
    ways = {
        "passage": lambda n, share: falsified(articles[n], others[n], share, n),
        "words": lambda n, share: edit(articles[n], "words-changed", share, n),
    }
    for way in ways:
        for share in SHARES:
            table.add_column(f"{share:.0%} {way}", justify="right")
    for name, settings in SETTINGS.items():
        cells = []
        for way in ways.values():
            for share in SHARES:
                copies = [way(n, share) for n in range(len(articles))]
                cells.append(str(asyncio.run(dropped(options_of(**settings), copies, articles))))
        table.add_row(name, *cells)
    console.print(table)


def print_digests(articles: Sequence[str]) -> None:
    """The table of digest pages."""
    some = articles[: len(articles) // DIGEST * DIGEST]
    digests = ["\n".join(some[i : i + DIGEST]) for i in range(0, len(some), DIGEST)]
    table = Table(
        title=f"of {len(some)} articles, dropped behind {len(digests)} pages of {DIGEST} articles"
    )
    table.add_column("DEDUP_BANDS")
    table.add_column("dropped", justify="right")
    table.add_column("dropped, measure = jaccard", justify="right")
    for bands in BANDS:
        counts = [
            asyncio.run(dropped(options_of(bands=bands, measure=measure), digests, some))
            for measure in ("containment", "jaccard")
        ]
        name = f"{bands}, the default" if bands == Options().band_count else str(bands)
        table.add_row(name, *map(str, counts))
    console.print(table)


def print_sentences(articles: Sequence[str]) -> None:
    """The table of articles with one more sentence."""
    fingerprint = Fingerprinter(options_of())
    counts: Counter[tuple[str, int, bool]] = Counter()
    for n, text in enumerate(articles):
        sentences = ["".join(one) for one in split_sentences(text)]
        others = ["".join(one) for one in split_sentences(articles[n - 1])]
        for sentence in random.Random(n).sample(others, min(3, len(others))):
            words = fingerprint(Document(key="https://other.example/", text=sentence)).wording.words
            length = max(least for least in LENGTHS if least <= max(words, LENGTHS[0]))
            places = {"in front": 0, "in the middle": len(sentences) // 2, "behind": len(sentences)}
            for name, place in places.items():
                page = "".join([*sentences[:place], f"{sentence} ", *sentences[place:]])
                found = asyncio.run(dropped(options_of(), [text], [page]))
                counts[name, length, bool(found)] += 1
    table = Table(title="articles with one more sentence that are dropped, by its words")
    table.add_column("the sentence is")
    for length, end in zip(LENGTHS, [*LENGTHS[1:], None], strict=True):
        table.add_column(f"{length} to {end - 1}" if end else f"{length}, more", justify="right")
    for name in ("in front", "in the middle", "behind"):
        cells = [(counts[name, length, True], counts[name, length, False]) for length in LENGTHS]
        table.add_row(name, *(f"{found} of {found + kept}" for found, kept in cells))
    console.print(table)


def _articles(files: Sequence[Path], count: int, sentences: int) -> list[str]:
    if not files:
        return [article(seed, sentences) for seed in range(count)]
    found: list[str] = []
    for source in read_documents(files):
        text = source.document.text or ""
        if len(text) >= _SHORTEST:
            found.append(text)
        if len(found) == count:
            break
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile_pages")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="documents, JSON lines")
    parser.add_argument("--articles", type=int, default=40, help="that are falsified")
    parser.add_argument("--digests", type=int, default=37, help="pages of eight articles")
    parser.add_argument("--sentences", type=int, default=60, help="of an article that is made up")
    given = parser.parse_args(arguments)
    count = max(given.articles, given.digests * DIGEST)
    articles = _articles(given.files, count, given.sentences)
    print_falsified(articles[: given.articles])
    print_digests(articles[: given.digests * DIGEST])
    print_sentences(articles[: given.articles])


if __name__ == "__main__":
    main()
