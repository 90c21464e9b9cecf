"""The page on scrapy-playwright, with a real Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.docblocks import ROOT
from tests.operation.required import package, program
from tests.operation.terminal import shown
from tests.texts import article

SCRIPT = ROOT / "docs" / "examples" / "playwright" / "pages.py"
FRAME = """<html><head><title>News</title></head><body><nav>Home Politics Sport Weather</nav>
<div id=app>The page is being loaded, please wait a moment until it is here.</div>
<script>setTimeout(async () => {{
  const text = await (await fetch("/text/{number}")).text();
  document.title = "Story {number}";
  const app = document.getElementById("app");
  app.innerHTML = `<article><h1>Story {number}</h1><p>${{text}}</p></article>`;
}}, 200)</script></body></html>"""


class Handler(BaseHTTPRequestHandler):
    """Pages that are the same frame before their script has run."""

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2] or 0) if self.path[-1].isdigit() else 0
        text = article(number) if "/text/" in self.path else FRAME.format(number=number)
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextlib.contextmanager
def site() -> Iterator[str]:
    """The address of a site of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def crawl(folder: Path, urls: list[str], script: Path, chromium: str) -> list[str]:
    """Type the command of the page; the addresses of the items that were stored."""
    folder.mkdir()
    (command,) = (one.text for one in shown("playwright.md")[0] if "runspider" in one.text)
    assert command.startswith("CHROMIUM=/usr/bin/chromium scrapy runspider pages.py -a urls=")
    settings = ("DEDUP_INDEX_URL=memory:", "CONCURRENT_REQUESTS=1")
    given = [part for one in settings for part in ("-s", one)]
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", str(script), "-a", f"urls={' '.join(urls)}",
         "-o", "items.jsonl", *given],
        cwd=folder, env={**os.environ, "CHROMIUM": chromium}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    dropped = re.findall(r"'dedup/dropped': (\d+)", done.stderr)
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    assert int(dropped[0]) == len(urls) - len(items)
    return [item["url"] for item in items]


def test_rendered_pages_are_compared(tmp_path: Path) -> None:
    """Each story is stored once, its mirror is dropped; as frames all but one page are dropped."""
    package("scrapy_playwright")
    chromium = chromium_without_sandbox(tmp_path, program("chromium", "chromium-browser"))
    with site() as one, site() as two:
        urls = [f"{host}/{number}" for host in (one, two) for number in (1, 2, 3)]
        stored = crawl(tmp_path / "browser", urls, SCRIPT, chromium)
        assert sorted(url[-1] for url in stored) == ["1", "2", "3"]
        plain = tmp_path / "plain.py"
        code = SCRIPT.read_text(encoding="utf-8")
        plain.write_text(
            code.replace('"playwright": True', '"playwright": False'), encoding="utf-8"
        )
        assert len(crawl(tmp_path / "plain", urls, plain, chromium)) == 1


def chromium_without_sandbox(folder: Path, binary: str) -> str:
    """Chromium as root, as in a container, needs an option that users do not."""
    wrapper = folder / "chromium"
    wrapper.write_text(f'#!/bin/sh\nexec {binary} --no-sandbox "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    return str(wrapper)
