"""Hostile pages cost bounded work: the parts that may take the square of a page never see them."""

import subprocess
import sys

import pytest

from dedup_middleware.text import extract as module
from dedup_middleware.text.extract import extract
from dedup_middleware.text.extraction import blocks, markup, metadata

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


@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize(
    "tag", ["<div>", "<b>", "<a href=x>", "<p><b>", "<table><tr><td>", "<ul><li>", "<a><b><i><div>"]
)
@pytest.mark.parametrize("count", [5_000, N])
def test_deep_nesting(tag: str, count: int) -> None:
    """A hundred thousand nested tags never reach the slow extractor; prose behind them is kept."""
    page = extract(tag * (count // tag.count("<")) + BODY)
    assert page.text == "" or "repair the bridge" in page.text


@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize("pattern", ['a{}="x"', "a{}", 'a{}="<b>"', "a{}='\">'", "a{}=x"])
def test_endless_attributes(pattern: str) -> None:
    """Attributes, which parsers compare with each other, are passed over and hide nothing."""
    assert "repair the bridge" in extract(attributes(pattern)).text


@pytest.mark.usefixtures("no_slow_path")
def test_too_many_tags_for_other_libraries() -> None:
    """Pages of more tags than any article has are read by our own rules."""
    page = extract("<i></i>" * (5 * module.MAX_TAGS) + BODY)
    assert page.extractor == "quick"
    assert page.text.split("\n") == [PROSE.strip()] * 5


def test_formatting_that_is_never_closed_is_not_opened_again() -> None:
    """A page that a parser of HTML5 makes a tree of 130 MB of stays as small as it is."""
    page = "<p>" + "".join(f"<font color=c{i}>" for i in range(1_000)) + "<p>x" * 5_000
    boxes, text = blocks.read(page), [block.text for block in blocks.read(page).blocks]
    assert len(boxes.parent) <= 2
    assert text == ["x"] * 5_000
    assert "repair the bridge" in extract(page + BODY).text


def test_tables_of_the_reader_are_bounded() -> None:
    """Boxes and blocks beyond the limits are not kept; the text of boxes stays in the last one."""
    page = blocks.read("<div>x" * (markup.MAX_CONTAINERS + 1_000))
    assert len(page.parent) <= markup.MAX_DEPTH + 1
    page = blocks.read("<div>x</div>" * (markup.MAX_CONTAINERS + 1_000))
    assert len(page.parent) == markup.MAX_CONTAINERS
    assert len(page.blocks) == markup.MAX_CONTAINERS + 1_000
    assert len(blocks.read("<br>x" * (markup.MAX_BLOCKS + 10)).blocks) == markup.MAX_BLOCKS


@pytest.mark.usefixtures("no_slow_path")
def test_many_tags_keep_to_the_fast_path() -> None:
    """Pages of more tags than the slow extractor may see are left to our own rules."""
    html = "<div>x</div>" * (module.MAX_TAGS // 2 + 1)
    assert not module.is_ordinary(html)
    assert extract(html).extractor in ("quick", "none")


@pytest.mark.slow
@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize("unit", ["<p>word</p>", "x", "&amp;", "<br>text", "</p>", "<"])
def test_twenty_megabytes(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a page of 20 MB no step sees more than the limit."""
    seen: list[int] = []
    is_ordinary = module.is_ordinary

    def spy(html: str) -> bool:
        seen.append(len(html))
        return is_ordinary(html)

    monkeypatch.setattr(module, "is_ordinary", spy)
    extract("<body>" + unit * (20_000_000 // len(unit)))
    assert max(seen, default=0) <= module.MAX_SIZE


@pytest.mark.parametrize(
    "unit",
    ["<script>", "<!--", "<!-- <p>", "<template>", "<svg>", "<textarea>", "<a b='", '<a b="'],
)
@pytest.mark.parametrize("end", ["", "</p>", "<div>"])
def test_what_never_ends_is_searched_once(unit: str, end: str) -> None:
    """Each of 150,000 openings costs the same: the square of this page would not end."""
    page = blocks.read((unit + end) * 150_000)
    assert len(page.blocks) <= markup.MAX_BLOCKS
    assert page.parent[0] == -1


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["a", "li", "p", "h2", "b"])
def test_end_tags_without_a_start_cost_no_search_of_the_page(inside: str) -> None:
    """The stack of open elements is bounded, so is the search for what an end tag ends."""
    page = blocks.read(
        "<div><td>" + f"<ul><{inside}>" * 100_000 + "</div></section>" * 100_000 + "x"
    )
    assert [block.text for block in page.blocks] == ["x"]
    assert len(page.parent) <= markup.MAX_CONTAINERS


@pytest.mark.parametrize("unit", ["<h1>", "<meta ", "<title>", "<html lang ", "<body ", "<h1 a='"])
def test_metadata_looks_at_a_bounded_part(unit: str) -> None:
    """Whatever never ends, titles are short, and the page is no thread."""
    html = unit * 120_000
    assert len(metadata.title(html, blocks.read(html))) <= 4_000
    assert metadata.is_thread(html.encode(), blocks.read(html)) is False


# Pages that take a parser more than 300 MB, or seconds, when it is shown all of them.
BOMBS = {
    "formatting": "<p>" + "".join(f"<font color=c{i}>" for i in range(1_000)) + "<p>x" * 5_000,
    "attributes among texts": "<p>" + f"{'x' * 32}<td class=a>" * 20_000,
    "attributes in tables": "<table>" + f"{'x' * 32}<tr class=a>" * 20_000,
    "comments in tables": "<table>" + f"{'x' * 32} <!-- x -->x" * 20_000,
    "declarations": "<p>" + f"{'x' * 32}<!doctype abc>" * 20_000,
    "options": "<select>" + "<option>x" * 100_000,
    "ruby": "<rp>" * 150_000,
    "unknown end tags": "<span></x>" * 150_000,
    "links in cells": "<table><tr><td><a href=x><b><p>" * 20_000,
    "names": "".join(f"<x{i}></x{i}>" for i in range(150_000)),
    "body again": "".join(f"<body a{i}=x>" for i in range(50_000)),
    "marks": "<" * 1_000_000,
    "drawings": "<svg><desc><p><b><svg>" * 20_000,
}
BOUNDED = """
import resource
import numpy as np
from dedup_middleware.text.extraction import blocks, trim
from tests.text.test_extract_hostile import BOMBS
blocks.read("<p>x</p>")
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 300_000_000,) * 2)
for name, page in BOMBS.items():
    blocks.read(page)
    verdict, rest, *_ = trim.trimmed(np.frombuffer(page.encode(), np.uint8))
    if verdict == trim.FINE and blocks.well_formed(rest.tobytes()) is None:
        print(name)
print("whole", blocks.well_formed(BOMBS["formatting"].encode()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_no_page_takes_the_parser_much_memory() -> None:
    """With 300 MB left the parser does what it is given to do; of a whole bomb it makes no tree."""
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("whole None\n", 0), done.stderr
