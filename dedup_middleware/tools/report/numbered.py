"""Strings by number, so that a column of them is a column of small numbers."""

from __future__ import annotations


class Names:
    """Strings by number, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of a string."""
        return self._numbers.setdefault(name, len(self._numbers))

    def all(self) -> list[str]:
        """The strings by their numbers."""
        return list(self._numbers)
