"""What a parser is shown of a page: against a plain twin, and against all of the page."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from resiliparse.parse import html as resiliparse
from resiliparse.parse.html import HTMLTree

from dedup_middleware.text.extract import extract
from dedup_middleware.text.extraction import blocks, markup, trim
from tests.text import trimtwin

PROSE = "The council met on Monday and agreed to repair the bridge before the winter begins. " * 3
PAGE = f"<!doctype html><title>Bridge</title><body class=x><p>{PROSE}<b>x</b></p><p>{PROSE}"

KNOWN = sorted(
    {*trimtwin.KNOWN, *trimtwin.FORMATTING, *trimtwin.VOIDS, *trimtwin.BREAKOUTS, "tbody", "x-y"}
)
PIECES = [
    *(f"<{name}>" for name in KNOWN),
    *(f"</{name}>" for name in KNOWN),
    *("text ", "一", " \n", "&lt;", "<", "< b", "</>", "</ x>", "<?x>", "<!x>", "<!DocType html>"),
    *("<!--", "-->", "--!>", "<!-->", "<!--->", "<!---!>", "<!-- <!-->", "<script>", "</script>"),
    *("<script><!--", "<!--<script>", "</SCRIPT >", "<title>a", "</title\n>", "<style>"),
    *("<p", "<div", "<svg", "<b", "<a", "<body", ">", "/>", "/", " ", "=", "'", '"', " class=x"),
    *(" CLASS = 'x'", ' id="<p>"', " hidden", " style", " title='>'", " aria-hidden=true", " on=y"),
]


def trimmed(html: str) -> tuple[int, str, list[str]]:
    """Verdict, what is left, and the content of the title, the attributes of body and boxes."""
    data = html.encode()
    verdict, page, attributes, spans = trim.trimmed(np.frombuffer(data, np.uint8))
    if verdict != trim.FINE:
        return verdict, page.tobytes().decode(), []
    parts = [data[start:end].decode() for start, end in (*spans.tolist(), *attributes.tolist())]
    return verdict, page.tobytes().decode(), parts


def placed(page: blocks.Blocks) -> list[tuple[str, float, str, list[int]]]:
    """Text and share of links of each block, its tag, and the flags of the boxes around it."""
    return [
        (b.text, b.link, b.tag, [page.flags(i) for i in blocks.ancestors(page, b.container)])
        for b in page.blocks
    ]


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_heap_of_tags_is_trimmed_as_by_the_twin(html: str) -> None:
    """Verdict, markup and places are those of regular expressions, byte for byte."""
    verdict, page, parts = trimmed(html)
    twin = trimtwin.trimmed(html)
    assert (verdict, page) == (twin.verdict, twin.page)
    if verdict == trim.FINE:
        assert parts == [html[slice(*twin.title)], html[slice(*twin.body)], *twin.attributes]


# Without what readers do not see: misnested formatting ends it elsewhere than the span
# in its place. Nor is there SVG or MathML, where a slash closes a tag.
SEEN = [
    *(f"<{name}>" for name in (*markup.BOXES, *markup.HEADINGS, "p", "pre", "dt", "br", "hr", "a")),
    *(f"</{name}>" for name in (*markup.BOXES, *markup.HEADINGS, "p", "pre", "dt", "br", "a")),
    *(f"<{slash}{name}>" for slash in ("", "/") for name in sorted(trimtwin.FORMATTING - {"nobr"})),
    *("<font color=a>", "<tbody>", "</tbody>", "<caption>", "</caption>", "<x-y>", "</x-y>"),
    *("one", "two ", "一", " ", "&lt;", "&nbsp;", "1 < 2", "<!-- x -->", "<!-->", "<!x>", "</>"),
    *("<script>if (a < b) '<p>'</script>", "<style>p>a{}</style>", "<title>t</title>"),
    *('<p class="a>b" title=">" onclick="<b>">', "<div hidden id='x' class=y>", "<a href='<p>'>"),
    *("<img src=x alt='>'>", "<input value=x>", "<textarea><p></textarea>", "<iframe></iframe>"),
]


def seen(page: blocks.Blocks) -> list[tuple[str, str]]:
    """Letters and tag of each block."""
    return [("".join(block.text.split()), block.tag) for block in page.blocks]


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(SEEN), max_size=20).map("".join))
def test_a_trimmed_page_has_the_text_of_the_whole_one(html: str) -> None:
    """What is left out changes no block of the tree, however badly the page is nested."""
    assert trimmed(html)[0] == trim.FINE
    whole = str(HTMLTree.parse(html)).encode()
    assert seen(blocks.read(html)) == seen(blocks.read_directly(whole))


SCRIPT = [*("<!--", "-->", "<script>", "</script>", "<SCRIPT ", "</script/", "<scripts>", ">")]


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from([*SCRIPT, "-", "!", "<", "/", "a", "<!-->"]), max_size=16))
@example(["</script>", "<!--", "!", ">", "-->"])
@example(["</script>", "<!--", "-", "!", ">", "-->"])
def test_a_script_ends_where_the_parser_ends_it(parts: list[str]) -> None:
    """Emptied of its scripts, the tree of a page is that of the page without them."""
    html = f"<body><script>{''.join(parts)}"
    verdict, _, _ = trimmed(html)
    if verdict == trim.FINE:
        whole: Any = HTMLTree.parse(html)
        for script in whole.document.get_elements_by_tag_name("script"):
            script.text = ""
        assert seen(blocks.read_directly(str(whole).encode())) == seen(blocks.read(html))


tags = st.sampled_from(("div", "p", "b", "font", "a", "ul", "li", "em", "x-y", "section"))
nested = st.recursive(
    st.sampled_from(("one ", "二", "<br>", "<img>", "<!-- c -->", "<script>if (a < b)</script>")),
    lambda inside: st.builds(
        lambda tag, parts: f"<{tag} class=c{len(parts)} title=x>{''.join(parts)}</{tag}>",
        tags,
        st.lists(inside, max_size=4),
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(nested)
def test_a_well_nested_page_is_read_alike_in_every_way(html: str) -> None:
    """Text, links, tags and names equal what the pass reads from the parser's output."""
    page = f"<!doctype html><body>{html}"
    whole = str(HTMLTree.parse(page)).encode()
    assert placed(blocks.read(page)) == placed(blocks.read_directly(whole))


def test_ordinary_pages_go_through_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser gets the page without scripts, comments and attributes that are not used."""
    pages: list[bytes] = []
    parse = blocks.well_formed

    def spy(page: bytes) -> bytes | None:
        pages.append(page)
        return parse(page)

    monkeypatch.setattr(blocks, "well_formed", spy)
    page = blocks.read(PAGE.replace("<p>", "<script>x</script><!-- c --><p class=a onclick=b>"))
    assert [block.text for block in page.blocks] == [f"{PROSE}x", PROSE.strip()]
    assert (page.title, page.body.strip()) == ("Bridge", "class=x")
    (shown,) = pages
    assert b"c -->" not in shown
    assert b"onclick" not in shown
    assert b"<script></script>" in shown


class PanicException(BaseException):
    """What a panic in Rust is to Python."""


@pytest.mark.parametrize("error", [RuntimeError("no tree"), MemoryError(), PanicException()])
def test_a_fault_of_the_parser_is_no_fault_of_the_page(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the library raises, the page is read as it is."""

    class Broken:
        @staticmethod
        def parse(_: str) -> None:
            raise error

    monkeypatch.setattr(resiliparse, "HTMLTree", Broken)
    assert blocks.well_formed(PAGE.encode()) is None
    page = blocks.read(PAGE)
    assert page.title == "Bridge"
    assert placed(page) == placed(blocks.read_directly(PAGE.encode()))
    assert extract(PAGE).text.split("\n") == [f"{PROSE}x", PROSE.strip()]


def test_whoever_stops_the_program_stops_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C is no fault of the library."""

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(resiliparse, "HTMLTree", SimpleNamespace(parse=interrupt))
    with pytest.raises(KeyboardInterrupt):
        blocks.well_formed(PAGE.encode())


@pytest.mark.parametrize(
    ("html", "verdict"),
    [
        ("<p>a" + "<i></i>" * (trim.MAX_TAGS // 2 - 1), trim.FINE),
        ("<p>a" + "<i></i>" * (trim.MAX_TAGS // 2), trim.TOO_MUCH),
        ("<p>a" + "<!---->" * trim.MAX_TAGS, trim.FINE),
        ("<" * trim.MAX_TAGS, trim.FINE),
        ("<" * (trim.MAX_TAGS + 1), trim.TOO_MUCH),
        ("<div>" * (trim.MAX_OPEN + 1), trim.TOO_MUCH),
        ("<div>" * 2_000 + "</i>" * 1_000, trim.FINE),
        ("<div>" * 2_000 + "</i>" * 1_001, trim.TOO_MUCH),
        ("<option>a" * trim.MAX_OPTIONS, trim.FINE),
        ("<option>a" * (trim.MAX_OPTIONS + 1), trim.TOO_MUCH),
        ("<p>a<plaintext>b", trim.TOO_MUCH),
        *((html, trim.ENDLESS) for html in ("<!-- a", "<p title='a>b", "<p", "<script>a", "</")),
        *((html, trim.FINE) for html in ("", "<", "a", "<p>" * 1_000, "<svg/>" * 9_000)),
    ],
)
def test_what_would_cost_a_parser_too_much_is_refused(html: str, verdict: int) -> None:
    """Tags, open elements and options are counted, and what never ends is found."""
    found, page, _ = trimmed(html)
    assert found == verdict
    assert page == "" or found == trim.FINE


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<B>a</b>", "<span>a</span>"),
        ("a</b>b</p>", "ab</p>"),
        ("<b><i>a</b></i>", "<span><span>a</span></span>"),
        ("<P Class=a><p b><p c=d>", "<P yaa zaa><p><p yaa zab>"),
        ("<a href=x class=y>a</a>", "<a>a</a>"),
        ("a  <!-- b --> \n c", "a c"),
        ("<svg><path/><style/></svg>", "<svg><path></path><style></style></svg>"),
        ("<style/>a</style>", "<style></style>"),
        ("<script>a<!-- <script>b</script> --></script >c", "<script></script>c"),
        ("<script>a<!-- <script>b --></script>c", "<script></script>c"),
        ("<script>a<!--></script>c", "<script></script>c"),
        ("<<!-- x -->b><</b>i>", "&lt;b>&lt;i>"),
        ("<svg><title>a</title></svg>", "<svg><title></title></svg>"),
        ("<?xml?> <!DOCTYPE a><p><!DOCTYPE b>", " <!DOCTYPE a><p>"),
        ("<p/ ><svg/ /><svg / ><svg a=/>", "<p><svg></svg><svg><svg>"),
        ("<div id=a/>b<br/>", "<div yaa zaa>b<br>"),
        ("a<body b=c><body d=e>f", "a<body yaa zaa><body>f"),
    ],
)
def test_what_is_left_of_a_page(html: str, expected: str) -> None:
    """Content of raw elements, comments and most attributes go; formatting becomes a span."""
    assert trimmed(html)[:2] == (trim.FINE, expected)
