"""The dictionary as a double-array trie (Aoe 1989), built once, then mapped into memory.

Memory accesses dominate the time of segmentation, so a node is one uint64:

    bits  0-23  base: the child for label x is in slot base + x; 0 without children
    bits 24-43  the label that leads to this node; NO_LABEL in a free slot
    bits 44-48  whether the word that ends here is a noun, a name or a part of one, see `names`
    bits 49-63  index into `values` of log(frequency) - log(total); 0 if no word ends here

Labels number the characters by frequency, so frequent children lie close together. No two nodes
share a base, so the label alone tells whether a slot belongs to a node. `roots` has the node of
each first character by code point, with the character's own label in the label's bits (0: in no
word), so that one look-up gives both.

Words come from jieba's dictionary, with lines `word frequency [tag]`, and from a user's own, where
the frequency may be missing: then it is chosen to keep the word whole, as by `jieba.load_userdict`.
jieba itself is never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf, log
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.cachefolder import Arrays, load_or_build
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, I64, R32, RI64, Tuple, int64
from dedup_middleware.text.characters import Hashes
from dedup_middleware.text.names import GIVEN, KIND_BITS, kind_of

_USER_LINE: Final = re.compile(r"^(.+?)( [0-9]+)?( [a-z]+)?$")
_BLOCK: Final = re.compile(r"([\u4E00-\u9FD5a-zA-Z0-9+#&._%\-]+)")
_ALNUM: Final = re.compile(r"[a-zA-Z0-9]")
# What the tags of nouns, names among them (nr, ns, nt, nz), and of adjectives begin with.
_KEPT: Final = ("n", "a")


@attrs.frozen(eq=False)
class Dictionary:
    """Frequencies of words, their total as jieba counts it, and tags of nouns and adjectives."""

    frequencies: dict[str, int]
    total: int
    tags: dict[str, str] = attrs.field(factory=dict)


def jieba_file(name: str) -> Path:
    """Path of a data file of the installed jieba, such as its dictionary `dict.txt`.

    :raises FileNotFoundError: jieba is not installed, or without that file.
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

    :raises ValueError: a line has another form; the message names `source` and the line.
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
        if rest and rest[0].startswith(_KEPT):
            tags[word] = rest[0]
    return Dictionary(frequencies, total, tags)


def add_user_words(dictionary: Dictionary, data: bytes, source: str) -> Dictionary:
    """Add a user's words to a dictionary, as `jieba.load_userdict` would.

    :raises ValueError: the file is not UTF-8; the message names `source`.
    """
    try:
        lines = [line.strip().decode().lstrip("\ufeff") for line in data.split(b"\n")]
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is not UTF-8: save the user dictionary as UTF-8") from error
    known, tags = _with_prefixes(dictionary.frequencies), dict(dictionary.tags)
    total = dictionary.total
    for line in filter(None, lines):
        match = _USER_LINE.match(line)
        if match is None:  # only Unicode white space
            continue
        word, count = match.group(1), match.group(2)
        frequency = int(count) if count else _suggest(word, known, total)
        known[word] = frequency
        total += frequency
        tag = (match.group(3) or "").strip()
        if tag.startswith(_KEPT):
            tags[word] = tag
        for end in range(1, len(word)):
            known.setdefault(word[:end], 0)
    return Dictionary(known, total, tags)


def fold_words(dictionary: Dictionary, fold: Callable[[str], str]) -> Dictionary:
    """Bring all words of a dictionary into normal form; of equal words the most frequent counts."""
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
    """jieba's `suggest_freq(word)`: the lowest frequency at which the word is not cut."""
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


FORMAT: Final = 8
BASE_BITS: Final = 24
LABEL_BITS: Final = 20
LABEL_SHIFT: Final = BASE_BITS
KIND_SHIFT: Final = BASE_BITS + LABEL_BITS
VALUE_SHIFT: Final = KIND_SHIFT + KIND_BITS
NO_LABEL: Final = (1 << LABEL_BITS) - 1
# Minimum length of `roots`, so that kernels need no bounds check for jieba's characters.
GUARD: Final = 0x10000


class Trie(NamedTuple):
    """The arrays of a dictionary that kernels read.

    :param roots: uint64, by code point; see the head of the module.
    :param hints: uint8, by slot: the lowest byte of the label.
    :param nodes: uint64, by slot.
    :param values: -inf, log(frequency) - log(total) of words, and that of an unknown character.
    """

    roots: Hashes
    hints: NDArray[np.uint8]
    nodes: Hashes
    values: NDArray[np.float64]


_NOTHING: Final = np.frombuffer(b"", np.uint64)
NO_TRIE: Final = Trie(
    _NOTHING, np.frombuffer(b"", np.uint8), _NOTHING, np.frombuffer(b"", np.float64)
)


def open_dictionary(
    *,
    main: Path | None = None,
    user: Path | None = None,
    fold: Callable[[str], str] = str,
    fold_name: str = "",
) -> tuple[str, Callable[[], Trie]]:
    """Return the digest of a dictionary (8 hexadecimal digits), and a function that loads its trie.

    The trie comes from the cache, or is built (about two seconds, and kernels are needed).

    :param main: a whole dictionary in jieba's format; jieba's own if None.
    :param user: further words, in the format of jieba's user dictionaries.
    :param fold: applied to every word to bring it into the normal form of texts.
    :param fold_name: names `fold` in the cache; another fold needs another name.
    :raises FileNotFoundError: a dictionary is missing.
    :raises ValueError: at loading: a malformed dictionary; the message names file and line.
    """
    path = main or jieba_file("dict.txt")
    extra = b"" if user is None else _read_user(user)
    state = path.stat()
    begun = _begun(path, state.st_mtime_ns, state.st_size, state.st_ino)
    digest = begun.copy()
    for part in (extra, fold_name.encode()):
        digest.update(b"%d:" % len(part) + part)

    def build() -> Arrays:
        data = path.read_bytes()
        if _digest(data).digest() != begun.digest():
            raise ValueError(f"{path} changes while it is read: try again")
        dictionary = parse(data, str(path))
        if user is not None:
            dictionary = add_user_words(dictionary, extra, str(user))
        return build_arrays(fold_words(dictionary, fold))

    name = digest.hexdigest()
    file = f"trie-{FORMAT}-{name}.bin"
    return name, lambda: Trie(**load_or_build(file, build))


@lru_cache(maxsize=2)
def _begun(path: Path, *_: int) -> hashlib.blake2b:
    """Digest of a file, cached until the file changes: jieba's has 5 MB."""
    return _digest(path.read_bytes())


def _digest(data: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(b"%d:" % len(data) + data, digest_size=4)


def _read_user(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(
            f"{path} can't be read ({error.strerror}): "
            "give the path of a text file in jieba's format"
        ) from error


def build_arrays(dictionary: Dictionary) -> dict[str, NDArray[Any]]:
    """Build the double array of all words with a frequency above zero.

    :raises ValueError: no word has a frequency above zero, or there are more than 16 million nodes.
    """
    entries = sorted((w, f) for w, f in dictionary.frequencies.items() if f > 0 and w)
    if not entries:
        raise ValueError("the dictionary has no word with a frequency above zero")
    log_total = log(dictionary.total)
    frequencies = np.array([frequency for _, frequency in entries], np.int64)
    tags = dictionary.tags
    kinds = np.array([kind_of(w, f, tags.get(w, "")) for w, f in entries], np.int64)
    different, places = np.unique(frequencies, return_inverse=True)
    values = [-inf, *(log(f) - log_total for f in different.tolist()), log(1) - log_total]
    lengths = np.array([len(word) for word, _ in entries], np.int64)
    joined = "".join(word for word, _ in entries).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, np.uint32)
    labels = _number_characters(codes, np.repeat(frequencies, lengths))
    first = np.cumsum(lengths) - lengths
    parents, edges, ends = _nodes(codes, first, lengths, (places + 1) << KIND_BITS | kinds)
    roots, nodes = _double_array(parents, edges, ends, labels)
    if nodes.size >= 1 << BASE_BITS or len(values) >= 1 << (64 - VALUE_SHIFT):
        raise ValueError("the dictionary is too large: it may have about ten million words")
    hints = (nodes >> np.uint64(LABEL_SHIFT)).astype(np.uint8)
    # A character that is not a word may be part of a name.
    roots[roots >> np.uint64(VALUE_SHIFT) == 0] |= np.uint64(GIVEN << KIND_SHIFT)
    return {"roots": roots, "hints": hints, "nodes": nodes, "values": np.array(values)}


def _number_characters(codes: NDArray[np.uint32], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Label of each code point: 1 for the most frequent, 0 for those in no word."""
    totals = np.bincount(codes, weights, minlength=GUARD)
    present = np.flatnonzero(np.bincount(codes, minlength=GUARD))
    labels = np.zeros(totals.size, np.int64)
    labels[present[np.argsort(-totals[present], kind="stable")]] = np.arange(1, present.size + 1)
    return labels


def _double_array(
    parents: NDArray[np.int32],
    edges: NDArray[np.int64],
    ends: NDArray[np.int64],
    labels: NDArray[np.int64],
) -> tuple[Hashes, Hashes]:
    """Pack roots and nodes, given parent, code point, kind and value's index of each node."""
    own = labels[edges]
    # Children of node p: order[first[p + 1] : first[p + 2]], by label; the root is node -1.
    order = np.lexsort((own, parents))
    fans = np.bincount(parents + 1, minlength=parents.size + 1)
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(fans)))
    queue = np.argsort(-fans[1:], kind="stable")
    capacity = 2 * parents.size + GUARD
    while True:
        bases, slots, size = _place(own[order], order, first, queue, capacity)
        if size:
            break
        capacity *= 2
    packed = bases | own << LABEL_SHIFT | ends << KIND_SHIFT
    nodes = np.full(size, NO_LABEL << LABEL_SHIFT, np.uint64)
    inner = parents >= 0
    nodes[slots[inner]] = packed[inner]
    roots = (labels << LABEL_SHIFT).astype(np.uint64)
    roots[edges[~inner]] = packed[~inner]
    return roots, nodes


@kernel(Tuple((I32, I64, I64))(R32, RI64, RI64, RI64))
def _nodes(
    codes: NDArray[np.uint32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    places: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Parent, last code point, kind and value's index of each prefix of the sorted words."""
    parents = np.empty(codes.size, np.int32)
    edges = np.empty(codes.size, np.int64)
    ends = np.zeros(codes.size, np.int64)
    longest = 0
    for length in lengths:
        longest = max(longest, length)
    path = np.empty(longest + 1, np.int32)
    path[0] = -1
    count = 0
    for word in range(starts.size):
        start, length = starts[word], lengths[word]
        shared = 0
        if word > 0:
            before, most = starts[word - 1], lengths[word - 1]
            while shared < most and shared < length:
                if codes[start + shared] != codes[before + shared]:
                    break
                shared += 1
        for depth in range(shared, length):
            parents[count] = path[depth]
            edges[count] = codes[start + depth]
            path[depth + 1] = count
            count += 1
        ends[path[length]] = places[word]
    return parents[:count], edges[:count], ends[:count]


@subkernel
def _window(taken: Hashes, position: int) -> np.uint64:
    """64 bits of a bitmap from any position on."""
    word, shift = position >> 6, np.uint64(position & 63)
    if shift == 0:
        return taken[word]
    return (taken[word] >> shift) | (taken[word + 1] << (np.uint64(64) - shift))


@subkernel
def _fit(taken: Hashes, used: Hashes, labels: NDArray[np.int64], start: int) -> int:
    """The first unused base from `start` on with free slots for all labels (ascending), tried 64 at
    a time; 0 if there is none in the bitmap."""
    last = 64 * (taken.size - 2) - labels[-1]
    while start < last:
        blocked = _window(used, start)
        for label in labels:
            blocked |= _window(taken, start + label)
            if ~blocked == 0:
                break
        if ~blocked != 0:
            while blocked & np.uint64(1):
                blocked >>= np.uint64(1)
                start += 1
            return start
        start += 64
    return 0


@kernel(Tuple((I64, I64, int64))(RI64, RI64, RI64, RI64, int64))
def _place(
    labels: NDArray[np.int64],
    order: NDArray[np.int64],
    first: NDArray[np.int64],
    queue: NDArray[np.int64],
    capacity: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Base and slot of each node, and the number of slots; 0 if `capacity` slots are not enough.

    Nodes are placed in the order of `queue`, those with many children first, each at the first base
    that fits; nodes with equally many children search on from the last base.
    """
    widest = 0
    for label in labels:
        widest = max(widest, label)
    taken = np.zeros((capacity + 4 * widest + GUARD) // 64, np.uint64)
    used = np.zeros_like(taken)
    used[0] = 1  # base 0 means no children
    bases = np.zeros(order.size, np.int64)
    slots = np.zeros(order.size, np.int64)
    top, full, hint, previous = 1, 0, 0, 0
    for node in queue:
        begin, end = first[node + 1], first[node + 2]
        if begin == end:
            break
        if end - begin != previous:
            previous, hint = end - begin, full
        start = hint - labels[begin]
        start = _fit(taken, used, labels[begin:end], start if start > 0 else 1)
        if start == 0:
            return bases, slots, 0
        used[start >> 6] |= np.uint64(1) << np.uint64(start & 63)
        bases[node] = start
        hint = start + labels[begin]
        top = max(top, start)
        for child in range(begin, end):
            slot = start + labels[child]
            slots[order[child]] = slot
            taken[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
        while ~taken[full >> 6] == 0:
            full += 64
    return bases, slots, top + widest + 1
