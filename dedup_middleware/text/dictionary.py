"""Word frequencies in jieba's format: the dictionary jieba ships, and a user's own.

A line is `word frequency [tag]`; in a user's dictionary the frequency may be left out, and jieba
then chooses one that keeps the word whole. This module repeats that choice, so that the result
equals `jieba.load_userdict`.

jieba itself is never imported: only its data file is read.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from typing import Final

import attrs

_USER_LINE: Final = re.compile(r"^(.+?)( [0-9]+)?( [a-z]+)?$")
_BLOCK: Final = re.compile(r"([\u4E00-\u9FD5a-zA-Z0-9+#&._%\-]+)")
_ALNUM: Final = re.compile(r"[a-zA-Z0-9]")
_PROPER: Final = ("nr", "ns", "nt", "nz")  # tags of persons, places, bodies, and other names


@attrs.frozen(eq=False)
class Dictionary:
    """Frequencies of words, their total as jieba counts it, and the tags of proper nouns."""

    frequencies: dict[str, int]
    total: int
    tags: dict[str, str] = attrs.field(factory=dict)


def jieba_file(name: str) -> Path:
    """The path of a data file of the installed jieba, such as its dictionary `dict.txt`.

    Raises:
        FileNotFoundError: jieba is not installed, or without that file.
    """
    found = importlib.util.find_spec("jieba")
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder) / name
        if path.is_file():
            return path
    file = name.rpartition("/")[2]
    raise FileNotFoundError(f"jieba's {file} is missing: install it with `pip install jieba`")


def parse(data: bytes, source: str = "dictionary") -> Dictionary:
    """Read a whole dictionary (`word frequency [tag]` in every line).

    Raises:
        ValueError: a line has another form; the message names `source` and the line.
    """
    frequencies: dict[str, int] = {}
    tags: dict[str, str] = {}
    total = 0
    for number, line in enumerate(data.splitlines(), 1):
        try:
            word, count, *rest = line.strip().decode().split(" ")
            frequency = int(count)
            if frequency < 0:
                raise ValueError(count)
        except ValueError:
            raise ValueError(
                f"{source}, line {number}: {line!r} is not `word frequency [tag]` in UTF-8"
            ) from None
        frequencies[word] = frequency
        total += frequency
        if rest and rest[0].startswith(_PROPER):
            tags[word] = rest[0]
    return Dictionary(frequencies, total, tags)


def add_user_words(dictionary: Dictionary, data: bytes, source: str) -> Dictionary:
    """`dictionary` with a user's words, as `jieba.load_userdict` would add them.

    Raises:
        ValueError: the file is not UTF-8; the message names `source`.
    """
    try:
        lines = [line.strip().decode().lstrip("\ufeff") for line in data.split(b"\n")]
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is not UTF-8: save the user dictionary as UTF-8") from error
    known, tags = _with_prefixes(dictionary.frequencies), dict(dictionary.tags)
    total = dictionary.total
    for line in filter(None, lines):
        match = _USER_LINE.match(line)
        if match is None:  # white space that only Unicode knows
            continue
        word, count = match.group(1), match.group(2)
        frequency = int(count) if count else _suggest(word, known, total)
        known[word] = frequency
        total += frequency
        tag = (match.group(3) or "").strip()
        if tag.startswith(_PROPER):
            tags[word] = tag
        for end in range(1, len(word)):
            known.setdefault(word[:end], 0)
    return Dictionary(known, total, tags)


def fold_words(dictionary: Dictionary, fold: Callable[[str], str]) -> Dictionary:
    """`dictionary` with every word in normal form; of equal words the most frequent counts."""
    folded: dict[str, int] = {}
    tags: dict[str, str] = {}
    for word, frequency in dictionary.frequencies.items():
        form = fold(word)
        if form:
            folded[form] = max(frequency, folded.get(form, 0))
            if word in dictionary.tags:
                tags[form] = dictionary.tags[word]
    return Dictionary(folded, dictionary.total, tags)


def _with_prefixes(frequencies: dict[str, int]) -> dict[str, int]:
    known = dict(frequencies)
    for word in frequencies:
        for end in range(1, len(word)):
            known.setdefault(word[:end], 0)
    return known


def _suggest(word: str, known: dict[str, int], total: int) -> int:
    """jieba's `suggest_freq(word)`: the least frequency at which the word is not cut into parts."""
    frequency = 1.0
    for part in _cut(word, known, total):
        frequency *= known.get(part, 1) / float(total)
    return max(int(frequency * total) + 1, known.get(word, 1))


def _cut(text: str, known: dict[str, int], total: int) -> Iterator[str]:
    for block in _BLOCK.split(text):
        if _BLOCK.match(block):
            yield from _cut_block(block, known, total)
        else:
            yield from block


def _cut_block(block: str, known: dict[str, int], total: int) -> Iterator[str]:
    end = len(block)
    best = {end: (0.0, end)}
    for start in range(end - 1, -1, -1):
        ends = [e for e in range(start + 1, end + 1) if known.get(block[start:e])]
        best[start] = max(
            (log(known.get(block[start:e]) or 1) - log(total) + best[e][0], e)
            for e in ends or [start + 1]
        )
    start, letters = 0, ""
    while start < end:
        part = block[start : best[start][1]]
        start = best[start][1]
        if len(part) == 1 and _ALNUM.match(part):
            letters += part
            continue
        if letters:
            yield letters
            letters = ""
        yield part
    if letters:
        yield letters
