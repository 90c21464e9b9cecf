"""Reads the page in an item or a row; imports no Scrapy, since workers of a batch use it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from numbers import Number
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import attrs

from dedup_middleware.base.settingfields import FieldNames
from dedup_middleware.model.documents import Document
from dedup_middleware.model.keys import content_key

if TYPE_CHECKING:
    from itemadapter import ItemAdapter

# Missing values of tables, and objects without a name of their own: another one may get the same.
_NO_KEY: Final = re.compile(r"<NA>|NaT|<.* at 0x[0-9A-Fa-f]+>")
_MISSING: Final = frozenset({"NAType", "NaTType"})  # types of missing values of pandas
_FIRST_SYMBOL: Final = "\u2600"  # of pictures; before it are arrows, frames and the like
_LETTER_OR_DIGIT: Final = re.compile(r"[^\W_]")  # of any script


def field_value(adapter: ItemAdapter | Mapping[str, Any], field: str | None) -> Any:
    """The value of a field; None if there is no such field or no value in it."""
    if field is None:
        return None
    try:
        return adapter[field]
    except (KeyError, AttributeError):
        # A declared field of some kinds of item may have no value yet.
        return None


@attrs.frozen
class PageFields:
    """The page in an item at one moment; two values are equal if nothing has changed.

    ``key`` is empty if the item names no page. ``text`` is not None if its field holds a string, or
    a list of strings (as item loaders leave it), which are joined. ``is_unread``: text or HTML is
    of another type, so whether the page is empty is not known. ``is_text_unread``: it is the text,
    or that has pictures alone, so the HTML does not tell the page from another one. ``is_bare``:
    both are None, as in an item that holds an image of the page.
    """

    key: str
    title: str = attrs.field(repr=False)
    text: str | None = attrs.field(repr=False)
    html: str | bytes | None = attrs.field(repr=False)
    charset: str | None
    is_unread: bool = False
    is_text_unread: bool = False
    is_bare: bool = False
    #: no content: an item in which only this has changed still holds the page that was decided
    description: str = attrs.field(default="", repr=False, eq=False)


def read_fields(adapter: ItemAdapter | Mapping[str, Any], names: FieldNames) -> PageFields:
    """Read the page in an item."""
    key = _decoded(field_value(adapter, names.key))
    title = _decoded(field_value(adapter, names.title))
    text = _text_of(field_value(adapter, names.text))
    html = _only(field_value(adapter, names.html))
    charset = _only(_decoded(field_value(adapter, names.charset)))
    description = field_value(adapter, names.description)
    if _is_texts(description):
        description = " ".join(description)
    return PageFields(
        _key_of(key),
        # A title of any type counts: a short page that seems to have none could be dropped as a
        # copy of a page with another title.
        "" if title is None else " ".join(title) if _is_texts(title) else str(title),
        text if isinstance(text, str) else None,
        html if isinstance(html, (str, bytes)) and html else None,
        charset if isinstance(charset, str) else None,
        not isinstance(text, (str, NoneType)) or not isinstance(html, (str, bytes, NoneType)),
        _is_not_html(text),
        text is None and html is None,
        description if isinstance(description, str) else "",
    )


def as_text(value: Any) -> Any:
    """A value with bytes as text in UTF-8, also those in a list; any other value as it is.

    :raises UnicodeDecodeError: they are not UTF-8
    """
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)) and any(isinstance(part, bytes) for part in value):
        return [part.decode() if isinstance(part, bytes) else part for part in value]
    return value


def _decoded(value: Any) -> Any:
    try:
        return as_text(value)
    except UnicodeDecodeError:
        return value  # its representation still tells the page from others


def _text_of(value: Any) -> Any:
    """The text in a field; a value that is none stays as it is."""
    if isinstance(value, (list, tuple)):
        parts = [part for part in value if part is not None]
        return "\n".join(parts) if _is_texts(parts) else value
    return value


def _is_not_html(text: Any) -> bool:
    """Whether a text says something that its page may lack: one of symbols (another reaction to the
    same page), or of a type that can't be read."""
    if isinstance(text, str):
        return not _LETTER_OR_DIGIT.search(text) and has_symbol(text)
    return not is_empty(text)


def is_empty(value: Any) -> bool:
    """Whether the value of a field stands for none; arrays have no truth value."""
    if isinstance(value, (str, bytes)):
        return not value
    return value is False or _names_nothing(value)


def has_symbol(text: str) -> bool:
    """Whether a text has a symbol that may be all it says, such as a star or an emoji; not those of
    layout and rights, which a selector may have found.

    >>> has_symbol("★★★☆☆"), has_symbol(" - \u200b | → ©")
    (True, False)
    """
    return any(sign >= _FIRST_SYMBOL and unicodedata.category(sign) == "So" for sign in text)


def _key_of(value: Any) -> str:
    """The key in a field; "" if that names nothing, as the empty list of a selector: otherwise all
    such pages would be versions of one page."""
    if _names_nothing(value):
        return ""
    key = str(_only(value))
    return "" if not key.strip() or _NO_KEY.fullmatch(key) else key


def _only(value: Any) -> Any:
    """The value in a list of one, as item loaders leave it; any other value as it is."""
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


def _names_nothing(value: Any) -> bool:
    """Whether a value is empty in all its parts; tables hold NaN for a missing value."""
    left, seen = [value], set()  # lists may be nested too deeply for recursion, or in themselves
    while left:
        part = left.pop()
        if not isinstance(part, (list, tuple, set, frozenset)):
            if not _is_nothing(part):
                return False
        elif id(part) not in seen:
            seen.add(id(part))
            left.extend(part)
    return True


def _is_nothing(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return not value.strip()
    if isinstance(value, Number):
        return str(value).lower() == "nan"
    if type(value).__name__ in _MISSING:
        return True
    return value is None or (isinstance(value, dict) and not value)


def _is_texts(value: Any) -> bool:
    """Whether a value is a list of strings, as item loaders leave it."""
    return isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value)


def document_of(fields: PageFields) -> Document | None:
    """Make the document. Without a key, a hash of the content is the key; None without both.

    If the item has HTML as well, a text without letters and digits is ignored: a selector may have
    found a dash or an invisible character.
    """
    text, html = fields.text, fields.html
    has_text = text is not None and bool(_LETTER_OR_DIGIT.search(text) if html else text.strip())
    content = text if has_text else html or text or None
    key = fields.key or (None if content is None else content_key(content))
    if key is None:
        return None
    return Document(
        key=key,
        title=fields.title,
        text=text if has_text else None if html else "",
        html=None if has_text else html,
        charset=fields.charset,
        description=fields.description,
    )
