"""Texts for tests: made up, as long as needed, different for each seed."""

from __future__ import annotations

import random

SUBJECTS = "市政府 图书馆 水务局 气象台 体育馆 消防队 渔民 合作社 研究所 博物馆 铁路局 中学".split()
VERBS = "宣布 修建 检查 改造 关闭 评估 扩大 推迟 启动 公布 整修 监测".split()
OBJECTS = "码头 桥梁 展厅 供水管网 梯田 候车室 灯塔 果园 档案 训练场 温室 观测站".split()
TAILS = "并听取居民意见 以应对汛期 预算已经通过 将分阶段完成 具体办法另行通知 受到游客欢迎".split()
WORDS = (
    "harbour council bridge market library garden railway museum teacher farmer storm river "
    "budget concert bakery engine lantern orchard valley festival engineer survey mountain ferry"
).split()
NOUNS = [f"{one}{other}" for one in WORDS for other in ("", "ing", "ward", "man", "side")]


def article(seed: int, sentences: int = 14) -> str:
    """A Chinese text of its own for each seed."""
    rng = random.Random(seed)
    parts = (SUBJECTS, VERBS, OBJECTS, TAILS)
    lines = [
        "".join(rng.choice(part) for part in parts[:3]) + "，" + rng.choice(TAILS) + "。"
        for _ in range(sentences)
    ]
    return "".join(lines)


def english(seed: int, words: int = 220) -> str:
    """An English text of its own for each seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words)) + "."


def sentences(seed: int, count: int) -> list[str]:
    """English sentences of eight words, different for each seed."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(NOUNS, k=8)) + "." for _ in range(count)]


# Of 60 words and more without stop words; it has no numeral and no word of the list of opposites
# that is replaced below.
LEVY = (
    "At a long meeting in the old customs house the harbour board of Wexcombe imposed a levy on "
    "visiting yachts, which the owners of the marina called "
    "a burden for a trade that depends on guests. The levy was introduced because dredging of the "
    "eastern channel devours savings, and because sailors leave rubbish on the quay. Fishermen "
    "welcomed the idea and asked that skippers of ferries pay as well. The clerk told listeners "
    "that accounts would be printed, that stickers would be sold at a kiosk beside the crane, and "
    "that inspectors in a yellow dinghy would visit moorings. A petition against the charge hangs "
    "in the chandlery, where Gordon Petrie sells ropes, lamps, varnish and tinned soup. Children "
    "of the sailing club painted posters with whales and pirates and handed them to passengers."
)
