"""How much a text looks like Chinese, Japanese or Korean: the judge between East Asian encodings.

Bytes of one East Asian encoding decode under another with few errors but into rare characters. Two
shares tell the right one: of characters in the *first level* of the national standard (its makers
put the common ones there; read from the codecs themselves) and of the most frequent characters of
the language, which make up a third of any prose and a few per cent of a wrong decoding.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

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
    """Score of the non-ASCII characters of a text, from below 0 (rubbish) to about 1.5 (prose).

    Sum of the share in the first level and the share of frequent characters, less three times the
    share of undecodable bytes. Punctuation counts for nothing.
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
