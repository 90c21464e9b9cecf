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
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from dedup_middleware import Deduplicator, Options
from dedup_middleware.base import aot, compiled, jit

build = aot.build


def build_better(folder: Path) -> list[Path]:
    """Make the modules for better processors than the least one."""
    return build(folder, [variant for variant in compiled.VARIANTS if variant])


def build_at_once(folder: Path) -> list[Path]:
    """`aot.build`, whose modules for better processors are made by a forked process meanwhile."""
    with ProcessPoolExecutor(1, get_context("fork")) as other:
        better = other.submit(build_better, folder)
        last = build(folder, [""])
        return [*better.result(), *last]


def main() -> int:
    """Compile what is not compiled yet; the exit code is that of the extension modules."""
    with jit.garbage_kept():
        asyncio.run(Deduplicator(Options()).warm())  # tables too
        jit.compile_all(*aot.declared_kernels().values())
        aot.build = build_at_once
        return aot.main(compiled.PACKAGE)


if __name__ == "__main__":
    sys.exit(main())
