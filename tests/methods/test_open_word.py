"""Pages of one template that leaves one word open, on many hosts."""

from __future__ import annotations

import random

import pytest

from dedup_middleware import Deduplicator, Document, Options
from tests.texts import LEVY

_SYLLABLES = "ba du fe gi ko lam mer nos pir que rut sal tor vin wex yad zul".split()


def variants(count: int, seed: int, names: bool = False) -> list[str]:
    """Reports with another word, or another name, in place of one word."""
    draw = random.Random(seed)
    words = {"".join(draw.choices(_SYLLABLES, k=3)) for _ in range(2 * count)}
    chosen = sorted(words)[:count]
    return [LEVY.replace("welcomed", word.capitalize() if names else word) for word in chosen]


async def dropped(texts: list[str], key: str) -> list[int]:
    """Which of these pages of as many hosts are dropped."""
    found = []
    async with Deduplicator(Options(index_url="memory:", hash_key=key)) as dedup:
        for i, text in enumerate(texts):
            verdict = await dedup.decide(Document(key=f"https://site{i}.example/1", text=text))
            await dedup.commit(verdict)
            found += [i] * verdict.is_duplicate
    return found


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("key", ["1", "2", "3"])
async def test_variants_of_a_template_are_stored(key: str, names: bool) -> None:
    """However many of them are: each stored page would be another chance that the open word counts
    as a spelling, or that its evidence seems to hold it, and nearly all of them were dropped. With
    names the first ones are, until two are stored that differ."""
    texts = variants(120, int(key), names)
    found = await dropped(texts, key)
    assert len(found) <= (40 if names else 6)
    assert len([i for i in found if i > 60]) <= 4


@pytest.mark.parametrize("key", ["1", "2", "3"])
async def test_a_longer_version_leaves_no_word_open(key: str) -> None:
    """It has the word that the new page spells otherwise, so it says nothing against the copy."""
    more = "Two engineers will weigh each vessel at the gate, and a clerk notes the rest in a book."
    longer = f"{LEVY}\n{more}"
    pages = [("a", "Levy on yachts", LEVY), ("b", "Harbour fees to rise", longer)]
    options = Options(index_url="memory:", hash_key=key)
    async with Deduplicator(options) as dedup:
        for site, title, text in pages:
            document = Document(key=f"https://{site}.example/1", title=title, text=text)
            await dedup.commit(await dedup.decide(document))
        slip = LEVY.replace("yellow", "yelow")
        document = Document(
            key="https://b.example/2", title="Harbour board imposes levy", text=slip
        )
        assert (await dedup.decide(document)).is_duplicate


@pytest.mark.parametrize("key", ["1", "2", "3"])
async def test_copies_of_variants_are_dropped(key: str) -> None:
    """Copies of one of them, and those with a slip elsewhere."""
    texts = variants(20, 7)
    gone = await dropped(texts, key)
    kept = [text for i, text in enumerate(texts) if i not in gone]
    slips = [text.replace("yellow", "yelow") for text in kept]
    found = await dropped([*kept, *slips, *kept], key)
    assert found == list(range(len(kept), 3 * len(kept)))
