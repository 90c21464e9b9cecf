"""The fast extractor: choose a container by name and by density, and know when they disagree."""

import attrs

from dedup_middleware.text.extraction.blocks import (
    ARTICLE,
    BODY_NAME,
    COMMENT,
    FURNITURE,
    HEADINGS,
    Block,
    Blocks,
)

# A block counts as prose from this weight (UTF-8 bytes) and below this share of links.
_PROSE_WEIGHT = 80
_PROSE_LINK = 0.35
# The container with this share of what its parent holds is where the body is.
_DESCENT = 0.72
# Furniture that holds more of the prose than this is no furniture.
_FURNITURE_LIMIT = 0.5


@attrs.frozen
class Found:
    """A body, and whether the ways to find it agree."""

    text: str
    sure: bool


def find_body(page: Blocks) -> Found:
    """Body of a page, one block a line."""
    prose = [_prose(block) for block in page.blocks]
    dropped = _dropped(page, prose)
    good = _totals(page, [0 if dropped[b.container] else w for b, w in zip(page.blocks, prose)])
    dense = _descend(page, good)
    named = _best(page, good, dropped, BODY_NAME)
    article = _best(page, good, dropped, ARTICLE)
    chosen = dense
    for candidate in (named, article):
        if candidate is not None and good[candidate] >= 0.4 * good[dense]:
            chosen = candidate
            break
    lines = _lines(page, chosen, dropped)
    text = "\n".join(lines)
    weight = sum(len(line.encode()) for line in lines)
    other = good[dense]
    sure = weight >= 600 and good[chosen] >= 0.8 * other and good[0] > 0
    sure = sure and good[chosen] >= 0.7 * good[0]
    return Found(text, sure)


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


def _dropped(page: Blocks, prose: list[int]) -> list[bool]:
    """For each container whether it is furniture or comments, or inside some."""
    totals = _totals(page, prose)
    limit = totals[0] * _FURNITURE_LIMIT
    dropped = [False] * len(page.parent)
    for index in range(1, len(dropped)):
        named = page.flags[index] & (FURNITURE | COMMENT) != 0 and totals[index] <= limit
        dropped[index] = named or dropped[page.parent[index]]
    return dropped


def _descend(page: Blocks, good: list[int]) -> int:
    """The innermost container that holds nearly all prose of the containers around it."""
    largest = [0] * len(good)
    for index in range(len(good) - 1, 0, -1):
        parent = page.parent[index]
        if good[index] >= good[largest[parent]] or largest[parent] == 0:
            largest[parent] = index
    node = 0
    while largest[node] and good[largest[node]] >= _DESCENT * good[node] > 0:
        node = largest[node]
    return node


def _best(page: Blocks, good: list[int], dropped: list[bool], flag: int) -> int | None:
    """The container with the flag that holds most prose, the innermost of equals."""
    best: int | None = None
    for index, flags in enumerate(page.flags):
        if flags & flag and not dropped[index] and good[index] > 0:
            if best is None or good[index] >= good[best]:
                best = index
    return best


def _lines(page: Blocks, chosen: int, dropped: list[bool]) -> list[str]:
    """Lines of the body inside the chosen container."""
    last = page.last[chosen]
    kept = [
        block
        for block in page.blocks
        if chosen <= block.container <= last
        and not dropped[block.container]
        and not _is_link_line(block)
    ]
    while kept and (kept[-1].tag in HEADINGS):
        kept.pop()
    return [block.text for block in kept]


def _is_link_line(block: Block) -> bool:
    """Whether a block is a link to another page rather than text."""
    return block.link > 0.8 and block.weight < 400 or block.link > 0.5 and block.weight < 60
