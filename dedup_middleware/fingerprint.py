"""A document, what is computed of it, and what is decided of it."""

from __future__ import annotations

import math
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import OptionsError
from dedup_middleware.options import Options

if TYPE_CHECKING:
    from dedup_middleware.index.base import Claim

NEW = "new"
DUPLICATE = "duplicate"
REVISIT = "revisit"
EMPTY = "empty"
UNCHECKED = "unchecked"

_CONTENT_KEY = "text:"


@attrs.frozen
class Document:
    """A page as it comes in: its name, and its text or its HTML.

    :param key: names the page for ever, usually its address; the same key again is a revisit
    :param text: the body text; computed from ``html`` when None
    :param html: the page; bytes are decoded with ``charset`` or what the page itself declares
    :param charset: charset of the Content-Type header, if known
    """

    key: str
    title: str = attrs.field(default="", repr=False)
    text: str | None = attrs.field(default=None, repr=False)
    html: bytes | str | None = attrs.field(default=None, repr=False)
    charset: str | None = None


@attrs.frozen(eq=False)
class Fingerprint:
    """Numbers that stand for a page; equal parameters make them comparable.

    ``simhash`` is None for a page without features. Shapes: ``minhash`` uint32[K], ``sketch``
    uint64[8], ``bands`` uint64[B], ``figures`` uint64[2]. ``size`` counts the distinct shingles,
    ``figure_count`` the distinct numerals, ``exact`` and ``key_hash`` are keyed 64-bit hashes of
    the normalised text and of the key.
    """

    key: str
    key_hash: int
    exact: int
    size: int
    simhash: int | None
    minhash: NDArray[np.uint32] = attrs.field(repr=False)
    sketch: NDArray[np.uint64] = attrs.field(repr=False)
    bands: NDArray[np.uint64] = attrs.field(repr=False)
    figures: NDArray[np.uint64] = attrs.field(repr=False)
    figure_count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the page has no shingle at all, so that nothing can be said of it."""
        return self.size == 0


@attrs.frozen
class Match:
    """The stored page that holds what the new one says.

    :param key: document key of the stored page; None when the index keeps no addresses
    :param number: its number in the index
    :param similarity: share of the new page's shingles that the stored page holds, 0 to 1
    :param jaccard: estimated Jaccard index of the two sets of shingles, 0 to 1
    :param distance: Hamming distance of the SimHashes in bits, None where one has none
    :param tables: names of the tables that found it
    """

    key: str | None
    number: int
    similarity: float
    jaccard: float
    distance: int | None
    tables: tuple[str, ...] = ()


@attrs.frozen
class Verdict:
    """What is decided of a page.

    ``outcome`` is one of ``new``, ``duplicate``, ``revisit`` (same key, nothing new in it),
    ``empty`` (nothing to compare) and ``unchecked`` (the index could not be asked); ``reason``
    is a short name of the rule that decided.
    """

    key: str
    outcome: str
    reason: str
    match: Match | None = None
    fingerprint: Fingerprint | None = attrs.field(default=None, repr=False, eq=False)
    claim: Claim | None = attrs.field(default=None, repr=False)
    document: Document | None = attrs.field(default=None, repr=False, eq=False)

    @property
    def is_duplicate(self) -> bool:
        """Whether a stored page with another key already says what this one says."""
        return self.outcome == DUPLICATE

    @property
    def is_revisit(self) -> bool:
        """Whether this very page is stored already and says nothing new."""
        return self.outcome == REVISIT

    def __str__(self) -> str:
        if self.match is None:
            return f"{self.outcome} ({self.reason})"
        page = self.match.key or f"page {self.match.number}"
        # Rounded down: 100 % is said only of what is whole.
        share = f"{math.floor(self.match.similarity * 100)} % of it stands there"
        return f"{self.outcome} of {page} ({share}, {self.reason})"


def read(document: Document, extractor: str) -> Document:
    """The document with its text: extracted from the HTML where there is none. Slow."""
    if document.text is not None or document.html is None:
        return document
    from dedup_middleware.text.extract import extract

    page = extract(
        document.html,
        charset=document.charset,
        url=document.key,
        extractor="fast" if extractor == "fast" else "balanced",
    )
    return attrs.evolve(document, text=page.text, title=document.title or page.title, html=None)


class Fingerprinter:
    """Turns documents into fingerprints; thread-safe once built.

    :param options: how pages are compared
    :raises OptionsError: a dictionary can't be read, or a package is missing
    :param hash_key: key of all hashes; an index brings its own, so that nobody who does not know
        it can write pages that fall into one bucket
    """

    def __init__(self, options: Options, hash_key: int | None = None) -> None:
        # numba and the dictionary are loaded here, never by importing the package.
        from dedup_middleware.signature.minhash import MinHasher
        from dedup_middleware.text.shingle import Shingler

        if hash_key is None:
            hash_key = int(options.hash_key or "0", 16)
        self.options = options
        self.hash_key = hash_key
        try:
            self._shingler = Shingler(
                segmenter=options.segmenter,
                width=options.shingle_width,
                hash_key=hash_key,
                max_chars=options.max_chars,
                user_dictionary=Path(options.user_dictionary) if options.user_dictionary else None,
                traditional=options.fold_traditional,
            )
        except ImportError as error:
            raise OptionsError("DEDUP_FOLD_TRADITIONAL", True, str(error)) from error
        except (OSError, ValueError) as error:
            raise OptionsError(
                "DEDUP_USER_DICTIONARY", options.user_dictionary, str(error)
            ) from error
        self._minhasher = MinHasher(options.num_perm)

    @property
    def parameters(self) -> dict[str, str]:
        """Names and values that must be equal for two fingerprints to be comparable."""
        return {
            "shingler": self._shingler.fingerprint,
            "minhash": f"affine32-{self.options.num_perm}",
            "bands": f"{self.options.bands}x{self.options.rows}",
            "min_features": str(self.options.min_features),
            "method": self.options.method,
        }

    def __call__(self, document: Document) -> Fingerprint:
        """Fingerprint of a document; never raises for any text."""
        # Kernels are imported late for the same reason as above.
        from dedup_middleware.signature.bands import bands
        from dedup_middleware.signature.simhash import simhash
        from dedup_middleware.signature.sketch import figure_sketch, sketch

        document = read(document, self.options.extractor)
        shingles = self._shingler(document.text or "")
        minhash = self._minhasher.of_features(shingles.features)
        signed = simhash(shingles.features, shingles.counts)
        exact = shingles.exact
        if len(shingles.features) < self.options.min_features and document.title:
            # So little text proves nothing alone: a toolbar or "photo" stands on many pages.
            exact = self._shingler(f"{document.title}\n{document.text or ''}").exact
        return Fingerprint(
            key=document.key,
            key_hash=self._hash_key_of(document.key),
            exact=exact,
            size=len(shingles.features),
            simhash=None if signed is None else signed.value,
            minhash=minhash,
            sketch=sketch(minhash),
            bands=bands(minhash, self.options.bands, self.options.rows),
            figures=figure_sketch(shingles.figures),
            figure_count=min(len(shingles.figures), 0xFFFF),
        )

    def _hash_key_of(self, key: str) -> int:
        return keyed_hash(key, self.hash_key)


def keyed_hash(text: str, hash_key: int) -> int:
    """Keyed 64-bit hash of a name (BLAKE2b); lone surrogates are no error."""
    digest = blake2b(
        text.encode("utf-8", "surrogatepass"),
        digest_size=8,
        key=hash_key.to_bytes(8, "little"),
    )
    return int.from_bytes(digest.digest(), "little")


def content_key(text: str | bytes) -> str:
    """Key of a page that has no name: a hash of what it says."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _CONTENT_KEY + blake2b(raw, digest_size=16).hexdigest()


def is_content_key(key: str) -> bool:
    """Whether a key was made from the page's content, so that it names no page."""
    return key.startswith(_CONTENT_KEY)


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain values, for items and JSON."""
    match = verdict.match
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "match": None if match is None else match.key,
        "similarity": None if match is None else round(match.similarity, 4),
    }
