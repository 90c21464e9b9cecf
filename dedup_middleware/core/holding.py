"""Compare two texts without an index."""

from __future__ import annotations

from collections.abc import Callable

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.methods.base import content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.documents import Document

_HASH_KEY = 1  # any: nothing is stored


def make_comparison(options: Options) -> Callable[[Document, Document], bool]:
    """A function that says whether a page adds nothing to another one.

    It is the rule by which a crawl drops a page, applied to two whole texts, for storage that
    deletes a text for a fuller one (``DEDUP_ON_FULLER``). The first argument is the page, the
    second the one that may hold it.

    :raises OptionsError: no such method
    """
    method, fingerprint = choose_method(options), Fingerprinter(options, _HASH_KEY)

    def adds_nothing(page: Document, other: Document) -> bool:
        new, stored = fingerprint(page), fingerprint(other)
        judged = method.judge(new, content_record(stored), [stored.payload])
        return bool(judged.duplicate[0])

    return adds_nothing
