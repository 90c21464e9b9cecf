"""Attribution: words that say who reported or said something, and on what occasion.

An agency's report and a paper's version of it have the same sentences, but "X told reporters in Y
on Tuesday", 记者从市政府获悉 and «об этом сообщили в пресс-службе» stand elsewhere or are missing.
Such words are no news. They are found by closed lists, of which each word is one token:

- `SAYS`: verbs of saying, the press, its occasions, who speaks to it, agencies. Such a word is
  attribution wherever it stands;
- `FILLS`: what stands around them (days, to hold, telephone, interview). Such a word, and a figure,
  is attribution next to another word of it in the same clause;
- up to `_HOLDER` words between one of `_HOLDING` and one of `_OCCASIONS`, which name who held it:
  在今日举行的国务院联防联控机制新闻发布会上;
- names that `names.is_credit` finds (a reporter, an editor).

Other words before one of `SAYS` in its clause, up to `_SPEAKER`, name who speaks: a person, an
office. They are attribution only where the page also says them in a passage that the stored page
holds, so another speaker is news. A negation or a numeral written as a word ends the list of them.

Nothing else depends on these words: the values of figures, names on short pages, clauses and
shingles are the same, so another day, sum or speaker and a denial are found as anywhere. How many
words of a row may be attribution is said in :mod:`dedup_middleware.signature.evidence`.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.clauses import NUMBER
from dedup_middleware.text.polarity import NOT
from dedup_middleware.text.wording import IS_NUMBER, NO_NEWS, SAID, SPEAKS

#: sorts of listed words, added to their kind, see `clauses`
SAYS, FILLS = 1024, 2048
_HOLDS: Final = 4096  # with `SAYS` an occasion, with `FILLS` a word that says that one was held
# What is noted of each word that is kept: the sorts above and `clauses.NUMBER`, shifted, and
_IS_SAYS, _IS_FILLS, _IS_HOLDS = 2, 4, 8
_LISTED: Final = IS_NUMBER | _IS_SAYS | _IS_FILLS | _IS_HOLDS
_NEGATES: Final = 16
_SAID_BEHIND: Final = 32  # a verb of saying that is a stop word follows in the same clause
_IS_FIGURE: Final = 64
_SPEAKER: Final = 8  # words that may name who speaks
_HOLDER: Final = 6  # words that name who held an occasion
_OCCASION, _HELD = np.uint8(_IS_SAYS | _IS_HOLDS), np.uint8(_IS_FILLS | _IS_HOLDS)
_REACH: Final = 16  # words before or behind one of `SAYS` that are looked at

_SAYS: Final = (
    # verbs of saying
    "表示 介绍 指出 称 说 说道 说到 时说 写道 坦言 直言 透露 强调 获悉 获知 得知 报道 宣布 提到 "
    "谈到 谈及 提及 回应 解答 重申 表态 声称 宣称 据称 据悉 据介绍 据了解 据报道 "
    "據稱 據悉 介紹 強調 獲悉 報導 報道 宣佈 談到 回應 "
    # the press, and who speaks to it
    "记者 記者 通讯员 編輯 编辑 责编 答记者问 发言人 發言人 新闻发言人 负责人 負責人 采访 採訪 "
    "专访 受访 电题 日电 新华社 新华网 中新社 中新网 人民网 央视网 央广网 法新社 路透社 美联社 "
    "中央社 共同社 韩联社 塔斯社 "
    "told reporter reporters newsmen journalists spokesman spokeswoman spokesperson spokesmen "
    "reportedly correspondent correspondents according newswire "
    "сообщил сообщила сообщили сообщило сообщает сообщают сообщается передает передаёт передают "
    "заявил заявила заявили заявляет отметил отметила отметили отмечается подчеркнул подчеркнула "
    "рассказал рассказала рассказали пояснил пояснила пояснили уточнил уточнила уточнили добавил "
    "добавила добавили говорится сказал сказала журналистам корреспондент корреспонденту риа тасс "
    "интерфакс пресс "
    "sagte sagten erklärte erklärten mitteilte mitteilten betonte sprecher sprecherin journalisten "
    "dijo dijeron afirmó declaró aseguró señaló según periodistas portavoz "
    "déclaré affirmé indiqué selon journalistes disse afirmou jornalistas giornalisti "
    "말했다 밝혔다 전했다 보도했다 설명했다 덧붙였다 강조했다 기자 대변인 대변인은 관계자는"
)
_FILLS: Final = (
    "新闻 新聞 例行 今日 今天 昨日 昨天 当日 当天 当晚 上午 下午 晚间 晚上 近日 日前 上 会上 "
    "有关 相关 有关部门 方面 新闻办 新闻办公室 接受 进行 提问 回答 问题 了解 到 向 对此 此外 "
    "媒体 消息 如是说 通报 告诉 告訴 解释 解釋 答复 补充 本报 本网 本台 公告 公报 声明 日 号 "
    "题 电 讯 "
    "statement interview press conference briefing telephone yesterday today earlier monday "
    "tuesday wednesday thursday friday saturday sunday "
    "об этом как также ссылкой словам данным информации сообщении службе служба службы агентство "
    "агентства новости в на со с по и он она понедельник вторник среду четверг пятницу субботу "
    "воскресенье интервью брифинге "
    "pressekonferenz montag dienstag mittwoch donnerstag freitag samstag sonntag "
    "이날 오전 오후 기자회견에서 브리핑에서"
)
_OCCASIONS: Final = "发布会 新闻发布会 發布會 记者会 記者會 通报会 吹风会 说明会 见面会"
_HOLDING: Final = "举行 召开 举办 舉行 召開 舉辦"
#: each listed word in normal form, and its sort
ATTRIBUTION: Final = {
    **dict.fromkeys(_FILLS.split(), FILLS),
    **dict.fromkeys(_SAYS.split(), SAYS),
    **dict.fromkeys(_OCCASIONS.split(), SAYS | _HOLDS),
    **dict.fromkeys(_HOLDING.split(), FILLS | _HOLDS),
}


@subkernel
def use_of(kind: np.uint64, first: np.uint32) -> np.uint8:
    """What is noted of a word, from its kind in the table of words and its first character."""
    use = kind // np.uint64(NUMBER) & np.uint64(_LISTED)
    negates = kind % np.uint64(NUMBER) >> np.uint64(1) == np.uint64(NOT)
    is_figure = first - np.uint32(ord("0")) < np.uint32(10)
    return np.uint8(use | np.uint64(_NEGATES * negates) | np.uint64(_IS_FIGURE * is_figure))


@subkernel
def note_verb(uses: NDArray[np.uint8], kept: np.uint64, is_left_out: bool) -> None:
    """Note of the last word of `kept` that the one behind it, which is left out, is a verb of
    saying, if it is one."""
    said = is_left_out & (uses[kept] & np.uint8(_IS_SAYS) != np.uint8(0))
    uses[kept - np.uint64(kept > np.uint64(0))] |= np.uint8(_SAID_BEHIND * said)


@subkernel
def _marked(word: np.uint32, mark: int) -> np.uint32:
    """The hash of a word with a mark, `NO_NEWS` as it is."""
    return word | np.uint32(mark if word != np.uint32(NO_NEWS) else 0)


@subkernel
def leave_out_names(
    starts: NDArray[np.int32], names: NDArray[np.int32], own: NDArray[np.int32],
    words: NDArray[np.uint32],
) -> None:  # fmt: skip
    """Mark the words of names that say who made the page, all of `names` that are not in `own`, as
    attribution; both are in text order, as are the words that begin at `starts`."""
    at, word = 0, np.uint64(0)
    for name in range(names.shape[0]):
        if at < own.shape[0] and own[at, 0] == names[name, 0]:
            at += 1
            continue
        while word < np.uint64(words.size) and starts[word] < names[name, 0]:
            word += np.uint64(1)
        while word < np.uint64(words.size) and starts[word] < names[name, 1]:
            words[word] = _marked(words[word], SAID)
            word += np.uint64(1)


@subkernel
def _holder(uses: NDArray[np.uint8], cuts: NDArray[np.uint8], occasion: int) -> int:
    """The word of an occasion's clause that says it was held, with few words between; the occasion
    itself if there is none."""
    word = occasion
    while word > 0 and occasion - word <= _HOLDER + 1 and not cuts[word]:
        word -= 1
        if uses[word] & np.uint8(IS_NUMBER | _NEGATES):
            return occasion
        if uses[word] & _HELD == _HELD:
            return word
    return occasion


@subkernel
def leave_out_sources(
    uses: NDArray[np.uint8], cuts: NDArray[np.uint8], words: NDArray[np.uint32]
) -> None:
    """Mark words of attribution as `SAID`, and those that name who speaks as `SPEAKS`.

    Args:
        uses: what is noted of each word; `cuts` says before which of them a clause begins.
        words: hashes of them without a mark, or `NO_NEWS`.
    """
    spoken, silent = np.uint8(_IS_SAYS | _SAID_BEHIND), np.uint8(_IS_SAYS | _IS_FILLS | _IS_FIGURE)
    for place in range(words.size):
        if not uses[place] & spoken:
            continue
        word = place + 1
        while word < min(words.size, place + _REACH) and not cuts[word] and uses[word] & silent:
            words[word] = _marked(words[word], SAID)
            word += 1
        if uses[place] & _OCCASION == _OCCASION:
            for word in range(_holder(uses, cuts, place), place):
                words[word] = _marked(words[word], SAID)
        word, speaker = place, 0
        while word > max(-1, place - _REACH):
            if uses[word] & silent:
                words[word] = _marked(words[word], SAID)
            elif uses[word] & np.uint8(IS_NUMBER | _NEGATES) or speaker == _SPEAKER:
                break
            else:
                speaker += 1
                words[word] = _marked(words[word], SPEAKS)
            if cuts[word]:
                break
            word -= 1
