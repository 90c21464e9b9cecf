"""Lines of a Chinese page that say nothing of its subject.

Each site has its own, so they are known by what they are made of: a line is one of these if it is
a row of nothing but **parts**: buttons, who made the page (责任编辑：...), where it is from
(来源：...网), its day and time, an address, the number of a page. One part must be of the first
three kinds, or there are a day, a time and the name of a paper. Others have a form of their own:
the way to the page, its former headline, captions with a photographer, notices of rights.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists

#: characters of such a line but for notices; and what ends a sentence, with which none of them ends
LONGEST: Final = 100
SENTENCE_ENDS: Final = "。！？!?；，"
_HAN: Final = "[\u4e00-\u9fff·]"
_MAKERS: Final = "|".join(word_lists()["makers"])
_FROM: Final = "(?:本文|文章|稿件|新闻|新聞|信息|图片)?(?:来源|來源)|稿源|(?:本文)?(?:转自|摘自)"
_REPORTERS: Final = "记者|記者|通讯员|通訊員|实习生|特派员"
_NO_LABEL: Final = rf"(?!{_MAKERS}|{_FROM}|{_REPORTERS})"
_NAME: Final = rf"{_NO_LABEL}{_HAN}{{1,4}}(?!{_HAN}|[:：])"
_NAMES: Final = rf"{_NAME}(?:[ 、,，/]{{1,2}}{_NAME}){{0,5}}"
# Without a colon before it a name begins with a surname: of reporters there are headlines, too.
_PERSON: Final = rf"{_NO_LABEL}[{''.join(word_lists()['surnames'])}]{_HAN}{{1,2}}(?!{_HAN}|[:：])"
_PERSONS: Final = rf"{_PERSON}(?:[ 、,，/]{{1,2}}{_PERSON}){{0,5}}"
# What is from elsewhere (a disease, a fund) has a source, too: the name of a paper ends so.
_PAPER: Final = (
    r"[^\d\s，：,:()（）【】\[\]|]{0,14}?"
    r"(?:[网網报報社台臺刊]|电视|新闻|新聞|客户端|公众号|发布|在线|频道|周刊|杂志)》?"
    rf"(?!{_HAN})"
)
_DAY: Final = r"(?:19|20)\d\d[-年/.]\d{1,2}(?:[-月/.]\d{1,2}日?)?(?!\d)"
_INTERFACE: Final = "|".join(sorted(word_lists()["interface"], key=len, reverse=True))
_PART: Final = re.compile(
    rf"(?P<strong>(?:{_MAKERS})(?:\Z| ?[:：/|丨] ?(?:{_NAMES})?)(?:[ (_]?[a-z]{{1,3}}\d{{1,6}})?"
    rf"|(?:编辑|责编|校对|审校) {_PERSONS}|发布时间 ?[:：] ?{_DAY}"
    rf"|(?:{_FROM})(?:\Z| ?[:：《] ?(?:未知|{_PAPER}(?: ?[、－—-] ?《?{_PAPER})*)?)"
    rf"|(?:[文图][/ ])?(?:{_HAN}{{2,6}}?)?(?:首席|见习|特约|实习)?(?:{_REPORTERS})"
    rf"[ :：/]{{0,2}}{_PERSONS}"
    rf"(?:[ /]{{0,2}}(?:摄影?|文|图|(?:{_HAN}{{2}} ?)?(?:摄影)?报道)(?! ?{_HAN}))?"
    r"|(?:阅读|点击|浏览|评论)(?:次数|数|量)? ?[:：] ?\d{1,8}次?"
    r"|(?:共有|已有)(?:评论)?\d{1,7}[条人](?:评论)?"
    rf"|(?:{_INTERFACE})+|大 ?中 ?小|(?:本文)?共 ?\d{{1,2}} ?[页頁]|第 ?\d{{1,2}} ?[页頁])"
    rf"|(?P<day>{_DAY})|(?P<time>\d{{1,2}}:\d\d(?::\d\d)?(?!\d))"
    r"|(?P<paper>(?:https?://)?(?:[a-z0-9-]{1,30}\.){1,3}(?:com|cn|net|org)[a-z0-9_./]*"
    rf"|{_PAPER})|(?P<site>{_HAN}{{2,10}}(?= (?:https?:|www\.)))|(?P<page>\d{{1,2}}(?!\d))"
)
_BETWEEN: Final = " \t\u3000\xa0|丨[]【】()（）,，、/·•:：→>＞»›*■-—"
_WHOLE: Final = re.compile(
    r"原标题 ?[:：].{1,60}|[上下]一[条篇页] ?[:：].{1,60}"
    rf"|(?=.*(?:新闻|新聞|资讯|正文))(?:[您你]?(?:当前|现在|所在)的?位置 ?[:：] ?)?"
    rf"{_HAN}{{2,10}}(?: ?[>›»＞]{{1,2}} ?{_HAN}{{2,10}}){{1,5}}"
    r"|点击\D{0,10}(?:关注|查看|下载|进入)\D{0,12}|打开\D{2,8}(?:新闻|客户端|app)\D{0,12}"
    rf"|图片由{_HAN}{{2,10}}提供"
    # A caption is short, and has no numeral but a day.
    rf"|(?:\D|\d{{1,4}}[年月日]){{0,30}}(?:新华社|新華社|中新社|中央社|{_REPORTERS})发?"
    rf"(?:记者|記者)? ?{_HAN}{{1,3}} ?{_HAN}{{1,3}} ?[摄攝]影?"
)
#: beginnings of notices that say whose a page is, and who may copy it
NOTICES: Final = (
    "声明 聲明 免责 版权 版權 特别 郑重 新浪 本网 本站 本文 本平 凡本 凡注 未经 未經 刊用 转载 "
    "轉載 以上 如有 如转"
)
# What a notice says: one of the first words, and another one of either kind.
_COPIED: Final = re.compile(
    r"转载|轉載|登载|摘编|镜像|不代表|仅代表|并不意味|信息存储|来源标注|独家稿件"
)
_LEGAL: Final = re.compile(
    r"授权|授權|版权|版權|侵权|著作权|观点|立场|联系|法律责任|注明|出处|删除|权益|书面|禁止|不得"
    r"|免责|核实|证实|稿件|自媒体|目的"
)
_NO_NOTICE: Final = re.compile(r"法院|判决|起诉|警方|[网網](?:讯|訊|记者)|\d")


def is_chinese_line(lower: str) -> bool:
    """Whether a line, in lower case, is about the page.

    >>> [is_chinese_line(line) for line in ("来源：湖畔网 【打印】", "责任编辑：王川被判三年")]
    [True, False]
    """
    if len(lower) > LONGEST or lower[-1:] in SENTENCE_ENDS:
        return False
    return is_row(lower) or _WHOLE.fullmatch(" ".join(lower.strip(_BETWEEN).split())) is not None


def is_row(lower: str) -> bool:
    """Whether a line, in lower case, has nothing but parts."""
    text = " ".join(lower.strip(_BETWEEN).split())
    kinds, place = set[str | None](), 0
    while place < len(text):
        if text[place] in _BETWEEN:
            place += 1
            continue
        part = _PART.match(text, place)
        if part is None:
            return False
        kinds.add(part.lastgroup)
        place = part.end()
    if "page" in kinds and "页" not in text:
        return False
    return "strong" in kinds or kinds >= {"day", "time", "paper"}


def is_chinese_notice(lower: str) -> bool:
    """Whether a line says whose the page is and who may copy it.

    >>> is_chinese_notice("本站转载此文不代表本站观点"), is_chinese_notice("转载量上升")
    (True, False)
    """
    copied, legal = set(_COPIED.findall(lower)), _LEGAL.search(lower) is not None
    return bool(copied) and len(copied) + legal > 1 and _NO_NOTICE.search(lower) is None
