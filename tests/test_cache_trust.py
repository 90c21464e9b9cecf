"""No file of another user is run or believed: the cache of kernels and tables on a shared machine.

Other users are real ones where the tests run as root (files are given to them, processes become
them); for an ordinary user, who can't do that, this process takes itself for another user.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

from dedup_middleware.base import cachefolder, kernels

pytestmark = pytest.mark.usefixtures("compiled_by_numba")

ROOT = Path(__file__).parents[1]
STRANGER = 65533
IS_ROOT = os.geteuid() == 0


def add_one(number: int) -> int:
    """The kernel that these tests compile."""
    return number + 1


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Use only caches of the test, and forget those chosen before."""
    monkeypatch.delenv("DEDUP_CACHE_DIR", raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    blocked = tmp_path / "blocked"
    blocked.write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked / "xdg"))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    forget()
    yield
    forget()


def forget() -> None:
    """Forget the cache directory, as a new process would."""
    cachefolder.cache_directory.cache_clear()
    cache: Any = sys.modules.get("dedup_middleware.base.kernels")
    if cache is not None:
        cache._reported.clear()
    cachefolder._is_own_group.cache_clear()


def in_tmp(tmp_path: Path) -> Path:
    """The cache directory below the temporary one."""
    return tmp_path / "tmp" / f"dedup-middleware-{os.getuid()}"


def run_kernel() -> Any:
    """Compile or load a kernel, call it, and return its dispatcher."""
    dispatcher: Any = kernels.kernel(add_one)
    dispatcher.compile((numba.int64,))
    assert dispatcher(41) == 42
    return dispatcher


def hits() -> int:
    """How many kernels a new process would load from the cache: one or none."""
    forget()
    return sum(run_kernel().stats.cache_hits.values())


class Bomb:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._target),))


def plant(folder: Path, target: Path) -> None:
    """Put a malicious pickle in the place of every file of kernels."""
    planted = [*folder.rglob("*.nbc")]
    assert planted
    for file in planted:
        file.write_bytes(pickle.dumps(Bomb(target)))


def to_stranger(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Give files to another user, or take ourselves for one."""
    if IS_ROOT:
        for path in paths:
            os.lchown(path, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def test_a_planted_pickle_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control for the other tests: in a folder of this user a planted pickle is loaded and runs."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "own"))
    assert hits() == 0
    assert hits() == 1
    plant(tmp_path / "own", tmp_path / "ran")
    assert hits() == 0
    assert (tmp_path / "ran").exists()


def test_link_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A link in the place of the cache is not followed, even to a folder of this user."""
    target = tmp_path / "private"
    target.mkdir(0o700)
    link = in_tmp(tmp_path)
    link.symlink_to(target)
    if IS_ROOT:
        os.lchown(link, STRANGER, STRANGER)
    assert cachefolder.cache_directory() is None
    run_kernel()
    assert list(target.iterdir()) == []
    assert "No cache directory can be written" in caplog.text
    assert f"{link} is not used as a cache" in caplog.text


def test_exchanged_after_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A cache that is exchanged for a link after it was chosen is compiled anew, not loaded."""
    assert hits() == 0
    own = in_tmp(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(own, copy)
    plant(copy, tmp_path / "ran")
    forget()
    assert cachefolder.cache_directory() == own
    dispatcher: Any = kernels.kernel(add_one)
    own.rename(tmp_path / "away")
    own.symlink_to(copy)
    to_stranger(monkeypatch, own)
    dispatcher.compile((numba.int64,))
    assert dispatcher(41) == 42
    assert sum(dispatcher.stats.cache_hits.values()) == 0
    assert not (tmp_path / "ran").exists()
    assert "are not used" in caplog.text
    # The lock is not written to another place either.
    with cachefolder.taking_turns(dispatcher.stats.cache_path, "name"):
        pass
    assert list(copy.rglob("name.lock")) == []


@pytest.mark.parametrize("part", ["cache", "version", "folder", "file"])
def test_files_of_another_user(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever belongs to another user, of the folders or files, no pickle there is loaded."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "cache"))
    assert hits() == 0
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    paths = {"cache": tmp_path / "cache", "version": file.parents[1], "folder": file.parent}
    plant(tmp_path / "cache", tmp_path / "ran")
    forget()
    dispatcher: Any = kernels.kernel(add_one)
    to_stranger(monkeypatch, {**paths, "file": file}[part])
    dispatcher.compile((numba.int64,))
    assert dispatcher(41) == 42
    assert not (tmp_path / "ran").exists()
    assert "are not used" in caplog.text


@pytest.mark.parametrize("part", ["cache", "version", "folder", "file", "above"])
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_files_that_others_can_write(
    part: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder or file that others, or a group, can write to holds no kernels; so do folders in
    one in which others can rename the files."""
    above = tmp_path / "above"
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(above / "cache"))
    assert hits() == 0
    assert hits() == 1
    (file,) = above.rglob("*.nbc")
    paths = {
        "above": above, "cache": above / "cache", "version": file.parents[1],
        "folder": file.parent, "file": file,
    }  # fmt: skip
    plant(above, tmp_path / "ran")
    monkeypatch.setattr("pwd.getpwuid", _no_user)
    paths[part].chmod(mode)
    assert hits() == 0
    assert not (tmp_path / "ran").exists()


def _no_user(_: int) -> Any:
    raise KeyError("no such user")


def test_group_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group that many systems make for each user may write above the cache; with another user
    in it, it may not."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o775)
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(home / "cache"))
    group = home.stat().st_gid
    members: list[str] = []
    me = SimpleNamespace(pw_gid=group, pw_name="me")
    monkeypatch.setattr("pwd.getpwuid", lambda _: me)
    own = SimpleNamespace(gr_name="me", gr_mem=members)
    monkeypatch.setattr("grp.getgrgid", lambda _: own)
    forget()
    assert cachefolder.cache_directory() == home / "cache"
    members.append("somebody")
    forget()
    assert cachefolder.cache_directory() == in_tmp(tmp_path)


def test_sticky_folder_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache may lie in a folder like /tmp, and be reached by a link of one's own or of root; a
    link of another user on the way is not followed."""
    sticky = tmp_path / "tmp"
    (sticky / "real").mkdir()
    link = sticky / "link"
    link.symlink_to(sticky / "real")
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(link / ".." / "real" / "cache"))
    assert (hits(), hits()) == (0, 1)
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(link / "cache"))
    assert hits() == 1
    to_stranger(monkeypatch, link)
    assert hits() == 0


def test_modes_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders and files of the cache are this user's alone, with any umask."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "new" / "cache"))
    before = os.umask(0)
    try:
        for umask in (0, 0o777):
            os.umask(umask)
            folder = tmp_path / "new"
            assert (hits(), hits()) == (0, 1)
            cachefolder.load_or_build("table.bin", lambda: {"a": np.arange(3)})
            dispatcher: Any = kernels.kernel(add_one)
            with cachefolder.taking_turns(dispatcher.stats.cache_path, "name"):
                pass
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *rglob(folder)]
            }
            assert {Path(name).suffix for name in modes} >= {".nbc", ".bin", ".lock"}
            assert not [name for name, mode in modes.items() if mode & 0o077]
            shutil.rmtree(folder)
    finally:
        os.umask(before)


def rglob(folder: Path) -> list[Path]:
    """All that is in a folder."""
    return list(folder.rglob("*"))


def test_lock_is_no_way_out(tmp_path: Path) -> None:
    """A link in the place of a lock is not followed; what it leads to keeps its content."""
    victim = tmp_path / "victim"
    victim.write_text("content")
    folder = tmp_path / "folder"
    folder.mkdir(0o700)
    (folder / "name.lock").symlink_to(victim)
    with cachefolder.taking_turns(str(folder), "name"):
        pass
    assert victim.read_text() == "content"


def test_tables_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that another user can change, or a link to one, is built anew and not believed."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "cache"))

    def load(value: int) -> int:
        forget()
        return int(cachefolder.load_or_build("table.bin", lambda: {"a": np.array([value])})["a"][0])

    assert (load(1), load(2)) == (1, 1)
    table = tmp_path / "cache" / "table.bin"
    table.chmod(0o666)
    assert load(3) == 3
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    moved = tmp_path / "moved"
    table.rename(moved)
    table.symlink_to(moved)
    assert load(4) == 4
    to_stranger(monkeypatch, table, tmp_path / "cache")
    assert load(5) == 5


def test_directory_that_numba_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """NUMBA_CACHE_DIR is checked like any other directory, and a message names it."""
    given = tmp_path / "numba"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(given))
    assert (hits(), hits()) == (0, 1)
    plant(given, tmp_path / "ran")
    given.chmod(0o777)
    assert hits() == 0
    assert not (tmp_path / "ran").exists()
    assert f"{given} can be written to by others (mode 0777)" in caplog.text
    assert "NUMBA_CACHE_DIR" in caplog.text


@pytest.mark.parametrize("damage", [b"", b"no pickle", b"\x80\x04K\x07."])
def test_damaged_kernels(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Files of the cache that are cut off or hold something else are replaced, without an error."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "cache"))
    assert (hits(), hits()) == (0, 1)
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    file.write_bytes(damage)
    assert (hits(), hits()) == (0, 1)
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_kernels_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two functions with the same name in one file are never confused."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "cache"))
    dispatchers: list[Any] = [
        kernels.kernel(lambda number: number + 1),
        kernels.kernel(lambda number: number + 2),
    ]
    for dispatcher in dispatchers:
        dispatcher.compile((numba.int64,))
    assert [dispatcher(40) for dispatcher in dispatchers] == [41, 42]


def test_source_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of such a file works, and is not cached: another version of it would be loaded."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "cache"))
    for source in (tmp_path, tmp_path / "gone.py", tmp_path / "cache.py" / "below a file"):
        (tmp_path / "cache.py").touch()
        names: dict[str, Any] = {}
        exec(compile("def two(number):\n    return number + 2\n", source, "exec"), names)
        assert kernels.kernel(names["two"])(40) == 42
    assert not [*tmp_path.rglob("*.nbc")]


def test_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kernel that can't be cached is used all the same."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "cache"))
    run_kernel()
    shutil.rmtree(next((tmp_path / "cache").glob("kernels-*")))
    forget()
    dispatcher: Any = kernels.kernel(add_one)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    dispatcher.compile((numba.int64,))
    assert dispatcher(1) == 2
    assert "No space left on device" in caplog.text
    assert not list((tmp_path / "cache").rglob("*.tmp"))


VICTIM = """
import logging, os, sys, tempfile
tempfile.tempdir = sys.argv[1]
import numba
import numpy as np
from numba.core.registry import cpu_target
from dedup_middleware.base import cachefolder, kernels
from tests.test_cache_trust import run_kernel
cachefolder.cache_directory.cache_clear()
logging.basicConfig(level=logging.INFO)
run_kernel()
# Loads the parts of numba that are read on first use, before the rights to them go.
cpu_target.target_context.refresh()
cachefolder.cache_directory.cache_clear()
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65532)
    os.setuid(65532)
os.environ["XDG_CACHE_HOME"] = "/proc/none"
dispatcher = run_kernel()
table = cachefolder.load_or_build("table.bin", lambda: {"a": np.array([1])})
print(cachefolder.cache_directory(), sum(dispatcher.stats.cache_hits.values()), table["a"][0])
"""


def victim(tmp_path: Path) -> list[str]:
    """What a process of another user prints: its cache, kernels loaded from it, a table's value."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "first")}
    done = subprocess.run(
        [sys.executable, "-c", VICTIM, str(tmp_path / "tmp")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_two_users(tmp_path: Path) -> None:
    """A user whose home can't be written finds, under the name of his cache in /tmp, a folder that
    another user has prepared: nothing of it is loaded, and he works without a cache."""
    for folder in (tmp_path, *tmp_path.parents):
        if IS_ROOT and "pytest" in folder.as_posix():
            folder.chmod(0o755)
    user = 65532 if IS_ROOT else os.getuid()
    cache = tmp_path / "tmp" / f"dedup-middleware-{user}"
    assert victim(tmp_path) == [str(cache), "0", "1"]
    assert victim(tmp_path) == [str(cache), "1", "1"]
    plant(cache, tmp_path / "tmp" / "ran")
    (cache / "table.bin").write_bytes(cachefolder.dump({"a": np.array([666])}))
    for path in [cache, *cache.rglob("*")]:
        if IS_ROOT:
            os.lchown(path, STRANGER, STRANGER)
        path.chmod(0o777)
    assert victim(tmp_path) == ["None", "0", "1"]
    assert not (tmp_path / "tmp" / "ran").exists()
