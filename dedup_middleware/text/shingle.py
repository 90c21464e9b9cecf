"""From text to features: normalise, segment, drop stop words, hash shingles, in one kernel."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel
from dedup_middleware.base.kerneltypes import (
    I32,
    R8,
    R32,
    R64,
    RF64,
    U8,
    U32,
    U64,
    U64_2,
    Tuple,
    boolean,
    int64,
    uint64,
)
from dedup_middleware.text import cutting, normalize
from dedup_middleware.text.characters import FORMAT as FOLD_FORMAT
from dedup_middleware.text.characters import (
    Codes,
    Hashes,
    Places,
    code_points,
    fold_text,
    load_characters,
    simplified,
)
from dedup_middleware.text.clauses import NAME, NUMBER, STOP, polarity
from dedup_middleware.text.hashing import MAX_WIDTH, constants, hash_words, make_table
from dedup_middleware.text.stopwords import DEFAULT, MONTHS, NUMBER_WORDS
from dedup_middleware.text.stopwords import stop_words as read_stop_words
from dedup_middleware.text.textkernel import TextParts, keep_words, read_text
from dedup_middleware.text.trie import NO_TRIE, Trie, open_dictionary

FORMAT: Final = 17
DEFAULT_MAX_CHARS: Final = 1_000_000
_HAN_WORD: Final = re.compile("[\u4e00-\u9fd5]+")


@attrs.frozen(eq=False)
class Shingles:
    """What is left of a text: numbers only.

    :param features: distinct hashes of the shingles, in order of first occurrence.
    :param counts: how often each feature occurs.
    :param figures: distinct hashes of the text's numerals in canonical form.
    :param places: for each numeral outside date lines two entries, and one for each name: 24 bits,
        of which 16 are its place and 8 its value; see `places`.
    :param clauses: for each clause its words and its turn, uint64[n, 2]; see `clauses`.
    :param tokens: number of tokens, stop words left out unless there are no others.
    :param order: hashes of the shingles in text order.
    :param values: hashes of the numerals and, of a short page, of its words, in text order.
    :param positions: the token, from 0 on, of each of these.
    :param sorts: what each is: a numeral that may be a year, is in a date line or in a time stamp
        (see `datelines`), any other numeral, or a word (see `wording`).
    :param anchors: hashes of some clauses, see `wording`.
    :param words: of each token 32 bits of its hash.
    :param exact: keyed hash of the normalised text without white space and punctuation, and of its
        figures in text order.
    """

    features: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    figures: NDArray[np.uint64]
    places: NDArray[np.uint32]
    clauses: NDArray[np.uint64]
    tokens: int
    exact: int
    order: NDArray[np.uint64]
    values: NDArray[np.uint64]
    positions: NDArray[np.int32]
    sorts: NDArray[np.uint8]
    anchors: NDArray[np.uint64]
    words: NDArray[np.uint32]


_RESULT = Tuple(
    (boolean, U64, U32, U64, U32, U64_2, int64, uint64, U64, U64, I32, U8, U64, U32)
)  # fmt: skip


@kernel(_RESULT(R32, boolean, R32, R32, int64, int64, R64, R8, R64, RF64, R64, R64))
def _shingle(
    raw: Codes, composed: bool, table: Codes, expansions: Codes, mode: int, width: int,
    roots: Hashes, hints: NDArray[np.uint8], nodes: Hashes, weights: NDArray[np.float64],
    stops: Hashes, keys: Hashes,
) -> TextParts:  # fmt: skip
    """`read_text` for Python."""
    return read_text(
        raw, composed, table, expansions, mode, width, roots, hints, nodes, weights, stops, keys
    )


class Shingler:
    """Turns texts into `Shingles`. Made once; calls run without the interpreter lock.

    :param segmenter: `jieba`, `fmm`, `words` or `char` (see `cutting`). With the first two, text
        without Han characters is cut as by `words`, so one setting serves every language.
    :param width: tokens in a shingle.
    :param stop_words: see `stopwords.stop_words`.
    :param user_dictionary: further words, in the format of jieba's user dictionaries; their letters
        are normalised like the text's.
    :param hash_key: 64-bit key of all hashes. Who does not know it can't craft colliding pages.
    :param max_chars: code points beyond this number are ignored, which bounds time and memory.
    :param traditional: turn traditional characters into simplified ones (extra `traditional`).
    :raises ValueError: a value out of range, an unknown name or a malformed dictionary.
    :raises FileNotFoundError: a dictionary is missing.
    :raises ImportError: `traditional` without the OpenCC package.
    """

    def __init__(
        self,
        *,
        segmenter: str = "jieba",
        width: int = 3,
        stop_words: str | frozenset[str] = DEFAULT,
        user_dictionary: Path | None = None,
        hash_key: int = 0,
        max_chars: int = DEFAULT_MAX_CHARS,
        traditional: bool = False,
    ) -> None:
        if segmenter not in cutting.SEGMENTERS:
            known = ", ".join(cutting.SEGMENTERS)
            raise ValueError(f"segmenter={segmenter!r} is unknown: choose one of {known}")
        self._mode = cutting.SEGMENTERS[segmenter]
        if not 1 <= width <= MAX_WIDTH:
            raise ValueError(f"width={width} is out of range: choose 1 to {MAX_WIDTH}")
        if not 0 <= hash_key < 1 << 64:
            raise ValueError(f"hash_key={hash_key} is out of range: choose 0 to 2**64 - 1")
        if max_chars < 1:
            raise ValueError(f"max_chars={max_chars} is out of range: choose 1 or more")
        self._width = width
        self._max_chars = max_chars
        self._keys = constants(hash_key, width)
        self._mapping = simplified() if traditional else {}
        mapping_name = _digest(repr(sorted(self._mapping.items()))) if traditional else ""
        self._characters = load_characters(self._mapping, mapping_name)
        digest = ""
        self._load_trie: Callable[[], Trie] = lambda: NO_TRIE
        if self._mode in (cutting.JIEBA, cutting.FMM):
            digest, self._load_trie = open_dictionary(
                user=user_dictionary,
                fold=partial(_fold_word, self._mapping),
                fold_name=f"folded-{FOLD_FORMAT}-{mapping_name}",
            )
            if user_dictionary is not None:
                _ = self._trie  # a malformed one is an error now, not at the first text
        chosen = read_stop_words(stop_words)
        words, kinds = _kinds_of_words(chosen.words)
        self._stops = make_table(hash_words(words, self._keys), kinds)
        parts = [segmenter, f"{width}w", chosen.name]
        if digest:
            parts.append(digest)
        if traditional:
            parts.append(f"t2s.{mapping_name}")
        if hash_key:
            parts.append(f"key.{_digest(str(hash_key))}")
        if max_chars != DEFAULT_MAX_CHARS:
            parts.append(f"{max_chars}c")
        self.fingerprint: str = "-".join([*parts, f"v{FORMAT}"])
        """Names every parameter, the dictionary by its hash: equal names, equal features."""

    @cached_property
    def _trie(self) -> Trie:
        # Not before there is a text: the dictionary is built with kernels, which are compiled.
        return self._load_trie()

    @cached_property
    def tables(self) -> tuple[Any, ...]:
        """What `read_text` takes behind the code points and `composed`."""
        letters = (self._characters.table, self._characters.expansions)
        return (*letters, self._mode, self._width, *self._trie.arrays, self._stops, self._keys)

    def code_points(self, text: str, *, composed: bool = False) -> NDArray[np.uint32]:
        """The code points of the part of `text` that counts, composed on demand."""
        text = text[: self._max_chars]
        return code_points(normalize.compose(text) if composed else text)

    def __call__(self, text: str) -> Shingles:
        """The shingles of `text`; any string will do, and none raises."""
        found = _shingle(self.code_points(text), False, *self.tables)
        if not found[0]:
            found = _shingle(self.code_points(text, composed=True), True, *self.tables)
        return Shingles(*found[1:7], int(found[7]), *found[8:])

    def tokens(self, text: str) -> list[str]:
        """The tokens that shingles are made of, in normal form, for people to read."""
        codes, starts, ends, _ = self._cut(text)
        decoded = codes.tobytes().decode("utf-32-le", "surrogatepass")
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        return [decoded[first:last] for first, last in places]

    def token_hashes(self, text: str) -> NDArray[np.uint64]:
        """The hash of each token, in order: for weights by term frequency."""
        return self._cut(text)[3]

    def _cut(self, text: str) -> tuple[Codes, Places, Places, Hashes]:
        codes, flags = fold_text(text[: self._max_chars], self._characters)
        hashes = np.empty(codes.size, np.uint64)
        starts, ends = np.empty(codes.size, np.int32), np.empty(codes.size, np.int32)
        named = np.zeros(codes.size, np.uint8)
        tokens = (starts, ends, named)
        count = cutting.tokenize(codes, flags, self._mode, *self._trie.arrays, *tokens)
        clauses = np.empty((count, 2), np.uint64)
        rows = np.empty((2, codes.size), np.uint8)
        places = (starts, ends, count, named, self._stops, self._keys, hashes, clauses)
        kept, _, _ = keep_words(codes, flags, *places, rows[0], rows[1])
        return codes, starts[:kept], ends[:kept], hashes[:kept]


@lru_cache(maxsize=2)
def _kinds_of_words(stop_words: frozenset[str]) -> tuple[NDArray[np.str_], NDArray[np.uint64]]:
    """All words that the table of stop words has an entry for, and what each is."""
    shipped = polarity()
    kinds = {word: 2 * value for word, value in {**shipped.words, **shipped.own}.items()}
    # Months are left to the figures: those of two date lines turn nothing round.
    kinds = dict.fromkeys(NUMBER_WORDS - MONTHS, 2 * NAME) | kinds
    kinds.update({word: kinds.get(word, 0) | STOP for word in stop_words})
    kinds.update({word: kinds.get(word, 0) | NUMBER for word in NUMBER_WORDS})
    return np.array(list(kinds)), np.array(list(kinds.values()), np.uint64)


def _fold_word(mapping: Mapping[int, int], word: str) -> str:
    # Nearly all words are Han characters that no normal form changes.
    if mapping or not _HAN_WORD.fullmatch(word):
        word = normalize.normalize(word).translate(mapping)
    return word


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
