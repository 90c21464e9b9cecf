"""The pages that a command works on: one from the command line, or a selection of stored ones."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path

from scrapy.settings import BaseSettings

from dedup_middleware.journal.entries import Query
from dedup_middleware.model.documents import Document
from dedup_middleware.model.keys import content_key
from dedup_middleware.tools.commands.context import CommandError

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


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def add_selection(parser: argparse.ArgumentParser, *, journal: bool) -> None:
    """Arguments that choose pages.

    :param journal: with ``--reason``, ``--spider`` and ``--crawl``, which only a journal holds
    """
    joined = " (all that are given must fit)" if journal else ""
    group = parser.add_argument_group(f"which pages{joined}")
    names = {"key": "a page; repeat for more", "host": "all of a host; repeat"}
    of_journal = {
        "reason": "dropped for it; repeat", "spider": "by this spider; repeat",
        "crawl": "in the crawl of this id",
    }  # fmt: skip
    for name, words in (names | of_journal if journal else names).items():
        group.add_argument(f"--{name}", action="append", default=[], help=words)
    group.add_argument(
        "--since",
        type=parse_time,
        metavar="TIME",
        help="from this time on: 2026-05-31T08:00, or 2h",
    )
    group.add_argument("--until", type=parse_time, metavar="TIME", help="before this time")


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO date or time, or of so long ago: ``90s``, ``2h``, ``7d``.

    A time without a zone is one of this machine's.

    :raises argparse.ArgumentTypeError: it is neither
    """
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    now = datetime.datetime.now().astimezone()
    try:
        if ago is not None:
            return (now - datetime.timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])).timestamp()
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write 2026-05-31, 2026-05-31T08:00, 90m, 2h or 7d"
        ) from None


def to_query(arguments: argparse.Namespace) -> Query:
    """The chosen pages as a query of the journal."""
    return Query(
        keys=frozenset(arguments.key),
        hosts=frozenset(host.lower() for host in arguments.host),
        reasons=frozenset(getattr(arguments, "reason", [])),
        spiders=frozenset(getattr(arguments, "spider", [])),
        crawls=frozenset(getattr(arguments, "crawl", [])),
        since=arguments.since,
        until=arguments.until,
    )
