"""Items of any kind: fields by class, values that the plugin fills in, notes of their requests."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Mapping
from typing import Any

import attrs
from itemadapter import ItemAdapter
from scrapy.utils.misc import load_object

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import ITEMS, FieldNames
from dedup_middleware.model.documents import Document, Verdict, as_dict
from dedup_middleware.plugin.pagefields import PageFields, field_value, is_empty, read_fields

logger = logging.getLogger(__name__)

MAX_NOTES = 10_000  # beyond it the oldest are lost: their items will hardly arrive any more


def fill(adapter: ItemAdapter, document: Document, names: FieldNames) -> None:
    """Put the extracted text and title into the item's empty fields."""
    for field, value in ((names.text, document.text), (names.title, document.title)):
        has_field = field is not None and (field in adapter or field in adapter.field_names())
        if value and has_field and is_empty(field_value(adapter, field)):
            _put(adapter, field, value)


def mark(adapter: ItemAdapter, verdict: Verdict, names: FieldNames) -> bool:
    """Put the verdict into the item; False if it can't take it."""
    return _put(adapter, names.mark, as_dict(verdict))


def _put(adapter: ItemAdapter, field: str | None, value: Any) -> bool:
    """Set a field; False if it is None or missing, or the item is frozen or refuses the value."""
    if field is None:
        return False
    try:
        adapter[field] = value
    except Exception:  # its class may check or convert values
        return False
    return True


@attrs.frozen(eq=False)
class PageItem:
    """An item that may hold a page, and the names of its fields."""

    item: Any
    names: FieldNames
    adapter: ItemAdapter

    def read(self) -> PageFields:
        """Read the page that the item holds now."""
        return read_fields(self.adapter, self.names)


class ItemClasses:
    """The field names of items by class; a subclass has those of its nearest named base.

    :param general: field names for classes that are not named
    :param named: field names by class; None: items of the class are no pages
    :param skip_others: items of classes that are not named are no pages
    """

    def __init__(
        self,
        general: FieldNames,
        named: Mapping[type, FieldNames | None] | None = None,
        *,
        skip_others: bool = False,
    ) -> None:
        self.general = general
        self._known = dict(named or {})
        self._named = frozenset(self._known)
        self._others = None if skip_others else general

    def of(self, kind: type) -> FieldNames | None:
        """Field names for items of a class; None if such items are no pages."""
        if kind not in self._known:
            named = (base for base in kind.__mro__ if base in self._named)
            nearest = next(named, None)
            self._known[kind] = self._others if nearest is None else self._known[nearest]
        return self._known[kind]


def load_item_classes(options: Options) -> ItemClasses:
    """Import the classes that ``DEDUP_ITEMS`` names.

    :raises OptionsError: a class can't be imported or is named twice, or no item would be compared
    """
    general = options.field_names
    named: dict[type, FieldNames | None] = {}
    for one in options.items:
        kind = _load(one.path)
        if kind in named:
            raise OptionsError(ITEMS, one.path, "this class is named twice; leave out one")
        names = named[kind] = one.names(general)
        if names is not None:
            _check_fields(kind, [field for _, field in one.fields or () if field is not None])
    skip_others = options.other_items == "skip"
    if skip_others and not any(named.values()):
        raise OptionsError(
            "DEDUP_OTHER_ITEMS",
            options.other_items,
            f"no item would be compared; name the classes that are pages in {ITEMS}",
        )
    return ItemClasses(general, named, skip_others=skip_others)


def _load(path: str | type) -> type:
    if isinstance(path, type):
        return path
    try:
        found = load_object(path if "." in path else f"{builtins.__name__}.{path}")
    except Exception as error:  # the module that is imported may raise anything
        why = str(error) if isinstance(error, (ImportError, NameError)) else repr(error)
        raise OptionsError(
            ITEMS, path, f"the class can't be imported ({why}); write its module and its name, "
            "for example shop.items.Article, or the class itself",
        ) from None  # fmt: skip
    if not isinstance(found, type):
        raise OptionsError(ITEMS, path, f"this is a {type(found).__name__}; name a class")
    return found


def _check_fields(kind: type, fields: list[str]) -> None:
    """Warn of fields that a class does not declare; its subclasses may declare them."""
    declared = ItemAdapter.get_field_names_from_class(kind)
    if declared is None:  # a dict
        return
    missing = [field for field in fields if field not in declared]
    if missing:
        logger.warning(
            "DEDUP_ITEMS: %s declares no field %s, only %s",
            kind.__qualname__,
            ", ".join(map(repr, missing)),
            ", ".join(map(repr, declared)) or "none",
        )


@attrs.frozen
class Note:
    """Instructions of a request for the items of its page.

    :param skip: let the items pass without a check
    :param key: key of the page instead of the key in the item; None: the key in the item
    """

    skip: bool = False
    key: str | None = None


NOTHING = Note()


class Notes:
    """Notes by the identity of the item, which is kept alive until it arrives."""

    def __init__(self) -> None:
        self._notes: dict[int, list[tuple[Any, Note]]] = {}
        self._lost = 0

    def __len__(self) -> int:
        """Number of notes whose items have not arrived, including the lost ones."""
        return self._lost + sum(map(len, self._notes.values()))

    def add(self, item: Any, note: Note) -> None:
        """Add the note of a yielded item, which may be yielded again before it arrives."""
        if len(self._notes) >= MAX_NOTES:
            self._lost += len(self._notes.pop(next(iter(self._notes))))
        self._notes.setdefault(id(item), []).append((item, note))

    def take(self, item: Any) -> Note:
        """Remove and return the note of an item that arrives."""
        notes = self._notes.get(id(item))
        if notes is None:
            return NOTHING
        _, note = notes.pop(0)
        if not notes:
            del self._notes[id(item)]
        return note
