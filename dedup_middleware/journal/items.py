"""A dropped item as JSON values, so that it can be brought back."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from itemadapter import ItemAdapter


def plain_item(item: Any, without: Collection[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of an item as JSON values, and the names of those that are left out.

    Dates and times become ISO texts, sets lists, numbers of any size stay. Bytes and objects of
    other classes can't be written as JSON, so such fields are left out.

    :param item: anything that itemadapter knows
    :param without: names of fields to leave out in any case, such as the raw HTML

    >>> plain_item({"url": "https://a/1", "price": decimal.Decimal("1.50"), "html": b"<p>"})
    ({'url': 'https://a/1', 'price': '1.50'}, ('html',))
    """
    fields: dict[str, Any] = {}
    left_out = []
    for name, value in ItemAdapter(item).items():
        if name in without and value:
            left_out.append(name)
            continue
        try:
            # A round trip leaves only what JSON can say: tuples become lists, keys texts.
            fields[name] = json.loads(json.dumps(value, default=_plain))
        except (TypeError, ValueError, RecursionError):
            left_out.append(name)
    return fields, tuple(left_out)


def _plain(value: Any) -> Any:
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, Mapping):
        return dict(value)
    if ItemAdapter.is_item(value):
        return ItemAdapter(value).asdict()
    raise TypeError(type(value).__name__)
