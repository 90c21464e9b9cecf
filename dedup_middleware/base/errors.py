"""Exceptions that users see; every message names the setting and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class DedupError(Exception):
    """Base of every error this package raises on purpose."""


class OptionsError(DedupError, ValueError):
    """A setting has a value that can't be used.

    :param setting: name as the user wrote it, e.g. ``DEDUP_THRESHOLD``
    :param value: the value found
    :param fix: what to write instead
    """

    def __init__(self, setting: str, value: object, fix: str) -> None:
        super().__init__(f"{setting}={value!r} can't be used: {fix}")
        self.setting = setting
        self.value = value
        self.fix = fix

    def __reduce__(self) -> tuple[Any, ...]:  # workers of a batch send it to their parent
        return type(self), (self.setting, self.value, self.fix), {"args": self.args}


class IndexUnavailableError(DedupError):
    """The index can't be reached or can't answer now; trying again later may work."""


class IndexReplacedError(IndexUnavailableError):
    """Another index was set up in the place of the one that was opened.

    Opened again it can be used; fingerprints made with the key of the former one can't.
    """


class IndexRefusedError(DedupError):
    """The index has other parameters or another schema, or the file is none of this package."""


@contextmanager
def os_errors(what: str, kind: type[DedupError] = DedupError, fix: str = "") -> Iterator[None]:
    """OSErrors from within as one line: what can't be done, and why.

    :param fix: what to do, for the end of the line
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}{fix}") from error


@contextmanager
def named_as_given(names: Mapping[str, str]) -> Iterator[None]:
    """Errors from within name what the user gave, where that stands for a setting or a parameter.

    :param names: by the name that the messages have
    """
    try:
        yield
    except DedupError as error:
        text = str(error)
        for name, given in names.items():
            text = re.sub(rf"(?<![^\s(]){name}(?![A-Z_])", given, text)
        error.args = (text,)
        raise
