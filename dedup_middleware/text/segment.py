"""Segmenters: text in, tokens out.

    jieba   the most probable path through jieba's dictionary, token for token what
            `jieba.lcut(text, HMM=False)` gives
    fmm     forward maximum matching over the same dictionary (Long Jun et al., patent
            CN102024065): the longest entry at each position, else one character; a run of ASCII
            letters and digits is one token; punctuation ends a matching window. In a page,
            windows without a Han character are left to `words`, which keeps "3.6" and
            "example.com" whole; next to a Han character they are cut at the point
    words   Unicode word boundaries (UAX #29); Thai, Khmer, Lao and Burmese as overlapping
            groups of three letters; ideographs and hiragana one by one
    char    single characters

`cut` takes text as it is; `Shingler` normalises it first.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from dedup_middleware.text import cutting
from dedup_middleware.text.characters import word_classes
from dedup_middleware.text.fold import code_points
from dedup_middleware.text.trie import Trie, load_trie

SEGMENTERS: Final = {
    "char": cutting.CHAR,
    "words": cutting.WORDS,
    "fmm": cutting.FMM,
    "jieba": cutting.JIEBA,
}

_NOTHING: Final = np.frombuffer(b"", np.uint64)
NO_TRIE: Final = Trie(
    _NOTHING,
    np.frombuffer(b"", np.uint8),
    _NOTHING,
    np.frombuffer(b"", np.float64),
    "",
)


def segmenter_mode(name: str) -> int:
    """The number that kernels know a segmenter by.

    Raises:
        ValueError: there is no such segmenter; the message lists the segmenters.
    """
    if name not in SEGMENTERS:
        raise ValueError(f"segmenter={name!r} is unknown: choose one of {', '.join(SEGMENTERS)}")
    return SEGMENTERS[name]


@lru_cache(maxsize=4)
def _trie(user_dictionary: Path | None) -> Trie:
    return load_trie(user=user_dictionary)


def cut(segmenter: str, text: str, *, user_dictionary: Path | None = None) -> list[str]:
    """The tokens of `text` as it is, without normalisation.

    With `jieba` and `fmm` the tokens add up to the text, white space and punctuation included;
    `words` and `char` leave out white space, punctuation and most symbols.

    Raises:
        ValueError: unknown segmenter, or a malformed dictionary.
        FileNotFoundError: jieba's dictionary or the user's is missing.
    """
    mode = segmenter_mode(segmenter)
    codes = code_points(text).copy()  # kernels take arrays that can be written to
    flags = word_classes()[codes]
    starts, ends = np.empty(codes.size, np.int32), np.empty(codes.size, np.int32)
    if mode in (cutting.FMM, cutting.JIEBA):
        trie, kernel = _trie(user_dictionary), cutting.lossless
    else:
        trie, kernel = NO_TRIE, cutting.tokenize
    tables = (trie.roots, trie.hints, trie.nodes, trie.values)
    named = np.zeros(codes.size, np.uint8)
    count = kernel(codes, flags, mode, *tables, starts, ends, named)
    places = zip(starts[:count].tolist(), ends[:count].tolist(), strict=True)
    return [text[first:last] for first, last in places]
