"""Another nationality at one place of a page makes another page, also in languages that write it
without a capital letter."""

# A page a line, in sixteen languages.
# ruff: noqa: E501
from __future__ import annotations

from typing import Final

import pytest

from dedup_middleware.model.documents import NEW
from tests.test_verdict import verdict_of

PAGES: Final = [
    (
        "cs",
        "francouzský",
        "německý",
        "Včera {} ministr dopravy představil plán nočních vlaků mezi dvěma hlavními městy. Vlaky budou vyjíždět třikrát týdně a pojedou jedenáct hodin. Cestující si mohou koupit lehátko nebo sedadlo a ceny zůstanou stejné jako na denní lince. Spolky o návrat dlouho žádaly, ale společnost jej pokládala za drahý. Vozy opraví dílna v přístavu, kde pracuje osmdesát lidí.",
    ),
    (
        "de",
        "iranische",
        "syrische",
        "Der {} Verkehrsminister hat gestern einen Plan für Nachtzüge zwischen den beiden Hauptstädten vorgestellt. Die Züge fahren dreimal in der Woche und brauchen elf Stunden. Reisende können eine Liege oder einen Sitz buchen, und die Preise bleiben die der Tagesverbindung. Verbände hatten lange um diese Rückkehr gebeten, die das Unternehmen für teuer hielt. Die Wagen werden in einer Werkstatt im Hafen repariert, wo achtzig Menschen arbeiten.",
    ),
    (
        "el",
        "γαλλικός",
        "γερμανικός",
        "Ο {} υπουργός μεταφορών παρουσίασε χθες ένα σχέδιο για τα νυχτερινά τρένα ανάμεσα στις δύο πρωτεύουσες. Τα τρένα θα φεύγουν τρεις φορές την εβδομάδα και θα κάνουν έντεκα ώρες. Οι ταξιδιώτες θα μπορούν να κλείσουν κρεβάτι ή θέση, και οι τιμές μένουν ίδιες με της ημέρας. Οι σύλλογοι ζητούσαν από καιρό την επιστροφή αυτή, που η εταιρεία θεωρούσε ακριβή. Τα βαγόνια θα επισκευαστούν στο συνεργείο του λιμανιού, όπου εργάζονται ογδόντα άνθρωποι.",
    ),
    (
        "es",
        "iraní",
        "sirio",
        "El ministro {} de transportes presentó ayer un plan para las líneas nocturnas entre las dos capitales. Los trenes saldrán tres veces por semana y tardarán once horas. Los viajeros podrán reservar una litera o una butaca, y los precios serán los de la línea de día. Varias asociaciones pedían desde hace tiempo este regreso, que la compañía juzgaba caro. Los coches serán reparados en un taller del puerto, donde trabajan ochenta personas.",
    ),
    (
        "fr",
        "français",
        "allemand",
        "Le ministre {} des transports a présenté lundi un plan pour les lignes de nuit entre les deux capitales. Les trains partiront trois fois par semaine et mettront onze heures. Les voyageurs pourront réserver une couchette ou un fauteuil, et les prix resteront ceux de la ligne de jour. Des associations demandaient depuis longtemps ce retour, que la compagnie jugeait trop cher. Les voitures seront remises en état dans un atelier du port, où travaillent quatre-vingts personnes.",
    ),
    (
        "he",
        "הצרפתי",
        "הגרמני",
        "שר התחבורה {} הציג אתמול תוכנית לרכבות לילה בין שתי הבירות. הרכבות ייצאו שלוש פעמים בשבוע והנסיעה תימשך אחת עשרה שעות. הנוסעים יוכלו להזמין דרגש או מושב, והמחירים יישארו כמו בקו היום. עמותות ביקשו מזמן את החזרה הזאת, שהחברה חשבה ליקרה. הקרונות יתוקנו בבית מלאכה בנמל, שבו עובדים שמונים איש.",
    ),
    (
        "hi",
        "फ्रांसीसी",
        "जर्मन",
        "{} परिवहन मंत्री ने कल दो राजधानियों के बीच रात की रेलगाड़ियों की योजना पेश की। गाड़ियाँ हफ़्ते में तीन बार चलेंगी और ग्यारह घंटे लेंगी। यात्री शायिका या सीट बुक कर सकेंगे, और दाम दिन की गाड़ी जैसे रहेंगे। संगठन लंबे समय से इस वापसी की माँग कर रहे थे, जिसे कंपनी महँगा मानती थी। डिब्बों की मरम्मत बंदरगाह की कार्यशाला में होगी, जहाँ अस्सी लोग काम करते हैं।",
    ),
    (
        "hu",
        "francia",
        "német",
        "Tegnap a {} közlekedési miniszter bemutatta a két főváros közötti éjszakai vonatok tervét. A vonatok hetente háromszor indulnak, és tizenegy órát mennek. Az utasok fekvőhelyet vagy ülést foglalhatnak, az árak pedig a nappali vonaléval egyeznek. Az egyesületek régóta kérték a visszatérést, amelyet a társaság drágának tartott. A kocsikat a kikötő műhelyében javítják, ahol nyolcvanan dolgoznak.",
    ),
    (
        "it",
        "tedesco",
        "francese",
        "Il ministro {} dei trasporti ha presentato lunedì un piano per le linee notturne tra le due capitali. I treni partiranno tre volte alla settimana e impiegheranno undici ore. I viaggiatori potranno prenotare una cuccetta o una poltrona, e i prezzi resteranno quelli della linea di giorno. Alcune associazioni chiedevano da tempo questo ritorno, che la compagnia giudicava troppo caro. Le carrozze saranno rimesse a nuovo in un'officina del porto, dove lavorano ottanta persone.",
    ),
    (
        "pl",
        "hiszpański",
        "japoński",
        "Wczoraj {} minister transportu przedstawił plan nocnych pociągów między dwiema stolicami. Pociągi będą odjeżdżać trzy razy w tygodniu i jechać jedenaście godzin. Podróżni zarezerwują kuszetkę albo fotel, a ceny zostaną takie same jak na linii dziennej. Organizacje od dawna prosiły o ten powrót, który spółka uważała za drogi. Wagony zostaną naprawione w warsztacie w porcie, gdzie pracuje osiemdziesiąt osób.",
    ),
    (
        "pt",
        "alemão",
        "italiano",
        "O ministro {} dos transportes apresentou na semana passada um plano para as linhas noturnas entre as duas capitais. Os comboios vão partir três vezes por semana e demoram onze horas. Os viajantes podem reservar uma cama ou um lugar sentado, e os preços ficam iguais aos da linha de dia. Várias associações pediam há muito este regresso, que a empresa achava caro. As carruagens serão reparadas numa oficina do porto, onde trabalham oitenta pessoas.",
    ),
    (
        "ro",
        "francez",
        "german",
        "Ieri ministrul {} al transporturilor a prezentat un plan pentru trenurile de noapte dintre cele două capitale. Trenurile vor pleca de trei ori pe săptămână și vor face unsprezece ore. Călătorii vor putea rezerva o cușetă sau un loc, iar prețurile rămân cele ale liniei de zi. Asociațiile cereau de mult această revenire, pe care compania o socotea scumpă. Vagoanele vor fi reparate într-un atelier din port, unde lucrează optzeci de oameni.",
    ),
    (
        "ru",
        "литовский",
        "сербский",
        "Вчера {} министр транспорта представил план ночных поездов между двумя столицами. Поезда будут отправляться три раза в неделю и идти одиннадцать часов. Пассажиры смогут заказать полку или кресло, а цены останутся такими же, как на дневной линии. Организации давно просили об этом возвращении, которое компания считала дорогим. Вагоны отремонтируют в мастерской порта, где работают восемьдесят человек.",
    ),
    (
        "sv",
        "franska",
        "tyska",
        "Den {} transportministern lade i går fram en plan för nattåg mellan de två huvudstäderna. Tågen går tre gånger i veckan och resan tar elva timmar. Resenärerna kan boka en liggplats eller en stol, och priserna blir desamma som på dagtåget. Föreningar hade länge bett om återkomsten, som bolaget tyckte var dyr. Vagnarna lagas i en verkstad i hamnen, där åttio personer arbetar.",
    ),
    (
        "uk",
        "німецький",
        "італійський",
        "Учора {} міністр транспорту представив план нічних поїздів між двома столицями. Поїзди вирушатимуть тричі на тиждень і їхатимуть одинадцять годин. Пасажири зможуть замовити полицю або крісло, а ціни залишаться такими, як на денній лінії. Громадські організації давно просили про таке повернення, яке компанія вважала дорогим. Вагони відремонтують у майстерні порту, де працює вісімдесят людей.",
    ),
    (
        "zh",
        "中国",
        "法国",
        "{}交通部长昨天介绍了两国首都之间的夜间列车计划。列车每周开行三次，全程十一小时。旅客可以预订卧铺或座位，票价与白天的班次相同。一些协会早就希望恢复这条线路，铁路公司却一直认为成本太高。车厢将在港口的工厂里检修，那里有八十名工人。",
    ),
]


@pytest.mark.parametrize(("language", "one", "other", "page"), PAGES, ids=[p[0] for p in PAGES])
async def test_another_nationality_is_another_page(
    language: str, one: str, other: str, page: str
) -> None:
    """The minister of another country said it."""
    for first, then in ((one, other), (other, one)):
        verdict = await verdict_of(page.format(then), page.format(first))
        assert verdict.outcome == NEW, f"{language}: {verdict}"
