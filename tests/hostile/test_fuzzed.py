"""A small form of ``python -m tests.torture fuzz``, and what it rests on."""

from __future__ import annotations

from pathlib import Path

from itemadapter import ItemAdapter

from tests.torture.fuzz import fuzz, held
from tests.torture.pages import page


def test_fuzzed_pages(tmp_path: Path) -> None:
    """Nothing is raised, and a stored page contains every dropped one."""
    found = fuzz(300, tmp_path, processes=1)
    print(found)
    assert found.pages == 300
    assert found.outcomes["dropped"] > 10
    assert sum(found.outcomes[fate] for fate in ("stored", "failed", "dropped")) >= 300


def test_pages_are_made_by_their_seed() -> None:
    """So that a page that breaks something can be made again."""
    for number in range(50):
        one, two = (ItemAdapter(page(number, 7, 10)).asdict() for _ in range(2))
        assert one == two


def test_share_that_is_held() -> None:
    """Form and order of the signs between letters say nothing, other letters do."""
    text = "The council met on Monday and agreed to repair the bridge before the winter begins."
    assert held(text.upper(), text.replace(" ", "\u200b ")) == 1.0
    assert held(text, text + " It will take a year.") == 1.0
    assert held(text + text.swapcase()[::-1], text) < 0.7
    assert held("☀☁☂", "☂☁☀") == 0.0
    assert held("ab", "cab") == 1.0
