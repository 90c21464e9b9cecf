"""``scrapy dedup restore``: bring back what was dropped."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.itemfields import FieldNames
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import write_output, write_whole
from dedup_middleware.journal.access import open_journal
from dedup_middleware.journal.entries import DROPS, Drop, Query
from dedup_middleware.model.claims import EVERYTHING, Claimed
from dedup_middleware.model.documents import Document
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.tools.commands.asking import Reader, reading_index
from dedup_middleware.tools.commands.context import (
    OK,
    CommandError,
    Context,
    Subcommand,
    add_selection,
    check_output,
    left_out_lines,
    to_query,
)

_LEASE = 30.0  # seconds


class Restore(Subcommand):
    """``scrapy dedup restore``."""

    summary = "Bring back dropped pages from the journal"
    description = (
        "Writes the dropped items as JSON lines, to be stored again: the newest drop of\n"
        "each key, with all fields but the raw HTML and values that JSON has no form for (their\n"
        "names are printed). The pages are entered into the index as stored, so that each is\n"
        "found under its own key when it comes again. The journal keeps them.\n"
        "Exit codes: 0; 1: nothing was found, or the journal, file or index can't be used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-o", "--output", required=True, metavar="FILE", help="a new file, or - for stdout"
        )
        add_selection(parser, journal=True)
        parser.add_argument(
            "--keys",
            type=Path,
            metavar="FILE",
            help="pages that the report exported as JSON, or one key a line",
        )
        parser.add_argument("--all", action="store_true", help="everything that the journal holds")
        parser.add_argument(
            "--no-index", action="store_true", help="do not enter them into the index as stored"
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        query = to_query(arguments)
        if query == Query() and not arguments.all and arguments.keys is None:
            raise CommandError(
                "choose pages: --key, --keys, --host, --since, --until, --reason, --spider, "
                "--crawl or --all"
            )
        if arguments.output != "-":
            check_output(Path(arguments.output))
        keys = None if arguments.keys is None else read_keys(arguments.keys)
        drops = newest(context.options, attrs.evolve(query, outcomes=DROPS), keys)
        if not drops:
            raise CommandError("the journal holds no such drop")
        left_out: Counter[str] = Counter()
        lines = []
        for drop in drops:
            left_out.update(() if drop.body is None else drop.body.left_out)
            lines.append(json.dumps(item_of(drop, context.options), ensure_ascii=False))
        text = "".join(f"{line}\n" for line in lines)
        entered = 0
        async with AsyncExitStack() as stack:
            reader = None
            if not arguments.no_index:  # before the file is written: there may be none
                reader = await stack.enter_async_context(reading_index(context.options))
            if arguments.output == "-":
                write_output(to_bytes(text))
            else:
                write_new(Path(arguments.output), text)
            if reader is not None:
                # After the file: a page that the index calls stored must be somewhere.
                with context.progress("entered into the index", len(drops)) as done:
                    for number, drop in enumerate(drops):
                        entered += await enter(reader, drop)
                        done(number + 1)
        if arguments.output != "-":
            state = {
                "restored": len(drops), "entered": entered, "left_out": dict(left_out),
                "output": arguments.output,
            }  # fmt: skip
            context.say(state, lambda: _sentence(state))
        return OK


def read_keys(path: Path) -> frozenset[str]:
    """The keys of a file: a JSON list of decisions or of keys, or one key a line.

    :raises CommandError: it can't be read, or is something else
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if not text.lstrip().startswith("["):
            return frozenset(filter(None, map(str.strip, text.split("\n"))))
        return frozenset(one if isinstance(one, str) else one["key"] for one in json.loads(text))
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CommandError(
            f"{path} holds no keys: export the decisions of the report as JSON"
        ) from error


def newest(options: Options, query: Query, keys: frozenset[str] | None = None) -> list[Drop]:
    """The newest drop of each key, oldest first.

    :param keys: only of these, which may be too many for a query
    """
    with open_journal(options) as journal:
        found: dict[str, Drop] = {}
        for drop in journal.drops(query, bodies=True):
            if keys is not None and drop.key not in keys:
                continue
            found.pop(drop.key, None)
            found[drop.key] = drop
    return list(found.values())


def item_of(drop: Drop, options: Options) -> dict[str, Any]:
    """What is brought back of a drop: its item, or its text if there was no item."""
    body = drop.body
    if body is not None and body.item is not None:
        item = dict(body.item)
        names = names_of(drop.item_type, options)
        if names.html in body.left_out and names.text and not item.get(names.text):
            # The page's words came from the HTML, which is not kept.
            item[names.text] = body.text
        return item
    return {
        options.key_field: drop.key,
        options.title_field: drop.title,
        options.text_field: "" if body is None else body.text,
    }


def names_of(item_type: str, options: Options) -> FieldNames:
    """The fields of an item by the name of its class, which is all that the journal knows of it."""
    for one in options.items:
        name = one.path if isinstance(one.path, str) else one.path.__name__
        names = one.names(options.field_names)
        if names is not None and name.rpartition(".")[2] == item_type:
            return names
    return options.field_names


def to_bytes(text: str) -> bytes:
    """Lines of JSON in UTF-8, which can't hold a lone surrogate: it is written as JSON's escape."""
    return text.encode("utf-8", "backslashreplace")


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet, as a whole or not at all.

    :raises CommandError: it exists, or can't be written
    """
    try:
        write_whole(path, to_bytes(text), replace=False)
    except FileExistsError:
        raise CommandError(f"{path} exists: name a new file") from None
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror or error}") from error


async def enter(reader: Reader, drop: Drop) -> bool:
    """Enter a page as stored, whatever is like it; False: its key is in the index already."""
    if drop.body is None or is_content_key(drop.key) or await reader.page_ids_of(drop.key):
        return False
    page = reader.fingerprinter(Document(drop.key, title=drop.title, text=drop.body.text))
    if page.is_empty:
        return False
    made = await reader.index.propose(reader.entry(page), 0, _LEASE, known=EVERYTHING)
    return isinstance(made, Claimed) and await reader.index.commit(made.claim)


def _sentence(state: dict[str, Any]) -> str:
    lines = [
        f"{state['restored']:,} pages are in {state['output']}; "
        f"{state['entered']:,} of them are new to the index."
    ]
    return "\n".join([*lines, *left_out_lines(state["left_out"])])
