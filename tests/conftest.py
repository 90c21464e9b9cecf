"""What many tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import running_redis


@pytest.fixture
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis of the test's own."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url
