"""Compiled kernels that a wheel carries, so that a first start compiles nothing.

``python -m dedup_middleware.base.shipped FOLDER`` compiles the kernels for a baseline processor
and writes them to a folder, which a wheel for one platform has as ``dedup_middleware/_kernels``
(see ``hatch_build.py``). They are used where all of these are as they were at the build: Python,
numba, llvmlite, the system, the sources of the kernels; and where the processor has what the
baseline has. Anywhere else kernels are compiled as ever.

They are pickles, as in numba's own cache. Whoever can change them can change the package's Python
files in the same folder, so they are trusted as those are.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import attrs
import llvmlite
import numba
from llvmlite import binding

logger = logging.getLogger(__name__)

FOLDER: Final = Path(__file__).parents[1] / "_kernels"
_ABOUT: Final = "about.json"
# Level 3 of the psABI's x86-64: Intel since 2013 (Haswell), AMD since 2015 (Excavator). On one with
# AVX-512 these kernels are as fast as those compiled for it (docs/decisions.md).
_X86_64_V3: Final = (
    "avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf",
    "sse4.2", "xsave",
)  # fmt: skip


@attrs.frozen
class Baseline:
    """The least processor that shipped kernels run on.

    :param cpu: LLVM's name of it
    :param features: what a processor must have, as LLVM names it
    """

    cpu: str
    features: tuple[str, ...] = ()

    def runs_here(self) -> bool:
        """Whether this machine's processor has all that the baseline has."""
        found = binding.get_host_cpu_features()
        return all(found.get(feature, False) for feature in self.features)


BASELINES: Final = {
    "x86_64": Baseline("x86-64-v3", _X86_64_V3),
    "AMD64": Baseline("x86-64-v3", _X86_64_V3),
    "aarch64": Baseline("generic"),
    "arm64": Baseline("apple-m1"),
}


@attrs.frozen
class About:
    """What shipped kernels were compiled by and for."""

    python: str
    numba: str
    llvmlite: str
    triple: str
    cpu: str

    @classmethod
    def of_this_process(cls) -> About | None:
        """The same for this process; None: there is no baseline for its machine."""
        baseline = BASELINES.get(platform.machine())
        if baseline is None:
            return None
        return cls(
            python=str(sys.implementation.cache_tag),
            numba=numba.__version__,
            llvmlite=llvmlite.__version__,
            triple=binding.get_process_triple(),
            cpu=baseline.cpu,
        )

    @property
    def target(self) -> tuple[str, str, str]:
        """The target as numba's cache has it: triple, processor, further features."""
        return self.triple, self.cpu, ""


@functools.cache
def usable(folder: Path = FOLDER) -> About | None:
    """What the shipped kernels were compiled for, or None if there are none for this process.

    :param folder: where they are
    """
    try:
        found = About(**json.loads((folder / _ABOUT).read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        logger.warning("The compiled functions in %s are not used: %s", folder, error)
        return None
    wanted = About.of_this_process()
    if found != wanted:
        logger.debug("%s was compiled for %s, this is %s", folder, found, wanted)
        return None
    return found if BASELINES[platform.machine()].runs_here() else None


# Some kernels declare no types; those are compiled for what a decision calls them with.
_COMPILE: Final = """
import asyncio, importlib, pkgutil
from dedup_middleware import Deduplicator, Options
from dedup_middleware.base import jit, kernels
found = {}
for name in ("signature", "text", "index", "methods"):
    package = importlib.import_module(f"dedup_middleware.{name}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for one in vars(importlib.import_module(module.name)).values():
            if hasattr(one, "declared"):
                found[id(one)] = one
with kernels.garbage_kept():
    jit.compile_all(*found.values())
asyncio.run(Deduplicator(Options()).warm())
"""


def build(folder: Path) -> About:
    """Compile the kernels for this machine's baseline into a folder.

    :param folder: what is there of the same names is replaced
    :returns: what they were compiled by and for
    :raises RuntimeError: there is no baseline for this machine, or a kernel can't be compiled
    """
    about = About.of_this_process()
    if about is None:
        known = ", ".join(sorted(BASELINES))
        raise RuntimeError(f"no kernels are shipped for {platform.machine()}; only for {known}")
    with tempfile.TemporaryDirectory() as temporary:
        environment = {
            **os.environ,
            "DEDUP_CACHE_DIR": temporary,
            "NUMBA_CPU_NAME": about.cpu,
            "NUMBA_CPU_FEATURES": "",
            "PYTHONPATH": str(FOLDER.parents[1]),
        }
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run([sys.executable, "-c", _COMPILE], env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"compiling the kernels ended with {done.returncode}")
        # Above a package's folder is the one that is named by the sources, then by the compilers.
        for path in sorted(Path(temporary).glob("kernels-*/*/*.nb[ic]")):
            sources = path.parents[1].name.split("-")[1]
            copy = folder / sources / path.parent.name / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    (folder / _ABOUT).write_text(json.dumps(attrs.asdict(about), indent=1) + "\n", "utf-8")
    return about


if __name__ == "__main__":
    build(Path(sys.argv[1]))
