"""Bodies come back as they were, and items lose only what JSON can't say."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs
import numpy as np
import pytest
import scrapy
from hypothesis import example, given
from hypothesis import strategies as st

from dedup_middleware.journal.entries import (
    Body,
    host_of,
    pack,
    pack_body,
    plain_item,
    unpack,
    unpack_body,
)
from tests.texts import article, english

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _FLOATS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_comes_back(text: str) -> None:
    """Chinese, rare planes and lone surrogates alike."""
    assert unpack(pack(text)) == text


@given(st.text(), st.none() | st.dictionaries(st.text(), VALUES), st.lists(st.text()))
def test_any_body_comes_back(text: str, item: dict[str, Any] | None, left_out: list[str]) -> None:
    """With its item's fields in their order, and no other."""
    if item is not None:
        item = {**item, "body": text}
    body = unpack_body(pack_body(Body(text, item, tuple(left_out))))
    assert body == Body(text, item, tuple(left_out))
    assert list(body.item or {}) == list(item or {})


def test_text_in_the_item_costs_nothing() -> None:
    """The body text is not written a second time for the field that holds it."""
    text = article(1, 60)
    alone = len(pack_body(Body(text)))
    assert len(pack_body(Body(text, {"text": text}))) < alone + 60
    assert len(pack(text)) < len(text.encode()) / 2
    assert len(pack(english(1))) < len(english(1))


def test_damaged_bytes() -> None:
    """They are not taken for a text."""
    with pytest.raises(ValueError, match="damaged"):
        unpack(b"u" + b"no zlib")


class Scraped(scrapy.Item):  # type: ignore[misc]
    """An item of Scrapy's own kind."""

    url = scrapy.Field()
    html = scrapy.Field()
    inner = scrapy.Field()


@attrs.define
class Price:
    """An attrs item."""

    amount: decimal.Decimal
    seen: datetime.date
    tags: set[str]
    number: uuid.UUID
    picture: bytes
    thing: object


def test_what_json_can_not_say_is_left_out_by_name() -> None:
    """Dates, decimals and sets become texts and lists; bytes and objects are named."""
    one = uuid.UUID(int=7)
    price = Price(
        decimal.Decimal("1.50"), datetime.date(2026, 1, 2), {"b", "a"}, one, b"\xff", object()
    )
    fields, left_out = plain_item(price)
    assert fields == {
        "amount": "1.50", "seen": "2026-01-02", "tags": ["a", "b"], "number": str(one),
    }  # fmt: skip
    assert left_out == ("picture", "thing")
    nested, left_out = plain_item(Scraped(url="u", html="<p>", inner=Scraped(url="v")), {"html"})
    assert nested == {"url": "u", "inner": {"url": "v"}}
    assert left_out == ("html",)


def test_item_that_holds_itself() -> None:
    """A field without end is left out."""
    endless: list[Any] = []
    endless.append(endless)
    assert plain_item({"url": "u", "endless": endless}) == ({"url": "u"}, ("endless",))


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES))
def test_json_items_stay_as_they_are(item: dict[str, Any]) -> None:
    """What is JSON already is not changed."""
    fields, left_out = plain_item(item)
    assert (fields, left_out) == (json.loads(json.dumps(item)), ())


PARTS = st.sampled_from(
    [
        *"://?#@[]% \t\n\\\0℀ａ",
        "//",
        "[::1]",
        "http",
        "HTTPS",
        "ftp+x",
        "1a",
        "News.Example",
        "user:pass",
        ":80",
        ":x",
        "新闻",
        "",
    ]
)
ADDRESSES = st.lists(PARTS, max_size=9).map("".join)


@given(ADDRESSES | st.text() | ADDRESSES.map("http://a.example/".__add__))
@example("HTTP://User@News.Example:8080/a?b#c")
@example("ht\ttp://news.example/1")
@example("http://[news.example/1")
@example("http://news.example/[1")
def test_host_is_that_of_the_whole_address(key: str) -> None:
    """Only the part of an address up to its path is looked at; the host is as urllib reads it."""
    try:
        wanted = urlsplit(key).hostname or ""
    except ValueError:
        wanted = ""
    assert host_of(key) == wanted


def test_fields_that_can_not_be_kept_are_named() -> None:
    """Two keys with one name, and a value whose class raises: neither is lost in silence."""

    class Strange(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise RuntimeError("strange")

        def __iter__(self) -> Iterator[str]:
            return iter("a")

        def __len__(self) -> int:
            return 1

    item = {1: "a", "1": "b", "strange": Strange(), "array": np.zeros(2)}
    assert plain_item(item, {"array"}) == ({"1": "a"}, ("1", "strange", "array"))
