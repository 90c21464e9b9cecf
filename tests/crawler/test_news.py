"""The spider on a small site served on loopback, in processes of its own."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.forks import run

ROOT = Path(__file__).parents[2]

# Crawls, and prints the statistics as JSON in the last line.
RUNNER = """
import json, sys
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings
arguments, overrides = json.loads(sys.argv[1]), json.loads(sys.argv[2])
settings = get_project_settings()
settings.setdict(overrides, priority="cmdline")
process = AsyncCrawlerProcess(settings)
crawler = process.create_crawler("news")
process.crawl(crawler, **arguments)
process.start()
print(json.dumps(crawler.stats.get_stats(), default=str))
"""

# The plugin has tests of its own; here every page counts.
QUICK = {
    "ADDONS": {},
    "AUTOTHROTTLE_ENABLED": False,
    "RETRY_ENABLED": False,
    "NEWS_DB": "news.db",
}

BODY = """<p>The bridge over the river was opened on Monday after two years of work.</p>
<p>It is twelve hundred metres long and carries a tram line beside the road.</p>
<p>Residents of the northern bank had waited for it since the ferry was given up.</p>"""


def html(*links: str, body: str = "", head: str = "") -> tuple[int, str, bytes]:
    """An answer with a page."""
    anchors = "".join(f'<li><a href="{link}">go</a></li>' for link in links)
    page = f"<html><head><title>t</title>{head}</head><body><ul>{anchors}</ul>{body}</body></html>"
    return 200, "text/html; charset=utf-8", page.encode()


def site(other: str) -> dict[str, tuple[int, str, bytes]]:
    """The answers of a small site; ``other`` is the address of another one."""
    news = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
    news_map = f"<urlset {news}><url><loc>/mapped</loc><news:news/></url></urlset>"
    # A robots.txt that allows everything but one folder, with a sitemap index behind it.
    robots = b"User-agent: *\nDisallow: /private/\nSitemap: /sitemap.xml\n"
    return {
        "/robots.txt": (200, "text/plain", robots),
        "/sitemap.xml": (
            200,
            "application/xml",
            b"<sitemapindex><sitemap><loc>/news.xml.gz</loc></sitemap></sitemapindex>",
        ),
        "/news.xml.gz": (200, "application/gzip", gzip.compress(news_map.encode())),
        "/": html(
            "/2024/05/06/bridge.html?utm_source=home",
            "/2024/05/06/bridge.html",
            "/2024/05/06/empty.html",
            "/2024/05/06/gone.html",
            "/2024/05/06/broken.html",
            "/section/",
            "/private/secret.html",
            "/advert",
            "/photo.jpg",
            "/interface",
            "/away",
            other + "/2024/05/06/elsewhere.html",
            head='<link rel="alternate" type="application/rss+xml" href="/feed.xml">',
            body='<a rel="nofollow" href="/paid">paid</a>',
        ),
        "/feed.xml": (
            200,
            "application/rss+xml",
            b"<rss><channel><item><link>/caption</link></item></channel></rss>",
        ),
        "/section/": html("/section/plain", "/"),
        "/section/plain": html("/section/deep", body=BODY),
        "/section/deep": html(body=BODY.replace("bridge", "tunnel")),
        "/caption": html(body="<p>Photo: the bridge at night.</p>"),
        "/mapped": html(body="<p>Photo: the bridge at noon.</p>"),
        "/2024/05/06/bridge.html": html(
            body=BODY,
            head='<link rel="canonical" href="/2024/05/06/bridge.html">'
            '<meta property="og:title" content="Bridge opens"><meta name="author" content="A. W.">',
        ),
        "/2024/05/06/empty.html": html(
            head=f'<link rel="canonical" href="{other}/2024/05/06/elsewhere.html">'
        ),
        "/2024/05/06/broken.html": (500, "text/html", b"error"),
        "/interface": (200, "application/json", b"{}"),
        "/advert": html(),
        "/away": (302, other + "/", b""),
        "/private/secret.html": html(body=BODY),
    }


class Handler(BaseHTTPRequestHandler):
    """Answers from the pages of the server and notes what was asked for."""

    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append(self.path)
        missing = (404, "text/html", b"not here")
        status, kind, body = server.pages.get(self.path.partition("?")[0], missing)
        self.send_response(status)
        self.send_header("Location" if status == 302 else "Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def serve() -> Any:
    """A server of no pages on a free port."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.pages, server.asked = {}, []
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Any, Any]]:
    """The site, and another one on the same host under another port."""
    one, other = serve(), serve()
    one.pages, other.pages = site(other.url), {"/": html()}
    yield one, other
    for server in (one, other):
        server.shutdown()
        server.server_close()


@attrs.frozen
class Crawl:
    """What a crawl left behind."""

    items: dict[str, dict[str, Any]]
    """Items of the feed by the path they were fetched from."""
    rows: list[str]
    """Keys in the database."""
    stats: dict[str, Any]
    output: str
    log: str

    @property
    def skipped(self) -> dict[str, int]:
        """Addresses that were left out, by reason."""
        prefix = "news/skipped/"
        return {k.removeprefix(prefix): v for k, v in self.stats.items() if k.startswith(prefix)}


def crawl(folder: Path, url: str, overrides: dict[str, Any] | None = None, **given: str) -> Crawl:
    """Crawl a site in a process of its own and read what is left."""
    (folder / "scrapy.cfg").write_text((ROOT / "scrapy.cfg").read_text())
    arguments = json.dumps({"start": url + "/"} | given)
    done = run(
        ["-c", RUNNER, arguments, json.dumps(QUICK | (overrides or {}))],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stderr
    output, _, stats = done.stdout.rstrip().rpartition("\n")
    feed = folder / "news.jsonl"
    lines = feed.read_text(encoding="utf-8").splitlines() if feed.exists() else []
    items = {item["source_url"].removeprefix(url): item for item in map(json.loads, lines)}
    connection = sqlite3.connect(folder / "news.db")
    rows = [row[0] for row in connection.execute("SELECT url FROM articles ORDER BY url")]
    connection.close()
    return Crawl(items, rows, json.loads(stats), output, done.stderr)


@pytest.fixture(scope="module")
def whole(servers: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """A crawl of the whole site."""
    return crawl(tmp_path_factory.mktemp("whole"), servers[0].url)


def test_articles_are_found_by_links_feed_and_sitemap(whole: Crawl) -> None:
    """Every article is yielded, short and empty ones that are listed as articles included."""
    assert set(whole.items) == {
        "/2024/05/06/bridge.html",
        "/2024/05/06/bridge.html?utm_source=home",
        "/2024/05/06/empty.html",
        "/section/plain",
        "/section/deep",
        "/caption",
        "/mapped",
    }


def test_what_was_skipped_is_counted_with_the_reason(whole: Crawl) -> None:
    """Every address that gave no article counts under one reason, and the table shows it."""
    assert whole.skipped == {
        "offsite": 2,  # a link and a redirect to the other port
        "robots": 1,
        "nofollow": 1,
        "not-html": 2,  # by its ending, and by its type
        "error": 2,  # 404 and 500
        "list-page": 3,  # front page, section, advert
    }
    shown = " ".join(whole.output.split())
    assert "robots: robots.txt forbids it 1" in shown
    assert "list-page: read for its links, no article 3" in shown
    assert "seen 7 stored 7" in shown
    assert "secret.html: robots.txt forbids it" in whole.log
    assert "gone.html: could not be fetched (HTTP 404)" in whole.log
    assert "Traceback" not in whole.log


def test_the_site_is_asked_politely(whole: Crawl, servers: tuple[Any, Any]) -> None:
    """Forbidden pages and other sites are not asked for."""
    assert whole.items
    assert "/private/secret.html" not in servers[0].asked
    assert "/paid" not in servers[0].asked
    assert servers[1].asked == []


def test_items_carry_metadata_and_a_trusted_key(whole: Crawl, servers: tuple[Any, Any]) -> None:
    """A tracking parameter does not make another key; another site's address is not believed."""
    url = servers[0].url
    bridge = whole.items["/2024/05/06/bridge.html?utm_source=home"]
    assert bridge["url"] == f"{url}/2024/05/06/bridge.html"
    assert (bridge["title"], bridge["author"]) == ("Bridge opens", "A. W.")
    assert "opened on Monday" in bridge["text"]
    assert whole.items["/2024/05/06/empty.html"]["url"] == f"{url}/2024/05/06/empty.html"
    assert all("html" not in item for item in whole.items.values())
    # Two addresses of one article are one row.
    assert whole.rows == sorted({item["url"] for item in whole.items.values()})
    assert len(whole.rows) == 6


def test_depth_limits_the_clicks(servers: tuple[Any, Any], tmp_path: Path) -> None:
    """With depth=1 only what the front page, its feed and its sitemap name is fetched."""
    limited = crawl(tmp_path, servers[0].url, depth="1")
    assert "/section/plain" not in limited.items
    assert {"/caption", "/mapped", "/2024/05/06/bridge.html"} <= set(limited.items)
    assert limited.skipped["depth"] == 1


def test_pages_limits_the_articles(servers: tuple[Any, Any], tmp_path: Path) -> None:
    """The crawl ends after so many article pages, and says how many addresses it left."""
    limited = crawl(tmp_path, servers[0].url, pages="2")
    assert len(limited.items) == 2
    assert limited.stats["finish_reason"] == "pages"
    assert limited.skipped["pages"] > 0


def test_it_works_without_a_reactor(servers: tuple[Any, Any], tmp_path: Path, whole: Crawl) -> None:
    """TWISTED_REACTOR_ENABLED=False gives the same items."""
    other = crawl(tmp_path, servers[0].url, {"TWISTED_REACTOR_ENABLED": False})
    assert set(other.items) == set(whole.items)
    assert other.skipped == whole.skipped


def test_a_site_that_is_not_there(tmp_path: Path) -> None:
    """A refused connection is an error that is counted, not a traceback."""
    server = serve()
    server.shutdown()
    server.server_close()
    gone = crawl(tmp_path, server.url)
    assert gone.items == {}
    assert gone.skipped == {"error": 1}


def test_a_start_address_that_leads_away_is_named(servers: tuple[Any, Any], tmp_path: Path) -> None:
    """The user learns to which site the address moved."""
    away = crawl(tmp_path, servers[0].url, start=servers[0].url + "/away")
    assert away.skipped["offsite"] == 1
    assert f"leads to another site, {servers[1].url}/" in away.log


def test_no_page_takes_the_place_of_another(tmp_path: Path) -> None:
    """A page that names another one as canonical, and a page that changes, are stored as well."""
    server = serve()
    path, advert = "/2024/05/06/bridge.html", "/2024/05/06/advert.html"
    head = f'<link rel="canonical" href="{path}">'
    other = (
        "<p>Buy the new umbrella today, and get a second one for half of the price of it.</p>" * 3
    )
    third = (
        "<p>The tunnel below the hill is closed for repairs until the end of the winter.</p>" * 3
    )
    overrides = {"ADDONS": {"dedup_middleware.Addon": 500}, "DEDUP_INDEX_URL": "sqlite:index.db"}
    overrides |= {"CONCURRENT_REQUESTS": 1, "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1}
    try:
        server.pages = {
            "/": html(path, advert),
            path: html(body=BODY, head=head),
            advert: html(body=other, head=head),
        }
        crawl(tmp_path, server.url, overrides)
        server.pages[path] = html(body=third, head=head)
        # What the first page said before, under an address of its own.
        server.pages |= {"/": html(path, "/2024/05/06/copy.html")}
        server.pages["/2024/05/06/copy.html"] = html(body=BODY)
        second = crawl(tmp_path, server.url, overrides)
    finally:
        server.shutdown()
        server.server_close()
    assert "copy.html" not in "".join(second.items)
    with contextlib.closing(sqlite3.connect(tmp_path / "news.db")) as connection:
        texts = connection.execute("SELECT url, text FROM articles ORDER BY version").fetchall()
    assert {url for url, _ in texts} == {server.url + path}
    said = [text.partition("\n")[0] for _, text in texts]
    assert [text[:10] for text in said] == ["The bridge", "Buy the ne", "The tunnel"]


@pytest.mark.parametrize(
    ("arguments", "said", "reason"),
    [
        (["-a", "start=one.example"], "-a start=one.example can't be used", "bad_argument"),
        (["-a", "page=3"], "-a page=3 can't be used", "bad_argument"),
        (["-s", "NEWS_DB=."], "NEWS_DB='.' can't be used", "storage_unavailable"),
    ],
)
def test_what_can_not_be_used_ends_the_crawl_in_order(
    tmp_path: Path, arguments: list[str], said: str, reason: str
) -> None:
    """One line says what is wrong, and the exit code is 1; nothing is fetched, no table, no
    traceback."""
    (tmp_path / "scrapy.cfg").write_text((ROOT / "scrapy.cfg").read_text())
    done = run(
        ["-m", "scrapy", "crawl", "news", *arguments, "-s", "ADDONS={}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert f"({reason})" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
