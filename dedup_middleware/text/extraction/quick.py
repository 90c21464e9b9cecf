"""The fast extractor: the core of the text, the frame around it, and when it is doubtful."""

import re
from bisect import bisect
from itertools import islice, pairwise

import attrs

from dedup_middleware.text.extraction.blocks import (
    ARTICLE,
    BODY_NAME,
    CAPTION,
    COMMENT,
    CONSENT,
    FIXED,
    FURNITURE,
    HEADINGS,
    META,
    PANEL,
    Block,
    Blocks,
    ancestors,
)
from dedup_middleware.text.extraction.cleanup import (
    is_menu,
    is_note,
    is_notice,
    is_sentence,
    letters,
)
from dedup_middleware.text.pagelines import is_counter, is_page_line
from dedup_middleware.text.relevant import is_link

# Least weight (UTF-8 bytes) of a block of prose, and the share of links below which it is one.
_PROSE_WEIGHT = 80
_PROSE_LINK = 0.35
# Notices that weigh more than this, and more than half of the prose, are the report itself.
_NOTICES_LIMIT = 1_200
# Furniture with more than this share of the prose, and more text than a footer, is none.
_FURNITURE_LIMIT = 0.5
FURNITURE_LEAST = 300
# Nor is it if its own paragraphs weigh an article and this many times those of any other box.
_ARTICLE = 600
_OUTWEIGHS = 2
# Most weight of a request for consent, unless other prose weighs as much.
_CONSENT = 2_000
# Least letters of a headline.
_HEADLINE = 4
# Largest share of the prose before a headline.
_BEFORE_HEADLINE = 0.25
# Largest weight of a teaser, a paragraph alone in its box.
_TEASER = 400
# The frame grows to a container with this many times its prose.
_GAIN = 1.15
# Most short lines that are kept at the end, and the UTF-8 bytes of a short line.
_SIGNATURE = 2
_LABEL = 40
_SENTENCE_END = frozenset("。！？…”.!?:：")
# Containers around the frame that are searched for tables, and the tags of their content.
_AROUND = 6
_FIELDS = frozenset(("td", "th", "li", "dd", "dt"))
# Least rows of a box named `meta` that is about the job, the event or the flat, not about the page.
_FACTS = 3
# The factor of growth (as _GAIN) in a thread, where each post adds little.
_POST_GAIN = 1.02
# Comments that outweigh the body this many times make the page a discussion.
_DISCUSSION = 0.5
# The names of boxes are ignored if they leave less of the prose than this, and drop this weight.
_NAMES_LIE = 0.25
_NAMES_LEAST = 300
_MOST = 0.75
# Most paragraphs that introduce a report.
_LEAD = 2
# A body below this weight is doubtful; below the second one if there is hardly other prose.
_LEAST = 600
_SHORT = 240
# Least weight of a line that is the whole body, a sentence of some words.
_CAPTION = 24


def long_weight(block: Block) -> int:
    """Weight of a block that is long and has few links, 0 for other blocks."""
    return 0 if block.weight < _PROSE_WEIGHT or block.link > _PROSE_LINK else block.weight


def prose_weights(blocks: list[Block]) -> list[int]:
    """Weight of each block that reads like prose, 0 for the others."""
    weights, notices = [], []
    for position, block in enumerate(blocks):
        weight = long_weight(block)
        if weight and is_notice(block.text, weight):
            notices.append(position)
        elif weight and (is_note(block.text) or is_menu(block.text, weight)):
            weight = 0
        weights.append(weight)
    total = sum(weights[i] for i in notices)
    if total <= max(_NOTICES_LIMIT, sum(weights) / 2):
        for position in notices:
            weights[position] = 0
    return weights


def direct_weights(page: Blocks, weights: list[int]) -> list[int]:
    """Sum of the weights of the blocks directly in each container."""
    direct = [0] * len(page.parent)
    for block, weight in zip(page.blocks, weights, strict=True):
        direct[block.container] += weight
    return direct


def sums(page: Blocks, direct: list[int]) -> list[int]:
    """Sum of the values of each container and of all containers inside it."""
    totals = direct[:]
    parent = page.parent
    for index in range(len(totals) - 1, 0, -1):
        if totals[index]:
            totals[parent[index]] += totals[index]
    return totals


def spared(page: Blocks, direct: list[int]) -> frozenset[int]:
    """Containers that are not furniture, whatever their names: the text of the page is in them."""
    most = max(direct)
    if most < _ARTICLE or most < _OUTWEIGHS * max(sorted(direct)[-2:-1], default=0):
        return frozenset()
    return frozenset(ancestors(page, direct.index(most)))


class Dropped:
    """Whether each container has one of the flags, or is inside a container that has.

    ``totals`` are the `sums` of the prose. A container that has most of it, and more than
    ``least``, is never dropped; one in ``spare`` not as furniture; the page itself never.
    """

    def __init__(
        self,
        page: Blocks,
        totals: list[int],
        mask: int,
        spare: frozenset[int] = frozenset(),
        least: int = FURNITURE_LEAST,
    ) -> None:
        self._page = page
        self._totals = totals
        self._mask = mask
        self._spare = spare
        self._limit = max(totals[0] * _FURNITURE_LIMIT, least)
        self._known = {0: False}
        # In a thread such rows are about those who wrote the posts.
        self._facts: list[int] | None = None if least else []

    def __getitem__(self, index: int) -> bool:
        # Names are looked up for few containers only.
        path: list[int] = []
        known, parent = self._known, self._page.parent
        while index not in known:
            path.append(index)
            index = parent[index]
        out = known[index]
        for index in reversed(path):
            out = known[index] = out or self._is_named(index)
        return out

    def _is_named(self, index: int) -> bool:
        if self._totals[index] > self._limit:
            return False
        flags = self._page.flags(index)
        named = flags & self._mask
        if named == FURNITURE and flags & META and self._has_facts(index):
            return False
        return named & COMMENT != 0 or (named != 0 and index not in self._spare)

    def _has_facts(self, index: int) -> bool:
        """Whether a container has several rows of a label and a value: `Salary: 30,000`."""
        page = self._page
        if self._facts is None:
            self._facts = sorted(
                block.container
                for block in page.blocks
                if block.tag in _FIELDS
                and block.link == 0
                and (block.tag in ("dd", "td") or ": " in block.text)
                and not is_note(block.text)
                and not is_counter(block.text)
            )
        return bisect(self._facts, page.last[index]) - bisect(self._facts, index - 1) >= _FACTS


def without_consent(page: Blocks) -> Blocks:
    """The page with the prose of requests for consent (to cookies) as links, which are no text.

    The sites of a publisher ask in the same words, so pages with little other prose would be
    copies. A box that has a headline or an article in it is no request, whatever its class
    (`post tag-cookies`).
    """
    prose = [(block, long_weight(block)) for block in page.blocks]
    articles = frozenset(
        container
        for block, weight in prose
        if block.tag == "h1" or (weight and page.flags(block.container) & (ARTICLE | BODY_NAME))
        for container in ancestors(page, block.container)
    )
    totals = sums(page, direct_weights(page, [weight for _, weight in prose]))
    asked = Dropped(page, totals, CONSENT, articles, _CONSENT)
    page.blocks = [
        block._replace(link=1.0) if weight and asked[block.container] else block
        for block, weight in prose
    ]
    return page


def after_headline(blocks: list[Block], kept: list[int], title: str) -> int:
    """Position of the first block behind the headline; 0 if the headline is uncertain."""
    headline = letters(title)
    if len(headline) < _HEADLINE:
        return 0
    limit = sum(kept) * _BEFORE_HEADLINE
    longest = 2 * len(title) + 8
    before, first = 0, 0
    for position, block in enumerate(blocks):
        if (
            len(headline) <= len(block.text) <= longest
            and (block.tag in HEADINGS or block.link < 0.5)
            and letters(block.text) == headline
        ):
            first = position + 1
        before += kept[position]
        # The text begins behind the last repetition of the headline above it, not a later one.
        if (kept[position] and first) or before > limit:
            break
    return first


@attrs.frozen
class Found:
    """A body, whether it is certain, and whether the comments weigh more."""

    text: str
    sure: bool
    discussion: bool = False


def find_body(page: Blocks, *, title: str = "", thread: bool = False) -> Found:
    """Body of a page, one block a line. In a forum thread the comments are the body.

    The body of an article follows the headline, which is found by ``title``.
    """
    blocks = page.blocks
    prose = [long_weight(block) for block in blocks] if thread else prose_weights(blocks)
    everything = direct_weights(page, prose)
    captions = {i for i, w in enumerate(everything) if w and page.flags(i) & CAPTION}
    others = [0 if i in captions else w for i, w in enumerate(everything)]
    if thread or sum(everything) <= 2 * sum(others):  # not a gallery
        prose = [0 if b.container in captions else w for b, w in zip(blocks, prose, strict=True)]
        everything, captions = others, set()
    totals = sums(page, everything)
    totals[0] = sum(others)  # text next to a gallery is judged without it
    commented = Dropped(page, totals, COMMENT)
    comments = sum(w for index, w in enumerate(everything) if w and commented[index])
    spare = frozenset[int]() if thread else spared(page, others) | captions
    mask = FIXED | (0 if thread else COMMENT)
    out = Dropped(page, totals, mask | FURNITURE, spare, 0 if thread else FURNITURE_LEAST)
    kept = [w if w and not out[b.container] else 0 for b, w in zip(blocks, prose, strict=True)]
    said = sum(w for w, b in zip(kept, blocks, strict=True) if b.container not in captions)
    misnamed = said < _NAMES_LIE * (totals[0] - comments) - _NAMES_LEAST
    if misnamed:
        # Nearly all text is in boxes named like furniture, so the names mean something else here.
        out = Dropped(page, totals, mask, spare)
        kept = [w if w and not out[b.container] else 0 for b, w in zip(blocks, prose, strict=True)]
    if thread:
        direct = direct_weights(page, kept)
        return _thread(page, _core(page, direct), sums(page, direct), out)
    first = after_headline(blocks, kept, title)
    kept[:first] = [0] * first
    if not any(kept):
        return Found(
            "\n".join(_caption(page, first, out)), False, comments >= (_LEAST if first else 1)
        )
    direct = direct_weights(page, kept)
    good = sums(page, direct)
    rich = _rich(page, kept, direct)
    core = _core(page, direct)
    chosen, named = _frame(page, core, good, rich)
    chosen = _with_fields(page, _with_tabs(page, chosen, good), out, first)
    lines = _lead(page, chosen, kept, first) + _lines(page, chosen, out, kept, first)
    weight = sum(len(line.encode()) for line in lines)
    share = good[chosen] / max(1, good[0])
    sure = weight >= _LEAST and share >= (0.5 if named else 0.75)
    sure = sure or (weight >= _SHORT and share >= 0.9)
    # A caption is certain if there is no more prose than that behind the headline.
    sure = sure or (first > 0 and weight >= _CAPTION and sum(prose[first:]) <= 1.5 * weight)
    if not named:
        sure = (
            sure
            and rich[core] >= 0.7 * rich[chosen]
            and not any(weight > 0 and page.flags(i) & ARTICLE for i, weight in enumerate(good))
        )
    sure = sure and not _is_list(page, good, chosen)
    if misnamed:
        sure = sure and good[chosen] >= _MOST * (totals[0] - comments)
    sure = sure and (named or comments <= weight)
    return Found("\n".join(lines), sure, comments > _DISCUSSION * weight)


def _thread(page: Blocks, core: int, good: list[int], out: Dropped) -> Found:
    """All posts of a thread: the core, and every container around it that adds a post."""
    node = core
    for index in ancestors(page, core):
        if good[index] >= _POST_GAIN * max(1, good[node]):
            node = index
    kept = [
        block
        for block in page.blocks
        if node <= block.container <= page.last[node]
        and not out[block.container]
        and block.link <= 0.5
    ]
    text = "\n".join(block.text for block in kept)
    return Found(text, len(text.encode()) >= _SHORT, True)


def _is_list(page: Blocks, good: list[int], chosen: int) -> bool:
    """Whether the frame holds several articles."""
    inside = range(chosen + 1, page.last[chosen] + 1)
    return sum(good[i] >= 300 and page.flags(i) & ARTICLE != 0 for i in inside) > 1


def _rich(page: Blocks, kept: list[int], direct: list[int]) -> list[int]:
    """Prose in each container and inside it, without single teasers."""
    count = [0] * len(page.parent)
    for block, weight in zip(page.blocks, kept, strict=True):
        if weight:
            count[block.container] += 1
    return sums(
        page, [w if n > 1 or w >= _TEASER else 0 for w, n in zip(direct, count, strict=True)]
    )


def _core(page: Blocks, direct: list[int]) -> int:
    """The container whose own paragraphs weigh most; those one level below count for less."""
    score = [3 * weight for weight in direct]
    for index in range(1, len(direct)):
        score[page.parent[index]] += 2 * direct[index]
    return max(range(len(score)), key=score.__getitem__)


def _frame(page: Blocks, core: int, good: list[int], rich: list[int]) -> tuple[int, bool]:
    """The container around the core that has the body, and whether its name says so."""
    around = list(ancestors(page, core))
    named = [index for index in around if page.flags(index) & BODY_NAME]
    if named:
        widest = max(good[index] for index in named)
        return next(index for index in named if good[index] >= 0.85 * widest), True
    articles = [index for index in around if page.flags(index) & ARTICLE]
    if articles and good[articles[0]] >= 0.4 * good[0]:
        return articles[0], True
    node = core
    for index in around[1:]:
        if rich[index] >= _GAIN * max(1, rich[node]):
            node = index
    outer = around[min(1, len(around) - 1)]
    if node == core and good[outer] > good[node] and good[outer] >= 0.9 * good[0]:
        # All other prose is next to the core: each paragraph has a box of its own.
        node = outer
    if good[node] < 0.5 * good[0]:
        # No container dominates: each paragraph has a box of its own.
        node = next(index for index in around if good[index] >= 0.5 * good[0])
    return node, False


def _with_tabs(page: Blocks, chosen: int, good: list[int]) -> int:
    """The container of all tabs if the frame is one of them, as on the page of a product.

    The frame stays if the container has much more prose: then another tab is a page of its own.
    """
    panel = next((i for i in ancestors(page, chosen) if page.flags(i) & PANEL), 0)
    return page.parent[panel] if panel and good[chosen] >= 0.85 * good[panel] else chosen


def _with_fields(page: Blocks, chosen: int, out: Dropped, first: int) -> int:
    """The container around the frame that adds only table cells and list items, one of them with
    a numeral: prices and results next to a text that is the same on many pages."""
    found = chosen
    for index in islice(ancestors(page, chosen), 1, _AROUND):
        added = [
            block
            for block in page.blocks[first:]
            if index <= block.container <= page.last[index]
            and not found <= block.container <= page.last[found]
            and not out[block.container]
            and not _is_link_line(block)
        ]
        if any(block.tag not in _FIELDS or block.link > 0 for block in added):
            break
        if any(any(map(str.isdecimal, block.text)) for block in added):
            found = index
    return found


def _caption(page: Blocks, first: int, out: Dropped) -> list[str]:
    """The sentences behind the headline of a page that has no prose, with the lists and tables
    among them."""
    read = [
        block
        for block in (page.blocks[first:] if first else ())
        if block.link == 0
        and not out[block.container]
        and not is_note(block.text)
        and not is_notice(block.text, block.weight)
    ]
    said = (b.container for b in read if b.weight >= _CAPTION and is_sentence(b.text))
    container = next(said, -1)
    return [
        block.text
        for block in read
        if (block.container == container and block.weight >= _CAPTION and is_sentence(block.text))
        or (block.tag in _FIELDS and 0 <= container <= block.container <= page.last[container])
    ]


def _lines(page: Blocks, chosen: int, out: Dropped, kept: list[int], first: int) -> list[str]:
    """Lines of the body inside the chosen container."""
    last = page.last[chosen]
    inside = [
        position
        for position, block in enumerate(page.blocks)
        if position >= first
        and chosen <= block.container <= last
        and not out[block.container]
        and not _is_link_line(block)
    ]
    lines = [page.blocks[position] for position in inside]
    while (
        lines
        and lines[-1].tag in HEADINGS
        and not (long_weight(lines[-1]) and is_sentence(lines[-1].text))
    ):
        lines.pop()
    end = len(lines)
    box = _box_of_data(page, next((place for place in reversed(inside) if kept[place]), -1))
    while end and not kept[inside[end - 1]] and _is_tail(lines[end - 1]):
        if lines[end - 1].container == box and not is_note(lines[end - 1].text):
            break
        end -= 1
    # One or two short lines are a signature, more are the titles of boxes below the body.
    return _rows(page, lines[:end] if len(lines) - end > _SIGNATURE else lines)


def _rows(page: Blocks, lines: list[Block]) -> list[str]:
    """The lines; a value stands behind its label, a term or the first of two cells, unless such a
    row would be left out as a line about the page: `Published: 4 March 2031` in a catalogue."""
    told = [block.text for block in lines[:1]]
    for label, block in pairwise(lines):
        row, cell = page.parent[label.container], block.container
        two = row == label.container - 1 == page.parent[cell] and page.last[cell] == page.last[row]
        value = (label.tag == "dt" and block.tag == "dd") or (two and block.tag == "td")
        is_label = label.weight < _LABEL and label.text[-1] not in _SENTENCE_END - {*":："}
        line = f"{label.text.rstrip(':： ')}: {block.text}" if value and is_label else ""
        if line and not is_page_line(line) and not is_link(line):
            told[-1] = line
        else:
            told.append(block.text)
    return told


def _lead(page: Blocks, chosen: int, kept: list[int], first: int) -> list[str]:
    """Paragraphs between the headline and the frame, which introduce the report."""
    if not first:
        return []
    lead: list[str] = []
    for position in range(first, len(page.blocks)):
        block = page.blocks[position]
        if chosen <= block.container <= page.last[chosen]:
            # More than a few paragraphs are another text.
            return lead if len(lead) <= _LEAD else []
        if kept[position]:
            lead.append(block.text)
    return []


# A row of facts whose words are linked: a score, a quantity, a label with a name. Dates, counters,
# headlines behind a label and addresses are those of other pages.
_FACT = re.compile(
    r"(?:\D{3,30}\s)?\d{1,2}\s?[-–:]\s?\d{1,2}\s\D{3,30}"
    r"|\d{1,4}(?:[.,/]\d{1,2})?\s(?!\w+ \d)[^\d:|@]{3,40}"
    r"|[^\W\d_][^\d:|@/]{2,20}: [^\d:|@/.!?]{2,20}(?:\s[^\d:|@/.!?]{1,20}){0,2}"
)


def _box_of_data(page: Blocks, last: int) -> int:
    """The container of the last paragraph if no links follow in it; else -1. Short lines in it are
    data: a score, an opening hour."""
    if last < 0:
        return -1
    box = page.blocks[last].container
    linked = any(b.container == box and _is_link_line(b) for b in page.blocks[last + 1 :])
    return -1 if linked else box


def _is_tail(block: Block) -> bool:
    """Whether a block at the end is about the page: a label, a note, a notice."""
    # A label is a few words outside a list or a table, and no sentence.
    is_label = (
        block.weight < _LABEL
        and block.tag not in ("li", "td", "th", "dd")
        and block.text[-1] not in _SENTENCE_END
    )
    return is_label or is_note(block.text) or is_notice(block.text, block.weight)


def _is_link_line(block: Block) -> bool:
    """Whether a block is a link to another page rather than text. In a row of facts only some words
    are linked: the numeral or the label is not."""
    if 0.5 < block.link <= 0.8 and block.weight < 60:
        text = block.text
        about = is_note(text) or is_link(text) or is_page_line(text)
        return about or _FACT.fullmatch(text) is None
    return (block.link > 0.8 and block.weight < 400) or (block.link > 0.5 and block.weight < 60)
