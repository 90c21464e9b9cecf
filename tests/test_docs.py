"""What the documentation lists is what the code has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def blocks(language: str) -> list[tuple[str, str]]:
    """Every code block of a language in the README and the docs, with the file it is in."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.M | re.S)
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        (file.name, block)
        for file in files
        for block in pattern.findall(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("name", "code"), blocks("python"))
def test_python_in_the_docs_runs(name: str, code: str, tmp_path: Path) -> None:
    """Each Python block runs as it stands, in an empty directory."""
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if "Deduplicator" in code:
        assert "https://two.example/9 is dropped: https://one.example/1 1.0" in done.stdout


# Each command of the docs, and what runs it: a test, CI, or the same command elsewhere in full.
RUN_BY = {
    "make crawl": "tests/test_quickstart.py",
    "make test": ".ci/run",
    "python3 -m venv .venv": "Makefile",
    ".venv/bin/pip install -e '.[crawler,dev]'": "Makefile",
    ".venv/bin/scrapy crawl news": "tests/test_sample_crawl.py",
    ".venv/bin/python -m pytest": "Makefile",
    ".venv/bin/scrapy crawl news -a start=https://one.example/,https://two.example/ "
    "-a pages=500": "tests/crawler/test_news.py",
    "pip install dedup-middleware": "tests/test_wheel.py",
    "SCRAPY_PROJECT=shared scrapy crawl news": "tests/test_compose.py",
    "scrapy crawl news -s DEDUP_INDEX_URL=redis://127.0.0.1:6379/0": "tests/test_sharing.py",
    ".venv/bin/python -m dedup_middleware.evaluation pairs FILE": (
        "tests/evaluation/test_commands.py"
    ),
    "scrapy dedup stats": "tests/test_commands.py",
    "scrapy dedup stats --json": "tests/test_wheel.py",
    "DEDUP_REDIS_PASSWORD=... docker compose up --build --scale crawler=4": (
        "tests/test_compose.py"
    ),
}


def test_every_command_in_the_docs_is_run_somewhere() -> None:
    """No command is shown that nothing runs."""
    shown = {
        line.removeprefix("$ ")
        for _, block in blocks("console")
        for line in block.splitlines()
        if line.startswith("$ ")
    }
    assert shown == set(RUN_BY)
    for place in RUN_BY.values():
        assert (ROOT / place).exists(), place
