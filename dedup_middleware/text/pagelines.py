"""Recognises lines that say nothing of a page's subject: adverts, buttons, addresses, credits.

An extractor leaves some of them between the paragraphs of an article, and they differ from site to
site, so they are left out of the comparison. Only whole lines of a few forms are meant; other
captions, standfirsts and sources are compared.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.chineselines import NOTICES, is_chinese_line, is_chinese_notice
from dedup_middleware.text.credits import (
    AGENCIES,
    CREDIT,
    CREDIT_ENDS,
    CREDITED,
    CREDITING,
    DAY,
    DOMAIN,
    is_agency_credit,
    is_byline,
    is_caption,
    is_names,
)
from dedup_middleware.text.englishlines import BEGINNINGS as ENGLISH
from dedup_middleware.text.englishlines import is_contact, is_english_line
from dedup_middleware.text.foreignlines import BEGINNINGS as FOREIGN
from dedup_middleware.text.foreignlines import is_foreign_line

_LONGEST: Final = 160  # most characters of such a line, and of one that is a Chinese sentence
_LONGEST_SENTENCE: Final = 40
LONGEST: Final = 320  # most characters of a line that reserves rights
_SENTENCE_ENDS: Final = ("。", "。”")
# Characters that may stand before such a line.
OPENING: Final = "([（【▲△"
AROUND: Final = "()[]（）【】▲△.。!！:：…»›→↓> "
_AROUND_ENGLISH: Final = AROUND + "—–_"
BUTTONS: Final = frozenset(word_lists()["buttons"])

_NETWORKS: Final = (
    r"facebook|twitter|instagram|youtube|linkedin|tiktok|telegram|whatsapp|messenger|pinterest"
    r"|телеграм\w*|вконтакте|дзен\w*|одноклассник\w*"
)
_NETWORK: Final = re.compile(_NETWORKS)
_LETTER: Final = r"newsletters?|inbox|boletín|infolettre|рассылк\w+|розсилк\w+|канал\w*"
# A line with a numeral is news: "In March Facebook removed 32 accounts".
_WORDS: Final = r"[^\d]"
_NETWORK_NAMES: Final = rf"(?:{_NETWORKS}|x|max|viber|threads|bluesky)"  # of which some are words
_SHARED: Final = rf"(?:{_NETWORK_NAMES}|e-?mail|print|reddit|sms|(?:copy )?link)"  # ways to share
_ON_NETWORKS: Final = rf"(?:our |the )?[«\"]?{_NETWORK_NAMES}\b"
#: the words behind the name of the first network in an invitation; the only group of the pattern
_BEHIND: Final = "(.*)"
_INVITING: Final = frozenset(word_lists()["inviting"])  # words that may stand there
_WEEKDAY: Final = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? )?"
_AGO: Final = r"(?:\d{1,2}|an?) (?:minute|hour|day)s? ago"
# How often a page was read, and how long ago it was made: 88 views · 3 days ago. `relevant` keeps
# such lines where they are data. Shares, visits and the like are missing: alone on a line they may
# be what a page is about (500 shares). Comments and replies are missing too: another number of them
# tells that a thread has grown.
_NUMBER: Final = r"\d[\d.,]*(?: \d{3}\b)*(?: ?[km万萬])?\+?"
_BEHIND_NUMBER: Final = (
    r"(?:views?|likes?|retweets?|followers?|reactions?|aufrufe?|vues?|partages?|visualizzazion[ei]"
    r"|condivision[ei]|visualizaç(?:ão|ões)|compartilhamentos?|просмотр(?:а|ов)?"
    r"|перегляд(?:и|ів)?|лайк(?:а|ов)?"
    r"|(?:про)?читали|прочтени[йяе]|репост(?:а|ов)?|[次人]?(?:阅读|閱讀|浏览|瀏覽|点赞|點贊|转发|轉發|收藏)|赞|いいね|좋아요)"
)
_BEFORE_NUMBER: Final = (
    r"(?:views|likes|retweets|aufrufe|vues|просмотр(?:ы|ов)|перегляд(?:и|ів)"
    r"|(?:阅读|閱讀|浏览|瀏覽|点击|點擊|点赞|點贊|转发|收藏)[量数數]?(?:次[数數])?|閲覧数|조회수?|좋아요)"
)
_LONG_AGO: Final = (
    r"(?:(?:last )?(?:posted|published|updated):? )?"
    r"(?:\d{1,2} ?[mhdw]|(?:\d{1,2}|an?) (?:second|minute|hour|day|week|month|year)s?) ago"
    r"|\d{1,2} ?(?:分钟|小时|天|个月)前"
    r"|\d{1,2} (?:минут[уы]?|час(?:а|ов)?|д(?:ень|ня|ней)|недел[юиь]|месяц(?:а|ев)?) назад"
    r"|vor \d{1,2} (?:minuten?|stunden?|tag(?:en)?|wochen?|monat(?:en)?)"
    r"|il y a \d{1,2} (?:minutes?|heures?|jours?|semaines?|mois)"
    r"|hace \d{1,2} (?:minutos?|horas?|días?|semanas?|mes(?:es)?)"
)
_COUNTED: Final = (
    rf"(?:{_NUMBER} ?{_BEHIND_NUMBER}|{_BEFORE_NUMBER} ?[:：]? ?[(（]?{_NUMBER}[次人]?[)）]?"
    rf"|{_LONG_AGO}|\d{{1,2}}[ -]min(?:ute)?s? read"
    r"|(?:время (?:чтения|прочтения)|читать|час читання):? \d{1,2} (?:мин|хв)[а-я]*"
    r"|\d{1,2} мин(?:\.|ут[аы]?)? (?:на чтение|чтения))"
)
# Next to another counter comments are counted for the page, too.
_NEXT_TO_IT: Final = rf"{_NUMBER} (?:comments?|shares?|комментари\w+)"
_COUNTERS: Final = rf"{_COUNTED}(?:[ ,;|·•/–—-]{{1,5}}(?:{_COUNTED}|{_NEXT_TO_IT})){{0,5}}"
_COUNTER: Final = re.compile(_COUNTERS)
#: beginnings of lines that end with a number in a gallery
NUMBERED: Final = "im ph pi sl fo bi фо"
_TO_NETWORKS: Final = rf"\b(?:{_NETWORKS}|max|соц(?:иальных )?сет\w+|мессенджер\w*)"
#: patterns of whole lines, each behind the first words by which `suspects` finds the line; _ is a
#: space. The first are invitations and buttons.
_INVITATIONS: Final = (
    # buttons side by side
    (
        "facebook twitter instagram telegram whatsapp телеграм вконтакте одноклассники share "
        "поделиться поділитися",
        rf"(?:{_NETWORK_NAMES}|(?:share|поделиться|поділитися)(?: (?:this|article|story|page|post"
        r"|on|via|в|у|соцсетях|новостью|новиною)){0,3}:?)"
        rf"(?:[ ,|/·•]{{1,3}}{_SHARED}){{1,8}}",
    ),
    # invitations to follow a network, or to subscribe to a newsletter
    (
        "follow like find join",
        rf"(?:(?:follow|like|find|join) (?:us|me|our)\b{_WORDS}{{0,60}}?\b(?:{_NETWORKS})\b"
        rf"|follow (?:[@\w.'’-]+ ){{1,6}}?(?:on|via) {_ON_NETWORKS}"
        rf"|like (?:[@\w.'’-]+ ){{1,4}}?on {_ON_NETWORKS}){_BEHIND}",
    ),
    (
        "sign subscribe get join",
        rf"(?:sign up|subscribe|get|join) {_WORDS}{{0,100}}\b(?:{_LETTER})\b{_WORDS}{{0,40}}"
        r"|(?:sign up|subscribe|register) (?:for|to) [^.!?\d]{0,60}"
        r"\b(?:e-?mails?|alerts?|briefings?)",
    ),
    (
        "folgen abonnieren suivez abonnez síguenos síganos sigue suscríbete seguici iscriviti "
        "siga inscreva assine подпис читайте хотите чтобы будьте не_про підпис слідку стежте щоб_",
        r"(?:folgen sie|folge|abonnieren|suivez|abonnez|síguenos|síganos|sigue|suscríb|seguici"
        r"|iscriviti|siga|inscreva|assine"
        r"|(?:(?:хотите|чтобы|щоб|будьте|не пропуст\w+)\b[^\d:?.!]{3,60}[?:,.!—–] )?"
        r"(?:подпиш|подписывай|читайте|підпиш|підписуй|слідкуй|стежте))\w*\b"
        rf"(?:{_WORDS}{{0,80}}\b(?:{_LETTER})\b{_WORDS}{{0,60}}"
        rf"|[^\d:]{{0,60}}?\b(?:auf|bei|unser\w*|sur|notre|en|nuestr\w+|su|nostr\w+|no|na|noss\w+"
        rf"|в|во|у|наш\w*) {_ON_NETWORKS}{_BEHIND})",
    ),
    (
        "больше більше все_ главн есть_ если заметил нашли самые самое важн стали якщо помітили "
        "знайшли присылайте пришлите",
        r"(?:больше|більше|все|(?:самые )?(?:главные|важные|интересные)) (?:\w+ ){0,2}"
        r"нов(?:ост|ин)\w*\W{1,3}"
        r"(?:читайте )?(?:в|на|у) наш\w+ "
        rf"(?:\w+ )?(?:{_NETWORKS}|канал)[\w-]*(?: «[^»]{{1,40}}»?| (?:в|на) {_ON_NETWORKS})?"
        rf"(?: и (?:в )?{_ON_NETWORKS})?"
        rf"(?:\. (?:подпис|читай|присоед)\w+{_WORDS}{{0,40}})?"
        rf"|самое (?:важное|интересное|главное)(?: и \w+)?\W{{1,3}}(?:в|на) (?:наш\w+ )?"
        rf"(?:{_NETWORKS}|канал)[\w-]*(?: «[^»]{{1,30}}»?)?(?: (?:в|на) {_ON_NETWORKS})?"
        r"|(?:есть (?:новость|тема|что рассказать)\?"
        r"|(?:если вы )?стали (?:свидетел|очевид)\w+|если вы хотите рассказать"
        r"|(?:если вы |якщо ви )?(?:заметили|нашли|помітили|знайшли) "
        r"(?:ошибк|опечатк|неточност|помилк)\w+|(?=присылайте|пришлите))"
        rf"{_WORDS}{{0,60}}\b(?:(?:при|на|со|по)?(?:пиш|шл|сыл|общ|звон)\w*те (?:\w+ ){{0,3}}"
        rf"(?:нам|(?:в|на) (?:наш\w*|почту редакции|редакцию))|ctrl)\b{_WORDS}{{0,40}}"
        rf"(?:\d[\d() -]{{8,16}}{_WORDS}{{0,30}})?",
    ),
    (
        "присоедин вступай мы_ обсуд следите",
        rf"(?:(?:присоединяйтесь|вступайте|следите|обсудить новость)\b[^\d:.]{{0,60}}?"
        rf"{_TO_NETWORKS}|мы (?:в|на) {_TO_NETWORKS}){_BEHIND}",
    ),
    ("комментари 0_ком", r"комментари(?:и|ев)\W{1,3}0|0 комментариев"),
    # signs of counters, and tags
    ("👁_ 👁️ 👀_ 💬_ 👍_ ❤_ ❤️", rf"(?:[👁👀💬👍❤]\ufe0f? ?{_NUMBER}[ ,|·•]{{0,5}}){{1,4}}"),
    ("добав", r"добав(?:ить|ьте) [^\d.]{1,40} в (?:избранное|источники)\b[^\d]{0,40}"),
    # an advert with the signs that Russian law requires of it
    (
        "реклама",
        r"реклама\b.{1,100}\b(?:erid: ?|инн ?\d).{1,40}|реклама\. (?:ооо|п?ао|ип) [^.\d]{1,40}",
    ),
    (
        "сетево",
        r"сетевое издание\b.{0,60} зарегистрирован\w+ "
        r"(?:в роскомнадзоре|роскомнадзором|федеральной служб)"
        r".{0,160}",
    ),
    (
        "прислать предлож сообщить",
        r"(?:прислать|предложить|сообщить) (?:свою )?новость\W{1,3}"
        r"(?:\d[\d() -]{8,16}|\S+@\S+)(?: ?\(?(?:whatsapp|telegram|viber|max)[\w, ]{0,30})?",
    ),
    (
        "мнени точка редакци",
        r"(?:мнени[ея]|точка зрения) (?:автор|редакци)\w* мо(?:жет|гут) не совпадать с [^\d.]{1,40}"
        r"|редакция (?:\w+ )?(?:может не разделять|не нес[её]т ответственности)[^\d.]{1,110}",
    ),
)
_BODIES: Final = "|".join(word_lists()["bodies"])
_FORMS: Final = (
    *_INVITATIONS,
    # the press office of a body at the end of its report
    (
        "пресс прес",
        rf"прес{{1,2}}-(?:служба|центр)(?: (?:(?:{_BODIES}|г?умвд|мвд|мчс|гу|су|ску?|рф|росси"
        r"|област|кра[йюя]|республик|район|округ|город|губернатор|глав[ыи]|мэр|росгварди)[а-яіїєґ]*"
        r"|по|и|та|в|г\.?|[а-яёіїєґ-]+[сц]к(?:ой|ого|ому|их)|[а-яё]+н(?:ого|ой)"
        r"|(?:города?|городу|міст[ау]) [\w-]+)){1,8}",
    ),
    # the credit of a picture, behind a word for it, or its number in a gallery
    (
        "image photo picture video main featured cover",
        r"(?:main |featured |cover )?(?:image|photo|picture|video)s?"
        rf"(?: (?:credits?|source|copyright|courtesy of|by)\b|\s*:){CREDITED}",
    ),
    (NUMBERED, rf"(?:{'|'.join(NUMBERED.split())})\w* \d{{1,3}} (?:of|von|de|di|из) \d{{1,3}}"),
    (
        "credit crédit foto bild фото видео иллюстраци коллаж скриншот",
        r"(?:credits?|crédits?(?: photos?)?|fotos?|bild(?:quelle)?|фото|видео|иллюстрация|коллаж"
        rf"|скриншот)\s*:{CREDITED}",
    ),
    ("©_", rf"© {CREDITED}"),
    (
        "фото",
        r"фото(?:графии)? предоставлен[оы] (?:пресс-служб|редакци|автор|читател)\w+[^.!?\d]{0,40}",
    ),
    # the address of the original, and who pays for links
    (
        "подробнее источник source via_ via: more read 原文 本文",
        r"(?:подробнее|источник|source|via|more|read more|原文(?:链接|地址)?|本文链接) ?[:：] ?"
        r"https?://\S+",
    ),
    (
        "if_ when we_ this",
        r"(?:(?:if|when) you (?:buy|purchase|click|shop|book)\b[^.!?\d]{0,80}, )?"
        r"(?:we|this site) (?:may|might|can) (?:earn|receive|get)\b[^.!?\d]{0,40}"
        r"\b(?:commission|compensation)s?\b[^.!?\d]{0,60}",
    ),
    (
        "подробнее",
        r"подробнее (?:читайте )?(?:на (?:нашем )?сайте|в (?:нашем )?материале)"
        r"(?: [«a-zа-яё»-]+){0,4}",
    ),
    (
        "get do_ this",
        r"(?:get in touch:? )?do you have a story (?:suggestion|idea|tip|to share)\b[^.\d]{0,40}"
        r"|this (?:story|article) (?:has been|was|will be|is being) updated"
        r"(?: with (?:additional|more|new|further) (?:details|information))?"
        r"|this is a (?:breaking|developing)(?: news)? story"
        r"(?:[ ,.]+(?:and )?(?:it )?will be updated)?",
    ),
    # which page of an article this is
    (
        "page seite página pagina страница стр",
        r"(?:page|seite|página|pagina|страница|стр\.?) \d{1,3} ?(?:of|von|sur|de|di|из|/) ?\d{1,3}",
    ),
    # Names have no numerals, and behind most verbs one of these characters follows.
    (
        "图片 图源 题图 圖片 摄影",
        r"(?:图片来源|图源|题图来源|圖片來源|摄影)\s*[:：|/]"
        r"[^\d。，！？；,!?;了被将將在已称稱说說是与與]{1,24}",
    ),
    ("图片 视频 网络 来自", r"(?:图片(?:均?来(?:自|源于?))?|来自)?(?:视频截图|网络截图|网络)"),
    ("like enjoy", r"(?:like|liked|enjoy|enjoyed|enjoying) this (?:story|article)\?.{0,60}"),
    (
        "views likes retweets aufrufe vues просмотр перегляд время_ читать час_чит 阅读 閱讀 "
        "浏览 瀏覽 点击 點擊 点赞 點贊 转发 收藏 閲覧 조회 좋아 vor_ il_y hace",
        _COUNTERS,
    ),
    (
        "свидетельств",
        r"свидетельство о регистрации .{0,40}№ ?(?:эл )?(?:№ ?)?фс ?\d\d[\d –-]{0,12}"
        r"(?:,? ?(?:от \d|выдан).{0,70})?\.?",
    ),
    ("扫码 扫描 长按", r"(?=扫码|扫描|长按).{0,16}(?:关注|二维码).{0,20}"),
    ("关注 欢迎", r"(?:欢迎)?关注.{0,16}(?:公众号|微博).{0,16}"),
    ("转载", r"转载请(?:注明|联系).{0,40}"),
    ("未经", r"未经.{0,8}(?:授权|许可|允许).{0,4}(?:不得|禁止|严禁).{0,16}"),
    # copyright
    (
        "copyright ©_ ©« ©1 ©2 ⓒ_ ⓒ1 ⓒ2 c)",
        r"(?:copyright|[©ⓒ](?=[ 12])|c\))(?: ?(?:©|ⓒ|\(c\)))? ?\d{4}(?:-\d{4})?[^.!?]{0,60}"
        r"(?:\. all rights reserved)?|© (?:[a-z]{2,12} ){1,4}(?:19|20)\d\d"
        r"|© ?«[^«»\d]{2,40}»,? (?:19|20)\d\d(?:[–-](?:19|20)\d\d)?",
    ),
    # the day on which a page was made
    (
        "published posted updated last first",
        r"(?:published|posted|updated|last (?:updated|modified)|first published)"
        rf"(?: on)?:? {_WEEKDAY}{DAY}"
        r"(?:(?:,| /)? (?:at )?\d{1,2}[:.]\d\d(?::\d\d)?(?: ?[ap]\.?m\.?)?(?: [a-z]{2,4})?)?"
        rf"(?: ?\| ?updated: (?:{_AGO}|{DAY}.{{0,24}})|, updated (?:on )?{_WEEKDAY}{DAY})?",
    ),
    # how long it takes to read, and what readers clicked
    ("estimated read", r"(?:estimated )?read(?:ing)? time: \d{1,2}(?:-\d{1,2})? min(?:ute)?s?"),
    ("love", r"love \d+ funny \d+ wow \d+ sad \d+ angry \d+"),
    # a byline with the day, the signature of a quoted message
    (
        "by_ written edited reported curated",
        r"(?:(?:written|edited|reported|curated) )?by [^.!?\d]{3,60}"
        rf"(?: ?[—–|,-](?: (?:last )?updated:?)?| on|) ?{DAY}(?:,? \d{{1,2}}:\d\d [a-z]{{2,4}})?",
    ),
    ("von par por di_ di: автор", rf"(?:von|par|por|di|автор):? [^.!?\d]{{3,60}} ?[—–|] ?{DAY}"),
    ("—_ –_", rf"[—–] .{{1,60}} \(@\w{{1,30}}\) {DAY}"),
)
_ADDRESS: Final = re.compile(
    r"https?://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+|@\w{2,30}|(?:[\w-]+\.){1,3}com/\S+", re.ASCII
)
_LINKS: Final = frozenset(word_lists()["page-links"])
PAGE_ROWS: Final = frozenset(word_lists()["page-rows"]) | _LINKS
# of several, also without names
_TOPICS: Final = frozenset(("tags", "topics", "filed under", "теги", "метки", "ключевые слова"))
_HASHTAGS: Final = re.compile(r"(?:#[\w-]{2,40}[,; ]*){1,16}")
# What stands between parts of a line, and between sentences.
_BETWEEN: Final = re.compile(r" ?[|•·›»] ?")
_SENTENCES: Final = re.compile(r"(?<=[.!]) +")
_SENTENCES_OR_QUESTIONS: Final = re.compile(r"(?<=[.!?]) +")
_SECTION: Final = re.compile(r"[A-Z][\w&'’-]*(?: (?:[A-Z][\w'’-]*|&|and|of)){0,3}")
_MOST_PARTS: Final = 8
_LEAST_HEADLINE: Final = 3  # words
_LONGEST_VALUE, _LONGEST_WITHOUT_CAPITALS = 60, 16  # a longer one may be a sentence
# A line that reserves rights, without numerals other than years.
_RIGHTS: Final = re.compile(
    r"(?:this (?:\w+ ){0,2}(?:document|article|material|story|content|work) "
    r"(?:is (?:subject to|protected by) copyright|is available only for"
    r"|may not be (?:published|reproduced|copied))"
    r"|(?:(?:copyright|[©ⓒ]|™ ?(?:& ?)?©) ?[^!?]{1,100}?\.? ?)?all rights reserved"
    r"|no part of this \w+ may be|reproduction (?:in whole or in part|without permission)"
    r"|alle rechte vorbehalten|tous droits réservés|todos los derechos reservados"
    r"|tutti i diritti riservati|todos os direitos reservados|все права (?:\w+ ){0,3}защищены"
    r"|(?:[©ⓒ] ?(?:[^!?]{1,60}?\. )?)?(?:перепечатка|при (?:использовании|цитировании|перепечатке))"
    r" (?:\w+ ){0,3}(?:материалов|материала)\b)"
)
# How to cite a page; and the caption of a picture, with its credit.
_CITATION: Final = re.compile(r"citation: .{1,160} retrieved .{1,24} from.{0,160}")
# Lines that begin with a number, in digits that `suspects` knows: that of a picture in a series,
# the length of a video with its source, and counters.
_NUMBERS: Final = re.compile(
    r"(?=[0-9])(?:\d{1,3} of \d{1,3} ?\||\d\d:\d\d - source: [^\W\d]{2,9}(?: news)?"
    rf"|{_COUNTERS})"
)
LONGEST_NUMBERS: Final = 60  # most characters of such a line
# The words behind the beginning of a line that reserves rights; with other words it is news.
_PERMITTED: Final = re.compile(
    r"permission|permitted|consent|licen[cs]e|copyright|©|reproduc|rewritten|redistribut|prohibited"
    r"|forbidden|non-?commercial|genehmigung|autorisation|autorización|ссылк|разрешени|согласи"
)
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_NOTICES: Final = (
    "this all_ copyright ©_ ©2 ™_ no_part reproduction alle tous todos tutti все_ перепечатка при_ "
    "citation"
)
_BYLINES: Final = (
    "by_ story written posted words text von автор текст additional report writing edit "
    "compiled curated translated photographs medically reviewed fact"
)
# The first two characters rule out most patterns for most lines, which saves a microsecond each.
_BEGINNING: Final = 2


def _beginnings(words: str) -> frozenset[str]:
    return frozenset(word[:_BEGINNING].replace("_", " ") for word in words.split())


_FORMS_BEGIN: Final = _beginnings(" ".join(words for words, _ in _FORMS)).union(
    label[:_BEGINNING] for label in BUTTONS
)
_NOTICES_BEGIN, _BYLINES_BEGIN = _beginnings(_NOTICES), _beginnings(_BYLINES)
_CHINESE_NOTICES: Final = _beginnings(NOTICES)
#: beginnings of all forms except buttons, numbers in a gallery, and Chinese rows
BEGINNINGS: Final = " ".join(
    (
        *(words for words, _ in _FORMS if words != NUMBERED),
        *(_NOTICES, _BYLINES, NOTICES, ENGLISH, FOREIGN),
    )
)
_FORM: Final = re.compile("|".join(form for _, form in _FORMS))
_INVITATION: Final = re.compile("|".join(form for _, form in _INVITATIONS))


def is_page_row(line: str) -> bool:
    """Whether a line is the label of who made the page, or of where it is from, with names; or of
    another page, with a headline.

    >>> lines = "Source: Valley Gazette", "Next article: Ferry is late"
    >>> [is_page_row(line) for line in lines]
    [True, True]
    >>> lines = "Source: unwashed lettuce", "Editor: Never!", "Genre: News", "Next: Ferry is late"
    >>> [is_page_row(line) for line in lines]
    [False, False, False, False]
    """
    label, _, value = line.strip().replace("：", ":").partition(":")
    label = label.rstrip().lower()
    lists = label in _TOPICS and "," in value
    longest = _LONGEST_VALUE if lists or value != value.lower() else _LONGEST_WITHOUT_CAPITALS
    is_value = 0 < len(value) <= longest and not any(map(str.isdigit, DOMAIN.sub("", value)))
    says = value.endswith((".", "!", "?", *_SENTENCE_ENDS))  # as in an interview
    if not is_value or says or label not in PAGE_ROWS:
        return False
    if label in _LINKS:
        return len(value.split()) >= _LEAST_HEADLINE
    return lists or is_names(value)


def _invites(words: str) -> bool:
    """Whether behind the name of a network there are only other names and instructions to click.

    >>> _invites(", Twitter and @lake for more."), _invites(" as ministers resign")
    (True, False)
    """
    return all(
        word in _INVITING or not word or {"@", ".", "/"} & set(word) or _NETWORK.match(word)
        for word in (part.strip('.,!…:;()&|-«»"') for part in words.lower().split())
    )


def _reserves(lower: str) -> bool:
    """Whether a line, in lower case, reserves rights and has no numerals other than years.

    >>> _reserves("all rights reserved. no part may be reproduced."), _reserves("all rights are 3")
    (True, False)
    >>> _reserves("all rights reserved for heirs, the court ruled")
    False
    """
    found = _RIGHTS.match(lower)
    if found is None or any(map(str.isdigit, _YEAR.sub("", lower))):
        return False
    rest = lower[found.end() :].strip(AROUND)
    return not rest or _PERMITTED.search(rest) is not None


def is_joined(line: str) -> bool:
    """Whether a line has several parts, all about the page: lines that stand side by side, with the
    names of sections or agencies (at least one part is none), or sentences.

    >>> is_joined("Home | News | Courts"), is_joined("Lake Press • 2 min read"), is_joined("A | B")
    (True, True, False)
    >>> is_joined("Already a subscriber? Log in. All rights reserved.")
    True
    """
    parts = _BETWEEN.split(line.strip(AROUND + "|•·›»"))
    if len(parts) == 1:
        some = _SENTENCES.split(line.strip()), _SENTENCES_OR_QUESTIONS.split(line.strip())
        return any(1 < len(p) <= _MOST_PARTS and all(map(_is_single, p)) for p in some)
    rest = parts[1:] if parts[0] in ("Home", "HOME") else [p for p in parts if not _is_single(p)]
    return (
        1 < len(parts) <= _MOST_PARTS
        and len(rest) < len(parts)
        and all(_SECTION.fullmatch(part) or _is_single(part) for part in rest)
    )


def _is_by(text: str) -> bool:
    """Whether a line says only who wrote the page, or how to write to them."""
    return is_byline(text.rstrip(AROUND)) or ("@" in text and is_contact(text))


def _has_form(text: str) -> bool:
    """Whether a line is a heading, a button, a credit, an invitation or the like."""
    lower = text.lower()
    match = _FORM.fullmatch(lower)
    if match is None:
        return lower in BUTTONS
    credit = CREDIT.match(text)
    named = credit is None or is_names(credit[1])
    return lower in BUTTONS or (named and all(map(_invites, filter(None, match.groups()))))


def reserves_rights(line: str) -> bool:
    """Whether a line says only that the page may not be copied.

    >>> reserves_rights("All rights reserved."), reserves_rights("All rights are lost")
    (True, False)
    """
    text = line.strip().lower()
    return len(line) <= LONGEST and (_reserves(text) or _is_chinese_notice(text))


def is_english_source(line: str) -> bool:
    """Whether a line says where an English report is from (see `englishlines`).

    >>> is_english_source("(With inputs from agencies)")
    True
    >>> is_english_source("With inputs from agencies it grew")
    False
    """
    return len(line) <= LONGEST and is_english_line(line.strip(_AROUND_ENGLISH))


def is_button(line: str) -> bool:
    """Whether a line about the page is a button or an invitation: no subject of any page.

    >>> [is_button(line) for line in ("Share this story", "Photo: Ann Shepherd")]
    [True, False]
    """
    lower = line.strip().strip(AROUND).lower()
    some = _BETWEEN.split(lower) if _BETWEEN.search(lower) else _SENTENCES.split(lower)
    parts = (part.strip(AROUND) for part in some)
    return all(part in BUTTONS or _INVITATION.fullmatch(part) for part in parts)


def is_counter(line: str) -> bool:
    """Whether a line says only how often a page was read, or how long ago it was made.

    >>> [is_counter(line) for line in ("88 views · 3 days ago", "(Views: 88)", "88 views of it")]
    [True, True, False]
    """
    return (
        len(line) <= _LONGEST and _COUNTER.fullmatch(line.strip().strip(AROUND).lower()) is not None
    )


def _is_chinese(lower: str) -> bool:
    """Whether a line, in lower case, is one of those of `chineselines`."""
    return not lower.isascii() and (_is_chinese_notice(lower) or is_chinese_line(lower))


def _is_chinese_notice(lower: str) -> bool:
    text = lower.lstrip(AROUND) if lower[:1] in OPENING else lower
    return text[:_BEGINNING] in _CHINESE_NOTICES and is_chinese_notice(text)


def _is_notice(lower: str) -> bool:
    """Whether a line, in lower case, reserves rights or says how to cite the page."""
    return _reserves(lower) or _CITATION.fullmatch(lower) is not None


def is_page_line(line: str) -> bool:
    """Whether a line, or each of its sentences and parts, says nothing of what a page is about.

    Callers check only the lines that `suspects` finds: a new form must be added there too.

    >>> [is_page_line(line) for line in ("Share this story", "Photo: Ann Shepherd", "Share prices")]
    [True, True, False]
    """
    return len(line) <= LONGEST and (_is_single(line) or is_joined(line))


def _is_single(line: str) -> bool:
    text = line.strip()
    begins = text[:_BEGINNING].lower()
    lower = text.lower()
    credited = ")" in text[-CREDIT_ENDS:] or CREDITING.search(lower) or lower.endswith(AGENCIES)
    if (
        (begins in _NOTICES_BEGIN and _is_notice(lower))
        or (credited and is_caption(text, lower))
        or (len(text) <= LONGEST_NUMBERS and _NUMBERS.fullmatch(lower))
        or _is_chinese(lower)
        or (text[:1] == "#" and _HASHTAGS.fullmatch(text))
        or is_english_source(text)
        or is_foreign_line(text)
    ):
        return True
    if len(line) > _LONGEST or (len(line) > _LONGEST_SENTENCE and line.endswith(_SENTENCE_ENDS)):
        return False
    if text[:1] in OPENING:
        text = text.strip(AROUND)
        begins = text[:_BEGINNING].lower()
    if (begins in _FORMS_BEGIN and _has_form(text.rstrip(AROUND))) or (
        (begins in _BYLINES_BEGIN or "@" in text or "contributed" in text) and _is_by(text)
    ):
        return True
    if text.lower().endswith(AGENCIES):
        return is_agency_credit(text)
    return " " not in text and text.isascii() and _ADDRESS.fullmatch(text) is not None
