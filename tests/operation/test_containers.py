"""The page on containers: its Dockerfile, its project and its manifest, without Docker."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from dedup_middleware import Options
from dedup_middleware.index.opening import open_index
from tests.docblocks import ROOT
from tests.operation.required import package
from tests.operation.shop import make_project
from tests.operation.terminal import shown
from tests.servers import free_port, running_redis

FOLDER = ROOT / "docs" / "examples" / "containers"
MANIFEST: dict[str, Any] = yaml.safe_load((FOLDER / "kubernetes.yml").read_text(encoding="utf-8"))
POD: dict[str, Any] = MANIFEST["spec"]["jobTemplate"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
# One of the smallest.
ONE_KERNEL = """
import numpy as np
from dedup_middleware.text.extraction.metadata import _holds
word = np.frombuffer(b"word", np.uint8)
assert _holds(word, word, 0, 1)
"""
COMPILING = "are compiled for this processor"
# Making the image compiles all kernels.
pytestmark = pytest.mark.services


@attrs.define
class Image:
    """What the instructions of a Dockerfile make, on this machine.

    Packages are those of this environment, and the user is this one.
    """

    folder: Path
    variables: dict[str, str] = attrs.field(factory=dict)
    user: str = "root"
    command: list[str] = attrs.field(factory=list)
    ran: list[tuple[str, str]] = attrs.field(factory=list)

    def build(self, text: str) -> None:
        """Run the instructions in their order; an unknown one raises."""
        for line in text.replace("\\\n", " ").splitlines():
            word, _, rest = line.partition(" ")
            if not line or word in {"#", "FROM", "WORKDIR"}:
                continue
            if word == "COPY":
                for name in rest.split()[:-1]:
                    assert (self.folder / name).exists(), line
            elif word == "ENV":
                here = rest.replace("/home/crawler", str(self.folder))
                self.variables |= dict(one.split("=", 1) for one in shlex.split(here))
            elif word == "USER":
                self.user = rest
            elif word == "RUN":
                self.ran.append((self.user, rest))
                if " scrapy " in f" {rest}":
                    done = self.run(["sh", "-c", rest])
                    assert done.returncode == 0, done.stdout
            elif word == "CMD":
                self.command = json.loads(rest)
            else:
                raise ValueError(line)

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a container."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "DEDUP_"))}
        return {**kept, "PATH": path, **self.variables, **more}

    def run(self, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        """Run a container to its end."""
        return subprocess.run(
            command, cwd=self.folder, env=self.environment(**more), text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of the page."""
    folder = tmp_path_factory.mktemp("image")
    files = {
        str(file.relative_to(FOLDER)): file.read_text(encoding="utf-8")
        for file in FOLDER.rglob("*")
        if file.is_file()
    }
    make_project(folder, files)
    one = Image(folder)
    one.build(files["Dockerfile"])
    return one


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.mark.empty_cache
def test_container_compiles_nothing(image: Image, index: str) -> None:
    """The cache of the image is used, and filled by the user who crawls."""
    user, warmup = image.ran[-1]
    assert user == image.user
    assert warmup.endswith("scrapy dedup warmup")
    assert image.user != "root"
    done = image.run(image.command, DEDUP_INDEX_URL=index)
    assert done.returncode == 0, done.stdout
    assert "'dedup/dropped': 1," in done.stdout
    assert COMPILING not in done.stdout


def test_code_is_for_the_processors_that_are_named(image: Image, tmp_path: Path) -> None:
    """Without numba's settings a cache that was filled with them does not serve."""
    own = {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}
    assert own <= set(image.variables)
    without = Image(image.folder, {k: v for k, v in image.variables.items() if k not in own})
    numbers = []
    for one in (image, image, without):
        done = one.run(
            [sys.executable, "-c", ONE_KERNEL], DEDUP_COMPILE="1", DEDUP_CACHE_DIR=str(tmp_path)
        )
        assert done.returncode == 0, done.stdout
        numbers.append(len(list(tmp_path.rglob("*.nbc"))))
    assert numbers == [1, 1, 2]


def test_cache_that_others_can_write_is_not_used(image: Image, tmp_path: Path) -> None:
    """As in a volume with fsGroup; the log says so."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o775)
    more = {"DEDUP_CACHE_DIR": str(tmp_path / "cache"), "DEDUP_INDEX_URL": "memory:"}
    done = image.run(image.command, **more)
    assert "can be written to by others" in done.stdout


def test_manifest_is_valid() -> None:
    """By the schema of the newest Kubernetes that the validator has, with no unknown field."""
    package("kubernetes_validate")
    import kubernetes_validate

    kubernetes_validate.validate(MANIFEST, kubernetes_validate.latest_version(), strict=True)


def test_manifest_fits_the_image(image: Image) -> None:
    """User, command, ports and variables are those of the image and the settings."""
    dockerfile = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert f"--uid {POD['securityContext']['runAsUser']} {image.user}" in dockerfile
    assert "fsGroup" not in POD["securityContext"]
    assert CONTAINER["args"] == image.command
    variables = {one["name"]: one.get("value") for one in CONTAINER["env"]}
    settings = (FOLDER / "shop" / "settings.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in settings for name in set(variables) - {"SCRAPY_JOB"})
    port = MANIFEST["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["annotations"]
    (secret,) = (one["valueFrom"]["secretKeyRef"] for one in CONTAINER["env"][:1])
    create, _ = (command.text for command in shown("containers.md")[0])
    assert f"generic {secret['name']} --from-literal={secret['key']}=" in create
    ports = {variables["METRICS_PORT"], port["prometheus.io/port"]}
    assert ports == {str(CONTAINER["ports"][0]["containerPort"])}


def test_pod_ends_within_its_grace_period(image: Image, index: str) -> None:
    """SIGTERM in the middle: exit code 0 in time, and no claim is left, though leases are long."""
    port = free_port()
    more = {"DEDUP_INDEX_URL": index, "METRICS_PORT": str(port), "SCRAPY_JOB": "pages-1"}
    command = [*CONTAINER["args"], "-a", "many=1000", "-s", "DEDUP_LEASE=600"]
    with (image.folder / "log").open("wb") as log:
        pod = subprocess.Popen(
            command, cwd=image.folder, env=image.environment(**more), stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 120
        while committed(port) < 20:
            assert pod.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert asyncio.run(pending(index)) > 0
        pod.send_signal(signal.SIGTERM)
        assert pod.wait(POD["terminationGracePeriodSeconds"]) == 0
    finally:
        pod.kill()
        pod.wait()
    assert "Closing spider (shutdown)" in (image.folder / "log").read_text(encoding="utf-8")
    assert asyncio.run(pending(index)) == 0


def committed(port: int) -> float:
    """Pages stored so far, as the metrics port of the pod says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return 0.0
    # The first page adds the line.
    lines = [line for line in text.splitlines() if 'event="committed"' in line]
    return float(lines[0].split()[-1]) if lines else 0.0


async def pending(url: str) -> int:
    """Claims that are open."""
    async with open_index(Options(index_url=url)) as opened:
        await opened.attach()
        return (await opened.stats()).pending


def test_grace_period_is_longer_than_a_request() -> None:
    """As the page says."""
    settings: dict[str, Any] = {}
    exec((FOLDER / "shop" / "settings.py").read_text(encoding="utf-8"), settings)
    assert POD["terminationGracePeriodSeconds"] > settings["DOWNLOAD_TIMEOUT"]
