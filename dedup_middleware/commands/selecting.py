"""Which pages a command is about: by key, host, time or reason."""

from __future__ import annotations

import argparse
import datetime
import re

from dedup_middleware.journal.entries import Query

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def add_selection(parser: argparse.ArgumentParser, *, reasons: bool) -> None:
    """Arguments that choose pages.

    :param reasons: with ``--reason``, which only a journal knows
    """
    group = parser.add_argument_group("which pages (all that are given must fit)")
    group.add_argument("--key", action="append", default=[], help="a page; repeat for more")
    group.add_argument("--host", action="append", default=[], help="all of a host; repeat")
    group.add_argument(
        "--since",
        type=parse_time,
        metavar="TIME",
        help="from this time on: 2026-05-31T08:00, or 2h",
    )
    group.add_argument("--until", type=parse_time, metavar="TIME", help="before this time")
    if reasons:
        group.add_argument("--reason", action="append", default=[], help="dropped for it; repeat")


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO date or time, or of so long ago: ``90s``, ``2h``, ``7d``.

    A time without a zone is one of this machine's.

    :raises argparse.ArgumentTypeError: it is neither
    """
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    now = datetime.datetime.now().astimezone()
    if ago is not None:
        return now.timestamp() - float(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write 2026-05-31, 2026-05-31T08:00, 90m, 2h or 7d"
        ) from None


def to_query(arguments: argparse.Namespace) -> Query:
    """The chosen pages as a query of the journal."""
    return Query(
        keys=frozenset(arguments.key),
        hosts=frozenset(host.lower() for host in arguments.host),
        reasons=frozenset(getattr(arguments, "reason", [])),
        since=arguments.since,
        until=arguments.until,
    )


def is_everything(arguments: argparse.Namespace) -> bool:
    """Whether nothing limits the choice."""
    return to_query(arguments) == Query()
