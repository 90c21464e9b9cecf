"""Small forms of ``python -m tests.torture``: processes are killed while the index is attacked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture import attacks
from tests.torture.driver import Effort
from tests.torture.start import SCRAPY, WORKERS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "place", "kills"),
    [
        pytest.param("kills", WORKERS, "aof", 12, marks=pytest.mark.services),
        ("kills", SCRAPY, "sqlite", 6),
        pytest.param("rollback", WORKERS, "redis", 4, marks=pytest.mark.services),
        pytest.param("proxy", WORKERS, "redis", 6, marks=pytest.mark.services),
        pytest.param("damage", WORKERS, "redis", 4, marks=pytest.mark.services),
        ("damage", SCRAPY, "sqlite", 4),
        ("stops", WORKERS, "sqlite", 4),
        pytest.param("storage", SCRAPY, "redis", 4, marks=pytest.mark.services),
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
