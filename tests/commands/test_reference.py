"""docs/commands.md has every command and every option, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dedup_middleware.tools.commands.dedup import SUBCOMMANDS, load, make_parser

TEXT = (Path(__file__).parent.parent.parent / "docs" / "commands.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))


def test_every_command_has_its_section() -> None:
    """In the order of the overview."""
    assert list(SECTIONS) == list(SUBCOMMANDS)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_option_is_listed(name: str) -> None:
    """The table of a command names the options of its parser."""
    rows = re.findall(r"^\| (`-.*?) \|", SECTIONS[name], re.M)
    listed = {option for row in rows for option in re.findall(r"`(--?[\w-]+)`", row)}
    actions = make_parser(name, load(name))._actions
    known = {option for action in actions for option in action.option_strings}
    assert listed == known - {"-h", "--help", "--json"}


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_says_what_it_is(name: str) -> None:
    """A summary of one line and its exit codes, in the help of the command itself."""
    command = load(name)
    assert "\n" not in command.summary
    assert "Exit codes: 0" in " ".join(command.description.split())
