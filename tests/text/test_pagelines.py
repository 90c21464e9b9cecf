"""Lines about a page itself are known by their form, and lines with facts are none of them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text.pagelines import is_page_line
from dedup_middleware.text.relevant import relevant
from tests.text.test_relevant import ARTICLE

ABOUT_THE_PAGE = """
Фото: Telegram-канал «Озерск сегодня»
Подробнее: https://ozersk.example/news/123
Source: https://lake.example/news/123
原文链接：https://lake.example/news/123
If you purchase a product through a link on our site, we may receive compensation.
We may earn a commission from links on this page.
316 читали
18+
Фото: архив редакции
Фото: Озерская лента новостей
Фото: vk.com/ozersk_port
© 2031 ОЛН. При использовании материалов ссылка на сайт обязательна
Присоединяйтесь к нам во «ВКонтакте»
Вступайте в нашу группу в Одноклассниках
Обсудить новость в нашей группе ВКонтакте
Мы в соцсетях: ВКонтакте, Одноклассники, Telegram
Самые важные новости - в нашем канале в MAX и Telegram
Самое интересное — в канале «Озерск» в Telegram
Хотите узнавать новости первыми? Подписывайтесь на наш Telegram-канал!
Есть что рассказать? Пишите нам: 8-800-555-01-02
Поделиться в соцсетях
Версия для печати
Комментарии (0)
Фото: Анна Озёрская / 12.ru
Фото: пресс-служба губернатора области
Фото предоставлено пресс-службой порта
© РИА Новости / Анна Озёрская
© Озерск.Ру
Telegram | Facebook | WhatsApp
ВКонтакте Одноклассники Telegram
Читайте нас в «Дзене»
Все главные новости читайте в нашем канале «Озерск 12»
Больше новостей — в нашем официальном канале в MAX. Читайте нас в «Дзене».
Если вы стали очевидцем аварии, присылайте фото и видео в нашу редакцию
Подробнее читайте на сайте агентства
Поделиться: ВКонтакте Одноклассники Telegram
Стали свидетелем аварии? Присылайте фото и видео на наш номер. Нашли опечатку? Нажмите Ctrl+Enter.
Чтобы не пропустить важное, подписывайтесь на наш канал в Дзене
Будьте в курсе: подписывайтесь на наш телеграм-канал
Добавить «Озерск сегодня» в избранное в Яндекс.Новостях
Реклама. ООО «Лодки», ИНН 1200034567, erid: 2Vtzq12345
Мнение автора может не совпадать с мнением редакции
Редакция не несёт ответственности за содержание объявлений
Пресс-служба администрации города
Пресс-служба Управления Росгвардии по Озерской области
Версия для печати. Отправить другу
Текст: Анна Озёрская. Фото: Озерский зоопарк
Так выглядит причал. Фото: Анна Озёрская
The quay at noon. Photo: Ann Shepherd
Просмотров: 1 847
Читать 2 минуты
Читайте нас у Telegram та Facebook. Підтримати редакцію
Слідкуйте за новинами в Telegram
Помітили помилку? Виділіть текст та натисніть Ctrl+Enter
Поділитися новиною
Get in touch: Do you have a story suggestion for the lake?
Follow the Lake on Facebook, X and Instagram.
This story has been updated with additional details.
This is a breaking news story and will be updated.
The BBC is not responsible for the content of external sites.
Advertisement
ADVERTISEMENT:
Share this story
Comments
Tell us what YOU think...
This slideshow requires JavaScript.
Реклама
广告
Photo: Ann Shepherd
Photo by Ann Shepherd
Image credit: Ann Shepherd / Lake Agency
(Image credit: Ann Shepherd)
(Image: LAKE )
Image copyright Getty Images
Image 1 of 5
Foto 3 von 12
Page 1 of 3
Seite 2 von 2
Page 2/4
Страница 1 из 2
Foto: Anna Schäfer/nna
Crédits photos : Anne Berger
Фото: Анна Озёрская
图片来源：湖边通讯社
▲图片来自视频截图。
图片均来自网络
Ann Shepherd | Lake News | Getty Images
© Reuters
https://one.example/2031/lake-10-percent-14847624.php
ann.shepherd@lake.example
twitter.com/annshepherd
@annshepherd
Follow Lakeside on Instagram, Facebook, and YouTube.
Sign up for our weekly newsletter.
Get the latest updates right in your inbox.
Like this story? Share it with a friend!
Folgen Sie uns auf Facebook und Instagram
Abonnez-vous à notre newsletter
Подписывайтесь на наш канал в Telegram
扫码关注我们
欢迎关注湖边日报微信公众号
转载请注明出处：湖边日报
未经授权，不得转载。
Copyright 2031 The Lakeside Press. All rights reserved.
© 2029-2031 Lakeside Herald
(c) 2031 Lakeside Herald
by Ann Shepherd — March 4, 2031
By Ann Shepherd, Lake Post - 4 March 2031
Written by Ann Shepherd on March 4, 2031
Von Anna Schäfer | 4. März 2031
By Ann Shepherd
by Ann Shepherd, Lake Post
Von Anna Schäfer
Автор: Анна Озёрская
(Reporting by Ann Shepherd; Editing by Bob Stone)
Reporting by Ann Shepherd in Lakeside, editing by Bob Stone and Carl Field
Additional reporting by Ann Shepherd
Ann Shepherd contributed reporting from Lakeside.
The Lakeside Press contributed to this report.
Lakeside Press writers Ann Shepherd and Bob Stone contributed to this report.
Email Ann Shepherd at ann@lake.example or follow her @annshepherd.
Published 18 November 2031
Updated March 4, 2031 at 10:25 a.m.
The quay is closed to visitors (Image: LAKE)
Citation: Fish would need smaller nets (2031, November 18) retrieved 20 November 2031 from
All rights reserved. This material may not be published, broadcast or rewritten.
Все права защищены
Alle Rechte vorbehalten.
Por Ana Prado | 4 de marzo de 2031
Por: Ana Prado – 04/03/2031
— Ann Shepherd (@annshepherd) March 4, 2031
Follow us on Facebook
Follow @daily on Twitter and Instagram
Like us on Facebook
Find us on Twitter
Join our WhatsApp channel
Sign up for our newsletter
Folgen Sie uns auf Instagram
Suivez-nous sur Facebook
Подписывайтесь на наш телеграм-канал
Читайте нас в Телеграм
Photo: Ann Shepherd/picture alliance
Boats lie in the dry harbour of the island on March 4, 2031, in May. (AP Photo/Ann Shepherd, File)
Boats lie in the dry harbour of the island, Friday, March 4, 2031. (Ann Shepherd/Lake Post via AP)
Boats lie in the dry harbour of the island on March 4, 2031. Ann Shepherd/Lake Post via AP
Boats lie in the dry harbour of the island on March 4, 2031. Credit: AP/Ann Shepherd
Boats lie in the dry harbour of the island, as they did before. (Photo by Ann Shepherd/Getty Images)
The core stage of the rocket (credit: NASA/Ann Shepherd)
2 of 3 |
Ann Shepherd/Lake Post via AP
Estimated read time: 2-3 minutes
Love 0 Funny 0 Wow 0 Sad 0 Angry 0
88 views
1.2K likes · 340 views
3 days ago
Posted 3 weeks ago
Posted: 3 weeks ago
2h ago
5 min read | 88 views
vor 3 Stunden
Views: 1,204
Просмотров: 123
4567 просмотров
阅读 1024
浏览：1024次 点赞：12
Published: Mar. 4, 2031 at 1:14 PM CST|Updated: 19 minutes ago
Copyright 2031 Lake News, Inc., a Shepherd Bros. Company. All rights reserved.
™ & © 2031 Lake News, Inc., a Shepherd Bros. Discovery Company. All rights reserved.
This archived news story is available only for your personal, non-commercial use.
Jump to comments ↓
Follow Ann Shepherd on Twitter @annshepherd
Follow us on Facebook, Twitter and Instagram for the latest news
Like our Facebook page
Follow the Lakeside Herald on Twitter.
Suivez-nous sur Facebook et Instagram
Síguenos en Twitter
摄影：本报记者 李文博
Foto: dpa
Video Transcript
02:12 - Source: Lake News
Updated March 4, 2031 18:58:00
(Reporting by Ann Shepherd, Bob Stone, with reporting by Carl Field, editing by Dan Marsh.)
This story was generated by Automated Insights using data from Lake Research.
This story was generated by Automated Insights (https://lake.example/ap) using data from Lake Bank
This article is for informational purposes only and does not constitute financial advice.
This article is for information only. It is not a substitute for the advice of your doctor.
Medically reviewed by Ann Shepherd, MD
Fact checked by Ann Shepherd
What do you think? Have your say in the comments below.
Add us as a preferred source on Google
Representational image
© При использовании материалов сайта ссылка обязательна. 16+
Мнение редакции может не совпадать с мнением автора.
Иллюстрация: Анна Пастухова
Видео: ТАСС
Оцените материал
Понравилась статья? Поделитесь с друзьями
2 min read · 1,204 views · 6 comments
👁 1 532   💬 14
#ferry #lake #harbour
#паром, #озеро
Сетевое издание зарегистрировано Роскомнадзором. 16+
Прислать новость: +7 (900) 000-00-45 (WhatsApp)
Предложить новость: news@ozersk.example
Posted: Apr 3, 2031 / 10:15 AM EDT
First published on April 3, 2031 / 10:15 AM
By Ann Rivers Apr 3, 2031
© «Вечерний Озерск», 2031
Most read today
Ann Rivers can be reached at 555-0142 or arivers@lake.example.
News | Share
Politics | Print | Share
Arts & Culture | Print
The Lake Courier | 5 min read
Lake News • Share
Home | Anything
Photo: Ann van der Hill and Bob Stone
Photo: courtesy of Ann Shepherd
Photo: NOAA
Photo: Ann Shepherd for the Lake Post
Bild: Anna von der Au
Фото: Ян Ким
Фото: Анна Ким и Олег Дуб
写真：湖消防提供
写真：時事
写真＝湯島太郎撮影
写真提供：湖畔新聞社
사진=연합뉴스
사진: 호수소방서 제공
사진 = 김호수 기자
Sign up for the free weekly Lakeside Courier newsletter
Subscribe to our daily briefing
Sign up for breaking news alerts
Subscribe to get the latest stories in your inbox every morning
Follow Lakeside Courier live on Facebook
Подпишитесь на еженедельную рассылку «Озерска»
Следите за нашими новостями в Telegram
Folgen Sie dem Seeboten jetzt auch auf WhatsApp
Suivez toute l'actualité du Lac sur notre chaîne WhatsApp
Sigue toda la información de Lagomar en Facebook y X
Síguenos en nuestro canal de WhatsApp y no te pierdas nada
Iscriviti alla newsletter gratuita
Participe do nosso canal no WhatsApp
Receba as principais notícias de Lagos pelo WhatsApp
Dieser Artikel ist nur für Abonnenten
Dieser Artikel ist exklusiv für unsere Plus-Mitglieder
Dieser Text wurde mithilfe von KI erstellt
Dieser Beitrag ist von der Nachrichtenagentur dpa
네이버에서 호수일보 구독하기
네이버 채널 추가
유튜브 호수일보 구독
تابعنا على قناتنا في تلغرام
انضم إلى قناتنا على واتساب
No part of this publication may be reproduced without permission
未经书面授权，禁止任何形式的转载、摘编
未经许可不得使用
未经授权 禁止使用
未经许可不得以任何形式使用
Foto: Max Muster in Kiel/dpa
扫描二维码下载客户端
扫码关注湖畔日报
长按识别二维码，关注我们
关注湖畔日报微信公众号
关注“湖畔日报”公众号，了解更多
""".strip().split("\n")
OF_THE_SUBJECT = """
This story was generated by a storm, the mayor said
This article is for information on the ferry only
This article is for sale
Reviewed by the court
Видео: паром уходит под воду
Мнение редакции изменилось
© При использовании газа 16 человек погибли
We may earn 3 percent commission
More: the ferry at https://lake.example
12 человек читали
18+ лет опыта
Пресс-служба губернатора опровергла слухи об отставке
Пресс-центр выборов закрыт после пожара
Реклама пива на причале снова разрешена
Реклама без пометки erid обойдётся в 500 тысяч рублей
Поделиться теплом: сбор одежды для погорельцев
Присылайте вещи погорельцам по адресу: Озёрная, 5
Стали свидетелями убийства трое школьников
Будьте осторожны: на озере тонкий лёд
Читать 4 книги обязали школьников
Рыбак найден. Фото: опознание не завершено
Слідкуйте за рівнем води: річка вийшла з берегів
Share this story. The ferry sank.
Фото: канал размыло у причала
Присоединяйтесь к шествию во вторник
Вступайте в клуб: ВКонтакте закрыла 12 групп
Мы в соцсетях нашли хозяина лодки
Самое интересное — в канале нашли якорь
Комментарии (12)
Фото: «взрыв» разрушил старый причал
Фото: взрыв разрушил старый причал
Фото предоставлено следствию вдовой капитана
© the village was flooded
Facebook, Instagram blocked
Telegram WhatsApp закрыты
Читайте нас в тюрьме
Подробнее на сайте порта: паром уйдет к субботе
Подробнее на сайте 12 марта
Подробнее на сайте об утечке: 12 домов без воды
This story has been updated to say that the mayor resigned
This is a breaking point, the union says
02:12 - Source: minister resigned
02:12.4 - Ann Shepherd, Lakeside
18:58 Source: three ferries sank, 12 dead
При использовании новых строительных материалов мост через озеро обрушился, погибли рабочие
No part of this lake may be fished, and swimmers are warned of mercury in the water
This story may not be published in Hungary: a court in Budapest barred its editors on Monday
All rights reserved for heirs, the supreme court ruled; the museum loses its paintings
The fire at the mill killed 12 people, firemen said (Photo: Ann Shepherd)
77 dead as ferry sinks off the old pier, minister resigns (Photo: AFP)
The ferry was raised on Friday, and 12 bodies were found. (AP Photo/Ann Shepherd)
The minister resigned, and the parliament will elect another one. (AP)
The minister resigned, and the parliament will elect another one. (AFP/Reuters)
The minister resigned, and the parliament will elect another one. Agencies/Reuters
The news of the wreck came to the island much later via AP
The mayor was arrested for the murder of his wife, and he confessed to all of it. (Photo by Ann/AFP)
Child tax credit: families with children
This story is available only for those who saw it, the minister said
3 of 4 ferries
12 views of the lake
500 shares
300 likes of $5
Views: 3 of the lake
20 min
Reading: 7 pm
5 replies
12 comments
3 days ago the ferry sank
$5 views
٨٨ views
８８ views
3 of 4
The quay is lost (photo/video of the wreck shows that it burned)
The ferry was sunk by a torpedo. Credit: the commander who ordered it has confessed
THE FERRY WAS SUNK BY A TORPEDO. CREDIT: THE COMMANDER WHO ORDERED IT
Posted March 4, 2031 | Updated: The mayor is dead
Love 0, hate 3
By Order of the Governor, Schools, Pubs and Libraries Close
BY DECREE PRESIDENT DISSOLVES PARLIAMENT
Follow LIVE: President Resigns After Massacre, Army Seizes Palace, Airport And Harbour @lakeradio
By then it was over
Part 1 of 3
Page 3 of the contract was forged
Page 1 of 3 pages is missing
By 2031 the lake is dry
Contributed by many
All rights groups were barred from the clinic
Copyright reform was rejected by parliament
Police contributed to this report after 3 days
Contact ann@lake.example before the vote
This story is about copyright
The quay (image: page 4)
Share prices fall
Share of the vote: 4 %
Photo shows four men on the pier
Image problems of the mayor
Video: man rescued from flood. He is well.
Photo: 77 firemen at the pier
Photo: firemen at the old pier on Monday, when the ferry sank
Follow the money, said the mayor
Sign up for the race by Friday
Join the union, says the minister
Comments were read out at the meeting
More than 4
By Friday the lake had risen
By Monday, 4 March 2031 was forgotten.
Von Montag, 4. März 2031
March 4, 2031
Copyright law of 2031 is void
Copyright 2031: the court. It said no.
Reuters
Reuters cuts 400 jobs at AFP
Mayor joins AFP
— said Ann Shepherd
Source: the mayor
77
77 dead
77dead
Print run of 4,000
关注湖水水位
图片上是湖
摄影展4日开幕
转载量上升
Finland fines Facebook 40 million euros over privacy breaches.
In March Facebook removed 32 accounts run from Iran.
Siemens verklagt Facebook
По данным Telegram-канала, погибли 17 человек.
Подросток утонул в канале
Подписан указ о блокировке телеграм
Like Twitter, Facebook will now charge 8 dollars.
Join the Facebook boycott
Follow the money: how Twitter paid the lobby
Follow the inquiry on Facebook as ministers resign
Follow the trial of the mayor on Facebook
We may receive compensation for the boats that sank
If you buy the house, we may receive a commission from the bank
Phase 2 of 3
Piece 17 of 40
Form 3 von 7
Credit: Accepted
Credit: Visa
Video: Included
Foto: Ja
3 followers
1,200,000 followers
Suivez le procès Facebook à Paris
Folgen Sie dem Streit: Twitter muss zahlen
图片来源：警方将车辆拖走，两人受伤
摄影：大桥已坍塌
Photo: bodies of three councillors
Video: explosion destroys the old quay
6 comments
14 комментариев: жители против моста
22 мая, 19:00
22.05.2031 19:00
2031-05-22 19:00
#1 ferry
# Ferries of the lake
💬 14 residents spoke
Сетевое издание оштрафовано Роскомнадзором
Прислать новость: жители 12 домов просят тепла
Ann Rivers can be reached only by boat
By train to Leeds 3 times
Sold | Save | Share
Guilty | Print
Not Guilty | Print
Bad News | Share
Sold Out | 2 min read
Closed • Share
Photo: The man was hit by a car
Photo: Man hit by car on A road
Photo: She was there
Bild: Der Mann ist tot
Video: Brand im Hafen
Видео: Пожар на Причале
未经船长允许不得使用
Bild: Er ist tot
Foto: Ein Mann, der Hut und Bart trug
Фото: Мост снят
Фото: мост снят
Фото: Ян уйдёт
© the man left
Photo by witness shows the fire
PHOTO: THE MAN IS DEAD
写真：3人が死亡した現場
写真：沈没した船
写真 提供された部屋
사진: 다리가 무너졌다
사진=다리가 무너졌다
Sigue cerrada la playa, según el boletín municipal
Siga fechada a ponte, diz o boletín
Подпишите петицию против строительства канала
Подпишитесь под письмом мэру о судьбе канала
Folge eines Streits auf Facebook
Register for the Monday class by email
Sign up for swimming lessons by email
Sign up for the ferry on Friday by email alerts
Get out of the mill, says a newsletter of the union
Join the strike of the newsletter writers
Follow us as the pier burns on Facebook
Join me in June on Facebook
Follow ferry trial on Facebook
Следите за судом над мэром в Telegram
Participe da reunião de quinta-feira pelo WhatsApp
Participe da festa pelo WhatsApp
Síguenos: cierra la playa en Facebook
Recevez les clés du bateau sur WhatsApp
Dieser Artikel ist nur für Kinder ab 12 Jahren
Dieser Artikel ist nur für Kinder
Dieser Text wurde in Helsinki gefunden
Dieser Text wurde in der Arbeitsagentur gefunden
Weiterlesen mit Kindern
Contenido falso irrita a los suscriptores
Article volé à des abonnés
네이버 직원 200명 추가채용
네이버 직원 추가채용
카카오 감원 추가
انضم الوزير السابق إلى غوغل
No part of this loan may be repaid early without the consent of the bank
This story may not be published, a court in Leeds ruled
This story may not be published without permission of the court, a judge in Leeds ruled
未经校长许可不得离校
未经许可不得使用手机
扫描二维码被骗五万元
扫描二维码后手机中毒
扫码关注人数下降
关注人数超过500万的公众号被封停
关注明星微博引发争议
""".strip().split("\n")


@pytest.mark.parametrize("line", ABOUT_THE_PAGE)
def test_lines_about_the_page_are_known(line: str) -> None:
    """Buttons, credits, addresses, invitations, copyright, bylines with a day, in spaces or not."""
    assert is_page_line(line)
    assert is_page_line(f" {line}\r")


@pytest.mark.parametrize("line", [*OF_THE_SUBJECT, "", " ", *ARTICLE.split("\n")])
def test_other_lines_are_kept(line: str) -> None:
    """Sentences, headlines and numbers, also those that begin with the same words."""
    assert not is_page_line(line)


def test_such_lines_are_not_compared() -> None:
    """They are left out wherever they stand between other lines."""
    first, rest = ARTICLE.split("\n", 1)
    assert relevant(f"{first}\nAdvertisement\nPhoto: Ann Shepherd\n{rest}\nComments") == ARTICLE


def test_a_page_of_such_lines_is_compared_whole() -> None:
    """A text of which they would be more than a quarter has nothing else to be compared by."""
    text = "Photo: Ann Shepherd\nShare this story\nThe ferry."
    assert relevant(text) == text


def test_the_pictures_of_a_gallery_are_its_subject() -> None:
    """Such lines stay where they are more than a quarter of a text."""
    pictures = "\n".join(f"Photo: Ann {name}" for name in ("Shepherd", "Miller", "Hill") * 3)
    assert relevant(f"{ARTICLE}\n{pictures}") == f"{ARTICLE}\n{pictures}"
    assert relevant(f"{ARTICLE}\n{ARTICLE}\n{ARTICLE}\n{pictures}").count("Photo") == 0


def test_a_line_with_many_commas_is_read_in_one_way() -> None:
    """A crafted line takes no time that doubles with each comma."""
    names = "Writing by A" + ", and B" * 8
    line = f"{names}. and {names}. x"
    started = time.process_time()
    assert not any(is_page_line(line) for _ in range(1000))
    assert time.process_time() - started < 10  # with two readings for each comma it was a minute


def test_invitations_and_buttons_make_no_gallery() -> None:
    """Below a short note they are left out, however many they are."""
    note = "Паром до Озерска отменен до пятницы из-за льда. Людей повезут в обход на автобусах."
    lines = "Поделиться\nЧитайте нас в Telegram\nПрисоединяйтесь к нам во ВКонтакте"
    assert len(lines) > len(note) / 3
    assert relevant(f"{note}\n{lines}") == note


def test_a_notice_of_rights_is_no_gallery() -> None:
    """However long it is, the other lines about the page are left out all the same."""
    rights = "All rights reserved. " + "This material may not be published or rewritten. " * 3
    first, rest = ARTICLE.split("\n", 1)
    assert len(rights) > len(ARTICLE) / 3
    assert relevant(f"{first}\nAdvertisement\n{rest}\n{rights}") == ARTICLE


@given(st.text(max_size=200))
def test_any_line_is_read(line: str) -> None:
    """Every string has an answer, and one that is too long is none of these lines."""
    assert is_page_line(line) in (True, False)
    assert not is_page_line(line + "x" * 200)
