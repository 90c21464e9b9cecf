"""Finds names in Chinese text: those of persons, by the tags of the dictionary and by surnames.

Two pages on one template may differ only in a name (of a team, a winner, a minister). A name is

- a word that the dictionary tags as one (`nr`, `nrfg`, `nrt`): of two or three characters if it
  begins with one of `SURNAMES`, of three or more if it is a transliteration (`nrt`), any longer
  one. Frequent words of two characters are left out: they are common nouns (阳光, 王朝);
- a surname before the parts into which jieba cuts an unknown given name: one or two single
  characters that are no frequent words or are among `GIVEN_NAMES`, or a word of two that is tagged
  as a name;
- a tagged name of two characters with one more such character behind it.

A name is left out where it says who made the page, which differs from one reprint to the next:
behind one of `CREDITS` (记者, 责任编辑, 作者, 摄影), or behind 文, 图, 摄, 译 or 编 with a slash or
a colon; before 摄; just behind an opening bracket; and behind a name that is left out, with only
white space and punctuation between them.

Text that is not prose has no such names: if more than three quarters of the tokens are single rare
characters, whatever looks like a name is one by chance. Places and bodies (`ns`, `nt`) are not
names in this sense, as copies leave them out or write them differently: they count only where two
clauses differ in nothing else, see :mod:`dedup_middleware.text.clauses`.

Only the segmenter `jieba` finds names in Chinese. A user's dictionary adds some by the tag `nr`.
Names in scripts with capital letters: :mod:`dedup_middleware.text.capitals`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.text.capitals import CREDIT_REACH, OPENING, read_run
from dedup_middleware.text.characters import (
    HAN,
    NUMERAL,
    SEPARATES,
    Codes,
    CutText,
    Flags,
    Places,
    code_set,
    word_lists,
)
from dedup_middleware.text.numerals import among

# What a word may be, a bit each. A NOUN is a common noun or an adjective.
NAME, SURNAME, GIVEN, PROPER, NOUN = 1, 2, 4, 8, 16
KIND_BITS: Final = 5
PERSON: Final = 8  # a mark of a word, next to BEGINS, RESTYLED and CAPITAL
SURNAMES: Final = "".join(word_lists()["surnames"])
# Frequent words that are also common in given names.
GIVEN_NAMES: Final = "".join(word_lists()["given"])
CREDITS: Final = word_lists()["chinese-credits"]
_MEDIA: Final = "社报報台臺网網刊"  # last character of a body that is a source
_PLACE: Final = 4  # most characters of a place
_VERBS: Final = "摄译绘撰"  # rare characters that follow a name more often than they end it
_RARE_GIVEN: Final = 4000  # frequency in jieba's dictionary from which a character is a word
_RARE_NAME: Final = 1000
_CREDITS: Final = np.array(sorted(ord(word[0]) << 32 | ord(word[1]) for word in CREDITS), np.int64)
_SHORT_CREDITS: Final = code_set("文图摄译编圖攝譯編")
_PHOTO, _PHOTO_TRADITIONAL, _SLASH, _COLON = map(ord, "摄攝/:")


def kind_of(word: str, frequency: int, tag: str) -> int:
    """What a word of the dictionary may be: NAME, SURNAME, GIVEN and PROPER, added up, or NOUN.

    :param frequency: as in jieba's dictionary.
    :param tag: part of speech; `""` if there is none.
    """
    if not "\u4e00" <= word[0] <= "\u9fff":
        return 0
    if len(word) == 1:
        usual = frequency < _RARE_GIVEN or word in GIVEN_NAMES
        given = GIVEN if usual and word not in _VERBS else 0
        return given | (SURNAME if word in SURNAMES else 0)
    if not tag.startswith("nr"):
        return _kind_of_noun(word, tag)
    name = len(word) > 3 or word[0] in SURNAMES or (tag == "nrt" and len(word) == 3)
    if len(word) == 2:
        name = name and tag != "nrt" and frequency < _RARE_NAME
        return GIVEN | (NAME if name else 0)
    return NAME if name else 0


def _kind_of_noun(word: str, tag: str) -> int:
    """As `kind_of`, for a word of several ideographs that is not tagged as a person.

    Bodies (`nt`), places (`ns`) and other proper nouns (`nz`) are PROPER, but not sources, as
    copies exchange them, nor long places, most of which include a shorter one.
    """
    if tag.startswith("nt"):
        return 0 if word[-1] in _MEDIA else PROPER
    if tag.startswith("ns"):
        return PROPER if len(word) <= _PLACE else 0
    if tag == "nz":
        return PROPER | (GIVEN if len(word) == 2 else 0)
    return NOUN if tag in {"n", "a"} else 0


@subkernel
def _is_single(text: CutText, token: int, begin: int) -> bool:
    """Whether a token is one ideograph of a given name, in a name that begins at `begin`."""
    single = text.starts[token] == begin and text.ends[token] == begin + 1
    return single and bool(text.sorts[token] & GIVEN) and text.flags[begin] & HAN == HAN


@subkernel
def _is_prose(text: CutText) -> bool:
    """Whether at most three quarters of the tokens are single rare characters."""
    singles, count = np.uint64(0), text.starts.size
    for token in range(np.uint64(count)):
        singles += np.uint64(
            (text.ends[token] - text.starts[token] == 1) & (text.sorts[token] & GIVEN != 0)
        )
    return 4 * singles <= 3 * count


@subkernel
def find_names(text: CutText, marks: Flags, rows: Places) -> int:
    """Write begin and end of each name to the first rows of `rows`; return the number of names.

    :param marks: what `mark` wrote for each token; empty: names with capitals are not searched for.
    :param rows: a row for each token; `read_run` sets its third and fourth column for names with
        capitals.
    """
    found, token, before = 0, 0, -1
    chinese, count = _is_prose(text), text.starts.size
    while token < count:
        if marks.size and marks[token]:
            token, named, before = read_run(text, marks, token, before, rows[found])
            found += named
            continue
        kind = text.sorts[token] if chinese else np.uint8(0)
        first = token
        token += 1
        if not kind & (NAME | SURNAME):
            continue
        begin, end = text.starts[first], text.ends[first]
        if kind & NAME:
            more = end - begin == 2
        else:
            more = False
            if token < count and text.starts[token] == end and text.ends[token] == end + 2:
                if text.sorts[token] & GIVEN:
                    end = text.ends[token]
                    token += 1
            elif token < count and _is_single(text, token, end):
                end, more = end + 1, True
                token += 1
            if end == begin + 1:
                continue
        if more and token < count and _is_single(text, token, end):
            end += 1
            token += 1
        rows[found, 0], rows[found, 1] = begin, end
        found += 1
    return found


@subkernel
def is_credit(codes: Codes, flags: Flags, begin: int, end: int, before: int) -> bool:
    """Whether the name codes[begin:end] says who made the page.

    :param before: the end of the previous name if that is a credit, else -1.
    """
    i = begin - 1
    if i >= 0 and among(np.int64(codes[i]), OPENING):
        return True
    while i >= before and i >= 0 and begin - i <= CREDIT_REACH and flags[i] & SEPARATES:
        i -= 1
    if before >= 0 and i < before:
        return True
    if i >= 0 and i < begin - 1 and among(np.int64(codes[i]), _SHORT_CREDITS):
        mark = np.int64(codes[i + 1])
        if mark in (_SLASH, _COLON):
            return True
    if i >= 1 and among(np.int64(codes[i - 1]) << 32 | np.int64(codes[i]), _CREDITS):
        return True
    i = end
    while i < codes.size and i - end < CREDIT_REACH and flags[i] & SEPARATES:
        i += 1
    return i < codes.size and codes[i] in (_PHOTO, _PHOTO_TRADITIONAL)


@allocating_subkernel
def places_of_names(codes: Codes, flags: Flags, names: Places) -> Places:
    """Begin and end of the names that are neither credits nor months: rows in text order.

    :param names: the rows of `find_names`.
    """
    named = np.empty((names.shape[0], 2), np.int32)
    found, before = np.uint64(0), -1
    for name in range(names.shape[0]):
        first, last = np.int64(names[name, 0]), np.int64(names[name, 1])
        if is_credit(codes, flags, first, last, before):
            before = last
            continue
        before = -1
        if flags[first] & NUMERAL == 0:
            named[found, 0], named[found, 1] = names[name, 0], names[name, 1]
            found += np.uint64(1)
    return named[:found]


@subkernel
def mark_persons(flags: Flags, names: Places, starts: Places, ends: Places, words: Flags) -> None:
    """Add `PERSON` to the marks of words of Chinese names. Words of two characters that the
    dictionary calls names are left out: in news most are none (许可, 杜绝, 张贴).

    :param names: the rows of `places_of_names`.
    :param starts, ends: of each word.
    """
    word = np.uint64(0)
    for name in range(np.uint64(names.shape[0])):
        first, last = names[name, 0], names[name, 1]
        if flags[first] & HAN != HAN:
            continue
        while word < np.uint64(words.size) and starts[word] < first:
            word += np.uint64(1)
        if last - first == 2 and word < np.uint64(words.size) and ends[word] == last:
            continue
        while word < np.uint64(words.size) and starts[word] < last:
            words[word] |= np.uint8(PERSON)
            word += np.uint64(1)
