"""All points, in the order in which they are looked at."""

from __future__ import annotations

from tests.trial import addresses, exits, following, installing, remembering, saying, starting
from tests.trial import settings as wrong_settings
from tests.trial.points import Point

# The quick ones first.
_MODULES = (installing, following, saying, exits, wrong_settings, addresses, remembering, starting)
AREAS = [module.AREA for module in _MODULES]


def every_point() -> list[Point]:
    """Those that install more come last."""
    points = [point for module in _MODULES for point in module.POINTS]
    return [*points, *starting.LAST]
