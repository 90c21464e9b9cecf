"""Loads what the racing processes need, once, in the server that all of them are forked from."""

from __future__ import annotations

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index import scan as _scan  # noqa: F401
from dedup_middleware.model.documents import Document
from tests.index import race_workers as _race_workers  # noqa: F401
from tests.torture.articles import text_of

# Kernels and dictionary are loaded by the first fingerprint.
Fingerprinter(Options(index_url="memory:"), 1)(Document(key="", text=text_of(0, 0)))
