"""What only the tests of this folder need: ``nox -s operation`` installs it.

Elsewhere these tests are skipped where something is missing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest


def program(*names: str) -> str:
    """The path of the first program that is there."""
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    return _missing(names[0])


def package(name: str) -> None:
    """Skip the test without this Python package."""
    if importlib.util.find_spec(name) is None:
        _missing(name)


def _missing(name: str) -> str:
    if os.environ.get("TEST_OPERATION"):
        pytest.fail(f"{name} is missing")
    pytest.skip(f"{name} is missing; see the session operation of noxfile.py")
