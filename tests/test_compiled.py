"""A wheel with compiled kernels: a first start compiles nothing and loads no compiler."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hatch_build
from dedup_middleware.base import aot, compiled
from tests import kernels
from tests.docblocks import ROOT
from tests.once import once

DECIDE = """
import asyncio, json, sys
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
loaded = sorted({"numba", "llvmlite", "scipy"} & set(sys.modules))
print(json.dumps([dedup_middleware.__file__, outcomes, loaded]))
"""


def build(out: Path) -> None:
    """Build the wheel with kernels, and unpack it next to the wheel.

    Kernels that `make warm` has compiled of these sources are taken. The build's requirements,
    numba among them, are those of this environment, which is checked and costs nothing.
    """
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run(
        [*command, str(ROOT)],
        check=True,
        capture_output=True,
        env={key: value for key, value in os.environ.items() if key != "DEDUP_SHIP_KERNELS"},
    )
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(out / "installed")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; next to it, an installation in the folder ``installed``."""
    (built,) = once(tmp_path_factory, "wheel-with-kernels", build).glob("*.whl")
    return built


def run(installed: Path, *arguments: str, **environment: str) -> str:
    """What Python prints with an installation of the package."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def decided(installed: Path, **environment: str) -> tuple[list[str], list[str]]:
    """Outcomes of the first decisions of a process, and which parts of the compiler it loaded."""
    file, outcomes, loaded = json.loads(run(installed, "-c", DECIDE, **environment))
    assert Path(file).is_relative_to(installed)
    return outcomes, loaded


@pytest.mark.slow
def test_first_start_compiles_nothing(wheel: Path, tmp_path: Path) -> None:
    """With an empty cache the first decisions are made without numba, and nothing is compiled."""
    outcomes, loaded = decided(wheel.parent / "installed", DEDUP_CACHE_DIR=str(tmp_path))
    assert outcomes == ["new", "duplicate"]
    assert loaded == []
    assert list(tmp_path.rglob("*.nbc")) == []


@pytest.mark.slow
def test_no_cache_is_needed(wheel: Path, tmp_path: Path) -> None:
    """A first start compiles nothing either where no cache can be written."""
    file = tmp_path / "file"
    file.touch()
    nowhere = dict.fromkeys(("DEDUP_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR"), str(file))
    assert decided(wheel.parent / "installed", **nowhere) == (["new", "duplicate"], [])


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [(), ("_v4_popcnt",), ("_v4_popcnt", "_v4")])
def test_results_are_those_of_numba(left_out: tuple[str, ...], wheel: Path, tmp_path: Path) -> None:
    """The tests of golden values, of signatures' oracles and of the rules hold with the wheel:
    with all modules that this processor can run, and with those for lesser ones."""
    installed = tmp_path / "installed"
    shutil.copytree(wheel.parent / "installed", installed)
    for variant in left_out:
        for module in (installed / "dedup_middleware").glob(f"_kernels_*{variant}.*"):
            module.unlink()
    expected = [
        f"dedup_middleware.{compiled.module_name()}{one}"
        for one in compiled.variants()
        if one not in left_out
    ]
    shutil.copytree(ROOT / "tests", installed / "tests", ignore=shutil.ignore_patterns("_*"))
    shutil.copy(ROOT / "pyproject.toml", installed)
    (installed / "tests" / "__init__.py").touch()
    # Kernels that the left-out modules have too; the others come from the last module.
    chosen = [
        "test_golden.py", "signature/test_minhash.py", "signature/test_simhash.py",
        "signature/test_hamming.py",
    ]  # fmt: skip
    if not left_out:
        chosen += [
            "signature/test_figures.py", "text/test_shingle.py", "text/test_trie.py",
            "methods/test_content_evidence.py", "methods/test_evidence_rule.py",
        ]  # fmt: skip
    files = [f"tests/{name}" for name in chosen]
    printed = run(
        installed, "-m", "pytest", "-q", "--fewer-examples", "-p", "no:cacheprovider",
        "--deselect=tests/text/test_shingle.py::test_one_compilation",
        # It compiles a subkernel by itself, which an installation with compiled kernels has not.
        "--deselect=tests/text/test_shingle.py::test_table_of_hashes", *files,
        DEDUP_TEST_MODULES=" ".join(expected),  # tests/conftest.py compares them with those loaded
    )  # fmt: skip
    assert " passed" in printed


@pytest.mark.slow
def test_other_sources_are_compiled(wheel: Path, tmp_path: Path) -> None:
    """Kernels belong to the sources they were made of: where one was changed they are left."""
    installed = tmp_path / "installed"
    shutil.copytree(wheel.parent / "installed", installed)
    with (installed / "dedup_middleware" / "methods" / "content_rule.py").open("a") as source:
        source.write("# another version\n")
    script = "from dedup_middleware.base import compiled; print(compiled.kernels())"
    assert run(installed, "-c", script) == "None\n"


@pytest.mark.slow
def test_wheel_names_its_platform(wheel: Path) -> None:
    """The wheel fits one Python and one platform, and holds an extension module for all processors
    and those for better ones."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}-{hatch_build.platform_tag()}" in wheel.name
    with zipfile.ZipFile(wheel) as package:
        held = [one for one in package.namelist() if one.endswith((".so", ".pyd"))]
    variants = compiled.VARIANTS if platform.machine() in {"x86_64", "AMD64"} else [""]
    name = f"dedup_middleware/{compiled.module_name()}"
    assert sorted(one.partition(".")[0] for one in held) == sorted(name + one for one in variants)


@pytest.mark.slow
def test_wheel_needs_what_its_platform_has(wheel: Path) -> None:
    """The modules need no other libraries than those of C, and no newer one than the wheel says."""
    found = re.search(r"-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    assert found
    promised = (int(found[1]), int(found[2]))
    modules = sorted((wheel.parent / "installed" / "dedup_middleware").glob("_kernels_*.so"))
    assert modules
    for module in modules:
        needs = printed("objdump", "-p", str(module))
        libraries = re.findall(r"NEEDED +(\S+)", needs)
        assert {one.partition(".")[0].partition("-")[0] for one in libraries} <= {
            "libc", "libm", "libpthread", "ld",
        }  # fmt: skip
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", needs)
        assert max((int(major), int(minor)) for major, minor in versions) <= promised


def printed(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hook(folder: Path, monkeypatch: pytest.MonkeyPatch, wanted: str) -> tuple[Any, list[str]]:
    """The hook of a build in which no kernel can be compiled, and its warnings."""
    said: list[str] = []
    app = SimpleNamespace(display_warning=said.append)
    monkeypatch.setenv("DEDUP_SHIP_KERNELS", wanted)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    (folder / "python").write_text("#!/bin/sh\necho 'no compiler' >&2\nexit 1\n")
    (folder / "python").chmod(0o755)
    metadata = SimpleNamespace(core=SimpleNamespace(dependencies=["numba>=0.61"]))
    made = hatch_build.KernelsHook(str(ROOT), {}, None, metadata, str(folder), "wheel", app)  # type: ignore[arg-type]
    return made, said


def test_wheel_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels can't be compiled the wheel holds Python alone, and one line says why."""
    made, said = hook(tmp_path, monkeypatch, "")
    data: dict[str, Any] = {"force_include": {}}
    assert "numba>=0.61" in made.dependencies()
    made.initialize("standard", data)
    assert data == {"force_include": {}}
    assert said == ["The kernels are compiled on first use, not now: no compiler"]


@pytest.mark.parametrize(
    ("c", "cxx", "machine", "headers", "zig"),
    [
        ("sh -pthread", "sh", "x86_64", True, False),
        ("sh", "missing-c++ -pthread", "x86_64", True, True),
        ("missing-cc", "sh", "aarch64", True, True),
        ("missing-cc", "missing-c++", "ppc64le", True, False),
        ("missing-cc", "missing-c++", "x86_64", False, False),
    ],
)
def test_compiler_of_zig(
    c: str,
    cxx: str,
    machine: str,
    headers: bool,
    zig: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Linux without a C or C++ compiler, as in a slim image, builds with that of ``ziglang``, for a
    processor of any age and with a cache of its own; nothing compiles without Python's headers."""
    include = tmp_path / "include"
    include.mkdir()
    if headers:
        (include / "Python.h").touch()
    made, said = hook(tmp_path, monkeypatch, "")
    (tmp_path / "python").write_text(
        '#!/bin/sh\necho "$CC; $LDCXXSHARED; $ZIG_GLOBAL_CACHE_DIR;" >&2\nexit 1\n'
    )
    monkeypatch.delenv("LDCXXSHARED", raising=False)
    monkeypatch.setenv("CC", c)
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(include))
    monkeypatch.setattr(hatch_build, "find_spec", lambda _: object())
    monkeypatch.setattr(hatch_build, "lacks_package", lambda *_: False)
    assert ("ziglang>=0.13" in made.dependencies()) is zig
    made.initialize("editable", {})
    compiler, linker, cache = (one.strip() for one in said[0].partition(": ")[2].split(";")[:3])
    if zig:
        assert compiler == f"{tmp_path}/python -m ziglang cc -mcpu=baseline -fno-sanitize=undefined"
        assert " -m ziglang c++ " in linker
        assert not Path(cache).exists()
    else:
        assert (compiler, linker, cache) == (c, "", "")


@pytest.mark.processes
@pytest.mark.parametrize("offered", [True, False])
def test_index_without_zig(offered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip's index has no ``ziglang`` the wheel is one of Python alone."""
    (tmp_path / "cwd" / "wheels").mkdir(parents=True)
    if offered:
        (tmp_path / "cwd" / "wheels" / "ziglang-0.13.0-py3-none-any.whl").touch()
    command = "pip\0install\0--no-index\0--find-links=wheels\0.\0"
    (tmp_path / "cmdline").write_text(command)
    for name in os.environ:
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert hatch_build.lacks_package("ziglang", tmp_path) is not offered

    executable = sys.executable
    made, said = hook(tmp_path, monkeypatch, "")
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(hatch_build, "lacks_compiler", lambda: True)
    monkeypatch.setattr(hatch_build, "Path", lambda _: tmp_path)
    assert ("ziglang>=0.13" in made.dependencies()) is offered
    expected = [] if offered else ["No C compiler is found, nor the package ziglang with one"]
    assert said == expected


def test_release_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that demands kernels ends with an error."""
    made, _ = hook(tmp_path, monkeypatch, "1")
    with pytest.raises(RuntimeError, match="no compiler"):
        made.initialize("standard", {"force_include": {}})


def test_wheel_of_python_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0 nothing is compiled, and no numba is needed."""
    made, said = hook(tmp_path, monkeypatch, "0")
    assert made.dependencies() == []
    for version in ("standard", "editable"):
        made.initialize(version, {})
    assert said == []


def test_editable_installation_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installation succeeds, and one line says why it has no kernels."""
    made, said = hook(tmp_path, monkeypatch, "")
    made.initialize("editable", {})
    assert said == ["The kernels are compiled on first use, not now: no compiler"]


@pytest.mark.slow
def test_editable_installation(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the kernels in the folder of its sources, and those of other sources are removed.

    The compiler of the wheel's kernels writes them there: compiling them again would say nothing.
    """
    package = tmp_path / "dedup_middleware"
    shutil.copytree(wheel.parent / "installed" / "dedup_middleware", package)
    shipped = {one.name for one in package.glob("_kernels_*")}
    (whole,) = package.glob(f"{compiled.module_name()}.*")
    kept = package / whole.name.replace("cpython-", "cpython-9")
    whole.rename(kept)  # of these sources, for another Python
    (package / "_kernels_0123456789abcdef.so").touch()
    monkeypatch.delenv("DEDUP_SHIP_KERNELS", raising=False)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-m dedup_middleware.base.aot" ] || exit 9\n'
        f'cp "{kept}" "$3/{whole.name}"\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    said: list[str] = []
    app = SimpleNamespace(display_warning=said.append)
    made = hatch_build.KernelsHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel", app)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        made.initialize("editable", {})
    assert said == []
    assert {one.name for one in package.glob("_kernels_*")} == {*shipped, kept.name}
    assert decided(tmp_path, DEDUP_CACHE_DIR=str(tmp_path / "cache")) == (["new", "duplicate"], [])


def test_kernels_that_are_there(tmp_path: Path) -> None:
    """Existing kernels are not compiled again; a build that fails leaves the folder as it was."""

    def fail(_: Path) -> list[Path]:
        raise RuntimeError("no compiler")

    old = tmp_path / "_kernels_0123456789abcdef.so"
    old.touch()
    assert aot.main(tmp_path, fail) == 1
    assert list(tmp_path.iterdir()) == [old]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    module = tmp_path / f"{compiled.module_name()}{suffix}"
    module.touch()
    assert aot.main(tmp_path, fail) == 0
    assert list(tmp_path.iterdir()) == [module]


def test_modules_appear_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the module with all kernels is, those for better processors are too."""
    seen: list[str] = []
    suffix = sysconfig.get_config_var("EXT_SUFFIX")

    def build(folder: Path) -> list[Path]:
        made = [folder / f"{compiled.module_name()}{one}{suffix}" for one in ("_v4", "")]
        for one in made:
            one.touch()
        return made

    def replace(self: Path, target: Path) -> Path:
        seen.append(target.name)
        return Path(shutil.move(self, target))

    monkeypatch.setattr(Path, "replace", replace)
    module = aot.ensure(tmp_path, build)
    assert seen == [f"{compiled.module_name()}_v4{suffix}", module.name]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(seen)


def test_modules_that_two_processes_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The set-up of a test run has all of them, or none if the other process fails."""
    failing: list[str] = []

    def build(folder: Path, variants: list[str]) -> list[Path]:
        if failing == variants:
            raise RuntimeError
        made = [folder / f"_kernels_0{variant}.so" for variant in variants]
        for one in made:
            one.touch()
        return made

    monkeypatch.setattr(aot, "build", build)
    *better, whole = kernels.build_at_once(tmp_path)
    assert whole.name == "_kernels_0.so"
    assert {one.name for one in better} == {"_kernels_0_v4.so", "_kernels_0_v4_popcnt.so"}
    failing += [variant for variant in compiled.VARIANTS if variant]
    with pytest.raises(RuntimeError, match="for better processors can't be compiled"):
        kernels.build_at_once(tmp_path)


def test_an_end_of_the_set_up_leaves_no_process() -> None:
    """Whoever stops it with a signal waits for nothing but what the other process has begun."""
    script = """
import pathlib, time
from dedup_middleware.base import aot
from tests import kernels
def build(folder, variants):
    if variants == [""]:
        print("begun", flush=True)
        time.sleep(600)
    return []
aot.build = build
kernels.build_at_once(pathlib.Path())
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        started.kill()
        # Both have the same standard output, which ends with the last of them.
        assert started.communicate(timeout=60) == ("", None)


def test_no_c_compiler(tmp_path: Path) -> None:
    """Without a C compiler one line says so, and nothing is left behind."""
    done = subprocess.run(
        [sys.executable, "-m", "dedup_middleware.base.aot", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "DEDUP_COMPILE": "1", "CC": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    expected = "the kernels can't be compiled: a C and a C++ compiler are needed"
    assert done.stderr.startswith(expected)
    assert list(tmp_path.iterdir()) == []


def test_machine_without_a_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built for a machine whose least processor is not known."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(RuntimeError, match="no kernels are compiled for riscv64; only for AMD64"):
        aot.build(tmp_path)


def test_every_kernel_is_exported() -> None:
    """Each function that is decorated as a kernel is found, without the packages that are optional
    and so missing in the environment of a build."""
    optional = ("pyspark", "pandas", "pyarrow", "warcio", "opencc", "prometheus_client")
    script = f"import sys; sys.modules.update(dict.fromkeys({optional!r}))\n"
    script += "from dedup_middleware.base import aot; print(*aot.declared_kernels())"
    decorated = {
        f"{'.'.join(path.relative_to(ROOT / 'dedup_middleware').with_suffix('').parts)}.{name}"
        for path in (ROOT / "dedup_middleware").rglob("*.py")
        for name in re.findall(
            r"^@kernel\((?s:.*?)\)(?:  # .*)?\ndef (\w+)", path.read_text("utf-8"), re.M
        )
    }
    found = run(ROOT, "-c", script, DEDUP_COMPILE="1").split()
    assert sorted(found) == sorted(name.replace(".", "__") for name in decorated)
