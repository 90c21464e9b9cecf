"""Articles in variants that are near-duplicates of each other, and which process crawls which."""

from __future__ import annotations

import random

from dedup_middleware.evaluation.edits import edit
from tests.texts import article

# Light enough that any two variants of any article are duplicates, in either order; no advert is
# behind a lost end, since two changes side by side are a passage of their own. A word in place of
# another one, or one that a lost letter makes, may be another noun, which makes another page.
EDITS = (
    ("sentence-order", 0.0),
    ("agency-note", 0.1),
    ("full-width", 0.2),
    ("advert-before", 0.03),
    ("sentence-order", 0.05),
    ("timestamps", 0.2),
    ("full-width", 0.5),
    ("truncation", 0.01),
)
VARIANTS = len(EDITS)
SENTENCES = 30
# Hashes that do not change from run to run make every run judge alike.
HASH_KEY = "5eed"
# Made of few different clauses, one pair of variants in 3,000 shares no bucket with fewer bands.
BANDS = 8


def text_of(number: int, variant: int) -> str:
    """A variant of an article."""
    kind, intensity = EDITS[variant]
    return edit(article(number, SENTENCES), kind, intensity, seed=number)


def address(number: int, variant: int) -> str:
    """Where a variant is published."""
    return f"https://mirror-{variant}.example/{number}"


def number_of(url: str) -> int:
    """The article behind an address."""
    return int(url.rpartition("/")[2])


def shares(articles: int, processes: int, seed: int) -> list[list[tuple[int, int]]]:
    """Every variant of every article, dealt out to the processes in random order."""
    deck = [(number, variant) for number in range(articles) for variant in range(VARIANTS)]
    random.Random(seed).shuffle(deck)
    return [deck[process::processes] for process in range(processes)]
