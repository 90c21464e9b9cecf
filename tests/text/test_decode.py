"""Bytes become the right text whatever the page declares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text.decode import FAMILIES, decode, plausibility

SIMPLIFIED = (
    "市政府今天召开新闻发布会，介绍了今年前三个季度的经济运行情况，有关部门负责人回答了记者的提问。"
)
TRADITIONAL = (
    "市政府今天召開記者會，說明今年前三季的經濟情況，"
    "有關單位負責人回答了記者的問題，並且感謝市民的支持。"
)
JAPANESE = (
    "市役所はきょう記者会見を開き、今年の経済の状況について説明しました。"
    "担当者は記者の質問に答えています。"
)
KOREAN = (
    "시청은 오늘 기자 회견을 열고 올해 경제 상황에 대해 설명했다. "
    "담당자는 기자들의 질문에 대답하였다."
)
RUSSIAN = "Сегодня мэрия города провела встречу с журналистами и рассказала об итогах этого года."
GREEK = "Ο δήμος παρουσίασε σήμερα στους δημοσιογράφους τα αποτελέσματα της χρονιάς που πέρασε."
FRENCH = (
    "La mairie a présenté aujourd’hui à la presse les résultats de l’année écoulée : "
    "l’été fut très réussi."
)

TEXTS = {
    "gb2312": SIMPLIFIED,
    "gbk": SIMPLIFIED + "朱镕基、陶喆",
    "gb18030": SIMPLIFIED + "㐀㐁䶮",
    "big5": TRADITIONAL,
    "big5hkscs": TRADITIONAL + "喺啲嘅",
    "cp950": TRADITIONAL + "碁銹",
    "shift_jis": JAPANESE,
    "euc_jp": JAPANESE,
    "iso2022_jp": JAPANESE,
    "euc_kr": KOREAN,
    "cp1251": RUSSIAN,
    "cp1253": GREEK,
    "cp1252": FRENCH,
    "utf-8": SIMPLIFIED,
    "utf-16-le": SIMPLIFIED,
    "utf-16-be": SIMPLIFIED,
    "utf-16": SIMPLIFIED,
    "utf-8-sig": SIMPLIFIED,
    "utf-32": SIMPLIFIED,
}
DECLARATIONS = [
    None,
    "utf-8",
    "iso-8859-1",
    "gb2312",
    "big5",
    "shift_jis",
    "euc-kr",
    "no-such-name",
]


def page(text: str, declared: str | None) -> str:
    """A small page with navigation and one paragraph."""
    meta = f'<meta charset="{declared}">' if declared else ""
    return (
        f"<!DOCTYPE html><html><head>{meta}<title>{text[:12]}</title></head><body>"
        f'<div class="nav"><a href="/">Home</a></div><p>{text}</p></body></html>'
    )


@pytest.mark.parametrize("codec", TEXTS)
def test_decodes_whatever_is_declared(codec: str) -> None:
    """The text comes out right without a declaration and under any wrong one."""
    text = TEXTS[codec]
    for declared in DECLARATIONS:
        data = page(text, declared).encode(codec)
        assert text in decode(data, declared).text, declared
        assert text in decode(page(text, None).encode(codec), declared).text, declared


@pytest.mark.parametrize("codec", TEXTS)
def test_header_wins_only_when_it_fits(codec: str) -> None:
    """A right declaration in the page survives a wrong one in the header."""
    data = page(TEXTS[codec], codec).encode(codec)
    assert TEXTS[codec] in decode(data, "iso-8859-1").text


def test_declared_gb2312_is_read_as_its_superset() -> None:
    """Pages that say gb2312 use characters of GBK; none of them is lost."""
    data = page(SIMPLIFIED + "朱镕基", "gb2312").encode("gbk")
    decoded = decode(data, "gb2312")
    assert "朱镕基" in decoded.text
    assert decoded.charset == "gb18030"


def test_latin1_means_cp1252() -> None:
    """Typographic quotes of cp1252 survive the declaration iso-8859-1."""
    assert "l’été" in decode(page(FRENCH, "iso-8859-1").encode("cp1252"), "iso-8859-1").text


def test_single_byte_declaration_is_believed() -> None:
    """Nothing but the declaration tells Turkish cp1254 from western text, so it counts."""
    text = "Belediye bugün gazetecilere yılın sonuçlarını açıkladı, şehirde işler iyi gidiyor."
    assert text in decode(page(text, "windows-1254").encode("cp1254")).text


def test_damaged_utf8_stays_utf8() -> None:
    """A few broken bytes in a page of UTF-8 cost those bytes, not the page."""
    data = page(SIMPLIFIED * 5, None).encode()
    broken = data.replace("经济".encode(), b"\xe7\xbb" + "济".encode(), 1)
    decoded = decode(broken, "gbk")
    assert decoded.charset == "utf-8"
    assert decoded.text.count("\ufffd") == 1
    assert decode(data[: -len("</p></body></html>") - 1]).text.endswith("提问")


def test_ascii_page_follows_no_declaration() -> None:
    """Bytes below 128 mean the same everywhere; HZ is read only when declared."""
    assert decode(b"<p>plain ~{ text</p>", "big5").text == "<p>plain ~{ text</p>"
    assert SIMPLIFIED[:4] in decode(SIMPLIFIED[:4].encode("hz"), "hz-gb-2312").text


def test_the_right_family_is_the_most_plausible() -> None:
    """Each East Asian text scores highest when its bytes are decoded as what they are."""
    samples = {
        "gb18030": SIMPLIFIED,
        "big5hkscs": TRADITIONAL,
        "cp932": JAPANESE,
        "euc_jp": JAPANESE,
        "cp949": KOREAN,
    }
    for right, text in samples.items():
        data = "".join(char for char in text if ord(char) > 127).encode(right)
        scores = {
            codec: plausibility(data.decode(codec, "replace"), family)
            for codec, family in FAMILIES.items()
        }
        assert max(scores, key=lambda codec: scores[codec]) == right


@given(st.binary(max_size=400), st.none() | st.text(max_size=12))
def test_never_raises(data: bytes, charset: str | None) -> None:
    """Any bytes under any declaration give text that can be encoded again."""
    decoded = decode(data, charset)
    assert isinstance(decoded.text.encode("utf-8", "surrogatepass"), bytes)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_utf8_round_trip(text: str) -> None:
    """Valid UTF-8 without control characters is read as it was written."""
    clean = "".join(char for char in text if char not in "\x00\x1b\ufeff")
    assert decode(f"<p>{clean}</p>é".encode()).text == f"<p>{clean}</p>é"
