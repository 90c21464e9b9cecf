"""Clauses: the words between two punctuation marks, and whether they are negated.

A page that denies what another one says has nearly all of its words. So each clause is given two
numbers:

* its **words**: a hash that does not change when a word that turns the clause round is inserted,
  deleted, or replaced by an alternative (see below);
* its **turn**: a sum of numbers, one for each such word; 0 without any. A name (an occupation, or a
  word that jieba's dictionary tags as a place) adds its hash.

Two clauses with equal words and different turns say different things: guilty and not guilty, before
the war and after the war, a red coat and a blue one. The turn of a clause without words ("No.") is
added to the next one. Negations, and words in their place (all,
always, 有; some; must), are not part of the words. An alternative (before, after) adds its class to
the words, and to the turn which one of the class it is. So a clause to which "for" is added has
other words: it is another clause, not the opposite.

Each word that turns a clause round has a **polarity**, a small number. None is a stop word.

    0             none
    NOT           a negation
    SO            in the place of a negation, with the opposite sense: all, always, 有
    NAME          one of many words that all exclude each other: occupations, goods
    SOME, MUST    in the place of a negation, each with its own sense: some, 部分; must, 必须
    ALTERNATIVES and above
                  one of several words that exclude each other: before and after, red and blue;
                  those of a class have consecutive numbers. Those of the last class are names
                  with several words each (乘客, 旅客)

Five more, above all others, show where an unlisted name stands. Except BODY they count only in the
scripts of :mod:`dedup_middleware.text.scriptclauses`:

    TITLE, PERSON the next word, or the next two, are a name: company, mayor
    GIVEN         a given name, which another name follows
    BODY          the part of the word before it is a name: city, bank; Chinese: in any text
    SURNAME       a surname

Word order, stop words and numerals change neither number; numerals are compared by their places. Of
a Cyrillic word only five letters count, because a negation changes the case of other words
(нарушений нет). Of a word after an elided article or the like only the rest counts (l'automne,
n'est). An ideograph with a polarity (不, 前, 内) also counts where it begins or ends a longer word
of the dictionary, and so does a listed word that ends one: 不能, 饭前, 国内, 价格上涨.

**Stop words** are those of stopwords-iso for Chinese and English, without words that a page may be
about (in English names, country codes, abbreviations, and nouns such as computer and fire) and
without words that turn a sentence round (not, before, 没有).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import constant, subkernel
from dedup_middleware.text.characters import (
    BLOCK,
    CLASS_MASK,
    EXTEND,
    FIRST_WIDE,
    SEPARATES,
    SYMBOL,
    Codes,
    Flags,
    Hashes,
    by_code_point,
    code_set,
    of_code_point,
    word_lists,
)
from dedup_middleware.text.hashing import HashedText, hash_slice, kind_of, mix_int
from dedup_middleware.text.names import PROPER
from dedup_middleware.text.normalize import normalize
from dedup_middleware.text.numerals import NUMERALS, among, is_wrap

NOT, SO, NAME, SOME, MUST, ALTERNATIVES = 1, 2, 3, 4, 5, 6
MOST: Final = 512  # above every polarity
BODY, SURNAME, GIVEN, PERSON, TITLE = range(MOST - 5, MOST)  # above every class of alternatives
#: marks before words in the table that count only in texts of their language, as most are words of
#: other languages too
MARKS: Final = {"ja": "\ue001", "vi": "\ue002"}
_WORDS: Final = 1 << 10  # of 64 bits, one for each code point below 2**16
_SINGLE: Final = dict(
    zip(
        "not so name some must body surname given person title kept".split(),
        (NOT, SO, NAME, SOME, MUST, BODY, SURNAME, GIVEN, PERSON, TITLE, 0),
        strict=True,
    )
)


@attrs.frozen
class Polarity:
    """The shipped list of words that turn a clause round.

    :param words: polarity of each word in normal form; words without one are left out.
    :param own: the same for the languages of `MARKS`, each word behind the mark of its language.
    :param kept: all words that are not stop words, including those without a polarity.
    :param classes: the first polarity of each class of alternatives, ascending; the last one is
        that of words that have the same name.
    """

    words: Mapping[str, int]
    own: Mapping[str, int]
    kept: frozenset[str]
    classes: tuple[int, ...]


@cache
def polarity() -> Polarity:
    """Read the shipped list.

    :raises ValueError: a word is in two classes, or there are too many classes.
    """
    text = (files("dedup_middleware.text") / "data" / "polarity.txt").read_text("utf-8")
    lines = [line.split(" ", 2) for line in text.splitlines() if line and line[0] != "#"]
    sides = dict[str, int]()
    for _, name, members in lines:
        if name not in _SINGLE:
            sides[name] = max(sides.get(name, 0), members.count(" | ") + 1)
    firsts = dict(zip(sides, accumulate(sides.values(), initial=ALTERNATIVES), strict=False))
    if ALTERNATIVES + sum(sides.values()) > BODY:
        raise ValueError("too many classes")
    words, own, kept = dict[str, int](), dict[str, int](), set[str]()
    for language, name, members in lines:
        for side, group in enumerate(members.split(" | ")):
            value = _SINGLE[name] if name in _SINGLE else firsts[name] + side
            for listed in group.split(" ") if group != "-" else ():
                word = listed.strip("()").replace("_", " ")
                table = own if language in MARKS else words
                if table.setdefault(MARKS.get(language, "") + word, value) != value:
                    raise ValueError(f"{word} is in two classes, one of them {name}")
                if word == listed and name != "name" and table is words:
                    kept.add(word)
    return Polarity(
        {word: value for word, value in words.items() if value},
        own,
        frozenset(kept),
        tuple(firsts.values()),
    )


#: a word's kind in the table is twice its polarity, with flags: a stop word; a numeral written as a
#: word; a unit of time, which is a numeral unless it follows a POINTER and says when (this week)
STOP: Final = 1
NUMBER: Final = 1024
SPAN: Final = 2048
POINTER: Final = 4096
_LANGUAGES: Final = ("zh", "en")
MONTHS: Final = frozenset(word_lists()["months"])
STYLE: Final = 8192  # flag of a word that editors put in place of another one
#: marks of a word: it begins a clause; its kind has `STYLE` (2 is `capitals.CAPITAL`)
BEGINS, RESTYLED = 1, 4
_SPANS: Final = frozenset(word_lists()["spans"])
_POINTERS: Final = frozenset(word_lists()["pointers"])
#: names of months, numerals written as words and units of time, none of which is a stop word
NUMBER_WORDS: Final = MONTHS.union(word_lists()["numbers"], NUMERALS, _SPANS)
#: Chinese numerals that are parts of names too, so that alone they are no numerals
_HAN_NUMBERS: Final = frozenset("二三四五六七八九十百千万两")


@cache
def stop_words() -> Mapping[str, frozenset[str]]:
    """The stop words of each language, in normal form."""
    return {language: _read(language) for language in _LANGUAGES}


def _read(language: str) -> frozenset[str]:
    path = files("dedup_middleware.text") / "data" / f"stopwords-{language}.txt"
    words = {normalize(line) for line in path.read_text("utf-8").splitlines()} - polarity().kept
    return frozenset(word for word in words if word and not _is_value(word))


@cache
def kinds_of_words(*, stops: bool) -> tuple[NDArray[np.str_], NDArray[np.uint64]]:
    """All words that a shingler looks up, and their kinds.

    :param stops: include the stop words.
    """
    shipped = polarity()
    kinds = {word: 2 * value for word, value in {**shipped.words, **shipped.own}.items()}
    # Without months, which belong to figures: different date lines are no contradiction.
    kinds = dict.fromkeys(NUMBER_WORDS - MONTHS, 2 * NAME) | kinds
    for words in stop_words().values() if stops else ():
        kinds.update({word: kinds.get(word, 0) | STOP for word in words})
    styles = frozenset(word_lists()["styles"]) - {"|"}
    bits = {NUMBER: NUMBER_WORDS, SPAN: _SPANS, POINTER: _POINTERS, STYLE: styles}
    for bit, words in bits.items():
        kinds.update({word: kinds.get(word, 0) | bit for word in words})
    return np.array(list(kinds)), np.array(list(kinds.values()), np.uint64)


def _is_value(word: str) -> bool:
    """Whether a word may tell two things apart: a numeral, or a Latin letter as in vitamin C.

    >>> [word for word in ("a", "c", "7", "eight", "the") if _is_value(word)]
    ['c', '7', 'eight']
    """
    if word in NUMBER_WORDS or word in _HAN_NUMBERS or word.isdecimal():
        return True
    return len(word) == 1 and "b" <= word <= "z" and word != "i"


def _ideographs() -> dict[int, int]:
    found = polarity().words.items()
    return {
        ord(word): value for word, value in found if len(word) == 1 and "\u4e00" <= word < "\uac00"
    }


_VALUES: Final = constant(lambda: by_code_point(_ideographs(), np.uint16))


def _bitmap(codes: Iterable[int]) -> NDArray[np.uint64]:
    """Bitmap of code points below 2**16, followed by a zero word for all others."""
    bits = np.zeros(_WORDS + 1, np.uint64)
    for code in codes:
        bits[code >> 6] |= np.uint64(1 << (code & 63))
    return bits


def _pairs(lowest: int, beyond: int) -> list[str]:
    """Listed words of two ideographs with a polarity from `lowest` to `beyond` - 1."""
    found = polarity().words.items()
    pairs = [word for word, value in found if lowest <= value < beyond and len(word) == 2]
    return [word for word in pairs if min(word) >= "\u4e00" and max(word) < "\uac00"]


_BITS: Final = constant(lambda: _bitmap(_ideographs()))
_ENDS: Final = constant(lambda: _bitmap(ord(word[1]) for word in _pairs(BODY, BODY + 1)))
_SPREAD: Final = np.uint32(40503)
_JOINED: Final = constant(
    lambda: _bitmap(
        (ord(word[0]) * int(_SPREAD) + ord(word[1])) % (1 << 16) for word in _pairs(0, MOST)
    )
)


@subkernel
def _has_bit(bits: NDArray[np.uint64], code: np.uint32) -> np.uint8:
    word = bits[min(np.uint64(code) >> np.uint64(6), np.uint64(_WORDS))]
    return np.uint8(word >> (np.uint64(code) & np.uint64(63)) & np.uint64(1))


@subkernel
def has_polarity(code: np.uint32) -> np.uint8:
    """1 for an ideograph with a polarity, else 0, from a bitmap that is smaller than the table."""
    return _has_bit(_BITS, code)


@subkernel
def may_be_pair(one: np.uint32, other: np.uint32) -> np.uint8:
    """Whether two ideographs may be a listed word; saves nearly all other look-ups."""
    begin, size = np.uint32(0x4E00), np.uint32(0xAC00 - 0x4E00)  # without Hangul, as `_pairs`
    ideographs = np.uint8((one - begin < size) & (other - begin < size))
    return ideographs & _has_bit(_JOINED, np.uint32(one * _SPREAD + other) & np.uint32(0xFFFF))


@subkernel
def may_end_body(code: np.uint32) -> np.uint8:
    """Whether a word of two ideographs for a body (公司) may end with this one."""
    return _has_bit(_ENDS, code)


@subkernel
def polarity_of(code: np.uint32) -> np.uint64:
    """Polarity of an ideograph; 0 for any other code point."""
    return np.uint64(of_code_point(_VALUES, code))


#: flag of the kind of an unlisted token for which `ends_turn` holds
TURNING: Final = 16384
FURTHER: Final = 32768  # flag of a name's later words, which are not part of the clause's words
ELIDED: Final = POINTER  # flag of a token that begins with an article and an apostrophe
SPACE, HYPHEN, APOSTROPHE, _CYRILLIC = map(ord, " -'а")
_A, _L, _Q, _U, _Z = map(ord, "alquz")
_ELIDED: Final = np.uint64(5)  # more than the letters before such an apostrophe
_CYRILLIC_LETTERS, _STEM = 48, 5
LONG: Final = 32  # characters; longer words are not hashed by `hash_slice`
_OFFSET: Final = MOST // 2  # between the numbers that are mixed for the weights


def _weights() -> tuple[Hashes, Hashes]:
    words, turns = [0] * MOST, [0] * MOST
    turns[NOT] = 0x9E3779B97F4A7C15
    turns[SOME], turns[MUST] = mix_int(MOST), mix_int(MOST + 1)
    words[NAME] = mix_int(_OFFSET)
    classes = polarity().classes
    for value in range(ALTERNATIVES, BODY):
        # Mixed, so that different words in a clause do not add up to the same sum.
        same = value >= classes[-1]
        words[value] = words[NAME] if same else mix_int(bisect_right(classes, value))
        turns[value] = mix_int((_OFFSET if value < _OFFSET else MOST) + value)
    for value in range(BODY, TITLE + 1):
        words[value] = mix_int(MOST + _OFFSET + value - BODY)
    return np.array(words, np.uint64), np.array(turns, np.uint64)


#: what a word of each polarity adds to the words and to the turn of its clause
WORDS, TURNS = _weights()
_LONGEST: Final = 8  # ideographs of a word whose ends are examined
_CHINA: Final = np.array(list(map(ord, "中国國")), np.uint32)
_LEVELS: Final = code_set("省市县縣区區州镇鎮乡鄉村")


@subkernel
def divides(codes: Codes, flags: Flags, first: np.uint64, last: np.uint64) -> bool:
    """Whether a clause ends between words that end at `first` and begin at `last`: the character at
    `first` separates, but is no space, hyphen, symbol or end of a wrapped line."""
    if first >= last:
        return False
    joins = (codes[first] == np.uint32(SPACE)) | (codes[first] == np.uint32(HYPHEN))
    joins |= is_wrap(codes, np.int64(first))
    return (flags[first] & SYMBOL == SEPARATES) & (not joins)


@subkernel
def ends_turn(codes: Codes, first: np.uint64, last: np.uint64) -> bool:
    """Whether a word of several ideographs begins or ends with one that has a polarity."""
    ends = has_polarity(codes[first]) | has_polarity(codes[last - np.uint64(1)]) != np.uint8(0)
    return ends & (last - first - np.uint64(2) <= np.uint64(_LONGEST - 2))


@subkernel
def kind_or_name(table: Hashes, value: np.uint64, sort: np.uint8) -> np.uint64:
    """Kind of a word, given by its hash; if it has none but `STYLE` (中国), that of a name where
    `sort` says that the dictionary tags it as a proper noun."""
    kind = kind_of(table, value)
    placed = (kind & ~np.uint64(STYLE) == np.uint64(0)) & (sort & np.uint8(PROPER) != np.uint8(0))
    return kind | np.uint64(2 * NAME) if placed else kind


@subkernel
def turn_of(polar: np.uint64, value: np.uint64) -> np.uint64:
    """What a word adds to the turn of its clause, from its polarity and its hash."""
    return TURNS[polar] + (value if polar == np.uint64(NAME) else np.uint64(0))


@subkernel
def elided(codes: Codes, first: np.uint64, last: np.uint64) -> np.uint64:
    """Where a word begins behind an elided article or the like (l'automne, n'est, dell'anno)."""
    one, near = np.uint64(1), False
    if codes[first] - np.uint32(_A) > np.uint32(_Z - _A):
        return first
    for i in range(4):  # of all words, without a branch: most have none
        near |= codes[min(first + np.uint64(i + 1), last - one)] == np.uint32(APOSTROPHE)
    if not near or last - first < np.uint64(3):
        return first
    if codes[first + one] == np.uint32(APOSTROPHE):
        return first + one + one
    for end in range(first + one + one, min(last - one, first + _ELIDED)):
        if codes[end] == np.uint32(APOSTROPHE):
            final, cut = np.int64(codes[end - one]), codes[first] == np.uint32(_Q)
            cut &= final == _U and end == first + one + one
            cut |= end > first + one + one and final == _L and codes[end - one - one] == _L
            return end + one if cut else first
    return first


@subkernel
def stem_hash(
    text: HashedText, first: np.uint64, begin: np.uint64, last: np.uint64, value: np.uint64
) -> np.uint64:
    """Hash of the part of a word that counts: of a Cyrillic word five letters, as cases change, of
    others from `begin` on (see `elided`); 0 if it does not count."""
    if text.codes[first] >= np.uint32(FIRST_WIDE):
        return value
    cyrillic = text.codes[first] - np.uint32(_CYRILLIC) < np.uint32(_CYRILLIC_LETTERS)
    end = first + np.uint64(_STEM) if cyrillic & (last - first > np.uint64(_STEM)) else last
    if (value != 0) & ((begin > first) | (end < last)) & (end - begin < np.uint64(LONG)):
        value = hash_slice(text, begin, end)
    return value


@subkernel
def name_hash(text: HashedText, first: np.uint64, last: np.uint64, value: np.uint64) -> np.uint64:
    """Hash of a name, equal for 河北省 and 河北, and for 中国人民银行 and 人民银行; `value` if the
    word is too long for `hash_slice`."""
    if last - first >= np.uint64(LONG):
        return value
    whole = (text.codes[first] == _CHINA[0]) & (last - first > np.uint64(4))
    if whole and among(np.int64(text.codes[first + np.uint64(1)]), _CHINA[1:]):
        first += np.uint64(2)
    level = among(text.codes[last - np.uint64(1)], _LEVELS)
    last -= np.uint64((last - first > np.uint64(2)) & level)
    return hash_slice(text, first, last)


@subkernel
def weigh_parts(text: HashedText, first: np.uint64, last: np.uint64) -> tuple[np.uint64, np.uint64]:
    """What a word for which `ends_turn` holds adds to the words and to the turn of its clause."""
    one, two, none = np.uint64(1), np.uint64(2), np.uint64(0)
    polar, part, pair = polarity_of(text.codes[first]), none, False
    if polar:
        first += one
    else:
        if last - first > two:
            part = hash_slice(text, last - two, last)
            polar = kind_of(text.kinds, part) % np.uint64(NUMBER) >> one
        pair = polar != none
        last -= two if polar else one
        polar = polar if polar else polarity_of(text.codes[last])
    rest = hash_slice(text, first, last)
    kind = kind_of(text.kinds, rest) % np.uint64(NUMBER)
    # 价格上涨 is one word, 价格下跌 two, the first of which is a noun.
    kind = np.uint64(2 * NAME) if pair & (kind == none) & (last - first >= two) else kind
    words = WORDS[polar] + (rest if kind == none else WORDS[kind >> one])
    return words, turn_of(polar, part) + turn_of(kind >> one, rest)


# Listed words in texts whose tokens are not words, see `scriptclauses`.


def _reach(words: Iterable[str]) -> NDArray[np.uint8]:
    """Length of the longest listed word that begins with each code point below 2**16."""
    longest = dict[int, int]()
    for word in words:
        longest[ord(word[0])] = max(longest.get(ord(word[0]), 0), len(word))
    return by_code_point(longest, np.uint8)


_REACH: Final = constant(
    lambda: _reach([*polarity().words, *(word[1:] for word in polarity().own)])
)


@subkernel
def reach(code: np.uint32) -> int:
    """Length of the longest listed word that begins with a code point."""
    return of_code_point(_REACH, code)


@subkernel
def _is_mark(flags: Flags, i: int) -> bool:
    """Whether a mark is at i, other than a sign of a name such as C++ (see `boundaries`)."""
    return flags[i] & (BLOCK | CLASS_MASK) == EXTEND


@subkernel
def is_letter(flags: Flags, i: int) -> bool:
    """Whether the character at i is a part of a word."""
    return flags[i] & SEPARATES == 0 or _is_mark(flags, i)


@subkernel
def run_end(flags: Flags, i: int) -> int:
    """The end of the run of letters and digits from i on."""
    while i < flags.size and is_letter(flags, i):
        i += 1
    return i


@subkernel
def listed(text: HashedText, first: int, last: int) -> int:
    """Polarity of the characters from first to last; 0 if they are no listed word."""
    value = hash_slice(text, np.uint64(first), np.uint64(last))
    return np.int64(kind_of(text.kinds, value) & np.uint64(NUMBER - 1)) >> 1


@subkernel
def longest_word(text: HashedText, first: int, last: int) -> tuple[int, int]:
    """End and polarity of the longest listed word from `first` to `last` at most that no mark
    follows; `first` and 0 if there is none."""
    end = min(last, first + reach(text.codes[first]))
    while end > first:
        whole = end == text.codes.size or not _is_mark(text.flags, end)
        found = listed(text, first, end) if whole else 0
        if found:
            return end, found
        end -= 1
    return first, 0


@subkernel
def name_value(text: HashedText, first: int, last: int) -> np.uint64:
    """What a name adds to the turn of its clause."""
    return hash_slice(text, np.uint64(first), np.uint64(min(last, first + LONG - 1)))


@subkernel
def weigh(polar: int, value: np.uint64) -> tuple[np.uint64, np.uint64]:
    """What a listed word with the hash `value` adds to the words and to the turn of its clause."""
    if polar >= BODY and polar != GIVEN:
        return value, np.uint64(0)
    if polar in (NAME, GIVEN):
        return WORDS[NAME], value
    return WORDS[polar], TURNS[polar]
