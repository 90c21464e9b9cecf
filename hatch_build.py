"""Puts compiled kernels into a wheel, if ``DEDUP_SHIP_KERNELS`` is set.

Without it the wheel holds Python alone, fits every machine, and compiles on first use.
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

# What numba's own wheels ask for, which a crawl needs anyway.
_LINUX = "manylinux_2_28"


def platform_tag() -> str:
    """The wheel's platform, such as ``manylinux_2_28_x86_64``.

    >>> platform_tag().endswith(platform.machine().lower())
    True
    """
    if sys.platform == "linux":
        return f"{_LINUX}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the kernels before the wheel is made."""

    PLUGIN_NAME = "custom"

    def _is_wanted(self) -> bool:
        return self.target_name == "wheel" and bool(os.environ.get("DEDUP_SHIP_KERNELS"))

    def dependencies(self) -> list[str]:
        """What the build needs: all that the package needs to run."""
        return self.metadata.core.dependencies if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, add them to the wheel, and name its platform."""
        if version == "editable" or not self._is_wanted():
            return
        self._folder = tempfile.TemporaryDirectory()
        out = Path(self._folder.name)
        subprocess.run(
            [sys.executable, "-m", "dedup_middleware.base.shipped", str(out)],
            check=True,
            cwd=self.root,
        )
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["force_include"][str(out)] = "dedup_middleware/_kernels"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platform_tag()}"

    def finalize(self, *_: Any) -> None:
        """Remove what was compiled; the wheel has it."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
