"""Malformed pages: any bytes, any charset, any shape, items of any kind.

The same seed gives the same page. Every page is one of some articles underneath, so that many are
near-duplicates of each other, whatever was done to them.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import attrs
import pydantic
import scrapy

from dedup_middleware.evaluation.edits import KINDS, edit
from tests.texts import article, english

CHARSETS = (
    *("utf-8", "gb18030", "gbk", "gb2312", "big5", "shift_jis", "euc-kr", "koi8-r", "windows-1252"),
    *("utf-16", "utf-16-le", "utf-32", "utf-7", "latin-1", "cp437", "iso-2022-jp", "utf-8-sig"),
)
# Names of codecs that decode no text, and names of nothing.
FALSE_CHARSETS = (
    *("base64", "zlib", "rot13", "punycode", "idna", "undefined", "hex", "bz2", "uu", "quopri"),
    *("unicode_escape", "raw_unicode_escape", "mbcs", "x-user-defined", "utf-9", "\0", "", "名"),
)
_STRANGE = (
    *"\0\x01\x0b\x1b\x7f\x85\xa0\xad\u034f\u061c\u180e\u200b\u200d\u202e\u2028\u2066\u3000",
    *("\ufe0f", "\ufeff", "\ufffd", "\uffff", "\ue000", "\U000e0041", "\U0010ffff", "\U0001f468"),
    *("\ud800", "\udfff", "\udcff"),  # lone surrogates
    *("e\u0301", "\u0323\u0307", "ﷺ", "½", "Ⅷ", "㍿", "ﬁ", "İ", "ß", "½%", "€", "−", "±"),
)
_SCRIPTS = (
    *("абвгдежзик", "αβγδεζηθ", "אבגדהוזח", "ابتثجحخد", "กขฃคฅฆง", "अआइईउऊ", "가나다라마바사"),
    *("あいうえおかき", "Ꭰ Ꭱ Ꭲ Ꭳ", "𓀀𓀁𓀂𓀃", "♔♕♖♗♘♙", "⠁⠃⠉⠙⠑", "☀☁☂☃", "0123456789", "-+%$€<>= "),
)
_TAGS = (
    "div",
    "p",
    "span",
    "b",
    "table",
    "tr",
    "td",
    "ul",
    "li",
    "section",
    "article",
    "font",
    "x-y",
)
_MOST = 60_000  # characters that one kind of strangeness may add


class Anything(scrapy.Item):  # type: ignore[misc]
    """An item of Scrapy."""

    url = scrapy.Field()
    title = scrapy.Field()
    text = scrapy.Field()
    html = scrapy.Field()
    charset = scrapy.Field()
    dedup_skip = scrapy.Field()


@dataclasses.dataclass
class Data:
    """A dataclass."""

    url: Any = None
    title: Any = None
    text: Any = None
    html: Any = None
    charset: Any = None


@attrs.define
class Attrs:
    """An attrs class."""

    url: Any = None
    title: Any = None
    text: Any = None
    html: Any = None
    charset: Any = None


class Model(pydantic.BaseModel):
    """A pydantic model."""

    url: Any = None
    title: Any = None
    text: Any = None
    html: Any = None
    charset: Any = None


_KINDS: tuple[Callable[..., Any], ...] = (dict, dict, dict, Anything, Data, Attrs, Model)


def page(number: int, seed: int, articles: int) -> Any:
    """An item.

    :param articles: how many different texts there are underneath
    """
    rng = random.Random(seed * 1_000_003 + number)
    text = _text(rng, articles)
    url: Any = f"https://{rng.randrange(40)}.example/{number}"
    if rng.random() < 0.03:
        url = rng.choice(
            [None, "", 7, "x" * 70_000, "https://a/\ud800", b"bytes", ["a"], "\0", url[:20]]
        )
    fields: dict[str, Any] = {"url": url}
    if rng.random() < 0.5:
        fields["title"] = rng.choice([text[:20], "", "\ud800", 3, None, "<b>", text[:3000]])
    if rng.random() < 0.45:
        fields["html"] = _html(text, rng)
        if rng.random() < 0.5:
            fields["charset"] = rng.choice([*CHARSETS, *FALSE_CHARSETS, 5, None])
    else:
        fields["text"] = text
        if rng.random() < 0.1:
            fields["text"] = text.split("。")
    if rng.random() < 0.02:
        fields[rng.choice(["text", "html"])] = rng.choice(
            [None, 5, b"\xff", {}, [1, "a"], "", [], 2.5]
        )
    return rng.choice(_KINDS)(**fields)


def _text(rng: random.Random, articles: int) -> str:
    seed = rng.randrange(articles)
    own = random.Random(seed)  # the same article each time
    dice = own.random()
    if dice < 0.5:
        text = article(seed, own.randrange(1, 40))
    elif dice < 0.75:
        text = english(seed, own.randrange(3, 300))
    elif dice < 0.9:
        letters = own.choice(_SCRIPTS)
        text = "".join(own.choice(letters + "  ") for _ in range(own.randrange(1, 900)))
    else:
        text = (
            article(seed, 8) + english(seed, 80) + "".join(own.choice(_SCRIPTS) for _ in range(9))
        )
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        text = rng.choice(_CHANGES)(text, rng)
    return text


def _edited(text: str, rng: random.Random) -> str:
    return edit(text, rng.choice(tuple(KINDS)), rng.random() ** 2 * 0.4, rng.randrange(1000))


def _sprinkled(text: str, rng: random.Random) -> str:
    parts, some = [], [rng.choice(_STRANGE) for _ in range(rng.randrange(1, 4))]
    share = rng.random() * 0.2
    for letter in text:
        parts.append(letter)
        if rng.random() < share:
            parts.append(rng.choice(some))
    return "".join(parts)


def _cut(text: str, rng: random.Random) -> str:
    return (
        text[rng.randrange(len(text) // 2 + 1) :] if rng.random() < 0.5 else text[: len(text) // 2]
    )


def _repeated(text: str, rng: random.Random) -> str:
    return text * rng.randrange(2, 4) if rng.random() < 0.9 else (text * 1000)[:_MOST]


def _stretched(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    unit = rng.choice([" ", "\n", "a", "ا", "\u0301", "\ud800", "9", "，", "한", "\0", "😀"])
    return text[:at] + unit * rng.choice([10, 100, 3000]) + text[at:]


def _folded(text: str, rng: random.Random) -> str:
    wide = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
    return rng.choice([str.upper, str.lower, str.title, lambda one: one.translate(wide)])(text)


_CHANGES = (_edited, _edited, _edited, _sprinkled, _cut, _repeated, _stretched, _folded)


def _html(text: str, rng: random.Random) -> Any:
    parts = text.split("。")
    body = "".join(f"<p>{part}。</p>" for part in parts)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        body = rng.choice(_SHAPES)(body, rng)
    head = f"<title>{text[:15]}</title>" if rng.random() < 0.5 else ""
    charset = rng.choice(CHARSETS)
    declared = rng.choice([charset, charset, charset, *CHARSETS, *FALSE_CHARSETS])
    if rng.random() < 0.6:
        head += rng.choice(
            [
                f'<meta charset="{declared}">',
                f'<meta http-equiv="Content-Type" content="text/html; charset={declared}">',
            ]
        )
    html = f"<html><head>{head}</head><body>{body}</body></html>"
    if rng.random() < 0.1:
        html = f'<?xml version="1.0" encoding="{declared}"?>' + html
    if rng.random() < 0.3:
        return html
    raw = (
        html.encode(
            charset,
            rng.choice(["replace", "ignore", "xmlcharrefreplace", "surrogatepass"])
            if "utf" in charset
            else "replace",
        )
        if _encodes(html, charset)
        else html.encode("utf-8", "replace")
    )
    return _broken(raw, rng) if rng.random() < 0.4 else raw


def _encodes(html: str, charset: str) -> bool:
    try:
        html.encode(charset, "replace")
    except UnicodeError:
        return False
    return True


def _broken(raw: bytes, rng: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.choice([1, 3, 30])):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif what == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            del data[at : at + rng.randrange(1, 30)]
        else:
            data[at:at] = rng.choice(
                [b"<", b">", b"<!--", b"</", b"&#", b"<![CDATA[", b"\xff\xfe", b"\x1b$B"]
            )
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data)


def _nested(body: str, rng: random.Random) -> str:
    tag, depth = rng.choice(_TAGS), rng.choice([5, 50, 600, 3000])
    closed = f"</{tag}>" * depth if rng.random() < 0.5 else ""
    return f"<{tag}>" * depth + body + closed


def _attributed(body: str, rng: random.Random) -> str:
    value = rng.choice(["x", "&quot;", "名", "\0", "'", "&#x110000;"]) * rng.choice(
        [3, 500, 20_000]
    )
    return f'<div class="{value}" {rng.choice(_TAGS)}={value[:40]}>{body}</div>'


def _many_attributes(body: str, rng: random.Random) -> str:
    return "<div " + " ".join(f"a{i}={i}" for i in range(rng.choice([20, 2000]))) + f">{body}</div>"


def _with_entities(body: str, rng: random.Random) -> str:
    strange = [
        "&#0;",
        "&#xD800;",
        "&#x110000;",
        "&#99999999999;",
        "&nbsp;",
        "&lt;p&gt;",
        "&notanentity;",
        "&",
    ]
    return body.replace("。", rng.choice(strange) + "。")


def _beside_rubbish(body: str, rng: random.Random) -> str:
    rubbish = rng.choice(
        [
            "<script>var a = '<p>';</script>",
            "<!-- <p> -->",
            "<style>p { }",
            "<nav>" + "<a href=/>首页</a>" * 40 + "</nav>",
            "<textarea>",
            "<svg><desc><p>",
            "<template><p>x</p></template>",
            "<iframe src=data:,x>",
            '<script type="application/ld+json">{"@type": "Article", "articleBody": [[[[</script>',
            "<table>" * 30,
        ]
    )
    return rubbish + body if rng.random() < 0.5 else body + rubbish


def _unclosed(body: str, rng: random.Random) -> str:
    return body.replace("</p>", rng.choice(["", "</div>", "<p", "</p", "<br/>", "</x>"]))


_SHAPES = (
    *(_nested, _attributed, _many_attributes, _with_entities, _beside_rubbish, _unclosed),
    *(_beside_rubbish, _unclosed),
)
