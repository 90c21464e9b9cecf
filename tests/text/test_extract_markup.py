"""The reader of markup against a plain walk over the page it was written from."""

from html import escape

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from dedup_middleware.text.extraction import blocks, markup

BOXES = ("div", "section", "ul", "article", "blockquote")
LINES = ("h2", "address")
UNSEEN = ("svg", "button", "object")


@attrs.frozen
class Node:
    """An element of a page: a text without children, or a tag with some."""

    tag: str
    children: tuple["Node", ...] = ()
    text: str = ""


def write(node: Node) -> str:
    """Markup of a node."""
    if not node.tag:
        return escape(node.text)
    inside = "".join(map(write, node.children))
    return f"<{node.tag}>{inside}</{node.tag}>"


def walk(node: Node) -> list[tuple[str, int, str]]:
    """Blocks of a node by recursion: text, depth of the box it is in, tag."""
    out: list[tuple[str, int, str]] = []
    text: list[str] = []

    def flush(depth: int, tag: str) -> None:
        line = " ".join("".join(text).split())
        text.clear()
        if line:
            out.append((line, depth, tag))

    def visit(node: Node, depth: int, tag: str) -> None:
        for child in node.children:
            if not child.tag:
                text.append(child.text)
            elif child.tag in BOXES:
                flush(depth, tag)
                visit(child, depth + 1, child.tag)
                flush(depth + 1, child.tag)
            elif child.tag in LINES:
                flush(depth, tag)
                visit(child, depth, child.tag)
                flush(depth, child.tag)
            elif child.tag == "br":
                flush(depth, tag)
            elif child.tag not in UNSEEN:
                visit(child, depth, tag)

    visit(node, 0, "body")
    flush(0, "body")
    return out


def read(html: str) -> blocks.Blocks:
    """A page by the pass alone."""
    return blocks.read_directly(html.encode())


def depth(page: blocks.Blocks, container: int) -> int:
    """How many boxes are around a box."""
    return len(list(blocks.ancestors(page, container))) - 1


texts = st.text(alphabet="ab 一。&<é\u3000\U0001f600\n", min_size=1, max_size=8).map(
    lambda text: Node("", text=text)
)
phrasing = st.recursive(
    texts,
    lambda inner: st.builds(
        Node, st.sampled_from(("b", "span", "br")), st.lists(inner, max_size=3).map(tuple)
    ).map(lambda node: Node("br") if node.tag == "br" else node),
    max_leaves=4,
)
lines = st.builds(Node, st.sampled_from(LINES + UNSEEN), st.lists(phrasing, max_size=3).map(tuple))
pages = st.recursive(
    phrasing | lines,
    lambda inner: st.builds(
        Node, st.sampled_from((*BOXES, "span")), st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(pages, max_size=4).map(tuple))
def test_blocks_are_those_of_the_page(children: tuple[Node, ...]) -> None:
    """Text, box and tag of every block agree with a walk over the page."""
    html = "".join(map(write, children)).replace("<br></br>", "<br>")
    assert placed(html) == walk(Node("body", children))


OPEN_ENDED = {"ul": "li", "ol": "li", "dl": "dd", "tr": "td", "table": "tr", "div": "p"}


def write_short(node: Node) -> str:
    """Markup of a node without the end tags that the standard lets out."""
    if not node.tag:
        return escape(node.text)
    inside = "".join(map(write_short, node.children))
    return f"<{node.tag}>{inside}" + f"</{node.tag}>" * (node.tag not in OPEN_ENDED.values())


def parts_of(outer: str, inside: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """A list, a table or a box, whose parts have no end tags; some parts hold what comes next."""
    part = st.builds(Node, st.just(OPEN_ENDED[outer]), st.lists(inside, max_size=3).map(tuple))
    return st.builds(Node, st.just(outer), st.lists(part, max_size=3).map(tuple))


short_lines = st.builds(Node, st.sampled_from(("b", "span", "a")), st.lists(texts).map(tuple))
short_pages = st.recursive(
    texts | short_lines,
    lambda inner: st.one_of(
        *(parts_of(outer, inner) for outer in ("ul", "ol", "dl")),
        parts_of("div", texts | short_lines),
        st.builds(Node, st.just("table"), st.lists(parts_of("tr", inner), max_size=3).map(tuple)),
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(short_pages, max_size=4).map(tuple))
def test_left_out_end_tags_mean_what_they_mean_to_a_parser(children: tuple[Node, ...]) -> None:
    """Blocks are those of the same page as lexbor's HTML5 parser writes it, with all end tags."""
    html = "<body>" + "".join(map(write_short, children))
    assert placed(html) == placed(str(HTMLTree.parse(html)))


def placed(html: str) -> list[tuple[str, int, str]]:
    """Text of each block of a page, depth of the box it is in, and its tag."""
    page = read(html)
    return [(block.text, depth(page, block.container), block.tag) for block in page.blocks]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [f"<{tag}>" for tag in markup.TAGS[1:]]
            + [f"</{tag}>" for tag in markup.TAGS[1:]]
            + ["text ", "一", "<!--", "-->", "<a href='x", "'>", '<p class="', "<", "&lt;", "<x/>"]
        ),
        max_size=60,
    )
)
def test_tables_agree_with_each_other_on_any_heap_of_tags(parts: list[str]) -> None:
    """Containers come before what they hold, and blocks lie in containers that exist."""
    page = read("".join(parts))
    count = len(page.parent)
    assert page.parent[0] == -1
    assert all(0 <= page.parent[i] < i <= page.last[i] < count for i in range(1, count))
    assert all(page.last[i] <= page.last[page.parent[i]] for i in range(1, count))
    positions = [block.container for block in page.blocks]
    assert all(0 <= position < count for position in positions)
    assert all(block.text and 0 <= block.link <= 1 for block in page.blocks)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a<p>b<div>c</div>d", ["a", "b", "c", "d"]),
        ("<ul><li>a<li>b<ul><li>c</ul>d</ul>", ["a", "b", "c", "d"]),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", ["a", "b", "c", "d"]),
        ("<table><tr><td>a</div>b<p>c</table>", ["ab", "c"]),
        ("<dl><dt>a<dd>b<dt>c</dl>", ["a", "b", "c"]),
        ("a<script>if (b < c) '</div>'</script>d", ["ad"]),
        ("a<SCRIPT type='x'>b</Script >c", ["ac"]),
        ("a<!-- <p> -->c", ["ac"]),
        ("a<!-->c", ["ac"]),
        ("a<!-- <p> --!>c", ["ac"]),
        ("a<!-- b", ["a b"]),
        ("a<style>b", ["a"]),
        ("a<scripted>b", ["ab"]),
        ("<textarea>x", ["x"]),
        ("<template>x</template><p>y", ["y"]),
        ("<svg><title>x</title><g>y</g></svg>z", ["z"]),
        ("<ruby>漢<rp>(<rt>かん</rt><rp>)</ruby>字", ["漢字"]),
        ("<div/>a", ["a"]),
        ("<p title='a > b'>c", ["c"]),
        ('<p title="5" tall">c', ["c"]),
        ("1 < 2 &amp; 3 &lt; 4", ["1 < 2 & 3 < 4"]),
        ("a\u3000\u00a0&nbsp; b", ["a b"]),
        ("<select><option>a<option>b</select>c", ["c"]),
    ],
)
def test_rules_of_html(html: str, expected: list[str]) -> None:
    """Start tags close what they must, end tags what they may; what is unseen is no text."""
    assert [block.text for block in read(html).blocks] == expected


def test_share_of_links() -> None:
    """Links count by the bytes inside them, around boxes and boxed alike."""
    page = read("<p>four<a href=x>four</p><a><div>all</div></a><p>none</p>")
    assert [block.link for block in page.blocks] == [0.5, 1.0, 0.0]
    page = read("<p>four<a>b&amp;c &lt;</a><p><a>&nbsp;b&c&no</a>four")
    shares = [5 / len("fourb&c <"), 7 / len("b&c&nofour")]
    assert [block.link for block in page.blocks] == pytest.approx(shares)


def test_title_and_flags() -> None:
    """The first title counts; the class of a paragraph makes it a box only if it says furniture."""
    page = read(
        "<!-- <title>no</title> --><title> A &amp; B </title><title>C</title><body class=x>"
        '<p class="share">s</p><p class="lead">l</p><nav>n</nav></body>'
    )
    assert (page.title, page.body.strip()) == ("A & B", "class=x")
    share, lead, nav = (block.container for block in page.blocks)
    assert page.flags(share) == blocks.FURNITURE
    assert page.parent[share] == lead
    assert page.flags(nav) == blocks.FIXED


@pytest.mark.parametrize("tag", markup.TAGS[1:])
def test_every_tag_is_known_in_any_case(tag: str) -> None:
    """No two names share a key, and case does not matter."""
    lower, upper = (read(f"a<{name}>b</{name}>c") for name in (tag, tag.upper()))
    assert (lower.blocks, lower.parent) == (upper.blocks, upper.parent)
    unknown = read("a<x-y>b</x-y>c")
    assert [block.text for block in unknown.blocks] == ["abc"]
    same = (lower.blocks, lower.parent, lower.title) == (unknown.blocks, unknown.parent, "")
    assert not same or tag in ("ruby", "rt", "a")
