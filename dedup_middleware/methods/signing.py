"""From a document to the signature of one method of the literature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedup_middleware.fingerprint import Document, make_shingler
from dedup_middleware.methods.literature import describe
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod
from dedup_middleware.options import Options

if TYPE_CHECKING:
    from dedup_middleware.text.shingle import Shingler


class Signer:
    """Reads documents for a method and lets it sign them; thread-safe once built.

    :param shingler: the one of the options; a method with its own segmenter gets another
    """

    def __init__(self, method: SignatureMethod, options: Options, shingler: Shingler) -> None:
        self.method = method
        self._max_chars = options.max_chars
        self._own = method.segmenter not in {None, options.segmenter}
        self._shingler = (
            make_shingler(options, 0, method.segmenter or "") if self._own else shingler
        )

    @property
    def parameters(self) -> str:
        """The method and all that must be equal for two signatures to be comparable."""
        described = describe(self.method)
        return f"{described} {self._shingler.fingerprint}" if self._own else described

    def read(self, document: Document) -> Reading:
        """What the method may look at."""
        text = document.text or ""
        words = self._shingler.tokens if self.method.reads_tokens else _no_tokens
        return Reading(
            title=document.title,
            text=text[: self._max_chars],
            tokens=tuple(words(text)),
            title_tokens=tuple(words(document.title)),
            description=document.description,
        )

    def __call__(self, document: Document) -> Signature | None:
        """The signature of a document with text; None if there is nothing to compare."""
        return self.method.sign(self.read(document))


def _no_tokens(_: str) -> list[str]:
    return []
