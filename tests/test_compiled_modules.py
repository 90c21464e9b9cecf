"""Which module of compiled kernels a processor gets."""

from __future__ import annotations

import functools
import platform
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from dedup_middleware.base import aot, compiled

FLAGS = "fpu sse4_2 avx avx2 bmi1 bmi2 f16c fma abm movbe"
WIDE = "avx512f avx512bw avx512cd avx512dq avx512vl avx512_vpopcntdq"


def cpuinfo(folder: Path, flags: str) -> Path:
    """Write a file like /proc/cpuinfo with these flags, and return its path."""
    file = folder / "cpuinfo"
    file.write_text(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
    return file


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux on a processor of x86-64, whose registers of 512 bits are kept."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(compiled, "zmm_enabled", lambda: True)


@pytest.mark.usefixtures("linux")
@pytest.mark.parametrize("missing", FLAGS.split()[3:])
def test_processor_that_lacks_something(missing: str, tmp_path: Path) -> None:
    """Code for AVX2 would end the process on a processor without it."""
    assert compiled.variants(cpuinfo(tmp_path, FLAGS)) == ("",)
    for flags in (FLAGS, f"{FLAGS} {WIDE}"):
        less = " ".join(flag for flag in flags.split() if flag != missing)
        assert compiled.variants(cpuinfo(tmp_path, less)) == ()


@pytest.mark.usefixtures("linux")
@pytest.mark.parametrize(
    ("flags", "variants"),
    [
        ("", [""]),
        ("avx512f avx512cd avx512_vpopcntdq", [""]),  # Knights Mill
        (" ".join(WIDE.split()[:-1]), ["_v4", ""]),  # Skylake
        (WIDE, ["_v4_popcnt", "_v4", ""]),  # Ice Lake, Zen 4
        (WIDE.replace("avx512bw ", ""), [""]),
        (WIDE.replace("avx512cd ", ""), [""]),
        (WIDE.replace("avx512dq ", ""), [""]),
        (WIDE.replace("avx512vl ", ""), [""]),
        (WIDE.replace("avx512f ", ""), [""]),
    ],
)
def test_modules_by_features(flags: str, variants: list[str], tmp_path: Path) -> None:
    """A module is chosen only where the processor has all that it uses, the best one first."""
    assert list(compiled.variants(cpuinfo(tmp_path, f"{FLAGS} {flags}"))) == variants


@pytest.mark.usefixtures("linux")
def test_wide_registers_that_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with AVX-512 whose operating system keeps registers of 256 bits alone."""
    monkeypatch.setattr(compiled, "zmm_enabled", lambda: False)
    assert compiled.variants(cpuinfo(tmp_path, f"{FLAGS} {WIDE}")) == ("",)


@pytest.mark.usefixtures("linux")
def test_processors_that_differ(tmp_path: Path) -> None:
    """Only what all processors of a machine have is used."""
    file = cpuinfo(tmp_path, f"{FLAGS} {WIDE}")
    file.write_text(file.read_text() + f"flags\t\t: {FLAGS}\n")
    assert compiled.variants(file) == ("",)


@pytest.mark.parametrize(
    ("features", "enabled"), [({"AVX512F": True}, True), ({"AVX512F": False}, False), ({}, False)]
)
def test_what_numpy_asked_the_processor(
    features: dict[str, bool], enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registers of 512 bits count as kept only where NumPy says so."""
    asked = SimpleNamespace(_multiarray_umath=SimpleNamespace(__cpu_features__=features))
    monkeypatch.setattr(compiled, "np", SimpleNamespace(_core=asked))
    assert compiled.zmm_enabled() is enabled
    monkeypatch.setattr(compiled, "np", SimpleNamespace())
    assert not compiled.zmm_enabled()


def test_this_processor_is_known() -> None:
    """The query to NumPy works: it finds AVX-512 where Linux does."""
    listed = set(Path("/proc/cpuinfo").read_text("ascii", "replace").split())
    assert compiled.zmm_enabled() is ("avx512f" in listed)


def test_kernels_for_better_processors_exist() -> None:
    """What is compiled for them is named as a kernel is."""
    assert aot.WIDE >= aot.COUNTING
    assert aot.declared_kernels().keys() >= aot.WIDE
    assert {*aot._BETTER, ""} == compiled.VARIANTS.keys()


@pytest.mark.usefixtures("modules")
def test_best_code_of_each_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel comes from the best module that has it."""
    names = ["dedup_middleware.a_v4_popcnt", "dedup_middleware.a_v4", "dedup_middleware.a"]
    assert [one.__name__ for one in compiled._modules()] == names
    assert compiled.kernels() is compiled._modules()[-1]
    found = [compiled.code(name) for name in ("near", "wide", "all")]
    assert found == ["near of _v4_popcnt", "wide of _v4", "all of "]


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("missing", "found"),
    [
        ("a_v4_popcnt", ["near of _v4", "wide of _v4", "all of "]),
        ("a_v4", ["near of _v4_popcnt", "wide of ", "all of "]),
    ],
)
def test_module_for_better_processors_is_missing(
    missing: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are used without it."""
    monkeypatch.setitem(sys.modules, f"dedup_middleware.{missing}", None)
    assert [compiled.code(name) for name in ("near", "wide", "all")] == found


@pytest.mark.usefixtures("modules")
def test_module_with_all_kernels_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it none is used."""
    monkeypatch.setitem(sys.modules, "dedup_middleware.a", None)
    assert compiled.kernels() is None


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("value", "is_used", "warnings"),
    [
        ("", 1, 0),
        ("0", 1, 0),
        ("false", 1, 0),
        ("Off", 1, 0),
        ("1", 0, 0),
        ("yes", 0, 0),
        ("perhaps", 1, 1),
    ],
)
def test_compiling_by_numba_can_be_asked_for(
    value: str,
    is_used: int,
    warnings: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`DEDUP_COMPILE` is read as settings are; what is neither true nor false is named once."""
    monkeypatch.setenv("DEDUP_COMPILE", value)
    assert [compiled.kernels() is not None for _ in range(3)] == [bool(is_used)] * 3
    assert caplog.text.count("DEDUP_COMPILE='perhaps' is ignored") == warnings


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three modules, and a processor that can run them all; this process forgets them again."""
    monkeypatch.setattr(compiled, "_modules", functools.cache(compiled._modules.__wrapped__))
    (tmp_path / "_kernels_a.so").touch()
    monkeypatch.delenv("DEDUP_COMPILE", raising=False)
    monkeypatch.setattr(compiled, "PACKAGE", tmp_path)
    monkeypatch.setattr(compiled, "module_name", lambda: "a")
    monkeypatch.setattr(compiled, "variants", lambda: tuple(compiled.VARIANTS))
    for variant, kernels in {
        "": ("near", "wide", "all"),
        "_v4": ("near", "wide"),
        "_v4_popcnt": ("near",),
    }.items():
        module = ModuleType(f"dedup_middleware.a{variant}")
        vars(module).update({name: f"{name} of {variant}" for name in kernels})
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_unknown_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing says what the processor has, x86-64 code is not used; others need nothing."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert compiled.variants(tmp_path / "none") == ()
    monkeypatch.setattr(sys, "platform", "win32")
    assert compiled.variants(cpuinfo(tmp_path, FLAGS)) == ()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert compiled.variants(tmp_path / "none") == ("",)
