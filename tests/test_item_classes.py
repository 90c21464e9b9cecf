"""Which classes of items are pages, and in which fields."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import scrapy

from dedup_middleware import Options, OptionsError
from dedup_middleware.base.settingfields import PARTS, setting_name
from dedup_middleware.plugin.items import load_item_classes
from tests.commands.running import dedup
from tests.docblocks import ROOT, blocks
from tests.itemcrawl import Crawled, crawl
from tests.texts import article

YES = "Yes."


@attrs.define
class Article:
    """A page with names of its own for its fields."""

    link: str
    body: Any = None
    text: str = ""
    dedup: Any = None


class LongArticle(Article):
    """A subclass."""


class Quote(scrapy.Item):
    """An item with a text that is not a page."""

    author = scrapy.Field()
    text = scrapy.Field()


class LongQuote(Quote):
    """A subclass of a class that is no page."""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The module that the documentation names, and the settings that it shows."""
    items = types.ModuleType("shop.items")
    items.Article, items.Quote = Article, Quote  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.items", items)
    names: dict[str, Any] = {}
    (block,) = (b for b in blocks(ROOT / "docs" / "items.md") if "DEDUP_ITEMS" in b.code)
    exec(block.code, names)
    return {name: value for name, value in names.items() if name.isupper()}


def page(seed: int) -> str:
    """The HTML of an article."""
    return f"<html><body><article><p>{article(seed)}</p></article></body></html>"


def of(*items: Any) -> Callable[[Crawled], AsyncIterator[Any]]:
    """What a spider yields: these, one after the other."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for number, item in enumerate(items):
            yield item
            await crawled.until(number + 1)

    return source


async def test_documented_settings(shop: dict[str, Any]) -> None:
    """Articles are compared by their own fields, subclasses too; quotes are left alone, dicts are
    read as before."""
    crawled = await crawl(
        of(
            Article("https://a.example/1", body=page(1)),
            Article("https://b.example/1", body=page(1)),
            LongArticle("https://c.example/1", body=page(1)),
            Quote(author="Ann", text=YES),
            Quote(author="Bob", text=YES),
            LongQuote(author="Cid", text=YES),
            {"url": "https://d.example/1", "text": article(1)},
        ),
        {},
        **shop,
    )
    assert crawled.duplicates == [f"https://{host}.example/1" for host in "bcd"]
    assert len(crawled.scraped) == 4
    assert crawled.stat("skipped/item-class") == 3


async def test_without_the_setting_a_quote_is_a_page() -> None:
    """Without the setting every item that has a text is compared."""
    crawled = await crawl(of(*(Quote(author=name, text=YES) for name in ("Ann", "Bob"))), {})
    assert len(crawled.scraped) == 1


async def test_other_classes_are_skipped_on_request() -> None:
    """Only what is named is compared; a dict is not."""
    same = article(1)
    crawled = await crawl(
        of(
            {"url": "https://a.example/1", "text": same},
            {"url": "https://b.example/1", "text": same},
            Quote(author="Ann", text=same),
            Article("https://c.example/1", text=same),
            Article("https://d.example/1", text=same),
        ),
        {},
        DEDUP_ITEMS={Article: {"key": "link"}},
        DEDUP_OTHER_ITEMS="skip",
    )
    assert crawled.duplicates == ["https://d.example/1"]
    assert crawled.stat("skipped/item-class") == 3


async def test_the_nearest_base_class_counts() -> None:
    """A subclass may be a page though its base class is none; dicts are a class like others."""
    crawled = await crawl(
        of(
            Quote(author="Ann", text=YES),
            LongQuote(author="Bob", text=YES),
            LongQuote(author="Cid", text=YES),
            {"url": "https://a.example/1", "text": YES},
        ),
        {},
        DEDUP_ITEMS={Quote: None, LongQuote: {"key": "author"}, "dict": None},
    )
    assert crawled.duplicates == ["Cid"]


async def test_a_part_without_a_field_is_not_read() -> None:
    """A teaser in ``text`` is not the page, and is not overwritten by the page's text."""
    items = [
        Article(f"https://{n}.example/1", body=page(n), text="The same teaser") for n in (1, 2)
    ]
    fields = {"key": "link", "html": "body", "text": None}
    crawled = await crawl(of(*items), {}, DEDUP_ITEMS={Article: fields})
    assert crawled.duplicates == []
    assert [item.text for item in crawled.scraped] == ["The same teaser"] * 2


async def test_text_and_verdict_go_into_the_fields_of_the_class() -> None:
    """Filled and marked under the names that are given."""

    @attrs.define
    class Story:
        link: str
        body: Any
        words: str = ""
        seen: Any = None

    crawled = await crawl(
        of(Story("https://a.example/1", page(1)), Story("https://b.example/1", page(1))),
        {},
        DEDUP_ACTION="mark",
        DEDUP_ITEMS={
            Story: {"key": "link", "html": "body", "text": "words", "mark": "seen"},
        },
    )
    assert [item.seen["outcome"] for item in crawled.scraped] == ["new", "duplicate"]
    assert all(item.words.strip() == article(1) for item in crawled.scraped)


async def test_skip_field_of_a_class() -> None:
    """The field that lets an item pass may have a name of its own."""
    item = {"url": "https://a.example/1", "text": YES, "live": True}
    crawled = await crawl(of(item), {}, DEDUP_ITEMS={"dict": {"skip": "live"}})
    assert (crawled.stat("skipped/opt-out"), crawled.stat("pages")) == (1, 0)


async def test_restore_brings_back_the_text_of_a_named_class(tmp_path: Path) -> None:
    """The raw HTML of the class's own field is not kept; its words come back."""
    settings = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'index.db'}", "DEDUP_JOURNAL": "on"}
    names = {"key": "link", "html": "body", "text": "text"}
    items = [Article(f"https://{host}.example/1", body=page(1).encode()) for host in "ab"]
    await crawl(of(*items), {}, **settings, DEDUP_ITEMS={Article: names}, DEDUP_FILL_TEXT=False)
    done = await _in_thread(
        "restore", "--all", "-o", "-", **settings, DEDUP_ITEMS={"any.where.Article": names}
    )
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "link": "https://b.example/1", "text": article(1), "dedup": None
    }  # fmt: skip


async def _in_thread(*arguments: str, **settings: Any) -> Any:
    import asyncio

    return await asyncio.to_thread(dedup, *arguments, **settings)


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("{", "or JSON"),
        (["shop.items.Article"], "use a dict such as"),
        ({7: None}, "import path"),
        ({"shop.items.Article": "body"}, "use a dict of fields"),
        ({"shop.items.Article": {"htm": "body"}}, "do you mean 'html'"),
        ({"shop.items.Article": {"url": "link"}}, "use key, title, text"),
        ({"shop.items.Article": {"html": ""}}, "name the field that holds 'html'"),
        ({"shop.items.Article": {"html": None, "text": None}}, "None in the place"),
    ],
)
def test_unusable_values_are_named(value: object, fix: str) -> None:
    """The setting, what is wrong in it, and what to write."""
    with pytest.raises(OptionsError, match="DEDUP_ITEMS") as caught:
        Options.from_mapping({"DEDUP_ITEMS": value})
    assert fix in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        ({"items": {"shop.items.Artcle": None}}, "Artcle"),
        ({"items": {"nowhere_at_all.Article": None}}, "No module named 'nowhere_at_all'"),
        ({"items": {"Article": None}}, "shop.items.Article"),
        ({"items": {"json.dumps": None}}, "this is a function; name a class"),
        ({"items": {Quote: None, f"{__name__}.Quote": None}}, "named twice"),
        ({"other_items": "skip"}, "name the classes that are pages in DEDUP_ITEMS"),
        ({"other_items": "skip", "items": {Quote: None}}, "no item would be compared"),
    ],
)
def test_classes_that_do_not_exist_are_named(
    shop: dict[str, Any], settings: dict[str, Any], fix: str
) -> None:
    """Missing classes are reported when they are imported, at the start of a crawl, not when the
    settings are read."""
    options = Options(**settings)
    with pytest.raises(OptionsError, match=r"DEDUP_(ITEMS|OTHER_ITEMS)") as caught:
        load_item_classes(options)
    assert fix in str(caught.value)


def test_field_that_a_class_does_not_declare(caplog: pytest.LogCaptureFixture) -> None:
    """A warning, because a subclass may have it."""
    load_item_classes(Options(items={Quote: {"text": "txt"}}))  # type: ignore[arg-type]
    assert "declares no field 'txt', only 'author', 'text'" in caplog.text
    caplog.clear()
    load_item_classes(Options(items={Quote: {"key": "author"}, "dict": {"key": "k"}}))  # type: ignore[arg-type]
    assert not caplog.text


def test_parts_are_documented_and_have_a_setting() -> None:
    """docs/items.md lists them; the setting of each names the field of all other classes."""
    section = (ROOT / "docs" / "items.md").read_text(encoding="utf-8")
    section = section.split("## Items of several classes")[1].split("\n## ")[0]
    for part in PARTS:
        assert f"`{part}`" in section
        assert hasattr(Options(), setting_name(f"{part}_field").removeprefix("DEDUP_").lower())


def test_wrong_class_ends_the_crawl_at_its_start(tmp_path: Path) -> None:
    """One line names the setting, and `scrapy runspider` exits with 1."""
    from tests.test_user_errors import SPIDER

    (tmp_path / "pages.py").write_text(SPIDER)
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", "pages.py",
         "-s", 'DEDUP_ITEMS={"shop.items.Article": null}'],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if " ERROR: " in line]
    assert "DEDUP_ITEMS='shop.items.Article' can't be used" in said
    assert "Traceback" not in done.stderr


async def test_a_class_without_a_field_for_the_verdict_is_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There is no warning if the class has None for its mark, but there is if it just lacks the
    field."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/1", "text": article(1)}
        yield Quote(author="a", text=article(2))

    parts: dict[Any, Any] = {dict: {"mark": None}, Quote: {"key": None}}
    crawled = await crawl(source, {}, DEDUP_ACTION="mark", DEDUP_ITEMS=parts)
    assert [dict(one).get("dedup") for one in crawled.scraped] == [None, None]
    (said,) = [line for line in caplog.messages if "for the verdict" in line]
    assert "Quote has no field 'dedup'" in said


@dataclasses.dataclass(frozen=True)
class Frozen:
    """An item that can't be marked."""

    url: str
    text: str
    dedup: Any = None


async def test_a_frozen_item_is_not_told_to_declare_its_field(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has the field for the verdict, but does not take it."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield Frozen("https://a.example/1", article(1))

    crawled = await crawl(source, {}, DEDUP_ACTION="mark")
    assert [one.dedup for one in crawled.scraped] == [None]
    (said,) = [line for line in caplog.messages if "DEDUP_ACTION=mark" in line]
    assert "does not take the verdict, a dict, into its field 'dedup'" in said
