"""Plain Python twins of the text kernels, and strategies that feed both."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import regex
from hypothesis import strategies as st
from numpy.typing import NDArray
from uniseg.wordbreak import word_break, words

from dedup_middleware.text import cutting
from dedup_middleware.text import trie as dictionary
from dedup_middleware.text.characters import (
    CLASS_MASK,
    CONNECTOR,
    EMOJI,
    EXTEND,
    LETTER,
    SA,
    SEPARATES,
    SEPARATOR,
    SINGLE,
    Characters,
    code_points,
    load_characters,
    word_classes,
)
from dedup_middleware.text.hashing import TOKEN_BASE, TOKEN_START
from dedup_middleware.text.normalize import normalize
from dedup_middleware.text.trie import NO_TRIE, Trie, open_dictionary

MASK = (1 << 64) - 1
# Stand for the signs of C++ and C# that are parts of words: marks, which no normal form has.
MARKS = {"+": "\U000e0100", "#": "\U000e0101"}
SIGNS = str.maketrans({mark: sign for sign, mark in MARKS.items()})
BLOCK = re.compile(f"([\u4e00-\u9fd5a-zA-Z0-9+#&._%{''.join(MARKS.values())}-]+)")

FRAGMENTS = (
    *"中国人民共和国研究生命起源的了一二三万亿年月日点分之百第两零〇不大学生活动南京市长江大桥",
    *"abzAZ019.,'_-+#&%:;\"() \t\r\n，。、！？…％：；ａＺ０９",
    *"éßİςΣñ\u0301\u0308\u00ad\u200b\u200d\ufeff\ufe0f\u202e\x00\x1f",
    *"あいアーカﾞｶ京東漢字한국어각ᄀ각สวัสดีກຂကခកខאבגدذ٣",
    *"\U0001f600\U0001f1e8\U0001f1f3\U0001f3fd㎡①½ﬁ\ufdfa\ud800\udfff\u0378\ue000",
    *("中华人民共和国", "AT&T", "C++", "B超", "\r\n", "3.5", "1,000", "don't", "can’t", "γ射线"),
    *("𠮷", "\U0002f800", "\U000e0041", "卡拉OK", "T恤", "百分之", "2020年"),
)
# Unassigned ones too, but none that only a later Unicode version than this Python's assigns.
_LATER = regex.compile(r"\P{Cn}")
any_character = (
    st.integers(0, 0x10FFFF)
    .map(chr)
    .filter(lambda c: unicodedata.category(c) != "Cn" or not _LATER.match(c))
)
texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), any_character), max_size=40).map("".join)


def mix(value: int) -> int:
    """The mixer of SplitMix64."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def same_class(character: str) -> bool:
    """Whether UAX #29 alone says how to cut here, and as `uniseg` knows it: not a joiner, nor of
    a script cut into groups, nor of another class in its version of Unicode."""
    kind = word_classes()[ord(character)] & CLASS_MASK
    if kind == SA or character == "\u200d":
        return False
    plain = ("OTHER", "CR", "LF", "NEWLINE", "WSEGSPACE")
    return bool((kind in (SEPARATOR, SINGLE, EMOJI)) == (word_break(character).name in plain))


@functools.cache
def jieba() -> ModuleType:
    """jieba itself; its own source warns on import and it logs to the console."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba as module

    module.setLogLevel(60)
    return module


def tokenizer() -> Any:
    """A tokenizer of jieba's with words of its own to come; jieba's dictionary is read once."""
    own, made = jieba().dt, jieba().Tokenizer()
    own.initialize()
    made.FREQ, made.total, made.initialized = dict(own.FREQ), own.total, True
    return made


@functools.cache
def frequencies() -> dict[str, int]:
    """The words of jieba's dictionary."""
    return dictionary.parse(dictionary.jieba_file("dict.txt").read_bytes()).frequencies


@functools.cache
def folded_jieba() -> Any:
    """A jieba tokenizer whose words are in normal form."""
    made = tokenizer()
    known: dict[str, int] = {}
    for word, count in made.FREQ.items():
        if count:  # else it only begins words
            normal = normalize(word)
            known[normal] = max(count, known.get(normal, 0))
    for word in list(known):
        for end in range(1, len(word)):
            known.setdefault(word[:end], 0)
    made.FREQ = known
    return made


def is_alnum(character: str) -> bool:
    """jieba's re_eng."""
    return re.match("[a-zA-Z0-9]", character) is not None


_WORDLIKE = regex.compile(
    r"[\p{WB=ALetter}\p{WB=Katakana}\p{WB=Numeric}\p{Regional_Indicator}"
    r"[\p{Extended_Pictographic}&&\p{So}&&[\U0001F000-\U0001FAFF]]\U00020000-\U0003ffff]",
    regex.V1,
)
_EXTEND = regex.compile(r"\p{WB=Extend}")


@functools.cache
def is_word_character(character: str) -> bool:
    """Letters and numbers of any script, and emoji; marks and punctuation are none."""
    if unicodedata.category(character)[0] in "LN":
        return _EXTEND.match(character) is None
    return _WORDLIKE.match(character) is not None and _EXTEND.match(character) is None


def fmm(text: str) -> list[str]:
    """Forward maximum matching as a walk through the dictionary, longest entry first."""
    entries, longest = frequencies(), 16
    found: list[str] = []
    i = 0
    while i < len(text):
        if is_alnum(text[i]):
            end = i + len("".join(itertools.takewhile(is_alnum, text[i:])))
        else:
            end = i + 1
            if is_word_character(text[i]):
                window = "".join(itertools.takewhile(is_word_character, text[i : i + longest]))
                for size in range(len(window), 1, -1):
                    after = text[i + size : i + size + 1]
                    cuts = is_alnum(text[i + size - 1]) and after and is_alnum(after)
                    if window[:size] in entries and not cuts:
                        end = i + size
                        break
        found.append(text[i:end])
        i = end
    return found


def uax29(text: str) -> list[str]:
    """The words of the `uniseg` package; what is no word left out."""
    return [part for part in words(text) if any(map(is_word_character, part))]


def load_trie(**options: Any) -> Trie:
    """The trie of a dictionary, see `open_dictionary`."""
    return open_dictionary(**options)[1]()


@functools.cache
def whole_trie() -> Trie:
    """The trie of jieba's dictionary as it is. Each load checks all of its 14 MB."""
    return load_trie()


@functools.cache
def characters() -> Characters:
    """The table of characters, which each load checks too."""
    return load_characters({}, "")


def words_and_fmm(text: str) -> Iterator[str]:
    """Windows with a Han character by maximum matching, what stands between them by words."""
    stretch = ""
    for is_window, group in itertools.groupby(text, is_word_character):
        part = "".join(group)
        if is_window and re.search("[\u4e00-\u9fd5]", part):
            yield from uax29(stretch)
            stretch = ""
            yield from fmm(part)
        else:
            stretch += part
    yield from uax29(stretch)


def cut(segmenter: str, text: str, *, user_dictionary: Path | None = None) -> list[str]:
    """The tokens of a text as it is, without its normal form, by the kernel of all segmenters;
    marks between words left out, as they are later on."""
    codes = code_points(text).copy()
    arrays: Trie = NO_TRIE
    if segmenter in ("fmm", "jieba"):
        arrays = load_trie(user=user_dictionary) if user_dictionary else whole_trie()
    starts, ends = np.empty(codes.size, np.int32), np.empty(codes.size, np.int32)
    tokens = (starts, ends, np.zeros(codes.size, np.uint8))
    mode = cutting.SEGMENTERS[segmenter]
    count = cutting.tokenize(codes, word_classes()[codes], mode, *arrays, *tokens)
    places = zip(starts[:count].tolist(), ends[:count].tolist(), strict=True)
    found = (text[first:last] for first, last in places)
    return [token for token in found if any(map(is_word_character, token))]


def _kind(character: str) -> str:
    """+ and # themselves, `a` for an ASCII letter, `l` for another one, `w` for what else words
    are made of, `m` for marks, `h` for other tokens, a space for the rest."""
    if character in "+#":
        return character
    flag = int(word_classes()[ord(character)])
    if flag & CLASS_MASK == LETTER:
        return "a" if character.isascii() else "l"
    if EXTEND <= flag & CLASS_MASK <= CONNECTOR:
        return "m" if flag & SEPARATES else "w"
    return " " if flag & SEPARATES else "h"


def joined_signs(text: str) -> set[int]:
    """The places of signs that are parts of words: C++, C#, A+."""
    kinds = "".join(map(_kind, text))
    form = re.compile(
        r"(?<=[al])\+\+(?![+a])"
        r"|(?<=[al])\+(?![+alwh])"
        r"|(?:(?<=^[al])|(?<=[^alwm][al]))#(?![#a])"
    )
    found: set[int] = set()
    while match := form.search(kinds):  # what is joined is part of the word from then on: C++β#
        found |= {*range(*match.span())}
        kinds = kinds[: match.start()] + "m" * len(match[0]) + kinds[match.end() :]
    return found


def words_with_signs(text: str) -> list[str]:
    """The words of the default segmenter, with the signs that are parts of them."""
    joined = joined_signs(text)
    marked = "".join(MARKS[c] if place in joined else c for place, c in enumerate(text))
    return [word.translate(SIGNS) for word in words_and_jieba(marked)]


def words_and_jieba(text: str, tokenizer: Any = None) -> Iterator[str]:
    """The default segmenter: blocks with a Han character by jieba, whose words are in normal form
    unless another tokenizer is given."""
    stretch = ""
    tokenizer = folded_jieba() if tokenizer is None else tokenizer
    for part in BLOCK.split(text):
        if re.search("[\u4e00-\u9fd5]", part):
            yield from uax29(stretch)
            stretch = ""
            for token in tokenizer.lcut(part.translate(SIGNS), HMM=False):
                if any(map(is_word_character, token)):
                    yield token
        else:
            stretch += part
    yield from uax29(stretch)


def hash_word(word: str, keys: NDArray[np.uint64]) -> int:
    """Twin of `hash_token` for a whole word."""
    value, base = int(keys[TOKEN_START]), int(keys[TOKEN_BASE])
    for character in word:
        value = (value * base + ord(character)) & MASK
    return max(mix(value), 1)


def shingles(tokens: list[str], width: int, keys: list[int]) -> Counter[int]:
    """Hashes of the shingles and how often each occurs, in order of first occurrence.

    Shingles of a text with few distinct ones are made wider while that gives more of them.
    """
    hashes = []
    for token in tokens:
        value = keys[0]
        for character in token:
            value = (value * keys[1] + ord(character)) & MASK
        hashes.append(max(mix(value), 1))

    def rolled(width: int) -> Counter[int]:
        width = min(width, len(hashes))
        found: Counter[int] = Counter()
        for first in range(len(hashes) - width + 1 if hashes else 0):
            value = 0
            for one in hashes[first : first + width]:
                value = (value * keys[3] + one) & MASK
            found[mix(value ^ keys[2])] += 1
        return found

    found = rolled(width)
    while len(found) < 0.6 * found.total() and 2 * width <= 64:
        width *= 2
        wider = rolled(width)
        if len(wider) < 1.6 * len(found):
            break
        found = wider
    return found
