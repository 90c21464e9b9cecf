"""``scrapy dedup check`` and ``compare``: a page against the index, or against another page."""

from __future__ import annotations

import argparse
import codecs
import re
import sys
import urllib.error
import urllib.request
from difflib import SequenceMatcher
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

import attrs
from rich.console import Group
from rich.text import Text
from scrapy.settings import BaseSettings
from w3lib.url import safe_url_string

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.core.fingerprinter import make_shingler
from dedup_middleware.core.fingerprinter import read as read_document
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.model.documents import Document
from dedup_middleware.model.keys import content_key
from dedup_middleware.text.relevant import relevant
from dedup_middleware.tools.commands.asking import Opinion, former_index, reading_index
from dedup_middleware.tools.commands.dedup import (
    FOUND,
    OK,
    Context,
    Subcommand,
    block,
    plain_table,
    shown,
)
from dedup_middleware.tools.files.rows import LARGEST_PAGE

_SECONDS = 30  # to wait for a server
_HTML_ENDINGS = {".html", ".htm", ".xhtml", ".xml"}


def read_page(place: str, settings: BaseSettings, key: str | None = None) -> Document:
    """Read a page, HTML or plain UTF-8 text.

    :param place: an http or https URL, a file, or ``-`` for standard input
    :param key: key of the page; None: its URL, or a hash of the content
    """
    if not place:
        raise DedupError("no page is named: give an address, a file, or - for standard input")
    if re.match("https?://", place, re.IGNORECASE):
        raw, charset, is_html = _fetch(place, settings)
        key = key or place
    elif place == "-":
        if sys.stdin is None:
            raise DedupError("there is no standard input: give an address or a file")
        raw, charset, is_html = _read(sys.stdin.buffer, place), None, False
    else:
        with os_errors(f"{place} can't be read"), Path(place).open("rb") as file:
            raw = _read(file, place)
        charset, is_html = None, Path(place).suffix.lower() in _HTML_ENDINGS
    if is_html or raw.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"<":
        return Document(key or content_key(raw), html=raw, charset=charset)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DedupError(
            f"{place} is neither HTML nor text in UTF-8 (byte {error.start}): convert it"
        ) from error
    return Document(key or content_key(text), text=text)


def _read(file: IO[bytes], place: str) -> bytes:
    raw = file.read(LARGEST_PAGE + 1)
    if len(raw) > LARGEST_PAGE:
        raise DedupError(f"{place} has more than {LARGEST_PAGE:,} bytes: it can't be a page")
    return raw


def _fetch(address: str, settings: BaseSettings) -> tuple[bytes, str | None, bool]:
    agent = {"User-Agent": str(settings.get("USER_AGENT"))}
    # urllib would take user and password for the host.
    if re.match("https?://[^/?#]*@", address, re.IGNORECASE):
        fix = "user and password are not sent; save the page to a file, and name that"
        raise DedupError(f"{address} can't be fetched: {fix}")
    try:
        # Keys may hold spaces and letters of any script, which Scrapy encodes likewise.
        request = urllib.request.Request(safe_url_string(address), headers=agent)
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            headers: Message = response.headers
            is_html = headers.get_content_type() != "text/plain"
            return _read(response, address), headers.get_content_charset(), is_html
    except (OSError, ValueError, HTTPException) as error:
        why: object = str(error) or type(error).__name__
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        elif isinstance(error, urllib.error.URLError):
            why = error.reason  # the cause, without urllib's wrapper
        raise DedupError(f"{address} can't be fetched: {why}") from error


_TOKENS = 40  # shown to people


class Check(Subcommand):
    summary = "Show whether a page would be dropped now, and why"
    description = (
        "Nothing is changed. Exit codes: 0: it would be stored; 3: it would be dropped; "
        "1: the page or the index can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("page", help="an address, a file (HTML or text), or - for stdin")
        parser.add_argument("--key", help="name of the page, usually its address")
        parser.add_argument("--title", help="its title; else that of the HTML")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        options = context.options
        document = read_page(arguments.page, context.settings, arguments.key)
        document = attrs.evolve(document, title=arguments.title or "")
        document = read_document(document, options.extractor)
        async with reading_index(options) as reader, former_index(options) as former:
            page = reader.fingerprinter(document)
            opinion = await reader.ask(page)
            if former is not None:
                opinion = await reader.ask_former(page, opinion, former)
            shingler = make_shingler(options, reader.fingerprinter.hash_key)
        tokens = list(shingler.tokens(relevant(document.text or "")))
        facts = {
            "key": document.key,
            "title": document.title,
            "characters": len(document.text or ""),
            "tokens": len(tokens),
            "shingles": page.size,
            "simhash": None if page.simhash is None else f"{page.simhash:016x}",
        }
        context.say({**facts, **attrs.asdict(opinion)}, lambda: table_of(facts, opinion, tokens))
        return FOUND if is_dropped(opinion.outcome, options) else OK


def table_of(facts: dict[str, Any], opinion: Opinion, tokens: list[str]) -> str:
    """Format a decision, with one block per page."""
    match = opinion.match
    headline = f"{opinion.outcome} ({opinion.reason})"
    if match is not None:
        headline += f": {match.key or f'page {match.number}'} holds {match.similarity:.1%} of it"
    more = " ..." if len(tokens) > _TOKENS else ""
    known = {**facts, "first tokens": " ".join(tokens[:_TOKENS]) + more}
    lines = [shown(headline), *(f"  {name}: {shown(value)}" for name, value in known.items())]
    lines.append(f"Compared with {len(opinion.candidates)} pages")
    lines += [
        block(
            one.key or f"page {one.number}",
            ("verdict", f"{'duplicate' if one.duplicate else 'different'} ({one.reason})"),
            ("similarity", one.similarity),
            ("jaccard", one.jaccard),
            ("bits", one.distance),
            ("found by", " ".join(one.tables)),
            ("state", one.state),
        )
        for one in opinion.candidates[:20]
    ]
    return "\n".join(lines)


# A word of letters and digits, a Chinese character or kana, white space, or any other character.
_CJK = r"\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+|\s+|.")
USUAL = ("content", "minhash", "simhash")  # methods compared in addition to that of the settings
LONGEST = 2000  # pieces compared of each text: the time grows with their product


@attrs.frozen
class Part:
    """A stretch of two texts: the same in both, or different and perhaps empty in one."""

    same: bool
    a: str
    b: str


def differences(a: str, b: str) -> tuple[list[Part], bool]:
    """Split two texts into stretches that are equal and stretches that differ.

    :returns: the stretches in order, and whether the texts were too long and have been cut

    >>> [part.b for part in differences("雨下了3天。", "雨下了5天。")[0] if not part.same]
    ['5']
    """
    left, right = _PIECE.findall(a), _PIECE.findall(b)
    cut = max(len(left), len(right)) > LONGEST
    left, right = left[:LONGEST], right[:LONGEST]
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    parts = [
        Part(tag == "equal", "".join(left[i:j]), "".join(right[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
    ]
    return parts, cut


_CONTEXT = 40  # characters of common text shown around a difference


class Compare(Subcommand):
    summary = "Compare two pages, and show what differs"
    description = (
        "No index is needed. A is taken as the new page and B as the stored one, then the other\n"
        "way round: the rule of a crawl is how much of the new page the stored one holds.\n"
        "Without --method: by content, minhash, simhash and the method of the settings.\n"
        "Exit codes: 0; 1: a page can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("a", metavar="A", help="an address, a file (HTML or text), or -")
        parser.add_argument("b", metavar="B", help="the other one")
        parser.add_argument(
            "--method", action="append", default=[], metavar="NAME", help="only this one; repeat"
        )
        parser.add_argument(
            "--all-methods", action="store_true", help="also by those of the literature"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.evaluation.comparers import methods_available

        if arguments.a == arguments.b == "-":
            raise DedupError("standard input is one page: give a file or an address for the other")
        usual = () if arguments.all_methods else dict.fromkeys((context.options.method, *USUAL))
        methods = methods_available(context.options, arguments.method or usual, "--method")
        pages = (
            read_page(place, context.settings, key=f"{side}: {place}")
            for side, place in (("A", arguments.a), ("B", arguments.b))
        )
        a, b = (read_document(page, context.options.extractor) for page in pages)
        rows = []
        for name, comparer in methods.items():
            one, other = comparer.sign(a), comparer.sign(b)
            row = {
                "method": name,
                "threshold": comparer.threshold,
                "a_in_b": attrs.asdict(comparer.compare(one, other)),
                "b_in_a": attrs.asdict(comparer.compare(other, one)),
            }
            rows.append(row)
        parts, cut = differences(a.text or "", b.text or "")
        state = {
            "a": {"title": a.title, "characters": len(a.text or "")},
            "b": {"title": b.title, "characters": len(b.text or "")},
            "methods": rows,
            "differences": [attrs.asdict(part) for part in parts if not part.same],
            "cut": cut,
        }
        context.say(state, lambda: _show(a, b, rows, parts, cut))
        return OK


def _show(
    a: Document, b: Document, rows: list[dict[str, Any]], parts: list[Part], cut: bool
) -> Group:
    pages = [
        Text(shown(f"{page.key}  {page.title}  ({len(page.text or ''):,} characters)"))
        for page in (a, b)
    ]
    table = plain_table("", "method", "threshold", "A, with B stored", "B, with A stored")
    for row in rows:
        verdicts = [
            # In two lines, so that in 80 columns no method name is broken.
            f"{one['similarity']:.3f}  {'duplicate' if one['duplicate'] else 'different'}\n"
            f"{one['reason']}"
            for one in (row["a_in_b"], row["b_in_a"])
        ]
        table.add_row(row["method"], f"{row['threshold']:.3f}", *verdicts)
    ends = ["The ends of long texts are not shown."] if cut else []
    return Group(*pages, table, _marked(parts), *ends)


def _marked(parts: list[Part]) -> Text:
    """Format differences as [-only in A-] and {+only in B+}, with some of the common text."""
    text = Text()
    for part in parts:
        if part.same:
            middle = shown(part.a)
            if len(middle) > 2 * _CONTEXT:
                middle = f"{middle[:_CONTEXT]} ... {middle[-_CONTEXT:]}"
            text.append(middle)
            continue
        if part.a:
            text.append(f"[-{shown(part.a)}-]", style="red")
        if part.b:
            text.append(f"{{+{shown(part.b)}+}}", style="green")
    return text
