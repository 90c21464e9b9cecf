"""Turns a text into shingles in one kernel: normalise, segment, drop stop words, hash."""

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
from dedup_middleware.text.boundaries import join_signs
from dedup_middleware.text.capitals import has_articles, mark, mark_capitals
from dedup_middleware.text.characters import FORMAT as FOLD_FORMAT
from dedup_middleware.text.characters import (
    Codes,
    CutText,
    Hashes,
    Places,
    code_points,
    find_code,
    fold_and_align,
    fold_text,
    load_characters,
    simplified,
    word_lists,
)
from dedup_middleware.text.clauses import NUMBER, STOP, kinds_of_words, stop_words
from dedup_middleware.text.datelines import HEADLINE, date_line, editors_line, headline_end
from dedup_middleware.text.figures import hash_figures
from dedup_middleware.text.hashing import (
    SHINGLE_BASE,
    SHINGLE_START,
    TEXT_BASE,
    TOKEN_BASE,
    TOKEN_START,
    constants,
    distinct,
    hash_words,
    make_table,
    shingle_features,
)
from dedup_middleware.text.keptwords import keep_words, with_rows
from dedup_middleware.text.names import find_names, mark_persons, places_of_names
from dedup_middleware.text.numerals import NUMERALS, SMALL
from dedup_middleware.text.places import NamedText, symbols_dominate
from dedup_middleware.text.scriptclauses import NONE, script_clauses, script_of
from dedup_middleware.text.trie import NO_TRIE, Trie, open_dictionary
from dedup_middleware.text.wording import NO_NEWS, find_anchors, locate_values

_NEWLINE = np.uint32(ord("\n"))


_RESULT = Tuple(
    (boolean, U64, U32, U64, U32, U64_2, int64, uint64, U64, U64, I32, U8, U64, U64, U8)
)  # fmt: skip


@kernel(_RESULT(R32, boolean, R32, R32, int64, int64, R64, R8, R64, RF64, R64, R64))
def read_text(
    raw: Codes, composed: bool, table: Codes, expansions: Codes, mode: int, width: int,
    roots: Hashes, hints: NDArray[np.uint8], nodes: Hashes, weights: NDArray[np.float64],
    stops: Hashes, keys: Hashes,
) -> tuple[Any, ...]:  # fmt: skip
    """Read code points; return whether they need not be composed, and the parts of `Shingles`:
    features, counts, figures (each as often as it occurs), places, clauses, tokens, exact, order,
    values, positions, sorts, anchors, words, begins."""
    ready, codes, flags, shifts = fold_and_align(raw, composed, table, expansions)
    join_signs(codes, flags)
    # Few arrays, as allocating and freeing one takes .1 us.
    size, sorts = codes.size, np.zeros((3, codes.size), np.uint8)
    around, tagged, numbers = np.empty(6 * size, np.int32), sorts[0], sorts[1]
    starts, ends = around[:size], around[size : 2 * size]
    count = cutting.tokenize(codes, flags, mode, roots, hints, nodes, weights, starts, ends, tagged)
    text, marks = CutText(codes, flags, starts[:count], ends[:count], tagged), sorts[2, :count]
    if mode == cutting.CHAR or not mark(raw, shifts, text, marks):
        marks = marks[:0]
    names = around[2 * size : 2 * size + 4 * count].reshape(count, 4)
    named = find_names(text, marks, names)
    # In German all nouns have a capital letter.
    has_names = marks.size > 0 and not has_articles(text)
    room, cuts = np.empty(3 * count, np.uint64), np.empty(count, np.uint8)
    hashes, clauses = room[:count], room[count:].reshape(count, 2)
    kept, exact, written = keep_words(
        codes, flags, starts, ends, count, tagged, stops, keys, hashes, clauses, cuts, numbers
    )
    script = script_of(codes)
    if script != NONE:
        clauses = script_clauses(codes, flags, script, stops, keys)
        written = clauses.shape[0]
    clauses = with_rows(codes, flags, clauses[:written], keys)
    features, counts, order = shingle_features(hashes, kept, width, keys)
    places, figures, spans, kinds, line = hash_figures(NamedText(codes, flags, names[:named], keys))
    # Figures are added, as punctuation is not hashed: 3.5 is not 35, and -5 is not 5.
    for figure in figures:
        exact = exact * keys[TEXT_BASE] + figure
    own = places_of_names(codes, flags, names[:named])
    # A page of symbols has too few words to compare: only a page with the same text is a copy.
    whole = exact if symbols_dominate(flags, kept) else np.uint64(0)
    values, positions, valued = locate_values(
        CutText(codes, flags, starts[:kept], ends[:kept], tagged),
        hashes,
        numbers,
        figures,
        spans,
        kinds,
        own,
        line,
        whole,
        keys,
    )
    anchors = find_anchors(hashes, cuts, kept, keys)
    begin, end = date_line(codes, line)
    editors, headline = editors_line(codes), headline_end(codes)
    words, line_end = np.empty(kept, np.uint64), find_code(codes, _NEWLINE, 0)
    for i in range(np.uint64(kept)):
        if line_end < starts[i]:
            cuts[i] |= np.uint8(1)  # a wrapped line may be moved as a whole
            line_end = find_code(codes, _NEWLINE, np.int64(ends[i]))
        if starts[i] < headline:
            cuts[i] |= np.uint8(HEADLINE)
        said = starts[i] < begin or end <= starts[i] < editors
        words[i] = hashes[i] if said else np.uint64(NO_NEWS)
    mark_persons(flags, own, starts, ends, cuts[:kept])
    if has_names:
        mark_capitals(raw, shifts, codes, flags, starts, ends, cuts[:kept])
    return (
        ready, features, counts, figures, places, clauses, kept, exact, order, values,
        positions, valued, anchors, words, cuts[:kept],
    )  # fmt: skip


@kernel(
    Tuple((boolean, U64))(R32, boolean, R32, R32, int64, R64, R8, R64, RF64, R64, R64), check=False
)
def read_words(
    raw: Codes, composed: bool, table: Codes, expansions: Codes, mode: int, roots: Hashes,
    hints: NDArray[np.uint8], nodes: Hashes, weights: NDArray[np.float64], stops: Hashes,
    keys: Hashes,
) -> tuple[bool, Hashes]:  # fmt: skip
    """Read code points; return whether they need not be composed, and the hashes of the distinct
    words, as `read_text` has them."""
    ready, codes, flags, _ = fold_and_align(raw, composed, table, expansions)
    join_signs(codes, flags)
    around, sorts = np.empty((2, codes.size), np.int32), np.zeros((3, codes.size), np.uint8)
    starts, ends, tagged = around[0], around[1], sorts[0]
    count = cutting.tokenize(codes, flags, mode, roots, hints, nodes, weights, starts, ends, tagged)
    hashes, clauses = np.empty(count, np.uint64), np.empty((count, 2), np.uint64)
    kept, _, _ = keep_words(
        codes, flags, starts, ends, count, tagged, stops, keys, hashes, clauses, sorts[1], sorts[2]
    )
    return ready, distinct(hashes, kept)[0]


FORMAT: Final = 27
DEFAULT_MAX_CHARS: Final = 1_000_000
_HAN_WORD: Final = re.compile("[\u4e00-\u9fd5]+")


# Kept, because a table takes 10 ms, and a process makes several shinglers with one key.
@lru_cache(maxsize=4)
def _kinds_in_texts(hash_key: int, *, stops: bool) -> NDArray[np.uint64]:
    """The table of the words that are looked up in a text."""
    words, kinds = kinds_of_words(stops=stops)
    return make_table(hash_words(words, constants(hash_key, 1)), kinds)


@lru_cache(maxsize=4)
def _kinds_in_titles(hash_key: int) -> NDArray[np.uint64]:
    """The same for a title: stop words only, to stay in the processor's cache, but not those that
    may be the difference between two titles (plan A)."""
    kept = frozenset(word_lists()["of-titles"])
    stops = frozenset().union(*stop_words().values()) - kept
    kind = dict.fromkeys(NUMERALS, NUMBER) | dict.fromkeys(stops, STOP)
    words, kinds = np.array(list(kind)), np.array(list(kind.values()), np.uint64)
    return make_table(hash_words(words, constants(hash_key, 1)), kinds)


@attrs.frozen(eq=False)
class Shingles:
    """The numbers to which a text is reduced.

    :param features: distinct hashes of the shingles, in order of first occurrence.
    :param counts: how often each feature occurs.
    :param figures: distinct hashes of the text's numerals in canonical form.
    :param places: entries of 24 bits, 16 of a place and 8 of a value: two for each numeral outside
        date lines, one for each name; see `places`.
    :param clauses: words and turn of each clause, uint64[n, 2]; see `clauses`.
    :param tokens: number of tokens, without stop words unless there are no others.
    :param order, values, positions, sorts, begins: as in :class:`.Wording`.
    :param anchors: hashes of some clauses, see `wording`.
    :param words: hash of each token; 0 in a date line and in a line that names editors.
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
    words: NDArray[np.uint64]
    begins: NDArray[np.uint8]


class Shingler:
    """Turns texts into `Shingles`. Create it once; calls release the interpreter lock.

    :param segmenter: `jieba`, `fmm`, `words` or `char` (see `cutting`). The first two cut text
        without Han characters as `words` does, so one setting serves every language.
    :param width: tokens in a shingle.
    :param keeps_stop_words: whether stop words are tokens.
    :param user_dictionary: further words, in the format of jieba's user dictionaries; they are
        normalised like the text.
    :param hash_key: 64-bit secret key of all hashes; without it colliding pages can't be crafted.
    :param max_chars: code points beyond this number are ignored, which bounds time and memory.
    :param traditional: turn traditional characters into simplified ones (extra `traditional`).
    :raises ValueError: a malformed dictionary; :class:`.Options` checks all other values.
    :raises FileNotFoundError: a dictionary is missing.
    :raises ImportError: `traditional` without the OpenCC package.
    """

    def __init__(
        self,
        *,
        segmenter: str = "jieba",
        width: int = 3,
        keeps_stop_words: bool = False,
        user_dictionary: Path | None = None,
        hash_key: int = 0,
        max_chars: int = DEFAULT_MAX_CHARS,
        traditional: bool = False,
    ) -> None:
        self._mode = cutting.SEGMENTERS[segmenter]
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
                _ = self._trie  # report a malformed dictionary now, not at the first text
        self._hash_key = hash_key
        self._stops = _kinds_in_texts(hash_key, stops=not keeps_stop_words)
        parts = [segmenter, f"{width}w"]
        if keeps_stop_words:
            parts.append("all")
        else:
            parts += [f"{language}{len(words)}" for language, words in stop_words().items()]
        if digest:
            parts.append(digest)
        if traditional:
            parts.append(f"t2s.{mapping_name}")
        if hash_key:
            parts.append(f"key.{_digest(str(hash_key))}")
        if max_chars != DEFAULT_MAX_CHARS:
            parts.append(f"{max_chars}c")
        self.fingerprint: str = "-".join([*parts, f"v{FORMAT}"])
        """Name of all parameters and the dictionary's hash: equal names mean equal features."""

    @cached_property
    def _trie(self) -> Trie:
        # Not before the first text: building the dictionary compiles kernels.
        return self._load_trie()

    @cached_property
    def seeds(self) -> NDArray[np.uint64]:
        """Base and start of the hashes of shingles, start and base of those of words, and hashes of
        the numbers `SMALL` and of the commonest negations."""
        words = np.array([*map(str, SMALL), *word_lists()["negations"]])
        drawn = self._keys[[SHINGLE_BASE, SHINGLE_START, TOKEN_START, TOKEN_BASE]]
        return np.append(drawn, hash_words(words, self._keys))

    @cached_property
    def _tables_of_words(self) -> tuple[tuple[Any, ...], ...]:
        """The arguments of `read_words` behind `composed`, for a text and for a title."""
        of_title = _kinds_in_titles(self._hash_key)
        tables = (*self.tables[:3], *self.tables[4:8])
        return (*tables, self._stops, self._keys), (*tables, of_title, self._keys)

    @cached_property
    def tables(self) -> tuple[Any, ...]:
        """The arguments of `read_text` behind the code points and `composed`."""
        letters = (self._characters.table, self._characters.expansions)
        return (*letters, self._mode, self._width, *self._trie, self._stops, self._keys)

    def read(self, text: str, kernel: Callable[..., Any], *arguments: Any) -> Any:
        """Call a kernel such as `read_text` on the part of `text` that counts, composed if need be;
        return its result without the first value."""
        text = text[: self._max_chars]
        ready, *found = kernel(code_points(text), False, *arguments)
        if not ready:
            _, *found = kernel(code_points(normalize.compose(text)), True, *arguments)
        return found

    def __call__(self, text: str) -> Shingles:
        """Compute the shingles of any string; never raises."""
        features, counts, figures, *rest = self.read(text, read_text, *self.tables)
        return Shingles(features, counts, distinct(figures, figures.size)[0], *rest)

    def words(self, text: str, *, is_title: bool = False) -> Hashes:
        """Hashes of the distinct tokens, ascending; a title keeps some stop words."""
        hashes: Hashes
        (hashes,) = self.read(text, read_words, *self._tables_of_words[is_title])
        hashes.sort()
        return hashes

    def tokens(self, text: str) -> list[str]:
        """The tokens that shingles are made of, in normal form, for people to read."""
        codes, starts, ends = self._cut(text)
        decoded = codes.tobytes().decode("utf-32-le", "surrogatepass")
        found = zip(starts.tolist(), ends.tolist(), strict=True)
        return [decoded[first:last] for first, last in found]

    def _cut(self, text: str) -> tuple[Codes, Places, Places]:
        codes, flags = fold_text(text[: self._max_chars], self._characters)
        join_signs(codes, flags)
        hashes = np.empty(codes.size, np.uint64)
        starts, ends = np.empty(codes.size, np.int32), np.empty(codes.size, np.int32)
        named = np.zeros(codes.size, np.uint8)
        tokens = (starts, ends, named)
        count = cutting.tokenize(codes, flags, self._mode, *self._trie, *tokens)
        clauses = np.empty((count, 2), np.uint64)
        rows = np.empty((2, codes.size), np.uint8)
        places = (starts, ends, count, named, self._stops, self._keys, hashes, clauses)
        kept, _, _ = keep_words(codes, flags, *places, rows[0], rows[1])
        return codes, starts[:kept], ends[:kept]


def _fold_word(mapping: Mapping[int, int], word: str) -> str:
    # Nearly all words are Han characters that no normal form changes.
    if mapping or not _HAN_WORD.fullmatch(word):
        word = normalize.normalize(word).translate(mapping)
    return word


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
