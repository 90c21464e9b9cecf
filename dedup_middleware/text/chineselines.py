"""Recognises lines of a Chinese page that say nothing of its subject.

Each site has its own lines, so they are recognised by their parts: a line is left out if it is a
row of nothing but **parts**: buttons, who made the page (责任编辑：...), its source (来源：...网),
day and time, an address, a page number. One part must be of the first three kinds, or the row must
have a day, a time and the name of a paper. Other lines have a form of their own: the path to the
page, its former headline, captions with a photographer, notices of rights.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Final

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.patterns import compiled_late

#: most characters of such a line, except notices; and characters that it never ends with
LONGEST: Final = 100
SENTENCE_ENDS: Final = "。！？!?；，"
_LAST: Final = "。！？”"  # ends of a text's last sentence
_FIRST: Final = "(（[【 \u3000来來据编編责責记記作文图本转摘稿撰"  # beginnings of a row behind it
_HAN: Final = "[\u4e00-\u9fff·]"
_MAKERS: Final = "|".join(word_lists()["makers"])
# Only a name may follow these words: 终审 is also the last instance of a court.
_NICK: Final = r"[a-z]{3,12}(?![a-z0-9])"  # an editor of a portal
_STAGES: Final = "审核|审校|初审|复审|终审|[一二三]审"
_FROM: Final = "(?:本文|文章|稿件|新闻|新聞|信息|图片)?(?:来源|來源)|稿源|(?:本文)?(?:转自|摘自)"
_REPORTERS: Final = "记者|記者|通讯员|通訊員|实习生|特派员"
_NO_LABEL: Final = rf"(?!{_MAKERS}|{_STAGES}|{_FROM}|{_REPORTERS})"
_NAME: Final = rf"{_NO_LABEL}{_HAN}{{1,4}}(?!{_HAN}|[:：])"
_NAMES: Final = rf"{_NAME}(?:[ 、,，/]{{1,2}}{_NAME}){{0,5}}"
# Without a colon before it, a name must begin with a surname: headlines are about reporters, too.
_WROTE: Final = "(?:摄影)?(?:报道|報道|报导|報導)|(?:参与)?采写|供图|供稿"  # may follow a name
_SURNAME: Final = f"[{''.join(word_lists()['surnames'])}]"
_PERSON: Final = rf"{_NO_LABEL}{_SURNAME}{_HAN}{{1,2}}(?:(?!{_HAN}|[:：])|(?={_WROTE}))"
_PERSONS: Final = rf"{_PERSON}(?:[ 、,，/]{{1,2}}{_PERSON}){{0,5}}"
# Diseases and funds have a source (来源), too. So a source must end as the names of papers do, and
# not in a word such as 预报 (forecast), 合作社 (co-operative), 舞台 (stage) or 渔网 (fishing net).
_OF_A_PAPER: Final = (
    r"(?:(?<![落法撒上电天漏入触])[网網]|(?<![预通情海战喜捷举汇])[报報]|(?<![作行版剧诗公])社"
)
_PAPER: Final = (
    r"[^\d\s，：,:()（）【】\[\]|丨]{0,14}?"
    rf"{_OF_A_PAPER}|(?<![舞展站柜看阳])[台臺]|刊|电视|新闻|新聞|客户端|公众号|发布|在线|频道|周刊|杂志"
    r"|头条|[报网](?:全媒体|融媒体?|app)"
    rf"|(?:新浪|搜狐|网易|腾讯|凤凰)(?:{_HAN}{{2}})?|央视|百家号|综合|网络|本站)》?"
    rf"(?!{_HAN})"
)
# A source without a label is short and of fewer kinds: a programme has a day and a time, too.
_NAMED: Final = rf"(?:[^\W\d_]{{1,10}}?{_OF_A_PAPER}|在线)|(?:新浪|搜狐|网易){_HAN}{{2}})(?!{_HAN})"
_NETWORKS: Final = "|".join(
    "(?:新浪|腾讯|搜狐)?微博 微信(?:好友)? 朋友圈 qq(?:空间|好友)? 人人网 开心网 豆瓣网?".split()
)
# Who a text was taken from: 据新华社电, 综合新华社、湖畔晚报报道.
_TOLD: Final = (
    rf"(?:据|综合|原载于?|转自|摘自|(?:本文)?转载自)《?[^\W\d_]{{1,10}}?{_OF_A_PAPER})》?"
    rf"(?:[、和]《?[^\W\d_]{{1,10}}?{_OF_A_PAPER})》?){{0,3}}(?:电|消息|报道|報道)?(?!{_HAN})"
    rf"|本[报網网台刊]综合(?:消息|报道|整理)?(?!{_HAN})|新华社供(?:本报)?(?:专电|特?专?稿)(?!{_HAN})"
)
# Who sent a reporter: a paper, not a prize or an accident.
_OFFICE: Final = (
    rf"(?:{_HAN}{{2,6}}[-—]|)(?:{_HAN}{{0,8}}?(?:[报報网網社台臺视刊本]|新闻|在线|客户端))?(?:驻{_HAN}{{2,4}}?)?"
    r"(?:全媒体?|融媒体?|首席|见习|特约|实习|摄影)*"
)
_DAY: Final = r"(?:19|20)\d\d[-年/.]\d{1,2}(?:[-月/.]\d{1,2})?(?:日|(?!\d))"
# Sizes of the letters of a page, or of goods: alone they are no buttons.
_SIZES: Final = frozenset(("大号", "中号", "小号"))
_ONE_BUTTON: Final = 2  # characters of a word of the interface that may be news alone: 关闭
_INTERFACE: Final = "|".join(
    map(re.escape, sorted({*word_lists()["interface"]} - _SIZES, key=len, reverse=True))
)
_PART: Final = compiled_late(
    # Another number of comments tells that a thread has grown: only next to buttons.
    r"(?P<count>(?:我来说两句|(?:网友)?评论|跟[贴帖]|点赞|收藏|分享|转发|顶|踩)"
    r"[ (（\[]{0,2}\d{1,7}(?: ?条)?|\d{1,7} ?条(?:评论|跟贴))"
    rf"|(?P<strong>(?:(?:{_MAKERS})"
    rf"(?:\Z| ?[:：丨｜|] ?(?:{_NAMES}|{_NICK})?| ?[/|] ?(?:{_PERSONS})?)"
    rf"|(?:{_STAGES}) ?[:：/|丨｜] ?{_PERSONS})(?:[ (]?_?[a-z]{{1,3}}\d{{1,6}}|_[a-z]{{2,4}})?"
    rf"|(?:责任编辑|責任編輯|(?:实习|见习)?编辑|责编|校对|审校) {_PERSONS}"
    rf"|(?:发布|发表|更新|發布|發表)(?:时间|日期|時間) ?[:：] ?{_DAY}"
    rf"|分享(?:到|至)? ?[:：]?(?: ?(?:{_NETWORKS})){{1,12}}(?!{_HAN})"
    rf"|(?:编译|翻译|制图|撰稿|供稿|签发|审核人) ?[:：/丨｜|] ?{_PERSONS}"
    rf"|(?:发布于|ip属地) ?[:：]? ?{_HAN}{{2,3}}(?!{_HAN})|{_HAN}{{2,12}}官方[账帐]号"
    r"|图(?:片|源)?[/／:：丨｜|据]? ?(?:视觉中国|网络|东方ic|ic ?photo)(?:供图)?"
    rf"|{_TOLD}|{_NAMED} {_PERSONS}|[文图](?:[/／][文图])?[/／:：丨｜|] ?{_PERSONS}"
    rf"|(?:新闻热线|{_HAN}{{0,6}}[爆报]料(?:热线|电话)?) ?[:： ] ?[\d、 -]{{5,30}}"
    rf"|(?:新闻)?线索(?:提供者?|报料) ?[:：] ?{_NAME}(?: ?(?:奖励?|奖金|稿费|线索费) ?\d{{1,4}}元)?"
    rf"|(?:{_FROM})(?:\Z| ?[:：《|丨｜] ?"
    rf"(?:未知|{_PAPER}(?: ?[、－—∙·-] ?《?{_PAPER})*)?(?!{_HAN}))"
    rf"|采写 ?[:：] ?{_HAN}{{0,6}}?(?:{_REPORTERS}) ?{_PERSONS}"
    rf"|(?:[文图](?:[/／][文图])?[/／ ])?{_OFFICE}(?:{_REPORTERS})"
    rf"[ :：/丨｜|]{{0,2}}{_PERSONS}"
    rf"(?:[ /]{{0,2}}(?:摄影?|文(?:[/／]图)?|图(?:[/／]文)?|(?:{_HAN}{{2}} ?)?(?:{_WROTE}))"
    rf"(?! ?{_HAN}))?"
    r"|(?:阅读|点击|浏览|评论)(?:次数|人数|数|量)? ?[:：] ?\d{1,8}(?:\.\d)?万?\+?次?"
    r"|(?:共有|已有) ?(?:评论 ?\d{1,7}"
    r"|\d{1,7} ?[条人位](?:网友)? ?(?:评论|参与|留言|发表了?(?:看法|评论)))[条人]?"
    rf"|大 ?中 ?小|(?:本文)?共 ?\d{{1,2}} ?[页頁]|第 ?\d{{1,2}} ?[页頁])"
    rf"|(?P<button>(?:{_INTERFACE})+)|(?P<size>{'|'.join(sorted(_SIZES))})"
    rf"|(?P<day>(?:(?:日期|时间) ?[:：] ?)?{_DAY})|(?P<time>\d{{1,2}}:\d\d(?::\d\d)?(?!\d))"
    r"|(?P<paper>(?:https?://)?(?:[a-z0-9-]{1,30}\.){1,3}(?:com|cn|net|org)[a-z0-9_./]*"
    rf"|{_NAMED}|[^\W\d_]{{1,10}}?(?:客户端|新闻)(?!{_HAN}))"
    # Of a firm or an office; only with a day and a time, as diseases have a source, too.
    rf"|(?P<origin>(?:{_FROM}) ?[:：] ?{_HAN}{{2,16}}(?!{_HAN}))"
    rf"|(?P<site>{_HAN}{{2,10}}(?= (?:https?:|www\.)))|(?P<page>\d{{1,2}}(?!\d))"
)
_MAKER: Final = re.compile(rf"({_MAKERS}) ?[:：丨｜|]")
_BETWEEN: Final = " \t\u3000\xa0|丨｜[]【】()（）,，、/·•:：→>＞»›*■□◎◆-—∙"
#: each such line has one of these pairs of characters
PAIRS: Final = frozenset(
    [word[-2:] for word in (*word_lists()["interface"], *word_lists()["makers"]) if len(word) > 1]
    + [*word_lists()["row-pairs"]]
    + [f"{digit}:" for digit in range(10)]
    + [f"{word}{blank}" for word in "大共第" for blank in " \t\u3000\xa0"]
    + [f"{word}{digit}" for word in "共第" for digit in range(10)]
)
_STEP: Final = rf"\d{{0,4}}{_HAN}{{2,10}}"
#: the group says that it is a path
_PATH: Final = compiled_late(
    r"(?:([您你](?:的|当前|現在|现在|所在|當前){1,2}位置|(?:当前|當前|现在|現在)的?位置) ?[:：] ?"
    r"|(?:所在的?)?位置 ?[:：] ?)?"
    rf"{_STEP}(?: ?[>›»＞]{{1,2}} ?{_STEP}){{1,5}}"
)
# A path begins at a site or a section of it, or ends at the text: anything else may be news.
_PATH_ENDS: Final = compiled_late(
    r"\d{0,4}[\u4e00-\u9fff]{0,8}(?:首页|主页|新闻|新聞|资讯|[网網报報社台站]|频道|中心|在线)"
    r" ?[>›»＞].*|.*正文"
)
_PATH_WORDS: Final = ("新闻", "新聞", "资讯", "正文")
_WHOLE: Final = compiled_late(
    r"(?:原标题|正在阅读) ?[:：].{1,60}|[上下]一[条篇页](?:文章|新闻)? ?[:：].{1,60}"
    r"|点击右上角(?:微信)?(?:好友|分享)|请使用浏览器(?:的?分享)?功能进行分享"
    # Behind these verbs headlines go on: 点击链接下载软件被骗.
    rf"|点击{_HAN}{{0,6}}[，,]?(?:关注|查看|进入)\D{{0,8}}"
    r"(?:更多|精彩|详情|专题|原文|全文|大图|高清)\D{0,4}"
    rf"|打开{_HAN}{{0,6}}(?:新闻|客户端|app)\W?(?:查看|看|阅读)(?:更多|精彩|全文|评论)\D{{0,8}}"
    rf"|图片由{_HAN}{{2,10}}提供|登录后可?查看[^\d。，,]{{2,12}}"
    rf"|图说 ?[:：][^\d。]{{2,40}} {_HAN}{{2,8}}[图摄]"
    # Invitations that papers on WeChat and portals put around an article.
    rf"|\W*(?:点击|點擊)(?:上方|下方|顶部|标题|蓝字|名片)[^\d。被骗]{{0,14}}(?:关注|關注)(?:我们|我們|我)?"
    r"|[^\d。]{0,8}点(?:个|赞、)?[“\"]?在看"
    r"(?:\W|[吧呗哦呀啊]|再走|一下|转发|分享|支持|关注|让更多人看到"
    r"|(?:转|分享)给[^\d。，,]{2,8})*"
    r"|分享让更多人看到|返回搜狐[，,] ?查看更多"
    r"|(?:本文来(?:源[:：]|自)[^\d。，,]{2,12}[，,])?更多(?:精彩|原创|相关|最新|详细)?(?:新闻|资讯|内容)[，,]?请"
    r"[^\d。，,]{0,8}(?:下载|关注|(?:点击)?进入)[^\d。，,]{2,16}"
    r"|全文共?约?\d{2,5}字[，,](?:阅读)?\D{0,8}\d{1,2}分钟"
    r"|已有 ?\d{1,7} ?人参与[，,]点击查看\D{0,6}评论"
    r"|互联网新闻信息服务许可证.{0,30}|增值电信业务经营许可证.{0,60}"
    r"|违法和?不良信息举报(?:电话|热线|邮箱) ?[:：] ?[\d×xX*@.a-z ()-]{5,40}"
    rf"(?:{_HAN}icp[备证][\d×x*]{{6,12}}号?(?:-\d{{1,3}})?)?"
    rf"|(?:欢迎)?(?:扫一扫|扫描{_HAN}{{0,2}}二维码)?[，, ]?关注{_HAN}{{2,12}}"
    r"(?:微信|微博|客户端)(?:公众号)?"
    rf"|(?:点击|点此)(?:这里|此处)?进入{_HAN}{{0,6}}(?:专题|评论|论坛|讨论区)(?:报道|参与讨论)?"
    rf"|欢迎(?:到|进入){_HAN}{{2,8}}论坛(?:参与)?(?:讨论|发言)|欢迎您?发表(?:您的)?评论"
    rf"|返回{_HAN}{{2,6}}[网網]首页"
    r"|本[版组](?:稿件|文图|图片|撰文|报道)[^\d。，,]{2,24}"
    r"|(?:本文|文章)(?:来自|来源于?|首发于?|转[载自]自?|原载于?)[:：]?(?:微信)?公众号[^。]{1,50}"
    rf"|{_HAN}{{2,8}}[，,]未经授权[，,]?不得转载"
    r"|(?:打开|使?用)?微信[“\"]?扫(?:一扫|描二维码)[^\d。骗]{0,24}|扫一扫[^\d。]{0,12}分享[^\d。]{0,12}"
    r"|(?:点击|點擊)(?:图片|圖片)(?:放大|进入下一页|查看(?:大图|原图|下一页))"
    r"|阅读 ?\(\d{1,8}(?:\) ?评论 ?\(\d{1,6})?"
)
TAKEN: Final = "摄攝影页张"  #: ends of captions, the only ones of these lines with sentences
# A caption is short, and its only numerals are those of a day.
_CAPTION: Final = compiled_late(
    rf"(?:资料图片?|图为|圖為)(?:\D|\d{{1,4}}[年月日]){{0,30}}[ 。]"
    rf"(?:{_HAN}{{2,3}} ?[摄攝]影?|点击(?:图片)?(?:进入|查看)下一[页張张])|"
    rf"(?:\D|\d{{1,4}}[年月日]){{0,30}}(?:新华社|新華社|中新社|中央社|{_REPORTERS})发?"
    rf"(?:记者|記者)? ?{_HAN}{{1,3}} ?{_HAN}{{1,3}} ?[摄攝]影?"
)
# A notice has one of the first words, and another one of either kind.
_COPIED: Final = re.compile(
    r"版权均属|刊发之日起|转载|轉載|登载|摘编|镜像|传播更多|不代表|仅代表|[如若]有侵权|并不意味"
    r"|信息存储|来源标注|独家稿件|不构成投资"
)
_LEGAL: Final = re.compile(
    r"授权|授權|版权|版權|侵权|著作权|观点|立场|联系|法律责任|注明|出处|删除|权益|书面|禁止|不得"
    r"|免责|核实|证实|稿件|自媒体|目的|仅供参考|投资建议"
)
_NO_NOTICE: Final = re.compile(
    r"法院|判决|起诉|警方|[网網](?:讯|訊|记者)|近日|日前|从未|道歉|谴责|停止侵权|\d(?!\d?日内)"
)
_WANTED: Final = compiled_late(
    r"(?:如果?|若)?您?有新闻线索.{0,40}(?:报料|爆料|酬谢|稿费|热线).{0,60}"
    r"|(?:声明|说明|注)[:：]\D{0,24}以\D{2,24}(?:公布|发布|公告)的?\D{0,6}为准。?"
    r"|网友评论仅供其表达个人看法.{0,60}"
    r"|编者按[:：] ?(?:本文|文章)(?:来自|来源于?|转载自|首发于)(?:微信)?公众号[^。]{1,60}。?"
)


def is_chinese_line(lower: str) -> bool:
    """Whether a line, in lower case, is about the page.

    >>> [is_chinese_line(line) for line in ("来源：湖畔网 【打印】", "责任编辑：王川被判三年")]
    [True, False]
    """
    if len(lower) > LONGEST or lower[-1:] in SENTENCE_ENDS:
        return False
    text = " ".join(lower.strip(_BETWEEN).split())
    if text[-1:] in TAKEN and _CAPTION().fullmatch(text):
        return True
    if "。" in text:
        return False
    if _is_row(text) or _WHOLE().fullmatch(text):
        return True
    path = _PATH().match(text)
    if path is None or not (path[1] or _is_of_site(path[0])):
        return False
    return path.end() == len(text) or _is_row(text[path.end() :].strip())


def _is_of_site(path: str) -> bool:
    return any(word in path for word in _PATH_WORDS) and _PATH_ENDS().fullmatch(path) is not None


def without_maker(text: str) -> str:
    """Remove a line about the page that stands behind the last sentence of a text.

    >>> without_maker("渡轮停航。（湖畔晚报记者 王川）"), without_maker("渡轮停航。（共三天）")
    ('渡轮停航。', '渡轮停航。（共三天）')
    """
    if text.isascii() or text[-1] in _LAST or text[-2:-1] == "完":  # most texts
        return text
    end = max(map(text.rfind, _LAST, repeat(-LONGEST))) + 1
    behind = text[end:]
    has_row = end and behind[0] in _FIRST and "\n" not in behind and is_chinese_line(behind.lower())
    return text[:end] if has_row else text


def maker_of(line: str) -> str | None:
    """The label of a line that begins with who made something; else None.

    >>> maker_of("（作者：王川）"), maker_of("来源：湖畔网")
    ('作者', None)
    """
    found = _MAKER.match(line.strip(_BETWEEN))
    return found and found[1]


def is_row(lower: str) -> bool:
    """Whether a line, in lower case, consists of parts only."""
    return _is_row(" ".join(lower.strip(_BETWEEN).split()))


def _is_row(text: str) -> bool:
    kinds, place, part_at = set[str | None](), 0, _PART().match
    buttons = 0
    while place < len(text):
        if text[place] in _BETWEEN:
            place += 1
            continue
        part = part_at(text, place)
        if part is None:
            return False
        kinds.add(part.lastgroup)
        buttons += len(part[0]) if part.lastgroup in ("button", "size") else 0
        place = part.end()
    if "page" in kinds and "页" not in text:
        return False
    if "strong" in kinds or ("button" in kinds and buttons > _ONE_BUTTON):
        return True
    return any(kinds >= {"day", "time", kind} for kind in ("paper", "origin"))


def is_chinese_notice(lower: str) -> bool:
    """Whether a line says who owns the page and who may copy it.

    >>> is_chinese_notice("本站转载此文不代表本站观点"), is_chinese_notice("转载量上升")
    (True, False)
    """
    if _WANTED().fullmatch(lower.strip(_BETWEEN)):
        return True
    copied, legal = set(_COPIED.findall(lower)), _LEGAL.search(lower) is not None
    return bool(copied) and len(copied) + legal > 1 and _NO_NOTICE.search(lower) is None
