"""The archive of docs/warc.md: a record for each page that was fetched, and none that misleads."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest
from warcio.archiveiterator import ArchiveIterator

from dedup_middleware.tools.files.rows import read_warc
from tests.mirrors import CHROME
from tests.texts import article

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


def page(number: int, template: int) -> bytes:
    """A page of an article in one of the templates."""
    before, after = CHROME[template]
    html = f"<html><head><title>{number}</title></head><body>{before}<article><p>{article(number)}"
    return f"{html}</p></article>{after}</body></html>".encode()


PAGES = {
    "/original": page(1, 0),
    "/same-bytes": page(1, 0),
    "/other-template": page(1, 1),
    "/other": page(2, 0),
}


class Handler(BaseHTTPRequestHandler):
    """Serves the pages."""

    def do_GET(self) -> None:
        body = PAGES.get(self.path, b"")
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Path", self.path)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@attrs.frozen
class Record:
    """A record of the file: its fields, its HTTP headers and what follows them."""

    fields: dict[str, str]
    http: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The address without its host."""
        return re.sub(r"^http://[^/]+", "", self.fields["WARC-Target-URI"])


@attrs.frozen
class Archive:
    """A folder with the files of the page, after crawls."""

    folder: Path
    site: str
    logs: list[str]

    @property
    def file(self) -> Path:
        """The WARC file."""
        return self.folder / "pages.warc.gz"

    def crawl(self, *paths: str) -> None:
        """Run the spider of the page; it asks for an address when the item before is stored."""
        urls = " ".join(f"{self.site}{path}" for path in paths)
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", "runspider", "warc_pages.py", "-a", f"urls={urls}",
             "-s", "CONCURRENT_REQUESTS=1", "-s", "SCRAPER_SLOT_MAX_ACTIVE_SIZE=1",
             "-s", "SCHEDULER_MEMORY_QUEUE="
             "scrapy.squeues.FifoMemoryQueue", "-s", "DEDUP_INDEX_URL=sqlite:index.db"],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        self.logs.append(done.stderr)

    def records(self) -> list[Record]:
        """All records in their order."""
        with self.file.open("rb") as file:
            return [
                Record(
                    dict(one.rec_headers.headers),
                    dict(one.http_headers.headers),
                    one.raw_stream.read(),
                )
                for one in ArchiveIterator(file)
            ]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Two crawls: the pages, and then the first one and a mirror of it again."""
    folder = tmp_path_factory.mktemp("archive")
    for name in ("warc_archive.py", "warc_pages.py"):
        shutil.copy(EXAMPLES / name, folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        one = Archive(folder, f"http://127.0.0.1:{server.server_port}", [])
        one.crawl("/original", "/same-bytes", "/other-template", "/other")
        one.crawl("/original", "/other-template")
        yield one
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_kinds_of_records(archive: Archive) -> None:
    """Stored pages are responses, the same bytes a revisit by the standard's profile, and a near
    copy a revisit by a profile of its own; in later crawls too."""
    (near,) = re.findall(r'NEAR_DUPLICATE = "(.*)"', (EXAMPLES / "warc_archive.py").read_text())
    found = [
        (one.path, one.fields["WARC-Type"], one.fields.get("WARC-Profile"))
        for one in archive.records()
    ]
    first, second = found[:4], found[4:]
    assert sorted(first, key=str) == sorted(
        [
            ("/original", "response", None),
            ("/same-bytes", "revisit", IDENTICAL),
            ("/other-template", "revisit", near),
            ("/other", "response", None),
        ],
        key=str,
    )
    assert sorted(second) == [("/original", "revisit", IDENTICAL),
                              ("/other-template", "revisit", near)]  # fmt: skip
    assert "#near-duplicate" in near
    page = (ROOT / "docs" / "warc.md").read_text(encoding="utf-8")
    assert near in page
    assert "\n## Near-duplicate\n" in page


def test_what_a_revisit_refers_to(archive: Archive) -> None:
    """Address, date and id of the record that holds the stored page; its own HTTP headers and the
    digest of its own payload, which is left off."""
    records = archive.records()
    original = next(one for one in records if one.path == "/original")
    revisits = [one for one in records if one.fields["WARC-Type"] == "revisit"]
    assert len(revisits) == 4
    for one in revisits:
        fields = one.fields
        assert fields["WARC-Refers-To-Target-URI"] == original.fields["WARC-Target-URI"]
        assert fields["WARC-Refers-To-Date"] == original.fields["WARC-Date"]
        assert fields["WARC-Refers-To"] == original.fields["WARC-Record-ID"]
        assert fields["WARC-Payload-Digest"] == sha1(PAGES[one.path])
        assert fields["WARC-Truncated"] == "length"
        assert one.body == b""
        assert one.http["X-Path"] == one.path
        is_near = fields["WARC-Profile"] != IDENTICAL
        assert is_near == (one.path == "/other-template")
        assert is_near == ("Dedup-Similarity" in fields) == ("Dedup-Reason" in fields)
    assert len({one.fields["WARC-Record-ID"] for one in records}) == len(records)


def sha1(payload: bytes) -> str:
    """A digest as WARC files write it."""
    return f"sha1:{base64.b32encode(hashlib.sha1(payload).digest()).decode()}"


def test_file_is_valid(archive: Archive) -> None:
    """warcio's own check finds every digest right; the batch reads the stored pages."""
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", str(archive.file)], check=True)
    rows = [row.raw for row in read_warc(archive.file)]
    stored = {row["url"]: row["html"] for row in rows if isinstance(row, dict)}
    assert stored == {f"{archive.site}{path}": PAGES[path] for path in ("/original", "/other")}
