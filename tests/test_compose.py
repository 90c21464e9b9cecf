"""The compose file: valid, safe, and its topology works, here with processes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from crawler.sample_site import SampleSite
from tests.servers import running_redis
from tests.test_sharing import crawl_sample, finish, stored

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docker-compose.yml"
PASSWORD = "a password/with:odd@characters"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file as read."""
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return read


def test_follows_the_published_schema() -> None:
    """The file is valid by the schema of the Compose specification."""
    subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema"),
            *("--builtin-schema", "vendor.compose-spec", str(FILE)),
        ],
        check=True,
    )


def test_redis_is_reached_from_this_machine_alone(compose: dict[str, Any]) -> None:
    """The port is published on loopback, and the password comes from the environment."""
    redis = compose["services"]["redis"]
    assert all(port.startswith("127.0.0.1:") for port in redis["ports"])
    for service in compose["services"].values():
        assert service["environment"]["DEDUP_REDIS_PASSWORD"].startswith("${DEDUP_REDIS_PASSWORD:?")
    assert redis["healthcheck"]["test"] == ["CMD", "redis-cli", "ping"]
    assert compose["services"]["crawler"]["depends_on"]["redis"]["condition"] == "service_healthy"


def flags(compose: dict[str, Any]) -> list[str]:
    """What redis-server is started with, but for the password."""
    command = compose["services"]["redis"]["command"][-1]
    words = re.sub(r"--requirepass\s+\S+", "", command).split()
    return words[words.index("redis-server") + 1 :]


def test_dockerfile_runs_without_root_and_with_a_cache_it_may_write() -> None:
    """The image ends as another user, whose cache directory is its own."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\w+)$", text, re.M)[-1] == "crawler"
    assert "DEDUP_CACHE_DIR=/home/crawler/" in text


def test_topology(compose: dict[str, Any], tmp_path: Path) -> None:
    """One Redis as configured there, three crawlers: each article is stored exactly once."""
    given = flags(compose)
    assert given == [
        *("--appendonly", "yes", "--appendfsync", "everysec"),
        *("--maxmemory-policy", "noeviction"),
    ]
    environment = compose["services"]["crawler"]["environment"]
    folders = [tmp_path / str(n) for n in range(3)]
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis", *given, "--requirepass", PASSWORD) as server:
        url = environment["DEDUP_INDEX_URL"].replace("redis:6379", f"127.0.0.1:{server.port}")
        finish(
            [
                crawl_sample(
                    folder,
                    SCRAPY_PROJECT=environment["SCRAPY_PROJECT"],
                    DEDUP_INDEX_URL=url,
                    DEDUP_REDIS_PASSWORD=PASSWORD,
                )
                for folder in folders
            ]
        )
    keys = Counter(item["url"] for folder in folders for item in stored(folder))
    assert set(keys) == {page.address for page in SampleSite().pages() if page.stored}
    assert {key: n for key, n in keys.items() if n > 1} == {}
