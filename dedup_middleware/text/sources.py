"""Where a Chinese page says who reported it: 据路透社报道， before its text, (记者张三) behind it.

A reprint names another source than the page it copies, or none, so these words are no news. The
clause with which the text begins, behind its date line, begins with 据 and ends with a comma behind
one of a few words (报道, 消息). The credits with which it ends, before the line that names the
editor, are in brackets behind a full stop. They name a reporter or an agency as such (记者, 来源:),
or are as short as names (张三 李四); other words in brackets may be news (后证实为谣言).
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text import numerals
from dedup_middleware.text.numerals import Codes, among, at

SAYS: Final = ("报道", "报导", "消息", "通报", "介绍", "透露", "報道", "報導", "通報", "介紹")
_ACCORDING: Final = np.array(sorted(map(ord, "据據")), np.int64)
_SAYS: Final = np.array(sorted(ord(a) << 32 | ord(b) for a, b in SAYS), np.int64)
_ENDS: Final = np.array(sorted(map(ord, ",:")), np.int64)
_FULL_STOPS: Final = np.array(sorted(map(ord, "。.!?;\n")), np.int64)
_LONGEST: Final = 40  # characters of the clause
_OPENING: Final = np.array(sorted(map(ord, "([【〔")), np.int64)
_CLOSING: Final = np.array(sorted(map(ord, ")]】〕")), np.int64)
_SENTENCE_ENDS: Final = np.array(sorted(map(ord, "。!?”…\n")), np.int64)
_LONGEST_CREDIT: Final = 24  # characters in brackets
_NAME: Final = 4  # characters of a name, or of 完
_OFFICES: Final = (
    *(
        "记者",
        "記者",
        "讯员",
        "訊員",
        "论员",
        "論員",
        "编辑",
        "編輯",
        "责编",
        "責編",
        "编译",
        "編譯",
    ),
    *("供稿", "供图", "供圖", "者:", "道:", "源:", "社 ", "网 ", "網 ", "报 ", "報 ", "网/", "網/"),
)
_CREDITED: Final = np.array(sorted(ord(a) << 32 | ord(b) for a, b in _OFFICES), np.int64)
_SPACE: Final = ord(" ")


@subkernel
def source_clause(codes: Codes, begin: int) -> int:
    """Where the clause ends that says who reported something and begins at `begin`, spaces and a
    colon apart; `begin` if there is none."""
    first = begin
    while first < begin + 2 and (at(codes, first) == 32 or among(at(codes, first), _ENDS)):
        first += 1
    if not among(at(codes, first), _ACCORDING):
        return begin
    for i in range(first + 3, min(codes.size, first + _LONGEST)):
        code = np.int64(codes[i])
        if among(code, _FULL_STOPS):
            return begin
        if among(code, _ENDS):
            says = at(codes, i - 2) << 32 | at(codes, i - 1)
            return i if among(says, _SAYS) else begin
    return begin


@subkernel
def _opening(codes: Codes, last: int) -> int:
    """Where the brackets open that close at `last`; -1 if what they hold is not a credit."""
    credited = False
    named, length = True, 0  # of the letters up to the next space
    for i in range(last - 1, max(-1, last - _LONGEST_CREDIT), -1):
        code = np.int64(codes[i])
        if among(code, _OPENING):
            return i if credited or named else -1
        if among(code, _SENTENCE_ENDS) or numerals.is_digit(codes, i):
            return -1
        credited |= among(code << 32 | at(codes, i + 1), _CREDITED)
        length = 0 if code == 32 else length + 1
        named &= length <= _NAME
    return -1


@subkernel
def credits_begin(codes: Codes, end: int) -> int:
    """Where the credits in brackets begin that stand before `end`; `end` if there are none."""
    begin = last = end
    while last > 0 and at(codes, last - 1) == 32:
        last -= 1
    while last > 0 and among(np.int64(codes[last - 1]), _CLOSING):
        last = _opening(codes, last - 1)
        while last > 0 and codes[last - 1] == _SPACE:
            last -= 1
        if last > 0 and among(np.int64(codes[last - 1]), _SENTENCE_ENDS):
            begin = last
        while last > 0 and at(codes, last - 1) == 32:
            last -= 1
    return begin
