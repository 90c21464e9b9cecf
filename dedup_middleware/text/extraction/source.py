"""A page before any parser sees it: its East Asian encoding, clean markup, and its shape.

On some pages the time of parsers and extractors grows with the square of the page: attributes of
one tag are compared with each other, siblings and ancestors are walked again from every node.
`survey` finds such pages in one linear pass, so that `extract` can choose an extractor whose time
is bounded.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

import attrs

# Bytes, or characters, of a page that are looked at; the rest is cut off.
MAX_SIZE = 4_000_000
# More tags than this get no extractor that may take their square.
MAX_TAGS = 20_000
# More tags, or more attributes in one tag, get no tree at all.
MAX_TREE_TAGS = 200_000
MAX_ATTRIBUTES = 1_000

_LONG_TAG = 4_096
# Quotes open after "=" only, as in the standard: a stray quote must not swallow the page. No part
# can fail once "<a" is seen, so the pattern never goes back.
_TAG = re.compile(r"""<[a-zA-Z](?:[^>=]+|=\s*(?:"[^"]*"|'[^']*')?){0,4000}""")
_ATTRIBUTE = re.compile(r"""[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"']+))?""")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
_MARKUP = re.compile(r"<[a-zA-Z!?/]")
_CDATA = "<![CDATA["
_BINARY_SHARE = 0.1


@attrs.frozen
class Survey:
    """Shape of a page: its tags, and the attributes of its fullest tag when that is a long one."""

    tags: int
    attributes: int

    @property
    def is_ordinary(self) -> bool:
        """Whether any extractor is safe on the page."""
        return self.has_tree and self.tags <= MAX_TAGS

    @property
    def has_tree(self) -> bool:
        """Whether a parser and one walk over its tree are safe on the page."""
        return self.tags <= MAX_TREE_TAGS and self.attributes <= MAX_ATTRIBUTES


def clean(text: str) -> str:
    """Markup that every parser takes: cut to `MAX_SIZE`, no NUL, no lone surrogate."""
    return cleaned(text)[0]


def cleaned(text: str) -> tuple[str, bytes]:
    """Markup as :func:`clean` makes it, and the UTF-8 bytes that were made on the way."""
    text = text[:MAX_SIZE]
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        # Pairs of surrogates are one character each; lone ones become U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        data = text.encode("utf-8")
    if b"\x00" in data:
        text, data = text.replace("\x00", ""), data.replace(b"\x00", b"")
    if text[:64].lstrip().startswith("<?xml"):
        text = _with_cdata_escaped(text)
        data = text.encode("utf-8")
    return text, data


def _with_cdata_escaped(text: str) -> str:
    """XML without CDATA sections, which parsers of HTML take for comments."""
    first, *rest = text.split(_CDATA)
    parts = [first]
    for part in rest:
        inner, end, after = part.partition("]]>")
        parts.append(inner.replace("&", "&amp;").replace("<", "&lt;") + after if end else part)
    return "".join(parts)


def is_binary(text: str) -> bool:
    """Whether the text is no text: many control characters or undecodable bytes at its start."""
    head = text[:4096]
    return len(_CONTROL.findall(head)) > len(head) * _BINARY_SHARE


def is_markup(text: str) -> bool:
    """Whether the text holds any tag."""
    return _MARKUP.search(text) is not None


def survey(html: str) -> Survey:
    """Count tags, and attributes of long ones, in time linear in the page."""
    attributes = 0
    for tag in _TAG.findall(html):
        if len(tag) > _LONG_TAG:
            attributes = max(attributes, len(_ATTRIBUTE.findall(tag)))
    return Survey(html.count("<"), attributes)


Family = Literal["simplified", "traditional", "japanese", "korean"]

# Codecs that are distinguished, each with the script it is written in.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gb18030": "simplified",
        "big5hkscs": "traditional",
        "cp932": "japanese",
        "euc_jp": "japanese",
        "cp949": "korean",
    }
)

_CHINESE = (
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可"
    "她里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三"
    "已老从动两长知民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定"
    "业新加市政报电网资体关机体记司产第被京号万元首页"
    "這來國個說們為時會過對裡後麼沒還發當開無見經頭動兩長樣現將與進實點種聲話兒網資體關機記產報電"
    "業號萬請華灣學訊"
)
_JAPANESE = (
    "日一人年大十二本中長出三同時政事自行社見月分議後前民生連五発間対上部"
    "東者党地合市業内相方四定今回新"
)
_KOREAN = (
    "이다는의에가을로고하기지한사를은리자어인도서아나시해스라들정대수전그제것일부보주장과으있만원여구"
    "성상년적면화공게국경유동연비조소우신와선오방안발개관계위무회당용분실요중래학미말세오모업체내생교"
)


@cache
def _first_level(family: Family) -> frozenset[str]:
    """Characters of the standard's first level, letters of the script included."""
    if family == "simplified":  # GB 2312, rows 16 to 55
        return _rows("gb2312", range(0xB0, 0xD8), range(0xA1, 0xFF))
    if family == "traditional":  # Big5 level 1
        trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
        return _rows("big5", range(0xA4, 0xC7), trails)
    if family == "japanese":  # JIS X 0208: hiragana, katakana, kanji of level 1
        leads = [0xA4, 0xA5, *range(0xB0, 0xD0)]
        return _rows("euc_jp", leads, range(0xA1, 0xFF)) | {"ー", "々"}
    return _rows("euc_kr", range(0xB0, 0xC9), range(0xA1, 0xFF))  # KS X 1001: 2350 syllables


@cache
def _frequent(family: Family) -> frozenset[str]:
    """The most frequent characters of the language."""
    if family == "japanese":
        hiragana = frozenset(chr(code) for code in range(0x3041, 0x3094))
        return hiragana | frozenset(_JAPANESE) | frozenset("ーンスルトリアイラク")
    return frozenset(_KOREAN if family == "korean" else _CHINESE)


def _rows(codec: str, leads: "range | list[int]", trails: "range | list[int]") -> frozenset[str]:
    """All characters that the two-byte codes of these ranges stand for."""
    codes = b"".join(bytes((lead, trail)) for lead in leads for trail in trails)
    return frozenset(codes.decode(codec, "ignore"))


def plausibility(foreign: str, family: Family) -> float:
    """How much the non-ASCII characters of a text look like those of an East Asian language, from
    below 0 (rubbish) to about 1.5 (prose).

    Bytes of one East Asian encoding decode under another with few errors but into rare characters.
    Two shares tell the right one, and are added up: of characters in the *first level* of the
    national standard (its makers put the common ones there; read from the codecs themselves) and of
    the most frequent characters of the language, which make up a third of any prose and a few per
    cent of a wrong decoding. Three times the share of undecodable bytes is subtracted, and
    punctuation counts for nothing.
    """
    judged = [char for char in foreign if char.isalpha() or char == "\ufffd" or _is_private(char)]
    if not judged:
        return 0.0
    first, frequent = _first_level(family), _frequent(family)
    common = sum(char in first for char in judged) + sum(char in frequent for char in judged)
    return (common - 3 * judged.count("\ufffd")) / len(judged)


def _is_private(char: str) -> bool:
    """Private use: what the gaps of a wrong encoding decode into."""
    return "\ue000" <= char <= "\uf8ff"
