"""What a setting is: its value, its kind, its check, and the message when it does not pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from dedup_middleware.errors import OptionsError

PREFIX = "DEDUP_"
SCHEMES = (
    "memory:",
    "sqlite:",
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "unix://",
)

_T = TypeVar("_T")


def setting_name(field: str) -> str:
    """Name of the setting that fills a field.

    >>> setting_name("index_url")
    'DEDUP_INDEX_URL'
    """
    return PREFIX + field.upper()


def fail(attribute: attrs.Attribute[Any], value: object, fix: str) -> OptionsError:
    """The error for a value that does not pass."""
    return OptionsError(setting_name(attribute.name), value, fix)


def one_of(*choices: str) -> Callable[[Any, attrs.Attribute[str], str], None]:
    """A check: one of some words."""

    def check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
        if value not in choices:
            raise fail(attribute, value, f"use one of {', '.join(choices)}")

    return check


def between(
    low: float, high: float, unit: str = ""
) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """A check: a number within two bounds, both allowed."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        # `not (...)` also refuses NaN, which compares false with everything.
        if not low <= value <= high:
            raise fail(attribute, value, f"use a number from {low:g} to {high:g}{unit}")

    return check


def unless_none(
    check: Callable[[Any, attrs.Attribute[Any], Any], None],
) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """A check that lets None pass."""

    def checked(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return checked


def not_blank(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check: a name."""
    if not value.strip():
        raise fail(attribute, value, "use a name of at least one character")


def window_check(_: Any, attribute: attrs.Attribute[float], value: float) -> None:
    """Check: seconds that a page is remembered."""
    # Shorter than a minute, pages would expire while copies of them are still on their way.
    if value != 0 and not 60 <= value <= 1e10:
        raise fail(attribute, value, "use 0 for ever, or seconds from 60; 30 days are 2592000")


def hexadecimal(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check: 64 bits in hexadecimal, or empty."""
    if value and not re.fullmatch("[0-9a-fA-F]{1,16}", value):
        # The value is a secret: it is not shown.
        raise fail(attribute, "...", "use 1 to 16 hexadecimal digits")


def namespace_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check: a prefix of keys in Redis."""
    # Braces would move the keys of one namespace into several cluster slots.
    if not value or any(c in "{}\r\n " for c in value) or len(value) > 64:
        raise fail(attribute, value, "use 1 to 64 characters without spaces or braces")


def index_url_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check: the address of an index."""
    if not value.startswith(SCHEMES):
        raise fail(attribute, hide_password(value), f"begin it with one of {', '.join(SCHEMES)}")
    if value == "sqlite:":
        raise fail(attribute, value, "name the file, for example sqlite:dedup.db")


def hide_password(url: str) -> str:
    """The address without the secret in it, fit for a log line.

    >>> hide_password("redis://user:secret@host:6379/0")
    'redis://user:***@host:6379/0'
    >>> hide_password("unix:///run/redis.sock?db=1&password=secret")
    'unix:///run/redis.sock?db=1&password=***'
    """
    url = re.sub(r"(?i)([?&](?:sentinel_)?password=)[^&#]*", r"\1***", url)
    scheme, separator, rest = url.partition("://")
    if not separator or "@" not in rest:
        return url
    credentials, _, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}://{user}{':***' if colon else ''}@{host}"


def to_bool(value: Any) -> bool:
    """A truth value as people write it in settings.

    :raises ValueError: it is none
    """
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in {"1", "true", "yes", "on"}:
            return True
        if lowered in {"0", "false", "no", "off", "none", ""}:
            return False
        raise ValueError(value)
    return bool(value)


def to_int(value: Any) -> int:
    """A whole number, also from a string.

    :raises ValueError: it is none
    """
    if isinstance(value, bool):
        raise ValueError(value)
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(value)
    return number


def option(
    default: _T,
    kind: str,
    help_text: str,
    *validators: Callable[[Any, attrs.Attribute[Any], Any], None],
) -> _T:
    """A field with what the settings reference says of it."""
    field: _T = attrs.field(
        default=default,
        validator=list(validators),
        metadata={"kind": kind, "help": help_text},
    )
    return field
