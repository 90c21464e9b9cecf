"""All that a decision needs is compiled before the first one, so that the loop goes on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware.base.options import METHODS
from tests.docblocks import ROOT
from tests.servers import running_redis

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


class Probes:
    """Runs ``tests/warm_probe.py``: a process of its own for each set of options.

    :param arguments: of the program
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        variables = {**os.environ, "DEDUP_COMPILE": "1", **environment}
        variables.pop("NUMBA_CACHE_DIR", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm_probe", *arguments],
            cwd=ROOT, env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the report of a new process on its kernels."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(options) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process failed; its error is on the standard error"
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the program that starts the processes."""
        self._process.communicate()


@pytest.fixture(scope="module")
def probe() -> Iterator[Probes]:
    """Processes with the kernels that this machine has in its cache."""
    with contextlib.closing(Probes("--cached")) as probes:
        yield probes


def check(found: dict[str, Any]) -> None:
    """No kernel was missing when the first text came, nor when the first page of HTML came; and
    none has loaded the part of numba that loads SciPy's linear algebra."""
    assert found["html_before"] > 0
    assert not found["blas"]
    for when in ("late", "late_html", "compiled", "compiled_html"):
        assert found[when] == [], when


@pytest.mark.parametrize(("index", "options"), KINDS, ids=str)
def test_nothing_is_compiled_after_open(
    probe: Probes, index: str, options: dict[str, Any], tmp_path: Path
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
def test_methods_of_the_literature(probe: Probes, method: str) -> None:
    """Every method finds its kernels ready."""
    check(probe({"index_url": "memory:", "method": method}))


@pytest.mark.parametrize("extractor", ["fast", "best"])
def test_extractors(probe: Probes, extractor: str) -> None:
    """Every way to extract the body finds its kernels ready."""
    check(probe({"index_url": "memory:", "extractor": extractor}))
