"""What is stored of a page stays what it is from one version to the next."""

from __future__ import annotations

import json

import pytest

from dedup_middleware.base.options import METHODS
from tests.golden import FILE, vectors

STORED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("method", METHODS)
def test_page_is_stored_as_before(method: str) -> None:
    """Places, record and payload of each page, byte for byte; the module says what to do if not."""
    assert vectors(method) == STORED[method]


def test_vectors_tell_pages_apart() -> None:
    """No two pages are stored alike, and no method is missing."""
    assert set(STORED) == set(METHODS)
    for method in METHODS:
        assert len(set(STORED[method].values())) == len(STORED[method])
