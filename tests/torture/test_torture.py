"""A small form of ``python -m tests.torture``: some scenarios, fewer articles and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.run import Plan
from tests.torture.scenarios import SCENARIOS


# Leases on a cluster shall outlast a slot on its way and a master that is away.
@pytest.mark.parametrize(
    ("scenario", "lease"),
    [("redis", 6.0), ("sqlite", 6.0), ("cluster", 15.0)],
)
def test_spiders_that_are_killed(scenario: str, lease: float, tmp_path: Path) -> None:
    """Every article is stored; twice only where a process died between storage and commit; no
    two committed pages are of one article; no lease is left after its time. On a cluster slots
    move meanwhile, and a master dies."""
    outcome = SCENARIOS[scenario](
        Plan(articles=40, processes=2, kills=3, lease=lease, seconds=240), tmp_path
    )
    print(outcome)
