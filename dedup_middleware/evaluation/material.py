"""What the edit generator inserts: words, sentences, adverts and notes, all of them made up."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class Material:
    """Things to insert into texts of one script.

    :param letters: single characters
    :param words: words
    :param between: what stands between two words
    :param sentences: whole sentences
    :param adverts: sentences of adverts
    :param headers: what an agency or outlet puts before a text; ``{}`` stands for a number
    :param footers: what it puts behind it
    :param stamps: lines with a time; ``{}`` stands for a number
    """

    letters: str
    words: tuple[str, ...]
    between: str
    sentences: tuple[str, ...]
    adverts: tuple[str, ...]
    headers: tuple[str, ...]
    footers: tuple[str, ...]
    stamps: tuple[str, ...]


CHINESE: Final = Material(
    letters="山水木石田禾米竹花鸟鱼虫马牛羊门户车船桥路井泉灯火云雨风雪春秋早晚南北东西高低远近新旧",
    words=tuple(
        "渡口 晒谷场 磨坊 邮差 茶馆 梯田 芦苇 灯塔 船工 木匠 水渠 石桥 果园 羊群 集市 钟楼 "
        "戏台 渔网 雨棚 竹筏 粮仓 花圃 牧场 码头 凉亭 瓦片 麦垛 山路 泉眼 蜂箱".split()
    ),
    between="",
    sentences=(
        "渡口的老船工说，今年的芦苇比往年长得都密。",
        "磨坊门前的水渠刚刚清过淤，孩子们在石桥上看鱼。",
        "集市收摊以后，茶馆里又坐满了听戏的人。",
        "守灯塔的人每天傍晚沿着山路往上走。",
        "木匠把修好的木窗一扇一扇装回钟楼。",
        "果园里的蜂箱搬到了背风的坡上。",
        "下过雨的晒谷场上铺着一层细沙。",
        "邮差说北坡的小路要等雪化了才能走。",
    ),
    adverts=(
        "【推广】换季清仓，满额立减，点击领取优惠券。",
        "下载客户端，随时随地看新鲜事，新用户有礼。",
        "扫码关注我们的公众号，精彩内容不错过。",
        "限时特惠：全屋定制，免费量房，预约从速。",
        "猜你喜欢：这样喝茶更健康，很多人都不知道。",
    ),
    headers=(
        "原标题：见正文\n",
        "来源：湖滨日报\n",
        "湖滨社{}月{}日电 （本社记者）",
    ),
    footers=(
        "\n（责任编辑：夜班）",
        "\n声明：本文仅代表作者观点，转载请注明出处。",
        "\n（完）",
    ),
    stamps=(
        "发布时间：2031年{}月{}日 {}:{}\n",
        "2031-{}-{} {}:{} 更新\n",
        "本页打印于2031/{}/{} {}:{}\n",
    ),
)

LATIN: Final = Material(
    letters="etaoinshrdlucmfwypvbgk",
    words=tuple(
        "ferry orchard lantern granary shepherd millstream harbour potter thatch beacon meadow "
        "carpenter reed bridge bakery well goose barrel hedge plough".split()
    ),
    between=" ",
    sentences=(
        "The ferryman said the reeds had never grown so thick. ",
        "Behind the granary a carpenter was mending the old gate. ",
        "At dusk the keeper walks up to the beacon with his lantern. ",
        "The potter moved her kiln out of the wind. ",
        "Geese crossed the meadow before the bakery opened. ",
        "No one had used the bridge since the snow. ",
    ),
    adverts=(
        "Advertisement: sign up today and save on your first order. ",
        "Follow us for more stories like this one. ",
        "Download the app and never miss an update. ",
        "Sponsored: ten ways to brew better tea. ",
    ),
    headers=("Source: The Lakeside Herald\n", "LAKESIDE, {}/{} (Lakeside Press) -- "),
    footers=(
        "\n(Edited by the night desk)",
        "\nAll rights reserved. No reprint without permission.",
    ),
    stamps=("Published: 2031-{}-{} {}:{}\n", "Updated {}/{}/2031, {}:{}\n"),
)

# Simplified characters with one traditional form only: 发, 后, 里, 面 and their like are left out.
_SIMPLIFIED: Final = (
    "国会学习时问间门车东马长见说话语读书报纸电视广场开关对应现实经济进过还这边远运动"
    "际约级纪给结统维组织续线练热爱亲观览觉觅视让认议计划设访评论谁调谈请诉词译详误"
    "农产业务员众乡镇县区厂园图团围"
)
_TRADITIONAL: Final = (
    "國會學習時問間門車東馬長見說話語讀書報紙電視廣場開關對應現實經濟進過還這邊遠運動"
    "際約級紀給結統維組織續線練熱愛親觀覽覺覓視讓認議計劃設訪評論誰調談請訴詞譯詳誤"
    "農產業務員眾鄉鎮縣區廠園圖團圍"
)
TRADITIONAL: Final = dict(zip(_SIMPLIFIED, _TRADITIONAL, strict=True))
