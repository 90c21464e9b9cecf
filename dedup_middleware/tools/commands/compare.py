"""``scrapy dedup compare``: two pages side by side, by every method."""

from __future__ import annotations

import argparse
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import attrs

from dedup_middleware.core.fingerprinter import read as read_document
from dedup_middleware.model.documents import Document
from dedup_middleware.tools.commands.context import (
    OK,
    Context,
    Subcommand,
    plain_table,
    shown,
)
from dedup_middleware.tools.commands.selecting import read_page

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


# A word of letters and digits, one Chinese character or kana, spaces, or any other character.
_PIECE = re.compile(
    r"[\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W_\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+|\s+|."
)
USUAL = ("content", "minhash", "simhash")  # methods, in addition to the one of the settings
LONGEST = 2000  # pieces of each text that are compared: the time grows with their product


@attrs.frozen
class Part:
    """A stretch of two texts: ``same`` is what both have, else one of the two may be empty."""

    same: bool
    a: str
    b: str


def differences(a: str, b: str) -> tuple[list[Part], bool]:
    """Two texts as stretches that are the same and stretches that differ.

    :returns: the stretches in order, and whether the ends of long texts were left out

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


_CONTEXT = 40  # characters of what both have, around a difference


class Command(Subcommand):
    """``scrapy dedup compare``."""

    name = "compare"
    summary = "Compare two pages, and show what differs"
    description = (
        "No index is needed. A is taken as the new page and B as the stored one, then the other\n"
        "way round: the rule of a crawl is how much of the new page the stored one holds.\n"
        "Without --method by content, minhash and simhash.\n"
        "Exit codes: 0; 1: a page can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument("a", metavar="A", help="an address, a file (HTML or text), or -")
        parser.add_argument("b", metavar="B", help="the other one")
        parser.add_argument(
            "--method", action="append", default=[], metavar="NAME", help="only this one; repeat"
        )
        parser.add_argument(
            "--all-methods", action="store_true", help="also by those of the literature"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        from dedup_middleware.evaluation.comparers import methods_available

        usual = () if arguments.all_methods else dict.fromkeys((context.options.method, *USUAL))
        methods = methods_available(context.options, arguments.method or usual)
        a, b = (
            read_document(
                read_page(place, context.settings, key=f"{side}: {place}"),
                context.options.extractor,
            )
            for side, place in (("A", arguments.a), ("B", arguments.b))
        )
        rows = []
        for name, comparer in methods.items():
            one, other = comparer.sign(a), comparer.sign(b)
            forth, back = comparer.compare(one, other), comparer.compare(other, one)
            rows.append(
                {
                    "method": name,
                    "threshold": comparer.threshold,
                    "a_in_b": attrs.asdict(forth),
                    "b_in_a": attrs.asdict(back),
                }
            )
        parts, cut = differences(a.text or "", b.text or "")
        context.say(
            {
                "a": _facts(a),
                "b": _facts(b),
                "methods": rows,
                "differences": [attrs.asdict(part) for part in parts if not part.same],
                "cut": cut,
            },
            lambda: _show(a, b, rows, parts, cut),
        )
        return OK


def _facts(document: Document) -> dict[str, Any]:
    return {"title": document.title, "characters": len(document.text or "")}


def _show(
    a: Document, b: Document, rows: list[dict[str, Any]], parts: list[Part], cut: bool
) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid()
    for page in (a, b):
        name = f"{page.key}  {page.title}  ({len(page.text or ''):,} characters)"
        grid.add_row(Text(shown(name)))
    table = plain_table("", "method", "threshold", "A, with B stored", "B, with A stored")
    for row in rows:
        # In 80 columns no name is broken in its middle.
        table.add_row(
            row["method"],
            shown(float(row["threshold"])),
            _in_two_lines(row["a_in_b"]),
            _in_two_lines(row["b_in_a"]),
        )
    grid.add_row(table)
    grid.add_row(_marked(parts))
    if cut:
        grid.add_row(Text("The ends of long texts are not shown."))
    return grid


def _in_two_lines(compared: dict[str, Any]) -> str:
    similarity = shown(float(compared["similarity"]))
    outcome = "duplicate" if compared["duplicate"] else "different"
    return f"{similarity}  {outcome}\n{compared['reason']}"


def _marked(parts: list[Part]) -> Text:
    """[-only in A-] and {+only in B+}, with a little of what is around."""
    from rich.text import Text

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
