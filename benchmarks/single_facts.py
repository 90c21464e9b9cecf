"""Pages that differ in one fact, and reprints, in sixteen languages.

    python -m benchmarks.single_facts [LANGUAGE ...] [--show] [--held-out]

``benchmarks/facts`` holds generated pages for each language. A *fact* is a word or a numeral of
such a page and a replacement (a weekday, a unit, a town, some and all, rose and fell): a page with
one is stored, then comes the page with the other, and the reverse. A *reprint* is a page with
another site's line before or after it (a date line, a byline, "5 min read"), with another spelling
of a word, or a cut. The table counts unnoticed facts and kept reprints, on short pages and on the
same with five more paragraphs; ``--show`` prints each of them. ``--held-out``
takes the facts of ``benchmarks/facts/held-out``, of which no word was used for the lists.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dedup_middleware import Deduplicator, Document, Options, Verdict

FOLDER = Path(__file__).with_name("facts")
HELD_OUT = FOLDER / "held-out"
TRADITIONAL = "zh-Hant"  # the pages of zh, converted by OpenCC
FACT, REPRINT = "fact", "reprint"
SHORT, LONG = "short", "long"
console = Console(width=120)


@attrs.frozen
class Pair:
    """A stored page and a new one.

    ``kind`` is ``FACT`` or ``REPRINT``, ``length`` ``SHORT`` or ``LONG``; ``what``: the difference.
    """

    kind: str
    length: str
    what: str
    stored: str
    new: str


def languages(*, held_out: bool = False) -> list[str]:
    """Return the languages for which there are pages."""
    folder = HELD_OUT if held_out else FOLDER
    return [*sorted(path.stem for path in folder.glob("*.json")), TRADITIONAL]


def load(language: str, *, held_out: bool = False) -> dict[str, Any]:
    """Return the pages of a language and their changes, as described in the files.

    :param held_out: other pages and facts, with the same lines and paragraphs around them
    :raises ImportError: ``zh-Hant`` without OpenCC
    """
    name = "zh" if language == TRADITIONAL else language
    files = [FOLDER / f"{name}.json", *([HELD_OUT / f"{name}.json"] if held_out else [])]
    found: dict[str, Any] = {}
    for path in files:
        raw = path.read_text(encoding="utf-8")
        if language == TRADITIONAL:
            from opencc import OpenCC

            raw = OpenCC("s2t").convert(raw)
        found |= json.loads(raw)
    return found


def pairs(given: dict[str, Any]) -> Iterator[Pair]:
    """Yield the pairs of a language."""
    pages, paragraphs = given["pages"], given["paragraphs"]

    def versions(page: str) -> dict[str, str]:
        return {SHORT: page, LONG: "\n".join([paragraphs[0], page, *paragraphs[1:]])}

    def changed(old: str, new: str) -> Iterator[tuple[str, str, str]]:
        page = next(text for text in pages.values() if old in text)
        before, after = versions(page), versions(page.replace(old, new, 1))
        yield from ((length, before[length], after[length]) for length in before)

    for name, old, new in given["facts"]:
        for length, one, other in changed(old, new):
            yield Pair(FACT, length, f"{name}: {old} -> {new}", one, other)
            yield Pair(FACT, length, f"{name}: {new} -> {old}", other, one)
    for old, new in given["spellings"]:
        for length, one, other in changed(old, new):
            yield Pair(REPRINT, length, f"{old} -> {new}", one, other)
    for length, page in versions(pages["news"]).items():
        for line in given["before"]:
            yield Pair(REPRINT, length, f"before: {line.strip()}", page, line + page)
        for line in given["behind"]:
            yield Pair(REPRINT, length, f"behind: {line.strip()}", page, page + line)
    whole = "\n".join([pages["news"], *paragraphs])
    for what, page in {
        "without a paragraph": "\n".join([pages["news"], *paragraphs[:2], *paragraphs[3:]]),
        "two paragraphs and the beginning": "\n".join([pages["news"], *paragraphs[:2]]),
        "in capitals": whole.upper(),
        "in one line": whole.replace("\n", " "),
    }.items():
        yield Pair(REPRINT, LONG, what, whole, page)


async def judge(pair: Pair, key: str = "5eed") -> Verdict:
    """Return the verdict on the new page, with this hash key."""
    async with Deduplicator(Options(index_url="memory:", hash_key=key)) as dedup:
        stored = Document(key="https://one.example/1", text=pair.stored)
        await dedup.commit(await dedup.decide(stored))
        return await dedup.decide(Document(key="https://two.example/2", text=pair.new))


def measure(
    given: dict[str, Any], note: Callable[[Pair, Verdict], None]
) -> Counter[tuple[str, str, bool]]:
    """Count the pairs of a language by kind, length, and whether the verdict is wrong.

    :param given: pages from :func:`load`
    :param note: called with each pair whose verdict is wrong
    """
    counts: Counter[tuple[str, str, bool]] = Counter()
    for pair in pairs(given):
        verdict = asyncio.run(judge(pair))
        is_wrong = verdict.is_duplicate == (pair.kind == FACT)
        counts[pair.kind, pair.length, is_wrong] += 1
        if is_wrong:
            note(pair, verdict)
    return counts


def main() -> None:
    """Print a row for each language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", choices=[*languages(), []])
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    table = Table(title="facts that went unnoticed, reprints that were kept")
    columns = [(kind, length) for kind in (FACT, REPRINT) for length in (SHORT, LONG)]
    table.add_column("language")
    for kind, length in columns:
        table.add_column(f"{kind}s, {length}", justify="right")
    sums: Counter[tuple[str, str, bool]] = Counter()
    chosen = given.languages or languages(held_out=given.held_out)
    for language in track(chosen, console=console, transient=True):

        def note(pair: Pair, verdict: Verdict, language: str = language) -> None:
            if given.show:
                console.print(
                    language, pair.kind, pair.length, pair.what, verdict.reason, sep=" | "
                )

        counts = measure(load(language, held_out=given.held_out), note)
        sums += counts
        table.add_row(language, *_cells(counts, columns))
    table.add_section()
    table.add_row("all", *_cells(sums, columns))
    console.print(table)


def _cells(counts: Counter[tuple[str, str, bool]], columns: list[tuple[str, str]]) -> list[str]:
    cells = []
    for column in columns:
        wrong, right = counts[(*column, True)], counts[(*column, False)]
        cells.append(f"{wrong} of {wrong + right}")
    return cells


if __name__ == "__main__":
    main()
