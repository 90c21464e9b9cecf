"""Lines about the page on Chinese sites: what they are made of, and what looks like them."""

from __future__ import annotations

import asyncio
import time

import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.text.chineselines import is_chinese_line, is_chinese_notice
from dedup_middleware.text.pagelines import is_page_line
from dedup_middleware.text.relevant import relevant
from dedup_middleware.text.suspects import suspects

ABOUT_THE_PAGE = """
来源：搜狐
来源: 网易
来源：综合
记者丨王川 编辑丨李文
文｜王川
编辑｜李文
责任编辑：李文 图片编辑：王川
图/视觉中国
跟贴 128 手机看新闻
点赞 36 收藏 分享 评论 12
我来说两句(45) 复制链接 大中小
2031-07-12 02:51 发布于河南 湖畔之家官方账号
IP属地：河南
2031年07月12日 02:51 新浪财经 作者：王川
（湖畔日报·湖畔农网记者 李文）
（湖畔日报-湖畔经济网记者 李文）
湖畔新闻报料：0571-88000000
湖畔新闻，未经授权不得转载
本文来自微信公众号：湖畔（ID：hupan），作者：王川
用微信扫描二维码 分享至好友和朋友圈
您的位置：首页 > 新闻中心 > 国内新闻 > 正文
图为旅客在湖畔站候车。点击图片进入下一页
文明上网，理性发言
郑重声明：湖畔财富网发布此信息的目的在于传播更多信息，与本网站立场无关。
点击上方“湖畔晚报”关注我们
2031年07月12日02:51　来源：湖畔网　【字号：大 中 小】
2031年07月12日02:51:32　来源：湖畔网　进入论坛 打印 关闭
更新时间：2031-07-12 来源：湖畔网
（据《湖畔晚报》）
据湖畔网消息
（综合新华社、湖畔晚报报道）
（本报综合报道）
（湖畔晚报 王小川）
文/图 本报记者 王小川
□本报记者 王小川 文/图
图/王小川
（责任编辑 王小川）
编译：王小川
分享到： 新浪微博 腾讯微博 人人网 QQ空间
[进入论坛] [推荐朋友]
举报/反馈
回到顶部
爆料热线：0571-88000000
线索提供：王女士 奖50元
更多最新资讯请点击进入湖畔网首页
更多精彩内容，请关注湖畔网官方微博
欢迎关注湖畔晚报官方微信
点此进入专题报道
欢迎到湖畔论坛参与讨论
返回湖畔网首页>>
本版撰文 记者王小川
如果您有新闻线索，欢迎向我们报料，一经采纳有费用酬谢。
网友评论仅供其表达个人看法，并不表明本站立场。
特别声明：以上文章仅代表作者观点。如有版权问题请于作品发表后的30日内与湖畔网联系。
长按识别二维码关注我们
正在阅读：湖畔大桥明年通车
点击右上角微信好友
请使用浏览器分享功能进行分享
您当前的位置 : 湖畔网 > 新闻中心 > 综合  来源: 新华社 2031.07.12 20:18
當前位置：首頁>2031全國兩會
文章來源: 新華社 發布時間: 2031-07-12 責任編輯: 王小川
日期:2031-07-12 15:35:39 来源:互联网 编辑:小热热 阅读人数:542
【已有31位网友发表了看法，点击查看】
已有 31 条评论
采写:湖都记者 王小川
（湖畔日报记者王小川报道）
（记者王小川、李文参与采写）
点个“在看”，让更多人看到
本文来源：湖畔网，更多原创资讯请下载“湖畔”APP
一审：李文 二审：王伟 三审：陈强
来源丨湖畔网
本文来源：湖畔网 责任编辑：王小川_NB
资料图：旅客在湖畔站候车。 王小川 摄
风险提示：本文内容仅供参考，不构成投资建议。
點擊圖片放大
http://www.lake.com.cn 2031年07月12日 02:51 湖畔早报
2031年07月05日 17:20:14　　来源：湖畔网
2031-08-07 08:57 来源：湖畔日报－《周刊》 【打印】
湖畔在线 www.lake.cn 2031年3月6日 20:36 来源:
发布时间:2031-08-06 09:35:10 | 来源:未知
稿源： 湖畔商报  | 2031-08-07 08:57:19
本文来源：湖畔网 作者：陈大文 责任编辑：王小川_NB011
（责任编辑：尹 岩）
【编辑:方芳】
编辑 李文 校对 王伟
作者： 陈大文、周小兰   编辑： 邵丛
本报记者 陈文 周兰 北京报道
文/记者 李文 图/记者 王伟
【评论】【收藏此页】【大 中 小】【打印】【关闭窗口】
[我来说两句]
我要留言 发表评论
加入收藏 | 设为首页
共有评论12条
已有12人参与
审核：王川 终审：李明
本报驻湖畔记者 郑琪
见习记者李明
打开湖畔客户端，查看更多精彩
点击下方阅读原文，关注湖畔报更多精彩
2031-07-12 02:51 湖畔社
[1] [2] 下一页
上一页 [1] [2]
(本文共2页)
共3页 第1页
湖畔资讯 > 大陆 > 正文
您当前的位置 ： 湖畔网  >  新闻中心  >  国内
原标题：大桥明年通车
下一篇：渡轮晚点
点击查看更多精彩图片
3月5日，工人在桥上作业。中新社记者 张勤 摄
声明：转载此文是出于传递更多信息之目的，若来源标注有误，请与本网联系，我们将及时更正、删除。
本站所刊载信息，不代表本社观点。刊用本站稿件，务经书面授权。
【免责声明】未标有“来源：湖畔报”的稿件均为转载稿，如涉及版权等问题，请联系湖畔报。
（本文来自湖畔新闻，更多原创资讯请下载“湖畔新闻”APP）
违法和不良信息举报电话：029-85250000  陕ICP备07010000号
2031-04-03 09:12:40  来源：湖畔网  阅读：10万+
A- A+  扫一扫手机阅读  分享到：微信 微博 QQ空间
阅读(1532) 评论(6)
编者按：本文来自微信公众号“湖畔观察”，作者王川。
字号：大号 中号 小号
关闭窗口
返回列表
下一页
登录 | 注册
湖畔网 > 新闻 > 国内
新闻 > 国内
停课 > 国内 > 正文
""".strip().split("\n")
OF_THE_SUBJECT = """
大号
小号
【大号】
大号 中号
免费
免费注册
免费 下载
关闭
停课 > 新闻
停课>新闻>国内
来源：综合市场
来源：网络诈骗
评论 12
跟贴 128
发布于河南的新规
图/网络游戏
供稿：三千字
官方账号被盗
报料人获奖
本文来自战场
王川，未经授权不得转载他人照片
微信扫码支付受骗
图为古墓。点击率进入第一页
您的位置：三排五座
据湖畔警方通报三人获救
综合新华书店开业
湖畔日报 停刊启事
快递员 王伟 见义勇为
图/表 统计数据
制图：震中位置
翻译 一名
举报热线：12345
线索提供：重奖十万元
分享到三十户村民
进入讨论阶段
关闭 进入决赛
更多新闻学院
欢迎到湖畔观光
本版地图有误，水深以海图为准
如果您有发热症状，请报告社区
如果有新闻线索表明船已沉没
2031年07月12日02:51 湖水决堤
网友点赞湖畔志愿者
一审：驳回诉讼请求
更多旅客请提前关注天气
来源：本地病例
资金来源：财政拨款
传染源：蝙蝠
编辑部搬迁到新址
主编：我们不会撤稿
责任编辑：王川被判三年
作者：本书写于战争年代
记者被打
记者 三名受伤
湖畔社记者 王伟 遇难
编辑 招聘 启事
湖畔日报社
市长 王伟
关闭 三号煤矿
评论：楼市调控应当继续
第一页写着名字
2031年3月5日 19:30 工人体育场
2031-03-05 20:00 湖队 对 河队
2031年7月12日 02:51 三人死亡
1 2 3
首页 > 家电 > 冰箱
标签：限量版
大桥 明年 通车
王伟 摄
声明：王伟与本公司无关
声明：本店从未授权任何网店，谨防假冒
未经检疫的肉类禁止转运，不得销售
未经授权转载他人作品，网站被法院判决赔偿
本网讯 未经授权转载的网站不得免责
转载量第一的文章
图为工人在桥上作业时发现的古墓
终审：死刑
复审：阳性
审核：未通过
遇难记者：王伟
获奖记者：王伟、李文
2031年3月5日 19:30 湖畔大舞台
2031年3月5日 14:00 红星话剧社
2031-03-05 19:30 体育频道
2031-03-05 20:00 湖畔电视
2031-03-05 08:00 天气预报
2031-03-05 20:00 新品发布
来源：湖畔农业合作社
来源：警方通报
【推荐】三名嫌犯落网
【推荐】新规今日发布
评论：楼市新政今日发布
关闭 湖畔电视台
时间：2031年3月5日
日期：2031年3月5日 19:30
已有31位网友中奖
记者王川报道引发关注
记者王川采写的报告获奖
采写：记者王川被打
湖畔市 > 南岸区
所在位置：湖畔市 > 南岸区
作者：陈大文，出版社：湖畔出版社
共有12人
已有120人
点击链接下载软件被骗
点击进入诈骗网站的后果
打开银行app被转走百万
声明：湖畔社从未授权湖报转载王伟的文章，湖报的转载侵权
举报电话：请市民拨打110
编者按：本文作者王川获奖。
""".strip().split("\n")
ARTICLE = """
湖畔市的跨湖大桥将于明年春天通车，工程指挥部负责人昨天在现场说，主桥的钢梁已经全部合龙。
这座大桥全长四公里，连接老城和南岸的开发区，建成以后过湖的时间将从一个小时缩短到六分钟。
负责人介绍，施工单位克服了湖底淤泥太厚、冬季风浪太大等困难，没有发生一起安全事故。
大桥通车以后，湖上的三条渡轮航线将停运两条，船员由公交公司安排新的工作岗位。
南岸的居民对记者说，他们等这座桥已经等了很多年，孩子们再也不用坐船去上学了。
""".strip()


@pytest.mark.parametrize("line", ABOUT_THE_PAGE)
def test_lines_about_the_page_are_known(line: str) -> None:
    """Rows of buttons, makers, sources, days; the way to the page; captions; notices of rights."""
    for one in (line, f" {line}\r", f"\u3000\u3000{line}"):
        assert is_page_line(one)
        assert suspects(one)[0] == [0]


@pytest.mark.parametrize("line", [*OF_THE_SUBJECT, *ARTICLE.split("\n")])
def test_other_lines_are_kept(line: str) -> None:
    """Headlines, tables and sentences, also of the same words."""
    assert not is_page_line(line)


def test_a_row_has_one_reading() -> None:
    """A crafted line takes no time that doubles with each word."""
    lines = ("来源：" + "网、" * 48, "编辑：" + "王伟 " * 30 + "x", "a." * 49 + "中", "1年" * 50)
    started = time.process_time()
    for line in lines:
        for _ in range(200):
            is_page_line(line)
    assert time.process_time() - started < 10


def test_a_page_of_such_lines_takes_no_long_time() -> None:
    """Rows that are all but one, each with another end."""
    page = "\n".join("来源：" * 32 + ending for ending in map(chr, range(0x4E00, 0x4E00 + 2000)))
    started = time.process_time()
    relevant(page)
    assert time.process_time() - started < 5


def test_such_lines_are_not_compared() -> None:
    """They are left out before, between and behind the paragraphs; a long notice is no gallery."""
    first, rest = ARTICLE.split("\n", 1)
    row, notice = "【评论】【大 中 小】【关闭】", ABOUT_THE_PAGE[-3]
    assert (
        relevant(f"{ABOUT_THE_PAGE[0]}\n{first}\n[1] [2] 下一页\n{rest}\n{notice}\n{row}")
        == ARTICLE
    )


def test_a_list_of_makers_is_kept() -> None:
    """Several names behind one label are those of a prize; one name, also said twice, is not."""
    names = ("陈大文", "周小兰", "王川")
    prize = f"{ARTICLE}\n" + "\n".join(f"作者：{name}" for name in names)
    assert relevant(prize) == prize
    assert relevant(f"作者：王川\n{ARTICLE}\n作者：王川\n（作者：王川）") == ARTICLE


async def _is_dropped(stored: str, new: str) -> bool:
    async with Deduplicator(Options(index_url="memory:", hash_key="1")) as dedup:
        verdict = await dedup.decide(Document(key="https://one.example/1", text=stored))
        await dedup.commit(verdict)
        return (await dedup.decide(Document(key="https://two.example/2", text=new))).is_duplicate


@pytest.mark.parametrize(
    "frame",
    [
        "湖畔网  >  新闻中心  >  国内\n{}\n来源：湖畔社\n编辑：小文\n校对：大明\n共2页 第1页",
        f"{{}}\n{ABOUT_THE_PAGE[-3]}\n{ABOUT_THE_PAGE[-2]}",
        "（中央社記者王小明湖畔5日電）{}（編輯：李明）1010105",
        "{}（来源：湖畔晚报 作者：王川 通讯员 李林）",
        "{}（本文来源：湖畔晚报 责任编辑：王川_NB1234）\n【打印】【关闭】",
        "{} 湖畔晚报记者王川 通讯员李林 实习生赵敏",
    ],
)
def test_a_reprint_in_another_site_is_found(frame: str) -> None:
    """What the site puts around it is nothing new; the number behind an editor is a date."""
    assert asyncio.run(_is_dropped(ARTICLE, frame.format(ARTICLE)))


def test_a_paragraph_in_a_frame_is_no_frame() -> None:
    """What is said behind a label of a source or a notice keeps the page."""
    news = "昨天下午，两名潜水员在桥墩下面找到一艘沉船，船上有上千件瓷器，考古人员已经赶到现场"
    for label in ("来源：", "编辑：", "声明：", "原因："):
        assert not asyncio.run(_is_dropped(ARTICLE, f"{ARTICLE}\n{label}{news}"))


@pytest.mark.parametrize(
    "line",
    [
        "王川点“在看”被拘留",
        "点击下方名片加入诈骗群后被关注",
        "特别提示：疫苗批号有误，说明书仅供参考，不得使用",
        "版权局认定短视频不构成侵权",
    ],
)
def test_news_with_words_of_notices(line: str) -> None:
    """Such a line is no line about the page."""
    assert not is_chinese_line(line)
    assert not is_chinese_notice(line)


def test_notices_about_investments() -> None:
    """Nothing else is said by them."""
    assert is_chinese_notice("风险提示：本文仅供参考，不构成投资建议")
    assert is_chinese_line("喜欢就点个“在看”吧")
