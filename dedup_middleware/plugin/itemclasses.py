"""From the class of an item to the fields in which it holds a page (``DEDUP_ITEMS``)."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Mapping

from itemadapter import ItemAdapter
from scrapy.utils.misc import load_object

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.itemfields import SETTING, FieldNames
from dedup_middleware.base.options import Options

logger = logging.getLogger(__name__)


class ItemClasses:
    """The fields of items by their class. A subclass counts as its nearest base that is named.

    :param general: the fields of items of classes that are not named
    :param named: the fields by class; None: items of the class are no pages
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
        """The fields of an item of a class, None if such items are no pages."""
        if kind not in self._known:
            named = (base for base in kind.__mro__ if base in self._named)
            nearest = next(named, None)
            self._known[kind] = self._others if nearest is None else self._known[nearest]
        return self._known[kind]


def load_item_classes(options: Options) -> ItemClasses:
    """The classes that ``DEDUP_ITEMS`` names, imported.

    :raises OptionsError: there is no such class, or none is named and others are to be skipped
    """
    general = options.field_names
    named: dict[type, FieldNames | None] = {}
    for one in options.items:
        kind = _load(one.path)
        if kind in named:
            raise OptionsError(SETTING, one.path, "this class is named twice; leave out one")
        names = named[kind] = one.names(general)
        if names is not None:
            _check_fields(kind, [field for _, field in one.fields or () if field is not None])
    skip_others = options.other_items == "skip"
    if skip_others and not any(named.values()):
        raise OptionsError(
            "DEDUP_OTHER_ITEMS",
            options.other_items,
            f"no item would be compared; name the classes that are pages in {SETTING}",
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
            SETTING, path, f"the class can't be imported ({why}); write its module and its name, "
            "for example shop.items.Article, or the class itself",
        ) from None  # fmt: skip
    if not isinstance(found, type):
        raise OptionsError(SETTING, path, f"this is a {type(found).__name__}; name a class")
    return found


def _check_fields(kind: type, fields: list[str]) -> None:
    """Warn of fields that a class does not declare; its subclasses may."""
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
