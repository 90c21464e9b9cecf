"""Items of every kind become documents, and get their text and verdict back."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import scrapy
from itemadapter import ItemAdapter

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import FieldNames
from dedup_middleware.model.documents import Document, Verdict
from dedup_middleware.plugin.items import fill, mark
from dedup_middleware.plugin.pagefields import document_of, read_fields
from tests.itemkinds import AttrsItem, DataclassItem, PydanticItem, ScrapyItem

OPTIONS = Options().field_names


def to_document(adapter: ItemAdapter, names: FieldNames) -> Document | None:
    """The page in an item."""
    return document_of(read_fields(adapter, names))


KINDS = [dict, ScrapyItem, DataclassItem, AttrsItem, PydanticItem]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    """Every kind of item that Scrapy supports."""
    return request.param


def test_text_becomes_the_document(kind: Any) -> None:
    """Key, title and text are taken from their fields."""
    item = kind(url="https://a.example/1", title="T", text="words", html=b"<p>x")
    document = to_document(ItemAdapter(item), OPTIONS)
    assert document is not None
    assert (document.key, document.title, document.text, document.html) == (
        "https://a.example/1",
        "T",
        "words",
        None,
    )


def test_html_is_used_when_there_is_no_text(kind: Any) -> None:
    """An item with HTML and no text leaves the text to be extracted."""
    document = to_document(ItemAdapter(kind(url="u", html=b"<p>x", text="  ")), OPTIONS)
    assert document is not None
    assert (document.text, document.html) == (None, b"<p>x")


def test_parts_of_text_are_joined(kind: Any) -> None:
    """A list of strings, as item loaders leave it, is one text."""
    document = to_document(ItemAdapter(kind(url="u", text=["one", "two"])), OPTIONS)
    assert document is not None
    assert document.text == "one\ntwo"


@pytest.mark.parametrize("kind", [dict, ScrapyItem, DataclassItem, AttrsItem])
@pytest.mark.parametrize("html", ["<p>x", b"<p>x"])
def test_html_in_a_list_of_one(kind: Any, html: str | bytes) -> None:
    """As item loaders leave it, like the key."""
    item = ItemAdapter(kind(url=["u"], html=[html]))
    document = to_document(item, OPTIONS)
    assert document is not None
    assert (document.key, document.text, document.html) == ("u", None, html)
    assert to_document(ItemAdapter(kind(url="u", html=[html, html])), OPTIONS) != document


def test_charset_in_a_list_of_one() -> None:
    """It decides how the bytes are read."""
    document = to_document(ItemAdapter({"html": b"<p>x", "charset": ["gbk"]}), OPTIONS)
    assert document is not None
    assert document.charset == "gbk"


@pytest.mark.parametrize("kind", [dict, ScrapyItem, DataclassItem, AttrsItem])
def test_names_in_bytes(kind: Any) -> None:
    """Text in UTF-8; other bytes still tell a page from others."""
    item = kind(url="网页".encode(), title=["标题".encode()], text="t")
    document = to_document(ItemAdapter(item), OPTIONS)
    assert document is not None
    assert (document.key, document.title) == ("网页", "标题")
    assert read_fields({"url": b"\xff"}, OPTIONS).key == r"b'\xff'"


def test_lists_in_lists() -> None:
    """However deep they are, and also in themselves, they name nothing if no part does."""
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for key in (loop, deep):
        assert read_fields({"url": key}, OPTIONS).key == ""
    assert read_fields({"url": [[["x"]]]}, OPTIONS).key == "[['x']]"


def test_item_without_key_is_named_by_its_content(kind: Any) -> None:
    """Equal content gives equal names, other content another one."""
    documents = [
        to_document(ItemAdapter(kind(text=text)), OPTIONS) for text in ("same", "same", "other")
    ]
    keys = [document.key for document in documents if document is not None]
    assert keys[0] == keys[1] != keys[2]


def test_item_without_key_and_content_is_none_of_ours(kind: Any) -> None:
    """An item without a key and content gives no document."""
    assert to_document(ItemAdapter(kind()), OPTIONS) is None


@pytest.mark.parametrize("value", [42, 3.5, {"a": 1}, [1, 2], object()])
def test_odd_values_are_no_error(kind: Any, value: Any) -> None:
    """A text field that holds something else counts as empty."""
    document = to_document(ItemAdapter(kind(url="u", text=value)), OPTIONS)
    assert document is not None
    assert document.text == ""


def test_empty_fields_are_filled(kind: Any) -> None:
    """Extracted text and title go into the item's empty fields, never over full ones."""
    adapter = ItemAdapter(kind(url="u", title="mine", text=""))
    document = to_document(adapter, OPTIONS)
    assert document is not None
    fill(adapter, attrs.evolve(document, text="found", title="theirs"), OPTIONS)
    assert (adapter["text"], adapter["title"]) == ("found", "mine")


def test_fields_an_item_does_not_have_are_left_alone() -> None:
    """A dict without a text key gets none."""
    adapter = ItemAdapter({"url": "u", "html": "<p>x"})
    document = to_document(adapter, OPTIONS)
    assert document is not None
    fill(adapter, attrs.evolve(document, text="found"), OPTIONS)
    assert "text" not in adapter


def test_verdict_is_written_into_the_item(kind: Any) -> None:
    """With DEDUP_ACTION=mark the item carries the verdict as plain values."""
    adapter = ItemAdapter(kind(url="u"))
    assert mark(adapter, Verdict("u", "new", "nothing-alike"), OPTIONS)
    assert adapter["dedup"]["outcome"] == "new"


def test_item_without_a_field_for_the_verdict() -> None:
    """An item that declares no such field is not harmed."""

    class Bare(scrapy.Item):
        url = scrapy.Field()

    assert not mark(ItemAdapter(Bare(url="u")), Verdict("u", "new", "x"), OPTIONS)


def test_description_beside_a_text() -> None:
    """The summary reaches the document of an item that has text; it is no content, so an item in
    which only it has changed is the one that was decided."""
    item = {"url": "u", "text": "t", "description": "d"}
    document = to_document(ItemAdapter(item), OPTIONS)
    assert document is not None
    assert (document.text, document.description) == ("t", "d")
    renamed = to_document(
        ItemAdapter(item | {"about": "a"}), Options(description_field="about").field_names
    )
    assert renamed is not None
    assert renamed.description == "a"
    fields = [read_fields(ItemAdapter(item | {"description": d}), OPTIONS) for d in ("d", "x", 7)]
    assert fields[0] == fields[1] == fields[2]
    assert fields[2].description == ""


def test_field_names_are_settings() -> None:
    """Fields are read and written under the names in the settings."""
    options = Options(key_field="id", text_field="body", title_field="headline").field_names
    document = to_document(ItemAdapter({"id": 7, "body": "b", "headline": "h"}), options)
    assert document is not None
    assert (document.key, document.text, document.title) == ("7", "b", "h")
