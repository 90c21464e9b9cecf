"""Compiles all kernels for a run of the tests: into numba's cache, then into extension modules.

    DEDUP_COMPILE=1 python -m tests.kernels

The processes that run tests use the cache, those that tests start the extension modules. One
process makes both: most of the time goes into numba's front end, whose results a process keeps.
Kernels that only some settings use are compiled as well, as a test that needs one would otherwise
wait for it. If no extension module can be made, one line says why, and numba compiles the kernels
in every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from multiprocessing import get_context
from pathlib import Path

from dedup_middleware import Deduplicator, Options
from dedup_middleware.base import aot, compiled, jit


def build_better(folder: Path) -> None:
    """Make the modules for processors better than the baseline; exit with 1 if that fails."""
    with contextlib.suppress(RuntimeError):  # `build_at_once` raises its own error
        aot.build(folder, [variant for variant in compiled.VARIANTS if variant])
        return
    sys.exit(1)


def build_at_once(folder: Path) -> list[Path]:
    """Do the same as `aot.build`; a forked process makes the modules for better processors.

    The forked process is ended if this one is interrupted.
    """
    other = get_context("fork").Process(target=build_better, args=(folder,), daemon=True)
    other.start()
    last = aot.build(folder, [""])
    other.join()
    if other.exitcode:
        raise RuntimeError("the kernels for better processors can't be compiled")
    return [*({*folder.glob("_kernels_*")} - {*last}), *last]


def main() -> int:
    """Compile what is not compiled yet; return 1 if the extension modules could not be made."""
    with jit.garbage_kept():
        asyncio.run(Deduplicator(Options()).warm())  # builds the tables in the cache, too
        jit.compile_all(*aot.declared_kernels().values())
        return aot.main(compiled.PACKAGE, build_at_once)


if __name__ == "__main__":
    sys.exit(main())
