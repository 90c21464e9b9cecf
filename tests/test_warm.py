"""All that a decision needs is compiled before the first one, so that the loop goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.base.options import METHODS
from tests.docblocks import ROOT
from tests.servers import running_redis

pytestmark = pytest.mark.usefixtures("compiled_by_numba")

KINDS: list[tuple[str, dict[str, Any]]] = [
    *(
        (index, options)
        for index in ("memory", "sqlite", "redis")
        for options in ({}, {"window": 3600})
    ),
    ("memory", {"probes": 4}),
    ("memory", {"method": "simhash"}),
    ("redis", {"method": "simhash"}),
    ("memory", {"min_features": 100}),
    ("sqlite", {"keep_address": False}),
]


def probe(options: dict[str, Any], **environment: str) -> dict[str, Any]:
    """What tests/warm_probe.py says of a process of its own."""
    variables = {**os.environ, **environment}
    variables.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.warm_probe", json.dumps(options)],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    """No kernel was missing when the first text came, nor when the first page of HTML came."""
    assert found["html_before"] > 0
    for when in ("late", "late_html", "compiled", "compiled_html"):
        assert found[when] == [], when


@pytest.mark.parametrize(("index", "options"), KINDS, ids=str)
def test_nothing_is_compiled_after_open(
    index: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """On every kind of index pages of all kinds find their kernels ready."""
    if index == "redis":
        with running_redis(tmp_path) as server:
            found = probe({"index_url": server.url, **options})
    else:
        url = "memory:" if index == "memory" else f"sqlite:{tmp_path / 'index.db'}"
        found = probe({"index_url": url, **options})
    check(found)
    wanted = {"duplicate", "empty", "new"}
    assert wanted <= set(found["outcomes"])


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("content", "simhash")])
def test_methods_of_the_literature(method: str) -> None:
    """Every method finds its kernels ready."""
    check(probe({"index_url": "memory:", "method": method}))


@pytest.mark.parametrize("extractor", ["fast", "best"])
def test_extractors(extractor: str) -> None:
    """Every way to extract the body finds its kernels ready."""
    check(probe({"index_url": "memory:", "extractor": extractor}))


@pytest.mark.empty_cache
def test_empty_cache(tmp_path: Path) -> None:
    """With an empty cache ``open`` compiles all that decisions of texts and of HTML need."""
    found = probe({"index_url": "memory:"}, DEDUP_CACHE_DIR=str(tmp_path))
    check(found)
    assert found["before"] > 0
