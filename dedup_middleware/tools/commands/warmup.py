"""``scrapy dedup warmup``: compile the kernels before the first crawl."""

from __future__ import annotations

import argparse
import time

from dedup_middleware.tools.commands.context import OK, Context, Subcommand


class Command(Subcommand):
    """``scrapy dedup warmup``."""

    name = "warmup"
    summary = "Compile the kernels that these settings need, for images and CI"
    description = (
        "Fills the cache of compiled functions and dictionaries; the index is not needed.\n"
        "Exit codes: 0; 1: the settings can't be used."
    )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
        """Run the command; returns its exit code."""
        from dedup_middleware.base.cachefolder import cache_directory
        from dedup_middleware.core.deduplicator import Deduplicator

        started = time.perf_counter()
        await Deduplicator(context.options).warm()
        seconds = time.perf_counter() - started
        folder = cache_directory()
        context.say(
            {"cache": folder, "seconds": round(seconds, 2)},
            lambda: f"Ready after {seconds:.1f} s. Cache: {folder or 'none can be written'}",
        )
        return OK
