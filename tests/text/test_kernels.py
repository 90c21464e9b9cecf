from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dedup_middleware.signature.minhash import MinHasher

pytestmark = pytest.mark.usefixtures("compiled_by_numba")

ROOT = Path(__file__).parents[2]

SCRIPT = """
import numba
from dedup_middleware.base.cachefolder import cache_directory
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
    assert list(tmp_path.glob("kernels-*/*/*.nbc"))
    assert run(DEDUP_CACHE_DIR=str(tmp_path)) == [str(tmp_path), "False", "1"]


def test_numbas_own_setting_wins(tmp_path: Path) -> None:
    """Where the application told numba to cache, kernels are cached."""
    own = tmp_path / "numba"
    assert run(DEDUP_CACHE_DIR=str(tmp_path), NUMBA_CACHE_DIR=str(own))[1] == "True"
    assert list(own.glob("kernels-*/*/*.nbc"))


def test_numba_that_compiles_nothing() -> None:
    """Numba's decorators then return plain functions: the error says so, and what to do."""
    script = "from dedup_middleware import Fingerprinter, Options; Fingerprinter(Options())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "OptionsError: NUMBA_DISABLE_JIT=1 can't be used: unset it" in last


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


READ_ONLY = """
import os, sys, tempfile
package, home = sys.argv[1:]
for folder in (package, home):
    try:
        open(os.path.join(folder, "probe"), "w")
    except OSError:
        continue
    sys.exit(f"{folder} can be written")
tempfile._candidate_tempdir_list = lambda: [os.environ["TMPDIR"]]
import numpy as np
import dedup_middleware
assert dedup_middleware.__file__.startswith(package), dedup_middleware.__file__
from dedup_middleware.base.cachefolder import cache_directory
from dedup_middleware.signature.minhash import MinHasher
from dedup_middleware.base.cachefolder import load_or_build
arrays = load_or_build("table.bin", lambda: {"one": np.arange(3)})
minima = MinHasher(8).of_features(np.arange(5, dtype=np.uint64))
print(cache_directory(), arrays["one"].tolist(), minima.tolist())
"""


def obey_permissions() -> None:
    """Take from a process of root the right to write where permissions forbid it."""
    drop_from_bounding_set, dac_override = 24, 1
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


@pytest.mark.parametrize("temporary", ["tmp", "home"])
def test_read_only_installation(tmp_path: Path, temporary: str) -> None:
    """With package and home read-only, the temporary directory is the cache; where that can't be
    written either, tables and kernels are made in memory and right, and one message says what to
    do."""
    package, home, tmp = (tmp_path / name for name in ("site-packages", "home", "tmp"))
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "dedup_middleware", package / "dedup_middleware", ignore=ignored)
    home.mkdir()
    tmp.mkdir()
    folders = [home, package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(package), str(home)],
            env={
                "PYTHONPATH": str(package),
                "HOME": str(home),
                "TMPDIR": str(tmp_path / temporary),
            },
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=obey_permissions,
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)
    minima = MinHasher(8).of_features(np.arange(5, dtype=np.uint64)).tolist()
    used = tmp / f"dedup-middleware-{os.getuid()}" if temporary == "tmp" else None
    assert done.stdout == f"{used} [0, 1, 2] {minima}\n", done.stderr
    complaints = 0 if used else 1
    assert done.stderr.count("No cache directory can be written") == complaints
    assert done.stderr.count("Set DEDUP_CACHE_DIR") == complaints
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "module", ["dedup_middleware", "dedup_middleware.text", "dedup_middleware.text.decode"]
)
def test_no_heavy_imports(module: str) -> None:
    """Importing the package, or what decodes pages, loads neither numba nor jieba."""
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
