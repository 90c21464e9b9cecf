"""English reports with many numerals: another name throughout, and what reprints write anew;
reports in which one word is another one."""

from __future__ import annotations

import pytest

from dedup_middleware import Deduplicator, Document, Options, Verdict
from tests.texts import LEVY

# More numerals than a fingerprint has entries, so that no name has one.
REPORT = (
    "The village of Ardmoor will get a new school for 240 children, the council decided on Monday "
    "by 9 votes to 4. Work is to begin in 18 months and will cost 6.3 million pounds, of which 41 "
    "percent comes from a fund that Wexcombe Quarries has paid into for 27 years. The old building "
    "has 11 rooms, and its roof leaked on 63 days of last winter. A plan to repair it for 850,000 "
    "pounds was dropped after a study had shown that heating would take 38,000 litres of oil a "
    "year. The new one stands on 2.5 hectares that Wexcombe itself sold in spring for 310,000 "
    "pounds, and pupils from 14 hamlets will ride there on 5 buses. Parents had gathered 1,270 "
    "signatures. The firm employs 190 people, and those who live within 12 miles of the pits will "
    "hear blasting on 8 mornings a month while Wexcombe digs for the foundations. A bridge with a "
    "span of 35 metres is built for walkers, who may cross it from 6 in the morning to 10 at night."
)


GERMAN = (
    "Der Konzern will im Herbst das alte Werk am Hafen schließen, in dem 240 Menschen Maschinen "
    "für die Landwirtschaft bauen. Das teilte der Vorstand am Montag mit. Die Gewerkschaft nannte "
    "den Plan einen Fehler, denn das Werk hatte im vergangenen Winter mehr Aufträge als je zuvor. "
    "Ein Sprecher sagte, die Hallen seien zu klein und die Straßen zu eng für die Lastwagen, und "
    "der Konzern habe mit der Stadt lange nach einem anderen Gelände gesucht. Wer in dem Betrieb "
    "lernt, kann die Ausbildung in der Zentrale beenden. Am Abend versammelten sich viele vor dem "
    "Tor, und der Pfarrer las die Namen aller vor, die dort seit der Gründung gearbeitet haben."
)


async def verdict(stored: str, new: str, key: str, host: str = "two.example") -> Verdict:
    """What becomes of a text on another site than the stored one, or on `host`."""
    async with Deduplicator(Options(index_url="memory:", hash_key=key)) as dedup:
        await dedup.commit(await dedup.decide(Document(key="https://one.example/1", text=stored)))
        return await dedup.decide(Document(key=f"https://{host}/2", text=new))


async def test_another_firm_throughout() -> None:
    """A firm that is named three times is what the report is about, whatever else is the same. Now
    and then a mention is hidden by a false positive."""
    other = REPORT.replace("Wexcombe", "Brindley")
    found = [(await verdict(REPORT, other, f"{key:x}")).reason for key in range(1, 13)]
    assert found.count("other-figures") >= 10


async def test_another_person_who_is_named_once() -> None:
    """First name and surname are both others, so neither is a slip. One of the two may be."""
    named = REPORT.replace("the council decided", "the council led by Maud Ferrier decided")
    for other, least in (("Hugh Lassiter", 10), ("Maud Ferier", 0), ("Mod Ferrier", 0)):
        text = named.replace("Maud Ferrier", other)
        found = [(await verdict(named, text, f"{key:x}")).reason for key in range(1, 13)]
        assert found.count("other-figures") >= least
        assert least or set(found) == {"near-duplicate"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the chamber", "Capitol Hill"),
        ("the firm", "Goldman Sachs"),
        ("the EU", "the European Union"),
        ("reporters", "Bloomberg News"),
    ],
)
async def test_a_name_that_is_written_out(before: str, after: str) -> None:
    """A journalist writes a full name for one word, or one word for it: that is no other person."""
    stored = REPORT.replace("the council decided", f"the council led by {before} decided")
    new = stored.replace(before, after)
    for key in range(1, 7):
        for one, two in ((stored, new), (new, stored)):
            assert (await verdict(one, two, f"{key:x}")).outcome == "duplicate"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Wexcombe digs", "Wexcomb digs"),  # one slip
        ("The firm employs", "Wexcombe employs"),  # a name that both pages say
        ("litres", "liters"),
        ("metres", "meters"),
        ("in spring for", "in Spring for"),
    ],
)
async def test_what_reprints_write_otherwise(before: str, after: str) -> None:
    """None of these makes another report."""
    assert before in REPORT
    assert (await verdict(REPORT, REPORT.replace(before, after), "1")).outcome == "duplicate"


async def test_titles_that_are_written_out() -> None:
    """What always stands next to a name may be a title."""
    short = REPORT.replace("who live", "whom Sen. Wexcombe met").replace("Parents", "Sen. Wexcombe")
    assert (await verdict(short, short.replace("Sen.", "Senator"), "1")).outcome == "duplicate"


@pytest.mark.parametrize("day", ["(April 2)", "(2 April)", "(Apr 2)"])
async def test_dates_that_are_added_in_brackets(day: str) -> None:
    """Some papers add the date to each day of the week; other dates make other reports."""
    dated = REPORT.replace("on Monday", f"on Monday {day}")
    assert (await verdict(REPORT, dated, "1")).outcome == "duplicate"
    assert (await verdict(dated, dated.replace("2", "9", 1), "1")).outcome == "new"
    other = dated.replace(day, day.replace("2", "9"))
    assert (await verdict(dated, other, "1")).reason == "other-figures"


async def test_years_that_are_put_in() -> None:
    """A year that ends a date is no news; one in place of another is, and what may be a number."""
    stored = REPORT.replace("last winter", "the winter of 2027").replace("in spring", "on 3 March")
    put_in = stored.replace("on 3 March for", "on 3 March 2029 for")
    assert (await verdict(stored, put_in, "1")).outcome == "duplicate"
    for number in ("2029", "2,000"):
        more = stored.replace("on Monday", f"with {number} people on Monday")
        assert (await verdict(stored, more, "1")).reason == "other-figures"
    assert (await verdict(put_in, put_in.replace("2029", "2028"), "1")).reason == "other-figures"


async def test_years_behind_words_that_are_also_said_without_one() -> None:
    """That words follow each other in the stored page may be true of another place of it."""
    head = REPORT + " Wexcombe digs {} for the foundations."
    for key in range(1, 13):
        found = await verdict(head.format(2030), head.format(2031), f"{key:x}")
        assert found.reason == "other-figures"


async def test_dates_in_brackets_in_place_of_others() -> None:
    """The stored page has no date in brackets, but another date."""
    stored = REPORT.replace("on Monday", "on April 9 this Monday")
    new = REPORT.replace("on Monday", "this Monday (May 2)")
    found = [(await verdict(stored, new, f"{key:x}")).reason for key in range(1, 13)]
    assert found == ["other-figures"] * 12


@pytest.mark.parametrize(
    ("before", "after"), [("in spring", "on 3 March 2029"), ("on Monday", "on Monday (April 2)")]
)
async def test_years_and_dates_of_pages_of_one_host(before: str, after: str) -> None:
    """Yearly and weekly pages of a site differ in them."""
    stored = REPORT.replace("last winter", "the winter of 2027")
    new = stored.replace(before, after)
    for key in range(1, 7):
        found = await verdict(stored, new, f"{key:x}", "one.example")
        assert found.reason == "other-figures"


@pytest.mark.parametrize("key", ["1", "2", "3", "4"])
async def test_german_nouns_are_no_names(key: str) -> None:
    """All have capital letters: another word for the works is another word."""
    new = GERMAN.replace("Werk", "Lager")
    assert (await verdict(GERMAN, new, key)).outcome == "duplicate"


async def outcomes(changes: dict[str, str]) -> list[str]:
    """What becomes of the report with these changes after the report, with twelve hash keys."""
    other = LEVY
    for before, after in changes.items():
        assert before in other
        other = other.replace(before, after)
    return [(await verdict(LEVY, other, f"{key:x}")).outcome for key in range(1, 13)]


@pytest.mark.parametrize(
    "changes",
    [
        {"imposed": "proposed", "introduced": "proposed"},
        {"levy": "bonus"},
        {"yachts": "tankers", "sailors": "tankers"},
        {"welcomed": "rejected"},
        {"devours": "yields"},
        {"eastern": "northern"},
    ],
)
async def test_one_word_that_corrects_a_fact(changes: dict[str, str]) -> None:
    """One word in place of another one, and nothing else, is a correction or another product. It is
    taken for another spelling once in eight cases where it stands at a single place."""
    assert (await outcomes(changes)).count("new") >= 10


@pytest.mark.parametrize(
    "changes",
    [
        {"harbour": "harbor"},
        {"inspectors": "inspecters"},
        {"rubbish": "rubbihs"},
        {"inspectors": "controlers", "dinghy": "boat"},
        {"sailing club painted": "sailing club merrily painted"},
        {"painted posters with whales and pirates and": "painted posters and"},
        {"visiting": "foreign", "rubbish": "litter"},  # a journalist who edits changes more
    ],
)
async def test_words_that_editors_change(changes: dict[str, str]) -> None:
    """None of these makes another page on another site; two words may be an edit."""
    assert (await outcomes(changes)).count("duplicate") >= 11


async def test_one_word_beside_a_cut() -> None:
    """With fewer shingles the stored page may have had it elsewhere: that is no sign."""
    cut = LEVY[: LEVY.rindex("Children")].replace("rubbish", "litter")
    assert (await verdict(LEVY, cut, "1")).outcome == "duplicate"
