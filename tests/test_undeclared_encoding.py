"""Pages in GBK that declare no encoding, as `response.body` and as `response.text`."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.text.extract import extract
from tests.texts import article

TITLE = "渡口昨天重新开放"
TEXT = article(1, 30)
PAGE = f"<html><title>{TITLE}</title><body><article><p>{TEXT}</p></article></body></html>"


@pytest.fixture
def response() -> HtmlResponse:
    """A page in GBK; neither header nor markup names the encoding."""
    return HtmlResponse("https://b.example/1", body=PAGE.encode("gbk"))


async def outcomes(*pages: str | bytes) -> list[str]:
    """What becomes of pages, each with an address of its own and stored if it is new."""
    found = []
    async with Deduplicator(Options(index_url="memory:")) as dedup:
        for number, page in enumerate(pages):
            verdict = await dedup.decide(Document(key=f"https://a.example/{number}", html=page))
            await dedup.commit(verdict)
            found.append(verdict.outcome)
    return found


async def test_body_is_decoded_alike_in_every_version_of_scrapy(response: HtmlResponse) -> None:
    """The bytes give the page's characters, so the page is a duplicate of the same in UTF-8."""
    assert extract(response.body).title == TITLE
    utf8 = PAGE.replace("<title>", '<meta charset="utf-8"><title>').encode()
    assert await outcomes(utf8, response.body) == ["new", "duplicate"]


async def test_text_is_what_scrapy_guessed(response: HtmlResponse) -> None:
    """A string is taken as it is: a duplicate if the guess is right, otherwise stored."""
    expected = "duplicate" if TEXT in response.text else "new"
    assert await outcomes(PAGE, response.text) == ["new", expected]


async def test_string_of_wrong_characters_is_kept() -> None:
    """GBK read as Latin is another text: such a page is stored, not dropped and no error."""
    wrong = PAGE.encode("gbk").decode("latin-1")
    assert await outcomes(PAGE, wrong) == ["new", "new"]
