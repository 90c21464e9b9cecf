"""Recognises lines about the page on German, French, Spanish, Italian, Portuguese, Polish, Turkish,
Japanese, Korean and Arabic sites: bylines, stamps, notices to readers, captions with credits.

Each has a fixed wording, in which only names, days and addresses vary. Lines with a constant text
are in the list of buttons.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import Beginnings, word_lists
from dedup_middleware.text.clauses import MONTHS
from dedup_middleware.text.pageforms import invites
from dedup_middleware.text.patterns import compiled_late

_HOMES: Final = "|".join(map(re.escape, word_lists()["homes"]))
#: beginnings of the lines, for `suspects`
BEGINNINGS: Final = word_lists()["homes"] + word_lists()["foreign-lines"]
_WIRES: Final = "dpa|afp|efe|ansa|lusa|pap|sipa|imago|reuters|epa|ap|keystone|apa"
_NETWORKS: Final = (
    r"facebook|instagram|twitter|youtub|whatsapp|telegram|google|tiktok|linkedin|messenger"
)
_ON: Final = (
    r"(?:(?:sur|via|en|por|su|no|na|pelo|auf|bei|per|über) (?:\w+ ){0,2}?"
    rf"(?:canal (?:de |do )?)?(?:{_NETWORKS})\w*|newsletter|boletín|ihr postfach"
    r"|(?:nuestro|nosso) (?:canal|grupo)|notre chaîne|unserem kanal)"
)
# `pageforms.invites` checks the groups.
_REST: Final = r"([^\d.:]{0,70})"
_RESERVED: Final = "|".join(word_lists()["reserved"])
_READERS: Final = r"abonnés|suscriptores|abonados|abbonati|assinantes|subscritores|prenumeratorów"
_ARCHIVE: Final = r"archiv\w*|arşiv|أرشيف\w*|資料写真|자료 ?사진"
_PICTURE: Final = (
    r"(?:foto|fotoğraf|photo(?= d['’])|bild|imagen|immagine|imagem|الصورة|写真|사진)\b"
)
_SOURCES: Final = "|".join(word_lists()["picture-sources"])
_SAID: Final = r"(?:[^.!?\d]|\b(?:19|20)\d\d\b){2,80}"  # of a caption
#: lines in small letters, without brackets and full stop around them
_NOTICES: Final = (
    # where the site files the page, how long it takes to read
    rf"(?:home|{_HOMES})(?: ?[>/»›→] ?[^>/»›→.!?\d]{{2,40}}){{1,4}}",
    r"a cura d(?:i|el|ella) [^.\d]{3,40}",
    r"(?:temps de lecture|lesezeit|lesedauer|tiempo de lectura|tempo de leitura|tempo di lettura"
    r"|okuma süresi|読了時間)[ :]{0,3}(?:約|ca\. )?\d{1,2} ?(?:min\w*|dk|dakika|分)",
    r"\d{1,2} (?:minut[io]s? d[ie] (?:lettura|lectura|leitura)|min\.? (?:lesezeit|de lecture))",
    # who may read it
    r"(?:cet |ce |este |questo )?(?:article|contenu|contenido|artículo|contenuto|articolo|conteúdo"
    rf"|artigo|matéria|treść|artykuł|exclusivo)\b(?: (?:{_RESERVED})){{0,6}} (?:{_READERS})",
    r"(?:il vous )?reste \d{1,2} ?% de (?:cet article|l['’]article) à lire",
    r"(?:pozostało|zostało)(?: ci)? \d{1,2} ?% (?:artykułu|tekstu|treści)(?: do przeczytania)?",
    r"weiterlesen mit [^.!?\d]{0,24}(?:abo\b|abonnement|plus|\+|premium|konto|account|zugang)"
    r"[^.!?\d]{0,12}|dies\w+ (?:artikel|beitrag) ist (?:nur|exklusiv) für [^.!?\d]{0,24}"
    r"(?:abonnent|mitglied|nutzer|leser|kunden|plus|premium|digital|registriert)[^.!?\d]{0,20}",
    r"(?:この記事は)?.{0,6}(?:会員|有料|購読者)(?:限定|専用|記事)(?:です)?"
    r"(?:。残り[:： ]?\d{1,5}文?字)?|残り[:： ]?\d{1,5}文?字.{0,14}",
    r"이 (?:기사|콘텐츠)는 .{0,16}(?:회원|구독자) ?(?:전용|만).{0,10}",
    r"(?:로그인|구독|가입).{0,10}(?:후|하시면|하면) .{0,20}(?:읽을|볼|보실) 수 있습니다",
    r"(?:haberin )?devamı için .{0,20}tıklayın(?:ız)?",
    r"هذا المحتوى .{0,10}(?:للمشتركين|للأعضاء).{0,10}",
    # invitations
    r"(?:suivez|abonnez|inscrivez|rejoignez|recevez|síguenos|únete|suscríbete|apúntate|seguici"
    r"|iscriviti|resta aggiornato|participe|receba|inscreva-se|acompanhe|polub|śledź|obserwuj"
    r"|dołącz|zapisz się|subskrybuj|bądź na bieżąco|folgen sie|folge uns|abonnieren sie"
    rf"|melden sie sich|holen sie sich)\b{_REST}{_ON}{_REST}",
    r"(?:unseren? |jetzt )?newsletter (?:abonnieren|bestellen)[^\d]{0,90}",
    r"bizi [^\d.:]{1,30}takip ed(?:in|ebilirsiniz)",
    r"(?:公式)?(?:line|x|facebook|instagram|youtube).{0,12}(?:フォロー|友だち追加|チャンネル登録).{0,8}",
    r"(?:네이버|카카오|유튜브|구글)\S{0,4} ?\D{0,14}"
    r"(?:(?:채널|친구|홈|언론사|플친) ?추가|구독|팔로우)(?:하|해)?(?:기|세요|주세요| 주세요)?",
    r"(?:تابعنا|تابعونا|اشترك|انضم|حمل|للاطلاع)\b([^\d.]{0,40})(?:فيسبوك|تويتر|واتساب|تلغرام|تليجرام"
    r"|يوتيوب|إنستغرام|جوجل|غوغل|تطبيقنا|النشرة|قناتنا)([^\d.]{0,30})",
    # to write to the editors
    r"(?:vous avez (?:trouvé|repéré|relevé) [^.\d]{0,20}(?:coquille|erreur)"
    r"|haben sie [^.\d]{0,20}fehler (?:gefunden|entdeckt)|hai (?:trovato|notato) [^.\d]{0,20}errore"
    r"|masz (?:dla nas )?temat|(?:fe de erratas: )?si (?:detecta|has detectado) [^.\d]{0,20}error"
    r"|encontrou (?:algum |um )?erro|제보(?:는|하기)?[: ](?:카카오|\S*@))[^\d]{0,90}",
    # who made the text, and who may copy it
    r"(?:hinweis der redaktion: )?dieser (?:text|artikel|beitrag) (?:wurde|ist) [^.!?\d]{0,80}"
    r"\b(?:(?:nachrichten|presse|dpa-)?agentur|automati\w+|ki)\b[^.!?\d]{0,80}",
    r"texto escrito ao abrigo d.{1,50}|anadolu ajansı web sitesinde.{1,150}",
    r"※.{0,20}(?:記事|情報|内容).{0,12}(?:時点|当時)のもの(?:です)?",
    r"(?:저작권자|[ⓒ©]) ?[^\d]{1,40}(?:무단|금지)[^\d]{0,50}",
    r"riproduzione riservata.{0,30}|© dpa-infocom.{0,40}|[©ⓒ][^\s.!?\d]{2,24}",
    r"(?:copyright )?(?:© ?)?[^.!?\d]{0,40}(?:wszelkie prawa zastrzeżone|tüm hakları saklıdır)",
)
_CREDITS: Final = (
    # With other words behind the label it is a caption that may say anything.
    r"(?:fot|zdj)\. [^.!?\d]{2,40}|写真[:：=＝] ?[^。\dがをはに]{1,20}(?:提供|撮影)"
    rf"|写真[:：=＝] ?(?:{_SOURCES})(?:通信)?社?|写真 ?提供[:：=＝] ?[^。\d]{{1,24}}"
    r"|사진 ?[=:] ?[^\d.]{1,24}(?:제공|촬영|캡처|캡쳐|기자|특파원)"
    rf"|사진 ?[=:] ?(?:{_SOURCES})(?: ?[/,·] ?[a-z가-힣]{{2,10}}){{0,2}}",
    r".{2,80}[\[(][^\[\]()]{2,20}(?<!무료)(?<!유료)(?<!무상) 제공",
    rf"{_SAID}\.? ?\({_PICTURE}[^()\d]{{0,40}}\)?(?: photo [^.!?\d]{{2,20}})?",
    rf"{_SAID}\.? ?\((?:{_ARCHIVE})\)?|[^.!?]{{2,60}}/ ?archiwum(?: ?/ ?\w+)?",
    rf"[^.!?]{{2,60}}\b(?:foto|photo|bild)\b[^.!?]{{0,30}}\((?:{_WIRES})\)?",
    rf"[^.!?\d]{{2,80}}\. (?:[^(.!?\d]{{4,40}}/ ?(?:{_WIRES})|(?:{_WIRES})/ ?[^.!?\d]{{2,30}})",
    r".{2,60}[＝=](?:[^、。]{0,20})(?:撮影|提供)",
)
_NAME: Final = r"[^\W\d_a-z][\w.'’-]*"
_WITH: Final = r",? (?:(?:und|et|e|y|avec|mit|con|com) )?"
#: lines whose capitals count, or in scripts without any
_BYLINES: Final = (
    rf"(?:[Vv]on|[Pp]ar|[Pp]or|[Dd]i):? {_NAME}(?:{_WITH}{_NAME}){{1,5}}",
    r"[가-힣]{2,4}(?:[·, ]{1,2}[가-힣]{2,4}){0,3} ?[가-힣]{0,4}(?:기자|특파원)"
    r"(?: ?[\w.+-]+@[\w.-]+)?",
    r"[^、。\d]{1,12}(?:支局|総局|通信部|編集部|編集委員|特派員|記者)(?:[・=＝ 　][^、。\d]{1,8})?",
)
#: ends of lines, for `suspects`
ENDINGS: Final = word_lists()["foreign-ends"]
# Compiled on first use: few crawls need them.
_NOTICE, _CREDIT, _BYLINE = (
    compiled_late("|".join(lines)) for lines in (_NOTICES, _CREDITS, _BYLINES)
)
_STAMPED: Final = frozenset(word_lists()["stamped"])
_STAMP_WORDS: Final = _STAMPED.union(
    MONTHS, *(word_lists()[name] for name in ("allowed", "counted", "short-months", "stamp-words"))
)
_WHEN: Final = re.compile(r"(?:19|20)\d\d|\d ?[:h時] ?\d\d")
_LONGEST: Final = 160
_BEGIN: Final = Beginnings(BEGINNINGS)
_WORDS: Final = re.compile(r"[^\W\d_]+")
AROUND: Final = "()[]（）【】▲△.。!！:：…»›→↓> *<_-–—"


def _lower(text: str) -> str:
    return text.lower().replace("i̇", "i")  # of Turkish İ


def _is_stamp(lower: str) -> bool:
    """Whether a line says only when a page was made."""
    if _WHEN.search(lower) is None:
        return False
    words = _WORDS.findall(lower)
    return all(word in _STAMP_WORDS for word in words) and not _STAMPED.isdisjoint(words)


def is_foreign_notice(line: str) -> bool:
    """Whether a line is a stamp, an invitation or a notice: no subject of any page.

    >>> [is_foreign_notice(line) for line in ("Contenuto riservato agli abbonati", "fot. Jan Rak")]
    [True, False]
    """
    if len(line) > _LONGEST:
        return False
    text = line.strip().strip(AROUND)
    lower = _lower(text)
    found = _NOTICE().fullmatch(lower)
    return _is_stamp(lower) or (found is not None and invites(text, found))


def is_foreign_line(line: str) -> bool:
    """Whether a line says nothing of what a page is about.

    >>> [is_foreign_line(line) for line in ("Par Ann Rive avec AFP", "Stand: 3.4.2031, 11:32 Uhr")]
    [True, True]
    >>> [is_foreign_line(line) for line in ("Par temps de pluie", "Stand der Dinge: 3 Boote")]
    [False, False]
    """
    text = line.strip().strip(AROUND)
    lower = _lower(text)
    begins = lower in _BEGIN or lower.endswith(ENDINGS) or text[:1].isdigit()
    if len(line) > _LONGEST or not (begins or "@" in text or line[-1:] in ")]）"):
        return False
    return (
        is_foreign_notice(line)
        or _CREDIT().fullmatch(lower) is not None
        or _BYLINE().fullmatch(text) is not None
    )
