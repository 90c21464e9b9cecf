"""Names in scripts with capital letters.

A name is a run of capitalised words inside a sentence, joined by a space or a hyphen, or by a full
stop and a space behind a word of up to three letters (Mr. Smith). A single word that begins a
sentence is not a name, nor is a run that ends with the text, which may be cut there. The value of a
name is a hash of the first letters of its words, and the number of words is part of its place, so
an edit of a letter or of a word does not make another name. Words with several capitals (NATO),
single letters without a full stop, and the word that begins a sentence contribute no letter,
because an edit of the first letter leaves them such words. A run of these alone is skipped, with
two exceptions: one word of two or three capitals counts with all its letters (US or
U.S. is not UK), and so does a single capital that numbers something (type A is not type B).

Where too many words have capitals, as in title case and lists, capitals mean nothing: a text in
which more than the share `MOST` of the tokens begin with one has no names. German, which writes
nouns with capitals, is the exception: up to the share `NOUNS` of its tokens may have one, if at
least one token in `ARTICLES` (20) is a German article or the like. There a name has several words,
none of which begins a sentence. If more than `MANY` (40) tokens are capitalised, names of one word
do not count either: the record of a page has room only for those of several words.

A run is left out where it says who made the page, as in `names`: just behind an opening bracket;
behind one of `CAPITAL_CREDITS` (photo, reporting, author), with at most "by" and punctuation
between them; and behind a "by" that begins a sentence. Text that is composed before it is folded
(see `normalize.compose`) has lost its capitals.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import (
    CLASS_MASK,
    LETTER,
    SEPARATES,
    Codes,
    CutText,
    Flags,
    Places,
    code_set,
    word_lists,
)
from dedup_middleware.text.numerals import among, is_wrap, pack, word_after

MOST: Final = 0.3
NOUNS: Final = 0.45
ARTICLES: Final = 20
MANY: Final = 40
NONE, ONE, SEVERAL = 0, 1, 2
CAPITAL: Final = 2  # a mark of a word, next to BEGINS and RESTYLED
CAPITAL_CREDITS: Final = word_lists()["credits"]
_CAPITAL_CREDITS: Final = np.array([pack(word) for word in CAPITAL_CREDITS], np.int64)
_BY: Final = np.array([pack(word) for word in ("by", "von", "par", "por")], np.int64)
_AND: Final = np.array([pack(word) for word in ("and", "und", "et")], np.int64)
GERMAN: Final = ("das", "dem", "den", "der", "des", "die", "ein", "mit", "und")
_GERMAN: Final = np.array([pack(word) for word in GERMAN], np.int64)
_GERMAN_FIRST: Final = code_set("".join({word[0] for word in GERMAN}))
# Characters, besides those of words, that may precede a word inside a sentence.
_INSIDE: Final = code_set(",;&/)")
#: a word in quotation marks inside a sentence is a name: the company «Vympel»
_QUOTES: Final = code_set('"“„«‹「『')
_HYPHENS: Final = code_set("-\u2010\u2011")
_SPACE, _I, _STOP = map(ord, " i.")
_SHORT: Final = 3  # most letters of a word that is abbreviated by a full stop
_GAP: Final = 2  # most characters between the words of a name
_STEP: Final = 64
_LEAST: Final = min(map(len, CAPITAL_CREDITS))
OPENING: Final = code_set("([{【〔〖")
CREDIT_REACH: Final = 4  # separators between a credit and its name
_BASE: Final = 0x01000193  # of the hash of first letters


@subkernel
def _is_capital(raw: Codes, codes: Codes, flags: Flags, i: np.uint64, shift: np.uint64) -> bool:
    """Whether a capital letter became the letter at i of the normal form, which differs from it.
    From U+2000 on this is also true of small letters, so only full-width capitals count there."""
    if i + shift >= np.uint64(raw.size):
        return False
    code = raw[i + shift]
    if code < np.uint32(0xC0):
        return code - np.uint32(0x41) < np.uint32(26)
    if code >= np.uint32(0x2000) and code - np.uint32(0xFF21) >= np.uint32(26):
        return False
    return code != codes[i] and flags[i] & CLASS_MASK == LETTER


@subkernel
def _may_have_capitals(raw: Codes) -> bool:
    """Whether there may be a capital letter; most Chinese pages have none."""
    some, i, size = np.uint8(0), np.uint64(0), np.uint64(raw.size)
    while i < size and not some:
        stop = min(i + np.uint64(_STEP), size)
        for j in range(i, stop):  # vectorised
            code = raw[j]
            some |= np.uint8(code - np.uint32(0x41) < np.uint32(26))
            some |= np.uint8(code - np.uint32(0xC0) < np.uint32(0x1F40))
            some |= np.uint8(code - np.uint32(0xFF21) < np.uint32(26))
        i = stop
    return some != 0


@subkernel
def _shift_at(shifts: Places, k: int, i: int) -> tuple[int, np.uint64]:
    """Number of rows of `shifts` up to place i of the normal form, and what to add to i to get the
    place in the raw text. `k` is the number of rows up to an earlier place."""
    while k < shifts.shape[0] and shifts[k, 0] <= i:
        k += 1
    return k, np.uint64(shifts[k - 1, 1] if k else 0)


@subkernel
def mark_capitals(
    raw: Codes, shifts: Places, codes: Codes, flags: Flags, starts: Places, ends: Places,
    words: Flags,
) -> None:  # fmt: skip
    """Add `CAPITAL` to the marks of words that begin with a capital letter. Short forms (US,
    Gov.), which sites write in several ways, are left out. For the other arguments see `mark`."""
    k = 0
    for word in range(words.size):
        k, shift = _shift_at(shifts, k, np.int64(starts[word]))
        capital = _is_capital(raw, codes, flags, np.uint64(starts[word]), shift)
        words[word] |= np.uint8(CAPITAL * (capital and ends[word] - starts[word] > _SHORT))


@subkernel
def _continues(text: CutText, marks: Flags, token: int) -> bool:
    """Whether the next token is marked as well, and close enough to belong to the same name."""
    if token + 1 >= marks.size or not marks[token + 1]:
        return False
    return text.starts[token + 1] - text.ends[token] <= _GAP


@subkernel
def _begins_sentence(codes: Codes, flags: Flags, begin: int) -> bool:
    i = begin - 1
    quoted = i > 1 and codes[i - 1] == _SPACE and among(np.int64(codes[i]), _QUOTES)
    if quoted and not flags[i - 2] & SEPARATES:
        return False
    while i >= 0 and (codes[i] == _SPACE or is_wrap(codes, i)):
        i -= 1
    if i < 0:
        return True
    return bool(flags[i] & SEPARATES) and not among(np.int64(codes[i]), _INSIDE)


@subkernel
def _is_word(text: CutText, token: int, members: NDArray[np.int64]) -> bool:
    """Whether a token of two or three letters is among some packed words."""
    if text.ends[token] - text.starts[token] > _SHORT:
        return False
    word, _ = word_after(text.codes, text.starts[token])
    return word != 0 and among(word, members)


@subkernel
def has_articles(text: CutText) -> bool:
    """Whether at least one token in `ARTICLES` is a German article or the like."""
    found = 0
    for token in range(text.starts.size):
        first = text.starts[token]
        # All have three letters. The first letter is checked before, as this runs for any text.
        if text.ends[token] - first == _SHORT and among(np.int64(text.codes[first]), _GERMAN_FIRST):
            found += 1 if _is_word(text, token, _GERMAN) else 0
    return found * ARTICLES >= text.starts.size


@subkernel
def _unmark_beginnings(text: CutText, marks: Flags) -> None:
    """Clear the marks of tokens that begin a sentence."""
    for token in range(marks.size):
        if marks[token] and _begins_sentence(text.codes, text.flags, np.int64(text.starts[token])):
            marks[token] = np.uint8(NONE)


@subkernel
def mark(raw: Codes, shifts: Places, text: CutText, marks: Flags) -> bool:
    """Mark the capitalised tokens of a text; return whether it has any, but not too many.

    :param raw: the text before its normal form
    :param shifts: aligns the normal form with `raw`, see `characters.fold_and_align`
    :param marks: receives for each token NONE, or ONE or SEVERAL for its number of capital letters
    """
    if not _may_have_capitals(raw):
        return False
    count = marks.size
    total, k = np.uint64(0), 0
    for token in range(np.uint64(count)):
        k, shift = _shift_at(shifts, k, np.int64(text.starts[token]))
        begin = np.uint64(text.starts[token])
        capital = _is_capital(raw, text.codes, text.flags, begin, shift)
        marks[token] = np.uint8(ONE if capital else NONE)
        total += np.uint64(capital)
    nouns = total > count * MOST
    if total == 0 or (nouns and (total > count * NOUNS or not has_articles(text))):
        return False
    if nouns:
        _unmark_beginnings(text, marks)
    alone, joined, k = total <= np.uint64(MANY) and not nouns, False, np.int64(0)
    for token in range(count):
        if not marks[token]:
            continue
        before = joined
        joined = _continues(text, marks, token)
        if not (alone or joined or before):
            marks[token] = NONE
            continue
        for i in range(text.starts[token] + 1, text.ends[token]):
            k, shift = _shift_at(shifts, k, np.int64(i))
            if _is_capital(raw, text.codes, text.flags, np.uint64(i), shift):
                marks[token] = SEVERAL
    return True


@subkernel
def _joined(text: CutText, token: int) -> bool:
    """Whether a capitalised token belongs to the same run as the capitalised one before it."""
    before, begin = text.ends[token - 1], text.starts[token]
    if begin == before + 1:
        space = text.codes[before] == _SPACE or is_wrap(text.codes, before)
        return space or among(np.int64(text.codes[before]), _HYPHENS)
    short = before - text.starts[token - 1] <= _SHORT
    stop = begin == before + 2 and text.codes[before] == _STOP and text.codes[before + 1] == _SPACE
    return short and stop


@subkernel
def _is_credit_word(text: CutText, token: int) -> bool:
    size = text.ends[token] - text.starts[token]
    if size < _LEAST:
        return False
    word, _ = word_after(text.codes, text.starts[token])
    return word != 0 and among(word, _CAPITAL_CREDITS)


@subkernel
def _is_credit(text: CutText, first: int, initial: bool, before: int) -> bool:
    """Whether the run from token `first` on says who made the page.

    :param initial: whether it begins a sentence.
    :param before: the token behind the previous run if that is a credit, else -1.
    """
    begin = text.starts[first]
    if begin > 0 and among(np.int64(text.codes[begin - 1]), OPENING):
        return True
    by = _is_word(text, first, _BY)
    if initial and (by or _is_credit_word(text, first)):
        return True
    token = first - 1
    if token < 0 or begin - text.ends[token] > CREDIT_REACH:
        return False
    if before >= 0 and (before > token or _is_word(text, token, _AND)):
        return before >= token
    credit = _is_credit_word(text, token)
    if not credit and _is_word(text, token, _BY):
        behind = token > 0 and text.starts[token] - text.ends[token - 1] <= CREDIT_REACH
        if behind and _is_credit_word(text, token - 1):
            return True
        credit = _begins_sentence(text.codes, text.flags, np.int64(text.starts[token]))
    return credit


@subkernel
def _first_letter(codes: Codes, begin: int, end: int, mark: int) -> np.uint32:
    """The first letter of a word; 0 if the word has several capital letters, or is a single
    letter and no initial: after an edit of its first letter it would still be such a word."""
    initial = end > begin + 1 or (end < codes.size and codes[end] == _STOP)
    return codes[begin] if initial and mark == ONE else np.uint32(0)


@subkernel
def _short_form(codes: Codes, begin: int, end: int, mark: int) -> np.uint32:
    """Hash of the letters of a word of two or three capitals such as US or U.S., or of a single
    letter that numbers something, as in type A; 0 for any other word, and for I."""
    letters, count = np.uint32(0), 0
    if end == begin + 1:
        return codes[begin] if codes[begin] != _I else np.uint32(0)
    for i in range(begin, end):
        if codes[i] != _STOP:
            letters = letters * np.uint32(_BASE) + codes[i]
            count += 1
    return letters if mark == SEVERAL and 1 < count <= 3 else np.uint32(0)


@subkernel
def read_run(
    text: CutText, marks: Flags, token: int, before: int, row: Places
) -> tuple[int, bool, int]:
    """Write to `row` the begin and end of the run that begins with a token, its number of words (0
    if it is a credit, contributes no letter, or ends with the text), and its hash of first letters.

    :param before: the token behind the previous run if that is a credit, else -1.
    :returns: the token behind the run, whether there is a name, and the next `before`.
    """
    first, begin = token, np.int64(text.starts[token])
    initial = _begins_sentence(text.codes, text.flags, begin)
    letters, some = np.uint32(0), np.uint32(0)
    while True:
        last = np.int64(text.ends[token])
        letter = _first_letter(text.codes, np.int64(text.starts[token]), last, marks[token])
        if token == first and initial:
            letter = np.uint32(0)
        letters = letters * np.uint32(_BASE) + letter
        some |= letter
        token += 1
        if token == marks.size or not marks[token]:
            break
        if not _joined(text, token):
            break
    end = np.int64(text.ends[token - 1])
    if token - first == 1:
        if initial:
            return token, False, -1
        if some == 0:
            letters = _short_form(text.codes, begin, end, marks[first])
            some = letters
    # A name at the end of the text may be cut.
    row[0], row[1], row[2] = begin, end, token - first if some > 0 and end < text.codes.size else 0
    row[3] = np.int32(letters & np.uint32(0x7FFFFFFF))
    if _is_credit(text, first, initial, before):
        row[2] = 0
        return token, True, token
    return token, True, -1
