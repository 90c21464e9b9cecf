"""The sample news site: which pages it holds and how they relate to each other."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from crawler.sample_site import SampleSite
from crawler.sample_site.stories import COPIES, FIGURE, Story
from tests.crawler.sample_site_client import (
    Printed,
    grams,
    jaccard,
    printed,
)


@pytest.fixture(scope="module")
def texts(site: SampleSite, stories: dict[str, Story]) -> dict[str, Printed]:
    """What every article prints, by `outlet/path`."""
    return {name: printed(site, story.outlet, story.path) for name, story in stories.items()}


def test_every_kind_of_page_is_there(site: SampleSite) -> None:
    """The site has at least the promised number of pages of every kind."""
    counts = Counter(page.kind for page in site.pages())
    least = {"original": 28, "verbatim": 10, "rewrite": 5, "bulletin": 16, "caption": 3}
    least |= {"headline": 3, "lead": 3, "cut": 3, "note": 2, "advert": 2, "caption copy": 1}
    least |= {"script": 1, "empty": 2, "error": 1, "missing": 1, "disallowed": 1, "redirect": 1}
    least |= {"tracking": 1, "front": 5, "list": 15}
    assert {kind: counts[kind] for kind in least if counts[kind] < least[kind]} == {}
    assert set(counts) == set(least)


def test_it_is_large_enough(site: SampleSite, stories: dict[str, Story]) -> None:
    """It has more than 75 articles on five outlets, and an address is never used twice."""
    assert len(stories) >= 75
    assert set(site.urls) == {"chenbao", "portal", "gazette", "minbao", "hui"}
    assert min(Counter(story.outlet for story in stories.values()).values()) >= 9
    names = [(page.outlet, page.path) for page in site.pages()]
    assert len(set(names)) == len(names)


def test_expectation_is_the_manifest(site: SampleSite, stories: dict[str, Story]) -> None:
    """What a crawl stores is every article but the copies; each copy names a stored page."""
    stored = {page.outlet + page.path for page in site.pages() if page.stored}
    assert stored == {name for name, story in stories.items() if story.kind not in COPIES}
    addresses = {page.address for page in site.pages() if page.stored}
    copies = [page for page in site.pages() if page.kind in COPIES]
    assert len(copies) == len(stories) - len(stored)
    assert {page.original for page in copies} <= stored
    assert not {page.address for page in copies} & addresses


def test_articles_print_their_story(stories: dict[str, Story], texts: dict[str, Printed]) -> None:
    """Headline and paragraphs reach the page unchanged, whatever the template and encoding."""
    for name, story in stories.items():
        assert texts[name] == Printed(story.title, story.paragraphs)


def test_originals_have_the_length_of_news(stories: dict[str, Story]) -> None:
    """Chinese originals have 350 to 900 characters, English ones 200 to 450 words."""
    for story in stories.values():
        if story.kind == "original":
            text = "".join(story.paragraphs)
            english = story.language == "en"
            length = len(" ".join(story.paragraphs).split()) if english else len(text)
            low, high = (200, 450) if english else (350, 900)
            assert low <= length <= high, (story.id, length)
            assert len(story.paragraphs) >= 5


def test_stories_of_their_own_are_different(
    stories: dict[str, Story], texts: dict[str, Printed]
) -> None:
    """Any two pages that both stay, bulletins aside, share less than 30 % of their 5-grams."""
    kept = {"original", "rewrite", "script", "caption"}
    chosen = {
        name: grams(texts[name].text) for name, story in stories.items() if story.kind in kept
    }
    like = {
        (one, other): jaccard(chosen[one], chosen[other]) for one, other in combinations(chosen, 2)
    }
    assert {pair: value for pair, value in like.items() if value >= 0.3} == {}


@pytest.mark.parametrize("kind", sorted(COPIES))
def test_copies_relate_to_their_source(
    kind: str, stories: dict[str, Story], texts: dict[str, Printed]
) -> None:
    """A copy differs from its original in what its kind says, and in nothing else."""
    copies = [story for story in stories.values() if story.kind == kind]
    assert copies
    for story in copies:
        assert story.source is not None
        assert stories[story.source].kind in {"original", "caption"}
        copy, source = texts[story.id], texts[story.source]
        if kind in {"verbatim", "caption copy"}:
            assert copy == source
        elif kind == "headline":
            assert copy.paragraphs == source.paragraphs
            assert copy.title != source.title
        elif kind == "lead":
            assert copy.paragraphs[1:] == source.paragraphs[1:]
            assert copy.paragraphs[0] != source.paragraphs[0]
        elif kind == "cut":
            assert source.text.startswith(copy.text)
            assert 0.5 < len(copy.text) / len(source.text) < 0.8
        elif kind == "note":
            assert copy.text.endswith(source.text)
            assert 0 < len(copy.text) - len(source.text) < 30
        else:
            assert copy.text.startswith(source.text + "\n")
            assert 0 < len(copy.text) - len(source.text) < 100


def test_copies_bring_no_figures_of_their_own(
    stories: dict[str, Story], texts: dict[str, Printed]
) -> None:
    """No copy replaces figures of its original: it has the same ones or some of them."""
    for story in stories.values():
        if story.source and story.kind in COPIES:
            own = set(FIGURE.findall(texts[story.id].title + texts[story.id].text))
            source = texts[story.source]
            assert own <= set(FIGURE.findall(source.title + source.text)), story.id


def test_bulletins_differ_in_figures_alone(
    stories: dict[str, Story], texts: dict[str, Printed]
) -> None:
    """The bulletins are four series of four pages, equal but for dates and figures."""
    series: dict[str, list[str]] = {}
    for name, story in stories.items():
        if story.kind == "bulletin":
            whole = f"{texts[name].title}\n{texts[name].text}"
            series.setdefault(FIGURE.sub("0", whole), []).append(whole)
    assert [len(pages) for pages in series.values()] == [4, 4, 4, 4]
    for pages in series.values():
        for one, other in combinations(pages, 2):
            changed = [
                a != b for a, b in zip(FIGURE.findall(one), FIGURE.findall(other), strict=True)
            ]
            assert sum(changed) > 0.6 * len(changed)


def test_captions_are_short(stories: dict[str, Story]) -> None:
    """Photo captions have one paragraph of fewer than 80 characters."""
    captions = [story for story in stories.values() if story.kind.startswith("caption")]
    assert len(captions) == 4
    for story in captions:
        assert len(story.paragraphs) == 1
        assert len(story.paragraphs[0]) < 80


def test_script_variant_is_the_same_text_in_other_characters(
    stories: dict[str, Story], texts: dict[str, Printed]
) -> None:
    """The traditional version has as many characters as the simplified one, many others."""
    (story,) = [story for story in stories.values() if story.kind == "script"]
    assert story.source is not None
    one, other = texts[story.id].text, texts[story.source].text
    assert len(one) == len(other)
    same = sum(a == b for a, b in zip(one, other, strict=True)) / len(one)
    assert 0.5 < same < 0.9
