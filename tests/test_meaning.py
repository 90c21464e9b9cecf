"""What a sign or a word that turns a sentence round does to a verdict, most in English and Chinese."""

# Letters of Chinese count as two columns.
# ruff: noqa: E501
from __future__ import annotations

from typing import Final

import pytest

from dedup_middleware.model.documents import DUPLICATE, NEW, Verdict
from tests.languages import REPORTS
from tests.test_verdict import verdict_of

#: pages with room for a sentence
ENGLISH: Final = (
    "The harbour council met on Monday in the old town hall, where engineers spoke about the "
    "pillars of the bridge and what the winter had left of them. Shop owners near the northern "
    "gate listened from the gallery and wrote down each answer. {} Divers measured the riverbed "
    "again last week and reported that it had sunk since the survey of their predecessors. A "
    "teacher from the island school said that her pupils enjoy the trip, keep a diary of birds and "
    "draw the ferries that carry commuters across the bay. The mayor thanked everyone who came, "
    "closed the meeting and invited the reporters to a walk along the quay with the harbour master."
)
CHINESE: Final = (
    "港口委员会星期一在旧市政厅召开会议，工程师介绍了大桥桥墩的状况以及冬季造成的损坏。北门附近的店主"
    "坐在旁听席上，记录每一个答复。{}潜水员上周再次测量河床，报告说河床比前任调查时继续下沉。岛上学校的"
    "老师说，学生喜欢乘船，坚持写观鸟日记，还画下运送乘客渡过海湾的渡轮。市长感谢到场的市民，宣布散会，"
    "并邀请记者同港务长一起沿码头散步，参观仓库和灯塔，了解修复工程的安排与经费来源。"
)
OTHERS: Final = {
    "de": (
        "Der Hafenrat tagte am Montag im alten Rathaus, wo Ingenieure über die Pfeiler der Brücke sprachen "
        "und darüber, was der Winter von ihnen übrig gelassen hat. {} Taucher vermassen das Flussbett in der "
        "vergangenen Woche erneut und berichteten, dass es sich seit der Untersuchung ihrer Vorgänger gesenkt "
        "habe. Eine Lehrerin der Inselschule sagte, ihre Schüler genössen die Fahrt und zeichneten Fähren."
    ),
    "fr": (
        "Le conseil du port s'est réuni lundi dans l'ancienne mairie, où des ingénieurs ont parlé des piles "
        "du pont et de ce que l'hiver en a laissé. {} Des plongeurs ont mesuré de nouveau le lit du fleuve la "
        "semaine passée et ont rapporté qu'il s'était enfoncé depuis l'étude de leurs prédécesseurs. Une "
        "institutrice de l'école de l'île a raconté que ses élèves aiment le trajet et dessinent les bacs."
    ),
    "es": (
        "El consejo del puerto se reunió el lunes en el antiguo ayuntamiento, donde los ingenieros hablaron "
        "de los pilares del puente y de lo que el invierno había dejado de ellos. {} Los buzos midieron otra "
        "vez el lecho del río la semana pasada e informaron de que se había hundido desde el estudio de sus "
        "predecesores. Una maestra de la escuela de la isla contó que sus alumnos disfrutan del viaje."
    ),
    "ru": (
        "Совет порта собрался в понедельник в старой ратуше, где инженеры рассказали об опорах моста и о том, "
        "что от них оставила зима. {} На прошлой неделе водолазы снова измерили русло реки и доложили, что оно "
        "опустилось со времени обследования их предшественников. Учительница островной школы рассказала, что "
        "ее ученики любят поездку, ведут дневник о птицах и рисуют паромы, которые возят пассажиров через залив. "
        "Мэр поблагодарил всех пришедших и пригласил журналистов на прогулку по набережной."
    ),
}
REPORTED: Final = {
    code: f"{REPORTS[name][0].format(12, 3, 4.5)} {{}}"
    for code, name in (("ja", "japanese"), ("ko", "korean"), ("ar", "arabic"))
}
PAGES: Final = {"en": ENGLISH, "zh": CHINESE, "zh-Hant": CHINESE, **OTHERS, **REPORTED}

SIGNS: Final = [
    ("en", "At dawn it was -20 degrees in the harbour.", "At dawn it was 20 degrees in the harbour."),
    ("en", "At dawn it was −20 °C in the harbour.", "At dawn it was 20 °C in the harbour."),
    ("en", "At dawn it was 20 °C in the harbour.", "At dawn it was 20 °F in the harbour."),
    ("en", "Fees changed by +5 % over the year.", "Fees changed by -5 % over the year."),
    ("en", "Fees changed by 5 % over the year.", "Fees changed by 5 ‰ over the year."),
    ("en", "Fees changed by 5 % over the year.", "Fees changed by .5 % over the year."),
    ("en", "A dose is 5 mg at the clinic.", "A dose is .5 mg at the clinic."),
    ("en", "Fees rose by %5 over the year.", "Fees rose by 5 over the year."),
    ("en", "A ticket costs $5 at the gate.", "A ticket costs EUR 5 at the gate."),
    ("en", "A ticket costs $5 at the gate.", "A ticket costs €5 at the gate."),
    ("en", "A ticket costs 5 dollars at the gate.", "A ticket costs 5 euros at the gate."),
    ("en", "A ticket costs US$5 at the gate.", "A ticket costs HK$5 at the gate."),
    ("en", "A ticket costs 5 € at the gate.", "A ticket costs 5 £ at the gate."),
    ("en", "The rule was that 50 > 40 holds.", "The rule was that 50 < 40 holds."),
    ("en", "The load must be ≤ 40 tons there.", "The load must be ≥ 40 tons there."),
    ("en", "The rule was that x = y holds.", "The rule was that x ≠ y holds."),
    ("en", "The load is a × b there in tons.", "The load is a ÷ b there in tons."),
    ("en", "The inn was rated ★★★★★ by guests.", "The inn was rated ★☆☆☆☆ by guests."),
    ("en", "Forecast for today ☀ in the bay.", "Forecast for today ☂ in the bay."),
    ("en", "Forecast for today 🌞 in the bay.", "Forecast for today 🌧 in the bay."),
    ("en", "The sign reads ⠓⠑⠇⠇⠕ for visitors.", "The sign reads ⠃⠽⠑⠃⠽ for visitors."),
    ("en", "The game ended with ♔♕ ♙ on it.", "The game ended with ♚♛ ♙ on it."),
    ("en", "The button shows \ue001 on its left.", "The button shows \ue002 on its left."),
    ("en", "Shares moved ▲ 5 points there.", "Shares moved ▼ 5 points there."),
    ("en", "The flag was 🇫🇷 on the mast.", "The flag was 🇮🇹 on the mast."),
    ("en", "The dive took 3 days in the bay.", "The dive took 3 weeks in the bay."),
    ("en", "The pier is 10 km from the bay.", "The pier is 10 miles from the bay."),
    ("en", "It opened on March 5 there.", "It opened on 6 March there."),
    ("en", "It opened on 5 March there.", "It opened on 5 April there."),
    ("en", "It opened on March 5, 2024 there.", "It opened on 6 March 2024 there."),
    ("zh", "潜水持续了三小时左右。", "潜水持续了三分钟左右。"),
    ("zh", "码头离城100米左右。", "码头离城100公里左右。"),
    ("zh", "清晨港口气温-20度。", "清晨港口气温20度。"),
    ("zh", "清晨港口气温为－20℃左右。", "清晨港口气温为20℃左右。"),
    ("zh", "收费同比变化+5%左右。", "收费同比变化-5%左右。"),
    ("zh", "收费同比变化5%左右。", "收费同比变化5‰左右。"),
    ("zh", "门票价格是$5一张。", "门票价格是EUR 5一张。"),
    ("zh", "门票价格是5美元一张。", "门票价格是5欧元一张。"),
    ("zh", "门票价格是5元一张。", "门票价格是5美元一张。"),
    ("zh", "门票价格是￥5一张。", "门票价格是€5一张。"),
    ("zh", "规则是50>40才成立。", "规则是50<40才成立。"),
    ("zh", "规则是50＞40才成立。", "规则是50＜40才成立。"),
    ("zh", "游客给客栈打分★★★★★很多。", "游客给客栈打分★☆☆☆☆很多。"),
    ("zh", "今天海湾天气☀适合出行。", "今天海湾天气☂适合出行。"),
    ("zh", "牌子上写着⠓⠑⠇⠇⠕给游客看。", "牌子上写着⠃⠽⠑⠃⠽给游客看。"),
    ("zh", "棋局最后剩下♔♕♙在盘上。", "棋局最后剩下♚♛♙在盘上。"),
    ("zh", "按钮左边显示\ue001图标。", "按钮左边显示\ue002图标。"),
]  # fmt: skip

WORDS: Final = [
    ("en", "The court found the captain guilty of the charge.", "The court found the captain not guilty of the charge."),
    ("en", "The ferry sank before the storm reached land.", "The ferry sank after the storm reached land."),
    ("en", "Most members voted for the new toll.", "Most members voted against the new toll."),
    ("en", "They will sail with the pilot.", "They will sail without the pilot."),
    ("en", "The pilot could see the buoy.", "The pilot could not see the buoy."),
    ("en", "The pilot can see the buoy.", "The pilot can't see the buoy."),
    ("en", "The pilot can see the buoy.", "The pilot cannot see the buoy."),
    ("en", "The pilot will see the buoy.", "The pilot won’t see the buoy."),
    ("en", "Fares went up in spring.", "Fares went down in spring."),
    ("en", "The tide stood above the mark.", "The tide stood below the mark."),
    ("en", "The lighthouse was switched on at noon.", "The lighthouse was switched off at noon."),
    ("en", "The mate was voted in by members.", "The mate was voted out by members."),
    ("en", "They expect more ferries in spring.", "They expect less ferries in spring."),
    ("en", "All sailors took part in the drill.", "None sailors took part in the drill."),
    ("en", "The crew always wears a vest.", "The crew never wears a vest."),
    ("en", "There was evidence of a leak.", "There was no evidence of a leak."),
    ("en", "The price of diesel rose on Friday.", "The price of diesel fell on Friday."),
    ("en", "The drug increased the number of attacks.", "The drug reduced the number of attacks."),
    ("en", "The bank raised its rate in spring.", "The bank reduced its rate in spring."),
    ("en", "The drug improved sleep in both groups.", "The drug worsened sleep in both groups."),
    ("en", "The yard reported a profit in autumn.", "The yard reported a loss in autumn."),
    ("en", "The jury called the mate innocent.", "The jury called the mate guilty."),
    ("zh", "法院认定船长有罪。", "法院认定船长无罪。"),
    ("zh", "渡轮在风暴前沉没。", "渡轮在风暴后沉没。"),
    ("zh", "渡轮在风暴到来之前沉没。", "渡轮在风暴到来之后沉没。"),
    ("zh", "多数委员支持新的收费。", "多数委员反对新的收费。"),
    ("zh", "船上有救生艇。", "船上没有救生艇。"),
    ("zh", "领航员看见浮标。", "领航员没看见浮标。"),
    ("zh", "领航员能看见浮标。", "领航员不能看见浮标。"),
    ("zh", "渔民同意方案。", "渔民不同意方案。"),
    ("zh", "船长已经认罪。", "船长已经未认罪。"),
    ("zh", "这是事故的原因。", "这不是事故的原因。"),
    ("zh", "船票价格上涨。", "船票价格下跌。"),
    ("zh", "水位在警戒线以上。", "水位在警戒线以下。"),
    ("zh", "船只停在港内。", "船只停在港外。"),
    ("zh", "船票涨了。", "船票跌了。"),
    ("zh", "柴油库存增加。", "柴油库存减少。"),
    ("zh", "委员会通过了预算。", "委员会否决了预算。"),
    ("en", "Some sailors took part in the drill.", "All sailors took part in the drill."),
    ("en", "Some sailors took part in the drill.", "No sailors took part in the drill."),
    ("en", "The crew may wear a vest.", "The crew must wear a vest."),
    ("en", "The mayor praised the pilot.", "The mayor criticised the pilot."),
    ("en", "The yard was unable to pay.", "The yard was able to pay."),
    ("zh", "部分船员参加演习。", "全部船员参加演习。"),
    ("zh", "船员可以佩戴救生衣。", "船员必须佩戴救生衣。"),
    ("zh", "船员可以使用电台。", "船员禁止使用电台。"),
    ("zh", "当地报告甲型流感病例。", "当地报告乙型流感病例。"),
    ("zh", "船厂购买旧船。", "船厂出售旧船。"),
    ("en", "The tunnel may open in spring.", "The tunnel will open in spring."),
    ("en", "The yard could close next winter.", "The yard will close next winter."),
    ("en", "The court rejected the appeal of the yard.", "The court upheld the appeal of the yard."),
    ("en", "The judge dismissed the claim of the crew.", "The judge granted the claim of the crew."),
    ("en", "The mate was convicted of fraud.", "The mate was cleared of fraud."),
    ("en", "The captain died after the accident.", "The captain recovered after the accident."),
    ("en", "Three sailors died in the storm.", "Three sailors were injured in the storm."),
    ("en", "The union accepted the offer of the port.", "The union refused the offer of the port."),
    ("en", "The ferry sails again today.", "The ferry sails again tomorrow."),
    ("en", "Dozens of people came to the quay.", "Hundreds of people came to the quay."),
    ("en", "The mate was killed.", "The mate was arrested."),
    ("en", "The board dismissed the director.", "The board appointed the director."),
    ("es", "¿Está abierto el muelle? Respuesta: Sí.", "¿Está abierto el muelle? Respuesta: No."),
    ("zh", "船厂可能裁员。", "船厂将裁员。"),
    ("zh", "住户可以离开大楼。", "住户应当离开大楼。"),
    ("zh", "法院驳回了船厂的上诉。", "法院支持了船厂的上诉。"),
    ("zh", "船长在事故后死亡。", "船长在事故后康复。"),
    ("zh", "三名水手死亡。", "三名水手受伤。"),
    ("zh", "三名水手失踪。", "三名水手获救。"),
    ("zh", "工会接受了港口的提议。", "工会拒绝了港口的提议。"),
    ("zh", "渡轮今日恢复运行。", "渡轮明日恢复运行。"),
    ("zh", "维修需要一年时间。", "维修需要一天时间。"),
    ("zh", "维修需要一个月。", "维修需要一年。"),
    ("zh-Hant", "法院駁回了船廠的上訴。", "法院採納了船廠的上訴。"),
    ("zh-Hant", "三名水手死亡。", "三名水手受傷。"),
    ("zh-Hant", "隧道可能在春天開放。", "隧道將在春天開放。"),
    ("de", "Der Tunnel kann im Frühjahr öffnen.", "Der Tunnel wird im Frühjahr öffnen."),
    ("de", "Der Antrag wurde abgelehnt.", "Der Antrag wurde genehmigt."),
    ("de", "Das Gericht wies die Klage ab.", "Das Gericht gab der Klage statt."),
    ("de", "Der Kapitän ist schuldig.", "Der Kapitän ist unschuldig."),
    ("de", "Der Kapitän starb nach dem Unfall.", "Der Kapitän genas nach dem Unfall."),
    ("de", "Die Fähre fährt heute wieder.", "Die Fähre fährt morgen wieder."),
    ("de", "Dutzende Häuser waren leer.", "Hunderte Häuser waren leer."),
    ("fr", "Le tunnel peut fermer en hiver.", "Le tunnel va fermer en hiver."),
    ("fr", "La cour a rejeté la plainte.", "La cour a accepté la plainte."),
    ("fr", "Le capitaine a été condamné.", "Le capitaine a été acquitté."),
    ("fr", "Trois marins ont été tués.", "Trois marins ont été blessés."),
    ("fr", "Le bac reprend aujourd'hui.", "Le bac reprend demain."),
    ("es", "El túnel puede cerrar en invierno.", "El túnel va a cerrar en invierno."),
    ("es", "El juez desestimó el recurso.", "El juez estimó el recurso."),
    ("es", "El capitán fue condenado.", "El capitán fue absuelto."),
    ("es", "El capitán murió tras el choque.", "El capitán sobrevivió tras el choque."),
    ("es", "Decenas de vecinos llegaron.", "Cientos de vecinos llegaron."),
    ("ru", "Совет разрешил возобновить рейсы.", "Совет запретил возобновлять рейсы."),
    ("ru", "Тоннель может быть закрыт весной.", "Тоннель будет закрыт весной."),
    ("ru", "Суд отклонил жалобу порта.", "Суд удовлетворил жалобу порта."),
    ("ru", "Капитан умер после аварии.", "Капитан выздоровел после аварии."),
    ("ru", "Слушание пройдет сегодня.", "Слушание пройдет завтра."),
    ("ru", "Агентство повысило оценку порта.", "Агентство понизило оценку порта."),
    ("ru", "Порт продлил договор о паромах.", "Порт расторг договор о паромах."),
    ("ru", "Суд смягчил приговор капитану.", "Суд ужесточил приговор капитану."),
    ("ru", "Жалобы паромщиков удовлетворены.", "Жалобы паромщиков отклонены."),
    ("ru", "Компания возобновила рейсы.", "Компания приостановила рейсы."),
    ("ru", "Крона укрепилась к утру.", "Крона ослабла к утру."),
    ("ru", "Яхтсмены одержали победу.", "Яхтсмены потерпели поражение."),
    ("ru", "Суд оставил в силе штраф порту.", "Суд отменил штраф порту."),
    ("ru", "Капитан вышел в залив.", "Капитан не смог выйти в залив."),
    ("ru", "Рыбака нашли живым на отмели.", "Рыбака нашли погибшим на отмели."),
    ("ru", "Маяк включат в полночь.", "Маяк отключат в полночь."),
    ("ru", "Верфь получила лицензию.", "Верфь лишилась лицензии."),
    ("ru", "Движение судов восстановлено.", "Движение судов ограничено."),
    ("ru", "Лоцману дали условный срок.", "Лоцману дали реальный срок."),
    ("ru", "Иск рыбаков удовлетворен полностью.", "Иск рыбаков удовлетворен частично."),
    ("ru", "Лодку вернули матери.", "Лодку вернули отцу."),
    # Ukrainian, in a Russian page
    ("ru", "Рада ухвалила збір за причал.", "Рада відхилила збір за причал."),
    ("ru", "Рибалку знайшли живим.", "Рибалку знайшли мертвим."),
    ("ru", "Світло в порту увімкнули.", "Світло в порту вимкнули."),
    # of other languages, in an English page
    ("en", "Der Rat erlaubt das Hafenfest.", "Der Rat untersagt das Hafenfest."),
    ("en", "Die Werft senkt den Preis.", "Die Werft erhöht den Preis."),
    ("en", "Le maire autorise la fête du port.", "Le maire interdit la fête du port."),
    ("en", "Le phare rouvre en automne.", "Le phare fermera en automne."),
    ("en", "La ciudad autoriza la regata.", "La ciudad prohíbe la regata."),
    ("en", "El barco cumple las normas.", "El barco incumple las normas."),
    ("en", "Il comune approva il molo.", "Il comune boccia il molo."),
    ("en", "Il porto riapre a marzo.", "Il porto chiude a marzo."),
    ("en", "O juiz absolveu o barqueiro.", "O juiz condenou o barqueiro."),
    ("en", "O porto reabriu ontem.", "O porto fechou ontem."),
    ("en", "Rada zezwoliła na regaty.", "Rada zakazała na regaty."),
    ("en", "Rejs odwołano z powodu wiatru.", "Rejs wznowiono z powodu wiatru."),
    ("en", "Liman yasağı kabul edildi.", "Liman yasağı reddedildi."),
    ("en", "Vapur seferi iptal edildi.", "Vapur seferi iptal edilmedi."),
    ("ja", "高裁は港の判決を支持した。", "高裁は港の判決を取り消した。"),
    ("ja", "造船所は工事を加速する。", "造船所は工事を減速する。"),
    ("ko", "법원은 항구 판결을 확정했다.", "법원은 항구 판결을 파기했다."),
    ("ko", "부두 요금이 인상됐다.", "부두 요금이 인하됐다."),
    ("ar", "وافق المجلس على مشروع المرفأ.", "رفض المجلس مشروع المرفأ."),
    ("ar", "افتتحت البلدية الرصيف.", "أغلقت البلدية الرصيف."),
    ("en", "The port renewed its contract with divers.", "The port terminated its contract with divers."),
    ("en", "The council signed the ferry bill.", "The council vetoed the ferry bill."),
    ("en", "The old customs house will be renovated.", "The old customs house will be demolished."),
    ("en", "The krona strengthened against the pound.", "The krona weakened against the pound."),
    ("en", "The ban on anchors was lifted at noon.", "The ban on anchors was extended at noon."),
    ("en", "A judge blocked the ferry tax.", "A judge allowed the ferry tax."),
    ("en", "The high court stayed the ferry order.", "The high court upheld the ferry order."),
    ("en", "Most islanders backed the bridge.", "Most islanders opposed the bridge."),
]  # fmt: skip

NAMES: Final = [
    ("en", "The delegation of the US signed it.", "The delegation of the UK signed it."),
    ("en", "A court in the UN capital sat.", "A court in the UK capital sat."),
    ("en", "The fund bought Microsoft shares.", "The fund bought Netscape shares."),
    ("en", "The fund bought Shell shares.", "The fund bought Ford shares."),
    ("en", "He trained in LA for a month.", "He trained in NY for a month."),
    ("en", "Donors of type A came to it.", "Donors of type B came to it."),
    ("en", "They bought the ship «Albatros» there.", "They bought the ship «Pelican» there."),
]  # fmt: skip

ALTERNATIVES: Final = [
    ("en", "The pupils learn history and geography.", "The pupils learn music and chemistry."),
    ("en", "The flag was made of cotton.", "The flag was made of polyester."),
    ("en", "A car struck the gate.", "A bus struck the gate."),
    ("en", "The divers managed to reach the wreck.", "The divers failed to reach the wreck."),
    ("en", "A repair is likely to follow.", "A repair is unlikely to follow."),
    ("en", "The event was canceled.", "The event was postponed."),
    ("en", "A shed opens as a library.", "A shed opens as a cinema."),
    ("en", "The keeper wore a red coat there.", "The keeper wore a blue coat there."),
    ("en", "A man was pulled out of the water.", "A woman was pulled out of the water."),
    ("en", "He found rain in the north there.", "She found snow in the south there."),
    ("en", "The council seeks a plumber for it.", "The council seeks a teacher for it."),
    ("en", "The ship was laden with wheat.", "The ship was laden with corn."),
    ("en", "It is a daily crossing to the isle.", "It is a weekly crossing to the isle."),
    ("zh", "渡轮从武汉开来。", "渡轮从杭州开来。"),
    ("zh", "渡轮从河北省开来。", "渡轮从河南省开来。"),
    ("zh", "船员穿着红色外套。", "船员穿着蓝色外套。"),
    ("zh", "一名男子落水。", "一名女子落水。"),
    ("zh", "船上装着小麦。", "船上装着玉米。"),
    # nouns and adjectives of jieba's dictionary, bodies and other proper nouns among them
    ("zh", "这份方案由外交部提出。", "这份方案由国防部提出。"),
    ("zh", "代表们来自世界卫生组织。", "代表们来自世界贸易组织。"),
    ("zh", "这一席位由自由党获得。", "这一席位由民主党获得。"),
    ("zh", "他写过一本介绍蒙古族的书。", "他写过一本介绍土家族的书。"),
    ("zh", "新的图书馆即将开放。", "新的体育馆即将开放。"),
    ("zh", "仓库里存放着粮食。", "仓库里存放着布匹。"),
    ("zh", "这一带十分富裕。", "这一带十分贫穷。"),
    # one Russian noun for another, in any case
    ("ru", "В порту открыли кружок для детей.", "В порту открыли кружок для взрослых."),
    ("ru", "Учебник по истории везут на остров.", "Учебник по литературе везут на остров."),
    ("ru", "Яхтсмена судят за кражу.", "Яхтсмена судят за поджог."),
    ("ru", "Баржа доставила на остров капусту.", "Баржа доставила на остров морковь."),
]  # fmt: skip

HARMLESS: Final = [
    ("en", "A lorry came.", "A truck came."),
    ("en", "\n■ The quay is closed today.", "\n● The quay is closed today."),
    ("en", "The quay is closed today.", "★ The quay is closed today."),
    ("en", "Home | News | The quay is closed.", "Home / News / The quay is closed."),
    ("en", "The quay™ is closed © 2020 to all.", "The quay is closed 2020 to all."),
    ("en", "The quay is closed 😀 to all.", "The quay is closed to all."),
    ("en", "Ferries run 3-5 times a day.", "Ferries run 3–5 times a day."),
    ("en", "It was -20 degrees in the bay.", "It was −20 degrees in the bay."),
    ("en", "A ticket costs $5 there.", "A ticket costs US$5 there."),
    ("en", "A ticket costs $5 there.", "A ticket costs USD 5 there."),
    ("en", "A ticket costs $5 there.", "A ticket costs 5 dollars there."),
    ("en", "A ticket costs €5 there.", "A ticket costs 5 EUR there."),
    ("en", "Fees changed by +5 % there.", "Fees changed by 5 % there."),
    ("en", "It opened on 2024-01-02 there.", "It opened on 2024/01/02 there."),
    ("en", "It opened on March 5 there.", "It opened on 5 March there."),
    ("en", "It opened on March 5, 2024 there.", "It opened on 5 March 2024 there."),
    ("en", "The pier is 10 km from the bay.", "The pier is 10 kilometres from the bay."),
    ("en", "It carries 40 tonnes of sand.", "It carries 40 metric tons of sand."),
    ("en", "The boat of COVID-19 patients came.", "The boat of COVID 19 patients came."),
    ("en", "The pilot can't see the buoy.", "The pilot cannot see the buoy."),
    ("en", "The pilot did not see the buoy.", "The pilot didn't see the buoy."),
    ("en", "They waited for two hours there.", "They waited two hours there."),
    ("en", "The tide stood above the mark.", "The tide stood over the mark."),
    ("en", "The quay is closed today.", "The quay is closed today. It will not open soon."),
    ("en", "The quay is closed today.", "The quay is closed today, not tomorrow."),
    ("en", "The quay is closed.", "The quay was closed."),
    ("zh", "\n■码头今天关闭。", "\n●码头今天关闭。"),
    ("zh", "码头今天关闭。", "▶码头今天关闭。"),
    ("zh", "码头今天关闭😀通知各位。", "码头今天关闭通知各位。"),
    ("zh", "渡轮每天3-5班。", "渡轮每天3～5班。"),
    ("zh", "门票价格是5元一张。", "门票价格是￥5一张。"),
    ("zh", "门票价格是5美元一张。", "门票价格是$5一张。"),
    ("zh", "票价在5元-10元之间。", "票价在5元至10元之间。"),
    ("zh", "新的歼-20飞过港口。", "新的歼20飞过港口。"),
    ("zh", "码头2024年1月2日开放。", "码头2024-01-02开放。"),
    ("zh", "领航员不能看见浮标。", "领航员未能看见浮标。"),
    ("zh", "码头今天关闭。", "码头今天关闭。目前没有开放的消息。"),
    ("zh", "码头今天关闭。", "码头今天关闭，渡轮之前不出发。"),
    ("zh", "船只停在港口以内。", "船只停在港口内。"),
    ("zh", "新华社武汉三月三十日电。", "中新社武汉三月三十日电。"),
    ("en", "The keeper wore a gray coat there.", "The keeper wore a grey coat there."),
    ("en", "Three sailors died in the storm.", "Three sailors were killed in the storm."),
    ("en", "The court rejected the appeal of the yard.", "The court dismissed the appeal of the yard."),
    ("en", "The ferry sails again today.", "The ferry sails again yesterday."),
    ("en", "The yard may close next winter.", "The yard could close next winter."),
    ("zh", "三名水手死亡。", "三名水手遇难。"),
    ("zh", "渡轮今天恢复运行。", "渡轮今日恢复运行。"),
    ("zh", "渡轮今天恢复运行。", "渡轮昨天恢复运行。"),
    ("zh", "船厂将裁减员工。", "船厂将会裁减员工。"),
    ("en", "The keeper locked the gate.", "The keeper locked the gate. Of course not."),
    ("en", "The keeper locked the gate.", "The keeper locked the gate. Why not?"),
    # what copies call their readers, and other sources
    ("zh", "不少民众表示支持。", "不少市民表示支持。"),
    ("zh", "据新华社报道，工程顺利。", "据中新社报道，工程顺利。"),
    ("ru", "Баржа доставила на остров помидоры.", "Баржа доставила на остров томаты."),
]  # fmt: skip


async def second(language: str, one: str, other: str) -> Verdict:
    """The verdict of a page with one sentence when the page with another one is stored."""
    page = PAGES[language]
    return await verdict_of(page.format(one), page.format(other))


def both_ways(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Each row, and each the other way round."""
    return [*rows, *((language, other, one) for language, one, other in rows)]


@pytest.mark.parametrize(("language", "one", "other"), both_ways(SIGNS))
async def test_a_sign_makes_another_page(language: str, one: str, other: str) -> None:
    """A sign, a currency, a comparison or a symbol in the same place changes the meaning."""
    verdict = await second(language, one, other)
    assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")


@pytest.mark.parametrize(("language", "one", "other"), both_ways(WORDS))
async def test_a_word_that_turns_a_sentence_makes_another_page(
    language: str, one: str, other: str
) -> None:
    """A clause that is denied, or says the opposite, in an otherwise equal text."""
    verdict = await second(language, one, other)
    assert (verdict.outcome, verdict.reason) == (NEW, "turned-round")


@pytest.mark.parametrize(("language", "one", "other"), both_ways(ALTERNATIVES))
async def test_an_alternative_makes_another_page(language: str, one: str, other: str) -> None:
    """Two clauses that differ in words that exclude each other have different meanings."""
    verdict = await second(language, one, other)
    assert (verdict.outcome, verdict.reason) == (NEW, "turned-round")


@pytest.mark.parametrize(("language", "one", "other"), both_ways(NAMES))
async def test_another_short_name_makes_another_page(language: str, one: str, other: str) -> None:
    """Codes of countries and names of companies are no stop words."""
    verdict = await second(language, one, other)
    assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")


@pytest.mark.parametrize(("language", "one", "other"), both_ways(HARMLESS))
async def test_what_decorates_or_says_the_same_is_a_duplicate(
    language: str, one: str, other: str
) -> None:
    """Bullets, emoji that one page lacks, other ways to write a value, and an added sentence."""
    verdict = await second(language, one, other)
    assert verdict.outcome == DUPLICATE
