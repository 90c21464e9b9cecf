"""The code blocks of the README and the documentation, as the tests run them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1\n", re.M | re.S)
_FRAME = re.compile(r"[\s\u2500-\u257f]+")


@attrs.frozen
class Block:
    """A code block.

    ``page`` is the name of its file, ``line`` that of its first line, ``language`` what follows
    the fence.
    """

    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@attrs.frozen
class Command:
    """A command of a console block, and the lines of output that are shown below it."""

    block: Block
    text: str
    output: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, in order; directives such as a toctree are none."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text[: found.start()].count("\n") + 2, found[2].strip(), found[3])
        for found in _FENCE.finditer(text)
        if not found[2].startswith("{")
    ]


def all_blocks() -> list[Block]:
    """The code blocks of all pages."""
    return [block for page in pages() for block in blocks(page)]


def commands(block: Block) -> list[Command]:
    """The commands of a block. A line that ends in a backslash goes on in the next.

    In a ``console`` block they stand behind a prompt and the other lines are output; in a ``sh``
    block every line is a command.
    """
    found: list[Command] = []
    for line in block.code.replace("\\\n", "").splitlines():
        if line.startswith("$ ") or block.language == "sh":
            found.append(Command(block, re.sub(r" {2,}", " ", line.removeprefix("$ "))))
        else:
            found[-1] = attrs.evolve(found[-1], output=(*found[-1].output, line))
    return found


def missing(output: tuple[str, ...], printed: str) -> str | None:
    """The first line of a documented output that was not printed after the one before it.

    ``...`` matches anything. White space and the frames of tables do not count.

    >>> missing(("a ...", "...", "│ c │ 3 │"), "a line\\nb\\n| c 3")
    '│ c │ 3 │'
    >>> missing(("a ...", "...", "│ c │ 3 │"), "a line\\nb\\n┃ c  ┃ 3 ┃") is None
    True
    """
    lines = iter([_squeezed(line) for line in printed.splitlines()])
    for wanted in output:
        shown = _squeezed(wanted)
        if shown in {"", "..."}:
            continue
        pattern = re.compile(".*".join(map(re.escape, shown.split("..."))))
        if not any(pattern.fullmatch(line) for line in lines):
            return wanted
    return None


def _squeezed(line: str) -> str:
    # A table of stats begins with a brace, whatever its first line is.
    return _FRAME.sub(" ", line).strip().removeprefix("{")


def file_name(block: Block) -> str | None:
    """The file that a block of Python belongs into, which its first line names; None: no file."""
    found = re.match(r"# ([\w/]+\.py)\n", block.code)
    return found[1] if found else None


def is_settings(block: Block) -> bool:
    """Whether a block of Python is a piece of a settings file: assignments to NAMES alone."""
    return all(
        isinstance(one, ast.Assign)
        and all(isinstance(name, ast.Name) and name.id.isupper() for name in one.targets)
        for one in ast.parse(block.code).body
    )
