"""Keeps near-duplicate pages out of storage while the crawl runs.

The names are imported when they are first used: ``import dedup_middleware`` loads neither numba
nor Scrapy nor a dictionary.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dedup_middleware.base.errors import (
        DedupError,
        IndexRefusedError,
        IndexUnavailableError,
        OptionsError,
    )
    from dedup_middleware.base.options import Options
    from dedup_middleware.core.deduplicator import Deduplicator
    from dedup_middleware.core.fingerprinter import Fingerprinter
    from dedup_middleware.journal.access import Journal
    from dedup_middleware.journal.clusters import Cluster, Mirror
    from dedup_middleware.journal.entries import Drop, JournalError
    from dedup_middleware.model.documents import Document, Match, Verdict
    from dedup_middleware.model.fingerprint import Fingerprint
    from dedup_middleware.plugin.acting import NearDuplicate
    from dedup_middleware.plugin.addon import Addon
    from dedup_middleware.plugin.pipeline import DedupPipeline

__all__ = [
    "Addon",
    "Cluster",
    "DedupError",
    "DedupPipeline",
    "Deduplicator",
    "Document",
    "Drop",
    "Fingerprint",
    "Fingerprinter",
    "IndexRefusedError",
    "IndexUnavailableError",
    "Journal",
    "JournalError",
    "Match",
    "Mirror",
    "NearDuplicate",
    "Options",
    "OptionsError",
    "Verdict",
]

_NAMES = {
    "base.errors": ["DedupError", "IndexRefusedError", "IndexUnavailableError", "OptionsError"],
    "base.options": ["Options"],
    "core.deduplicator": ["Deduplicator"],
    "core.fingerprinter": ["Fingerprinter"],
    "journal.access": ["Journal"],
    "journal.clusters": ["Cluster", "Mirror"],
    "journal.entries": ["Drop", "JournalError"],
    "model.documents": ["Document", "Match", "Verdict"],
    "model.fingerprint": ["Fingerprint"],
    "plugin.acting": ["NearDuplicate"],
    "plugin.addon": ["Addon"],
    "plugin.pipeline": ["DedupPipeline"],
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
