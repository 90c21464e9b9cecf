"""Small forms of ``python -m tests.torture``: processes are killed while the index is attacked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture import attacks
from tests.torture.driver import Effort
from tests.torture.start import SCRAPY, WORKERS


@pytest.mark.parametrize(
    ("name", "kind", "place", "kills"),
    [
        ("kills", WORKERS, "aof", 12),
        ("kills", SCRAPY, "sqlite", 6),
        ("rollback", WORKERS, "redis", 4),
        ("proxy", WORKERS, "redis", 6),
        ("damage", WORKERS, "redis", 4),
        ("damage", SCRAPY, "sqlite", 4),
        ("stops", WORKERS, "sqlite", 4),
        ("storage", SCRAPY, "redis", 4),
    ],
)
def test_nothing_is_lost(name: str, kind: str, place: str, kills: int, tmp_path: Path) -> None:
    """Every article is stored, and a page is dropped only for one that was stored before."""
    effort = Effort(kind=kind, kills=kills, slots=3, articles=8, lease=0.8, rest=120)
    outcome = attacks.run(name, place, effort, tmp_path, print)
    print(outcome)
    assert outcome.figures.lost == 0
    assert outcome.figures.dropped > 0
    assert outcome.kills >= effort.kills // 2
