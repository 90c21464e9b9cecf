"""Every ``DEDUP_*`` setting, read and checked once, into one frozen object.

The names of the settings are the names of the fields in upper case behind
``DEDUP_``; ``docs/settings.md`` is checked against this module by a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from dedup_middleware.errors import OptionsError

PREFIX = "DEDUP_"

SEGMENTERS = ("jieba", "fmm", "words", "char")
METHODS = ("content", "simhash")
SCHEMES = ("memory:", "sqlite:", "redis://", "rediss://", "unix://")
SKETCH_BITS = 512

_T = TypeVar("_T")


def setting_name(field: str) -> str:
    """Name of the setting that fills a field.

    >>> setting_name("index_url")
    'DEDUP_INDEX_URL'
    """
    return PREFIX + field.upper()


def _fail(attribute: attrs.Attribute[Any], value: object, fix: str) -> OptionsError:
    return OptionsError(setting_name(attribute.name), value, fix)


def _one_of(*choices: str) -> Callable[[Any, attrs.Attribute[str], str], None]:
    def check(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
        if value not in choices:
            raise _fail(attribute, value, f"use one of {', '.join(choices)}")

    return check


def _between(
    low: float, high: float, unit: str = ""
) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        # `not (...)` also refuses NaN, which compares false with everything.
        if not low <= value <= high:
            raise _fail(attribute, value, f"use a number from {low:g} to {high:g}{unit}")

    return check


def _text(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if not value.strip():
        raise _fail(attribute, value, "use a name of at least one character")


def _window(_: Any, attribute: attrs.Attribute[float], value: float) -> None:
    # Shorter than a minute, pages would expire while copies of them are still on their way.
    if value != 0 and not 60 <= value <= 1e10:
        raise _fail(attribute, value, "use 0 for ever, or seconds from 60; 30 days are 2592000")


def _hexadecimal(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if value and not re.fullmatch("[0-9a-fA-F]{1,16}", value):
        # The value is a secret: it is not shown.
        raise _fail(attribute, "...", "use 1 to 16 hexadecimal digits")


def _namespace(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    # Braces would move the keys of one namespace into several cluster slots.
    if not value or any(c in "{}\r\n " for c in value) or len(value) > 64:
        raise _fail(attribute, value, "use 1 to 64 characters without spaces or braces")


def _index_url(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if not value.startswith(SCHEMES):
        raise _fail(attribute, hide_password(value), f"begin it with one of {', '.join(SCHEMES)}")
    if value == "sqlite:":
        raise _fail(attribute, value, "name the file, for example sqlite:dedup.db")


def hide_password(url: str) -> str:
    """The address without the secret in it, fit for a log line.

    >>> hide_password("redis://user:secret@host:6379/0")
    'redis://user:***@host:6379/0'
    """
    scheme, separator, rest = url.partition("://")
    if not separator or "@" not in rest:
        return url
    credentials, _, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}://{user}{':***' if colon else ''}@{host}"


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in {"1", "true", "yes", "on"}:
            return True
        if lowered in {"0", "false", "no", "off", "none", ""}:
            return False
        raise ValueError(value)
    return bool(value)


def _to_int(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError(value)
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(value)
    return number


def _option(
    default: _T,
    kind: str,
    help_text: str,
    *validators: Callable[[Any, attrs.Attribute[Any], Any], None],
) -> _T:
    field: _T = attrs.field(
        default=default,
        validator=list(validators),
        metadata={"kind": kind, "help": help_text},
    )
    return field


@attrs.frozen(kw_only=True)
class Options:
    """How pages are compared, where the index is, what happens to a duplicate.

    :raises OptionsError: a value can't be used; the message names the setting and the fix
    """

    # Where
    index_url: str = _option(
        "memory:",
        "str",
        "Where the index is: `memory:`, `sqlite:PATH`, `redis://...`, `rediss://...` or `unix://...`.",
        _index_url,
    )
    namespace: str = _option(
        "dedup",
        "str",
        "Prefix of every key in Redis; indexes with different names do not see each other.",
        _namespace,
    )

    hash_key: str = _option(
        "",
        "str",
        "Key of all hashes in a new index, a hexadecimal number; empty: it makes one at random.",
        _hexadecimal,
    )

    # How pages are compared
    method: str = _option(
        "content", "str", "Rule that decides: `content` or `simhash`.", _one_of(*METHODS)
    )
    threshold: float = _option(
        0.8,
        "float",
        "Share of a new page's shingles that a stored page must hold for the new one to be a "
        "duplicate; pages of fewer than 128 shingles need more.",
        _between(0.05, 1.0),
    )
    distance: int = _option(
        3, "int", "Hamming distance of `DEDUP_METHOD=simhash`, in bits.", _between(0, 3, " bits")
    )
    scan_distance: int = _option(
        22,
        "int",
        "A page in the same SimHash bucket is a candidate up to this Hamming distance, in bits.",
        _between(3, 64, " bits"),
    )
    min_features: int = _option(
        8,
        "int",
        "Pages with fewer distinct shingles are compared by their exact text only.",
        _between(1, 10_000, " shingles"),
    )
    segmenter: str = _option(
        "jieba",
        "str",
        "How words are found: `jieba`, `fmm`, `words` or `char`.",
        _one_of(*SEGMENTERS),
    )
    user_dictionary: str = _option(
        "", "str", "File with words of your own, in the format of jieba's user dictionaries."
    )
    fold_traditional: bool = _option(
        False,
        "bool",
        "Compare traditional and simplified Chinese as one script (extra `traditional`).",
    )
    extractor: str = _option(
        "balanced",
        "str",
        "How the body is found in HTML: `fast`, or `balanced`, which asks trafilatura in doubt.",
        _one_of("balanced", "fast"),
    )
    shingle_width: int = _option(3, "int", "Words in a shingle.", _between(1, 16, " words"))
    max_chars: int = _option(
        1_000_000,
        "int",
        "Characters of a page that are looked at; the rest is not compared.",
        _between(100, 100_000_000, " characters"),
    )
    num_perm: int = _option(
        512, "int", "MinHash permutations: 128, 256, 512 or 1024.", _between(128, 1024)
    )
    bands: int = _option(8, "int", "MinHash bands; each is one more table.", _between(0, 58))
    rows: int = _option(3, "int", "Minima in a band.", _between(1, 32))

    # What happens
    enabled: bool = _option(True, "bool", "`False` switches the pipeline off.")
    action: str = _option(
        "drop",
        "str",
        "`drop` a duplicate, or `mark` it and let it pass.",
        _one_of("drop", "mark"),
    )
    revisit: str = _option(
        "drop",
        "str",
        "An unchanged page seen again under its own key: `drop` it or `keep` it.",
        _one_of("drop", "keep"),
    )
    on_empty: str = _option(
        "keep", "str", "A page without any text: `keep` or `drop` it.", _one_of("keep", "drop")
    )
    on_error: str = _option(
        "keep",
        "str",
        "When the index can't be used: `keep` the page, `drop` it, or `close` the spider.",
        _one_of("keep", "drop", "close"),
    )

    # How long
    lease: float = _option(
        60.0,
        "float",
        "Seconds until a page that was neither stored nor given back may be claimed by another.",
        _between(0.1, 86_400, " seconds"),
    )
    pending_wait: float = _option(
        90.0,
        "float",
        "Seconds to wait for a like page that is being stored at this moment.",
        _between(0, 86_400, " seconds"),
    )
    window: float = _option(
        0.0,
        "float",
        "Seconds after which a stored page is forgotten unless it was seen again; 0: never.",
        _window,
    )
    timeout: float = _option(
        5.0, "float", "Seconds an answer of the index may take.", _between(0.05, 600, " seconds")
    )
    retries: int = _option(
        2, "int", "How often a failed call to the index is tried again.", _between(0, 100)
    )

    # Items
    text_field: str = _option("text", "str", "Item field that holds the body text.", _text)
    html_field: str = _option(
        "html", "str", "Item field that holds the page's HTML, used when there is no text.", _text
    )
    charset_field: str = _option(
        "charset", "str", "Item field with the charset of the Content-Type header.", _text
    )
    title_field: str = _option("title", "str", "Item field that holds the title.", _text)
    key_field: str = _option(
        "url", "str", "Item field that names the page, usually its address.", _text
    )
    skip_field: str = _option(
        "dedup_skip", "str", "An item in which this field is true is let through unseen.", _text
    )
    fill_text: bool = _option(
        True, "bool", "Put text and title taken from the HTML into the item's empty fields."
    )
    drop_log_level: str = _option(
        "DEBUG",
        "str",
        "Level at which a dropped item is logged.",
        _one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    )
    mark_field: str = _option(
        "dedup", "str", "Item field that gets the verdict with `DEDUP_ACTION=mark`.", _text
    )

    @property
    def safe_index_url(self) -> str:
        """The index's address without its password."""
        return hide_password(self.index_url)

    def __attrs_post_init__(self) -> None:
        if self.num_perm not in {128, 256, 512, 1024}:
            raise OptionsError(
                setting_name("num_perm"), self.num_perm, "use 128, 256, 512 or 1024 permutations"
            )
        if self.bands * self.rows > self.num_perm:
            raise OptionsError(
                setting_name("bands"),
                self.bands,
                f"{self.bands} bands of {self.rows} rows need {self.bands * self.rows} "
                f"permutations, and DEDUP_NUM_PERM={self.num_perm}; lower one or raise the other",
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Options:
        """Options from ``DEDUP_*`` names, as in a settings file; strings are converted.

        :raises OptionsError: unknown name, wrong type or unusable value

        >>> Options.from_mapping({"DEDUP_THRESHOLD": "0.9"}).threshold
        0.9
        """
        fields = {setting_name(f.name): f for f in attrs.fields(cls)}
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            if name not in fields:
                raise OptionsError(name, value, "no such setting; see docs/settings.md")
            if value is None:
                continue
            arguments[fields[name].name] = _convert(name, fields[name].metadata["kind"], value)
        return cls(**arguments)


def _convert(name: str, kind: str, value: Any) -> Any:
    converters: dict[str, tuple[Callable[[Any], Any], str]] = {
        "str": (str, "use a text"),
        "int": (_to_int, "use a whole number"),
        "float": (float, "use a number"),
        "bool": (_to_bool, "use True or False"),
    }
    convert, fix = converters[kind]
    try:
        return convert(value)
    except (TypeError, ValueError):
        raise OptionsError(name, value, fix) from None
