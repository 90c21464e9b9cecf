"""Plain Python twins of what finds names and gives them places."""

from __future__ import annotations

import functools
import re
import unicodedata

import attrs
import numpy as np

from dedup_middleware.text import cutting
from dedup_middleware.text import normalize as normal_form
from dedup_middleware.text import trie as dictionary
from dedup_middleware.text.boundaries import join_signs
from dedup_middleware.text.capitals import ARTICLES, CAPITAL_CREDITS, GERMAN, MANY, MOST, NOUNS
from dedup_middleware.text.characters import (
    CLASS_MASK,
    LETTER,
    NUMERAL,
    SEPARATES,
    SYMBOL,
    fold_text,
    word_classes,
)
from dedup_middleware.text.figures import find_figures
from dedup_middleware.text.hashing import FIGURE_START, TEXT_BASE, constants
from dedup_middleware.text.names import CREDITS, GIVEN_NAMES, SURNAMES
from dedup_middleware.text.normalize import compose, normalize, special
from dedup_middleware.text.places import FREE, NAMES, REACH, SINGLES, WIDE, WIDTH
from tests.text.oracles import BLOCK, MASK, characters, folded_jieba, load_trie, mix

KEYS = constants(0, 3)
HAN = re.compile("[\u4e00-\u9fd5]")
ALNUM = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")
_WORD = re.compile("[a-z]+")
needs_context = functools.cache(normal_form.needs_context)  # of a character, which takes long


@attrs.frozen
class Name:
    """Where a name begins and ends; with capital letters, how many words it has (0: it is left
    out) and their first letters, 0 where none is taken."""

    begin: int
    end: int
    letters: tuple[int, ...] | None = None
    counts: bool = True


@attrs.frozen
class Folded:
    """Normal form of a text, which of its characters were capitals, and its tokens."""

    text: str
    capitals: list[bool]
    tokens: list[tuple[int, int]]


@functools.cache
def tags() -> dict[str, tuple[int, str]]:
    """Frequency and tag of each word of jieba's dictionary in normal form."""
    found: dict[str, tuple[int, str]] = {}
    for line in dictionary.jieba_file("dict.txt").read_text("utf-8").splitlines():
        word, frequency, tag = line.split(" ")
        normal = normalize(word)
        found[normal] = max(int(frequency), found.get(normal, (0, ""))[0]), tag
    return found


def tokens(text: str) -> list[tuple[int, int]]:
    """Twin: where jieba's tokens of normalised text begin and end, in blocks with a Han
    character."""
    found, begin = [], 0
    for part in BLOCK.split(text):
        place = begin
        begin += len(part)
        if HAN.search(part) and BLOCK.fullmatch(part):
            for token in folded_jieba().lcut(part, HMM=False):
                found.append((place, place + len(token)))
                place += len(token)
    return found


def is_person(word: str) -> bool:
    """Twin: whether a word of the dictionary is a name."""
    frequency, tag = tags().get(word, (0, ""))
    if not tag.startswith("nr") or not HAN.match(word):
        return False
    if len(word) == 2:
        return tag != "nrt" and word[0] in SURNAMES and frequency < 1000
    return len(word) > 3 or (len(word) == 3 and (tag == "nrt" or word[0] in SURNAMES))


def is_single(word: str) -> bool:
    """Twin: whether a token is one character of a given name."""
    rare = tags().get(word, (0, ""))[0] < 4000 or word in GIVEN_NAMES
    return len(word) == 1 and bool(HAN.match(word)) and rare and word not in "摄译绘撰"


def is_rare(word: str) -> bool:
    """Twin: whether a token is one character that is no frequent word, and no letter or digit."""
    frequency = tags().get(word, (0, ""))[0]
    if len(word) != 1 or (frequency and not HAN.match(word)) or word in ALNUM:
        return False
    return (frequency < 4000 or word in GIVEN_NAMES) and word not in "摄译绘撰"


def is_pair(word: str) -> bool:
    """Twin: whether a token is a given name of two characters."""
    return len(word) == 2 and tags().get(word, (0, ""))[1].startswith(("nr", "nz"))


def persons(text: str, count: int) -> list[Name]:
    """Twin: the names of persons in normalised Chinese text that has `count` tokens."""
    found, cut, i = [], tokens(text), 0
    if 4 * sum(is_rare(text[begin:end]) for begin, end in cut) > 3 * count:
        return []

    def following(end: int) -> str:
        return text[slice(*cut[i])] if i < len(cut) and cut[i][0] == end else ""

    while i < len(cut):
        begin, end = cut[i]
        word = text[begin:end]
        i += 1
        if is_person(word):
            if len(word) == 2 and is_single(following(end)):
                end, i = end + 1, i + 1
        elif word in tuple(SURNAMES):
            if is_pair(following(end)):
                end, i = end + 2, i + 1
            else:
                for _ in range(2):
                    if is_single(following(end)):
                        end, i = end + 1, i + 1
            if end == begin + 1:
                continue
        else:
            continue
        found.append(Name(begin, end))
    return found


def separates(character: str) -> bool:
    """Whether a character is punctuation or white space."""
    return bool(word_classes()[ord(character)] & SEPARATES)


def is_credit(text: str, begin: int, end: int, before: int) -> bool:
    """Twin: whether the name text[begin:end] says who made the page; `before` is the end of a
    credit in front of it, or -1."""
    if text[:begin].endswith(tuple("([{【〔〖")):
        return True
    left = text[:begin]
    while len(left) > max(begin - 4, before, 0) and separates(left[-1]):
        left = left[:-1]
    if before >= 0 and len(left) <= before and all(map(separates, text[before:begin])):
        return begin - before <= 4
    if left.endswith(CREDITS):
        return True
    if left.endswith(tuple("文图摄译编圖攝譯編")) and text[len(left) : begin][:1] in ("/", ":"):
        return True
    right = text[end:]
    for _ in range(4):
        if right and separates(right[0]):
            right = right[1:]
    return right[:1] in ("摄", "攝")


@functools.cache
def folded_trie() -> dictionary.Trie:
    """The trie of jieba's dictionary in normal form."""
    return load_trie(fold=normalize, fold_name="folded")


def fold(text: str) -> Folded:
    """Twin: the normal form, capitals and tokens of a text."""
    dropped = special().dropped
    # Compatibility ideographs beyond the table of characters ask for the whole text to be composed.
    rare = range(0x2F800, 0x2FA20)
    if any(needs_context(c) or ord(c) in rare for c in text if ord(c) not in dropped):
        text = compose(text)
    form, capitals = "", []
    for character in text:
        if ord(character) in dropped:
            continue
        part = character.translate(special().folds)
        if not needs_context(character) and unicodedata.category(character) != "Cn":
            part = normalize(character)
        form += part
        known = character.isascii() or "À" <= character < "\u2000" or "Ａ" <= character <= "Ｚ"
        letter = len(part) == 1 and word_classes()[ord(part)] & CLASS_MASK == LETTER
        capitals += [bool(letter and known and part != character)] * len(part)
    codes, flags = fold_text(text, characters())
    join_signs(codes, flags)
    starts, ends = np.empty(codes.size, np.int32), np.empty(codes.size, np.int32)
    trie = folded_trie()
    kinds = np.zeros(codes.size, np.uint8)
    count = cutting.tokenize(codes, flags, cutting.JIEBA, *trie, starts, ends, kinds)
    places = zip(starts[:count].tolist(), ends[:count].tolist(), strict=True)
    return Folded(form, capitals, list(places))


def unwrapped(text: str) -> str:
    """Twin: the text with a space where a line of 40 characters and more ends before a letter."""
    return re.sub(r"(?<=[^\n]{40})\n(?![\t-\r ])", " ", text)


def begins_sentence(text: str, begin: int) -> bool:
    """Twin: whether the text before a word lets it begin a sentence."""
    quoted = re.search(r"(.) [\"“„«‹「『]$", text[:begin], re.DOTALL)
    if quoted and not separates(quoted[1]):
        return False
    left = unwrapped(text)[:begin].rstrip(" ")
    return not left or (separates(left[-1]) and left[-1] not in ",;&/)")


def first_letter(page: Folded, begin: int, end: int) -> int:
    """Twin: the letter that abbreviates a word; 0 if none does."""
    alone = end == begin + 1 and page.text[end : end + 1] != "."
    return 0 if alone or any(page.capitals[begin + 1 : end]) else ord(page.text[begin])


def short_form(page: Folded, begin: int, end: int) -> int:
    """Twin: a hash of the letters of a word of up to three capitals; 0 of others."""
    letters = [ord(one) for one in page.text[begin:end] if one != "."]
    if end == begin + 1:
        return 0 if letters == [ord("i")] else ord(page.text[begin])
    if not any(page.capitals[begin + 1 : end]) or not 1 < len(letters) <= 3:
        return 0
    return functools.reduce(lambda total, one: (total * 0x01000193 + one) % 2**32, letters, 0)


def runs(page: Folded) -> list[Name]:
    """Twin: the names with capital letters."""
    text, tokens_ = page.text, page.tokens
    marked = [page.capitals[begin] for begin, _ in tokens_]
    if not 0 < sum(marked) <= len(tokens_) * NOUNS:
        return []
    nouns, many = sum(marked) > len(tokens_) * MOST, sum(marked) > MANY
    words = [text[begin:end] for begin, end in tokens_]
    if nouns and sum(word in GERMAN for word in words) * ARTICLES < len(words):
        return []
    if nouns:
        marked = [
            m and not begins_sentence(text, token[0])
            for m, token in zip(marked, tokens_, strict=True)
        ]
    if nouns or many:
        near = [
            i + 1 < len(marked) and marked[i + 1] and tokens_[i + 1][0] - tokens_[i][1] <= 2
            for i in range(len(marked))
        ]
        marked = [
            m and (near[i] or (i > 0 and marked[i - 1] and near[i - 1]))
            for i, m in enumerate(marked)
        ]
    found: list[Name] = []
    i, credited = 0, -1
    while i < len(tokens_):
        if not marked[i]:
            i += 1
            continue
        first = i
        i += 1
        while i < len(tokens_) and marked[i] and joins(text, tokens_[i - 1], tokens_[i][0]):
            i += 1
        begin, end = tokens_[first][0], tokens_[i - 1][1]
        initial = begins_sentence(text, begin)
        if i == first + 1 and initial:
            credited = -1
            continue
        letters = [first_letter(page, *token) for token in tokens_[first:i]]
        if initial:
            letters[0] = 0
        if i == first + 1 and letters == [0]:
            letters = [short_form(page, begin, end)]
        credit = is_byline(page, first, initial, credited)
        credited = i if credit else -1
        counts = not credit and any(letters) and end < len(text)
        found.append(Name(begin, end, tuple(letters), counts))
    return found


def joins(text: str, before: tuple[int, int], begin: int) -> bool:
    """Twin: whether a word goes on with the run of the word before it."""
    gap = unwrapped(text)[before[1] : begin]
    return gap in (" ", "-", "\u2010", "\u2011") or (gap == ". " and before[1] - before[0] <= 3)


def is_byline(page: Folded, first: int, initial: bool, credited: int) -> bool:
    """Twin: whether the run from a token on says who made the page; `credited` is the token
    behind the last run if that is one."""
    text, begin = page.text, page.tokens[first][0]

    def word(i: int) -> str:
        found = _WORD.match(text, page.tokens[i][0])
        size = page.tokens[i][1] - page.tokens[i][0]
        return found[0] if found and (len(found[0]) <= 12) and size else ""

    def short(i: int) -> str:
        return word(i) if page.tokens[i][1] - page.tokens[i][0] <= 3 else ""

    by = ("by", "von", "par", "por")
    before = first - 1
    credit = bool(begin) and text[begin - 1] in "([{【〔〖"
    credit |= initial and (short(first) in by or word(first) in CAPITAL_CREDITS)
    if credit or before < 0 or begin - page.tokens[before][1] > 4:
        return credit
    if credited >= 0 and (credited > before or short(before) in ("and", "und", "et")):
        return credited >= before
    if short(before) in by:
        near = before > 0 and page.tokens[before][0] - page.tokens[before - 1][1] <= 4
        credit = begins_sentence(text, page.tokens[before][0])
        return credit or (near and word(before - 1) in CAPITAL_CREDITS)
    return word(before) in CAPITAL_CREDITS


def side(page: Folded, numerals: set[int], names: list[Name], i: int, step: int) -> list[int]:
    """Twin: the letters from i on, outwards, with a numeral or a name as one letter."""
    text = page.text
    letters: list[int] = []
    left, numeral = WIDTH, False
    last = i + step * REACH
    while 0 <= i < len(text) and left > 0 and (last - i) * step > 0:
        name = next((name for name in names if name.begin <= i < name.end), None)
        flags = int(word_classes()[ord(text[i])])
        if name:
            letters.append(0x110002)
            left -= WIDE
            i = name.begin if step < 0 else name.end - 1
            numeral = False
        elif (flags | (i in numerals) * NUMERAL) & SYMBOL == NUMERAL:
            if not numeral:
                letters.append(0x110000)
                left -= WIDE
            numeral = True
        elif not flags & SEPARATES:
            letters.append(ord(text[i]))
            left -= WIDE if ord(text[i]) >= 0x2E80 else 1
            numeral = False
        i += step
    return letters


def polynomial(start: int, base: int, letters: list[int]) -> int:
    """Twin: the hash of some letters."""
    for letter in letters:
        start = (start * base + letter) & MASK
    return start


def plain_names(text: str) -> list[int]:
    """Twin: the entries of all names of a text."""
    page = fold(text)
    names = persons(page.text, len(page.tokens)) + runs(page)
    names.sort(key=lambda name: name.begin)
    codes, flags = fold_text(page.text, characters())
    numerals = {i for *_, a, b in find_figures(codes, flags).tolist() for i in range(a, b)}
    entries, before, base = [], -1, int(KEYS[TEXT_BASE])
    for name in names:
        if name.letters is None and is_credit(page.text, name.begin, name.end, before):
            before = name.end
            continue
        before = -1
        left = side(page, numerals, names, name.begin - 1, -1)
        right = side(page, numerals, names, name.end, 1)
        place = polynomial(int(KEYS[FIGURE_START]), base, [*left, 0x110001, *right])
        if name.letters is None:
            last = name.end - (name.end - name.begin > 2)
            value = polynomial(
                int(KEYS[0]), int(KEYS[1]), [*map(ord, page.text[name.begin : last])]
            )
            entry = (NAMES | mix(place) >> 50) << 8 | mix(value) >> 56
        else:
            plain = any(letter < 0x110000 for letter in left + right)
            if not name.counts or not plain or name.begin in numerals:
                continue
            place = mix((place * base + len(name.letters)) & MASK)
            letters = polynomial(0, 0x01000193, list(name.letters)) & 0x7FFFFFFF
            lowest = NAMES if len(name.letters) > 1 else SINGLES
            entry = (lowest | place >> 51) << 8 | mix((place + letters) & MASK) >> 56
        entries.append(min(entry, FREE - 1))
    return sorted(entries)
