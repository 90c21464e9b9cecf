# ruff: noqa: E501 - Chinese takes two columns a character
"""Pages with little text or none: captions come out alone, and navigation is never a body."""

from collections.abc import Callable

import pytest

from dedup_middleware.text.extract import MODES, Mode, extract
from dedup_middleware.text.extraction.cleanup import is_note

Site = Callable[[str, str], str]

TITLE = "图说：老码头的灯塔重新点亮"
CAPTION = (
    "6月12日傍晚，老码头的灯塔在停用二十年后再次亮起，附近居民沿着堤岸散步观看。"
    "灯塔由志愿者集资修复，今后每天日落时点亮。"
)
SHORT = "老码头的灯塔今晚八点又亮了。"
REPORT = [
    "停用了二十年的老码头灯塔近日修复完工，从本周起每天日落时点亮，直到午夜熄灭。",
    "修复工程历时八个月，工匠们按照旧图纸重做了铜质灯笼，并且换上了耗电更少的新光源。",
    "港务部门说，灯塔不再承担导航任务，但会作为一处小型展馆向市民免费开放。",
]
MENU = "".join(
    f'<li><a href="/{i}">{word}</a></li>'
    for i, word in enumerate("头条 港口 渔业 天气 旅游".split())
)
TEASERS = "".join(
    f'<li><a href="/{i}.html">{text}</a></li>'
    for i, text in enumerate(
        ["渔市清晨五点开市 三百多个摊位重新编号后首次迎客", "新渡轮试航 往返两岸只要十二分钟"]
    )
)


def daily(title: str, body: str) -> str:
    """A modern template: semantic tags, a legal footer of several sentences."""
    return (
        f"<html><head><title>{title} - 港口 - 潮汐日报</title></head><body><header><ul>{MENU}</ul>"
        f"</header><main><nav>潮汐日报 / 港口 / 正文</nav><article><h1>{title}</h1>"
        '<p class="info">2024-06-13 08:10　来源：潮汐日报　字号：大 中 小</p>'
        f'<div class="entry-content">{body}</div><p>责任编辑：值班编辑</p></article>'
        f"<section><h3>猜你喜欢</h3><ul>{TEASERS}</ul></section></main><div><p>友情链接 ｜ 诚聘英才 ｜"
        " 广告刊例 ｜ 发行服务 ｜ 读者来信 ｜ 网站地图 ｜ 常见问题</p><p>潮汐日报社拥有本网全部内容的"
        "著作权，任何媒体未经授权不得转载、复制或建立镜像，否则将追究法律责任。举报邮箱见首页。</p>"
        "<p>Copyright © 2012-2024 Tide Daily. All rights reserved.</p></div></body></html>"
    )


def tables(title: str, body: str) -> str:
    """An old template: layout tables, text menus, no name that says anything."""
    return (
        f"<HTML><TITLE>{title}_潮声网</TITLE><BODY><TABLE><TR><TD><a href=/>潮声网</a> | <a href=/n>"
        "新闻</a> | 加入收藏 | 设为首页 | 会员注册 | 手机版 | 旧版回顾 | 站内搜索</TD></TR></TABLE>"
        "<DIV><DIV><DIV>您现在的位置：<a href=/>首页</a> &gt; <a href=/n>港口</a> &gt; 内容</DIV>"
        f"<H1>{title}</H1><TABLE><TR><TD>2024年06月13日 09:30 来源：潮汐日报 【字体：大 中 小】"
        f"【打印】【关闭】</TD></TR></TABLE><DIV id=txt>{body}</DIV><DIV>【<a href=#c>发表评论</a>】"
        f"【推荐】【收藏】</DIV></DIV><DIV><UL>{TEASERS}</UL></DIV></DIV><TABLE><TR><TD>关于潮声网 - "
        "投放广告 - 联系站长 - 友情链接 - 网站律师<BR>潮声网络公司 版权所有 Copyright © 2001-2024"
        "<BR>本站部分稿件转载自其他媒体，并不代表本站观点；如有侵权，请联系我们删除。</TABLE></BODY></HTML>"
    )


def portal(title: str, body: str) -> str:
    """Boxes with class names, tools below the text, a disclaimer in the footer."""
    return (
        f"<html><title>{title}|海岸线</title><body><div class=top><span>海岸线，听见潮水的声音</span>"
        f'<a href="#in">登录</a><a href="#up">注册</a></div><div class="wrap"><h1>{title}</h1>'
        '<div class="sub">2024-06-13 12:00:00 海岸线综合 阅读 2077</div>'
        f'<div class="article-content">{body}</div><div class="tools"><a href="#z">点赞</a></div></div>'
        f'<div class="right"><div>出海钓鱼，一站预订</div><ol>{TEASERS}</ol></div><div class="footer">'
        "<p>声明：海岸线登载此文出于传递更多信息之目的，并不代表本站赞同其观点或证实其描述，"
        "若有侵权请告知，本站将尽快处理。</p><p>海岸线 版权所有</p></div></body></html>"
    )


SITES: list[Site] = [daily, tables, portal]


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("mode", MODES)
def test_a_caption_comes_out_alone(site: Site, mode: Mode) -> None:
    """A sentence or two under a headline are the body, the same on every site."""
    assert extract(site(TITLE, f"<p>　　{CAPTION}</p>"), extractor=mode).text == CAPTION


@pytest.mark.parametrize("site", SITES)
def test_a_sentence_of_some_words_is_a_body(site: Site) -> None:
    """What is too short to count as prose is found by its place behind the headline."""
    assert extract(site(TITLE, f"<p>{SHORT}</p>")).text == SHORT


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", ["", "<img src=a.jpg>", "<video src=a.mp4></video>", "<p> </p>"])
def test_a_page_without_text_has_no_body(site: Site, mode: Mode, body: str) -> None:
    """Menu, breadcrumb, date line, teasers and legal footer are no body."""
    page = extract(site(TITLE, body), extractor=mode)
    assert (page.text, page.extractor, page.title) == ("", "none", TITLE)


@pytest.mark.parametrize("site", SITES)
def test_a_short_report_brings_nothing_along(site: Site) -> None:
    """A report that weighs no more than the frame around it is found without that frame."""
    body = "".join(f"<P>　　{paragraph}" for paragraph in REPORT)
    assert extract(site(TITLE, body)).text.split("\n") == REPORT


def test_a_report_on_copyright_keeps_its_words() -> None:
    """Words of notices make no notice of a long text, nor of its paragraphs."""
    law = [
        "法院认为，被告未经授权转载原告享有著作权的文章，侵犯了原告的信息网络传播权，应当停止侵权。"
        f"第{number}起案件的判决还要求被告在其网站上刊登声明，版权方则撤回了举报。"
        for number in "一二三四五六七八九"
    ]
    assert extract(daily(TITLE, "".join(f"<p>{p}</p>" for p in law))).text.split("\n") == law


def test_a_lead_above_the_frame_belongs_to_the_body() -> None:
    """A paragraph between headline and text is kept; more than two are another text."""
    lead = "本报讯：修复后的灯塔今晚试灯，市民可以在堤岸上免费观看，活动将持续到本月底结束为止。"
    text = "".join(f"<p>{p}</p>" for p in REPORT * 4)
    page = daily(TITLE, text)
    frame = '<div class="entry-content">'
    assert extract(page.replace(frame, f"<p>{lead}</p>{frame}")).text.split("\n")[0] == lead
    crowded = page.replace(frame, "".join(f"<p>{lead}{i}</p>" for i in range(3)) + frame)
    assert extract(crowded).text.split("\n")[0] == REPORT[0]


def test_a_dated_sentence_is_no_date_line() -> None:
    """A caption that begins with a full date is text, a line that is a date is not."""
    caption = "2024年6月12日，老码头的灯塔再次亮起，居民沿着堤岸散步观看。"
    assert extract(portal(TITLE, f"<p>{caption}</p>")).text == caption
    assert extract(portal(TITLE, "<p>2024年6月12日 18:00</p>")).text == ""


def test_misleading_names_do_not_hide_a_report() -> None:
    """When nearly all text is in boxes named like furniture the names count no more."""
    boxes = "".join(f'<div class="widget"><p>{p}</p></div>' for p in REPORT * 4)
    html = f"<title>{TITLE}</title><body><h1>{TITLE}</h1><div>{boxes}</div></body>"
    assert extract(html, extractor="fast").text.split("\n") == REPORT * 4


@pytest.mark.parametrize(
    "line",
    [
        "Published accounts show that the port lost 90 million.",
        "Updated: the mayor died in hospital on Friday, aged 61.",
        "时间：5月3日晚8点，地点改为体育馆，票价180元。",
        "时间：2024年5月3日 14:00",
        "作者：王小明，定价：35元",
        "2024-01-12 The mayor resigns over bribes",
        "2024-05-01 19:30 Arsenal - Chelsea 1:1",
        "2024年5月3日 三名水手在火灾中遇难",
        "Updated 12 May: the bridge is open again",
        "Updated 12 May: Bridge Closed Again",
        "Posted by mistake, the letter names Ann Shepherd",
        "Filed under seal, the papers name Ann Shepherd as the thief.",
        "Filed under the old law",
        "Read more books, the minister tells pupils",
        "Share on the island falls to 3 percent",
        "Advertisement for the ferry is banned",
        "12 comments were removed by the mayor",
        "Tag: dogs must wear it from May on",
        "2024-05-01 Ferry Day",
        "2031年3月14日 旧站台被拆除",
        "2031年3月14日 拆除旧站台",
        "2031年3月14日 三名记者遇难",
        "2031年3月14日 阅读节开幕",
        "来源：受污染的井水",
        "编辑：王川被判三年",
        "发布于河南的新规",
        "发布时间：新车将在五月上市",
        "评论：楼市调控应当继续",
        "下一条地铁线路五月开通",
        "分享到三十户村民",
        "扫一扫被骗五万元",
        "免责声明无效",
        "版权声明被撤销",
        "Read more at night and less at noon, an eye clinic advises.",
        "2031-05-04 Ferrymen answer comments on fares",
        "2031年5月4日 渡口停止打印纸票",
        "更新时间：5月4日零时起换船期",
        "发布时间：今天码头停航",
        "评论：3人落水",
        "点击：9次系统才恢复",
        "分享到微信的照片显示船身进水",
        "扫一扫才知道是假票",
        "Posted by Ferry Office: All Boats Cancelled",
        "发布时间：5月4日，码头停航",
        "发布时间：" + "1" * 60 + "停航",  # must not take exponential time
        "扫一扫，三人受骗",
        "扫一扫被骗后才看清",
        "点击下载，三人受骗",
        "发表于 渡口停航 2031年复航",
        "点击：9 次系统才恢复",
        "评论：3 人落水",
    ],
)
def test_a_fact_behind_a_date_or_a_label_is_no_note(line: str) -> None:
    """What happened on a day, and when something will be, stays in the body."""
    assert not is_note(line)


@pytest.mark.parametrize(
    "line",
    [
        "Published: 4 March 2031",
        "Posted on March 4, 2031 by Ann",
        "Updated 3 hours ago",
        "发布时间：2031-03-04",
        "时间：2031-03-04 14:00",
        "日期：2031年3月4日 来源：新华社",
        "2031年03月04日 10:20 新华网",
        "2031-03-04 14:00:22 来源：人民网 作者：李大海",
        "2031/03/04 14:00 阅读 234",
        "Posted by Ann Shepherd, Lake Press",
        "PUBLISHED: March 4, 2031 at 8:59 pm | UPDATED: March 4, 2031 at 10:16 pm",
        "Updated at 1:23 p.m.",
        "Filed under: Ferries |",
        "Filed under Lake News",
        "Read more: Ferry is late",
        "Share this story on Facebook",
        "Share this on X (Opens in new window)",
        "Posted by admin on March 4, 2031",
        "Published 4 March 2031 10:45 AEST",
        "Published 4 March 2031 5 min read Listen",
        "2 comments so far",
        "发表于 湖畔日报 2031-03-04",
        "发布时间：今天 10:45",
        "点击：231次",
        "阅读：123人",
        "发布时间：2031-05-04 上午10:30",
        "发布日期：2031年5月4日 星期三",
        "更新时间：2031-05-04 10:00 湖畔日报",
        "2031-05-04 10:00 管理员 阅读(123)",
        "分享到微信 微博 更多",
        "扫一扫 手机看",
        "- Advertisement -",
        "12 comments",
        "Tags: ferry, old harbour, lake",
        "2031-03-04 12:57:32 Ann Shepherd",
        "本文来源：湖畔经济 作者：王川",
        "来源：湖畔日报",
        "（责任编辑：王川）",
        "发布于 2031-03-04",
        "评论(18)",
        "下一篇：渡轮晚点",
        "分享到：微信 微博",
        "2031年3月14日 15:10 湖畔晚报",
        "2031-03-04 14:00:22 字号：A- A A+ 来源：湖畔网",
        "版权声明 来源：湖畔报 时间：2031-03-04",
    ],
)
def test_a_date_with_its_source_is_a_note(line: str) -> None:
    """Lines that say when and where a page was published are left out."""
    assert is_note(line)


@pytest.mark.parametrize(
    "page",
    [
        "<div>{text}</div><table><tr><td>Cod</td><td>{price} crowns</td></tr></table>",
        "<main><div>{text}</div><ul><li>Cod {price} crowns</li></ul></main>",
        "<div><div class='description'>{text}</div><dl><dt>Price</dt><dd>{price}</dd></dl></div>",
    ],
)
def test_prices_next_to_the_text_belong_to_the_body(page: str) -> None:
    """A table or a list in a box of its own tells two pages apart that have the same text."""
    sentence = "The boats come back at dawn, and buyers from the town wait for them on the quay."
    text = "".join(f"<p>{sentence} It is day {n} of the season.</p>" for n in range(9))
    found = [
        extract(
            f"<title>Fish</title><h1>Fish</h1>{page.format(text=text, price=price)}",
            extractor="fast",
        )
        for price in (41, 78)
    ]
    assert "41" in found[0].text
    assert "78" in found[1].text


SENTENCE = (
    "The boats come back at dawn, and buyers from the town wait for them on the quay all day."
)
MORE = "".join(f'<li><a href="/{n}">The ferry number {n} is late again</a></li>' for n in range(5))


def article(rest: str) -> str:
    """A page with a report that has something below its last paragraph, and links behind it."""
    text = "".join(f"<p>{SENTENCE} It is day {n} of the season.</p>" for n in range(9))
    return (
        f"<title>Fish</title><body><header><ul>{MORE}</ul></header><article><h1>Fish</h1>"
        f"<div class='body'>{text}{rest}</div></article><div><h3>More</h3><ul>{MORE}</ul></div>"
    )


@pytest.mark.parametrize("extractor", MODES)
@pytest.mark.parametrize(
    "facts",
    [
        ["Saturday, 8 p.m.", "Old mill, Lake Street 4", "Tickets: 12 crowns"],
        ["Lakeside 2-1 Harbour", "Hill 0-0 Mill", "Quay 3-1 Bridge", "Pier 1-4 Dam"],
        ["200 g flour", "2 eggs", "a pinch of salt"],
        ["The lake is wide", "The boat is slow", "The night is near"],
    ],
)
def test_short_lines_below_the_last_paragraph_are_data(extractor: Mode, facts: list[str]) -> None:
    """In the box of the paragraphs, without links among them."""
    html = article("".join(f"<p>{fact}</p>" for fact in facts))
    assert extract(html, extractor=extractor).text.split("\n")[-len(facts) :] == facts


def test_short_lines_with_links_behind_are_titles_of_boxes() -> None:
    """They are about other pages."""
    titles = "".join(f"<p>{title}</p>" for title in ("Related", "More news", "From the lake"))
    html = article(f'{titles}<p><a href="/9">The ferry number 9 is late again</a></p>')
    assert extract(html, extractor="fast").text.endswith("It is day 8 of the season.")


@pytest.mark.parametrize(
    "line",
    [
        '<p><a href="/a">Lakeside</a> 2-1 <a href="/c">Harbour</a></p>',
        '<p>Winner: <a href="/a">Ann Shepherd of Lakeside</a></p>',
        '<ul><li>200 g <a href="/f">wholemeal flour</a></li></ul>',
    ],
)
def test_facts_with_linked_words_belong_to_the_body(line: str) -> None:
    """A line with a numeral or a label that is not linked is no link to another page."""
    for html in (article(line), article(f"{line}<p>{SENTENCE}</p>")):
        found = extract(html, extractor="fast").text
        assert any(fact in found for fact in ("2-1", "Ann Shepherd of", "200 g wholemeal"))
