"""Pages that are named on the command line: an address, a file, or standard input."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path

from scrapy.settings import BaseSettings

from dedup_middleware.commands.context import CommandError
from dedup_middleware.fingerprint import Document, content_key

_LARGEST = 50_000_000  # bytes of a page
_SECONDS = 30
_HTML_ENDINGS = {".html", ".htm", ".xhtml", ".xml"}


def read_page(place: str, settings: BaseSettings, key: str | None = None) -> Document:
    """The page at a place.

    :param place: an address (http or https), a file, or ``-`` for standard input. What begins
        like HTML, or ends in .html, is taken for it; all else is plain text in UTF-8.
    :param key: names the page; None: the address, or a hash of the content
    :raises CommandError: it can't be read
    """
    if place.startswith(("http://", "https://")):
        raw, charset, is_html = _fetch(place, settings)
        key = key or place
    elif place == "-":
        raw, charset, is_html = sys.stdin.buffer.read(_LARGEST), None, False
    else:
        try:
            with Path(place).open("rb") as file:
                raw = file.read(_LARGEST)
        except OSError as error:
            raise CommandError(f"{place} can't be read: {error.strerror or error}") from error
        charset, is_html = None, Path(place).suffix.lower() in _HTML_ENDINGS
    if is_html or raw.lstrip()[:1] == b"<":
        return Document(key or content_key(raw), html=raw, charset=charset)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{place} is neither HTML nor text in UTF-8 (byte {error.start}): convert it"
        ) from error
    return Document(key or content_key(text), text=text)


def _fetch(address: str, settings: BaseSettings) -> tuple[bytes, str | None, bool]:
    agent = str(settings.get("USER_AGENT"))
    try:
        request = urllib.request.Request(address, headers={"User-Agent": agent})
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            headers: Message = response.headers
            is_html = headers.get_content_type() != "text/plain"
            return response.read(_LARGEST), headers.get_content_charset(), is_html
    except urllib.error.HTTPError as error:
        error.close()
        raise CommandError(f"{address} can't be fetched: {error}") from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise CommandError(f"{address} can't be fetched: {error}") from error
