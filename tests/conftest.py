"""What many tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.servers import running_redis

# A busy machine is no reason to fail: the first call of a kernel may compile it.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis of the test's own."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url
