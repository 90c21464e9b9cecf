"""A small form of ``python -m tests.torture``: two scenarios, fewer articles and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.run import Plan
from tests.torture.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", ["redis", "sqlite"])
def test_spiders_that_are_killed(scenario: str, tmp_path: Path) -> None:
    """Every article is stored; twice only where a process died between storage and commit; no
    two committed pages are of one article; no lease is left after its time."""
    outcome = SCENARIOS[scenario](
        Plan(articles=40, processes=2, kills=3, lease=6.0, seconds=240), tmp_path
    )
    print(outcome)
