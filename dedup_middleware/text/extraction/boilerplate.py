"""What a block says about itself: legal notice, menu, breadcrumb, note, or perhaps a report.

Templates name their boxes as they like, but all sites word their notices alike. Only the weight of
a block depends on this, never the words of a body: a report on copyright loses nothing.
"""

import re

# Words of notices. A block is one when it is short for the number of different ones in it.
_LEGAL = (
    *("版权", "版權", "著作权", "著作權", "转载", "轉載", "授权", "授權", "镜像", "摘编", "备案"),
    *("许可证", "違法和不良", "违法和不良", "举报", "舉報", "本站", "本网", "本網", "不代表本"),
    *("责任自负", "侵权", "侵權", "免责", "免責", "网安备", "声明：", "聲明：", "热线", "客服"),
    *(
        "联系我们",
        "聯絡我們",
        "关于我们",
        "關於我們",
        "京icp",
        "icp备",
        "icp证",
        "登录后",
        "客户端",
    ),
    *("copyright", "©", "(c)", "rights reserved", "registered in", "privacy policy"),
    *("terms of", "terms and conditions", "cookie", "sign up", "signing up", "newsletter"),
    *("subscribe", "unsubscribe", "log in", "your email", "contact us", "about us"),
    *("without permission", "written consent", "registered office", "trademark"),
)
_LEGAL_ASCII = tuple(word for word in _LEGAL if word.isascii())
# UTF-8 bytes of a notice for each of the words.
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
# Mean weight of an entry of a menu, and the weight of a long menu.
_MENU_ENTRY = 24
_MENU_SIZE = 2_000


def is_notice(text: str, weight: int) -> bool:
    """Whether a block is worded as a copyright notice, a disclaimer or an invitation to sign up."""
    if weight > _LEGAL_SIZE:
        return False
    lowered = text.lower()
    words = 0
    # A generator would take twice the time, and all blocks come by here.
    for word in _LEGAL_ASCII if lowered.isascii() else _LEGAL:
        if word in lowered:
            words += 1
    return words >= _LEGAL_LEAST and weight <= _LEGAL_RATE * words


def is_menu(text: str, weight: int) -> bool:
    """Whether a block is a row of short entries with marks between them, and no sentence."""
    if weight > _MENU_SIZE or is_sentence(text):
        return False
    # Words of Chinese and Japanese stand apart in menus only.
    spaceless = _IDEOGRAPH.search(text, 0, _HEAD) is not None
    parts = len((_GAP if spaceless else _SEPARATOR).findall(text)) + 1
    return parts >= _MENU_PARTS and weight <= _MENU_ENTRY * parts


def is_sentence(text: str) -> bool:
    """Whether a line holds the end of a sentence."""
    return _SENTENCE.search(text) is not None
