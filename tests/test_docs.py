"""What the documentation lists is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import dedup_middleware
from dedup_middleware.methods import content, simhash
from docs.reference import render

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dedup_middleware"


def test_settings_reference_is_up_to_date() -> None:
    """docs/settings.md is what docs/reference.py writes of the options of today."""
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == render()


def test_every_stat_is_documented_and_no_other() -> None:
    """Each counter in the code has its line in docs/stats.md, each line its counter."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    counted = {f"dedup/{name}" for name in re.findall(r"count\(\s*\"([a-z/-]+)\"", code)}
    outcomes = {
        f"dedup/{value}"
        for name, value in vars(dedup_middleware.fingerprint).items()
        if name in {"NEW", "DUPLICATE", "REVISIT", "EMPTY", "UNCHECKED"}
    }
    listed = set(re.findall(r"^\| `(dedup/[a-z/-]+)`", (ROOT / "docs/stats.md").read_text(), re.M))
    assert listed == counted | outcomes


def test_every_reason_is_documented() -> None:
    """The reasons of the methods are listed where the stats of reasons are explained."""
    text = (ROOT / "docs/stats.md").read_text(encoding="utf-8")
    reasons = {
        value
        for module in (content, simhash)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    assert reasons
    for reason in reasons:
        assert f"`{reason}`" in text
