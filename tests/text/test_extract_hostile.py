"""Hostile pages cost bounded work: the parts that may take the square of a page never see them."""

from collections.abc import Callable

import pytest

from dedup_middleware.text import extract as module
from dedup_middleware.text.extract import extract
from dedup_middleware.text.extraction import blocks, metadata, source

PROSE = "The council met on Monday and agreed to repair the bridge before the winter begins. " * 3
BODY = f"<p>{PROSE}</p>" * 5
N = 100_000


def attributes(pattern: str) -> str:
    """A tag with a hundred thousand attributes of the pattern."""
    return "<div " + " ".join(pattern.format(i) for i in range(N)) + f">{BODY}"


@pytest.fixture
def no_slow_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the slow extractor an error."""

    def refuse(html: str, **_: object) -> str:
        raise AssertionError(f"slow extractor called with {len(html)} characters")

    monkeypatch.setattr(module, "thorough_body", refuse)


@pytest.fixture
def no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make parsing an error."""

    def refuse(html: str) -> object:
        raise AssertionError(f"parser called with {len(html)} characters")

    monkeypatch.setattr(blocks, "parse", refuse)


@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize(
    "tag", ["<div>", "<b>", "<a href=x>", "<p><b>", "<table><tr><td>", "<ul><li>", "<a><b><i><div>"]
)
@pytest.mark.parametrize("count", [5_000, N])
def test_deep_nesting(tag: str, count: int) -> None:
    """A hundred thousand nested tags never reach the slow extractor; prose behind them is kept."""
    page = extract(tag * (count // tag.count("<")) + BODY)
    assert page.text == "" or "repair the bridge" in page.text


@pytest.mark.usefixtures("no_slow_path", "no_tree")
@pytest.mark.parametrize("pattern", ['a{}="x"', "a{}", 'a{}="<b>"', "a{}='\">'", "a{}=x"])
def test_endless_attributes(pattern: str) -> None:
    """Attributes, which parsers compare with each other, are counted before any parser runs."""
    assert "repair the bridge" in extract(attributes(pattern)).text


@pytest.mark.usefixtures("no_slow_path", "no_tree")
def test_too_many_tags_for_a_tree() -> None:
    """Pages of more tags than any article has are read without a tree."""
    page = extract("<i></i>" * (source.MAX_TREE_TAGS // 2 + 1) + BODY)
    assert page.extractor == "flat"
    assert "repair the bridge" in page.text


@pytest.mark.usefixtures("no_slow_path")
def test_many_tags_keep_to_the_fast_path() -> None:
    """Pages of more tags than the slow extractor may see are left to our own rules."""
    html = "<div>x</div>" * (source.MAX_TAGS // 2 + 1)
    assert source.survey(html).has_tree
    assert not source.survey(html).is_ordinary
    assert extract(html).extractor in ("quick", "none")


@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize("unit", ["<p>word</p>", "x", "&amp;", "<br>text", "</p>", "<"])
def test_twenty_megabytes(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a page of 20 MB no step sees more than the limit."""
    seen: list[int] = []
    survey = source.survey

    def spy(html: str) -> source.Survey:
        seen.append(len(html))
        return survey(html)

    monkeypatch.setattr(source, "survey", spy)
    extract("<body>" + unit * (20_000_000 // len(unit)))
    assert max(seen, default=0) <= source.MAX_SIZE


class Counting:
    """A stand-in for a string that counts the characters its searches pass over."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.passed = 0

    def find(self, needle: str, start: int) -> int:
        """Like ``str.find``."""
        place = self.text.find(needle, start)
        self.passed += (place if place >= 0 else len(self.text)) - start
        return place


@pytest.mark.parametrize(
    "unit",
    ["<script>x</script>", "<script>", "<!--", "<!-- x -->", "<template>", "<svg>", "<style>"],
)
def test_removing_scripts_is_linear(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each spelling of an end tag is searched once over the page, however many begin."""
    size = 20_000
    html = unit * size + "</SCRIPT></STYLE>"
    counting = Counting(html)
    monkeypatch.setattr(source, "find", lambda _, needle, start: counting.find(needle, start))
    source.without_unseen(html)
    assert counting.passed <= 20 * len(html)


@pytest.mark.parametrize(
    ("markup", "visible"),
    [
        ("a<script>b</script>c", "a</script>c"),
        ("a<SCRIPT type='x'>b</Script >c", "a</Script >c"),
        ("a<!-- <p> -->c", "ac"),
        ("a<!-->c", "ac"),
        ("a<!-- b", "a<! b"),
        ("a<style>b", "a"),
        ("a<scripted>b", "a<scripted>b"),
        ("<template>x</template><p>y", "</template><p>y"),
    ],
)
def test_unseen_parts(markup: str, visible: str) -> None:
    """Scripts and comments go; an unclosed comment hides nothing, an unclosed script all."""
    assert source.without_unseen(markup) == visible


def test_survey_counts_attributes_as_the_standard_does() -> None:
    """Quotes hide markup after an equals sign only, so a stray quote does not swallow the page."""
    long = " ".join(f'a{i}="<p>"' for i in range(700))
    assert source.survey(f"<div {long}><p class=b>").attributes == pytest.approx(700, abs=2)
    stray = '<a title="5" tall">' + "<p>some text</p>" * 2_000
    assert source.survey(stray).attributes == 0


@pytest.mark.parametrize("step", [metadata.title, metadata.language, metadata.is_thread])
@pytest.mark.parametrize("unit", ["<h1>", "<meta ", "<title>", "<html lang ", "<body ", "<h1 a='"])
def test_metadata_looks_at_a_bounded_part(step: Callable[[str], object], unit: str) -> None:
    """Titles are searched in the first part of a page: its tail changes nothing."""
    html = unit * 120_000
    assert step(html + "<title>late</title>") == step(html + "<title>other</title>")
