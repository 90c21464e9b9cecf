"""Compares two texts without an index."""

from __future__ import annotations

from collections.abc import Callable

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.documents import Document

# Any keys will do, as nothing is stored. All three must agree: near a threshold the result depends
# on the key, and a text may be deleted because of the result.
_HASH_KEYS = (1, 2, 3)


def make_comparison(options: Options) -> Callable[[Document, Document], bool]:
    """Return a function that tells whether its first document adds nothing to its second.

    It applies the rule by which a crawl drops a page to two whole texts, for storage that replaces
    a text by a fuller one (``DEDUP_ON_FULLER``).

    :raises OptionsError: there is no such method
    """
    method = choose_method(options)
    fingerprinters = [Fingerprinter(options, key) for key in _HASH_KEYS]

    def is_duplicate(page: Document, other: Document, fingerprint: Fingerprinter) -> bool:
        new, stored = fingerprint(page), fingerprint(other)
        record = content_record(stored, sketched=method.keeps_sketch)
        judged = method.judge(new, record, [stored.payload])
        return bool(judged.duplicate[0])

    def adds_nothing(page: Document, other: Document) -> bool:
        return all(is_duplicate(page, other, one) for one in fingerprinters)

    return adds_nothing
