"""Lines about the page in many languages are left out; lines on the subject like them stay."""

from __future__ import annotations

import pytest

from dedup_middleware.text.relevant import relevant
from tests.text.test_relevant import ARTICLE

TEXT = f"{ARTICLE}\n{ARTICLE}"

ABOUT_THE_PAGE = """
Дата публикации: 17.05, 08:02
Опубликовано: 17 мая 2031 г. в 08:02
Сетевое издание зарегистрировано в Роскомнадзоре. Учредитель: ООО «Вести Озера». 16+
Реклама. ООО «Пристань»
Войти | Регистрация
Printer friendly version | Email this story to a friend | Discuss this story in our forums
Startseite > Hessen > Seen
Stand: 04.03.2031, 11:32 Uhr
Von Anna Ufer und Jan Steg
Weiterlesen mit Abo
Sie haben bereits ein Konto? Hier anmelden
Newsletter abonnieren: Alles Wichtige vom See direkt in Ihr Postfach.
Rubriklistenbild: © Jan Steg/dpa
Der Steg im Winter. (Archivbild)
Haben Sie einen Fehler gefunden? Schreiben Sie uns
Accueil / Faits divers
Par Anne Rive avec AFP
Publié le 4 mars 2031 à 07h45, mis à jour le 4 mars 2031 à 09h12
Temps de lecture : 2 min
Cet article est réservé aux abonnés. Il vous reste 45 % de cet article à lire.
Le port en hiver. (Photo d'illustration) PHOTO SIPA
Suivez-nous sur Facebook
Partager l’article
Actualizado: 04/03/2031 14:05
Síguenos en WhatsApp y recibe las noticias más importantes del día
Contenido exclusivo para suscriptores. Suscríbete para continuar leyendo
Imagen cedida por la empresa. EFE/ Lagomar
di Marco Riva
Aggiornato alle 10:30
1 minuto di lettura
Foto di repertorio
Contenuto riservato agli abbonati
A cura della redazione cultura
Riproduzione riservata © Copyright ANSA
04/03/2031 17h20 Atualizado há 2 horas
Receba as notícias da região no WhatsApp
Conteúdo exclusivo para assinantes
Barco no cais de Lagos. RUI COSTA/LUSA
Strona główna » Wiadomości
04.03.2031 10:48, aktualizacja: 04.03.2031 13:02
fot. OSP Jezioro
Polub nas na Facebooku
Pozostało 60% artykułu. Treść dostępna tylko dla prenumeratorów.
Copyright © Wszelkie prawa zastrzeżone
Giriş Tarihi: 04.03.2031 06:48 Son Güncelleme: 04.03.2031 09:15
Bizi Google News'te takip edin
İlginizi Çekebilir: Vapur yine gecikti
Haberi paylaş
2031年3月4日 7時10分（更新：3月4日 8時45分）
【関連記事】渡船がまた遅れる
（写真：湖消防提供）
（湖畔支局・湯島太郎）
この記事は会員限定です。残り420文字
冬の桟橋＝2031年撮影
※記事の内容は配信時点のものです。
입력 2031.03.04 09:32 수정 2031.03.04 11:05
김호수 기자
김호수 기자 lake@lake.example
▲ 겨울의 부두. [회사 제공]
[관련기사] 배가 또 늦는다
저작권자 ⓒ 호수일보, 무단 전재 및 재배포 금지
이 기사는 유료 회원 전용입니다. 로그인 후 전체 기사를 읽을 수 있습니다.
좋아요 12
آخر تحديث: 11:15 ص
الرصيف في الشتاء (أرشيف)
تابعنا على فيسبوك
هذا المحتوى متاح للمشتركين فقط
"""

ON_THE_SUBJECT = """
Дата публикации книги: 1931
Сетевое издание опубликовало доклад о причале
Stand der Dinge am See
Von Kassel nach Ufersee
Haben Sie damals Fehler gemacht?
Folgen Sie dem Kanal bis zur Schleuse
Wie Pflanzen am See leben (Photosynthese)
Lecture 3
Jour 3
Par temps de pluie
Suivez le canal jusqu'au port
Suivez le procès de Google
Publié par un marin en 1931
Lectura 2
di notte il lago è calmo
Contenuto della borsa
c) Butter und Zucker
Przystań: 4 marca 2031
Son 2031 vapuru
公開 2031年3月4日
会員は三割引き
写真展は四日まで
사은품 (무료 제공)
제보 받은 경찰 수사 착수
تابع الصيادون الحوت
"""


@pytest.mark.parametrize("line", ABOUT_THE_PAGE.strip().splitlines())
def test_a_line_about_the_page_is_left_out(line: str) -> None:
    """Above the article as well as below it."""
    assert relevant(f"{line}\n{TEXT}") == relevant(f"{TEXT}\n{line}") == TEXT


@pytest.mark.parametrize("line", ON_THE_SUBJECT.strip().splitlines())
def test_a_line_on_the_subject_stays(line: str) -> None:
    """With other words a line is news."""
    assert relevant(f"{line}\n{TEXT}") == f"{line}\n{TEXT}"


@pytest.mark.parametrize(
    "line",
    [
        "Ufersee (dpa) – ",
        "(EFE).- ",
        "(ANSA) - LAGO, 12 MAG - ",
        "Lagos, 12 mai 2031 (Lusa) - ",
        "(호수=연합뉴스) 김호수 기자 = ",
        "【湖畔共同】",
        "بحيرة (د ب أ) - ",
    ],
)
def test_a_date_line_behind_a_headline_is_left_out(line: str) -> None:
    """A reprint has its own headline above it."""
    assert relevant(f"Lake and harbour\n{line}{TEXT}") == f"Lake and harbour\n{TEXT}"


def test_a_link_is_no_row_of_a_list() -> None:
    """So the source below it is left out."""
    assert relevant(f"{TEXT}\nCzytaj także: Prom spóźniony\nŹródło: PAP") == TEXT


@pytest.mark.parametrize("per_cent", ["19퍼센트", "19パーセント", "19 في المئة", "19 بالمائة"])
def test_percent_in_words_is_the_sign(per_cent: str) -> None:
    """As per cent is."""
    assert relevant(f"{per_cent} {ARTICLE}") == f"19% {ARTICLE}"
