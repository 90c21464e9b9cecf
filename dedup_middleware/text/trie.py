"""The dictionary as a double-array trie (Aoe 1989), built once, mapped into memory afterwards.

A node is a slot of 16 bytes in one array, seen through two views:

    units[4 * slot]      base: the child for code point c is slot base + c; -1 without children
    units[4 * slot + 1]  the parent's slot; ROOT for the first character of a word; FREE
    weights[2 * slot + 1]  log(frequency) - log(total) if a word ends here, else -inf

The root has base 0: a first character's slot is its code point.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.kernels import kernel, subkernel
from dedup_middleware.text import dictionary as words
from dedup_middleware.text.store import Arrays, load_or_build

FORMAT: Final = 1
FREE: Final = -1
ROOT: Final = -2
# Every slot base + c exists for c below this, so kernels need no bounds for these characters.
GUARD: Final = 0x10000


@attrs.frozen(eq=False)
class Trie:
    """A dictionary ready for kernels.

    `unknown` is the weight of a character that no word begins with; `digest` (8 hexadecimal
    digits) names the dictionary's content.
    """

    units: NDArray[np.int32]
    weights: NDArray[np.float64]
    unknown: float
    digest: str


def load_trie(
    *,
    main: Path | None = None,
    user: Path | None = None,
    fold: Callable[[str], str] | None = None,
    fold_name: str = "",
) -> Trie:
    """The trie of a dictionary, from the cache or built anew (about two seconds).

    Args:
        main: a whole dictionary in jieba's format; jieba's own if None.
        user: further words, in the format of jieba's user dictionaries.
        fold: applied to every word, so that the words look like normalised text.
        fold_name: names `fold`; another fold needs another name.

    Raises:
        FileNotFoundError: a dictionary is missing.
        ValueError: a dictionary is malformed; the message names the file and the line.
    """
    path = main or words.jieba_dictionary()
    data = path.read_bytes()
    extra = b"" if user is None else _read_user(user)
    digest = hashlib.blake2b(digest_size=4)
    for part in (data, extra, fold_name.encode(), b"%d" % FORMAT):
        digest.update(b"%d:" % len(part) + part)

    def build() -> Arrays:
        dictionary = words.parse(data, str(path))
        if user is not None:
            dictionary = words.add_user_words(dictionary, extra, str(user))
        if fold is not None:
            dictionary = words.fold_words(dictionary, fold)
        return build_arrays(dictionary)

    arrays = load_or_build(f"trie-{FORMAT}-{digest.hexdigest()}.bin", build)
    units = arrays["units"]
    return Trie(units, units.view(np.float64), float(arrays["unknown"][0]), digest.hexdigest())


def _read_user(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(
            f"user_dictionary={str(path)!r} can't be read ({error.strerror}): "
            "give the path of a text file in jieba's format"
        ) from error


def build_arrays(dictionary: words.Dictionary) -> dict[str, NDArray[Any]]:
    """The double array of all words with a frequency above zero.

    Raises:
        ValueError: no word has a frequency above zero.
    """
    entries = sorted((w, f) for w, f in dictionary.frequencies.items() if f > 0 and w)
    if not entries:
        raise ValueError("the dictionary has no word with a frequency above zero")
    log_total = log(dictionary.total)
    weights = np.array([log(frequency) - log_total for _, frequency in entries])
    lengths = np.array([len(word) for word, _ in entries], np.int64)
    joined = "".join(word for word, _ in entries).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, np.uint32)
    parents, labels, values = _nodes(codes, np.cumsum(lengths) - lengths, lengths, weights)
    room = 2 * parents.size
    while (units := _place(parents, labels, values, room)).size == 0:
        room *= 2
    return {"units": units, "unknown": np.array([log(1) - log_total])}


@kernel
def _nodes(
    codes: NDArray[np.uint32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Parent, last code point and weight of each prefix of the sorted words; -1 is the root."""
    parents = np.empty(codes.size, np.int32)
    labels = np.empty(codes.size, np.int32)
    values = np.full(codes.size, -np.inf)
    path = np.empty(np.max(lengths) + 1, np.int32)
    path[0] = -1
    count = 0
    for word in range(starts.size):
        start, length = starts[word], lengths[word]
        shared = 0
        if word > 0:
            before, most = starts[word - 1], min(length, lengths[word - 1])
            while shared < most and codes[start + shared] == codes[before + shared]:
                shared += 1
        for depth in range(shared, length):
            parents[count] = path[depth]
            labels[count] = codes[start + depth]
            path[depth + 1] = count
            count += 1
        values[path[length]] = weights[word]
    return parents[:count], labels[:count], values[:count]


@subkernel
def _children(parents: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes by parent: the children of node p are order[first[p + 1] : first[p + 2]]."""
    nodes = parents.size
    first = np.zeros(nodes + 2, np.int64)
    for node in range(nodes):
        first[parents[node] + 2] += 1
    for node in range(nodes + 1):
        first[node + 1] += first[node]
    order = np.empty(nodes, np.int64)
    filled = first.copy()
    for node in range(nodes):
        order[filled[parents[node] + 1]] = node
        filled[parents[node] + 1] += 1
    return first, order


@subkernel
def _window(taken: NDArray[np.uint64], position: int) -> np.uint64:
    """64 bits of the bitmap, from any position on."""
    word, shift = position >> 6, np.uint64(position & 63)
    if shift == 0:
        return taken[word]
    return (taken[word] >> shift) | (taken[word + 1] << (np.uint64(64) - shift))


@subkernel
def _fit(taken: NDArray[np.uint64], labels: NDArray[np.int32], start: int) -> int:
    """The first base from `start` on with free slots for all labels (ascending), 64 at a time;
    -1 if the bitmap ends before."""
    last = 64 * (taken.size - 2) - labels[-1]
    while start < last:
        blocked = np.uint64(0)
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
    return -1


@kernel
def _place(
    parents: NDArray[np.int32], labels: NDArray[np.int32], values: NDArray[np.float64], room: int
) -> NDArray[np.int32]:
    """Give every node a slot, nodes with many children first; empty if `room` slots don't do."""
    nodes = parents.size
    first, order = _children(parents)
    widest = np.int64(np.max(labels)) + 1
    taken = np.zeros((room + 4 * widest + GUARD) // 64, np.uint64)
    base = np.full(nodes, -1, np.int32)
    slots = np.empty(nodes, np.int64)
    top, full, hint = np.int64(0), np.int64(0), np.int64(0)
    fans = first[1:] - first[:-1]
    fans[0] = nodes + 1  # the root comes first: its base is fixed
    previous = np.int64(0)
    for index in np.argsort(-fans, kind="mergesort"):
        begin, end = first[index], first[index + 1]
        if begin == end:
            break
        if end - begin != previous:  # nodes of one fan go on where the last one found room
            previous = end - begin
            hint = full
        start = np.int64(0)
        if index > 0:
            mine = labels[order[begin:end]]
            start = _fit(taken, mine, max(np.int64(0), hint - mine[0]))
            if start < 0:
                return np.empty(0, np.int32)
            base[index - 1] = start
            hint = start + mine[0]
        top = max(top, start)
        for child in order[begin:end]:
            slot = start + labels[child]
            slots[child] = slot
            taken[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
        while ~taken[full >> 6] == 0:
            full += 64
    return _pack(parents, values, slots, base, top + max(widest, GUARD))


@subkernel
def _pack(
    parents: NDArray[np.int32],
    values: NDArray[np.float64],
    slots: NDArray[np.int64],
    base: NDArray[np.int32],
    size: int,
) -> NDArray[np.int32]:
    units = np.empty(4 * size, np.int32)
    weights = units.view(np.float64)
    for slot in range(size):
        units[4 * slot] = -1
        units[4 * slot + 1] = FREE
        weights[2 * slot + 1] = -np.inf
    for node in range(parents.size):
        slot = slots[node]
        units[4 * slot] = base[node]
        units[4 * slot + 1] = ROOT if parents[node] < 0 else slots[parents[node]]
        weights[2 * slot + 1] = values[node]
    return units
