"""Fields of the settings: converters, checks and their error messages, types of item classes."""

from __future__ import annotations

import difflib
import json
import math
import numbers
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any, Final, TypeVar

import attrs

from dedup_middleware.base.errors import OptionsError

PREFIX = "DEDUP_"
SCHEMES = (
    "memory:",
    "sqlite:",
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "redis+cluster://",
    "rediss+cluster://",
    "unix://",
)

#: most cluster slots that one index can be spread over
MOST_SHARDS = 4096

#: suffixes of cluster files, which choose the format
CLUSTER_SUFFIXES = (".jsonl", ".jl", ".csv", ".parquet")

_LONGEST_NAME: Final = 255  # bytes of a file's name

_T = TypeVar("_T")
Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def setting_name(field: str) -> str:
    """Name of the setting for a field.

    >>> setting_name("index_url")
    'DEDUP_INDEX_URL'
    """
    return PREFIX + field.upper()


def _refusal(
    attribute: attrs.Attribute[Any], value: object, fix: str, owner: object = None
) -> OptionsError:
    """Make the error for a value that fails a check; it names the setting as users write it.

    A field with its own ``repr`` may hold a secret: a value that is no string is shown as its type.

    :param owner: the object with the field; one with a ``name`` is a method, and the error names
        its parameter (``csu.width``)
    """
    method = getattr(owner, "name", None)
    name = f"{method}.{attribute.name}" if method else setting_name(attribute.name)
    is_shown = attribute.repr is True or attribute.repr is repr
    if not is_shown and not isinstance(value, str):
        value = type(value)
    return OptionsError(name, value, fix)


def one_of(*choices: str) -> Check:
    """Make a check for one of several words."""

    def check(instance: Any, attribute: attrs.Attribute[str], value: str) -> None:
        if value not in choices:
            raise _refusal(attribute, value, f"use one of {', '.join(choices)}", instance)

    return check


def between(low: float, high: float, unit: str = "") -> Check:
    """Make a check for a number from ``low`` to ``high``, both included."""
    return _in_range((int, float), low, high, f"use a number from {low:g} to {high:g}{unit}")


def whole(low: int, high: int, unit: str = "") -> Check:
    """Make a check for a whole number from ``low`` to ``high``, both included."""
    return _in_range((int,), low, high, f"use a whole number from {low} to {high}{unit}")


def _in_range(kinds: tuple[type, ...], low: float, high: float, fix: str) -> Check:
    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        # `not (...)` also refuses NaN, which compares false with everything.
        if not (is_number and low <= value <= high):
            raise _refusal(attribute, value, fix, instance)

    return check


def not_blank(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check that a name is not blank."""
    if not value.strip():
        raise _refusal(attribute, value, "use a name of at least one character")


def window_check(_: Any, attribute: attrs.Attribute[float], value: float) -> None:
    """Check the number of seconds for which a page is remembered."""
    # In less than a minute, pages would expire while copies of them are still on their way.
    if value != 0 and not 60 <= value <= 1e10:
        raise _refusal(attribute, value, "use 0 for ever, or seconds from 60; 30 days are 2592000")


def hexadecimal(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check that a text is a hexadecimal number of at most 64 bits."""
    if not re.fullmatch("[0-9a-fA-F]{1,16}", value):
        # The value is a secret and not shown.
        raise _refusal(attribute, "...", "use 1 to 16 hexadecimal digits")


def namespace_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check a prefix of keys in Redis."""
    # Braces would move the keys of one namespace into several cluster slots.
    if not value.isprintable() or not value or any(c in "{} " for c in value) or len(value) > 64:
        fix = "use 1 to 64 printable characters without spaces or braces"
        raise _refusal(attribute, value, fix)


def shards_check(_: Any, attribute: attrs.Attribute[int], value: int) -> None:
    """Check that a number is a power of two up to ``MOST_SHARDS``."""
    if not 1 <= value <= MOST_SHARDS or value & (value - 1):
        raise _refusal(attribute, value, f"use a power of two from 1 to {MOST_SHARDS}")


def index_url_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check the address of an index."""
    shown = hide_password(value)
    if any(ord(c) < 32 or ord(c) == 127 or "\ud800" <= c <= "\udfff" for c in value):
        raise _refusal(attribute, shown, "take out the characters that can't be printed")
    if not value.startswith(SCHEMES):
        raise _refusal(attribute, shown, f"begin it with one of {', '.join(SCHEMES)}")
    path = value.removeprefix("sqlite:")
    if path == value:
        return
    if not path.strip():
        raise _refusal(attribute, shown, "name the file, for example sqlite:dedup.db")
    if path.rpartition("/")[2].strip() in ("", ".", "..") and path.strip("/"):
        raise _refusal(attribute, shown, "name a file in the folder")
    if path.lstrip("/") == ":memory:":  # SQLite's own name; it would be a file
        raise _refusal(attribute, shown, "write memory: for an index that ends with its crawl")
    if re.match("(//)?~", path):  # shells do not expand it after the colon
        raise _refusal(attribute, shown, "write the path of the folder instead of ~")
    if re.match("//([^/]|$)", path):  # it would be a file in the root
        relative, absolute = (hide_password(f"sqlite:{path[cut:]}") for cut in (2, 1))
        fix = "a file has no host: leave out the slashes, or write one for a path from the root"
        if path != "//" and relative != absolute:  # equal if both are hidden
            fix = f"a file has no host: write {relative} or, from the root, {absolute}"
        raise _refusal(attribute, shown, fix)


def former_index_url_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check the address of an index that outlives its crawl."""
    if value.startswith("memory:"):
        raise _refusal(attribute, value, "an index in memory ends with its crawl; leave it out")
    index_url_check(_, attribute, value)


def path_problem(path: str) -> str:
    """What no file system accepts in a path, as the fix of a refusal; empty if there is nothing.

    >>> path_problem("pages.db"), path_problem("a\\0b")
    ('', 'take the NUL character out of the path')
    """
    if "\0" in path:
        return "take the NUL character out of the path"
    try:
        names = os.fsencode(path).split(b"/")
    except UnicodeEncodeError:
        return "take the characters out of the path that can't be encoded"
    if max(map(len, names)) > _LONGEST_NAME:
        return f"shorten the names in the path to {_LONGEST_NAME} bytes"
    return ""


def path_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check the path of a file."""
    if fix := path_problem(value):
        raise _refusal(attribute, value, fix)


def journal_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check `on`, `off` or the path of a journal."""
    # An address would become a file name, with its password.
    if re.search(r"://|:[^/]*@|^(?:memory|sqlite|rediss?|unix)[:+]", value):
        fix = "use on, off or the path of a file; with an index in Redis, on keeps it there"
        raise _refusal(attribute, "***", fix)
    path_check(_, attribute, value)


_USER: Final = r"(?:(?P<user>[\w.~%+-]*)(?P<password>:[^@/?#]*)?@)?"
_HOST: Final = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?"
_QUERY: Final = r"(?:\?(?P<query>[^@#]*))?"
# Addresses in which the place of the password is certain; in others it may be anywhere.
_ADDRESSES: Final = tuple(
    re.compile(rf"(?P<scheme>{scheme}){_USER}(?P<place>{place}){_QUERY}", re.ASCII)
    for scheme, place in (
        ("rediss?://", rf"(?:{_HOST})?(?:/\d*)?"),
        (r"rediss?\+cluster://", rf"{_HOST}(?:,{_HOST})*(?:/0?)?"),
        (r"rediss?\+sentinel://", rf"{_HOST}(?:,{_HOST})*(?:/[\w.-]+(?:/\d*)?)?"),
        ("unix://", r"/[\w./ +~-]*"),
    )
)
_FILE_OR_MEMORY: Final = re.compile(r"(?:memory|sqlite):(?!.*(?:://|@)).*", re.DOTALL)
_NO_CREDENTIALS: Final = re.compile(
    r"(?!redis|unix)[a-z][a-z+]*://[a-z][\w.-]*(?:/[\w.-]*)*", re.ASCII
)
# Those that an address may have, without the passwords: others may hold one, as ssl_password does.
_SHOWN_OPTION: Final = re.compile(
    r"(?:db|protocol|client_name|(?:sentinel_)?username"
    r"|ssl_(?:ca_certs|certfile|keyfile|cert_reqs|check_hostname))=.*"
)


def clusters_check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    """Check the path of a cluster file."""
    path_check(_, attribute, value)
    if not value.lower().endswith(CLUSTER_SUFFIXES):
        raise _refusal(attribute, value, f"name a file that ends in {', '.join(CLUSTER_SUFFIXES)}")


def hide_password(url: str) -> str:
    """Replace the secrets in an address, for log lines.

    Of an address of no known form only the scheme is kept: the rest may be the password.

    >>> hide_password("redis://user:secret@host:6379/0")
    'redis://user:***@host:6379/0'
    >>> hide_password("unix:///run/redis.sock?db=1&password=secret")
    'unix:///run/redis.sock?db=1&password=***'
    >>> hide_password("redis//:secret@host")
    'redis***'
    """
    for address in _ADDRESSES:
        found = address.fullmatch(url)
        if found is not None:
            return _shown_address(found)
    if not url or _FILE_OR_MEMORY.fullmatch(url) or _NO_CREDENTIALS.fullmatch(url):
        return url
    beginning = re.match(
        "(?:sqlite:|memory:|unix|rediss?(?:[+](?:sentinel|cluster))?)?(?:://)?", url
    )
    return (beginning.group() if beginning else "") + "***"


def _shown_address(found: re.Match[str]) -> str:
    user, query, credentials = found["user"], found["query"], ""
    if user is not None:
        # Without a password, the user part is often one.
        credentials = "***@" if found["password"] in {None, ":"} else f"{user}:***@"
    shown = f"{found['scheme']}{credentials}{found['place']}"
    return shown if query is None else f"{shown}?{'&'.join(map(_shown_option, query.split('&')))}"


def _shown_option(option: str) -> str:
    if _SHOWN_OPTION.fullmatch(option):
        return option
    name = re.match("[a-z_]{1,30}=", option)
    return f"{name.group() if name else ''}***"


# Item classes: which of them are pages, and the names of their fields.

ITEMS = "DEDUP_ITEMS"
_EXAMPLE = '{"shop.items.Article": {"html": "body", "key": "link"}, "shop.items.Quote": None}'


@attrs.frozen
class FieldNames:
    """Name of the item field that holds each part of a page; None: no field holds it."""

    key: str | None
    title: str | None
    text: str | None
    html: str | None
    charset: str | None
    description: str | None
    skip: str | None
    mark: str | None

    def conflict(self) -> tuple[str, str] | None:
        """Return (``mark`` or ``skip``, the other part) if both name the same field, else None.

        The verdict would overwrite that part, or pages that have it would be skipped.

        >>> names = FieldNames(*PARTS)
        >>> attrs.evolve(names, mark="text").conflict()
        ('mark', 'text')
        >>> names.conflict() is None
        True
        """
        for own in ("mark", "skip"):
            field = getattr(self, own)
            for part in PARTS:
                if part != own and field is not None and getattr(self, part) == field:
                    return own, part
        return None


PARTS = tuple(field.name for field in attrs.fields(FieldNames))


@attrs.frozen
class ItemClass:
    """An item class in ``DEDUP_ITEMS``.

    :param path: the class, or its import path
    :param fields: pairs (part of the page, field name); None: items of the class are no pages
    """

    path: str | type
    fields: tuple[tuple[str, str | None], ...] | None

    def names(self, general: FieldNames) -> FieldNames | None:
        """Field names of such items, with the general names for parts that are not listed.

        :raises OptionsError: two parts that must differ have the same field
        """
        if self.fields is None:
            return None
        names = attrs.evolve(general, **dict(self.fields))
        found = names.conflict()
        if found is not None:
            own, part = found
            raise OptionsError(
                ITEMS, {self.path: dict(self.fields)}, f"{own!r} and {part!r} are the same "
                "field; name another one",
            )  # fmt: skip
        return names


def to_item_classes(value: Any) -> tuple[ItemClass, ...]:
    """Convert the value of ``DEDUP_ITEMS``, a mapping or JSON.

    :raises OptionsError: it is neither, or has a wrong class, part or field

    >>> to_item_classes('{"shop.items.Quote": null}')
    (ItemClass(path='shop.items.Quote', fields=None),)
    """
    if isinstance(value, tuple) and all(isinstance(one, ItemClass) for one in value):
        return value
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError:
            raise OptionsError(ITEMS, value, f"use a dict such as {_EXAMPLE}, or JSON") from None
    if not isinstance(value, Mapping):
        raise OptionsError(ITEMS, value, f"use a dict such as {_EXAMPLE}")
    return tuple(_item_class(path, parts) for path, parts in value.items())


def _item_class(path: Any, parts: Any) -> ItemClass:
    if not (isinstance(path, type) or (isinstance(path, str) and path.strip())):
        raise OptionsError(ITEMS, path, f"name a class or its import path, as in {_EXAMPLE}")
    if parts is None:
        return ItemClass(path, None)
    refused = partial(OptionsError, ITEMS, {path: parts})
    if not isinstance(parts, Mapping):
        raise refused(f"use a dict of fields, or None for no page, as in {_EXAMPLE}")
    for part, name in parts.items():
        if part not in PARTS:
            meant = difflib.get_close_matches(str(part), PARTS, n=1)
            hint = f"do you mean {meant[0]!r}? " if meant else ""
            known = f"{', '.join(PARTS[:-1])} or {PARTS[-1]}"
            raise refused(f"{part!r} is no part of a page; {hint}use {known}")
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise refused(f"name the field that holds {part!r}, or None for none")
    if parts.get("text", "") is None and parts.get("html", "") is None:
        raise refused(
            "name the field with the text or the HTML; for items that are no pages put None in the "
            "place of the dict"
        )
    return ItemClass(path, tuple(parts.items()))


# Converters of values as people write them in settings; they raise ValueError or TypeError.


def to_bool(value: Any) -> bool:
    """Convert a number or a string to a truth value."""
    if isinstance(value, (int, float)) and not math.isnan(value):
        return bool(value)
    lowered = value.strip().lower() if isinstance(value, str) else None
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off", "none", ""}:
        return False
    raise ValueError(value)


def to_int(value: Any) -> int:
    """Convert a number or a string to a whole number."""
    number = int(_number_or_string(value))
    # `int` would cut off the fraction.
    if not isinstance(value, str) and number != value:
        raise ValueError(value)
    return number


def _to_float(value: Any) -> float:
    return float(_number_or_string(value))


def _number_or_string(value: Any) -> Any:
    # `int` and `float` would accept truth values, also NumPy's, and bytes.
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Number)):
        raise TypeError(value)
    return value


def _to_text(value: Any) -> str:
    # `str` would accept these, but its result would not be what was meant.
    if isinstance(value, (bytes, list, tuple, set, dict)) or callable(value):
        raise TypeError(value)
    return str(value)


#: by kind of field: converter, advice for its error, and types of its values
_KINDS: Final[dict[str, tuple[Callable[[Any], Any], str, tuple[type, ...]]]] = {
    "str": (_to_text, "use a text", (str,)),
    "int": (to_int, "use a whole number", (int,)),
    "float": (_to_float, "use a number", (int, float)),
    "bool": (to_bool, "use True or False", (int,)),
    "items": (to_item_classes, "use a dict", (tuple,)),
}


def _text_of_path(value: Any) -> Any:
    return str(value) if isinstance(value, PurePath) else value


def option(
    default: _T,
    help_text: str,
    *validators: Check,
    kind: str = "",
    shown: Callable[[Any], str] = repr,
    converter: Callable[[Any], Any] = _text_of_path,
) -> _T:
    """Make a field of the options; a default of None or "" passes all checks.

    :param help_text: description for the settings reference
    :param kind: ``str``, ``int``, ``float``, ``bool`` or ``items``; "": the type of the default
    :param shown: how the value is shown if all options are printed
    :param converter: converts a value as users write it to the value of the field
    """
    kind = kind or type(default).__name__
    _, fix, types = _KINDS[kind]

    def check(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and default is None:
            return
        if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
            raise _refusal(attribute, value, fix)
        if value or default != "":
            for validator in validators:
                validator(instance, attribute, value)

    field: _T = attrs.field(
        default=default,
        converter=converter,
        validator=check,
        repr=shown,
        metadata={"kind": kind, "help": help_text},
    )
    return field


def convert(field: attrs.Attribute[Any], value: Any) -> Any:
    """Convert the value of a setting to the type of its field; command lines give strings.

    :raises OptionsError: it can't be converted
    """
    converter, fix, _ = _KINDS[field.metadata["kind"]]
    if field.default is None and isinstance(value, str) and value.strip().lower() in ("", "none"):
        return None
    try:
        return converter(value)
    except OptionsError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise _refusal(field, value, fix) from None
