"""The fast extractor: the core of the text, the frame around it, and when to doubt it."""

import attrs

from dedup_middleware.text.extraction.blocks import HEADINGS, Block, Blocks, ancestors
from dedup_middleware.text.extraction.cleanup import is_note
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
# A body below this weight is in doubt.
_LEAST = 600
# Down to this weight it is not when there is hardly any other prose on the page.
_SHORT = 240
# Furniture that holds more of the prose than this is no furniture.
_FURNITURE_LIMIT = 0.5


@attrs.frozen
class Found:
    """A body, whether it is beyond doubt, and whether comments weigh more than it does."""

    text: str
    sure: bool
    discussion: bool = False


def find_body(page: Blocks, *, thread: bool = False) -> Found:
    """Body of a page, one block a line. In a forum thread the comments are the body."""
    prose = [_prose(block) for block in page.blocks]
    dropped = _dropped(page, prose, FURNITURE if thread else FURNITURE | COMMENT)
    kept = [0 if dropped[b.container] else w for b, w in zip(page.blocks, prose, strict=True)]
    good = _totals(page, kept)
    direct, rich = _rich(page, kept)
    core = _core(page, direct)
    if thread:
        return _thread(page, core, good, dropped)
    chosen, named = _frame(page, core, good, rich)
    lines = _lines(page, chosen, dropped)
    weight = sum(len(line.encode()) for line in lines)
    share = good[chosen] / max(1, good[0])
    sure = weight >= _LEAST and share >= (0.5 if named else 0.75)
    sure = sure or (weight >= _SHORT and share >= 0.9)
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
    """Weight of a block when it reads like prose, else 0."""
    if block.weight < _PROSE_WEIGHT or block.link > _PROSE_LINK:
        return 0
    return block.weight


def _totals(page: Blocks, weights: list[int]) -> list[int]:
    """Sum of the weights inside each container."""
    totals = [0] * len(page.parent)
    for block, weight in zip(page.blocks, weights, strict=True):
        totals[block.container] += weight
    for index in range(len(totals) - 1, 0, -1):
        totals[page.parent[index]] += totals[index]
    return totals


def _dropped(page: Blocks, prose: list[int], mask: int) -> list[bool]:
    """For each container whether it has one of the flags, or is inside one that has."""
    totals = _totals(page, prose)
    limit = totals[0] * _FURNITURE_LIMIT
    dropped = [False] * len(page.parent)
    for index in range(1, len(dropped)):
        named = page.flags[index] & mask != 0 and totals[index] <= limit
        dropped[index] = named or dropped[page.parent[index]]
    return dropped


def _inside(page: Blocks, chosen: int, dropped: list[bool]) -> list[Block]:
    """The blocks inside a container that are not dropped."""
    last = page.last[chosen]
    return [b for b in page.blocks if chosen <= b.container <= last and not dropped[b.container]]


def _lines(page: Blocks, chosen: int, dropped: list[bool]) -> list[str]:
    """Lines of the body inside the chosen container."""
    kept = [block for block in _inside(page, chosen, dropped) if not _is_link_line(block)]
    while kept and kept[-1].tag in HEADINGS:
        kept.pop()
    end = len(kept)
    while end and (_is_label(kept[end - 1]) or is_note(kept[end - 1].text)):
        end -= 1
    # One or two short lines are a signature, more are the titles of boxes below the body.
    return [block.text for block in (kept[:end] if len(kept) - end > _SIGNATURE else kept)]


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
