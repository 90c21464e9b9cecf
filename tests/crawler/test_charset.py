"""Pages that declare what is no charset reach the spider and are stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from scrapy import version_info
from scrapy.http import HtmlResponse, Response

from crawler.charset import CharsetMiddleware
from tests.crawler.test_news import BODY, crawl, serve

CODECS = (
    "base64 zlib rot13 punycode idna undefined hex bz2 uu quopri unicode_escape raw_unicode_escape"
).split()
# Scrapy 2.18 takes a name of no codec for cp1252.
OTHERS = ["no-such-name"] if version_info >= (2, 19) else []


def test_no_page_is_lost_by_its_charset(tmp_path: Path) -> None:
    """Each of twelve such pages, by header and by meta element, is an item with its text."""
    server = serve()
    names = {f"/2024/05/06/{codec}-{where}.html": codec for codec in CODECS for where in "hm"}
    links = "".join(f'<a href="{path}">go</a>' for path in names)
    server.pages["/"] = (200, "text/html", f"<html><body>{links}</body></html>".encode())
    for path, codec in names.items():
        meta = f'<meta charset="{codec}">' if path.endswith("m.html") else ""
        header = "text/html" if meta else f"text/html; charset={codec}"
        page = f"<html><head>{meta}<title>Die Brücke</title></head><body>{BODY}</body></html>"
        server.pages[path] = (200, header, page.encode())
    try:
        left = crawl(tmp_path, server.url)
    finally:
        server.shutdown()
        server.server_close()
    assert set(left.items) == set(names)
    for item in left.items.values():
        assert item["title"] == "Die Brücke"
        assert "opened on Monday" in item["text"]
    assert left.skipped == {"list-page": 1}
    assert "Traceback" not in left.log


@pytest.mark.parametrize("codec", [*CODECS, *OTHERS])
async def test_scrapy_reads_such_a_page_as_the_crawler_does(codec: str) -> None:
    """Behind the middleware a response has a text, in the encoding that its bytes are in."""
    header = {"Content-Type": f"text/html; charset={codec}"}
    for headers, meta in ((header, ""), ({}, f'<meta charset="{codec}">')):
        body = f"<html>{meta}<p>市政府今天宣布修复东门外的旧石桥。</html>".encode("gbk")
        response = HtmlResponse("https://one.example/", headers=headers, body=body)
        passed = await CharsetMiddleware().process_response(None, response)
        assert "修复东门外" in passed.text


async def test_other_responses_pass_as_they_are() -> None:
    """A page with a charset that is one, and what is no text, are not touched."""
    page = HtmlResponse("https://one.example/", body="Brücke".encode("cp1252"), encoding="cp1252")
    image = Response("https://one.example/1.jpg", body=b"\xff\xd8")
    for response in (page, image):
        assert await CharsetMiddleware().process_response(None, response) is response
