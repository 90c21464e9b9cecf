"""The fast extractor: the core of the text, the frame around it, and when to doubt it."""

import attrs

from dedup_middleware.text.extraction.blocks import HEADINGS, Block, Blocks, ancestors
from dedup_middleware.text.extraction.boilerplate import is_menu, is_notice, is_sentence
from dedup_middleware.text.extraction.cleanup import is_note, letters
from dedup_middleware.text.extraction.names import ARTICLE, BODY_NAME, COMMENT, FURNITURE

# A block counts as prose from this weight (UTF-8 bytes) and below this share of links.
_PROSE_WEIGHT = 80
_PROSE_LINK = 0.35
# A paragraph that stands alone counts as a teaser up to this weight.
_TEASER = 400
# The frame grows to a container around it that holds this much more prose.
_GAIN = 1.15
# Short lines at the end that are kept, and what is short (UTF-8 bytes).
_SIGNATURE = 2
_LABEL = 40
_SENTENCE_END = frozenset("。！？…”.!?:：")
# The same for a thread, where each post adds little.
_POST_GAIN = 1.02
# Comments that outweigh the body this many times make the page a discussion.
_DISCUSSION = 0.5
# Letters a headline has at least.
_HEADLINE = 4
# A body below this weight is in doubt.
_LEAST = 600
# Down to this weight it is not when there is hardly any other prose on the page.
_SHORT = 240
# Furniture that holds more of the prose than this, and more than a footer does, is no furniture.
_FURNITURE_LIMIT = 0.5
_FURNITURE_LEAST = 300
# Furniture whose own paragraphs weigh this many times those of any other container is none either.
_OUTWEIGHS = 2
# Notices that weigh more than this, and more than half of the prose, are the report itself.
_NOTICES_LIMIT = 2_000
# A headline has at most this share of the prose before it.
_BEFORE_HEADLINE = 0.25
# A line that is the whole body weighs at least this, a sentence of some words.
_CAPTION = 24


@attrs.frozen
class Found:
    """A body, whether it is beyond doubt, and whether comments weigh more than it does."""

    text: str
    sure: bool
    discussion: bool = False


def find_body(page: Blocks, *, title: str = "", thread: bool = False) -> Found:
    """Body of a page, one block a line. In a forum thread the comments are the body.

    The body of an article stands behind the headline, which is found by ``title``.
    """
    prose = [_prose(block) for block in page.blocks] if thread else prose_weights(page.blocks)
    dropped = _dropped(page, prose, FURNITURE if thread else FURNITURE | COMMENT, thread=thread)
    kept = [0 if dropped[b.container] else w for b, w in zip(page.blocks, prose, strict=True)]
    first = 0 if thread else _after_headline(page.blocks, kept, title)
    kept[:first] = [0] * first
    if not any(kept) and not thread:
        return Found("\n".join(_caption(page, first, dropped)), False, any(prose))
    good = _totals(page, kept)
    direct, rich = _rich(page, kept)
    core = _core(page, direct)
    if thread:
        return _thread(page, core, good, dropped)
    chosen, named = _frame(page, core, good, rich)
    lines = _lines(page, chosen, dropped, first)
    weight = sum(len(line.encode()) for line in lines)
    share = good[chosen] / max(1, good[0])
    sure = weight >= _LEAST and share >= (0.5 if named else 0.75)
    sure = sure or (weight >= _SHORT and share >= 0.9)
    # A caption, when no more prose than that stands anywhere behind the headline.
    sure = sure or (first > 0 and _CAPTION <= weight and sum(prose[first:]) <= 1.5 * weight)
    if not named:
        sure = sure and rich[core] >= 0.7 * rich[chosen] and not _has(page, good, ARTICLE)
    sure = sure and not _is_list(page, good, chosen)
    commented = _dropped(page, prose, COMMENT)
    comments = sum(prose) - sum(
        w for b, w in zip(page.blocks, prose, strict=True) if not commented[b.container]
    )
    sure = sure and (named or comments <= weight)
    return Found("\n".join(lines), sure, comments > _DISCUSSION * weight)


def _thread(page: Blocks, core: int, good: list[int], dropped: list[bool]) -> Found:
    """All posts of a thread: the core, and around it every container that adds a post."""
    node = core
    for index in ancestors(page, core):
        if good[index] >= _POST_GAIN * max(1, good[node]):
            node = index
    kept = [block for block in _inside(page, node, dropped) if block.link <= 0.5]
    text = "\n".join(block.text for block in kept)
    return Found(text, len(text.encode()) >= _SHORT, True)


def _has(page: Blocks, good: list[int], flag: int) -> bool:
    """Whether any container with the flag holds prose."""
    return any(flags & flag and good[i] > 0 for i, flags in enumerate(page.flags))


def _is_list(page: Blocks, good: list[int], chosen: int) -> bool:
    """Whether the frame holds several articles."""
    inside = range(chosen + 1, page.last[chosen] + 1)
    return sum(page.flags[i] & ARTICLE != 0 and good[i] >= 300 for i in inside) > 1


def _rich(page: Blocks, kept: list[int]) -> tuple[list[int], list[int]]:
    """Prose directly in each container; and summed inside it, single teasers left out."""
    direct = [0] * len(page.parent)
    count = [0] * len(page.parent)
    for block, weight in zip(page.blocks, kept, strict=True):
        if weight:
            direct[block.container] += weight
            count[block.container] += 1
    rich = [w if n > 1 or w >= _TEASER else 0 for w, n in zip(direct, count, strict=True)]
    for index in range(len(rich) - 1, 0, -1):
        rich[page.parent[index]] += rich[index]
    return direct, rich


def _core(page: Blocks, direct: list[int]) -> int:
    """The container whose own paragraphs weigh most, those one level below counted for less."""
    score = [3 * weight for weight in direct]
    for index in range(1, len(direct)):
        score[page.parent[index]] += 2 * direct[index]
    return max(range(len(score)), key=score.__getitem__)


def _frame(page: Blocks, core: int, good: list[int], rich: list[int]) -> tuple[int, bool]:
    """The container around the core that holds the body, and whether its name says so."""
    around = list(ancestors(page, core))
    named = [index for index in around if page.flags[index] & BODY_NAME]
    if named:
        widest = max(good[index] for index in named)
        return next(index for index in named if good[index] >= 0.85 * widest), True
    articles = [index for index in around if page.flags[index] & ARTICLE]
    if articles and good[articles[0]] >= 0.4 * good[0]:
        return articles[0], True
    node = core
    for index in around[1:]:
        if rich[index] >= _GAIN * max(1, rich[node]):
            node = index
    outer = around[min(1, len(around) - 1)]
    if node == core and good[outer] > good[node] and good[outer] >= 0.9 * good[0]:
        # All other prose is next to the core: paragraphs in a box each.
        node = outer
    if good[node] < 0.5 * good[0]:
        # No container stands out: paragraphs that are each in a box of their own.
        node = next(index for index in around if good[index] >= 0.5 * good[0])
    return node, False


def _prose(block: Block) -> int:
    """Weight of a block that is long and has few links, 0 for others."""
    return 0 if block.weight < _PROSE_WEIGHT or block.link > _PROSE_LINK else block.weight


def prose_weights(blocks: list[Block]) -> list[int]:
    """Weight of each block that reads like prose, 0 for the others."""
    weights, notices = [], []
    for position, block in enumerate(blocks):
        weight = _prose(block)
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


def _after_headline(blocks: list[Block], kept: list[int], title: str) -> int:
    """Position of the first block behind the headline; 0 when there is none to be sure of."""
    headline = letters(title)
    if len(headline) < _HEADLINE:
        return 0
    limit = sum(kept) * _BEFORE_HEADLINE
    before, first = 0, 0
    for position, block in enumerate(blocks):
        if (block.tag in HEADINGS or block.link < 0.5) and letters(block.text) == headline:
            first = position + 1
        before += kept[position]
        # The text begins behind the last mention of the headline above it, not at a later one.
        if kept[position] and first or before > limit:
            break
    return first


def _caption(page: Blocks, first: int, dropped: list[bool]) -> list[str]:
    """The sentences behind the headline of a page that has no prose."""
    lines: list[str] = []
    container = -1
    for block in page.blocks[first:] if first else ():
        if (
            block.weight >= _CAPTION
            and block.link == 0
            and not dropped[block.container]
            and is_sentence(block.text)
            and not is_note(block.text)
            and not is_notice(block.text, block.weight)
            and container in (-1, block.container)
        ):
            container = block.container
            lines.append(block.text)
    return lines


def _totals(page: Blocks, weights: list[int]) -> list[int]:
    """Sum of the weights inside each container."""
    totals = [0] * len(page.parent)
    for block, weight in zip(page.blocks, weights, strict=True):
        totals[block.container] += weight
    for index in range(len(totals) - 1, 0, -1):
        totals[page.parent[index]] += totals[index]
    return totals


def _dropped(page: Blocks, prose: list[int], mask: int, *, thread: bool = False) -> list[bool]:
    """For each container whether it has one of the flags, or is inside one that has."""
    totals = _totals(page, prose)
    limit = max(totals[0] * _FURNITURE_LIMIT, 0 if thread else _FURNITURE_LEAST)
    spared = frozenset() if thread else _spared(page, prose)
    dropped = [False] * len(page.parent)
    for index in range(1, len(dropped)):
        flags = page.flags[index] & mask
        if index in spared:
            flags &= ~FURNITURE
        named = flags != 0 and totals[index] <= limit
        dropped[index] = named or dropped[page.parent[index]]
    return dropped


def _spared(page: Blocks, prose: list[int]) -> frozenset[int]:
    """Containers that are no furniture, whatever their names: the text of the page is in them."""
    direct = [0] * len(page.parent)
    for block, weight in zip(page.blocks, prose, strict=True):
        direct[block.container] += weight
    most = max(range(len(direct)), key=direct.__getitem__)
    rest = max((w for i, w in enumerate(direct) if i != most), default=0)
    if direct[most] < max(_LEAST, _OUTWEIGHS * rest):
        return frozenset()
    return frozenset(ancestors(page, most))


def _inside(page: Blocks, chosen: int, dropped: list[bool], first: int = 0) -> list[Block]:
    """The blocks inside a container, from a position on, that are not dropped."""
    last = page.last[chosen]
    blocks = page.blocks[first:] if first else page.blocks
    return [b for b in blocks if chosen <= b.container <= last and not dropped[b.container]]


def _lines(page: Blocks, chosen: int, dropped: list[bool], first: int) -> list[str]:
    """Lines of the body inside the chosen container."""
    kept = [block for block in _inside(page, chosen, dropped, first) if not _is_link_line(block)]
    while kept and kept[-1].tag in HEADINGS:
        kept.pop()
    end = len(kept)
    while end and _is_tail(kept[end - 1]):
        end -= 1
    # One or two short lines are a signature, more are the titles of boxes below the body.
    return [block.text for block in (kept[:end] if len(kept) - end > _SIGNATURE else kept)]


def _is_tail(block: Block) -> bool:
    """Whether a block at the end is about the page: a label, a note, a notice."""
    text = block.text
    return _is_label(block) or is_note(text) or is_notice(text, block.weight)


def _is_label(block: Block) -> bool:
    """Whether a block is a few words outside a list or a table, and no sentence."""
    return (
        block.weight < _LABEL
        and block.tag not in ("li", "td", "th", "dd")
        and block.text[-1] not in _SENTENCE_END
    )


def _is_link_line(block: Block) -> bool:
    """Whether a block is a link to another page rather than text."""
    return (block.link > 0.8 and block.weight < 400) or (block.link > 0.5 and block.weight < 60)
