"""Stop words: the lists of stopwords-iso for Chinese and English, or a set of the user's own.

From the English list names, codes of countries, abbreviations and nouns such as computer and fire
are left out, as they are what a page is about. Of both lists the words that turn a sentence round
(not, before, 没有) are left out, see :mod:`dedup_middleware.text.polarity`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

import attrs

from dedup_middleware.text.normalize import normalize
from dedup_middleware.text.polarity import polarity

LANGUAGES: Final = ("zh", "en")
DEFAULT: Final = "zh,en"
#: names of months; march and may are words of their own
MONTHS: Final = frozenset(
    "january february april june july august september october november december "
    "januar februar märz mai juni juli oktober dezember "
    "janvier février mars avril juin juillet août septembre octobre novembre décembre "
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre "
    "gennaio febbraio aprile maggio giugno luglio settembre ottobre novembre dicembre "
    "janeiro fevereiro março maio junho julho setembro outubro novembro dezembro "
    "январь января январе февраль февраля феврале март марта марте апрель апреля апреле май мая "
    "мае июнь июня июне июль июля июле август августа августе сентябрь сентября сентябре октябрь "
    "октября октябре ноябрь ноября ноябре декабрь декабря декабре "
    "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık "
    "ιανουάριο ιανουαρίου "
    "φεβρουάριο φεβρουαρίου μάρτιο μαρτίου απρίλιο απριλίου μάιο μαΐου ιούνιο ιουνίου ιούλιο "
    "ιουλίου αύγουστο αυγούστου σεπτέμβριο σεπτεμβρίου οκτώβριο οκτωβρίου νοέμβριο νοεμβρίου "
    "δεκέμβριο δεκεμβρίου يناير فبراير مارس أبريل إبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر "
    "نوفمبر ديسمبر בינואר בפברואר במרץ באפריל במאי ביוני ביולי באוגוסט בספטמבר באוקטובר בנובמבר "
    "בדצמבר ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר जनवरी फरवरी "
    "मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर".split()
)
_GERMAN: Final = "zwei drei vier fünf sechs sieben acht neun".split()
_SPANISH: Final = "dos tres cuatro seis ocho".split()
_GREEK: Final = "δια τρια τετρα πεντα εξα επτα εφτα οκτα οχτα εννια".split()
#: names of months, and numerals of several parts that are one word: neunhundert, δεκατρία
_COMPOUNDS: Final = MONTHS.union(
    "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zehntausend zwölftausend "
    "hunderttausend treize quatorze quinze seize mille catorce dieciséis diecisiete dieciocho "
    "diecinueve veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve quinientos quinientas setecientos setecientas novecientos novecientas "
    "одиннадцать двенадцать тринадцать четырнадцать пятнадцать шестнадцать семнадцать "
    "восемнадцать девятнадцать четыреста пятьсот шестьсот семьсот восемьсот девятьсот altı "
    "δεκατρία δεκατέσσερα δεκαπέντε δεκαέξι δεκαεπτά δεκαοκτώ δεκαεννέα χίλια χίλιοι "
    "χίλιεσ".split(),
    (f"{one}{much}" for one in _GERMAN for much in ("hundert", "tausend")),
    (f"{one}cient{end}" for one in _SPANISH for end in ("os", "as")),
    (f"{one}κόσι{end}" for one in _GREEK for end in ("οι", "εσ", "α", "ουσ")),
)
#: numerals written as words, which no shipped list leaves out; words that mean something else in
#: another of these languages are missing
NUMBER_WORDS: Final = _COMPOUNDS | frozenset(
    "zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion second third fourth fifth sixth seventh eighth ninth tenth "
    "half quarter dozen "
    # units of time and small money, of which another one makes another figure
    "hour hours day days week weeks month months year years cts cents "
    "zwei drei vier fünf sechs sieben acht neun zehn zwölf zwanzig dreißig vierzig fünfzig "
    "sechzig "
    "siebzig achtzig neunzig hundert tausend millionen milliarden "
    "deux trois quatre cinq sept huit neuf onze douze vingt trente quarante cinquante soixante "
    "millions milliards "
    "tres cuatro cinco siete ocho nueve diez doce veinte treinta cuarenta cincuenta sesenta "
    "setenta ochenta noventa millones "
    "quattro cinque sette otto dieci venti trenta quaranta cinquanta sessanta settanta ottanta "
    "novanta milioni "
    "dois três quatro oito dez vinte trinta quarenta cinquenta sessenta oitenta noventa milhões "
    "два две двух двое три трех четыре четырех пять пяти шесть шести семь семи "
    "восемь "
    "восьми девять девяти десять десяти двадцать тридцать сорок пятьдесят шестьдесят семьдесят "
    "восемьдесят девяносто сто двести триста тысяча тысячи тысяч миллион миллиона миллионов "
    "миллиард миллиарда миллиардов "
    # numerals of an order, but for the first, which is many other things
    "zweite zweiten zweiter zweites dritte dritten dritter drittes vierte vierten vierter fünfte "
    "fünften sechste sechsten siebte siebten achte achten neunte neunten zehnte zehnten deuxième "
    "troisième quatrième cinquième sixième septième huitième neuvième dixième segunda tercer "
    "tercera tercero cuarta cuarto quinta quinto sexta sexto séptima octava novena décima "
    "seconda terzo terza terceiro terceira quarta второй вторая второе второго вторую втором "
    "третий третья третье третьего третью третьем четвертый четвертая четвертое четвертого "
    "четвертую пятый пятая пятое пятого шестой шестая "
    "шестого седьмой седьмая седьмого восьмой восьмая девятый девятая десятый десятая "
    # Turkish, Greek, Arabic, Hebrew, Hindi, Vietnamese and Korean
    "iki üç dört beş yedi sekiz dokuz yirmi otuz kırk elli altmış yetmiş seksen doksan milyon "
    "milyar ikinci üçüncü dördüncü beşinci altıncı yedinci sekizinci dokuzuncu onuncu δύο δυο "
    "τρεισ τρία τριών τέσσερισ τέσσερα τεσσάρων πέντε έξι επτά εφτά οκτώ οχτώ εννέα εννιά δέκα "
    "έντεκα δώδεκα είκοσι τριάντα σαράντα πενήντα εξήντα εβδομήντα ογδόντα ενενήντα εκατό "
    "χιλιάδεσ εκατομμύρια εκατομμυρίων δισεκατομμύρια δισεκατομμυρίων δεύτεροσ δεύτερη δεύτερο "
    "τρίτοσ τρίτο τέταρτοσ τέταρτη τέταρτο πέμπτοσ πέμπτο اثنان اثنين اثنتين ثلاثة ثلاث أربعة "
    "أربع خمسة خمس ستة ست سبعة سبع ثمانية ثماني تسعة تسع عشرة عشر عشرون عشرين ثلاثون ثلاثين "
    "أربعون أربعين خمسون خمسين ستون ستين سبعون سبعين ثمانون ثمانين تسعون تسعين مئة مائة ألف آلاف "
    "مليون ملايين مليار مليارات سنتين سنتان هدفين الثاني الثانية الثالث الثالثة الرابع الرابعة "
    "الخامس الخامسة السادس السادسة السابع السابعة الثامن الثامنة التاسع التاسعة العاشر العاشرة "
    "שניים שתיים שלושה שלוש ארבעה ארבע חמישה חמש שישה שש שבעה שבע שמונה תשעה תשע עשרה עשר עשרים "
    "שלושים ארבעים חמישים שישים שבעים שמונים תשעים מאה אלף אלפים מיליון מיליארד שנייה השנייה "
    "שלישית השלישית רביעית הרביעית חמישית החמישית שלישי השלישי רביעי הרביעי חמישי החמישי שישי "
    "השישי בשלושה בארבעה בחמישה בשישה בשבעה दो तीन चार पांच पाँच छह सात आठ नौ दस ग्यारह बारह बीस "
    "तीस चालीस पचास साठ सत्तर अस्सी नब्बे सौ हजार हज़ार लाख करोड़ अरब दूसरा दूसरी दूसरे तीसरा "
    "तीसरी तीसरे चौथा चौथी चौथे पांचवां पांचवीं hai bốn sáu bảy tám chín mười nghìn triệu tỷ 두 "
    "세 "
    "네 다섯 여섯 일곱 여덟 아홉 열 첫 "
    "ii iii iv vii viii ix xii xiii xiv xv xvi xvii xviii xix xx xxi".split()
)
#: the same in Chinese, where they are parts of names too, so that alone they are no numerals
_HAN_NUMBERS: Final = frozenset("二三四五六七八九十百千万两")


@attrs.frozen
class StopWords:
    """A set of words in normal form, and a name that says which."""

    words: frozenset[str]
    name: str


@cache
def _shipped(language: str) -> frozenset[str]:
    path = files("dedup_middleware.text") / "data" / f"stopwords-{language}.txt"
    words = _folded(path.read_text("utf-8").splitlines()) - polarity().kept
    return frozenset(word for word in words if not _is_value(word))


def stop_words(choice: str | Iterable[str]) -> StopWords:
    """Read the choice of stop words.

    Args:
        choice: languages of the shipped lists, divided by commas (`"zh,en"`); `""` for none; or
            any other iterable: the words themselves.

    Raises:
        ValueError: no list is shipped for a language.
        TypeError: a stop word is no string.
    """
    if isinstance(choice, str):
        names, words = [], set[str]()
        for language in filter(None, map(str.strip, choice.split(","))):
            if language not in LANGUAGES:
                raise ValueError(
                    f"stop_words={choice!r}: no list for {language!r}; choose from "
                    f"{', '.join(LANGUAGES)}, or give a set of words"
                )
            words |= _shipped(language)
            names.append(f"{language}{len(_shipped(language))}")
        return StopWords(frozenset(words), "-".join(names) or "all")
    own = frozenset(choice)
    for word in own:
        if not isinstance(word, str):
            raise TypeError(f"stop_words holds {word!r}: every stop word must be a string")
    digest = hashlib.blake2b("\n".join(sorted(own)).encode("utf-8", "surrogatepass"), digest_size=4)
    return StopWords(_folded(own), f"own{len(own)}.{digest.hexdigest()}" if own else "all")


def _is_value(word: str) -> bool:
    """Whether a word may distinguish two things: a numeral, or a Latin letter as in vitamin C.

    >>> [word for word in ("a", "c", "7", "eight", "the") if _is_value(word)]
    ['c', '7', 'eight']
    """
    if word in NUMBER_WORDS or word in _HAN_NUMBERS or word.isdecimal():
        return True
    return len(word) == 1 and "b" <= word <= "z" and word != "i"


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(normalize, words)))
