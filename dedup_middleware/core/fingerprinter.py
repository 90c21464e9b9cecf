"""Computes fingerprints of documents."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.model.documents import Document
from dedup_middleware.model.keys import host_of, keyed_hash, letters_of, short_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dedup_middleware.methods.literature.base import SignatureMethod
    from dedup_middleware.methods.literature.registry import Signer
    from dedup_middleware.signature.simhash import SimHash
    from dedup_middleware.signature.text import SignedText, TextSigner
    from dedup_middleware.text.extract import Mode
    from dedup_middleware.text.shingle import Shingler

from dedup_middleware.model.fingerprint import NO_WORDING, Fingerprint, Wording

#: value of an index parameter: version of the evidence filter and of the choice of anchors
EVIDENCE = "ribbon4-clauses8of128-lead3-title16n"
_WHOLE_VALUES, _CORRECTION_VALUES = 4, 2  # values that mark a page with `rest`, a correction
_NO_WORDS = np.empty(0, np.uint64)
_TITLE_WORD = re.compile("[\u3400-\u9fff]|[^\\W\u3400-\u9fff]+")


def read(document: Document, extractor: Mode) -> Document:
    """Return the document with its text, extracted from the HTML if it has none. Slow."""
    if document.text is not None or document.html is None:
        return document
    from dedup_middleware.text.extract import extract, meta_description

    description = document.description or meta_description(document.html, document.charset)
    page = extract(document.html, charset=document.charset, url=document.key, extractor=extractor)
    return attrs.evolve(
        document,
        text=page.text,
        title=document.title or page.title,
        description=description,
        html=None,
        rest=page.rest,
    )


def make_shingler(options: Options, hash_key: int, segmenter: str = "") -> Shingler:
    """Make the shingler that the options describe.

    :param segmenter: segmenter to use instead of the one in the options
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
        if options.user_dictionary:
            raise OptionsError(
                "DEDUP_USER_DICTIONARY", options.user_dictionary, str(error)
            ) from error
        raise OptionsError("DEDUP_SEGMENTER", options.segmenter, str(error)) from error


def make_signer(method: SignatureMethod, options: Options, shingler: Shingler) -> Signer:
    """Make the signer of a method of the literature.

    :param shingler: made from the options; replaced if the method has its own segmenter
    """
    from dedup_middleware.methods.literature.registry import Signer

    if method.segmenter in {None, options.segmenter}:
        return Signer(method, options.max_chars, shingler)
    own = make_shingler(options, 0, method.segmenter or "")
    return Signer(method, options.max_chars, own, own.fingerprint)


class Fingerprinter:
    """Turns documents into fingerprints; thread-safe once built.

    :param options: how pages are compared
    :param hash_key: secret 64-bit key of all hashes, so that pages can't be crafted for one bucket
    :raises OptionsError: a dictionary, a package or the key can't be used
    """

    def __init__(self, options: Options, hash_key: int | None = None) -> None:
        # numba and the dictionary are loaded here, never by importing the package.
        from dedup_middleware.methods.choose import literature_method
        from dedup_middleware.signature.evidence import MOST, TITLED, make_evidence
        from dedup_middleware.signature.minhash import MinHasher, sketch
        from dedup_middleware.signature.simhash import SimHash
        from dedup_middleware.signature.titles import with_title
        from dedup_middleware.text.corrections import says_correction
        from dedup_middleware.text.relevant import relevant, relevant_title
        from dedup_middleware.text.wording import SHORT

        if hash_key is None:
            hash_key = int(options.hash_key or "0", 16)
        if not 0 <= hash_key < 1 << 64:
            raise OptionsError("hash_key", hash_key, "use a number from 0 to 2**64 - 1")
        self.options = options
        self.hash_key = hash_key
        self._shingler = make_shingler(options, hash_key)
        method = literature_method(options, hash_key)
        self._keeps_evidence = options.keeps_evidence
        self._signer = None if method is None else make_signer(method, options, self._shingler)
        self._minhash = MinHasher(options.num_perm).of_features
        self._sketch = sketch
        self._simhash = SimHash
        self._make_evidence, self._with_title = make_evidence, with_title
        self._relevant, self._relevant_title = relevant, relevant_title
        self._says_correction = says_correction
        self._short, self._titled, self._most_compared = SHORT, TITLED, MOST + 1

    @cached_property
    def _text_signer(self) -> TextSigner:
        # Made for the first text: it needs the dictionary, which `parameters` does not.
        from dedup_middleware.signature.text import TextSigner

        numbers = self.options.num_perm, self.options.band_count, self.options.rows
        # With evidence only the bands need minima; all are computed if `minhash` is read.
        return TextSigner(self._shingler, *numbers, whole=not self._keeps_evidence)

    @property
    def parameters(self) -> dict[str, str]:
        """Names and values that must be equal for two fingerprints to be comparable."""
        return {
            "shingler": self._shingler.fingerprint,
            "minhash": f"affine32-{self.options.num_perm}",
            "bands": f"{self.options.band_count}x{self.options.rows}",
            "min_features": str(self.options.min_features),
            **({"evidence": EVIDENCE} if self._keeps_evidence else {}),
            "method": self.options.method if self._signer is None else self._signer.parameters,
        }

    def __call__(self, document: Document) -> Fingerprint:
        """Compute the fingerprint of a document; never raises for any text."""
        if document.text is None:
            document = read(document, self.options.extractor)
        text, title = self._relevant(document.text or ""), self._relevant_title(document.title)
        key, hash_key, probes = document.key, self.hash_key, self.options.probes
        signed = self._text_signer(text)
        size, exact, value, sums = signed[:4]
        if size < self.options.min_features and title:
            # So short a text proves nothing without its title: many pages have "photo" or a menu.
            exact = self._text_signer(f"{title}\n{text}").exact
        rest = document.rest
        if len(text) > self.options.max_chars:
            rest += "".join(text[self.options.max_chars :].split())
        if rest:
            exact = keyed_hash(f"{exact} {rest}", hash_key)
        simhash = value if size else None
        signature = None
        if self._signer is not None:
            signature = self._signer(title, text, document.description)
            if signature is not None and self._signer.method.is_simhash:
                from dedup_middleware.methods.literature.simhashes import simhash_of

                simhash = simhash_of(signature)
        host = _host_hash(host_of(key), hash_key)
        wording, evidence, anchors = NO_WORDING, b"", _NO_WORDS
        keeps_evidence = self._keeps_evidence
        if keeps_evidence and size:
            marks = _marks_of(exact, _WHOLE_VALUES) if rest else ()
            if self._says_correction(title or text.partition("\n")[0]):
                marks += _marks_of(keyed_hash("correction", hash_key), _CORRECTION_VALUES)
            tokens: Callable[[], Sequence[str]] = tuple
            if self._short <= signed.words and signed.order.size <= self._most_compared:
                tokens = partial(self._shingler.tokens, text)
            wording, evidence, anchors = self._evidence(title, host, signed, marks, tokens)
        return Fingerprint(
            key=key,
            key_hash=keyed_hash(key, hash_key),
            exact=exact,
            size=size,
            simhash=simhash,
            minhash=partial(self._minhash, signed.order) if keeps_evidence else signed.minhash,
            sketch=self._sketch if keeps_evidence else signed.sketch,
            bands=signed.bands,
            figures=signed.figures,
            clauses=signed.clauses,
            host=host,
            title=short_hash(letters_of(title), hash_key) if title else 0,
            volatile=volatile_bits(self._simhash(value, sums), probes) if size and probes else (),
            signature=signature,
            wording=wording,
            evidence=evidence,
            anchors=anchors,
        )

    def _evidence(
        self,
        title: str,
        host: int,
        signed: SignedText,
        marks: tuple[int, ...],
        tokens: Callable[[], Sequence[str]],
    ) -> tuple[Wording, bytes, NDArray[np.uint64]]:
        """Compute wording, evidence and anchors of a page.

        :param host: hash of the host; pages without a host are not distinguished by their titles
        :param marks: additional values, which only pages with the same marks hold
        :param tokens: returns the words of the text, or none where no rule compares them
        """
        words, headline, number = _NO_WORDS, _NO_WORDS, 0
        if title and host:
            headline = self._shingler.words(title, is_title=True)
            number = len(_TITLE_WORD.findall(title)) % 8
        if title and signed.words < self._short:
            # In longer texts only title words that the text has, too: a title may be long.
            words = self._shingler.words(title)
            if signed.words >= self._titled:
                # A set: NumPy would take 25 us.
                common = set(words.tolist()).intersection(signed.values.tolist())
                words = np.array(sorted(common), np.uint64)
        wording = Wording(
            signed.order,
            signed.words,
            signed.values,
            signed.positions,
            signed.sorts,
            words,
            signed.word_hashes,
            headline,
            number,
            signed.begins,
            self._shingler.seeds,
            tokens,
        )
        if marks:
            wording = _marked(wording, marks)
        elif len(signed.evidence) and (signed.words >= self._titled or not len(words)):
            evidence = signed.evidence.tobytes()
            return wording, self._with_title(evidence, wording), signed.anchors
        evidence = self._with_title(self._make_evidence(wording), wording)
        return wording, evidence, signed.anchors


def _marks_of(value: int, count: int) -> tuple[int, ...]:
    """Derive ``count`` values from the hash of a mark."""
    # Several, because one value in 256 is a false positive of the filter.
    return tuple(keyed_hash(str(place), value) for place in range(count))


def _marked(wording: Wording, marks: tuple[int, ...]) -> Wording:
    """Add values to a wording, as numerals at the position of its first word."""
    more = np.array(marks, np.uint64)
    return attrs.evolve(
        wording,
        values=np.concatenate([more, wording.values]),
        positions=np.concatenate([np.zeros(len(more), np.int32), wording.positions]),
        sorts=np.concatenate([np.zeros(len(more), np.uint8), wording.sorts]),
    )


def volatile_bits(signed: SimHash | None, probes: int) -> tuple[int, ...]:
    """The ``probes`` least certain bits of each of the four blocks of a SimHash."""
    if signed is None or not probes:
        return ()
    return tuple(bit for block in range(4) for bit in signed.volatile(block, probes))


_host_hash = lru_cache(maxsize=4096)(short_hash)  # many pages share a host
