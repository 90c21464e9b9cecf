"""Clusters, changes, two journals, and what the reader finds as he left it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from dedup_middleware.base.options import Options
from dedup_middleware.journal.clusters import COLUMNS, collect_clusters, to_csv, to_json_lines
from dedup_middleware.journal.entries import Query
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.report.htmlreport import collect, write
from tests.commands.running import crawl, dedup, item, settings_for
from tests.docblocks import ROOT
from tests.report.driving import fill, find, resize, saved, show, texts, titles, until, wait_for
from tests.report.opening import open_report
from tests.report.samples import ENGLISH, START, drop

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ASSETS = ROOT / "dedup_middleware" / "tools" / "report" / "assets"


def test_a_cluster_lists_its_mirrors(chrome: Chrome, tmp_path: Path) -> None:
    """Each page once by its newest decision, with site, time and reason; near misses on request;
    pages seen again are no mirrors of themselves."""
    key = "https://first.example/1"
    again = drop("x", 1.0, key=key, match=key, outcome="revisit", reason="unchanged")
    near = drop("near", 0.7, match=None)
    newest = drop("a", 0.95, time=START + 120.0)
    journal = SQLiteJournal(tmp_path / "j.db", max_bytes=10_000_000)
    journal.open(create=True)
    with journal:
        journal.append([drop("a", 0.9), again, drop("b", 1.0), near, newest], [], {})
        write(collect(journal, Options(), now=0.0), tmp_path / "r.html")
    open_report(chrome, tmp_path / "r.html")
    show(chrome, "clusters")
    assert find(chrome, "#found").text == "1 clusters, 2 dropped pages"
    find(chrome, ".cluster summary").click()
    until(chrome, lambda d: titles(d, ".cluster"))
    assert titles(chrome, ".cluster") == ["b", "a"]
    assert texts(chrome, ".cluster td.number") == ["1.000", "0.950"]
    assert texts(chrome, ".cluster td.why")[1] == "Nearly the same text (2 times)"
    assert texts(chrome, ".cluster td.site a") == ["copy.example"] * 2
    find(chrome, "#near").click()
    wait_for(chrome, "2 clusters, 2 dropped pages")
    assert texts(chrome, ".cluster .count") == ["2", "1"]
    assert chrome.get_log("browser") == []


def test_clusters_are_saved_as_the_command_writes_them(
    page: Chrome, journal: SQLiteJournal, downloads: Path
) -> None:
    """The same rows and objects as `scrapy dedup clusters`, in the order of the view."""
    made = list(collect_clusters(journal, Query(), near=True))
    assert any(cluster.near for cluster in made)
    show(page, "clusters?near=1")
    state = json.loads(saved(page, downloads, "#export-json", "clusters.json"))
    expected = [json.loads(line) for line in to_json_lines(made).splitlines()]
    assert by_key(state, "stored") == by_key(expected, "stored")
    text = saved(page, downloads, "#export-csv", "clusters.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert tuple(rows[0]) == COLUMNS
    written = list(csv.DictReader(io.StringIO(to_csv(made).decode(), newline="")))
    assert by_key(map(plain, rows), "key") == by_key(map(plain, written), "key")


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its time and its similarity in one form."""
    return {
        **row,
        "time": row["time"].replace("+00:00", "Z"),
        "similarity": float(row["similarity"]),
    }


def by_key(rows: Any, key: str) -> dict[str, Any]:
    """Rows by a column, their pages too, without the form of a time."""
    text = json.dumps({row[key]: row for row in rows}).replace("+00:00", "Z")
    made = json.loads(text)
    for row in made.values():
        for kind in ("mirrors", "near"):
            if kind in row:
                row[kind] = by_key(row[kind], "key")
    return dict(made)


def test_what_changed(whole_page: Chrome, downloads: Path) -> None:
    """Similarity to the last version, words that came and went, and numbers; no last version: so
    said. The changes are no decisions."""
    show(whole_page, "changes")
    assert find(whole_page, "#found").text == "2 changes of 2 pages"
    assert titles(whole_page) == ["Fees", "ferry"]
    assert texts(whole_page, "td.number") == ["0.700", "0.930"]
    assert texts(whole_page, "td.words") == ["last version not kept", "+6 −1"]
    assert texts(whole_page, "td.numbers") == ["–", "4 → 7.50, 9:15"]
    find(whole_page, "[data-sort='words']").click()
    assert titles(whole_page) == ["ferry", "Fees"]
    made = json.loads(saved(whole_page, downloads, "#export-json", "changes.json"))
    assert (made[0]["added"], made[0]["removed"]) == (6, 1)
    assert (made[0]["old_figures"], made[0]["new_figures"]) == (["4"], ["7.50", "9:15"])
    assert made[1]["added"] is None
    show(whole_page, "changes?q=7.50")
    assert titles(whole_page) == ["ferry"]
    show(whole_page, "decisions")
    assert find(whole_page, "#found").text.startswith("8 decisions")


def test_a_crawl_fills_what_changed(tmp_path: Path, chrome: Chrome) -> None:
    """From two crawls to the view, and the command says how many."""
    made = settings_for(tmp_path)
    old = {**item("one.example", 1), "text": f"{ENGLISH} " * 3 + "The ferry costs 4 crowns."}
    new = {**old, "text": old["text"].replace("costs 4", "now costs 7.50")}
    crawl(made, old)
    crawl(made, new)
    done = dedup("report", "-o", str(tmp_path / "r.html"), "--json", **made)
    assert (done.json["changes"], done.json["decisions"]) == (1, 0)
    open_report(chrome, tmp_path / "r.html")
    show(chrome, "changes")
    assert texts(chrome, "td.numbers") == ["4 → 7.50"]
    assert texts(chrome, "td.words") == ["+3 −1"]


def test_two_journals(whole_page: Chrome, downloads: Path) -> None:
    """How many pages they decided alike, and which otherwise; each kind is a link to its pages."""
    show(whole_page, "comparison")
    cells = dict(zip(texts(whole_page, "#main h3 + div tbody th"), texts(
        whole_page, "#main h3 + div tbody td"), strict=True))  # fmt: skip
    assert cells == {
        "Dropped in this journal only": "3",
        "Dropped in the other journal only": "2",
        "Dropped for another stored page": "1",
        "Dropped for another reason": "1",
        "Dropped alike": "1",
    }
    whole_page.find_element(By.LINK_TEXT, "Dropped in the other journal only").click()
    wait_for(whole_page, "2 pages")
    assert sorted(titles(whole_page)) == ["below", "elsewhere"]
    below = titles(whole_page).index("below")
    sides = [text.split("\n")[0] for text in texts(whole_page, "td.side")]
    assert sides[2 * below :][:2] == [
        "Kept, 0.790: Too little in common", "Duplicate, 0.850: Nearly the same text",
    ]  # fmt: skip
    assert sides[2 * (1 - below)] == "not in this journal"
    made = json.loads(saved(whole_page, downloads, "#export-json", "comparison.json"))
    (one,) = (row for row in made if row["key"].endswith("below"))
    assert (one["kind"], one["outcome"], one["other_outcome"]) == ("only-there", "new", "duplicate")
    show(whole_page, "comparison?q=english")
    assert titles(whole_page) == ["english"]


def test_without_another_journal_there_is_nothing_to_compare(page: Chrome) -> None:
    """The view is not offered, and its address leads to the overview."""
    assert "Two journals" not in texts(page, "#views a")
    show(page, "comparison")
    assert texts(page, "#views a[aria-current]") == ["Overview"]


def test_command_compares_two_journals(tmp_path: Path, chrome: Chrome) -> None:
    """`--against` takes a journal's file or the address of an index."""
    first, second = settings_for(tmp_path / "a"), settings_for(tmp_path / "b")
    crawl(first, item("one.example", 1), item("two.example", 1), item("three.example", 1))
    crawl(second, item("two.example", 1), item("three.example", 1))
    path = tmp_path / "r.html"
    for place in (second["DEDUP_INDEX_URL"], str(tmp_path / "b" / "index.journal.db")):
        done = dedup("report", "-o", str(path), "--against", place, **first)
        assert done.code == 0, done.err
        open_report(chrome, path)
        show(chrome, "comparison")
        assert texts(chrome, "#main h3 + div tbody td") == ["1", "0", "1", "0", "0"]
        assert [text.split() for text in texts(chrome, "table.totals td")][:6] == [
            ["3"], ["2"], ["1"], ["1"], ["2"], ["1"],
        ]  # fmt: skip
    missing = dedup("report", "-o", str(path), "--against", str(tmp_path / "no.db"), **first)
    assert missing.code == 1
    assert "no.db" in missing.err


def test_language_and_colours_are_remembered(page: Chrome, report: Path) -> None:
    """Opened again, the report is as the reader left it."""
    before = find(page, "body").value_of_css_property("background-color")
    find(page, "#language").click()
    find(page, "#scheme").click()
    open_report(page, report)
    assert texts(page, "nav a")[0] == "概览"
    assert find(page, "body").value_of_css_property("background-color") != before
    show(page, "decisions")
    assert texts(page, "td.why")[0] == "正文几乎相同"
    find(page, "#language").click()
    open_report(page, report)
    assert texts(page, "nav a")[0] == "Overview"


def languages(file: str, first: str) -> list[dict[str, str]]:
    """The names and texts of a table of words, in English and in Chinese."""
    text = (ASSETS / file).read_text("utf-8").split(f"const {first} = {{")[1].split("\n};")[0]
    parts = re.split(r"^  (?:en|zh): \{", text, flags=re.M)[1:]
    return [dict(re.findall(r'"?([\w-]+)"?: "((?:[^"\\]|\\.)*)"', part)) for part in parts]


def test_every_reason_is_told_in_plain_words() -> None:
    """Those that docs/stats.md lists, in both languages; not by their names."""
    section = (ROOT / "docs" / "stats.md").read_text("utf-8").split("## Reasons")[1]
    cells = re.findall(r"^\| (`[^|]*) \| (\w+) \|", section, re.M)
    reasons = {name for cell, _ in cells for name in re.findall(r"`([\w-]+)`", cell)}
    reasons -= {"minhash", "simhash"}  # names of methods
    outcomes = {outcome for _, outcome in cells}
    assert "exact-copy" in reasons
    for words in languages("reasons.js", "REASONS"):
        assert set(words) == reasons
        assert not set(words.values()) & reasons
    for words in languages("reasons.js", "OUTCOMES"):
        assert set(words) == outcomes


def test_both_languages_have_the_same_words() -> None:
    """With the same places to fill in; every word that a script uses is there."""
    english, chinese = languages("words.js", "WORDS")
    assert english.keys() == chinese.keys()
    for name, text in english.items():
        assert set(re.findall(r"\{\d\}", text)) == set(re.findall(r"\{\d\}", chinese[name])), name
    used = set()
    for file in ASSETS.glob("*.js"):
        used |= set(re.findall(r'\bword\("([\w-]+)"', file.read_text("utf-8")))
    assert used <= english.keys()


def test_slider_says_what_it_does(page: Chrome) -> None:
    """By arrow keys; its value is given as a sentence, in the language of the page."""
    show(page, "explorer")
    slider = find(page, "#threshold")
    assert slider.accessible_name == "Move the threshold"
    assert slider.get_attribute("aria-valuetext") == "0.800: 5 dropped, 2 kept"
    help_ = find(page, f"#{slider.get_attribute('aria-describedby')}")
    assert help_.text == "Arrow keys move it by 0.005. The threshold in force is 0.8."
    slider.send_keys(*[Keys.ARROW_RIGHT] * 4)
    until(page, lambda _: slider.get_attribute("aria-valuetext") == "0.820: 4 dropped, 3 kept")
    find(page, "#language").click()
    reported = find(page, "#threshold").get_attribute("aria-valuetext")
    assert reported == "0.820：丢弃 4 个，保留 3 个"


def test_judging_is_within_reach_on_a_phone(page: Chrome) -> None:
    """The buttons stay at the lower edge however far the texts are scrolled, large enough for a
    thumb, and hide nothing of the page's end."""
    resize(page, (390, 844))
    try:
        show(page, "review")
        for top in (0, 300, 100_000):
            page.execute_script("window.scrollTo(0, arguments[0])", top)
            for name in ("d", "k", "u"):
                box = page.execute_script(
                    "return document.getElementById(arguments[0]).getBoundingClientRect().toJSON()",
                    f"judge-{name}",
                )
                assert box["top"] > 844 / 2
                assert box["bottom"] <= 844
                assert min(box["width"], box["height"]) >= 44
        end, bar = page.execute_script(
            "return ['.two', '.judge'].map((one) => document.querySelector(one))"
            ".map((one) => one.getBoundingClientRect()).map((box, i) => [box.bottom, box.top][i])"
        )
        assert end <= bar
        find(page, "#judge-k").click()
        assert "2 of" in find(page, "#position").text
        place = page.execute_script("return document.querySelector('.sheet').offsetTop - scrollY")
        assert -10 < place < 844
    finally:
        resize(page, None)


def test_judging_by_keyboard_in_a_filtered_report(page: Chrome, downloads: Path) -> None:
    """Only pairs that fit are asked for; the labels of all are saved."""
    show(page, "review?q=english")
    assert find(page, "#position").text == "1 of 1, 0 judged"
    ActionChains(page).send_keys("k").perform()
    show(page, "review?q=far")
    assert find(page, "#position").text == "1 of 1, 1 judged"
    fill(page, "q", "fa")
    fill(page, "q", "far")
    wait_for(page, "1 of 1", "#position")
    assert page.switch_to.active_element == find(page, "#filter-q")
    page.execute_script("document.activeElement.blur()")
    ActionChains(page).send_keys("d").perform()
    lines = saved(page, downloads, "#export", "pairs.jsonl").decode().splitlines()
    assert [json.loads(line)["label"] for line in lines] == [0, 1]


@pytest.mark.parametrize("view", ["decisions", "clusters", "changes", "comparison", "review"])
def test_keyboard_alone_reaches_everything(whole_page: Chrome, view: str) -> None:
    """The tab key stops at every control that can be seen, and none is hidden behind another."""
    show(whole_page, view)
    whole_page.execute_script("document.querySelector('.filters details').open = true")
    wanted = whole_page.execute_script(
        "return [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]"
        ".filter((one) => one.checkVisibility() && !one.disabled).length"
    )
    whole_page.execute_script(
        "const reached = window.reached = new Set();"
        "document.addEventListener('focusin', ({target}) =>"
        " target.hasAttribute('tabindex') || reached.add(target));"
    )
    ActionChains(whole_page).send_keys(Keys.TAB * (wanted + 30)).perform()
    assert whole_page.execute_script("return window.reached.size") >= wanted > 10
