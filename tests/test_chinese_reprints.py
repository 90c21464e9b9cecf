"""Reprints of Chinese news: what papers and portals write in other words, and what they don't."""

from __future__ import annotations

import asyncio

import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.text.relevant import relevant

REPORT = """
湖畔航运公司昨天公布了上半年的业绩，营收为41亿元，净利润为1.9亿元，比去年同期增长近三成，股价随之上涨。
一艘渡轮上月在大风中撞上码头，12名乘客受了轻伤，司机被停职，受伤的人都已经出院，赔偿也已经付清。
气象台说，本周湖区的最低气温将降到零下6摄氏度，北风很大，公司因此停开了几条航线，其余的航线照常。
董事长周文说，公司将买进6艘新船，每艘船都比现在的大，老船卖给下游的县，票价不变，老人和学生减半。
分析人士认为，这家公司的长处在于航线长，短处是冬天常常因为风浪不能开船，港口的租金也偏高。
""".strip()
CHANGES = {
    "净利润": "净利",
    "三成": "30%",
    "乘客": "旅客",
    "司机": "驾驶员",
    "零下6摄氏度": "-6℃",
}


async def _is_dropped(stored: str, new: str, key: str) -> bool:
    async with Deduplicator(Options(index_url="memory:", hash_key=key)) as dedup:
        await dedup.commit(await dedup.decide(Document(key="https://one.example/1", text=stored)))
        return (await dedup.decide(Document(key="https://two.example/2", text=new))).is_duplicate


def _are_dropped(stored: str, new: str) -> set[bool]:
    return {asyncio.run(_is_dropped(stored, new, key)) for key in ("1", "2", "3")}


@pytest.mark.parametrize("word", CHANGES)
def test_words_that_editors_exchange(word: str) -> None:
    """Two names of one thing, and two spellings of a numeral, are one; in either direction."""
    other = REPORT.replace(word, CHANGES[word])
    assert _are_dropped(REPORT, other) == {True}
    assert _are_dropped(other, REPORT) == {True}


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("净利润", "营业额"),
        ("净利润", "净亏损"),
        ("乘客", "船员"),
        ("司机", "医生"),
        ("三成", "五成"),
        ("三成", "50%"),
        ("零下6摄氏度", "6摄氏度"),
        ("零下6摄氏度", "-8℃"),
    ],
)
def test_other_words_make_another_page(word: str, other: str) -> None:
    """Words of two names still exclude each other."""
    assert _are_dropped(REPORT, REPORT.replace(word, other)) == {False}


NUMBERS = """
消防部门8月2日23时接到报警，调集5辆消防车和32名队员赶到现场，大火于3日0时10分被扑灭，当地%s的人随后赶来。
起火的房屋位于该楼的6层，火势一度蔓延，队员从楼道和云梯两路灭火，并且疏散了楼内的40余名居民。
这栋楼建于1998年，共有120户人家，近3年已经发生过2起类似的事情，物业为此投入了2000万元更换线路。
受损的房屋约占全楼的15%%，其中有8家需要重新装修，街道方面安排他们在附近的旅馆住10天左右。
""".strip()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("中国足协", "足协", True),
        ("工商银行", "工行", True),
        ("清华大学", "清华", True),
        ("大客车", "大巴", True),
        ("住宅楼", "居民楼", True),
        ("中国足协", "中国篮协", False),
        ("工行", "建行", False),
        ("清华", "北大", False),
        ("大客车", "出租车", False),
        ("停课", "复课", False),
        ("裁员", "招聘", False),
        ("夭折", "存活", False),
        ("入境", "出境", False),
        ("二○○六年", "二〇〇六年", True),
        ("二○○六年", "二○○九年", False),
    ],
)
def test_full_and_short_names(one: str, other: str, same: bool) -> None:
    """A full name and its short form are one word, and exclude other names and opposites."""
    assert _are_dropped(NUMBERS % one, NUMBERS % other) == {same}
    assert _are_dropped(NUMBERS % other, NUMBERS % one) == {same}


@pytest.mark.parametrize(
    "line",
    [
        "10月29日消息，",
        "湖畔网10月29日上午消息：",
        "湖畔科技讯 北京时间10月29日消息，",
        "据《湖畔日报》10月29日报道，",
        "湖畔财经讯（记者 王川）10月29日晚间消息，",
        "新华网湖畔10月29日专电（记者王川 李林）",
    ],
)
def test_a_date_line_of_a_portal(line: str) -> None:
    """The day on which a portal sent a report is that of a date line, also where it is repeated."""
    assert _are_dropped(REPORT, line + REPORT) == {True}
    assert _are_dropped(REPORT, line + REPORT.replace("公司因此", "公司29日因此")) == {True}


def test_the_day_of_a_time_stamp() -> None:
    """Another day of the event is news, also if it is that of the date line and of the stamp."""
    text = NUMBERS % "社区"
    stored = "新华网湖畔8月3日电（记者王川）" + text.replace("于3日0时", "于2日0时")
    stamp = "2006年08月03日 17:26\n"
    assert _are_dropped(stored, stamp + text) == {False}
    assert _are_dropped(stored, stamp + text.replace("于3日0时", "于8月3日0时")) == {False}


def test_a_date_line_of_a_paper() -> None:
    """The town of a paper's own report says nothing new, nor do two reporters."""
    assert _are_dropped(NUMBERS, f"本报南岸市讯（特派记者 王川 李文 周兰 赵明）{NUMBERS}") == {True}


@pytest.mark.parametrize(
    "line", ["10月29日消息人士说，", "10月29日上午，", "到10月29日为止，", "29日消息闭塞，"]
)
def test_another_day_is_no_date_line(line: str) -> None:
    """A day on which something happened is news."""
    assert _are_dropped(REPORT, line + REPORT) == {False}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("加息", "降息"),
        ("涨价", "降价"),
        ("揭幕", "闭幕"),
        ("冻结", "解冻"),
        ("停電", "送電"),
        ("实施", "废止"),
        ("表彰", "处罚"),
        ("入职", "离职"),
        ("任命", "免去"),
        ("参赛", "退赛"),
        ("抓获", "逃脱"),
        ("入狱", "出狱"),
        ("停火", "交火"),
        ("看多", "看空"),
        ("履约", "违约"),
        ("曝光", "隐瞒"),
        ("扑灭", "点燃"),
        ("正点", "晚点"),
        ("上诉", "抗诉"),
        ("同比", "环比"),
        ("去年", "前年"),
        ("年初", "年底"),
        ("槐花巷", "柳叶巷"),
        ("东风渠", "红星渠"),
        # towns and firms that the segmenter's dictionary calls persons, and verbs like 提起
        ("石家庄", "杭州"),
        ("大连", "青岛"),
        ("伊拉克", "以色列"),
        ("莫斯科", "巴黎"),
        ("华为", "中兴"),
        ("偏北风", "偏南风"),
        ("大风", "寒潮"),
        ("濒危", "近危"),
        ("取保候审", "刑事拘留"),
        ("翰林苑", "紫竹苑"),
        ("予以受理", "不予受理"),
        ("提起上诉", "不上诉"),
        ("继续停牌", "复牌"),
    ],
)
def test_what_happened_and_its_opposite(one: str, other: str) -> None:
    """A verb for its opposite, or a name for another, in an equal clause makes another page."""
    page = REPORT + "\n有关人士说，港口方面%s的消息在湖边的县城里传开了，许多人半信半疑。"
    assert _are_dropped(page % one, page % other) == {False}
    assert _are_dropped(page % one, page % one) == {True}


def test_another_headline_above_the_same_report() -> None:
    """Words of a headline that the report says as well leave room for a note at the end."""
    headline = "渡轮大风中撞码头乘客受轻伤 湖畔航运公司停开几条航线 上半年净利润增长近三成\n"
    note = "昨天记者从县交通局获悉，"
    assert _are_dropped(REPORT, headline + REPORT + note) == {True}


def test_a_headline_of_another_report() -> None:
    """Words that only the new page says count, in its headline as below it."""
    page = "江宁县人民医院%s采购项目中标公告\n" + REPORT + "\n江宁县人民医院%s的价格也已公布。"
    assert _are_dropped(page % (("呼吸机",) * 2), page % (("洗衣机",) * 2)) == {False}


@pytest.mark.parametrize(
    "row",
    [
        "来源：湖畔晚报　网友评论 58 条 进入论坛",
        "[责任编辑：kevin]",
        "文章录入：admin 责任编辑：admin",
        "上一篇文章：渡轮停航",
        "【评论】【体育论坛】【收藏此页】【打印】【关闭】",
        "图说：渡轮靠岸 新华社图",
        "本站所有信息来源于网络，如有侵权请联系我们删除。",
        "声明：中奖结果以发行中心公布为准。",
        "湖畔新闻客户端 2031-03-04 06:35",
        "2031-03-04 06:35 来源：湖畔航运集团",
        "来源：湖畔晚报全媒体",
    ],
)
def test_rows_of_portals(row: str) -> None:
    """Rows that portals put around an article are not compared."""
    assert relevant(f"{REPORT}\n{row}") == relevant(f"{row}\n{REPORT}") == REPORT


@pytest.mark.parametrize(
    "line",
    [
        "来源：生活污水",
        "2031-03-04 来源：生活污水",
        "责任编辑：kevin辞职",
        "图说：渡轮靠岸",
        "声明：公司对渡轮停航表示歉意",
        "注：以上价格为含税价",
        "湖畔新闻",
    ],
)
def test_lines_that_look_like_rows(line: str) -> None:
    """Lines that say something of the subject are compared."""
    assert line in relevant(f"{REPORT}\n{line}")
