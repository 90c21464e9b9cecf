"""Pages of one host: variants of a product, pages on one template, names with signs (C++)."""

from __future__ import annotations

import pytest

from dedup_middleware import Deduplicator, Document, Options, Verdict
from tests.methods.test_content_evidence import verdict

ROOM = (
    "Detached house with garden in quiet location, three bedrooms, two bathrooms, oil heating, "
    "garage. The roof was renewed recently. Close to school and shops. Viewing by appointment only."
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("oil heating", "gas heating"),
        ("garage", "carport"),
        ("quiet", "central"),
        ("Detached", "Terraced"),
    ],
)
async def test_pages_on_a_template_of_one_host(old: str, new: str) -> None:
    """Short pages of one host that differ in what stands at one place are two pages, under one
    title or none; elsewhere one is an edited copy, and so is one with a note or without a word."""
    other = ROOM.replace(old, new)
    for title in ("", "House for sale"):
        for pages in ((ROOM, other), (other, ROOM)):
            found = await on_host(*pages, title)
            assert (found.outcome, found.reason) == ("new", "common-on-host")
    assert (await verdict(ROOM, other)).outcome == "duplicate"
    assert (await on_host(ROOM, f"{ROOM} Print this page", "")).outcome == "duplicate"
    assert (await on_host(ROOM, ROOM.replace(" recently", ""), "")).outcome == "duplicate"


LONGER = (
    "市消防救援支队昨天通报，白河街一栋五层居民楼凌晨起火，六辆消防车到场，明火在四十分钟后扑灭。"
    "起火的房间位于二层，火势没有蔓延到其他楼层，住户已经全部疏散。据邻居介绍，起火前听到屋内有响声，"
    "随后浓烟从窗户涌出。初步判断起火原因为线路老化，具体原因和损失正在调查。支队提醒市民，"
    "不要在楼道停放车辆和堆放杂物，外出前关闭电源和燃气，发现火情及时报警并沿楼梯撤离。"
    "社区已经为受影响的住户安排临时住处，供电和供水预计今天傍晚恢复。"
)


@pytest.mark.parametrize(("old", "new"), [("线路老化", "烟头引燃"), ("白河街", "柳荫街")])
async def test_longer_pages_of_one_host_that_differ_in_a_word(old: str, new: str) -> None:
    """They are two pages; one with a word more or less is an edited copy."""
    found = await on_host(LONGER, LONGER.replace(old, new), "")
    assert found.outcome == "new"
    assert (await on_host(LONGER, LONGER.replace("已经", ""), "")).outcome == "duplicate"


MANUAL = (
    "Lamplight draws maps of caves from what surveyors measure under ground. It reads notebooks "
    "in three formats, corrects the drift of compasses, joins loops whose ends miss each other, "
    "and prints plans, sections and rose diagrams. Volumes are computed between walls that laser "
    "scanners saw. A projector shows passages in depth, coloured by altitude or by survey year, "
    "while cameras follow any route through galleries, shafts and sumps. Results go to printers, "
    "web sites and spreadsheets alike. Clubs share one archive, whose curators settle names, "
    "grades and access rules before anybody descends. Biologists add bats, crickets and "
    "springtails, geologists strata, faults and dripstone, historians inscriptions, bones and "
    "charcoal. "
)


@pytest.mark.parametrize("pitch", [MANUAL, MANUAL[: MANUAL.index("Volumes")]])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("voice translations", "toolbar icons"),
        ("voice translations", "examples for teachers"),
        ("development headers", "runtime files"),
        ("development headers", "plugins"),
    ],
)
async def test_pages_of_one_host_with_another_ending(pitch: str, old: str, new: str) -> None:
    """Pages of one host that differ in what their last sentence names are two pages, with most
    keys of the index: the last words are in few shingles, each of which a filter takes for common
    once in sixteen times. One to which a note was added is a copy, and so is one without the last
    sentence."""
    pages = [f"{pitch}This package contains the {what}." for what in (old, new)]
    for title in ("", "Maps of caves"):
        for stored, other in (pages, pages[::-1]):
            found = [await on_host(stored, other, title, f"{key:x}") for key in range(1, 17)]
            assert sum(one.reason == "common-on-host" for one in found) >= 12
        for copy in (f"{pages[0]} Print this page", pitch):
            assert (await on_host(pages[0], copy, title)).outcome == "duplicate"
    assert (await verdict(*pages)).outcome == "duplicate"


async def on_host(stored: str, new: str, title: str, hash_key: str = "5eed") -> Verdict:
    """The verdict on another page of the same host."""
    async with Deduplicator(Options(index_url="memory:", hash_key=hash_key)) as dedup:
        first = Document(key="https://one.example/1", text=stored, title=title)
        await dedup.commit(await dedup.decide(first))
        return await dedup.decide(Document(key="https://one.example/2", text=new, title=title))


PACK = (
    "The suite lays out letters, sheets, slides and drawings. This pack holds the interface in {}, "
    "with its templates, its entries for automatic text and the questions of its help. Not all of "
    "them are there in each language. The language of the interface follows the settings of the "
    "system; whoever wants another one chooses it in the menu. To check the spelling, install the "
    "words of the language as well, the rules by which it breaks words at the end of a line, and a "
    "collection of words with a like sense, each of which comes in a pack of its own. Packs are "
    "made by volunteers, who are glad of help: a mistake may be reported on the page of the pack, "
    "where the last three reports stand, and whoever speaks the language well can join them there. "
    "A new edition of all packs comes with each edition of the suite, and old ones stay available "
    "for two years, so that a school need not change its machines in the middle of a term. Before "
    "an old pack is taken off, its users are told by a window that opens once a week. Fonts are "
    "no part of it: letters that the system can't draw appear as boxes until a fitting font is "
    "installed. Dates, currencies, paper sizes, sorting orders and decimal marks follow regional "
    "settings, not this pack, and can be mixed freely, sheet by sheet, cell by cell. Macros keep "
    "English keywords everywhere, recorded ones included, so colleagues abroad may run them "
    "unchanged. Screen readers announce buttons through the same catalogue. Removing the pack "
    "leaves documents untouched; reopening them afterwards shows menus of the default edition. "
    "Administrators push packs silently through ordinary deployment tools."
)


async def test_variants_of_one_host_on_a_long_template() -> None:
    """Of a page of any length that names its variant in its title and in its text each is stored,
    however many there are, and a copy of one is none of them."""
    syllables = ("ar", "bel", "cor", "dun", "fen", "gal", "hul", "ist", "kor", "lam")
    variants = [f"{one}{two}ish" for one in syllables for two in syllables[:6]]
    async with Deduplicator(Options(index_url="memory:", hash_key="5eed")) as dedup:

        async def verdict_on(place: object, variant: str, title: str) -> Verdict:
            # In a second place, too: one word alone makes another page by itself.
            text = PACK.format(variant).replace("Fonts are", f"Fonts of {variant[::-1]} are")
            key = f"https://one.example/{place}"
            found = await dedup.decide(Document(key=key, text=text, title=title))
            await dedup.commit(found)
            return found

        for place, variant in enumerate(variants):
            found = await verdict_on(place, variant, f"Language pack: {variant}")
            assert found.outcome == "new"
            assert place == 0 or found.reason == "other-title"
        again = await verdict_on("copy", variants[7], f"{variants[7]} language pack")
        assert (again.outcome, again.reason) == ("duplicate", "exact-copy")
        edited = PACK.replace(" well", "").format(variants[8])
        found = await dedup.decide(
            Document(key="https://one.example/edited", text=edited, title="Help wanted")
        )
        assert (found.outcome, found.reason) == ("duplicate", "near-duplicate")


NOTICE = (
    "The harbour board will close the eastern lock for eleven weeks from the first Monday in May, "
    "so that both gates can be lifted out and their bearings renewed. Barges use the western lock "
    "meanwhile, where skippers should expect to wait for up to three hours in the mornings. Yachts "
    "pass twice a day, at seven and at nineteen, and have to announce themselves by radio. The "
    "ferry to the islands is not concerned. Work costs four million and is paid by the province."
)
STORY = NOTICE + (
    " Dockers had asked for a later start, because the grain of last summer is shipped in June. "
    "The board answers that divers can work only while the river is low, and that a summer of "
    "dredging would be lost. A spokeswoman named the gates a danger: in March one of them stuck "
    "for a night, and two tankers had to be held outside. Engineers from the shipyard found cracks "
    "in six of the eight bearings, which were cast before the war. New ones of bronze lie ready in "
    "a shed beside the quay. Those who live along the canal may ask questions at the town hall."
)


async def titled(pages: list[tuple[str, str]], key: str) -> Verdict:
    """The verdict on the last of some pages of one host, each a title and a text."""
    async with Deduplicator(Options(index_url="memory:", hash_key=key)) as dedup:
        for place, (title, text) in enumerate(pages):
            page = Document(key=f"https://one.example/{place}", text=text, title=title)
            found = await dedup.decide(page)
            await dedup.commit(found)
        return found


@pytest.mark.parametrize("key", ["5eed", "1", "2"])
@pytest.mark.parametrize("text", [NOTICE, STORY])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Eastern lock <EL> to be closed in May", "Eastern lock to be closed in May"),
        ("Eastern lock closed in spring", "Eastern lock closed: barges use the western lock"),
        ("Lock closed for renewal of gates", "LOCK CLOSED FOR RENEWAL OF THE GATES"),
        ("Board to close the eastern lock", "The eastern lock"),
    ],
)
async def test_another_headline_for_a_story(key: str, text: str, one: str, other: str) -> None:
    """A page of the same host is a copy, also of few words, if its title says nothing that the
    stored page has neither in its title nor in its text."""
    edited = text.replace("should expect to wait", "may have to wait")
    for copy in (text, edited):
        assert (await titled([(one, text), (other, copy)], key)).is_duplicate


@pytest.mark.parametrize("key", ["5eed", "1", "2"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Eastern lock closed", "Eastern lock closed: Alma yard"),
        ("Closed lock, plan B", "Closed lock, plan A"),
        ("The lock, part II", "The lock, part I"),
        ("The lock, lot 31", "The lock, lot 32"),
        ("The lock above the bridge", "The lock below the bridge"),
        ("甲船闸关闭", "乙船闸关闭"),
    ],
)
async def test_a_title_that_says_what_is_new(key: str, one: str, other: str) -> None:
    """A short page of the same host is no copy, even of the same text, if the stored page says
    a word of its title nowhere; nor is a long one that differs in such a word."""
    for pages in ((one, other), (other, one))[: 1 if "Alma" in other else 2]:
        found = await titled([(title, NOTICE) for title in pages], key)
        assert (found.outcome, found.reason) == ("new", "other-title")
        long = [(title, STORY.replace("the eastern lock", title)) for title in pages]
        assert (await titled(long, key)).outcome == "new"


BRIDGE = (
    "云洲长江大桥的主缆架设昨日全部完成，大桥建设转入钢梁吊装阶段。这是一座双塔悬索桥，主跨一千六百八十米，"
    "上层为六车道高速公路，下层为双线铁路，建成后将成为省内跨度最大的公铁两用桥。两根主缆各由二百一十七根索股组成，"
    "全部钢丝首尾相接可以绕地球赤道一周半。项目总工程师介绍，架设主缆最怕大风，团队在猫道上安装了四十多个风速仪，"
    "风力超过六级就停止作业，整个工序历时一百零四天。为了保证索股的线形，测量人员只在凌晨气温稳定的时段调索，"
    "误差控制在一厘米以内，相当于在一千多米外瞄准一枚硬币。接下来要吊装的钢梁共八十九节段，最重的一节超过九百吨，"
    "由船运到桥下后用缆载吊机垂直提升，预计明年六月合龙。大桥通车后，两岸的车程将由现在轮渡的五十分钟缩短到六分钟，"
    "沿线的三个县第一次接入铁路网。"
)
CUT = BRIDGE[: BRIDGE.index("接下来")]
EDITED = "(记者郑平)" + BRIDGE.replace("项目总工程师介绍", "总工程师说").replace("将由现在", "由")
BRIDGE_TITLE = "云洲长江大桥主缆架设完成"


@pytest.mark.parametrize("key", ["5eed", "1", "2"])
@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("主缆钢丝可绕地球赤道一周半 大桥转入钢梁吊装", CUT, "near-duplicate"),
        ("主缆架设历时一百零四天：风力超过六级就收工", CUT, "near-duplicate"),
        ("主缆架设历时一百零四天：风力超过六级就收工", EDITED, "near-duplicate"),
        # As many words as the other title has, a few words, or most of them new.
        ("云洲长江大桥主缆架设收官", EDITED, "other-title"),
        ("大桥工地收工", CUT, "other-title"),
        ("走近追风的造桥人：他们在猫道上看日出日落", CUT, "other-title"),
    ],
)
async def test_a_second_headline_for_a_story(
    key: str, title: str, text: str, expected: str
) -> None:
    """A cut or edited story under a headline of its own, few words of which are new, is a copy."""
    assert (await titled([(BRIDGE_TITLE, BRIDGE), (title, text)], key)).reason == expected


@pytest.mark.parametrize("key", ["5eed", "1", "2"])
async def test_a_longer_title_that_names_another_subject(key: str) -> None:
    """Another bridge on the template of that report is kept, though its title is a headline, too,
    and its text is shorter: it names the bridge where the stored page names another one."""
    title = "青螺岛跨海大桥主缆架设完成 转入钢梁吊装阶段"
    text = CUT.replace("云洲长江", "青螺岛跨海")
    for pages in ((BRIDGE, text), (BRIDGE, BRIDGE.replace("云洲长江", "青螺岛跨海"))):
        found = await titled(list(zip((BRIDGE_TITLE, title), pages, strict=True)), key)
        assert found.outcome == "new"


EVENING = (
    "市群众文化馆公益培训班现开始接受报名。本期开设的{0}班面向十六周岁以上的市民，每周六上午9时至11时上课，共12次，地点在文化馆3楼{1}。"
    "授课老师从事教学20多年，曾多次担任省级展演的评委。课程从{2}讲起，循序渐进，零基础的学员也能跟上进度。学员需要自备{3}，其余用品由馆方提供。"
    "每班限30人，报满为止。报名时请携带身份证原件和1张照片，到1楼服务台登记，电话报名不予受理。缺课3次以上的学员取消下一期的报名资格。"
    "结业时将举行汇报活动，优秀学员可以参加馆里的志愿服务队，并有机会在年底的群众文化节上亮相。培训期间请遵守馆内秩序，爱护公共设施，"
    "不带小孩进入教室。停车位有限，建议乘坐公交前来。如遇恶劣天气停课，将通过短信提前通知。文化馆负责人表示，公益培训开办以来深受市民欢迎，"
    "今后还将增加夜间班和社区班，让更多上班族也能参加。"
)


@pytest.mark.parametrize("key", ["5eed", "1", "2"])
async def test_another_subject_and_other_details_of_it(key: str) -> None:
    """A page on the template of another one is kept that differs in its subject and in some details
    of it, though all numerals are equal and the titles are not equally long."""
    classes = (
        ("书法", "墨香斋", "执笔和线条", "毛笔和毡垫"),
        ("古琴", "听雨轩", "指法和识谱", "义甲和琴谱"),
    )
    titles = "市文化馆公益培训{}班开始报名", "市群众文化馆公益培训{}班每周六上课 现开始接受市民报名"
    for one, other in (classes, classes[::-1]):
        for first, second in (titles, titles[::-1]):
            pages = [(first.format(one[0]), EVENING.format(*one))]
            pages.append((second.format(other[0]), EVENING.format(*other)))
            assert (await titled(pages, key)).reason == "other-title"


CLEANING = (
    "Limescale and old grease shorten the life of any machine, and a repair costs more than a "
    "packet of citric acid. Before you begin, unplug the {0} and let it cool. Take out whatever "
    "can be lifted out by hand and soak the parts in warm water with a spoonful of soda. While "
    "they soak, mix the acid with hot water in a jug and stir until no crystals are left. Wipe the "
    "inside of the {0} with a sponge dipped in this mixture and leave it to work while you drink "
    "tea. Stubborn rings come off with an old toothbrush. Rinse with clear water, dry everything "
    "with a cloth, and put the loose parts back in the order in which you took them out. Plug the "
    "{0} in again and run it empty to flush out the last of the acid. Seals made of rubber should "
    "be checked for cracks, since a new seal costs little and a flooded floor costs a great deal. "
    "Keep a note of the date inside a cupboard door, and never scrape with a knife. "
)
DATA = (
    "Weight 220 g, height 85 mm, width 72 mm, cable 45 cm, noise 30 dB, steel 92 percent, rubber 8 "
    "percent, carton of 12 pieces. "
)


@pytest.mark.parametrize("key", ["5eed", "1", "2"])
@pytest.mark.parametrize("form", ["{}", "{}s"])
@pytest.mark.parametrize("data", ["", DATA])
async def test_another_subject_of_a_cut_guide(key: str, form: str, data: str) -> None:
    """A guide to another machine is kept, though it is shorter and its title is a long one: the
    title may name the machine in another form than the text, and both list the same numerals."""
    titles = [
        f"How to clean {form.format(name)} properly at home with citric acid{more}"
        for name, more in (("kettle", " and soda"), ("dishwasher", " and soda, step by step"))
    ]
    other = (data + CLEANING).format("dishwasher")
    for text in (other[: other.index("Seals")], other[: other.index("Plug")]):
        pages = [(titles[0], (data + CLEANING).format("kettle")), (titles[1], text)]
        assert (await titled(pages, key)).outcome == "new"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("From Norden to Lamm", "From Lamm to Norden"),
        ("Lamm beats Norden 2-1", "Lamm beats Norden 1-2"),
        ("Season 2, episode 1", "Season 1, episode 2"),
        ("Trains in Norden", "Trains from Norden"),
        ("Eastern lock", "Western lock"),
        ("Work on the gates", "Work on the bearings"),
        ("甲船闸到乙船闸", "乙船闸到甲船闸"),
    ],
)
async def test_as_many_words_in_another_title(one: str, other: str) -> None:
    """Titles of equally many words are those of two pages, also if they have the same words in
    another order, or if the text, a list of all variants, say, has each of them."""
    for pages in ((one, other), (other, one)):
        for key in ("5eed", "1", "2"):
            found = await titled([(title, NOTICE) for title in pages], key)
            assert (found.outcome, found.reason) == ("new", "other-title")


@pytest.mark.parametrize(("one", "other"), [("C", "C++"), ("C", "C#"), ("B", "B+")])
async def test_names_with_signs(one: str, other: str) -> None:
    """C++ and C# are not C: two pages that say the same of them are two pages."""
    text = (
        "A compiler for {}. It reads programs, checks their types, turns them into machine code "
        "and links them with the libraries of the system. Errors name the file, the line and the "
        "column, and say what was expected there."
    )
    titles = (f"Compiler for {one}", f"Compiler for {other}")
    assert (await verdict(text.format(one), text.format(other), titles)).outcome == "new"
    assert (await verdict(text.format(other), text.format(other), titles[1:] * 2)).is_duplicate


@pytest.mark.parametrize(("one", "other"), [("C", "C++"), ("C", "C#"), ("C++", "C#"), ("A", "A+")])
async def test_names_with_signs_on_a_long_template(one: str, other: str) -> None:
    """The signs of a name make another title, too: two long pages on one template are two pages."""
    async with Deduplicator(Options(index_url="memory:", hash_key="5eed")) as dedup:
        for name in (one, other):
            key, title = f"https://one.example/{len(name)}{name[-1]}", f"Language pack: {name}"
            text = PACK.format(name)
            if name == other:  # one word alone, which makes another page by itself, is not all
                text = text.replace("made by volunteers", "made by amateurs")
            found = await dedup.decide(Document(key=key, text=text, title=title))
            await dedup.commit(found)
    assert (found.outcome, found.reason) == ("new", "other-title")


@pytest.mark.parametrize(("one", "other"), [("red+", "blue+"), ("five+ jars", "six+ jars")])
async def test_alternatives_with_signs(one: str, other: str) -> None:
    """A sign behind an alternative or a numeral leaves it one."""
    found = await verdict(PACK.format(one), PACK.format(other), ("Packs", "Packs"))
    assert found.outcome == "new"
