from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import numba
from dedup_middleware.kernels import cache_directory
from dedup_middleware.text.hashing import distinct
import numpy as np
values, counts = distinct(np.array([5, 7, 5], np.uint64), 3)
assert values.tolist() == [5, 7] and counts.tolist() == [2, 1]
print(cache_directory(), bool(numba.config.CACHE_DIR), sum(distinct.stats.cache_hits.values()))
"""


def run(**environment: str) -> list[str]:
    """Run the script in a process of its own; directory, numba's setting, cache hits."""
    inherited = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_kernels_are_cached_beside_the_tables(tmp_path: Path) -> None:
    """Machine code goes into our cache directory, is found again, and numba's own setting, which
    belongs to the application, stays as it was."""
    assert run(DEDUP_CACHE_DIR=str(tmp_path)) == [str(tmp_path), "False", "0"]
    assert list(tmp_path.glob("kernels-*/*/*.nbi"))
    assert run(DEDUP_CACHE_DIR=str(tmp_path)) == [str(tmp_path), "False", "1"]


def test_numbas_own_setting_wins(tmp_path: Path) -> None:
    """Where the application told numba to cache, kernels are cached."""
    own = tmp_path / "numba"
    assert run(DEDUP_CACHE_DIR=str(tmp_path), NUMBA_CACHE_DIR=str(own))[1] == "True"
    assert list(own.glob("*/*.nbi"))


def test_nowhere_to_cache(tmp_path: Path) -> None:
    """With no directory to write to, kernels are compiled in memory and work."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    nowhere = str(blocked / "x")
    script = SCRIPT.replace(
        "import numba\n", f"import numba, tempfile\ntempfile.tempdir = {nowhere!r}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEDUP_CACHE_DIR": nowhere}
    environment.update(XDG_CACHE_HOME=nowhere, HOME=nowhere)
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None", "False", "0"]
    assert "No cache directory can be written" in done.stderr


@pytest.mark.parametrize("module", ["dedup_middleware", "dedup_middleware.text"])
def test_no_heavy_imports(module: str) -> None:
    """Importing the package loads neither numba nor jieba."""
    script = f"import sys, {module}; print([m for m in ('numba', 'jieba') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_jieba_is_never_imported() -> None:
    """The dictionary is read without importing jieba, whose import warns."""
    script = (
        "import sys; from dedup_middleware.text.shingle import Shingler; Shingler()('中国');"
        "print('jieba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
