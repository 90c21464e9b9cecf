"""A wheel with compiled kernels: a first start compiles nothing, on machines that it fits."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from llvmlite import binding

from dedup_middleware.base import shipped
from tests.docblocks import ROOT
from tests.once import once

DECIDE = """
import asyncio, json, sys
import numba.core.event as event
compiled = []
class Compilations(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Compilations())
from dedup_middleware import Deduplicator, Document, Options
import dedup_middleware
async def decide():
    text = "".join(f"第{i}段正文，今天的会议讨论了方案{i * 7}，大家意见不一。" for i in range(40))
    page = "<title>标题</title><article><p>" + text + "</p></article>"
    async with Deduplicator(Options()) as dedup:
        verdict = await dedup.decide(Document(key="https://one.example/", text=text))
        await dedup.commit(verdict)
        again = await dedup.decide(Document(key="https://two.example/", text=text))
        await dedup.decide(Document(key="https://three.example/", html=page))
        return [verdict.outcome, again.outcome]
outcomes = asyncio.run(decide())
print(json.dumps([dedup_middleware.__file__, outcomes, compiled]))
"""


def build(out: Path) -> None:
    """Build the wheel with kernels, and unpack it beside itself."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        env={**os.environ, "DEDUP_SHIP_KERNELS": "1"},
    )
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(out / "installed")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; beside it is what an installation has, in the folder ``installed``."""
    (built,) = once(tmp_path_factory, "wheel-with-kernels", build).glob("*.whl")
    return built


def decided(installed: Path, **environment: str) -> tuple[list[str], list[str]]:
    """Outcomes of the first decisions of a process, and what was compiled for them."""
    variables = {**os.environ, "PYTHONPATH": str(installed), **environment}
    variables.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", DECIDE],
        cwd=installed,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    file, outcomes, compiled = json.loads(done.stdout)
    assert Path(file).is_relative_to(installed)
    return outcomes, compiled


@pytest.mark.slow
def test_first_start_compiles_nothing(wheel: Path, tmp_path: Path) -> None:
    """With an empty cache the first decisions are made, and nothing is compiled for them."""
    outcomes, compiled = decided(wheel.parent / "installed", DEDUP_CACHE_DIR=str(tmp_path))
    assert outcomes == ["new", "duplicate"]
    assert compiled == []
    assert list(tmp_path.rglob("*.nbc")) == []


@pytest.mark.slow
def test_no_cache_is_needed(wheel: Path, tmp_path: Path) -> None:
    """The same where nothing can be written."""
    file = tmp_path / "file"
    file.touch()
    nowhere = dict.fromkeys(("DEDUP_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR"), str(file))
    outcomes, compiled = decided(wheel.parent / "installed", **nowhere)
    assert outcomes == ["new", "duplicate"]
    assert compiled == []


@pytest.mark.slow
def test_damaged_and_missing_kernels_are_compiled(wheel: Path, tmp_path: Path) -> None:
    """One file is cut, another is gone: these two are compiled, the others are loaded."""
    installed = tmp_path / "installed"
    shutil.copytree(wheel.parent / "installed", installed)
    (cut,) = installed.rglob("comparison._differing-*.nbc")
    cut.write_bytes(cut.read_bytes()[:100])
    (gone,) = installed.rglob("simhash._count-*.nbi")
    gone.unlink()
    outcomes, compiled = decided(installed, DEDUP_CACHE_DIR=str(tmp_path / "cache"))
    assert outcomes == ["new", "duplicate"]
    assert "_differing" in compiled
    assert "_sign_text" not in compiled


@pytest.mark.slow
def test_other_sources_are_compiled(wheel: Path, tmp_path: Path) -> None:
    """Kernels belong to the sources they were made of: where one was changed they are left."""
    installed = tmp_path / "installed"
    shutil.copytree(wheel.parent / "installed", installed)
    with (installed / "dedup_middleware" / "methods" / "content_rule.py").open("a") as source:
        source.write("# another version\n")
    _, compiled = decided(installed, DEDUP_CACHE_DIR=str(tmp_path / "cache"))
    assert compiled != []
    assert "_sign_text" not in compiled


@pytest.mark.slow
def test_wheel_names_its_platform(wheel: Path) -> None:
    """The wheel fits one Python and one platform, and holds the kernels once."""
    about = shipped.About.of_this_process()
    assert about is not None
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}-" in wheel.name
    assert "-any" not in wheel.name
    with zipfile.ZipFile(wheel) as package:
        names = package.namelist()
        held = json.loads(package.read("dedup_middleware/_kernels/about.json"))
    assert held == attrs.asdict(about)
    assert len([name for name in names if "_sign_text" in name and name.endswith(".nbc")]) == 1


def written(folder: Path, **changes: Any) -> Path:
    """A folder of shipped kernels that says this process's facts, some of them changed."""
    about = shipped.About.of_this_process()
    assert about is not None
    (folder / "about.json").write_text(json.dumps({**attrs.asdict(about), **changes}))
    return folder


def test_kernels_of_this_process_are_used(tmp_path: Path) -> None:
    """Compiled by these versions, for this machine: they are used."""
    assert shipped.usable(written(tmp_path)) == shipped.About.of_this_process()


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(shipped.About)])
def test_kernels_of_others_are_left(name: str, tmp_path: Path) -> None:
    """Another Python, numba, llvmlite, system or processor: compiled anew, without a warning."""
    assert shipped.usable(written(tmp_path, **{name: "another"})) is None


def test_processor_that_lacks_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for AVX2 would end the process on a processor without it."""
    folder = written(tmp_path)
    monkeypatch.setitem(shipped.BASELINES, "x86_64", shipped.BASELINES["AMD64"])
    monkeypatch.setattr(shipped.platform, "machine", lambda: "x86_64")
    here = written(tmp_path)
    features = dict.fromkeys(shipped.BASELINES["x86_64"].features, True)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: features)
    assert shipped.usable.__wrapped__(here) is not None
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {**features, "avx2": False})
    assert shipped.usable.__wrapped__(folder) is None


@pytest.mark.parametrize("content", ["", "[]", '{"python": "cpython-311"}', '{"other": 1}'])
def test_damaged_facts(content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What can't be read is left, with a warning that names the folder."""
    (tmp_path / "about.json").write_text(content)
    with caplog.at_level(logging.WARNING):
        assert shipped.usable(tmp_path) is None
    assert str(tmp_path) in caplog.text


def test_nothing_shipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A wheel without kernels is as good as any; nothing is said."""
    assert shipped.usable(tmp_path) is None
    assert caplog.text == ""


def test_machine_without_a_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built for a machine that nobody chose a baseline for."""
    monkeypatch.setattr(shipped.platform, "machine", lambda: "riscv64")
    with pytest.raises(RuntimeError, match="no kernels are shipped for riscv64; only for AMD64"):
        shipped.build(tmp_path)
