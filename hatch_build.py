"""Compiles the kernels into a wheel, so that an installation needs no compiler when it starts.

For an editable installation they are put into the package's folder. ``DEDUP_SHIP_KERNELS=1``
demands it and ends with an error where it is not possible, for a release; ``0`` makes a wheel of
Python alone, which fits every machine. Without it kernels that an editable installation of the same
sources has are taken, else they are compiled if that works here; one line says why not. Where Linux
has no C compiler, as in slim images, that of the package ``ziglang`` is used, for the build alone,
if the package index has it.
"""

from __future__ import annotations

import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def platform_tag() -> str:
    """The wheel's platform, such as ``manylinux_2_28_x86_64``: glibc as old as this machine's is
    enough. Wheels of a release are built where it is old, and auditwheel names their platform.

    >>> platform_tag().endswith(platform.machine().lower())
    True
    """
    library, version = platform.libc_ver()
    if sys.platform == "linux" and library == "glibc":
        return f"manylinux_{version.replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def lacks_compiler() -> bool:
    """Whether a C or C++ compiler is missing where ``ziglang`` has one that the kernels can use.

    Without Python's header files no compiler is of use, and none is downloaded.
    """
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    is_known = sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"}
    if not (is_known and has_headers):
        return False
    named = (os.environ.get(name) or sysconfig.get_config_var(name) or "" for name in ("CC", "CXX"))
    return not all(shutil.which(one.partition(" ")[0]) for one in named)


def index_options(command: list[str]) -> list[str]:
    """What a command line of pip says of package indexes, which the builds it starts are not told.

    >>> index_options(["pip", "install", "--quiet", "-i", "https://a.example/", "--no-index", "."])
    ['-i', 'https://a.example/', '--no-index']
    """
    options = []
    for one, following in itertools.pairwise([*command, ""]):
        name, _, value = one.partition("=")
        if name in {"-i", "--index-url", "--extra-index-url", "-f", "--find-links"}:
            options += [one] if value else [one, following]
        elif one == "--no-index":
            options.append(one)
    return options


def lacks_package(name: str, builder: Path) -> bool:
    """Whether pip finds no such package where it is what builds; not known of other programs.

    :param builder: the folder in ``/proc`` of the process that builds
    """
    try:
        command = (builder / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:
        return False
    asked = subprocess.run(
        # A build does not see pip, which is installed outside of its environment: hence -I.
        [sys.executable, "-I", "-m", "pip", "index", "versions", name, *index_options(command)],
        check=False,
        cwd=builder / "cwd",
        capture_output=True,
        text=True,
    )
    return "No matching distribution" in asked.stderr


def zig_compiler(cache: str) -> dict[str, str]:
    """Environment in which setuptools compiles with ``ziglang``.

    By itself it compiles for the processor of this machine, and an image may be moved to another.

    :param cache: a folder for what Zig builds of its libraries, else the user's cache
    """
    zig = f"{shlex.quote(sys.executable)} -m ziglang"
    flags = "-mcpu=baseline -fno-sanitize=undefined"
    return {
        "CC": f"{zig} cc {flags}",
        "CXX": f"{zig} c++ {flags}",
        "LDSHARED": f"{zig} cc {flags} -shared",
        "LDCXXSHARED": f"{zig} c++ {flags} -shared",
        "AR": f"{zig} ar",
        "ZIG_GLOBAL_CACHE_DIR": cache,
        "ZIG_LOCAL_CACHE_DIR": cache,
    }


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the kernels before the wheel is made."""

    PLUGIN_NAME = "custom"

    def _wanted(self) -> str:
        return os.environ.get("DEDUP_SHIP_KERNELS", "") if self.target_name == "wheel" else "0"

    def dependencies(self) -> list[str]:
        """What the build needs: all that the package needs to run, setuptools for pycc, and a C
        compiler where there is none."""
        if self._wanted() == "0":
            return []
        compiler = ["setuptools"]
        if lacks_compiler():
            if lacks_package("ziglang", Path(f"/proc/{os.getppid()}")):
                self.app.display_warning("No C compiler is found, nor the package ziglang with one")
            else:
                compiler = ["setuptools>=75", "ziglang>=0.13"]  # 75: another command for C++
        return [*self.metadata.core.dependencies, *compiler]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, add them to the wheel, and name its platform."""
        if self._wanted() == "0":
            return
        if version == "editable":
            self._compile(Path(self.root, "dedup_middleware"))
            return
        self._folder = tempfile.TemporaryDirectory()
        if not self._wanted():
            own = sysconfig.get_config_var("EXT_SUFFIX")
            for module in Path(self.root, "dedup_middleware").glob(f"_kernels_*{own}"):
                shutil.copy(module, self._folder.name)  # those of other sources are removed below
        if not self._compile(Path(self._folder.name)):
            self._folder.cleanup()
            return
        for file in Path(self._folder.name).iterdir():
            build_data["force_include"][str(file)] = f"dedup_middleware/{file.name}"
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platform_tag()}"

    def _compile(self, folder: Path) -> bool:
        """Compile the kernels into a folder; whether that was possible."""
        with tempfile.TemporaryDirectory() as cache:
            zig = zig_compiler(cache) if lacks_compiler() and find_spec("ziglang") else {}
            done = subprocess.run(
                [sys.executable, "-m", "dedup_middleware.base.aot", str(folder)],
                check=False,
                cwd=self.root,
                env={**os.environ, **zig, "DEDUP_COMPILE": "1"},
                capture_output=True,
                text=True,
            )
        if done.returncode == 0:
            return True
        if self._wanted():
            self.finalize()
            raise RuntimeError(done.stderr)
        why = (done.stderr.strip().splitlines() or ["no reason is known"])[-1]
        self.app.display_warning(f"The kernels are compiled on first use, not now: {why}")
        return False

    def finalize(self, *_: Any) -> None:
        """Remove what was compiled; the wheel has it."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
