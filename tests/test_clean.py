"""`make clean` deletes what make and its commands have created, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "dedup_middleware"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the Makefile among folders as they are in the repository."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in (PACKAGE, "tests/index", "docs", "crawler"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def put(folder: Path, *names: str) -> None:
    """Create files with these names, and their folders."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def clean(folder: Path) -> None:
    """Run the target."""
    subprocess.run(["make", "--no-print-directory", "clean"], cwd=folder, check=True)


def left(folder: Path) -> set[str]:
    """The paths of the files that are left."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_all_that_is_made_goes(tree: Path) -> None:
    """All generated files, which the repository ignores, are deleted, except the environment, which
    takes minutes to make."""
    for line in (ROOT / ".gitignore").read_text().split():
        if "*" not in line:
            put(tree, line.strip("/") + "/in it" * line.endswith("/"))
    # A compilation that was killed leaves its folder.
    put(tree, *(f"{PACKAGE}/{name}" for name in ("_kernels_1.so", ".kernels-x/module.o")))
    put(tree, "tests/index/__pycache__/a.pyc", "docs/_build/html/index.html")
    put(tree, "news.db", "news.db-wal", "news.db-shm", "news.db-journal", ".nox/a")
    clean(tree)
    assert left(tree) == {"Makefile", ".venv/in it"}


def test_files_of_a_user_stay(tree: Path) -> None:
    """Files with similar names stay, and so do those of another environment in the folder."""
    own = {
        "my.db", "news.csv", "mynews.jsonl", f"{PACKAGE}/a.py", "tests/index/a.py",
        "docs/a.md", "data/build/a", "venv/lib/__pycache__/a.pyc", "news.dbx",
    }  # fmt: skip
    put(tree, *own)
    clean(tree)
    assert left(tree) == {"Makefile", *own}


def test_a_folder_without_the_sources_keeps_its_own(tmp_path: Path) -> None:
    """The Makefile may be named from elsewhere: what is there is not the project's."""
    put(tmp_path, "mine/__pycache__/a.pyc")
    makefile = str(ROOT / "Makefile")
    subprocess.run(
        ["make", "--no-print-directory", "-f", makefile, "clean"], cwd=tmp_path, check=True
    )
    assert left(tmp_path) == {"mine/__pycache__/a.pyc"}
