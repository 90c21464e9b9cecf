"""Lines of a Chinese page that say nothing of its subject: who made it, where it comes from, rows
of buttons, page numbers, notices of rights, captions that end with the name of a photographer.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists

_HAN: Final = "[\u4e00-\u9fff·]"
_NAME: Final = rf"{_HAN}{{1,4}}(?:_?[a-z]{{1,3}}\d{{1,6}})?"  # 王晓_NE0011
_NAMES: Final = rf"{_NAME}(?:[ 、,，/]{{1,3}}{_NAME}){{0,4}}"
# Names have no numerals, and behind most verbs stands one of these characters.
_CREDITED: Final = r"[^\d。，！？；,!?;了被将將在已称稱说說是与與]{1,24}"
# What is from elsewhere (a disease, a fund) has a source, too: a paper's name ends so.
_PAPER: Final = (
    r"[^\d。，！？；：,!?;:]{0,16}"
    r"(?:[网網报報社台臺刊]|新闻|新聞|客户端|公众号|发布|在线|频道|周刊|杂志)》?"
)
_MAKER: Final = "|".join(word_lists()["makers"])
_MADE: Final = (
    rf"(?:(?:{_MAKER}|{_HAN}{{2,8}}记者) ?[:：/|丨] ?{_NAMES}"
    rf"|(?:[稿件新闻聞文章信息本]{{0,2}}[来來]源|稿源) ?[:：] ?{_PAPER})"
)
_REPORTER: Final = (
    rf"(?:{_HAN}{{2,5}})?(?:首席|见习|特约|实习)?(?:记者|記者|通讯员|通訊員|实习生) ?{_NAMES}"
)
_DAY: Final = r"20\d\d[-年/.]\d{1,2}[-月/.]\d{1,2}日? ?\d{1,2}:\d\d(?::\d\d)?"
_BUTTON: Final = (
    rf"(?:{'|'.join(sorted(word_lists()['chinese-buttons'], key=len, reverse=True))}"
    r"|(?:字[号體体] ?[:：]? ?)?大 ?中 ?小|(?:本文)?共 ?\d{1,2} ?[页頁]|第 ?\d{1,2} ?[页頁])"
)
_BETWEEN: Final = r"[ |丨\[\]【】()（）,，]{0,4}"
_ROW: Final = rf"{_BUTTON}(?:{_BETWEEN}(?:{_BUTTON}|(?<=[\[ ])\d{{1,2}}(?=[\] ]|$)))*"
_LINE: Final = re.compile(
    rf"{_MADE}(?:{_BETWEEN}(?:记者 ?[:：] ?{_NAMES}|{_MADE}|{_ROW}))*"
    rf"|(?:[文图n][/ ]?){{0,2}}{_REPORTER}(?: {_REPORTER})*"
    rf"(?: ?(?:发自)?{_HAN}{{0,4}}(?:报道|報導|文/图))?"
    rf"|(?:https?://[\w./]{{1,40}} |{_MADE}{_BETWEEN})?{_DAY}{_BETWEEN}(?:{_MADE}|{_PAPER})?"
    rf"(?:{_BETWEEN}{_ROW})?"
    rf"|(?:\[?\d{{1,2}}\]? ){{0,9}}{_ROW}"
    r"|原标题 ?[:：].{1,60}|(?:[您你]?(?:当前|现在|所在)的?位置) ?[:：].{1,60}"
    r"|[^。，！？\d]{1,40}[>›»] ?正文"
    rf"|(?:图片来源|图源|题图来源|圖片來源|摄影) ?[:：|/]{_CREDITED}"
    r"|(?:图片(?:均?来(?:自|源于?))?|来自)?(?:视频截图|网络截图|网络)"
    r"|(?=扫码|扫描|长按).{0,16}(?:关注|二维码).{0,20}|(?:欢迎)?关注.{0,16}(?:公众号|微博).{0,16}"
    r"|点击.{0,10}(?:关注|查看|下载|进入)\D{0,12}|打开\D{2,8}(?:新闻|客户端|app)\D{0,12}"
    # A caption is short, and has no numeral but a day.
    rf"|(?:[^\d]|\d{{1,4}}[年月日]){{0,44}}(?:新华社|新華社|中新社|中央社|记者|記者|通讯员)发?"
    rf"(?:记者|記者)? ?{_HAN}{{1,3}} ?{_HAN}{{1,3}} ?[摄攝]影?"
)
#: beginnings of such lines, and last characters of those that begin with anything
BEGINNINGS: Final = " ".join(
    (_MAKER.replace("|", " "), *(word[:2] for word in word_lists()["chinese-buttons"]))
) + (
    " 来源 來源 稿源 稿件 新闻 新聞 文章 信息 本文 记者 記者 通讯 通訊 实习 首席 见习 特约 本报 本網 本网"
    " 本刊 新华 中新 文/ 图/ 20 http 大_ 大中 共1 共2 共3 共4 共5 共_ 第1 第2 第3 1_ 1] n通 原标 您当 您现 当前"
    " 你当 图片 图源 题图 圖片 摄影 视频 网络 来自 扫码 扫描 长按 关注 欢迎 点击 打开"
)
ENDINGS: Final = "摄攝影文"
#: beginnings of notices that say whose a page is
NOTICE_BEGINNINGS: Final = (
    "声明 聲明 免责 版权 版權 特别 郑重 本网 本站 本平 凡本 凡注 凡_ 未经 未經 刊用 转载 轉載 以上 如有 如转"
)
# What a notice says: one of the first words, and another one of either kind.
_COPIED: Final = re.compile(r"转载|轉載|摘编|镜像|不代表|信息存储|来源标注|授权|授權")
_LEGAL: Final = re.compile(
    r"版权|版權|侵权|著作权|观点|联系|法律责任|注明|出处|删除|权益|书面|禁止|不得|免责|核实|稿件|自媒体"
)
_NO_NOTICE: Final = re.compile(r"法院|判决|起诉|警方|[网網](?:讯|訊|记者)|\d")


def is_chinese_line(lower: str) -> bool:
    """Whether a line, in lower case and without brackets around it, is one of these.

    >>> is_chinese_line("责任编辑：王小川"), is_chinese_line("责任编辑：王小川被判三年")
    (True, False)
    """
    return _LINE.fullmatch(" ".join(lower.split())) is not None


def is_chinese_notice(lower: str) -> bool:
    """Whether a line says whose the page is and who may copy it.

    >>> is_chinese_notice("本站转载此文不代表本站观点"), is_chinese_notice("转载量上升")
    (True, False)
    """
    copied, legal = set(_COPIED.findall(lower)), _LEGAL.search(lower) is not None
    return bool(copied) and len(copied) + legal > 1 and _NO_NOTICE.search(lower) is None
