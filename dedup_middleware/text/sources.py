"""Where a Chinese page says who reported it: 据路透社报道， before its text.

A reprint names another source than the page it copies, or none, so these words are no news. The
clause with which the text begins, behind its date line, begins with 据 and ends with a comma behind
one of a few words (报道, 消息). It is short, and says nothing that has happened (被, 已).
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.numerals import Codes, among, at

SAYS: Final = ("报道", "报导", "消息", "通报", "介绍", "透露", "報道", "報導", "通報", "介紹")
_ACCORDING: Final = np.array(sorted(map(ord, "据據")), np.int64)
_OTHER_WORDS: Final = np.array(sorted(map(ord, "点點守为為")), np.int64)  # 据点, 据守, 据为己有
_SAYS: Final = np.array(sorted(ord(a) << 32 | ord(b) for a, b in SAYS), np.int64)
_ENDS: Final = np.array(sorted(map(ord, ",:")), np.int64)
_FULL_STOPS: Final = np.array(sorted(map(ord, "。.!?;\n")), np.int64)
_HAPPENED: Final = np.array(sorted(map(ord, "了被将將已遭后後")), np.int64)
_LONGEST: Final = 25  # characters of the clause


@subkernel
def source_clause(codes: Codes, begin: int) -> int:
    """Where the clause ends that says who reported something and begins at `begin`, spaces and a
    colon apart; `begin` if there is none."""
    first = begin
    while first < begin + 2 and (at(codes, first) == 32 or among(at(codes, first), _ENDS)):
        first += 1
    if not among(at(codes, first), _ACCORDING) or among(at(codes, first + 1), _OTHER_WORDS):
        return begin
    for i in range(first + 1, min(codes.size, first + _LONGEST)):
        code = np.int64(codes[i])
        if among(code, _FULL_STOPS) or among(code, _HAPPENED):
            return begin
        if among(code, _ENDS):
            says = at(codes, i - 2) << 32 | at(codes, i - 1)
            return i if i > first + 2 and among(says, _SAYS) else begin
    return begin
