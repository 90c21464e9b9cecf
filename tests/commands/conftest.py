"""Where the index of a test of commands is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import settings_for


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Settings of an index in a file, and of one on Redis."""
    if request.param == "sqlite":
        return settings_for(tmp_path)
    return {"DEDUP_INDEX_URL": request.getfixturevalue("redis_url")}
