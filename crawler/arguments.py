"""Checks the arguments of the spider before anything is fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from crawler.discovery import split

# A URL may contain a comma; only a comma before another scheme separates two URLs.
_SEPARATOR = re.compile(r"[,\s]+(?=https?://)|\s+", re.IGNORECASE)
# Reason for closing a crawl before its start.
BAD_ARGUMENT = "bad_argument"


class ArgumentError(ValueError):
    """A spider argument can't be used; the message names it, its value and the fix."""

    def __init__(self, name: str, value: object, fix: str) -> None:
        super().__init__(f"-a {name}={value} can't be used: {fix}")


@attrs.frozen
class Arguments:
    """Checked arguments. An empty ``start`` means the sample site; ``None`` means no limit."""

    start: tuple[str, ...] = ()
    pages: int | None = None
    depth: int | None = None


def parse_arguments(given: Mapping[str, str]) -> Arguments:
    """Parse the arguments after ``-a`` on the command line.

    :raises ArgumentError: an unknown name or an unusable value

    >>> parse_arguments({"start": "https://one.example/, https://two.example/", "pages": "50"})
    Arguments(start=('https://one.example/', 'https://two.example/'), pages=50, depth=None)
    """
    known = [field.name for field in attrs.fields(Arguments)]
    for name, value in given.items():
        if name not in known and not name.startswith("_"):  # _job is the id of a job of scrapyd
            raise ArgumentError(name, value, f"no such argument; use {', '.join(known)}")
    return Arguments(
        start=_addresses(given["start"]) if "start" in given else (),
        pages=_number("pages", given["pages"], 1) if "pages" in given else None,
        depth=_number("depth", given["depth"], 0) if "depth" in given else None,
    )


def _addresses(value: str) -> tuple[str, ...]:
    addresses = tuple(part.strip(", ") for part in _SEPARATOR.split(value) if part.strip(", "))
    if not addresses:
        raise ArgumentError("start", value, "give at least one address, or leave it out")
    for address in addresses:
        if split(address) is None:
            fix = "give full addresses with a comma between them, such as https://one.example/"
            raise ArgumentError("start", address, fix)
    return tuple(dict.fromkeys(addresses))


def _number(name: str, value: str, least: int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentError(name, value, f"use a whole number from {least} up")
    return number
