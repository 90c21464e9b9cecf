"""All points, in the order in which they are looked at."""

from __future__ import annotations

from tests.trial import addresses, exits, following, installing, remembering, saying, starting
from tests.trial import settings as wrong_settings
from tests.trial.points import Point

_MODULES = (installing, starting, following, saying, wrong_settings, addresses, exits, remembering)
AREAS = [module.AREA for module in _MODULES]


def every_point() -> list[Point]:
    """Those that install more come last."""
    points = [point for module in _MODULES for point in module.POINTS]
    return [*points, *starting.LAST]
