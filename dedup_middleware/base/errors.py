"""Exceptions that users see; every message names the setting and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class DedupError(Exception):
    """Base class of all errors that this package raises on purpose."""


class OptionsError(DedupError, ValueError):
    """A setting has a value that can't be used.

    :param setting: its name as the user wrote it, e.g. ``DEDUP_THRESHOLD``
    :param fix: advice on what to write instead
    """

    def __init__(self, setting: str, value: object, fix: str) -> None:
        super().__init__(f"{setting}={value!r} can't be used: {fix}")
        self.setting = setting
        self.value = value
        self.fix = fix

    def __reduce__(self) -> tuple[Any, ...]:  # pickled by the workers of a batch
        return type(self), (self.setting, self.value, self.fix), {"args": self.args}


class IndexUnavailableError(DedupError):
    """The index can't be reached or can't answer now; trying again later may work."""


class IndexReplacedError(IndexUnavailableError):
    """The index was replaced by another one after it was opened.

    The new index can be opened and used, but not with fingerprints made with the old hash key.
    """


class IndexRefusedError(DedupError):
    """The index has other parameters or another schema, or the file is no index."""


class IndexMissingError(IndexRefusedError):
    """There is no index yet."""


@contextmanager
def os_errors(what: str, kind: type[DedupError] = DedupError, fix: str = "") -> Iterator[None]:
    """Turn an OSError raised inside into a ``kind`` whose one line says what failed, and why.

    :param fix: what to do, for the end of the line
    """
    try:
        yield
    except BrokenPipeError:  # as by `| head`, which closes the pipe
        raise
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}{fix}") from error


@contextmanager
def extra_needed(
    what: str, extra: str, kind: type[DedupError] = DedupError, fix: str = ""
) -> Iterator[None]:
    """Turn an ImportError raised inside into a ``kind`` that says which extra to install.

    :param fix: what else to do, for the end of the line
    """
    try:
        yield
    except ImportError:
        raise kind(f"{what}: pip install 'dedup-middleware[{extra}]'{fix}") from None


@contextmanager
def named_as_given(names: Mapping[str, str]) -> Iterator[None]:
    """In messages of errors raised inside, replace names of settings by those that the user wrote.

    :param names: replacement for each name of a setting or parameter
    """
    try:
        yield
    except DedupError as error:
        text = str(error)
        for name, given in names.items():
            text = re.sub(rf"(?<![^\s(]){name}(?![A-Z_])", given, text)
        error.args = (text,)
        raise
