"""Links in the texts of the repository lead somewhere: on its own pages, and on a package page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docblocks import ROOT

TEXTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
BUILT = "https://dedup-middleware.readthedocs.io/en/latest/"


def without_blocks(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def links(text: str) -> list[tuple[str, str]]:
    """The text and the target of each link and picture outside of code."""
    return LINK.findall(re.sub(r"`[^`\n]+`", "code", without_blocks(text)))


def anchors(page: Path) -> set[str]:
    """What may follow ``#`` in an address of the page, as GitHub and MyST name headings."""
    text = without_blocks(page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,3} (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def broken(target: str, page: Path) -> bool:
    """Whether a relative target of a page leads to no file or to no heading."""
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return True
    return bool(anchor) and anchor not in anchors(there)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Each link has a text, which only the built documentation would add, and a target."""
    found = links(page.read_text(encoding="utf-8"))
    inside = [target for _, target in found if not re.match(r"[a-z]+:", target)]
    assert [target for target in inside if broken(target, page)] == []
    assert [target for text, target in found if not text] == []


def test_links_of_the_package_page_lead_to_built_pages() -> None:
    """A package page shows the README alone: its links lead to pages of the documentation."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata", "readme"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    targets = [target for _, target in links(done.stdout)]
    assert len(targets) > 10
    for target in targets:
        assert target.startswith(BUILT), target
        name = target.removeprefix(BUILT).replace(".html", ".md")
        assert not broken(name, ROOT / "docs" / "index.md"), target
