"""``scrapy crawl news`` with and without the plugin: throughput by wall-clock and by CPU time.

Run ``python -m benchmarks.crawl --rounds 5``. A server in its own process has 2,000 article pages
on loopback, listed in a news sitemap: about 45 kB of HTML each, with menus, teasers, scripts and
styles, and 12 to 40 sentences of body text; a share ``--copies`` are light edits of earlier ones.
The crawl reads its pages as usual (decoding, metadata, links, extraction) and stores them in SQLite
and a feed, without delays; the plugin has its default settings and an index in a file. Both crawls
alternate, each in a new process with new files.

Throughput is article pages per second from the first request to the end of the crawl, and per CPU
second of the whole process. Ratios are between the two crawls of a round. ``--cold`` adds crawls of
20 pages: with an empty cache of compiled kernels, with a full one, and without the plugin.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.memory import run
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.evaluation.stream import COPIES
from research.madeup import documents

_SETTINGS = {
    "AUTOTHROTTLE_ENABLED": "False",
    "DOWNLOAD_DELAY": "0",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "16",
    "LOG_LEVEL": "INFO",
}
_FEW = 20  # pages of a crawl that only measures the start
_LINKS = 60  # links each in the menu and the teasers
_STAT = re.compile(r"'([\w/]+)': ([\d.]+)")


def articles(count: int, copies: float, seed: int = 7) -> Iterator[tuple[str, str]]:
    """Yield titles and texts; a share of them are edits of earlier ones."""
    rng = random.Random(seed)
    texts: list[str] = []
    for number, line in enumerate(documents(count, seed)):
        text = line["text"]
        if texts and rng.random() < copies:
            kind, intensity = COPIES[number % len(COPIES)]
            text = edit(rng.choice(texts), kind, intensity, number)
        else:
            texts.append(text)
        yield line["title"], text


def render(number: int, title: str, text: str, titles: list[str], seed: int = 7) -> bytes:
    """Render a page with the surroundings of an article on a news site."""
    rng = random.Random(seed * 1_000_003 + number)

    def links(name: str) -> str:
        chosen = (rng.randrange(len(titles)) for _ in range(_LINKS))
        return "".join(
            f'<li class="{name}-item"><a class="{name}-link" href="/2026/{n}.html" '
            f'target="_blank"><span>{titles[n]}</span></a></li>'
            for n in chosen
        )

    style = "".join(
        f".block-{n} .item-{n}{{margin:0 {n}px;padding:{n % 9}px;color:#{n * 4099 % 0xFFFFFF:06x}}}"
        for n in range(150)
    )
    script = "".join(f'window.config["slot-{n}"]={{id:{n * 7919},on:true}};' for n in range(150))
    body = "".join(f"<p>{line}</p>\n" for line in text.splitlines())
    return (
        f'<!DOCTYPE html><html lang="zh"><head><meta charset="utf-8"><title>{title}_新闻</title>'
        f'<meta property="og:type" content="article"><meta property="og:title" content="{title}">'
        f"<style>{style}</style><script>{script}</script></head><body>"
        f'<div class="header"><ul class="nav">{links("nav")}</ul></div>'
        f'<div class="main"><div class="article"><h1>{title}</h1>'
        f'<div class="info">2026-05-{number % 28 + 1:02} 08:00 来源：本站</div>'
        f'<div class="content">{body}</div></div>'
        f'<div class="sidebar"><h3>热门</h3><ul>{links("hot")}</ul></div></div>'
        f'<div class="footer"><p>关于我们 联系方式 版权声明</p></div>'
        f"<script>{script}</script></body></html>"
    ).encode()


def serve(count: int, copies: float) -> None:
    """Serve the pages and print the address, until standard input is closed."""
    made = list(articles(count, copies))
    titles = [title for title, _ in made]
    pages = {
        f"/2026/{n}.html": render(n, title, text, titles) for n, (title, text) in enumerate(made)
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            kind = "text/html; charset=utf-8" if self.path.endswith(".html") else "text/plain"
            self.send_header("Content-Type", "application/xml" if "xml" in self.path else kind)
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    entries = "".join(
        f"<url><loc>{address}{path}</loc><news:news><news:title>{path}</news:title></news:news></url>"
        for path in pages
    )
    pages["/robots.txt"] = f"User-agent: *\nAllow: /\nSitemap: {address}/news.xml\n".encode()
    pages["/news.xml"] = (
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        f'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">{entries}</urlset>'
    ).encode()
    pages["/"] = pages["/2026/0.html"]
    size = statistics.fmean(len(page) for path, page in pages.items() if path.endswith(".html"))
    print(address, round(size), flush=True)
    server.daemon_threads = True
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


@attrs.frozen
class Crawl:
    """One crawl: article pages, seconds from the first request, CPU seconds of the process."""

    pages: int
    dropped: int
    seconds: float
    cpu: float
    peak: int


def crawl(address: str, *, plugin: bool, pages: int = 0, cache: Path | None = None) -> Crawl:
    """Crawl the pages with a new index.

    :param pages: number of pages, 0: all
    :param cache: folder of compiled kernels instead of the usual one
    :raises SystemExit: the crawl failed
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            **_SETTINGS,
            "DEDUP_ENABLED": str(plugin),
            "DEDUP_INDEX_URL": f"sqlite:{folder / 'index.db'}",
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "news", "-a", f"start={address}/"]
        if pages:
            command += ["-a", f"pages={pages}"]
        for key, value in settings.items():
            command += ["-s", f"{key}={value}"]
        environment = {"NEWS_DIR": name}
        if cache is not None:
            environment["DEDUP_CACHE_DIR"] = str(cache)
        log = folder / "log"
        took = run(command, log, environment=environment)
        stats = dict(_STAT.findall(log.read_text(encoding="utf-8")))
    if took is None or "elapsed_time_seconds" not in stats:
        raise SystemExit("the crawl left no stats")
    stored, dropped = int(stats["item_scraped_count"]), int(stats.get("item_dropped_count", 0))
    seconds = float(stats["elapsed_time_seconds"])
    return Crawl(stored + dropped, dropped, seconds, took.cpu, took.peak)


def spread(values: list[float], digits: int) -> str:
    """Format median, minimum and maximum."""
    return (
        f"{statistics.median(values):,.{digits}f} "
        f"({min(values):,.{digits}f}-{max(values):,.{digits}f})"
    )


def measure(address: str, rounds: int, *, cold: bool) -> tuple[Table, Table]:
    """Alternate both crawls; return a table of them and one of their ratios."""
    table = Table(title="median (least-most)")
    for name in ("crawl", "pages", "dropped", "pages/s", "pages/CPU s", "CPU s", "peak MB"):
        table.add_column(name, justify="left" if name == "crawl" else "right")

    def add(name: str, crawls: list[Crawl]) -> None:
        table.add_row(
            name, f"{crawls[0].pages:,}", f"{crawls[0].dropped:,}",
            spread([one.pages / one.seconds for one in crawls], 1),
            spread([one.pages / one.cpu for one in crawls], 1),
            spread([one.cpu for one in crawls], 1),
            f"{max(one.peak for one in crawls) / 1e6:,.0f}",
        )  # fmt: skip

    if cold:
        with tempfile.TemporaryDirectory() as cache:
            first = crawl(address, plugin=True, pages=_FEW, cache=Path(cache))
        add("with the plugin, nothing compiled", [first])
    crawl(address, plugin=True, pages=_FEW)  # compiles missing kernels
    if cold:
        add("the same, compiled", [crawl(address, plugin=True, pages=_FEW)])
        add("without", [crawl(address, plugin=False, pages=_FEW)])
    made: dict[bool, list[Crawl]] = {True: [], False: []}
    for number in range(rounds):
        for plugin in (number % 2 == 0, number % 2 == 1):
            made[plugin].append(crawl(address, plugin=plugin))
    add("with the plugin", made[True])
    add("without", made[False])
    ratios = Table(title="throughput with the plugin / without: median (least-most)")
    pairs = list(zip(made[True], made[False], strict=True))
    ratios.add_column("by the clock")
    ratios.add_column("by CPU time")
    ratios.add_row(
        spread([(a.pages / a.seconds) / (b.pages / b.seconds) for a, b in pairs], 3),
        spread([(a.pages / a.cpu) / (b.pages / b.cpu) for a, b in pairs], 3),
    )
    return table, ratios


def main() -> None:
    """Serve, crawl, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--copies", type=float, default=0.2, help="share of edited copies")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--serve", action="store_true", help="only serve the pages")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.pages, arguments.copies)
        return
    command = [
        sys.executable, "-m", "benchmarks.crawl", "--serve",
        "--pages", str(arguments.pages), "--copies", str(arguments.copies),
    ]  # fmt: skip
    console = Console(width=110)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address, size = server.stdout.readline().split()
        console.print(f"{arguments.pages:,} pages of {int(size):,} bytes on average")
        for table in measure(address, arguments.rounds, cold=arguments.cold):
            console.print(table)
        server.stdin.close()


if __name__ == "__main__":
    main()
