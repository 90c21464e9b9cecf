"""What an attacker's pages do to honest ones, by setting.

    python -m benchmarks.hostile_pages [FILE ...] [--articles 40] [--digests 37] [--sentences 60]

*Falsified copies*: a page that repeats an article with a falsified part is stored first, then the
article itself. The falsified part is a run of sentences, replaced by those of another article
(``passage``), or single words. *Digest pages*: a page of eight consecutive articles is stored
first, then each of the articles. The tables count the articles dropped for these pages, in the
first case for their own copy: articles of a stream may be copies of each other, and the other
article that a passage comes from may be stored whole with it.

*One more sentence*: an article is stored first, then the same with a sentence of another one. The
table counts those dropped, by the number of words of the sentence without stop words.

*Changed places*: a forecast in words for eight regions is stored first, then the same with the
weather of some regions exchanged. *Scrambled*: all runs of n words of an article, in random order,
are stored first, then the article. In both cases every sequence of three words is stored, but what
the page says is not.

FILEs hold documents, one JSON object per line, as for the evaluation; by default articles are made
up. The hash key is fixed, so every run prints the same.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from dedup_middleware.model.documents import NEW, Document
from tests.texts import article, english

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
READ = ("balanced, the default", "strict", "measure = novelty", "measure = jaccard")
BANDS = (2, 4, 8, 16, 32)
DIGEST = 8  # articles on a page
LENGTHS = (1, 8, 13, 19, 25, 33)  # numbers of words in a sentence, each up to the next
REGIONS = (
    *("northern valleys", "eastern coast", "western islands", "southern plains"),
    *("central highlands", "lake district", "river delta", "border villages"),
)
SKIES = (
    "skies will be mostly clear through the evening",
    "thick cloud will bring steady rain all day",
    "morning fog is going to lift before noon",
    "scattered showers are expected during the afternoon",
    "wet snow may fall above the tree line",
    "thunderstorms are likely to develop after sunset",
)
NIGHTS = (
    "It will feel much warmer than yesterday",
    "Temperatures stay close to the seasonal average",
    "Frost is possible in sheltered hollows",
    "It remains unusually mild for the time of year",
    "Nights will be noticeably cooler again",
)
FORECASTS = 20
CHANGED = (2, 3, 4, 8)  # numbers of regions whose weather is exchanged
RUNS = (3, 4, 5, 8)  # lengths of the word runs that a scrambled page keeps
_SHORTEST = 400  # characters of an article that is read from a file, at least

console = Console(width=110)


def falsified(text: str, other: str, share: float, seed: int) -> str:
    """Return a text in which a passage with this share of its letters comes from another text.

    The passage is of consecutive whole sentences: no other falsification leaves more text intact.
    """
    parts = ["".join(sentence) for sentence in split_sentences(text)]
    wanted = share * len(text)
    behind = np.cumsum([len(part) for part in reversed(parts)])[::-1]  # letters up to the end
    first = random.Random(seed).randrange(max(1, int((behind >= wanted).sum())))
    last, length = first, 0
    while last < len(parts) and length < wanted:
        length += len(parts[last])
        last += 1
    foreign = other[: max(length, 1)]
    return "".join([*parts[:first], foreign, *parts[last:]])


async def dropped(
    options: Options, first: Sequence[str], then: Sequence[str]
) -> list[tuple[int, int]]:
    """Store texts, then decide others. Return the numbers of each of the others that is dropped,
    and of the text that it is dropped for. Those dropped for one of the others are left out."""
    stored = {f"https://attacker.example/{n}": n for n in range(len(first))}
    async with Deduplicator(options) as dedup:
        for key, text in zip(stored, first, strict=True):
            verdict = await dedup.decide(Document(key=key, text=text))
            if verdict.outcome == NEW:
                await dedup.commit(verdict)
        pairs = []
        for n, text in enumerate(then):
            verdict = await dedup.decide(Document(key=f"https://honest{n}.example/", text=text))
            if verdict.outcome == NEW:
                await dedup.commit(verdict)
            elif verdict.match and verdict.match.key in stored:
                pairs.append((n, stored[verdict.match.key]))
        return pairs


def options_of(**settings: Any) -> Options:
    """Return options with a fixed hash key."""
    return Options(index_url="memory:", hash_key="1", **settings)


def print_falsified(articles: Sequence[str]) -> None:
    """Print the table of falsified copies."""
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
                found = asyncio.run(dropped(options_of(**settings), copies, articles))
                cells.append(str(sum(page == copy for page, copy in found)))
        table.add_row(name, *cells)
    console.print(table)


def print_digests(articles: Sequence[str]) -> None:
    """Print the table of digest pages."""
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
            len(asyncio.run(dropped(options_of(bands=bands, measure=measure), digests, some)))
            for measure in ("containment", "jaccard")
        ]
        name = f"{bands}, the default" if bands == Options().band_count else str(bands)
        table.add_row(name, *map(str, counts))
    console.print(table)


def print_sentences(articles: Sequence[str]) -> None:
    """Print the table of articles with one more sentence."""
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


def forecast(weather: Sequence[tuple[str, str]]) -> str:
    """Return a forecast in words for all regions."""
    return " ".join(
        f"In the {region} {sky}. {night}."
        for region, (sky, night) in zip(REGIONS, weather, strict=True)
    )


def changed_places(number: int, seed: int) -> tuple[str, str]:
    """Return a forecast, and the same with the weather of ``number`` regions rotated by one."""
    rng = random.Random(seed)
    pairs = [(sky, night) for sky in SKIES for night in NIGHTS]
    weather = rng.sample(pairs, len(REGIONS))
    moved = list(weather)
    places = rng.sample(range(len(REGIONS)), number)
    for place, source in zip(places, [*places[1:], places[0]], strict=True):
        moved[place] = weather[source]
    return forecast(weather), forecast(moved)


def scrambled(text: str, length: int, seed: int) -> str:
    """Return all runs of ``length`` words of a text, in random order."""
    words = text.split()
    runs = [" ".join(words[i : i + length]) for i in range(len(words) - length + 1)]
    random.Random(seed).shuffle(runs)
    return " ".join(runs)


def print_familiar(count: int) -> None:
    """Print the tables of pages that consist of stored word sequences only."""

    def changed(name: str, number: int) -> int:
        pairs = [changed_places(number, seed) for seed in range(count)]
        options = options_of(**SETTINGS[name])
        return sum(len(asyncio.run(dropped(options, [one], [other]))) for one, other in pairs)

    texts = [english(seed) for seed in range(count)]

    def displaced(name: str, length: int) -> int:
        first = [scrambled(text, length, n) for n, text in enumerate(texts)]
        return len(asyncio.run(dropped(options_of(**SETTINGS[name]), first, texts)))

    title = f"of {count} forecasts, dropped though the weather changed places"
    print_counts(title, {f"of {number} regions": number for number in CHANGED}, changed)
    title = f"of {count} English articles, dropped behind a scrambled one"
    print_counts(title, {f"runs of {length} words": length for length in RUNS}, displaced)


def print_counts(
    title: str, columns: Mapping[str, int], count_of: Callable[[str, int], int]
) -> None:
    """Print a table with a row for each setting.

    :param columns: headings, each with the number that it stands for
    :param count_of: called with the name of the settings and such a number
    """
    table = Table(title=title)
    table.add_column("setting")
    for heading in columns:
        table.add_column(heading, justify="right")
    for name in READ:
        table.add_row(name, *(str(count_of(name, number)) for number in columns.values()))
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
    print_familiar(min(given.articles, FORECASTS))


if __name__ == "__main__":
    main()
