"""Compiles the kernels into a wheel, so that an installation needs no compiler when it starts.

``DEDUP_SHIP_KERNELS=1`` demands it and ends with an error where it is not possible, for a release;
``0`` makes a wheel of Python alone, which fits every machine. Without it kernels are compiled if
that works here, else one line says why not.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def platform_tag() -> str:
    """The wheel's platform, such as ``manylinux_2_28_x86_64``.

    >>> platform_tag().endswith(platform.machine().lower())
    True
    """
    library, version = platform.libc_ver()
    if sys.platform == "linux" and library == "glibc":
        return f"manylinux_{version.replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the kernels before the wheel is made."""

    PLUGIN_NAME = "custom"

    def _wanted(self) -> str:
        return os.environ.get("DEDUP_SHIP_KERNELS", "") if self.target_name == "wheel" else "0"

    def dependencies(self) -> list[str]:
        """What the build needs: all that the package needs to run, and setuptools for pycc."""
        if self._wanted() == "0":
            return []
        return [*self.metadata.core.dependencies, "setuptools"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, add them to the wheel, and name its platform."""
        if version == "editable" or self._wanted() == "0":
            return
        self._folder = tempfile.TemporaryDirectory()
        done = subprocess.run(
            [sys.executable, "-m", "dedup_middleware.base.aot", self._folder.name],
            check=False,
            cwd=self.root,
            env={**os.environ, "DEDUP_COMPILE": "1"},
            capture_output=True,
            text=True,
        )
        built = list(Path(self._folder.name).iterdir())
        if done.returncode or not built:
            self._folder.cleanup()
            why = (done.stderr.strip().splitlines() or ["no reason is known"])[-1]
            if self._wanted():
                raise RuntimeError(f"the kernels can't be compiled: {done.stderr}")
            self.app.display_warning(f"The kernels are compiled on first use, not now: {why}")
            return
        for file in built:
            build_data["force_include"][str(file)] = f"dedup_middleware/{file.name}"
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platform_tag()}"

    def finalize(self, *_: Any) -> None:
        """Remove what was compiled; the wheel has it."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
