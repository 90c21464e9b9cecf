"""Compiles all kernels for a run of the tests: into numba's cache, then into extension modules.

    DEDUP_COMPILE=1 python -m tests.kernels

The processes that run tests use the first, those that tests start the second. One process makes
both, since most of a compilation is what numba's front end makes of the parts of kernels, and a
process makes that once. Kernels that only some settings use are compiled too, for the same reason:
each would be by the first test that needs it. Where no extension module can be made one line says
why, and numba compiles in every process.
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
    """Make the modules for better processors than the least one, if any can be made."""
    with contextlib.suppress(RuntimeError):  # `build_at_once` says why
        aot.build(folder, [variant for variant in compiled.VARIANTS if variant])
        return
    sys.exit(1)


def build_at_once(folder: Path) -> list[Path]:
    """`aot.build`, whose modules for better processors are made by a forked process meanwhile.

    That one ends with this one where this one is interrupted, and never waits for it.
    """
    other = get_context("fork").Process(target=build_better, args=(folder,), daemon=True)
    other.start()
    last = aot.build(folder, [""])
    other.join()
    if other.exitcode:
        raise RuntimeError("the kernels for better processors can't be compiled")
    return [*({*folder.glob("_kernels_*")} - {*last}), *last]


def main() -> int:
    """Compile what is not compiled yet; the exit code is that of the extension modules."""
    with jit.garbage_kept():
        asyncio.run(Deduplicator(Options()).warm())  # tables too
        jit.compile_all(*aot.declared_kernels().values())
        return aot.main(compiled.PACKAGE, build_at_once)


if __name__ == "__main__":
    sys.exit(main())
