"""Patterns of lines that say nothing of a page's subject: invitations, buttons, counters, credits.

`pagelines` says which lines match them, and `suspects` finds such lines by their first words.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.clauses import MONTHS
from dedup_middleware.text.credits import CREDITED, DAY
from dedup_middleware.text.patterns import compiled_late

_NETWORKS: Final = (
    r"facebook|twitter|instagram|youtube|linkedin|tiktok|telegram|whatsapp|messenger|pinterest"
    r"|телеграм\w*|вконтакте|дзен\w*|одноклассник\w*"
)
_LETTER: Final = r"newsletters?|inbox|boletín|infolettre|рассылк\w+|розсилк\w+|канал\w*"
_NETWORK: Final = re.compile(rf"{_NETWORKS}|{_LETTER}")
# A line with a numeral is news: "In March Facebook removed 32 accounts".
_WORDS: Final = r"[^\d]"
_NETWORK_NAMES: Final = rf"(?:{_NETWORKS}|x|max|viber|threads|bluesky)"  # of which some are words
_SHARED: Final = rf"(?:{_NETWORK_NAMES}|e-?mail|print|reddit|sms|(?:copy )?link)"  # ways to share
_ON_NETWORKS: Final = rf"(?:our |the )?[«\"]?{_NETWORK_NAMES}\b"
# The words behind the name of the first network in an invitation. `invites` checks all groups.
_BEHIND: Final = "(.*)"
_INVITING: Final = frozenset(word_lists()["inviting"])  # words that may stand there
_NO_NAMES: Final = MONTHS.union(word_lists()["weekdays"], word_lists()["short-months"])
_QUOTED: Final = re.compile(r"[«“\"][^«»“”\"]{1,40}(?:[»”\"]|$)")
_WEEKDAY: Final = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? )?"
_AGO: Final = r"(?:\d{1,2}|an?) (?:minute|hour|day)s? ago"
# How often a page was read, and how long ago it was made: 88 views · 3 days ago. `relevant` keeps
# such lines where they are data. Shares, visits, followers and the like are missing: alone on a
# line they may be what a page is about (500 shares). Comments and replies are missing too: another
# number of them tells that a thread has grown.
_NUMBER: Final = r"\d[\d.,]*(?: \d{3}\b)*(?: ?[km万萬])?\+?"
_BEHIND_NUMBER: Final = (
    r"(?:views?|likes?|retweets?|aufrufe?|vues?|partages?|visualizzazion[ei]"
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
_NEXT_TO_IT: Final = rf"{_NUMBER} (?:comments?|shares?|followers?|reactions?|комментари\w+)"
COUNTERS: Final = rf"{_COUNTED}(?:[ ,;|·•/–—-]{{1,5}}(?:{_COUNTED}|{_NEXT_TO_IT})){{0,5}}"
COUNTER: Final = compiled_late(COUNTERS)
#: beginnings of lines that end with a number in a gallery
NUMBERED: Final = "im ph pi sl fo bi фо"
_TO_NETWORKS: Final = rf"\b(?:{_NETWORKS}|max|соц(?:иальных )?сет\w+|мессенджер\w*)"
#: patterns of whole lines, each behind the first words by which `suspects` finds the line; _ is a
#: space. The first are invitations and buttons.
INVITATIONS: Final = (
    # buttons side by side
    (
        "facebook twitter instagram telegram whatsapp linkedin tiktok messenger pinterest threads "
        "viber bluesky max_ телеграм вконтакте одноклассники share поделиться поділитися",
        rf"(?:{_NETWORK_NAMES}|(?:share|поделиться|поділитися)(?: (?:this|article|story|page|post"
        r"|on|via|в|у|соцсетях|новостью|новиною)){0,3}:?)"
        rf"(?:[ ,|/·•]{{1,3}}{_SHARED}){{1,8}}",
    ),
    # invitations to follow a network, or to subscribe to a newsletter
    (
        "follow_ like_ find_us find_me find_our join_",
        rf"(?:(?:follow|like|find|join) (?:us|me|our)\b({_WORDS}{{0,60}}?)\b(?:{_NETWORKS})\b"
        r"|follow ((?:(?!(?:of|for|in|from|to|with) )[@\w.'’-]+ ){1,6}?)(?:on|via) "
        rf"{_ON_NETWORKS}|like (?:[@\w.'’-]+ ){{1,4}}?on {_ON_NETWORKS}){_BEHIND}",
    ),
    (
        "sign_up subscribe register get_ join_",
        rf"(?:sign up|subscribe|get|join) ({_WORDS}{{0,100}})\b(?:{_LETTER})\b"
        rf"({_WORDS}{{0,40}})|(?:sign up|subscribe|register) (?:for|to) ([^.!?\d]{{0,60}})"
        r"\b(?:e-?mails?|alerts?|briefings?)(?<!by email)(?<!by e-mail)",
    ),
    (
        "folge abonnieren suivez abonnez síguenos síganos sigue suscríb seguici iscriviti "
        "siga inscreva assine подпи читайте хотите чтобы будьте не_про підпи слідку стежте щоб_",
        r"(?:folgen sie|folge|abonnieren|suivez|abonnez|síguenos|síganos|sigue|suscríb|seguici"
        r"|iscriviti|siga|inscreva|assine"
        r"|(?:(?:хотите|чтобы|щоб|будьте|не пропуст\w+)\b([^\d:?.!]{3,60})[?:,.!—–] )?"
        r"(?:подпиш|подписывай|читайте|підпиш|підписуй|слідкуй|стежте))\w*\b"
        rf"(?:({_WORDS}{{0,80}})\b(?:{_LETTER})\b({_WORDS}{{0,60}})"
        rf"|([^\d:]{{0,60}}?)\b(?:auf|bei|unser\w*|sur|notre|en|nuestr\w+|su|nostr\w+|no|na|noss\w+"
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
        rf"(?:(?:присоединяйтесь|вступайте|следите|обсудить новость)\b([^\d:.]{{0,60}}?)"
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
FORMS: Final = (
    *INVITATIONS,
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
        "image photo picture video main_image main_photo main_picture main_video featured "
        "cover_image cover_photo cover_picture cover_video",
        r"(?:main |featured |cover )?(?:image|photo|picture|video)s?"
        rf"(?: (?:credits?|source|copyright|courtesy of|by)\b|\s*:){CREDITED}",
    ),
    (
        NUMBERED,
        r"(?:imag(?:es?|en|em)|immagin[ei]|photo(?:s|graph)?|pictures?|pics?|slides?"
        r"|foto(?:s|grafia)?|bild(?:er)?|фото(?:графия)?) \d{1,3} (?:of|von|de|di|из) \d{1,3}",
    ),
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
        "if_you_ when_you_ we_may_ we_might_ we_can_ this_site_",
        r"(?:(?:if|when) you (?:buy|purchase|click|shop|book)\b[^.!?\d]{0,80}, )?"
        r"(?:we|this site) (?:may|might|can) (?:earn|receive|get)\b[^.!?\d]{0,40}"
        # Compensation for what was lost is news.
        r"\b(?:commission|compensation)s?\b(?:[^.!?\d]{0,30}\b(?:links?|purchas|products?|sales?"
        r"|partners?|retailers?|merchants?|advertis|affiliate|clicks?|cost to you)[^.!?\d]{0,60})?",
    ),
    (
        "подробнее",
        r"подробнее (?:читайте )?(?:на (?:нашем )?сайте|в (?:нашем )?материале)"
        r"(?: [«a-zа-яё»-]+){0,4}",
    ),
    (
        "get_in_touch do_you_have this_story_ this_article this_is_a_",
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
    ("like liked enjoy", r"(?:like|liked|enjoy|enjoyed|enjoying) this (?:story|article)\?.{0,60}"),
    (
        "views likes retweets aufrufe vues просмотр перегляд время_ читать час_чит 阅读 閱讀 "
        "浏览 瀏覽 点击 點擊 点赞 點贊 转发 收藏 閲覧 조회 좋아 vor_ il_y hace",
        COUNTERS,
    ),
    (
        "свидетельств",
        r"свидетельство о регистрации .{0,40}№ ?(?:эл )?(?:№ ?)?фс ?\d\d[\d –-]{0,12}"
        r"(?:,? ?(?:от \d|выдан).{0,70})?\.?",
    ),
    # What happens behind the code or to the account is news: 扫描二维码被骗五万元.
    (
        "扫码 扫描 长按",
        r"(?=扫码|扫描|长按)[^\d被骗]{0,16}"
        r"(?:关注(?!人数|[度量的])[^\d被骗]{0,14}|二维码\W{0,2}(?:即可|一起|来)?"
        r"(?:(?:关注|加入|下 ?载|解锁|获取|进入|查看|观看|阅读|分享|参与|添加|了解|报名)"
        r"[^\d被骗]{0,14})?)",
    ),
    (
        "关注 欢迎",
        r"(?:欢迎)?关注(?!人数|[度量的])[^\d被的]{0,16}(?:公众号|微博)"
        r"(?:[，,、 （(：:“\"][^\d被骗]{0,16})?",
    ),
    ("转载", r"转载请(?:注明|联系).{0,40}"),
    (
        "未经",
        r"未经.{0,8}(?:授权|许可|允许).{0,4}(?:不得|禁止|严禁).{0,8}"
        r"(?:转载|转发|复制|摘编|镜像)[^被罚判]{0,12}"
        # Other uses may need the leave of a doctor, say.
        r"|未经(?:本[站网报社台]|作者|版权方|.{0,4}[网报社])?(?:书面)?(?:授权|许可|允许)"
        r"[，,\s]{0,2}(?:不得|禁止|严禁)(?:擅自|以任何(?:形式|方式))?使用",
    ),
    # copyright
    (
        "copyright ©_ ©« ©1 ©2 ⓒ_ ⓒ1 ⓒ2 c)",
        r"(?:copyright|[©ⓒ](?=[ 12])|c\))(?: ?(?:©|ⓒ|\(c\)))? ?\d{4}(?:-\d{4})?[^.!?]{0,60}"
        r"(?:\. all rights reserved)?|© (?:[a-z]{2,12} ){1,4}(?:19|20)\d\d"
        r"|© ?«[^«»\d]{2,40}»,? (?:19|20)\d\d(?:[–-](?:19|20)\d\d)?",
    ),
    # the day on which a page was made
    (
        "published posted updated last_updated last_modified last_posted last_publish first_publis",
        r"(?:published|posted|updated|last (?:updated|modified)|first published)"
        rf"(?: on)?:? {_WEEKDAY}{DAY}"
        r"(?:(?:,| /)? (?:at )?\d{1,2}[:.]\d\d(?::\d\d)?(?: ?[ap]\.?m\.?)?(?: [a-z]{2,4})?)?"
        rf"(?: ?\| ?updated: (?:{_AGO}|{DAY}.{{0,24}})|, updated (?:on )?{_WEEKDAY}{DAY})?",
    ),
    # how long it takes to read, and what readers clicked
    (
        "estimated_re read_time reading_time",
        r"(?:estimated )?read(?:ing)? time: \d{1,2}(?:-\d{1,2})? min(?:ute)?s?",
    ),
    ("love", r"love \d+ funny \d+ wow \d+ sad \d+ angry \d+"),
    # a byline with the day, the signature of a quoted message
    (
        "by_ written_by_ edited_by_ reported_by_ curated_by_",
        r"(?:(?:written|edited|reported|curated) )?by [^.!?\d]{3,60}"
        rf"(?: ?[—–|,-](?: (?:last )?updated:?)?| on|) ?{DAY}(?:,? \d{{1,2}}:\d\d [a-z]{{2,4}})?",
    ),
    ("von par por di_ di: автор", rf"(?:von|par|por|di|автор):? [^.!?\d]{{3,60}} ?[—–|] ?{DAY}"),
    ("—_ –_", rf"[—–] .{{1,60}} \(@\w{{1,30}}\) {DAY}"),
)


def invites(line: str, found: re.Match[str]) -> bool:
    """Whether the free parts of an invitation, found in the line or in its lower case, say nothing:
    they have instructions and names only, and behind the last fixed word no names.

    >>> pattern = re.compile("follow (.*) on facebook(.*)")
    >>> lines = "Follow Ann live on Facebook", "Follow the trial on Facebook", "Follow Ann in June"
    >>> [(m := pattern.match(line.lower())) and invites(line, m) for line in lines[:2]]
    [True, False]
    """
    same = len(line) == len(found.string) and not line.isupper()
    for begin, end in map(found.span, range(1, found.re.groups + 1)):
        part = (line if same else found.string)[max(begin, 0) : end]
        may_name = end < len(found.string)
        for word in _QUOTED.sub(" ", part).split() if end > begin else ():
            stripped = word.strip('.,!…:;()&|-—–?«»"“”')
            lower = stripped.lower()
            if not (
                lower in _INVITING
                or not stripped
                or {"@", ".", "/"} & set(stripped)
                or _NETWORK.match(lower)
                or (may_name and stripped[0].isupper() and lower not in _NO_NAMES)
            ):
                return False
    return True
