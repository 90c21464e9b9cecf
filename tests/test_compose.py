"""The compose file: valid, safe, and its topology works, here with processes."""

from __future__ import annotations

import contextlib
import os
import re
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from crawler.sample_site import SampleSite
from dedup_middleware.index.redis.servers import nodes_of
from tests.servers import RedisServer, cluster_port, redis_tool, running_cluster, running_redis
from tests.test_sharing import crawl_sample, finish, stored

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docker-compose.yml"
CLUSTER = ROOT / "docker-compose.cluster.yml"
PASSWORD = "a password/with:odd@characters"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file as read."""
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return read


def test_follow_the_published_schema() -> None:
    """The files are valid by the schema of the Compose specification."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*command, str(FILE), str(CLUSTER)], check=True)


def test_redis_is_reached_from_this_machine_alone(compose: dict[str, Any]) -> None:
    """The port is published on loopback, and the password comes from the environment."""
    redis = compose["services"]["redis"]
    assert all(port.startswith("127.0.0.1:") for port in redis["ports"])
    for service in compose["services"].values():
        assert service["environment"]["DEDUP_REDIS_PASSWORD"].startswith("${DEDUP_REDIS_PASSWORD:?")
    assert compose["services"]["crawler"]["depends_on"]["redis"]["condition"] == "service_healthy"


class Loading(socketserver.StreamRequestHandler):
    """Replies as Redis does while it loads its data."""

    def handle(self) -> None:
        while self.rfile.readline():
            self.wfile.write(b"-LOADING Redis is loading the dataset in memory\r\n")


@pytest.mark.services
def test_a_server_that_loads_its_data_is_not_ready(tmp_path: Path) -> None:
    """A server that still loads its data is not ready: crawlers started then would store all pages
    unchecked."""
    for file, name in ((FILE, "redis"), (CLUSTER, "node-1")):
        service = yaml.safe_load(file.read_text(encoding="utf-8"))["services"][name]
        assert service["healthcheck"]["test"] == ["CMD", "redis-cli", "-e", "ping"]
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Loading) as loading:
        threading.Thread(target=loading.serve_forever).start()
        assert is_ready(loading.server_address[1]) is False
        loading.shutdown()
    with running_redis(tmp_path) as server:
        assert is_ready(server.port)


def is_ready(port: int) -> bool:
    """Whether the check of the compose files succeeds."""
    check = [redis_tool(), "-p", str(port), "-e", "ping"]
    return subprocess.run(check, check=False, timeout=60).returncode == 0


def test_nodes_of_the_cluster_are_alike_and_named_in_the_address() -> None:
    """All masters evict nothing, require the password and join before a crawler starts."""
    services = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))["services"]
    nodes = {name: one for name, one in services.items() if name.startswith("node-")}
    assert len(nodes) == 3
    for one in nodes.values():
        started = one["command"][-1].split()
        assert {"--cluster-enabled", "noeviction", "--requirepass"} <= set(started)
        assert "ports" not in one
    crawler = services["crawler"]
    assert crawler["depends_on"]["join"]["condition"] == "service_completed_successfully"
    url = crawler["environment"]["DEDUP_INDEX_URL"]
    assert nodes_of(url) == [f"redis://{name}:6379" for name in nodes]
    assert set(services["join"]["depends_on"]) == set(nodes)


def test_cluster_of_the_compose_file_works_with_processes(tmp_path: Path) -> None:
    """The options of its nodes start a cluster, on which crawlers share one index."""
    services = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))["services"]
    words = services["node-1"]["command"][-1].split()
    options = [word for word in words[words.index("redis-server") + 1 :] if "$$" not in word]
    options = [word for word in options if word not in {"--requirepass", "--masterauth"}]
    wanted = options[options.index("--cluster-node-timeout") :]
    with running_cluster(tmp_path, 3, *wanted) as masters:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in masters)
        folders = [tmp_path / str(n) for n in range(2)]
        finish(
            [
                crawl_sample(
                    folder,
                    SCRAPY_PROJECT="cluster",
                    DEDUP_INDEX_URL=f"redis+cluster://{hosts}",
                    DEDUP_SHARDS="8",
                )
                for folder in folders
            ]
        )
    keys = Counter(item["url"] for folder in folders for item in stored(folder))
    assert set(keys) == {page.address for page in SampleSite().pages() if page.stored}
    assert {key: n for key, n in keys.items() if n > 1} == {}


NAMED = """#!/bin/bash
words=()
for word in "$@"; do
    case $word in {names} esac
    words+=("$word")
done
"""
PROGRAMS = {"getent": 'echo "${words[1]}"', "redis-cli": 'exec %s -p %d "${words[@]}"'}


@pytest.mark.services
def test_nodes_are_joined_again_when_they_are_started_again(tmp_path: Path) -> None:
    """A cluster that exists is not made anew, also in the seconds in which its state is not known
    yet, and its nodes find each other when they have got other addresses."""
    services = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))["services"]
    port, tool = cluster_port(), redis_tool()
    command = services["join"]["command"][-1].replace("$$", "$").replace("6379", str(port))
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for network in (5, 5, 6):
        hosts = [f"127.0.{network}.{n}" for n in (1, 2, 3)]
        names = " ".join(f"node-{n}) word={host};;" for n, host in enumerate(hosts, 1))
        for program, run in PROGRAMS.items():
            line = run % (tool, port) if "%" in run else run
            (tmp_path / program).write_text(f"{NAMED.replace('{names}', names)}{line}\n")
            (tmp_path / program).chmod(0o755)
        with contextlib.ExitStack() as running:
            for host in hosts:
                folder = tmp_path / host[-1]
                folder.mkdir(exist_ok=True)
                own = ("--bind-source-addr", host, *options)
                server = RedisServer(folder, own, port, bind=[host])
                server.start(wait=False)
                running.callback(server.stop)
            clients = [running.enter_context(redis.Redis(host, port)) for host in hosts]
            await_all(clients, lambda client: bool(client.ping()))
            subprocess.run(["bash", "-c", command], check=True, env=environment, timeout=120)
            await_all(clients, partial(reaches, addresses={f"{host}:{port}" for host in hosts}))


def reaches(client: redis.Redis, addresses: set[str]) -> bool:
    """Whether a node of a cluster knows it as usable, and all nodes at these addresses alone."""
    nodes = client.execute_command("CLUSTER NODES")
    connected = {address for address, node in nodes.items() if node["connected"]}
    state = client.execute_command("CLUSTER INFO")["cluster_state"]
    return bool(state == "ok" and connected == {*nodes} == addresses)


def await_all(clients: list[redis.Redis], check: Callable[[redis.Redis], bool]) -> None:
    """Wait until a check of each server holds, a minute at most."""
    deadline = time.monotonic() + 60
    for client in clients:
        holds = False
        while not holds:
            assert time.monotonic() < deadline
            with contextlib.suppress(redis.RedisError):
                holds = check(client)
            time.sleep(0.05)


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
