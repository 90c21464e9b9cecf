"""Which classes of items are pages, and which of their fields hold what."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

import attrs

from dedup_middleware.base.errors import OptionsError

SETTING = "DEDUP_ITEMS"
EXAMPLE = '{"shop.items.Article": {"html": "body", "key": "link"}, "shop.items.Quote": None}'


@attrs.frozen
class FieldNames:
    """For each part of a page the name of the item's field that holds it; None: no field does."""

    key: str | None
    title: str | None
    text: str | None
    html: str | None
    charset: str | None
    description: str | None
    skip: str | None
    mark: str | None

    def conflict(self) -> tuple[str, str] | None:
        """A part that is in a field of another one and must not be, and that other part.

        The verdict would be put in the place of what the page says, or a page would be skipped
        because it says something.

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
    """A class of items as ``DEDUP_ITEMS`` has it.

    :param path: the class, or its import path
    :param fields: part of the page and name of the field; None: items of the class are no pages
    """

    path: str | type
    fields: tuple[tuple[str, str | None], ...] | None

    def names(self, general: FieldNames) -> FieldNames | None:
        """The fields of such an item; parts that are not listed have their general names.

        :raises OptionsError: one field is named for two parts that must not be the same
        """
        if self.fields is None:
            return None
        names = attrs.evolve(general, **dict(self.fields))
        found = names.conflict()
        if found is not None:
            own, part = found
            raise OptionsError(
                SETTING, {self.path: dict(self.fields)}, f"{own!r} and {part!r} are the same "
                "field; name another one",
            )  # fmt: skip
        return names


def to_item_classes(value: Any) -> tuple[ItemClass, ...]:
    """The value of ``DEDUP_ITEMS``, as a mapping or as JSON.

    :raises OptionsError: it is neither, or names a part that pages do not have

    >>> to_item_classes('{"shop.items.Quote": null}')
    (ItemClass(path='shop.items.Quote', fields=None),)
    """
    if isinstance(value, tuple) and all(isinstance(one, ItemClass) for one in value):
        return value
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError:
            raise OptionsError(SETTING, value, f"use a dict such as {EXAMPLE}, or JSON") from None
    if not isinstance(value, Mapping):
        raise OptionsError(SETTING, value, f"use a dict such as {EXAMPLE}")
    return tuple(ItemClass(_path(path), _fields(path, parts)) for path, parts in value.items())


def _path(path: Any) -> str | type:
    if isinstance(path, type) or (isinstance(path, str) and path.strip()):
        return path
    raise OptionsError(SETTING, path, f"name a class or its import path, as in {EXAMPLE}")


def _fields(path: Any, parts: Any) -> tuple[tuple[str, str | None], ...] | None:
    if parts is None:
        return None
    if not isinstance(parts, Mapping):
        raise OptionsError(
            SETTING, {path: parts}, f"use a dict of fields, or None for no page, as in {EXAMPLE}"
        )
    for part, name in parts.items():
        if part not in PARTS:
            meant = difflib.get_close_matches(str(part), PARTS, n=1)
            hint = f"do you mean {meant[0]!r}? " if meant else ""
            raise OptionsError(
                SETTING, {path: parts}, f"{part!r} is no part of a page; {hint}use {_listed()}"
            )
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise OptionsError(
                SETTING, {path: parts}, f"name the field that holds {part!r}, or None for none"
            )
    if parts.get("text", "") is None and parts.get("html", "") is None:
        raise OptionsError(
            SETTING, {path: parts}, "name the field with the text or the HTML; for items that are "
            "no pages put None in the place of the dict",
        )  # fmt: skip
    return tuple(parts.items())


def _listed() -> str:
    return f"{', '.join(PARTS[:-1])} or {PARTS[-1]}"
