"""English and Russian reports with one fact turned round among other edits, and edited copies."""

from __future__ import annotations

import pytest

from dedup_middleware import Deduplicator, Document, Options

FERRY = (
    "The county board approved a new ferry to Sorrel Island on Tuesday after a debate of three "
    "hours. Captain Ines Maddox told the members that the old boat could carry only nine cars and "
    "that repairs would cost more than it is worth. Harbor master Ruben Oyelaran praised the crew "
    "in public and thanked the volunteers who had painted the landing. Residents of Sorrel asked "
    "for a late crossing on Saturdays, and the board promised to study the timetable again. The "
    "Finch Bay Rowers beat the Orrin Oarsmen in a race that was held before the meeting. The yard "
    "in Tolland will begin work in spring, and the island school has been invited to choose the "
    "name of the boat. The cafe at the landing will stay open while the pier is rebuilt, and "
    "tickets bought this year remain valid. Fishermen may use the eastern dock until then."
)
PAROM = (
    "Совет округа одобрил строительство парома до острова Щавелевый после трехчасового обсуждения. "
    "Капитан Инна Маркова рассказала депутатам, что старое судно вмещает только девять машин, а "
    "ремонт обойдется дороже его самого. Начальник порта похвалил команду и поблагодарил "
    "добровольцев, которые покрасили причал. Жители острова попросили о позднем рейсе по субботам, "
    "и совет обещал еще раз изучить расписание. Верфь начнет работы весной, школьникам предложили "
    "выбрать имя для судна. Кафе у причала закроют на время ремонта, билеты останутся в силе. "
    "Рыбаки смогут пользоваться северным причалом."
)
# Where other words of the same clauses were edited, too.
EDITED = FERRY.replace("painted the landing", "painted the quay").replace("in public", "openly")


async def outcomes(stored: str, new: str, keys: int = 12) -> list[str]:
    """What becomes of a text on another site than the stored one, with different keys."""
    found = []
    for key in range(1, keys + 1):
        async with Deduplicator(Options(index_url="memory:", hash_key=f"{key:x}")) as dedup:
            one = await dedup.decide(Document(key="https://one.example/1", text=stored))
            await dedup.commit(one)
            two = await dedup.decide(Document(key="https://two.example/2", text=new))
            found.append(two.outcome)
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("could carry only nine", "could not carry only nine"),
        ("will stay open while", "will not stay open while"),
        ("remain valid", "never remain valid"),
        ("Finch Bay Rowers beat the Orrin Oarsmen", "Orrin Oarsmen beat the Finch Bay Rowers"),
    ],
)
async def test_facts_turned_round_beside_other_edits(before: str, after: str) -> None:
    """A denial, and names in each other's places, whichever page was stored first. Now and then one
    is hidden by a false positive."""
    assert before in FERRY
    for stored, new in (
        (FERRY, EDITED.replace(before, after)),
        (EDITED.replace(before, after), FERRY),
    ):
        # Whether a page had a "never" is not asked: with each word asked for more copies are kept.
        least = 9 if "never" not in stored else 0
        assert (await outcomes(stored, new)).count("new") >= least


async def test_names_far_apart_in_each_others_places() -> None:
    """Two persons who did what the other one did."""
    new = FERRY.replace("Captain Ines Maddox", "Captain X").replace("Ruben Oyelaran", "Ines Maddox")
    new = new.replace("Captain X", "Captain Ruben Oyelaran")
    assert (await outcomes(FERRY, new)).count("new") >= 8


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("approved a new ferry", "rejected a new ferry"),
        ("eastern dock", "western dock"),
        ("nine cars", "nine buses"),
        ("stay open", "stay shut"),
    ],
)
async def test_opposites_of_the_list(before: str, after: str) -> None:
    """Words of which one excludes the other."""
    new, old = FERRY.replace(before, after), FERRY.replace("nine cars", "nine trucks")
    assert (await outcomes(old if "buses" in after else FERRY, new)).count("new") >= 11


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("одобрил строительство", "отклонил строительство"),
        ("северным причалом", "южным причалом"),
        ("закроют на", "откроют на"),
        ("обещал еще", "не обещал еще"),
        ("смогут пользоваться", "не смогут пользоваться"),
    ],
)
async def test_russian_facts(before: str, after: str) -> None:
    """Opposites in any case, and denials."""
    assert before in PAROM
    new = PAROM.replace(before, after)
    assert (await outcomes(PAROM, new)).count("new") >= 9
    assert (await outcomes(new, PAROM)).count("new") >= 9


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("could carry only", "couldn't carry over"),
        ("promised to study", "would not refuse to study"),
        ("Maddox told the members", "Maddox told members"),
        ("in spring, and", "in spring and"),
    ],
)
async def test_edits_that_deny_nothing(before: str, after: str) -> None:
    """A negation in place of other words: would not say, declined to say."""
    assert (await outcomes(FERRY, FERRY.replace(before, after), 4)) == ["duplicate"] * 4


async def test_abbreviations_with_points() -> None:
    """In a notice every word of a name counts: U.S. is US, and D.C. DC."""
    notice = (
        "The U.S. mint in Washington, D.C., will sell a medal with the head of an otter from May "
        "on. Collectors in the U.S. and abroad may order up to four pieces through dealers, who "
        "expect the first of them to be gone within a week, as those with the heron were."
    )
    plain = notice.replace("U.S.", "US").replace("D.C.", "DC")
    assert await outcomes(notice, plain, 4) == ["duplicate"] * 4
    assert await outcomes(plain, notice, 4) == ["duplicate"] * 4
    assert await outcomes(notice, notice.replace("U.S.", "U.K."), 4) == ["new"] * 4


async def test_hours_with_a_point_in_russian() -> None:
    """Около 6.40 is около 6:40."""
    stored = PAROM.replace("рейсе по субботам", "рейсе около 6:40")
    assert await outcomes(stored, stored.replace("6:40", "6.40"), 4) == ["duplicate"] * 4
    assert await outcomes(stored, stored.replace("6:40", "6.50"), 4) == ["new"] * 4
