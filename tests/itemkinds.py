"""Items of every kind, and what pipelines do to them: change, copy, replace."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import attrs
import scrapy
from itemadapter import ItemAdapter
from itemadapter.adapter import AdapterInterface
from pydantic import BaseModel, ConfigDict

Fields = dict[str, Any]


class ScrapyItem(scrapy.Item):
    """Scrapy's own kind."""

    url = scrapy.Field()
    title = scrapy.Field()
    text = scrapy.Field()
    html = scrapy.Field()
    dedup = scrapy.Field()


@dataclasses.dataclass
class DataclassItem:
    """A dataclass; equal to others of the same fields and so without a hash."""

    url: str | None = None
    title: str | None = None
    text: Any = None
    html: Any = None
    dedup: Any = None


@dataclasses.dataclass(frozen=True)
class FrozenDataclassItem:
    """A dataclass that can't be changed."""

    url: str | None = None
    title: str | None = None
    text: Any = None
    html: Any = None
    dedup: Any = None


@attrs.define
class AttrsItem:
    """An attrs class."""

    url: str | None = None
    title: str | None = None
    text: Any = None
    html: Any = None
    dedup: Any = None


@attrs.frozen(weakref_slot=False)
class FrozenAttrsItem:
    """An attrs class that can neither be changed nor be referred to weakly."""

    url: str | None = None
    title: str | None = None
    text: Any = None
    html: Any = None
    dedup: Any = None


class PydanticItem(BaseModel):
    """A pydantic model."""

    url: str | None = None
    title: str | None = None
    text: Any = None
    html: Any = None
    dedup: Any = None


class FrozenPydanticItem(PydanticItem):
    """A pydantic model that can't be changed."""

    model_config = ConfigDict(frozen=True)


class TupleItem(NamedTuple):
    """A named tuple, which Scrapy accepts through an adapter of the user's own."""

    url: str | None = None
    title: str | None = None
    text: Any = None
    html: Any = None


class TupleAdapter(AdapterInterface):
    """Named tuples as items."""

    @classmethod
    def is_item_class(cls, item_class: type) -> bool:
        """Whether it is our named tuple."""
        return item_class is TupleItem

    def field_names(self) -> Any:
        return TupleItem._fields

    def __getitem__(self, name: str) -> Any:
        if name not in TupleItem._fields:
            raise KeyError(name)
        return getattr(self.item, name)

    def __setitem__(self, name: str, value: Any) -> None:
        raise KeyError(name)

    def __delitem__(self, name: str) -> None:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(TupleItem._fields)

    def __len__(self) -> int:
        return len(TupleItem._fields)


KINDS: list[Callable[..., Any]] = [
    dict,
    ScrapyItem,
    DataclassItem,
    FrozenDataclassItem,
    AttrsItem,
    FrozenAttrsItem,
    PydanticItem,
    FrozenPydanticItem,
    TupleItem,
]


def fields_of(item: Any) -> Fields:
    """The fields of an item of any kind."""
    return ItemAdapter(item).asdict()


def changed(item: Any, **fields: Any) -> Any:
    """The item with other values: itself if it can be changed, else another one."""
    adapter = ItemAdapter(item)
    try:
        for name, value in fields.items():
            adapter[name] = value
    except (KeyError, AttributeError, ValueError):
        known = fields_of(item)
        return type(item)(**known | {k: v for k, v in fields.items() if k in known})
    return item


def _replaced(item: Any) -> Any:
    if isinstance(item, BaseModel):
        return item.model_copy()
    if attrs.has(type(item)):
        return attrs.evolve(item)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return dataclasses.replace(item)
    return type(item)(**fields_of(item))


def _through_json(item: Any) -> Any:
    return json.loads(json.dumps(fields_of(item)))


# What a later pipeline returns for an item.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "same": lambda item: item,
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "replaced by its like": _replaced,
    "made a dict": fields_of,
    "sent through JSON": _through_json,
    "other url": lambda item: changed(item, url="https://all.example/the-same"),
    "no url": lambda item: changed(item, url=None),
    "text trimmed": lambda item: changed(item, text=fields_of(item)["text"][:40]),
    "text deleted": lambda item: changed(item, text=None, html=None, title=None),
    "all fields deleted": lambda _: {},
    "other url in a copy": lambda item: changed(copy.copy(item), url="https://all.example/x"),
}
