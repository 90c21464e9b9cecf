"""The plain twin of what `attribution` marks: by lists of words and clauses instead of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from dedup_middleware.text.wording import SAID, SPEAKS

SAYS, FILLS, OCCASION, HELD, FIGURE = "says", "fills", "occasion", "held", "figure"
SILENT = frozenset((SAYS, FILLS, OCCASION, HELD, FIGURE))
STOPS = frozenset(("negation", "number"))  # end the words that may name a speaker


def marks(clause: Sequence[str], said_behind: Sequence[bool]) -> list[int]:
    """The marks of the words of a clause.

    :param clause: what each word is; ``""`` for one that is in no list
    :param said_behind: whether a verb of saying that is left out follows each word
    """
    found = [0] * len(clause)
    for place, sort in enumerate(clause):
        if sort not in {SAYS, OCCASION} and not said_behind[place]:
            continue
        for word in range(place + 1, min(len(clause), place + 16)):
            if clause[word] not in SILENT:
                break
            found[word] |= SAID
        if sort == OCCASION:
            before = [*range(max(0, place - 7), place)][::-1]
            stops = [i for i in before if clause[i] in {HELD, *STOPS}]
            if stops and clause[stops[0]] == HELD:
                for word in range(stops[0], place):
                    found[word] |= SAID
        speakers = 0
        for word in range(place, max(-1, place - 16), -1):
            if clause[word] in SILENT:
                found[word] |= SAID
            elif clause[word] in STOPS or speakers == 8:
                break
            else:
                found[word] |= SPEAKS
                speakers += 1
    return found
