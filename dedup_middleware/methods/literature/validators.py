"""Checks of the parameters of methods: an error names the parameter, its value and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from dedup_middleware.base.errors import OptionsError

Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def between(low: float, high: float, unit: str = "") -> Check:
    """A number within bounds, both included."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Written so that NaN fails too.
        if not (number and low <= value <= high):
            fix = f"use a number from {low:g} to {high:g}{unit}"
            raise OptionsError(f"{instance.name}.{attribute.name}", value, fix)

    return check


def whole(low: int, high: int, unit: str = "") -> Check:
    """A whole number within bounds, both included."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        number = isinstance(value, int) and not isinstance(value, bool)
        if not (number and low <= value <= high):
            fix = f"use a whole number from {low} to {high}{unit}"
            raise OptionsError(f"{instance.name}.{attribute.name}", value, fix)

    return check


def one_of(*choices: str) -> Check:
    """One of some names."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in choices:
            fix = f"use one of {', '.join(choices)}"
            raise OptionsError(f"{instance.name}.{attribute.name}", value, fix)

    return check


share = between(0.0, 1.0)
hash_key = whole(0, (1 << 64) - 1)
