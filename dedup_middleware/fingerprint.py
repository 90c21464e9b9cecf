"""A document, what is computed of it, and what is decided of it."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import OptionsError
from dedup_middleware.keyedhash import keyed_hash, short_hash
from dedup_middleware.methods.literature.base import Signature
from dedup_middleware.options import Options

if TYPE_CHECKING:
    from dedup_middleware.index.base import Claim
    from dedup_middleware.methods.literature.base import SignatureMethod
    from dedup_middleware.methods.literature.registry import Signer
    from dedup_middleware.signature.simhash import SimHash
    from dedup_middleware.text.extract import Mode
    from dedup_middleware.text.shingle import Shingler

NEW = "new"
DUPLICATE = "duplicate"
REVISIT = "revisit"
EMPTY = "empty"
UNCHECKED = "unchecked"

_CONTENT_KEY = "text:"
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?(?:www\.)?([^/?#:]+)", re.I)
_NO_LETTERS = re.compile(r"[\W_]+")
_TITLE_CHARS = 500


@attrs.frozen
class Document:
    """A page as it comes in: its name, and its text or its HTML.

    :param key: names the page for ever, usually its address; the same key again is a revisit
    :param text: the body text; computed from ``html`` when None
    :param html: the page; bytes are decoded with ``charset`` or what the page itself declares
    :param charset: charset of the Content-Type header, if known
    :param description: the page's own summary (meta description); taken from ``html`` when empty
    """

    key: str
    title: str = attrs.field(default="", repr=False)
    text: str | None = attrs.field(default=None, repr=False)
    html: bytes | str | None = attrs.field(default=None, repr=False)
    charset: str | None = None
    description: str = attrs.field(default="", repr=False)


@attrs.frozen(eq=False, slots=False)  # with slots it takes twice as long to make
class Fingerprint:
    """What is computed of a page to compare it; fingerprints of equal parameters are comparable.

    ``simhash`` is None for a page without features. Shapes: ``minhash`` uint32[K], ``sketch``
    uint64[8], ``bands`` uint64[B], ``figures`` uint8[48], ``clauses`` uint8[36]. ``size`` counts
    the distinct shingles, ``exact`` and ``key_hash`` are keyed 64-bit hashes of the normalised text
    and of the key, ``host`` and ``title`` of 16 bits those of its host and of the title's letters,
    0 where there is none. ``signature`` is that of a method of the literature, if
    ``DEDUP_METHOD`` names one and the page has something that it compares; of a method that is a
    SimHash, ``simhash`` is the same. ``volatile`` names the bits of the SimHash to be flipped in
    further probes (``DEDUP_PROBES``).
    """

    key: str
    key_hash: int
    exact: int
    size: int
    simhash: int | None
    minhash: NDArray[np.uint32] = attrs.field(repr=False)
    sketch: NDArray[np.uint64] = attrs.field(repr=False)
    bands: NDArray[np.uint64] = attrs.field(repr=False)
    figures: NDArray[np.uint8] = attrs.field(repr=False)
    clauses: NDArray[np.uint8] = attrs.field(repr=False)
    host: int = 0
    title: int = 0
    volatile: tuple[int, ...] = ()
    signature: Signature | None = attrs.field(default=None, repr=False)

    @property
    def payload(self) -> bytes:
        """What an index keeps of the page in addition to its CONTENT record."""
        return b"" if self.signature is None else self.signature.payload

    @property
    def is_empty(self) -> bool:
        """Whether the page has no shingle at all, so that nothing can be said of it."""
        return self.size == 0


@attrs.frozen
class Match:
    """The stored page that holds what the new one says.

    :param key: document key of the stored page; None when the index keeps no addresses
    :param number: its page id in the index
    :param similarity: share of the new page's shingles that the stored page holds, 0 to 1
    :param jaccard: estimated Jaccard index of the two sets of shingles, 0 to 1
    :param distance: Hamming distance of the SimHashes in bits, None where one has none
    :param tables: names of the tables that found it
    :param shared: estimated number of shingles that both have, None if the method does not look
    :param figures: number of places in which the two have other figures or names, None if the
        method does not look
    :param rule: the rule of the method that decided, also where the reason is ``unchanged``
    """

    key: str | None
    number: int
    similarity: float
    jaccard: float
    distance: int | None
    tables: tuple[str, ...] = ()
    shared: int | None = None
    figures: int | None = None
    rule: str = ""


@attrs.frozen
class Verdict:
    """What is decided of a page.

    ``outcome`` is one of ``new``, ``duplicate``, ``revisit`` (same key, nothing new in it),
    ``empty`` (nothing to compare) and ``unchecked`` (the index was unavailable); ``reason``
    is a short name of the rule that decided. ``nearest`` is the most similar stored page that was
    compared with a new one and did not make it a duplicate, its key None where that would take
    another round trip. ``earlier`` holds the page ids of earlier versions of the page (reason
    ``changed``); with ``DEDUP_VERSIONS = "replace"`` the index has forgotten them.
    """

    key: str
    outcome: str
    reason: str
    match: Match | None = None
    fingerprint: Fingerprint | None = attrs.field(default=None, repr=False, eq=False)
    claim: Claim | None = attrs.field(default=None, repr=False)
    document: Document | None = attrs.field(default=None, repr=False, eq=False)
    nearest: Match | None = attrs.field(default=None, repr=False)
    earlier: tuple[int, ...] = ()

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
        share = f"{math.floor(self.match.similarity * 100)} % alike"
        return f"{self.outcome} of {page} ({share}, {self.reason})"


def read(document: Document, extractor: Mode) -> Document:
    """The document with its text: extracted from the HTML where there is none. Slow."""
    if document.text is not None or document.html is None:
        return document
    from dedup_middleware.text.description import meta_description
    from dedup_middleware.text.extract import extract

    description = document.description or meta_description(document.html, document.charset)
    page = extract(
        document.html,
        charset=document.charset,
        url=document.key,
        extractor=extractor,
    )
    return attrs.evolve(
        document,
        text=page.text,
        title=document.title or page.title,
        description=description,
        html=None,
    )


def make_shingler(options: Options, hash_key: int, segmenter: str = "") -> Shingler:
    """A shingler as the options want it.

    :param segmenter: another one than that of the options
    :raises OptionsError: a dictionary can't be read, or a package is missing
    """
    from dedup_middleware.text.shingle import Shingler  # numba and the dictionary stay lazy

    try:
        return Shingler(
            segmenter=segmenter or options.segmenter,
            width=options.shingle_width,
            hash_key=hash_key,
            max_chars=options.max_chars,
            user_dictionary=Path(options.user_dictionary) if options.user_dictionary else None,
            traditional=options.fold_traditional,
        )
    except ImportError as error:
        raise OptionsError("DEDUP_FOLD_TRADITIONAL", True, str(error)) from error
    except (OSError, ValueError) as error:
        raise OptionsError("DEDUP_USER_DICTIONARY", options.user_dictionary, str(error)) from error


def make_signer(method: SignatureMethod, options: Options, shingler: Shingler) -> Signer:
    """What signs documents by a method of the literature.

    :param shingler: that of the options; a method with a segmenter of its own gets another one
    """
    from dedup_middleware.methods.literature.registry import Signer

    if method.segmenter in {None, options.segmenter}:
        return Signer(method, options.max_chars, shingler)
    own = make_shingler(options, 0, method.segmenter or "")
    return Signer(method, options.max_chars, own, own.fingerprint)


class Fingerprinter:
    """Turns documents into fingerprints; thread-safe once built.

    :param options: how pages are compared
    :raises OptionsError: a dictionary can't be read, or a package is missing
    :param hash_key: key of all hashes; each index has its own, so that pages can't be crafted to
        fall into one bucket without knowing it
    """

    def __init__(self, options: Options, hash_key: int | None = None) -> None:
        # numba and the dictionary are loaded here, never by importing the package.
        from dedup_middleware.methods.literature.registry import literature
        from dedup_middleware.signature.text import TextSigner

        if hash_key is None:
            hash_key = int(options.hash_key or "0", 16)
        self.options = options
        self.hash_key = hash_key
        self._shingler = make_shingler(options, hash_key)
        method = literature(options, hash_key)
        self._signer = None if method is None else make_signer(method, options, self._shingler)
        self._text_signer = TextSigner(
            self._shingler, options.num_perm, options.bands, options.rows
        )

    @property
    def parameters(self) -> dict[str, str]:
        """Names and values that must be equal for two fingerprints to be comparable."""
        return {
            "shingler": self._shingler.fingerprint,
            "minhash": f"affine32-{self.options.num_perm}",
            "bands": f"{self.options.bands}x{self.options.rows}",
            "min_features": str(self.options.min_features),
            "method": self.options.method if self._signer is None else self._signer.parameters,
        }

    def __call__(self, document: Document) -> Fingerprint:
        """Fingerprint of a document; never raises for any text."""
        if document.text is None:
            document = read(document, self.options.extractor)
        text, key, hash_key = document.text or "", document.key, self.hash_key
        signed = self._text_signer(text)
        size, exact, value, sums, minhash, sketch, bands, figures, clauses = signed
        if size < self.options.min_features and document.title:
            # So little text is no evidence alone: a toolbar or "photo" is on many pages.
            exact = self._text_signer(f"{document.title}\n{text}").exact
        simhash = value if size else None
        signature = None
        if self._signer is not None:
            signature = self._signer(document.title, text, document.description)
            if signature is not None and self._signer.method.is_simhash:
                from dedup_middleware.methods.literature.simhashes import simhash_of

                simhash = simhash_of(signature)
        return Fingerprint(
            key=key,
            key_hash=keyed_hash(key, hash_key),
            exact=exact,
            size=size,
            simhash=simhash,
            minhash=minhash,
            sketch=sketch,
            bands=bands,
            figures=figures,
            clauses=clauses,
            host=_host_hash(host_of(key), hash_key),
            title=short_hash(letters_of(document.title), hash_key) if document.title else 0,
            volatile=self._volatile(value, sums) if size and self.options.probes else (),
            signature=signature,
        )

    def _volatile(self, value: int, sums: NDArray[np.int64]) -> tuple[int, ...]:
        from dedup_middleware.signature.simhash import SimHash

        return volatile_bits(SimHash(value, sums), self.options.probes)


def volatile_bits(signed: SimHash | None, probes: int) -> tuple[int, ...]:
    """The least certain bits of each block of a SimHash, ``probes`` of each."""
    if signed is None or not probes:
        return ()
    return tuple(bit for block in range(4) for bit in signed.volatile(block, probes))


_host_hash = lru_cache(maxsize=4096)(short_hash)  # of a host come many pages


def host_of(key: str) -> str:
    """The host that a document key names; none if it is no address.

    >>> host_of("https://www.One.example:8080/a/1"), host_of("isbn 1")
    ('one.example', '')
    """
    found = _HOST.match(key)
    return found[1].lower() if found else ""


def letters_of(title: str) -> str:
    """A title without white space, punctuation and case, so that small differences do not count.

    >>> letters_of("News： Today!") == letters_of("news:today")
    True
    """
    return _NO_LETTERS.sub("", unicodedata.normalize("NFKC", title[:_TITLE_CHARS]).lower())


def content_key(text: str | bytes) -> str:
    """Key of a page that has no name: a hash of what it says."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _CONTENT_KEY + blake2b(raw, digest_size=16).hexdigest()


def is_content_key(key: str) -> bool:
    """Whether a key was made from the page's content, so that it names no page."""
    return key.startswith(_CONTENT_KEY)


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain values, for items and JSON; without a match its values are None."""
    nearest = verdict.nearest
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        **_explained(verdict.match),
        "nearest": None if nearest is None else _explained(nearest),
        "earlier": list(verdict.earlier),
    }


def _explained(match: Match | None) -> dict[str, Any]:
    if match is None:
        names = ("match", "similarity", "jaccard", "distance", "shared", "figures", "rule")
        return {**dict.fromkeys(names), "tables": []}
    return {
        "match": match.key,
        "similarity": round(match.similarity, 4),
        "jaccard": round(match.jaccard, 4),
        "distance": match.distance,
        "shared": match.shared,
        "figures": match.figures,
        "rule": match.rule,
        "tables": list(match.tables),
    }
