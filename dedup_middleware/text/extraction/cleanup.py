"""Remove lines about the page from a body: legal notices, menus, notes, the repeated headline.

Templates name their boxes as they like, but all sites word their notices alike. `is_notice` and
`is_menu` affect only the weight of a block, never the words of a body: a report on copyright loses
nothing.
"""

import re

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.chineselines import is_chinese_line
from dedup_middleware.text.extraction.blocks import Blocks

_NOT_WORD = re.compile(r"\W+")

# Words of notices. A short block with many different ones is a notice.
_LEGAL = word_lists()["legal"]
_LEGAL_ASCII = tuple(word for word in _LEGAL if word.isascii())
# Most UTF-8 bytes of a notice for each of its words.
_LEGAL_RATE = 120
_LEGAL_LEAST = 2
# Longer blocks are never notices.
_LEGAL_SIZE = 1_200
_SEPARATOR = re.compile(r"\s*[|｜┊·•»›／>]+\s*|\s+[-–—/]+\s+")
_GAP = re.compile(r"\s*[|｜┊·•»›／>]+\s*|\s+")
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_HEAD = 40
_SENTENCE = re.compile(r"[。！？；!?;।۔؟]|[.…][\s”\"')]|[.…]$")
_MENU_PARTS = 4
# Largest mean weight of an entry of a menu, and the weight of a long menu.
_MENU_ENTRY = 24
_MENU_SIZE = 2_000

# Lines that sites put before and behind a body: date, source, author, editor, buttons. They differ
# between reprints, and their dates would count as figures of the report.
_BEFORE = r"[\s(（\[【|>·\-—]*"
_NOTE = re.compile(
    _BEFORE
    + r"""(?:
    (?:本文|文章|稿件)来源\s*[:：] | (?:责任|本文|网络|值班)?编\s?[辑輯]\s*[:：|]
    | 责编 | 責任編輯
    | (?:原|本文)?(?:标题|標題)\s*[:：]
    | (?:文章)?作者\s*[:：](?!.*\d\s?元) | (?:关键[词字]|标签)\s*[:：]
    | (?:发布|发表|更新|發布|发稿)(?:时间|日期|時間)\s*[:：]\s*(?:今天|昨天)?
      (?:[\d\s年月日时分秒:：/.T-]|上午|下午|星期.|周.)*
      (?:$|(?=[^\u4e00-\u9fff\d\s:：/.T-])|[\u4e00-\u9fff]{1,7}[网报社]\s*$
      |来源|來源|作者|编辑|责任|责编|记者|字[体号]|浏览|阅读|点击)
    | 发[布表]于\s*[:：]?\s*(?:\d|[\u4e00-\u9fff]{2,3}(?:\s|$)
      |[\u4e00-\u9fff]{2,8}\s(?:19|20)\d\d[-年/.]\d{1,2}[-月/.]\d{1,2}日?\s*$)
    | (?:时间|日期|時間)\s*[:：]\s*(?:19|20)\d\d[-/.]\d{1,2}[-/.]\d{1,2}
      (?:[\sT]*\d{1,2}:\d\d(?::\d\d)?)?\s*(?:来源|作者|责任编辑|编辑|$)
    | (?:时间|日期|時間)\s*[:：].{4,20}(?:来源|來源)
    | 字[体号]\s*[:：]
    | (?:浏览|点击|阅读|评论|瀏覽)(?:量|数|次数)?\s*[:：(（]\s*
      (?:\d[\d,.]*[万亿]?\+?\s?[次人]?\s*(?:$|[^\w\s])|$)
    | [上下]一[篇页条]\s*(?:[:：>»|上下]|$)
    | 分享[到至]\s*(?:[:：]
      |(?:微信|微博|朋友圈|qq|新浪|腾讯|空间|好友|facebook|twitter|更多|[\s、|/])*$)
    | (?:关闭|打印|返回|收藏|举报|纠错)(?:窗口|本页|此页|列表|首页|顶部|反馈)? \s*[\]】)）]
    | (?:当前位置|您的位置|版权声明|免责声明|特别声明)\s*(?:[:：|\]】)）]|$|(?<=\s))
    | 扫一扫(?:$|(?=[^\u4e00-\u9fff])|(?=.{0,8}(?:关注|分享|阅读|看|下载)))
    | 点击下载(?:$|(?=[^\u4e00-\u9fff])|(?=.{0,10}(?:app|客户端)))
    | (?:19|20)\d\d\s?[-年/.]\s?\d{1,2}\s?[-月/.]\s?\d{1,2}[日\s]*
      (?:[\s|,T]*\d{1,2}[:：时]\d\d分?(?:[:：]\d\d)?(?:\s?[ap]m\b)?)?[\s|,()（）\[\]/·-]*
      (?:$|.{0,16}(?:来源|來源|作者|编辑|責編|责编|记者)\s*[:：]
      |[^\u4e00-\u9fff]{0,16}次?(?:浏览|点击|阅读|评论|瀏覽|字[体号]|打印|分享)[量数次]{0,2}\s*
       (?:[:：()（）\[\]【】|\d]|$)
      |.{0,16}(?:阅读|评论|浏览)[量数次]{0,2}\s*[(（:：]\s*\d
      |(?:\d[\d,.]*\s)?(?:views?|comments?)\s*(?:[:(|]|$)
      |(?<=\d:\d\d\ )(?-i:[A-Z][A-Za-z.]*(?:\s[A-Z][A-Za-z.]*){0,3})$)
    | \d+\s+comments?(?:\ so\ far)?\s*$ | tags?\s*:(?!(?:[^,]*\s){4})
    | filed\ under\s*(?::|(?-i:(?:\s[A-Z&][^\s.]*)+$))
    | read\ (?:more|also)\s*(?:[:|»>….]|$
      |(?!.*[.!?]$)(?:about|on|from|in|at|here|stories|news|articles)\b)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# A line about the page only as a whole: when it was made, with the names of who made it behind
# "by", and buttons. With any other word it says something.
_STAMP = re.compile(
    _BEFORE
    + r"(?:(?:published|updated|posted|last (?:updated|modified))(?: (?:on|at|by)\b|\s*[:|-])?"
    r"\s*(?:\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|by\b"
    r"|today|yesterday|an?\b|$)|share (?:this|on)\b|advertisement\b)",
    re.IGNORECASE,
)
_STAMPED = frozenset(word_lists()["stamp-notes"]).union(
    word_lists()["months"], word_lists()["weekdays"]
)
_BY = re.compile(r"\bby\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_BEFORE_COLON = re.compile(r"([^\W\d_]+): (?!\d)")
# A Chinese label or date with one of these characters behind it says what happened.
_SAYS = re.compile("[被将已了不没会骗]|[，。！？；].")
_LABELLED = re.compile(r"\s*(?:新闻)?来源\s*[:：]|[\s(（\[【|>·\-—]*(?:19|20)\d\d")
_TOLD = re.compile("(?:标题|標題|声明)")
_NOTE_SIZE = 80
_HEADLINE_SIZE = 400
# Least UTF-8 bytes of a text line, which contains the end of a sentence unless it is twice as long.
_TEXT = 40
_TEXT_SHARE = 0.25
# Lines at either end that are checked for notes.
_NOTES = 6


def is_notice(text: str, weight: int) -> bool:
    """Whether a block is worded like a copyright notice, a disclaimer or a call to sign up."""
    if weight > _LEGAL_SIZE:
        return False
    lowered = text.lower()
    words = 0
    # A generator would take twice the time, and every block of a page is checked here.
    for word in _LEGAL_ASCII if lowered.isascii() else _LEGAL:
        if word in lowered:
            words += 1
    return words >= _LEGAL_LEAST and weight <= _LEGAL_RATE * words


def is_menu(text: str, weight: int) -> bool:
    """Whether a block is a row of short entries with separators, and has no sentence."""
    if weight > _MENU_SIZE or is_sentence(text):
        return False
    # Chinese and Japanese words are separated only in menus.
    spaceless = _IDEOGRAPH.search(text, 0, _HEAD) is not None
    parts = len((_GAP if spaceless else _SEPARATOR).findall(text)) + 1
    return parts >= _MENU_PARTS and weight <= _MENU_ENTRY * parts


def is_sentence(text: str) -> bool:
    """Whether a line contains the end of a sentence."""
    return _SENTENCE.search(text) is not None


def tidy(text: str, title: str) -> str:
    """The body with one paragraph a line, without the headline and without notes at either end."""
    lines = [" ".join(words) for line in text.split("\n") if (words := line.split())]
    headline = letters(title)
    start, end = 0, len(lines)
    while start < min(_NOTES, end) and (
        is_note(lines[start]) or is_headline(lines[start], headline)
    ):
        start += 1
    while end > max(start, len(lines) - _NOTES) and is_note(lines[end - 1]):
        end -= 1
    return "\n".join(lines[start:end])


def is_note(line: str) -> bool:
    """Whether a line is about the page rather than part of the report."""
    if len(line) > _NOTE_SIZE:
        return False
    found = _NOTE.match(line)
    if found is not None:
        says = _SAYS.search(line, found.end()) is not None
        return not says or _TOLD.search(found[0]) is not None
    if _LABELLED.match(line):
        return is_chinese_line(line.lower())
    return _is_stamp(line) or not letters(line)


def _is_stamp(line: str) -> bool:
    """Whether a line says only when a page was made, and its authors, or is a button.

    >>> _is_stamp("Posted on March 4, 2031 by Ann Shepherd"), _is_stamp("Updated 4 May: it is open")
    (True, False)
    """
    if _STAMP.match(line) is None:
        return False
    stamp, *authors = _BY.split(line, maxsplit=1)
    names = " ".join(authors)
    # Behind a name and a colon comes what is said (Police: Missing Boy Found).
    said = [*_WORD.findall(stamp), *_BEFORE_COLON.findall(names)]
    return all(word.lower() in _STAMPED for word in said) and all(
        not word.islower() or word in _STAMPED for word in _WORD.findall(names)
    )


def is_headline(line: str, headline: str) -> bool:
    """Whether a line repeats the headline (its `letters`), or its part without the site's name."""
    if len(line) > _HEADLINE_SIZE:
        return False
    key = letters(line)
    return key == headline or (len(key) >= 8 and key in headline)


def vetted(text: str, page: Blocks) -> str:
    """The body of another extractor without lines that are only links on the page; empty unless
    more than a quarter of the rest is sentences and paragraphs.

    Extractors that find little take the text of the whole page, beginning with its menus.
    """
    links = {letters(block.text) for block in page.blocks if block.link > 0.8}
    # Libraries that give up return the words of the whole page in one line.
    longest = 2 * max((block.weight for block in page.blocks), default=0) + _TEXT
    lines = [
        line
        for line in text.split("\n")
        if letters(line) not in links and len(line.encode()) <= longest
    ]
    return "\n".join(lines) if is_prose(lines) else ""


def is_prose(lines: list[str]) -> bool:
    """Whether more than a quarter of the bytes of lines are in sentences and paragraphs."""
    total = sum(len(line.encode()) for line in lines)
    texts = sum(len(line.encode()) for line in lines if _is_text(line))
    return texts > _TEXT_SHARE * total


def _is_text(line: str) -> bool:
    """Whether a line may be part of a report."""
    weight = len(line.encode())
    if weight < _TEXT or is_note(line) or is_notice(line, weight) or is_menu(line, weight):
        return False
    return weight >= 2 * _TEXT or is_sentence(line)


def letters(line: str) -> str:
    """Letters and digits of a line."""
    return _NOT_WORD.sub("", line).casefold()
