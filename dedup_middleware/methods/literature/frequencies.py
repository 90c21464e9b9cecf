"""Document frequencies of terms, the table behind every inverse document frequency."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.cachefolder import load_or_build
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.text.trie import jieba_file

_FORMAT = 2  # version of the cached table


def _hash(term: str) -> int:
    # Not keyed: tables are exchanged between indexes, and crafted terms gain an outsider nothing.
    return keyed_hash(term, 0)


@attrs.frozen(eq=False)
class DocumentFrequencies:
    """The number of documents, and for each term the number of documents that have it.

    :param documents: number N of documents
    :param terms: uint64[n], hashes of the terms, ascending
    :param counts: uint32[n], documents with the term
    """

    documents: int
    terms: NDArray[np.uint64] = attrs.field(repr=False)
    counts: NDArray[np.uint32] = attrs.field(repr=False)

    @classmethod
    def of_counts(cls, documents: int, counts: Mapping[str, int]) -> DocumentFrequencies:
        """Make a table from known frequencies."""
        hashes = np.fromiter(map(_hash, counts), np.uint64, len(counts))
        order = np.argsort(hashes)
        values = np.fromiter(counts.values(), np.uint32, len(counts))
        return cls(documents, hashes[order], values[order])

    def __len__(self) -> int:
        return len(self.terms)

    def document_frequencies(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of documents with each term, int64; 0 for unknown terms."""
        hashes = np.fromiter(map(_hash, terms), np.uint64, len(terms))
        if not len(self.terms):
            return np.zeros(len(hashes), np.int64)
        places = np.minimum(np.searchsorted(self.terms, hashes), len(self.terms) - 1)
        found = self.terms[places] == hashes
        return np.where(found, self.counts[places], 0).astype(np.int64)

    def idf(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """Return the inverse document frequency of each term, ``1 + ln((N + 1) / (df + 1))``.

        It is never 0, so terms that all documents have still count, and finite for unknown ones.
        """
        counts = self.document_frequencies(terms)
        return np.asarray(1.0 + np.log((self.documents + 1.0) / (counts + 1.0)), np.float64)

    @property
    def digest(self) -> str:
        """Return a short hash of the whole table, which shows whether two tables are equal."""
        hashed = hashlib.blake2b(np.array(self.documents, "<u8").tobytes(), digest_size=4)
        hashed.update(self.terms.astype("<u8").tobytes())
        hashed.update(self.counts.astype("<u4").tobytes())
        return hashed.hexdigest()


def parse_idf(lines: Iterable[str]) -> DocumentFrequencies:
    """Parse a table from lines ``term idf``, where idf = ln(N / df).

    N follows from the assumption that the rarest term occurs in one document.

    :raises ValueError: a malformed line, or no line

    >>> table = parse_idf(["的 0.0", "灯塔 2.302585"])
    >>> table.documents, table.document_frequencies(["的", "灯塔"]).tolist()
    (10, [10, 1])
    """
    values = {}
    for number, line in enumerate(lines, 1):
        term, _, value = line.rpartition(" ")
        try:
            values[term] = float(value)
        except ValueError:
            raise ValueError(f"line {number}: {line!r} is not `term idf`") from None
    if not values:
        raise ValueError("no line: a table of inverse document frequencies has at least one")
    documents = round(math.exp(max(values.values())))
    counts = {term: max(1, round(documents * math.exp(-idf))) for term, idf in values.items()}
    return DocumentFrequencies.of_counts(documents, counts)


@lru_cache(maxsize=1)
def background() -> DocumentFrequencies:
    """Return the default table, which ships with jieba: 270,000 Chinese terms.

    Terms of other languages are all unknown to it. It is built once, then read from the cache.

    :raises FileNotFoundError: jieba or its table is not installed
    """
    data = jieba_file("analyse/idf.txt").read_bytes()

    def build() -> dict[str, NDArray[Any]]:
        table = parse_idf(data.decode("utf-8").splitlines())
        documents = np.array([table.documents], "<u8")
        return {"documents": documents, "terms": table.terms, "counts": table.counts}

    name = f"frequencies-{_FORMAT}-{hashlib.blake2b(data, digest_size=8).hexdigest()}"
    arrays = load_or_build(name, build)
    (documents,) = arrays["documents"].tolist()
    return DocumentFrequencies(documents, arrays["terms"], arrays["counts"])
