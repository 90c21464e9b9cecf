"""How far a job is, asked of Spark itself."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Self

STEPS = {
    "work/pages": "fingerprints",
    "work/ordered": "order of the pages",
    "work/groups": "exact copies",
    "work/single": "exact copies collapsed",
    "work/pairs": "candidates",
    "work/edges": "verdicts",
    "work/settled": "who is kept",
    "work/matches": "best matches",
    "work/index": "pages for the index",
    "duplicates": "duplicates",
    "kept": "kept pages",
    "clusters": "clusters",
    "rejects": "rejected rows",
}
_SECONDS = 0.5


class SparkProgress:
    """A bar for the step that runs, with its tasks; use it in a ``with`` block.

    :param quiet: show nothing
    """

    def __init__(self, session: SparkSession, console: Console, *, quiet: bool = False) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._tracker = session.sparkContext.statusTracker()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._quiet = quiet
        self._current = self._bars.add_task("reading", total=None)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.steps: list[str] = []

    def __enter__(self) -> Self:
        if not self._quiet:
            self._bars.start()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._quiet:
            self._end.set()
            self._thread.join()
            self._bars.stop()

    def note(self, step: str) -> None:
        """A step begins."""
        self.steps.append(step)
        self._bars.stop_task(self._current)
        self._current = self._bars.add_task(STEPS.get(step, step.removeprefix("work/")), total=None)

    def _watch(self) -> None:
        while not self._end.wait(_SECONDS):
            done, total = self.tasks()
            if total:
                self._bars.update(self._current, completed=done, total=total)

    def tasks(self) -> tuple[int, int]:
        """Tasks done and in all, of the stages that run at this moment."""
        done = total = 0
        for number in self._tracker.getActiveStageIds():
            stage = self._tracker.getStageInfo(number)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
        return done, total
