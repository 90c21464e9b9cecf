"""What counts as prose on a page, and which containers it does not count in."""

from dedup_middleware.text.extraction.blocks import COMMENT, HEADINGS, Block, Blocks, ancestors
from dedup_middleware.text.extraction.cleanup import is_menu, is_note, is_notice, letters

# A block counts as prose from this weight (UTF-8 bytes) and below this share of links.
_PROSE_WEIGHT = 80
_PROSE_LINK = 0.35
# Notices that weigh more than this, and more than half of the prose, are the report itself.
_NOTICES_LIMIT = 1_200
# Furniture that holds more of the prose than this, and more than a footer does, is no furniture.
_FURNITURE_LIMIT = 0.5
FURNITURE_LEAST = 300
# Nor is it when its own paragraphs weigh an article and this many times those of any other box.
_ARTICLE = 600
_OUTWEIGHS = 2
# Letters a headline has at least.
_HEADLINE = 4
# A headline has at most this share of the prose before it.
_BEFORE_HEADLINE = 0.25


def long_weight(block: Block) -> int:
    """Weight of a block that is long and has few links, 0 for others."""
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
    """Sum of the weights directly in each container."""
    direct = [0] * len(page.parent)
    for block, weight in zip(page.blocks, weights, strict=True):
        direct[block.container] += weight
    return direct


def sums(page: Blocks, direct: list[int]) -> list[int]:
    """Sum of the values of each container and all inside it."""
    totals = direct[:]
    parent = page.parent
    for index in range(len(totals) - 1, 0, -1):
        if totals[index]:
            totals[parent[index]] += totals[index]
    return totals


def spared(page: Blocks, direct: list[int]) -> frozenset[int]:
    """Containers that are no furniture, whatever their names: the text of the page is in them."""
    most = max(direct)
    if most < _ARTICLE or most < _OUTWEIGHS * max(sorted(direct)[-2:-1], default=0):
        return frozenset()
    return frozenset(ancestors(page, direct.index(most)))


class Dropped:
    """For each container whether it has one of the flags, or is inside one that has.

    ``totals`` are the `sums` of the prose; a container that holds most of it, and more than
    ``least``, is never dropped; one in ``spare`` not as furniture. The page itself never is.
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

    def __getitem__(self, index: int) -> bool:
        # Few of the containers are ever asked for, so that most names need no look.
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
        named = self._page.flags[index] & self._mask
        return named & COMMENT != 0 or (named != 0 and index not in self._spare)


def after_headline(blocks: list[Block], kept: list[int], title: str) -> int:
    """Position of the first block behind the headline; 0 when there is none to be sure of."""
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
        # The text begins behind the last mention of the headline above it, not at a later one.
        if (kept[position] and first) or before > limit:
            break
    return first
