"""Keeps near-duplicate pages out of storage while the crawl runs.

The names are imported when they are first used: ``import dedup_middleware`` loads neither numba
nor Scrapy nor a dictionary.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dedup_middleware.addon import Addon
    from dedup_middleware.deduplicator import Deduplicator
    from dedup_middleware.errors import (
        DedupError,
        IndexRefusedError,
        IndexUnavailableError,
        OptionsError,
    )
    from dedup_middleware.exceptions import NearDuplicate
    from dedup_middleware.fingerprint import (
        Document,
        Fingerprint,
        Fingerprinter,
        Match,
        Verdict,
    )
    from dedup_middleware.options import Options
    from dedup_middleware.pipeline import DedupPipeline

__all__ = [
    "Addon",
    "DedupError",
    "DedupPipeline",
    "Deduplicator",
    "Document",
    "Fingerprint",
    "Fingerprinter",
    "IndexRefusedError",
    "IndexUnavailableError",
    "Match",
    "NearDuplicate",
    "Options",
    "OptionsError",
    "Verdict",
]

_HOMES = {
    "Addon": "addon",
    "DedupError": "errors",
    "DedupPipeline": "pipeline",
    "Deduplicator": "deduplicator",
    "Document": "fingerprint",
    "Fingerprint": "fingerprint",
    "Fingerprinter": "fingerprint",
    "IndexRefusedError": "errors",
    "IndexUnavailableError": "errors",
    "Match": "fingerprint",
    "NearDuplicate": "exceptions",
    "Options": "options",
    "OptionsError": "errors",
    "Verdict": "fingerprint",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
