"""Memory of a crawl: what the plugin adds."""

from __future__ import annotations

from tests.trial.installing import contains
from tests.trial.points import Point, Seen
from tests.trial.projects import COPIES, stat
from tests.trial.trial import Trial

AREA = "memory"
BAR = (311 - 128) / 2  # megabytes: half of what the plugin added before


def added(*variables: tuple[str, str]) -> Point:
    """The peak of a warm crawl of the ten pages, with the plugin and without it."""

    def look(trial: Trial) -> Seen:
        project = trial.project
        given = dict(variables)
        cache = "numba" if given else "cache"
        project.crawl("memory:", cache=cache, **given)
        done = project.crawl("memory:", cache=cache, **given)
        without = project.crawl("memory:", settings={"ADDONS": "{}"}, cache=cache)
        more = done.peak - without.peak
        printed = f"{done.peak:.0f} MB, {without.peak:.0f} without: {more:.0f}; bar {BAR:.0f}"
        is_met = more <= BAR and done.code == without.code == 0 and "dedup/" not in without.text
        is_met = is_met and stat(done, "dedup/dropped") == COPIES
        return Seen(done.command, printed, met=is_met)

    where = " where numba compiles" if variables else ""
    return Point(AREA, f"half of what the plugin adds{where}", "311 MB against 128", look)


POINTS = (
    added(),
    added(("DEDUP_COMPILE", "1")),
    contains(
        AREA,
        "where the memory goes is said",
        "",
        {"docs/decisions.md": ("### Where the memory of a warm process goes",)},
    ),
)
