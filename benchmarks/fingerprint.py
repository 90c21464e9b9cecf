"""From text and from HTML to fingerprint and verdict against chains of peers, in one run.

Usage: ``python -m benchmarks.fingerprint [--pages DIR] [--corpus FILE.jsonl.gz] [--rounds N]``

Peers come from PyPI: ``pip install datasketch jieba rensa rich rjieba trafilatura``. Chinese text
is drawn from jieba's dictionary by frequency, or cut from a corpus; English text is drawn from
the words below. ``--pages`` names a folder of pages (``*.html`` or ``*.html.gz``, one a story),
which are fed to an empty index in memory, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import random
import re
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import rensa  # type: ignore[import-untyped]
import rjieba
import trafilatura
from datasketch import MinHash, MinHashLSH
from rich.console import Console
from rich.table import Table

from benchmarks.signature import Candidate, Job, machine, measure, rows
from benchmarks.text import LENGTH, corpus, synthetic
from dedup_middleware import Deduplicator, Document, Fingerprinter, Options
from dedup_middleware.signature.text import TextSigner
from dedup_middleware.text import relevant
from dedup_middleware.text.shingle import Shingler

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba

PAGES = 100
WORDS = 1000
PERMUTATIONS = 128
WIDTH = 3
LSH_THRESHOLD = 0.8
_STEMS = (
    "crawl page store index word verdict figure report house street market river station".split()
)
_ENDS = ("", "s", "ed", "ing", "er", "ly", "less", "ness", "'s")
_SMALL = "the of and to in a is that for it with as was on be by this are from at".split()


def english(words: int, seed: int) -> str:
    """Generate sentences of short words and words that never occurred before."""
    draw = random.Random(seed)
    found = []
    for place in range(words):
        small = draw.random() < 0.45
        word = draw.choice(_SMALL) if small else draw.choice(_STEMS) + draw.choice(_ENDS)
        if not small and draw.random() < 0.5:
            word += str(draw.randrange(1000)) if draw.random() < 0.05 else draw.choice(_STEMS)
        found.append(word.capitalize() + "." if place % 17 == 16 else word)
    return " ".join(found)


def shingled(tokens: list[str]) -> list[str]:
    """Return shingles as the peers' users make them."""
    return [" ".join(tokens[i : i + WIDTH]) for i in range(max(1, len(tokens) - WIDTH + 1))]


def by_rensa(tokens: list[str]) -> object:
    """MinHash by rensa."""
    minhash = rensa.RMinHash(PERMUTATIONS, 1)
    minhash.update(shingled(tokens))
    return minhash.digest()


def by_datasketch(tokens: list[str]) -> MinHash:
    """MinHash by datasketch, all shingles in one batch."""
    minhash = MinHash(PERMUTATIONS, scheme="affine32")
    minhash.update_batch([shingle.encode() for shingle in shingled(tokens)])
    return minhash


def over(pages: list[str], action: Callable[[str], object]) -> Callable[[], None]:
    """Apply an action to all pages in turn, so that caches do not help."""

    def run() -> None:
        for page in pages:
            action(page)

    return run


def text_jobs(chinese: list[str], letters: list[str]) -> Iterator[Job]:
    """Yield jobs from text to MinHash and fingerprint; peers keep stop words and lack SimHash."""
    fingerprinter = Fingerprinter(Options())
    signer = TextSigner(Shingler(), PERMUTATIONS)

    def whole(page: str) -> None:
        fingerprinter(Document(key="https://one.example/1", text=page))

    def in_lines(pages: list[str], kind: str, lines: Callable[[str], list[str]]) -> Candidate:
        lined = [
            "\n".join((*lines(page), f"（责任编辑：王{chr(0x5000 + number)}）"))
            for number, page in enumerate(pages)
        ]
        work = over(lined, whole)

        def run() -> None:
            relevant._kind_of.cache_clear()  # of pages in a crawl most lines are new
            work()

        return Candidate(f"the same in {kind}, and an editor's line", run, len(pages))

    def read(page: str) -> None:
        _ = fingerprinter(Document(key="https://one.example/1", text=page)).sketch

    count = len(chinese)
    yield Job(
        f"{LENGTH:,} Chinese characters to the whole fingerprint",
        Candidate("Fingerprinter, minima not read", over(chinese, whole), count, at_most=40),
        (
            in_lines(chinese, "paragraphs", re.compile("(?s:.{80,}?。|.+)").findall),
            Candidate("512 minima and sketch read", over(chinese, read), count),
            Candidate(
                "rjieba, rensa: MinHash 128 alone",
                over(chinese, lambda page: by_rensa(rjieba.cut(page, False))),
                count,
            ),
        ),
    )
    name = "TextSigner: sketch, bands and figures too"
    yield Job(
        f"{LENGTH:,} Chinese characters to MinHash 128 + SimHash",
        Candidate(name, over(chinese, signer), count),
        (
            Candidate(
                "rjieba, rensa: no SimHash",
                over(chinese, lambda page: by_rensa(rjieba.cut(page, False))),
                count,
                4,
            ),
            Candidate(
                "jieba, datasketch: no SimHash",
                over(chinese[:10], lambda page: by_datasketch(jieba.lcut(page, HMM=False))),
                10,
                40,
            ),
        ),
    )
    count = len(letters)
    yield Job(
        f"{WORDS:,} English words to MinHash 128 + SimHash",
        Candidate(name, over(letters, signer), count),
        (
            Candidate(
                "str.split, rensa: no SimHash",
                over(letters, lambda page: by_rensa(page.split())),
                count,
                2.5,
            ),
            Candidate(
                "str.split, datasketch: no SimHash",
                over(letters, lambda page: by_datasketch(page.split())),
                count,
                15,
            ),
            Candidate("Fingerprinter, minima not read", over(letters, whole), count),
            in_lines(letters, "lines of 70", textwrap.wrap),
        ),
    )


def threads_job(pages: list[str]) -> Job:
    """Compare one thread with two that each do half of the work."""
    fingerprinter = Fingerprinter(Options())
    documents = [Document(key="https://one.example/1", text=page * 10) for page in pages]

    def work(part: list[Document]) -> None:
        for document in part:
            fingerprinter(document)

    def two() -> None:
        half = len(documents) // 2
        other = threading.Thread(target=work, args=(documents[:half],))
        other.start()
        work(documents[half:])
        other.join()

    def one() -> None:
        work(documents)

    wall = time.perf_counter
    return Job(
        f"fingerprints of {10 * LENGTH:,} characters, {os.cpu_count()} cores",
        Candidate("two threads", two, len(documents), clock=wall),
        (Candidate("one thread", one, len(documents), 1.8, clock=wall),),
    )


def html_job(pages: list[bytes]) -> Job:
    """Decide HTML pages one after the other, with an index that is empty at first."""

    async def decided(dedup: Deduplicator, numbers: range) -> None:
        for number in numbers:
            page = pages[number % len(pages)]
            verdict = await dedup.decide(Document(key=f"https://one.example/{number}", html=page))
            await dedup.commit(verdict)

    def ours() -> None:
        async def run() -> None:
            async with Deduplicator(Options()) as dedup:
                await decided(dedup, range(len(pages)))

        asyncio.run(run())

    def theirs() -> None:
        index = MinHashLSH(threshold=LSH_THRESHOLD, num_perm=PERMUTATIONS)
        for number, page in enumerate(pages):
            text = trafilatura.extract(page, include_comments=False) or ""
            minhash = by_datasketch(jieba.lcut(text, HMM=False))
            if not index.query(minhash):
                index.insert(str(number), minhash)

    return Job(
        f"HTML to verdict, memory index, mean of {len(pages)} pages",
        Candidate("Deduplicator.decide and commit", ours, len(pages)),
        (Candidate("trafilatura, jieba, datasketch MinHashLSH", theirs, len(pages), 5),),
    )


def read_pages(folder: Path) -> list[bytes]:
    """Return the pages of a folder by name, decompressed."""
    found = []
    for path in sorted(folder.rglob("*.html*")):
        data = path.read_bytes()
        found.append(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def main() -> None:
    """Run all jobs and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=Path, help="folder of pages, *.html or *.html.gz")
    parser.add_argument("--corpus", type=Path, help="gzipped JSON Lines with a field `text`")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2: a spread needs two values")
    os.environ["RAYON_NUM_THREADS"] = "1"
    jieba.setLogLevel(60)
    size = LENGTH * PAGES
    text = corpus(arguments.corpus, size) if arguments.corpus else synthetic(size)
    chinese = [text[i : i + LENGTH] for i in range(0, len(text), LENGTH)]
    letters = [english(WORDS, seed) for seed in range(PAGES)]
    Shingler()("一个页面的正文 and its words")
    console = Console()
    console.print(machine())
    table = Table(caption="ratio: time of the line / time of the first line of its job")
    for title in ("job", "candidate", "us", "quartiles", "ratio (quartiles)", "target", ""):
        table.add_column(title)
    jobs = [*text_jobs(chinese, letters), threads_job(chinese[:40])]
    found = [(job, measure(job, arguments.rounds)) for job in jobs]
    if arguments.pages:
        pages = read_pages(arguments.pages)
        if not pages:
            parser.error(f"--pages {arguments.pages}: no *.html or *.html.gz in it; name a folder")
        job = html_job(pages)
        found.append((job, measure(job, min(arguments.rounds, 3))))
    for job, times in found:
        for row in rows(job, times):
            table.add_row(*row)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
