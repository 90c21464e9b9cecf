"""``scrapy dedup check``: whether a page would be dropped now, and why."""

from __future__ import annotations

import argparse
from typing import Any

import attrs

from dedup_middleware.core.fingerprinter import make_shingler
from dedup_middleware.core.fingerprinter import read as read_document
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.text.readable import readable
from dedup_middleware.tools.commands.asking import Opinion, former_index, reading_index
from dedup_middleware.tools.commands.context import (
    FOUND,
    OK,
    Context,
    Subcommand,
    block,
    shown,
)
from dedup_middleware.tools.commands.selecting import read_page

_TOKENS = 40  # shown to people


class Command(Subcommand):
    """``scrapy dedup check``."""

    name = "check"
    summary = "Show whether a page would be dropped now, and why"
    description = (
        "Nothing is changed. Exit codes: 0: it would be stored; 3: it would be dropped; "
        "1: the page or the index can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument("page", help="an address, a file (HTML or text), or - for stdin")
        parser.add_argument("--key", help="name of the page, usually its address")
        parser.add_argument("--title", help="its title; else that of the HTML")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        options = context.options
        document = read_page(arguments.page, context.settings, arguments.key)
        document = attrs.evolve(document, title=arguments.title or "")
        document = read_document(document, options.extractor)
        async with reading_index(options) as reader, former_index(options) as former:
            page = reader.fingerprinter(document)
            opinion = await reader.ask(page)
            if former is not None:
                opinion = await reader.ask_former(page, opinion, former)
            tokens = make_shingler(options, reader.fingerprinter.hash_key).tokens(
                readable(document.text or "")
            )
        facts = describe(document, page, list(tokens))
        context.say(
            {**facts, **attrs.asdict(opinion)}, lambda: table_of(facts, opinion, list(tokens))
        )
        return FOUND if is_dropped(opinion.outcome, options) else OK


def describe(document: Document, page: Fingerprint, tokens: list[str]) -> dict[str, Any]:
    """What is known of a page before it is compared."""
    return {
        "key": document.key,
        "title": document.title,
        "characters": len(document.text or ""),
        "tokens": len(tokens),
        "shingles": page.size,
        "simhash": None if page.simhash is None else f"{page.simhash:016x}",
    }


def table_of(facts: dict[str, Any], opinion: Opinion, tokens: list[str]) -> str:
    """What people read: one block for each page."""
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
