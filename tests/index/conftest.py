"""The back ends under test; Redis is a real server, started once."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dedup_middleware.index.base import Index
from tests.index.harness import (
    ClusterHarness,
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
)
from tests.index.windows import CLUSTER, MEMORY, REDIS, SQLITE, Windows
from tests.servers import RedisServer, running_redis

# Importing it computes a fingerprint, and collecting tests must not compile kernels for that.
collect_ignore = ["race_preload.py"]


@pytest.fixture
def workers_server(redis_server: RedisServer) -> RedisServer:
    """The shared server without what child processes of other tests left in their namespace."""
    with redis_server.client() as admin:
        admin.delete(*(admin.keys("{workers}*") or [b"none"]))
    return redis_server


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("redis", marks=pytest.mark.services),
        pytest.param("cluster", marks=pytest.mark.services),
    ]
)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    """A fresh store of each kind."""
    harness: Harness
    if request.param == "memory":
        harness = MemoryHarness()
    elif request.param == "sqlite":
        harness = SQLiteHarness(tmp_path / "index.db")
    elif request.param == "cluster":
        harness = ClusterHarness(request.getfixturevalue("cluster_masters"))
    else:
        harness = RedisHarness(request.getfixturevalue("redis_server"))
    yield harness
    await harness.close()


@pytest.fixture
async def cluster(cluster_masters: list[RedisServer]) -> AsyncIterator[ClusterHarness]:
    """A fresh index over three masters."""
    harness = ClusterHarness(cluster_masters)
    yield harness
    await harness.close()


@pytest.fixture
async def index(harness: Harness) -> Index:
    """A client of a fresh store of each kind."""
    return await harness.client()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that a test may damage."""
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(
    params=[
        MEMORY,
        SQLITE,
        pytest.param(REDIS, marks=pytest.mark.services),
        pytest.param(CLUSTER, marks=pytest.mark.services),
    ]
)
def windows(request: pytest.FixtureRequest, tmp_path: Path) -> Windows:
    """Makes stores of each kind whose pages expire."""
    servers: list[RedisServer] = []
    if request.param == REDIS:
        servers = [request.getfixturevalue("redis_server")]
    elif request.param == CLUSTER:
        servers = request.getfixturevalue("cluster_masters")
    return Windows(request.param, tmp_path, servers)
