"""Lines of figures that say when a page was made, how often it was read, or a telephone number.

`5 min read`, `24 likes 13 shares`, `Tuesday, 3 November 2031`, `字数：320`, `Tel. 030 5550134`:
each site writes such lines around an article. A line is one if all of its words are in a list and
one of them is `STRONG`, if it is a date with a year, or a telephone number. So no line with a word
of its own is one, nor one with a currency or a percentage.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.numerals import Codes, among, is_digit
from dedup_middleware.text.stopwords import MONTHS

NEITHER, WEAK, STRONG, MONTH = 0, 1, 2, 3
_LONGEST: Final = 16  # letters of a word
_BASE: Final = 0x100000001B3
#: words for what is counted or dated; in normal form
_STRONG: Final = (
    "like likes liked share shares shared retweets view views viewed comment comments reply "
    "replies "
    "read reads reading ago tel telephone phone call fax hotline published posted updated "
    "modified "
    "followers reactions count "
    "lesezeit lesedauer aufrufe veröffentlicht aktualisiert geteilt kommentar kommentare "
    "telefon wörter vor "
    "lecture vues vue commentaire commentaires partages publié tél téléphone y "
    "lectura gusta visitas comentarios compartidos hace actualizado publicado teléfono "
    "lettura visualizzazioni condivisioni commenti pubblicato aggiornato fa "
    "leitura visualizações comentários compartilhamentos publicado atualizado há "
    "чтения просмотр просмотра просмотров комментарий комментария комментариев лайк лайка лайков "
    "репост репоста репостов назад телефон тел опубликовано обновлено "
    "阅读 閱讀 阅读量 閱讀量 阅 字数 字數 全文共 浏览 瀏覽 浏览次数 瀏覽次數 次浏览 次瀏覽 "
    "次阅读 点赞 點贊 点赞数 赞 评论 "
    "評論 转发 轉發 收藏 播放 电话 電話 热线 熱線 发布时间 發布時間 發佈時間 发布日期 发布于 "
    "更新时间 更新時間 更新于 小时前 "
    "小時前 分钟前 分鐘前 天前 "
    "いいね シェア 閲覧数 文字数 コメント で読めます 読了時間 読了 更新日 公開日 公開 更新 "
    "時間前 分前 日前 お問い合わせ 残り "
    "リツイート "
    "좋아요 조회수 조회 댓글 읽는 전 입력 수정 문의 전화 공유 공감 추천 글자수 "
    "إعجاب مشاهدة مشاهدات المشاهدات تعليق تعليقات مشاركة هاتف القراءة الكلمات النشر تحديث قبل منذ "
    "לייקים צפיות תגובות שיתופים קריאה טלפון עודכן מילים פורסם לפני "
    "लाइक शेयर टिप्पणियां टिप्पणी पढ़ें देखा पहले फोन फ़ोन प्रकाशित अपडेट "
    "ถูกใจ แชร์ วิว ความคิดเห็น อ่าน โทร ชั่วโมงที่แล้ว เผยแพร่ "
    "thích xem sẻ luận đọc thoại nhật trước "
    "beğeni görüntülenme yorum paylaşım okuma önce güncelleme "
    "σχόλια σχόλιο προβολέσ κοινοποιήσεισ ανάγνωσησ πριν τηλ ενημερώθηκε"
)
_WEAK: Final = (
    "min mins minute minutes hour hours h hr hrs day days week weeks month months year years "
    "and at "
    "on the about in us to am pm a m p last first time word words est gmt utc "
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun "
    "minuten minute min stunden stunde std tag tagen tage uhr um am mal stand zuletzt montag "
    "dienstag mittwoch "
    "donnerstag freitag samstag sonntag "
    "temps de mis à jour le heures heure il jours lundi mardi mercredi jeudi vendredi samedi "
    "dimanche "
    "tiempo minutos horas días el me las lunes martes miércoles jueves viernes sábado domingo "
    "tempo minuti ore di il lunedì martedì mercoledì giovedì venerdì sabato domenica "
    "minutos em às "
    "время мин минут минуты минуту час часа часов г года дней дня число понедельник вторник среда "
    "четверг пятница суббота воскресенье "
    "年 月 日 号 號 时 時 分 点 點 秒 上午 下午 星期 周一 周二 周三 周四 周五 周六 周日 週一 "
    "週二 週三 週四 週五 週六 週日 人 次 字 约 約 大约 大約 共 本文 "
    "分钟 分鐘 时长 時長 咨询 諮詢 联系 聯繫 聯絡 星期一 星期二 星期三 星期四 星期五 星期六 "
    "星期日 于 於 "
    "この記事は 件 文字 月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日 有料記事 "
    "개 분 시 년 월 일 시간 일간 회 명 월요일 화요일 수요일 목요일 금요일 토요일 일요일 "
    "مدة دقائق دقيقة ساعات ساعة عدد تاريخ آخر يوم "
    "זמן דקות דקה שעות שעה מספר יום "
    "मिनट में बार गया घंटे घंटा "
    "นาที น ม ก พ เม มิ ส ต ธ ค ย "
    "lượt chia bình phút giờ cập điện ngày tháng năm thứ hai ba tư sáu bảy chủ "
    "süresi dakika saat pazartesi salı çarşamba perşembe cuma cumartesi pazar "
    "χρόνοσ λεπτά ώρεσ ώρα δευτέρα τρίτη τετάρτη πέμπτη παρασκευή σάββατο κυριακή"
)
_MONTHS: Final = (
    "march may jan feb mar apr jun jul aug sep sept oct nov dec ocak mart mai maj avr déc ene abr "
    "ago dic янв фев апр июн июл авг сен окт ноя дек "
    "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม"
)


def _hash(word: str) -> int:
    value = 0
    for letter in word:
        value = (value + ord(letter)) * _BASE & (1 << 64) - 1
    return value


def _sorted_words() -> tuple[np.ndarray, np.ndarray]:
    sorts = dict.fromkeys(_WEAK.split(), WEAK) | dict.fromkeys(_STRONG.split(), STRONG)
    sorts |= dict.fromkeys([*MONTHS, *_MONTHS.split()], MONTH)
    rows = sorted((_hash(word), sort) for word, sort in sorts.items())
    return np.array([r[0] for r in rows], np.uint64), np.array([r[1] for r in rows], np.uint8)


_WORDS, _SORTS = _sorted_words()
_FIRST_WIDE: Final = 0x2E80  # the radicals before the first ideograph
_THAI: Final = (0xE00, 0xE80)
# Ranges without letters: punctuation and symbols, and punctuation of Chinese and Japanese.
_NO_LETTERS: Final = ((0x2000, 0x2C00), (0x3000, 0x3040), (0x1F000, 0x20000))
_ARABIC_MARKS: Final = np.array(sorted(map(ord, "،؛؟×÷")), np.uint32)
#: a line with one of these says what something costs, or by how much it rose
_VALUED: Final = np.array(sorted(map(ord, "$£¥€₩₹₽₺₴₪₫฿%‰<>=°★☆")), np.uint32)
_PHONE_BEGINS: Final = np.array(sorted(map(ord, "+(0")), np.uint32)
_PHONE_DIGITS: Final = 7
_DATE_FIGURES: Final = 3


@subkernel
def _is_letter(code: np.uint32) -> bool:
    """Whether a code point in normal form, no digit, is a letter or a mark of one."""
    if code < np.uint32(0xC0):
        return code - np.uint32(97) < np.uint32(26)
    letter = not among(np.int64(code), _ARABIC_MARKS)
    for first, last in _NO_LETTERS:
        letter &= not np.uint32(first) <= code < np.uint32(last)
    return letter


@subkernel
def _is_unspaced(code: np.uint32) -> bool:
    """Whether a letter is of a script that writes words without spaces, or joins them (Hangul)."""
    thai = np.uint32(_THAI[0]) <= code < np.uint32(_THAI[1])
    return thai or code >= np.uint32(_FIRST_WIDE)


@subkernel
def _sort_of(value: np.uint64) -> int:
    """The sort of the word with a hash."""
    first, last = 0, _WORDS.size
    while first < last:
        middle = (first + last) >> 1
        if _WORDS[middle] < value:
            first = middle + 1
        else:
            last = middle
    return np.int64(_SORTS[first]) if first < _WORDS.size and _WORDS[first] == value else NEITHER


@subkernel
def _read_word(codes: Codes, i: int, last: int) -> tuple[int, int]:
    """The sort of the longest listed word at i, and where it ends; `NEITHER` if there is none."""
    unspaced, value, sort, end = _is_unspaced(codes[i]), np.uint64(0), NEITHER, i
    j = i
    while j < last and j - i < _LONGEST and _is_letter(codes[j]):
        value = (value + np.uint64(codes[j])) * np.uint64(_BASE)
        j += 1
        if unspaced or j == last or not _is_letter(codes[j]):
            found = _sort_of(value)
            if found != NEITHER:
                sort, end = found, j
    return sort, end


@subkernel
def is_stamp_line(codes: Codes, first: int, last: int, figures: int, year: bool) -> bool:
    """Whether the line from `first` to `last`, which has so many figures and perhaps a year among
    them, is about the page."""
    strong, month, words, digits, i = False, False, 0, 0, first
    while i < last:
        if is_digit(codes, i):
            digits += 1
            i += 1
        elif not _is_letter(codes[i]):
            if among(np.int64(codes[i]), _VALUED):
                return False
            i += 1
        else:
            sort, i = _read_word(codes, i, last)
            if sort == NEITHER:
                return False
            words += 1
            strong |= sort == STRONG
            month |= sort == MONTH
    phone = words == 0 and digits >= _PHONE_DIGITS and among(np.int64(codes[first]), _PHONE_BEGINS)
    return strong or phone or (year and (month or figures >= _DATE_FIGURES))
