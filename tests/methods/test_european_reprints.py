"""Reprints of Dutch, Polish and French reports, and reports that differ in one fact."""

from __future__ import annotations

import pytest

from dedup_middleware import Deduplicator, Document, Options, Verdict

DUTCH = (
    "Een vissersboot is {day} voor de kust van het eiland vergaan, terwijl {many} opvarenden aan "
    "dek sliepen. De wind kwam uit het {wind} en de schipper had de boei bij de haveningang niet "
    "gezien. Een veerpont nam iedereen aan boord, de kustwacht {rest}. De reder wil de {hull} romp "
    "laten bergen zodra de zee kalm is. Vorig jaar liep er op dezelfde plek een jacht vast."
)
POLISH = (
    "Kuter rybacki zatonął {day} u wybrzeży wyspy, gdy {many} rybaków spało na pokładzie. Wiatr "
    "wiał z {wind}, a szyper nie zauważył boi przy wejściu do portu. Wszystkich zabrał prom, a "
    "straż przybrzeżna {rest}. Armator chce wydobyć {hull} kadłub, gdy morze się uspokoi. Przed "
    "rokiem w tym samym miejscu osiadł na mieliźnie jacht."
)
DUTCH_FACTS = {
    "day": "dinsdag",
    "many": "veertien",
    "wind": "noorden",
    "rest": "zag de prijs stijgen",
    "hull": "groene",
}
POLISH_FACTS = {
    "day": "we wtorek",
    "many": "dwunastu",
    "wind": "zachodu",
    "rest": "była otwarta",
    "hull": "niebieski",
}
FRENCH = (
    "La ferme du plateau {sold} au printemps et le lait part chaque matin vers la fromagerie du "
    "bourg, qui compte {amount} de recettes. La fermière garde quarante chèvres, un verger et "
    "l'ancien moulin, dont la roue attend un charpentier depuis la dernière crue de la rivière. "
    "Son fils répare les clôtures, soigne les bêtes malades et conduit le tracteur du voisin "
    "pendant les foins. Les randonneurs achètent des fromages frais, du miel, des pommes et du "
    "pain de seigle cuit au feu de bois. Une guide montre les ruches, la cave et la source."
)


async def verdict(stored: str, new: str) -> Verdict:
    """What becomes of a text on another site than the stored one."""
    async with Deduplicator(Options(index_url="memory:", hash_key="3")) as dedup:
        await dedup.commit(await dedup.decide(Document(key="https://one.example/1", text=stored)))
        return await dedup.decide(Document(key="https://two.example/1", text=new))


@pytest.mark.parametrize(
    ("page", "facts", "name", "other"),
    [
        (DUTCH, DUTCH_FACTS, "many", "zestien"),
        (DUTCH, DUTCH_FACTS, "wind", "westen"),
        (DUTCH, DUTCH_FACTS, "rest", "zag de prijs dalen"),
        (DUTCH, DUTCH_FACTS, "hull", "rode"),
        (POLISH, POLISH_FACTS, "many", "jedenastu"),
        (POLISH, POLISH_FACTS, "wind", "północy"),
        (POLISH, POLISH_FACTS, "rest", "była zamknięta"),
        (POLISH, POLISH_FACTS, "hull", "czerwony"),
    ],
)
async def test_another_fact_is_another_page(
    page: str, facts: dict[str, str], name: str, other: str
) -> None:
    """A numeral in words, a point of the compass, an opposite, a colour."""
    stored = page.format(**facts)
    assert (await verdict(stored, page.format(**facts | {name: other}))).outcome == "new"


async def test_a_negation_with_an_apostrophe() -> None:
    """Was sold and was not sold: *n'est* is *est*, and *pas* turns it round."""
    stored = FRENCH.format(sold="est vendue", amount="3 millions d’euros")
    new = FRENCH.format(sold="n’est pas vendue", amount="3 millions d’euros")
    assert (await verdict(stored, new)).reason == "turned-round"


async def test_an_amount_in_another_style() -> None:
    """Millions of euros, as a word or as letters."""
    stored = FRENCH.format(sold="est vendue", amount="3,5 millions d’euros")
    new = FRENCH.format(sold="est vendue", amount="3,5 M€")
    assert (await verdict(stored, new)).outcome == "duplicate"


async def test_hours_with_a_point() -> None:
    """16.40 uur is 16:40 uur."""
    stored = DUTCH.format(**DUTCH_FACTS | {"day": "dinsdag om 16.40 uur"})
    new = DUTCH.format(**DUTCH_FACTS | {"day": "dinsdag om 16:40 uur"})
    assert (await verdict(stored, new)).reason == "exact-copy"


@pytest.mark.parametrize("changed", [0, 7, 14])
async def test_a_timetable_with_points(changed: int) -> None:
    """Each hour counts as one numeral: of those with a colon, not all have places."""
    halts = (
        "Moorhof Linden Auried Brugg Seefeld Talbach Weiher Rehberg Holzen Gabel Ranft Furth Egg "
        "Sulz Kalten Ostern"
    )
    hours = [f"{6 + i}.{minute}" for i, minute in enumerate([15, 40, 20, 45] * 4)]
    text = (
        "Die neue Linie der Waldbahn verbindet ab Herbst das Dorf am Hang mit dem See. Der Wagen "
        "hält am Abend nur nach einem Zeichen der Wartenden. {} Kinder fahren in Begleitung ihrer "
        "Eltern umsonst, und Fahrräder stehen im letzten Abteil. Der Verein sucht noch Helfer für "
        "den Verkauf der Karten, für den Kiosk und für die Pflege der Beete."
    )

    def table(times: list[str]) -> str:
        stops = zip(halts.split(), times, strict=True)
        return text.format(", ".join(f"{halt} um {time} Uhr" for halt, time in stops) + ".")

    other = [*hours[:changed], "16.20", *hours[changed + 1 :]]
    assert (await verdict(table(hours), table(other))).outcome == "new"
