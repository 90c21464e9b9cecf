"""Compare extraction libraries with ours: body F1 and mean time per page.

    python -m benchmarks.extraction DATA [--sample N] [--only NAME ...] [--sets NAME ...]

``DATA`` holds four optional folders: ``extraction-en`` (human-labelled article bodies),
``extraction-forum`` (human-labelled main content), ``extraction-multilingual`` (snippets that must
and must not appear) and ``pages-zh`` (raw Chinese pages without labels). Libraries that are not
installed are left out. Every page is decoded once by ``decode`` before the time is measured.

The line below each table gives the number of pages that are passed to lexbor's HTML5 parser rather
than read without one, how many of them have the same text as its tree of the whole page, and what
trimming, parsing and serialising cost.

F1 follows scrapinghub/article-extraction-benchmark: shingles of four tokens, counts normalised per
page, F1 of mean precision and mean recall. A token is a word or one Chinese character.
"""

import argparse
import gzip
import json
import logging
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.text.decode import decode
from dedup_middleware.text.extract import Mode

Extractor = Callable[[str], str]
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_SIZE = 4


@attrs.frozen
class Sample:
    """A page of a data set: its HTML and what is known about it."""

    name: str
    html: str
    truth: str = ""
    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    group: str = ""


def load(data: Path, name: str) -> Iterator[Sample]:
    """Yield the pages of one of the four data sets."""
    folder = data / name

    def page(file: str) -> str:
        return decode(gzip.decompress((folder / "html" / file).read_bytes())).text

    if name == "extraction-en":
        truth = json.loads((folder / "ground-truth.json").read_text("utf-8"))
        for key, row in truth.items():
            yield Sample(key, page(f"{key}.html.gz"), truth=row["articleBody"])
    elif name == "pages-zh":
        for line in (folder / "index.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["kind"] == "article":
                yield Sample(row["file"], page(row["file"] + ".gz"), group=row["site"])
    else:
        lines = gzip.decompress((folder / "ground-truth.jsonl.gz").read_bytes()).decode("utf-8")
        for line in lines.splitlines():
            row = json.loads(line)
            if name == "extraction-forum":
                yield Sample(row["id"], page(f"{row['id']}.html.gz"), truth=row["text"])
            else:
                yield Sample(
                    row["file"],
                    page(row["file"] + ".gz"),
                    wanted=tuple(row["with"]),
                    unwanted=tuple(row["without"]),
                )


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Count the shingles of four tokens; a shorter text is one shingle."""
    tokens = _TOKEN.findall(text)
    count = max(1, len(tokens) - _SIZE + 1)
    return Counter(tuple(tokens[i : i + _SIZE]) for i in range(count)) if tokens else Counter()


def precision_recall(truth: str, found: str) -> tuple[float, float]:
    """Return precision and recall of one page, as the article extraction benchmark defines them."""
    expected, got = shingles(truth), shingles(found)
    hits = sum((expected & got).values())
    wrong, missed = sum(got.values()) - hits, sum(expected.values()) - hits
    if wrong == missed == 0:
        return 1.0, 1.0
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    return precision, hits / (hits + missed) if hits + missed else 0.0


def f1(precision: float, recall: float) -> float:
    """Harmonic mean."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def score_bodies(samples: list[Sample], found: list[str]) -> dict[str, float]:
    """Return F1 of mean precision and mean recall over pages with a known body."""
    pairs = [precision_recall(s.truth, text) for s, text in zip(samples, found, strict=True)]
    precision = statistics.fmean(pair[0] for pair in pairs)
    recall = statistics.fmean(pair[1] for pair in pairs)
    return {"P": precision, "R": recall, "F1": f1(precision, recall)}


def score_snippets(samples: list[Sample], found: list[str]) -> dict[str, float]:
    """Return F1 and accuracy over snippets that must and must not appear."""
    hit = miss = false = right = 0
    for sample, text in zip(samples, found, strict=True):
        flat = " ".join(text.split())
        present = sum(" ".join(s.split()) in flat for s in sample.wanted)
        leaked = sum(" ".join(s.split()) in flat for s in sample.unwanted)
        hit, miss = hit + present, miss + len(sample.wanted) - present
        false, right = false + leaked, right + len(sample.unwanted) - leaked
    precision, recall = hit / max(1, hit + false), hit / max(1, hit + miss)
    accuracy = (hit + right) / max(1, hit + miss + false + right)
    return {"P": precision, "R": recall, "F1": f1(precision, recall), "acc": accuracy}


def score_blind(samples: list[Sample], found: list[str]) -> dict[str, float]:
    """Return the number of pages with a body, the share of their text that other pages have too,
    and the median length, for pages without labels."""
    seen: dict[str, Counter[str]] = {}
    for sample, text in zip(samples, found, strict=True):
        seen.setdefault(sample.group, Counter()).update({line.strip() for line in text.split("\n")})
    chrome, lengths = [], []
    for sample, text in zip(samples, found, strict=True):
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        total = sum(map(len, lines))
        repeated = sum(len(line) for line in lines if seen[sample.group][line] > 1)
        lengths.append(len("".join(re.findall(r"[\u4e00-\u9fff]", text))))
        if total:
            chrome.append(repeated / total)
    return {
        "bodies": float(sum(length >= 30 for length in lengths)),
        "repeated": statistics.fmean(chrome) if chrome else 0.0,
        "median": float(statistics.median(lengths)),
    }


SCORES: Mapping[str, Callable[[list[Sample], list[str]], dict[str, float]]] = {
    "extraction-en": score_bodies,
    "extraction-forum": score_bodies,
    "extraction-multilingual": score_snippets,
    "pages-zh": score_blind,
}


def _trafilatura(**options: Any) -> Extractor:
    import trafilatura

    return lambda html: trafilatura.extract(html, **options) or ""


def _trafilatura_baseline() -> Extractor:
    from trafilatura import baseline

    return lambda html: str(baseline(html)[1])


def _resiliparse(**options: Any) -> Extractor:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda html: str(extract_plain_text(html, main_content=True, **options))


def _readability() -> Extractor:
    from lxml.html import fromstring
    from readability import Document

    def run(html: str) -> str:
        node = fromstring(Document(html).summary(html_partial=True))
        # Text of adjacent blocks must not be joined.
        return "\n".join(str(text) for text in node.itertext())

    return run


def _justext(language: str) -> Extractor:
    import justext

    words = justext.get_stoplist(language) if language else frozenset[str]()
    low, high = (0.30, 0.32) if language else (0.0, 0.0)

    def run(html: str) -> str:
        paragraphs = justext.justext(html, words, stopwords_low=low, stopwords_high=high)
        return "\n".join(p.text for p in paragraphs if not p.is_boilerplate)

    return run


def _newspaper() -> Extractor:
    import newspaper

    def run(html: str) -> str:
        article = newspaper.Article("http://localhost/", fetch_images=False)
        article.download(input_html=html)
        article.parse()
        return str(article.text)

    return run


def _boilerpy() -> Extractor:
    from boilerpy3.extractors import ArticleExtractor

    return lambda html: str(ArticleExtractor().get_content(html))


def _gne() -> Extractor:
    from gne import GeneralNewsExtractor

    return lambda html: str(GeneralNewsExtractor().extract(html).get("content", ""))


def _magic() -> Extractor:
    from lxml.html import fromstring
    from magic_html import GeneralExtractor

    def run(html: str) -> str:
        found = GeneralExtractor().extract(html, base_url="http://localhost/")
        return "\n".join(str(text) for text in fromstring(found["html"]).itertext())

    return run


def _ours(mode: Mode) -> Extractor:
    from dedup_middleware.text.extract import extract

    return lambda html: extract(html, extractor=mode).text


def extractors() -> dict[str, Extractor]:
    """Return every extractor whose library is installed, by its name in the table."""
    plain = {"include_comments": False}
    rows: list[tuple[str, str, Callable[[], Extractor]]] = [
        ("ours, balanced", "trafilatura", lambda: _ours("balanced")),
        ("ours, fast", "trafilatura", lambda: _ours("fast")),
        ("ours, best", "trafilatura", lambda: _ours("best")),
        ("trafilatura", "trafilatura", _trafilatura),
        ("trafilatura no comments", "trafilatura", lambda: _trafilatura(**plain)),
        ("trafilatura fast", "trafilatura", lambda: _trafilatura(fast=True, **plain)),
        (
            "trafilatura precision",
            "trafilatura",
            lambda: _trafilatura(favor_precision=True, **plain),
        ),
        ("trafilatura recall", "trafilatura", lambda: _trafilatura(favor_recall=True, **plain)),
        ("trafilatura baseline", "trafilatura", _trafilatura_baseline),
        ("readability-lxml", "readability", _readability),
        ("resiliparse", "resiliparse", _resiliparse),
        ("resiliparse no comments", "resiliparse", lambda: _resiliparse(comments=False)),
        ("magic-html", "magic_html", _magic),
        ("justext English", "justext", lambda: _justext("English")),
        ("justext no stop words", "justext", lambda: _justext("")),
        ("newspaper4k", "newspaper", _newspaper),
        ("boilerpy3", "boilerpy3", _boilerpy),
        ("gne", "gne", _gne),
    ]
    return {name: build() for name, module, build in rows if find_spec(module) is not None}


def run(extractor: Extractor, samples: list[Sample]) -> tuple[list[str], float, int]:
    """Return texts, mean milliseconds per page, and pages on which the library raised."""
    found, spent, failed = [], 0.0, 0
    for sample in samples:
        start = time.thread_time()
        try:
            text = extractor(sample.html)
        except Exception:
            text, failed = "", failed + 1
        spent += time.thread_time() - start
        found.append(text)
    return found, spent * 1000 / max(1, len(samples)), failed


def parser_use(samples: list[Sample]) -> str:
    """Describe how many pages are parsed, and whether the parts trimmed before affect the text."""
    import numpy as np
    from resiliparse.parse.html import HTMLTree

    from dedup_middleware.text.extract import cleaned
    from dedup_middleware.text.extraction import blocks, trim

    shown, same, spent, whole = 0, 0, 0.0, 0.0
    for sample in samples:
        html, data = cleaned(sample.html)
        start = time.thread_time()
        verdict, rest, *_ = trim.trimmed(np.frombuffer(data, np.uint8))
        if verdict != trim.FINE or blocks.well_formed(rest.tobytes()) is None:
            continue
        spent += time.thread_time() - start
        start = time.thread_time()
        written = str(HTMLTree.parse(html)).encode()
        whole += time.thread_time() - start
        ours, theirs = (
            [(block.text, block.tag) for block in page.blocks]
            for page in (blocks.read(data), blocks.read_directly(written))
        )
        shown, same = shown + 1, same + (ours == theirs)
    return (
        f"{shown} of {len(samples)} pages are shown to the parser, {same} of these have the text "
        f"of the whole page's tree; {spent * 1000 / max(1, shown):.2f} ms a page, "
        f"the whole page {whole * 1000 / max(1, shown):.2f}"
    )


def main() -> None:
    """Print a Markdown table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data", type=Path, help="folder that holds the data sets")
    parser.add_argument("--sample", type=int, default=0, help="pages a set, spread evenly (0: all)")
    parser.add_argument(
        "--only", nargs="*", default=[], help="names of extractors, as in the table"
    )
    parser.add_argument("--sets", nargs="*", default=list(SCORES), help="names of data sets")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    chosen = {n: e for n, e in extractors().items() if not options.only or n in options.only}
    for name in options.sets:
        if not (options.data / name).is_dir():
            print(f"{name}: not in {options.data}, left out")
            continue
        samples = list(load(options.data, name))
        if options.sample:
            samples = samples[:: max(1, len(samples) // options.sample)]
        print(f"\n### {name}, {len(samples)} pages\n", flush=True)
        for position, (label, extractor) in enumerate(chosen.items()):
            extractor(samples[0].html) if label.startswith(("ours", "trafilatura")) else None
            found, milliseconds, failed = run(extractor, samples)
            scores = SCORES[name](samples, found)
            if position == 0:
                print("| extractor | " + " | ".join(scores) + " | ms a page | raised |")
                print("|---" * (len(scores) + 3) + "|")
            cells = [f"{v:.0f}" if v > 1.5 else f"{v:.3f}" for v in scores.values()]
            print(f"| {label} | {' | '.join(cells)} | {milliseconds:.2f} | {failed} |", flush=True)
        print(f"\n{parser_use(samples)}", flush=True)


if __name__ == "__main__":
    main()
