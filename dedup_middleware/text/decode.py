"""Decodes the bytes of a page, whatever it declares about its encoding.

Declarations of East Asian pages are wrong often enough to matter: ``utf-8`` in the header of a GBK
page, ``gb2312`` over bytes of GB18030, ``iso-8859-1`` because a server adds it to everything.
Encodings are tried in this order: byte order mark; the pattern of NUL bytes (UTF-16, UTF-32); UTF-8
if the bytes are valid, which those of another encoding hardly ever are; then the declared
encodings and the East Asian ones, judged by the share of undecodable bytes and of characters that
are common in the language; then resiliparse's detector for the single-byte encodings.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Literal

import attrs
from resiliparse.parse.encoding import detect_encoding
from w3lib.encoding import html_body_declared_encoding, read_bom, resolve_encoding

# Bytes of a page that are examined, and bytes that are scored once ASCII runs are squeezed.
_SCAN = 400_000
_SAMPLE = 24_000
# A declared encoding with a higher score is chosen without trying others.
_CLEAR = 1.1
# If the best East Asian encoding scores lower, the page is not East Asian text.
_DOUBTFUL = 0.75
# Bonus on the score of a declared encoding.
_DECLARED_BONUS = 0.2
# Valid sequences needed for each broken one for a page to count as damaged UTF-8.
_UTF8_GOOD_PER_ERROR = 5
# Text codecs that are no encodings of pages: notations of programs and of host names.
_NOTATIONS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape"})
_LONGEST_NAME = 64  # characters of the name of a charset
_EVERY_BYTE = bytes(range(256))
_MARKUP = b'<meta name="a" content="b"> &amp; <p>0</p>'
_WESTERN = frozenset({"cp1252", "ascii", "iso8859-1", "iso8859-15", "latin_1"})
_ASCII_RUN = re.compile(rb"([\x00-\x7f])[\x00-\x7f]{3,}")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")
_FOREIGN_TO_ASCII = re.compile(r"[\x00-\x7f]+")


@attrs.frozen
class Decoded:
    """The text of a page and the Python codec that decoded it."""

    text: str
    charset: str


def decode(data: bytes, charset: str | None = None) -> Decoded:
    """Decode the bytes of a page; never raises. Undecodable bytes become U+FFFD.

    :param charset: the one of the Content-Type header, if any; unknown names are ignored
    """
    bom_codec, bom = read_bom(data)
    if bom_codec is not None:
        return Decoded(data[len(bom or b"") :].decode(bom_codec, "replace"), bom_codec)
    if (wide := _wide_codec(data)) is not None:
        return Decoded(data.decode(wide, "replace"), wide)
    if data.isascii():
        codec = _seven_bit_codec(data, charset)
        return Decoded(data.decode(codec, "replace"), codec)
    if (text := _as_utf8(data)) is not None:
        return Decoded(text, "utf-8")
    codec = _legacy_codec(data, charset)
    return Decoded(data.decode(codec, "replace"), codec)


@lru_cache(maxsize=1024)
def codec_of(charset: str) -> str | None:
    """The Python codec of a charset, as the superset that browsers use; never raises.

    None for unknown names, for codecs that are not text encodings (base64, zlib, rot13), for those
    that raise on some bytes whatever the error handler (undefined), and for notations of programs
    and host names (unicode_escape, idna).

    >>> codec_of("gb2312"), codec_of("ISO-8859-1"), codec_of("base64"), codec_of("idna")
    ('gb18030', 'cp1252', None, None)
    """
    charset = charset.strip()
    if not charset or len(charset) > _LONGEST_NAME:
        return None
    try:
        # w3lib maps gb2312 to gb18030, big5 to big5hkscs, latin-1 to cp1252 and so on.
        codec = resolve_encoding(charset)
        if codec is None or codec.replace("-", "_") in _NOTATIONS:
            return None
        decoded: object = _EVERY_BYTE.decode(codec, "replace")
    except Exception:  # the name comes from a page, and a codec may raise anything
        return None
    return codec if isinstance(decoded, str) else None


def _wide_codec(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without byte order mark: NULs of ASCII markup are at even or odd bytes."""
    head = data[:4096]
    if head.count(0) * 4 < len(head) or len(head) < 8:
        return None
    lanes = [head[lane::4].count(0) * 4 / len(head) for lane in range(4)]
    full = [share > 0.5 for share in lanes]
    patterns = {
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
    }
    if (codec := patterns.get((full[0], full[1], full[2], full[3]))) is not None:
        return codec
    # Dense East Asian text has fewer NULs, but still none at the other bytes.
    even, odd = lanes[0] + lanes[2], lanes[1] + lanes[3]
    if odd > 0.4 and even < 0.02:
        return "utf-16-le"
    if even > 0.4 and odd < 0.02:
        return "utf-16-be"
    return None


def _seven_bit_codec(data: bytes, charset: str | None) -> str:
    """Codec of a page of ASCII bytes only: ISO-2022 by its escapes, HZ only if declared."""
    if b"\x1b$)C" in data[:_SCAN]:
        return "iso2022_kr"
    if b"\x1b$" in data[:_SCAN]:
        return "iso2022_jp_ext"
    return "hz" if "hz" in _declared(data, charset) else "ascii"


def _as_utf8(data: bytes) -> str | None:
    """The text if the bytes are UTF-8, a few damaged sequences allowed; else None."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode("utf-8")
    text = data.decode("utf-8", "replace")
    errors = text.count("\ufffd")
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    return text if foreign - errors >= errors * _UTF8_GOOD_PER_ERROR else None


def _declared(data: bytes, charset: str | None) -> list[str]:
    """Codecs that header and page declare, in this order, each as the superset of browsers."""
    names: list[str] = []
    for name in (charset, html_body_declared_encoding(data[:8192])):
        codec = codec_of(name) if name else None
        if codec is not None and codec not in names:
            names.append(codec)
    return names


def _legacy_codec(data: bytes, charset: str | None) -> str:
    """Codec of bytes that are neither Unicode nor ASCII."""
    sample = _sample(data)
    declared = _declared(data, charset)
    scores: dict[str, float] = {}
    for codec in declared:
        if codec in FAMILIES:
            scores[codec] = _score(sample, codec)
            if scores[codec] >= _CLEAR:
                return _variant(data, codec)
            scores[codec] += _DECLARED_BONUS
    for codec in FAMILIES:
        if codec not in scores:
            scores[codec] = _score(sample, codec)
    best = max(scores, key=lambda codec: scores[codec])
    if scores[best] >= _DOUBTFUL:
        return _variant(data, best)
    return _single_byte(data, declared)


def _score(sample: bytes, codec: str) -> float:
    """How plausible the sample is as text in an East Asian encoding."""
    return plausibility(_FOREIGN_TO_ASCII.sub("", sample.decode(codec, "replace")), FAMILIES[codec])


def _sample(data: bytes) -> bytes:
    """The part of the page that shows its encoding, with long ASCII runs cut to two bytes. The
    first byte of a run stays: in GBK, Big5 and Shift_JIS it can be the second half of a character.
    """
    first = _HIGH_BYTE.search(data)
    start = first.start() if first else 0
    return _ASCII_RUN.sub(rb"\1 ", data[start : start + _SCAN])[:_SAMPLE]


def _variant(data: bytes, codec: str) -> str:
    """The superset that loses least: Big5 has two, neither of which contains the other."""
    if codec != "big5hkscs":
        return codec
    losses = {name: data.decode(name, "replace").count("\ufffd") for name in (codec, "cp950")}
    return codec if losses[codec] <= losses["cp950"] else "cp950"


def _single_byte(data: bytes, declared: list[str]) -> str:
    """Codec of a single-byte encoding: the declared one unless it is the default of servers."""
    for codec in declared:
        if _is_single_byte(codec) and codec not in _WESTERN and not _loses(data, codec):
            return codec
    guess = detect_encoding(_sample(data), max_len=_SAMPLE)
    detected = codec_of(guess) if guess else None
    return detected if detected is not None and _is_single_byte(detected) else "cp1252"


def _is_single_byte(codec: str) -> bool:
    """Whether a codec may be used for bytes that are neither East Asian nor Unicode. EBCDIC and
    UTF-16 are excluded: they would decode the markup of such a page into letters."""
    if codec in FAMILIES or codec == "utf-8":
        return False
    return _MARKUP.decode(codec, "replace") == _MARKUP.decode("ascii")


def _loses(data: bytes, codec: str) -> bool:
    """Whether more than a few bytes can't be decoded by the codec."""
    text = _sample(data).decode(codec, "replace")
    return text.count("\ufffd") * 50 > len(text)


Family = Literal["simplified", "traditional", "japanese", "korean"]

# The East Asian codecs that are tried, and the script of each.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gb18030": "simplified",
        "big5hkscs": "traditional",
        "cp932": "japanese",
        "euc_jp": "japanese",
        "cp949": "korean",
    }
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
    from dedup_middleware.text.characters import word_lists  # numba stays lazy

    language = family if family in {"japanese", "korean"} else "chinese"
    frequent = frozenset("".join(word_lists()[f"frequent-{language}"]))
    hiragana = map(chr, range(0x3041, 0x3094))
    return frequent.union(hiragana) if family == "japanese" else frequent


def _rows(codec: str, leads: "range | list[int]", trails: "range | list[int]") -> frozenset[str]:
    """All characters whose two-byte codes have bytes in these ranges."""
    codes = b"".join(bytes((lead, trail)) for lead in leads for trail in trails)
    return frozenset(codes.decode(codec, "ignore"))


def plausibility(foreign: str, family: Family) -> float:
    """Rate how well the non-ASCII characters of a text fit a language: below 0 garbage, 1.5 prose.

    Bytes of one East Asian encoding decode under another with few errors but into rare characters.
    The score is the sum of two shares: of characters in the *first level* of the national standard
    (which has the common ones; read from the codecs themselves), and of the most frequent
    characters of the language, which make up a third of any prose and a few per cent of a wrong
    decoding. Three times the share of undecodable bytes is subtracted. Punctuation is ignored.
    """
    # Private-use characters stay: the gaps of a wrong encoding decode into them.
    judged = [c for c in foreign if c.isalpha() or c == "\ufffd" or "\ue000" <= c <= "\uf8ff"]
    if not judged:
        return 0.0
    first, frequent = _first_level(family), _frequent(family)
    common = sum(char in first for char in judged) + sum(char in frequent for char in judged)
    return (common - 3 * judged.count("\ufffd")) / len(judged)
