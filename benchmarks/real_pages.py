"""Crawl a folder of real pages, then a second host with the same pages in another template.

    python -m benchmarks.real_pages FOLDER

FOLDER holds ``html/*.html.gz`` and ``index.jsonl`` with ``file`` and ``kind`` of each page. The
first host serves the original bytes without a charset in the header. The second one serves each
page re-encoded, without its navigation, its body in another template. The output is the number of
article pages that yielded a body, every dropped page of the first host and its match, and the
number of pages of the second host that were dropped for their original.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import lxml.html
from rich.console import Console
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from dedup_middleware.text.decode import decode

ROOT = Path(__file__).parent.parent
CHROME_TAGS = "nav header footer aside script style form iframe noscript link meta".split()
CHROME_NAMES = re.compile(
    r"\b(nav|navi|navbar|menu|header|footer|foot|top|topbar|crumb|crumbs|breadcrumb|sidebar|side|"
    r"copyright|login|search|share|ad|ads|advert|banner|related|recommend|hot|rank|comment|"
    r"comments|tools|toolbar)\b",
    re.IGNORECASE,
)
ENCODINGS = ("utf-8", "gb18030", "utf-16")
console = Console(width=120)


@attrs.frozen
class Page:
    """One page of the folder: its file name, its kind, its bytes."""

    name: str
    kind: str
    body: bytes


def load(folder: Path) -> list[Page]:
    """Return the pages in the order of the index."""
    rows = [json.loads(line) for line in (folder / "index.jsonl").open(encoding="utf-8")]
    return [
        Page(row["file"].split("/")[-1].split(".")[0], row["kind"], _bytes(folder, row["file"]))
        for row in rows
    ]


def _bytes(folder: Path, name: str) -> bytes:
    for path in (folder / name, folder / f"{name}.gz", folder / "html" / name):
        if path.exists():
            return gzip.decompress(path.read_bytes())
    return gzip.decompress((folder / "html" / f"{name}.gz").read_bytes())


def redress(page: Page, number: int) -> tuple[bytes, str]:
    """Return the page in another encoding and template, without its navigation."""
    text = decode(page.body).text
    tree = lxml.html.document_fromstring(re.sub(r"^\s*<\?xml[^>]*>", "", text) or "<html/>")
    title = (tree.findtext(".//title") or "").strip()
    body = tree.find("body")
    if body is None:
        body = tree
    for element in list(body.iter()):
        if not isinstance(element.tag, str) or element is body:
            continue
        names = f"{element.get('class', '')} {element.get('id', '')}"
        small = len(element.text_content()) < 0.3 * len(body.text_content())
        if element.tag in CHROME_TAGS or (small and CHROME_NAMES.search(names)):
            element.drop_tree()
    inner = "".join(lxml.html.tostring(child, encoding="unicode") for child in body.iterchildren())
    encoding = ENCODINGS[number % len(ENCODINGS)]
    html = (
        f"<!doctype html><html><head><meta charset='{encoding}'><title>{title}</title></head>"
        "<body><div class='masthead'><a href='/'>镜像站</a> <a href='/'>栏目</a> "
        f"<a href='/'>联系</a></div><main><div class='content'>{inner}</div></main>"
        "<div class='bottom'>本站仅供测试 <a href='/'>返回</a></div></body></html>"
    )
    return html.encode(encoding, "xmlcharrefreplace"), encoding


class Host:
    """One of the two hosts, on its own port."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        links = "".join(f"<li><a href='/a/{name}.html'>{name}</a></li>" for name in pages)
        index = f"<html><body><ul>{links}</ul></body></html>".encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.removeprefix("/a/").removesuffix(".html")
                body = index if self.path == "/" else pages.get(name)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class Recorder:
    """A Scrapy extension that writes the result for each item to the file in ``RECORD``."""

    def __init__(self, crawler: Crawler) -> None:
        self._file = Path(crawler.settings["RECORD"]).open("a", encoding="utf-8")  # noqa: SIM115
        crawler.signals.connect(self._scraped, signals.item_scraped)
        crawler.signals.connect(self._dropped, signals.item_dropped)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Recorder:
        """Create the extension; called by Scrapy."""
        return cls(crawler)

    def _scraped(self, item: Any, response: Any) -> None:
        self._write(url=response.url, stored=True, chars=len(item.text or ""), title=item.title)

    def _dropped(self, item: Any, response: Any, exception: DropItem) -> None:
        verdict = getattr(exception, "verdict", None)
        match = getattr(verdict, "match", None)
        self._write(
            url=response.url,
            stored=False,
            chars=len(item.text or ""),
            title=item.title,
            reason=getattr(verdict, "reason", str(exception)),
            match=getattr(match, "key", None),
            similarity=getattr(match, "similarity", None),
        )

    def _closed(self) -> None:
        self._file.close()

    def _write(self, **row: Any) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")


def crawl(url: str, out: Path) -> dict[str, dict[str, Any]]:
    """Crawl a host with the index in ``out``; return the result for each page by its name."""
    record = out / f"{url.rsplit(':', 1)[1].strip('/')}.jsonl"
    record.touch()
    subprocess.run(
        [
            *(sys.executable, "-m", "scrapy", "crawl", "news", "-a", f"start={url}"),
            *("-s", "AUTOTHROTTLE_ENABLED=0", "-s", "LOG_LEVEL=WARNING"),
            *("-s", f"DEDUP_INDEX_URL=sqlite:{out / 'index.db'}", "-s", f"RECORD={record}"),
            *("-s", 'EXTENSIONS={"benchmarks.real_pages.Recorder": 0}'),
        ],
        cwd=ROOT,
        env={**os.environ, "NEWS_DIR": str(out)},
        check=True,
    )
    rows = [json.loads(line) for line in record.open(encoding="utf-8")]
    return {_name(row["url"]): row for row in rows}


def _name(url: str) -> str:
    return url.rsplit("/", 1)[1].removesuffix(".html")


def main() -> int:
    """Run both crawls and print their results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    pages = load(parser.parse_args().folder)
    first = Host({page.name: page.body for page in pages})
    second = Host({page.name: redress(page, n)[0] for n, page in enumerate(pages)})
    with tempfile.TemporaryDirectory() as name:
        originals = crawl(first.url, Path(name))
        copies = crawl(second.url, Path(name))
    first.stop()
    second.stop()
    report(pages, originals, copies)
    return 0


def report(pages: list[Page], originals: dict[str, Any], copies: dict[str, Any]) -> None:
    """Print the figures, and pages without a body, dropped, or not dropped for their original."""
    kinds = {page.name: page.kind for page in pages}
    articles = [name for name, kind in kinds.items() if "list" not in kind and "forum" not in kind]
    bodies = [name for name in articles if originals.get(name, {}).get("chars", 0) > 0]
    console.print(f"article pages: {len(articles)}, with a body: {len(bodies)}")
    for name in sorted(set(articles) - set(bodies)):
        console.print(f"  no body: {name} ({'not yielded' if name not in originals else 'empty'})")
    console.print("dropped on the first host:")
    for name, row in originals.items():
        if not row["stored"]:
            console.print(f"  {name} {row['title']!r} is {row['reason']} of {row['match']}")
    known = [n for n in articles if n in originals and originals[n]["chars"] > 0 and n in copies]
    right = [n for n in known if _matches(originals, copies, n)]
    console.print(
        f"second host: {len(copies)} items, {len(known)} articles with a body on the first host, "
        f"{len(right)} dropped naming their original ({len(right) / max(1, len(known)):.1%})"
    )
    for name in sorted(set(known) - set(right)):
        row = copies[name]
        console.print(
            f"  {name}: stored={row['stored']} match={row.get('match')} "
            f"chars {originals[name]['chars']} -> {row['chars']}"
        )
    wrong = [n for n in copies if not copies[n]["stored"] and not _matches(originals, copies, n)]
    console.print(f"dropped on the second host against another page: {len(wrong)} {wrong}")


def _matches(originals: dict[str, Any], copies: dict[str, Any], name: str) -> bool:
    """Whether the copy was dropped for its original, or for the match of that."""
    row = copies[name]
    if row["stored"] or row.get("match") is None:
        return False
    original = originals.get(name)
    names = {name} if original is None or original["stored"] else {name, _name(original["match"])}
    return _name(row["match"]) in names


if __name__ == "__main__":
    sys.exit(main())
