"""Measures how often a report is found in the pages of other sites.

    python -m benchmarks.other_sites FOLDER [--reports 3] [--show]

FOLDER holds ``html/<id>.html.gz`` and ``ground-truth.json`` ({id: {articleBody, url}}), like the
article-extraction-benchmark. A page whose body is in paragraphs becomes the page of another site:
its paragraphs are replaced by those of a report, other text of its own article is removed, and the
rest stays as the site wrote it. The report's text is stored first, then each page comes as HTML.
The output is the number of pages dropped; ``--show`` adds the text lines of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import copy
import gzip
import json
import random
from pathlib import Path

import attrs
import lxml.html
from rich.console import Console
from rich.progress import track

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.text.extract import extract

_LEAST_SHARE, _LEAST_PARAGRAPHS = 0.8, 4  # of the body in paragraphs
_SHORTEST = 40  # characters of a paragraph that is replaced, at least
_REPORT_WORDS = range(250, 700)
_OTHER_TAGS = frozenset(("script", "style", "title", "head", "meta"))
console = Console(width=120)


def plain(text: str) -> str:
    """Collapse white space to single spaces."""
    return " ".join(text.split())


@attrs.frozen
class Site:
    """A page: its tree, its body, the texts of the body's paragraphs, its address."""

    root: lxml.html.HtmlElement
    body: str
    paragraphs: list[str]
    url: str

    def with_report(self, report: list[str]) -> str:
        """Return the page with its paragraphs replaced by those of a report."""
        root = copy.deepcopy(self.root)
        own = set(self.paragraphs)
        places = [p for p in root.iter("p") if plain(p.text_content()) in own]
        for number, place in enumerate(places):
            tail = place.tail
            for child in list(place):
                place.remove(child)
            place.text, place.tail = report[number] if number < len(report) else None, tail
        last = places[min(len(places), len(report)) - 1]
        for paragraph in report[len(places) :]:
            following = copy.deepcopy(last)
            following.text, following.tail = paragraph, None
            last.addnext(following)
            last = following
        filled = set(report)
        for element in root.iter():
            if not isinstance(element.tag, str) or element.tag in _OTHER_TAGS:
                continue
            if element.text not in filled and self._is_own(element.text):
                element.text = " "
            if self._is_own(element.tail):
                element.tail = " "
        for title in root.iter("title"):
            title.text = "A report"
        return str(lxml.html.tostring(root, encoding="unicode"))

    def _is_own(self, text: str | None) -> bool:
        """Whether a text belongs to the page's own article."""
        return text is not None and len(plain(text)) > 3 and plain(text) in self.body


def sites(folder: Path) -> list[Site]:
    """Return the pages whose body is in paragraphs."""
    found = []
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    for name, page in sorted(truth.items()):
        raw = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        root = lxml.html.fromstring(raw, parser=lxml.html.HTMLParser(encoding="utf-8"))
        body = plain(page["articleBody"])
        texts = [plain(p.text_content()) for p in root.iter("p")]
        texts = [text for text in texts if len(text) >= _SHORTEST and text in body]
        enough = sum(map(len, texts)) >= _LEAST_SHARE * len(body)
        if enough and len(texts) >= _LEAST_PARAGRAPHS:
            found.append(Site(root, body, texts, page["url"]))
    return found


async def judge(pages: list[Site], report: list[str], *, show: bool) -> collections.Counter[str]:
    """Count the reasons of the verdicts on pages with the report."""
    reasons: collections.Counter[str] = collections.Counter()
    whole = plain(" ".join(report))
    async with Deduplicator(Options(index_url="memory:", hash_key="1")) as dedup:
        first = Document(key="https://wire.example/", title="A report", text="\n".join(report))
        await dedup.commit(await dedup.decide(first))
        for page in track(pages, console=console, transient=True):
            if page.paragraphs == report:
                continue
            html = page.with_report(report)
            verdict = await dedup.decide(Document(key=page.url, html=html))
            reasons[str(verdict.reason)] += 1
            if verdict.is_duplicate:
                continue
            await dedup.release(verdict)
            if show:
                lines = map(plain, extract(html, url=page.url).text.splitlines())
                others = [line for line in lines if line and line not in whole]
                console.print(page.url, verdict.reason, *others, sep="\n    ", markup=False)
    return reasons


def main() -> None:
    """Print how many pages are dropped, and why the others are kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reports", type=int, default=3)
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    pages = sites(arguments.folder)
    reports = [
        page.paragraphs for page in pages if len(" ".join(page.paragraphs).split()) in _REPORT_WORDS
    ]
    reasons: collections.Counter[str] = collections.Counter()
    for report in random.Random(5).sample(reports, arguments.reports):
        reasons += asyncio.run(judge(pages, report, show=arguments.show))
    dropped, all_pages = reasons["exact-copy"] + reasons["near-duplicate"], reasons.total()
    console.print(
        f"{len(pages)} sites, {arguments.reports} reports: {dropped} of {all_pages} dropped "
        f"({dropped / all_pages:.3f})",
        *(f"{count:5} {reason}" for reason, count in reasons.most_common()),
        sep="\n",
    )


if __name__ == "__main__":
    main()
