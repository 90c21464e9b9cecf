"""The report in a real browser, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from dedup_middleware.base.options import Options
from dedup_middleware.evaluation.corpus import read_pairs
from dedup_middleware.journal.entries import Body
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.report.htmlreport import collect, write
from tests.report.driving import CONTROLS, VIEWS, find, is_saved, show, texts, until
from tests.report.opening import open_report
from tests.report.samples import COPY_TEXT, HOSTILE, START, STORED_TEXT, drop

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def move(page: Chrome, threshold: float) -> str:
    """Move the threshold; the sentence that answers is returned."""
    page.execute_async_script(
        "const s = document.getElementById('threshold'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input')); requestAnimationFrame(() => arguments[1]())",
        threshold,
    )
    return find(page, "#answer").text


def test_overview_counts_and_names_sites(page: Chrome) -> None:
    """Seen, stored and dropped are the sums of the hours; the matrix shows copies by host."""
    assert texts(page, "dl.figures dd")[:4] == ["9", "3", "6", "66.7%"]
    head = texts(page, "table.matrix thead th")
    assert {"copy.example", "first.example", "second.example"} <= set(head)
    rows = page.find_elements(By.CSS_SELECTOR, "table.matrix tbody tr")
    cells = {r.find_element(By.TAG_NAME, "th").text: r for r in rows}["copy.example"]
    counts = dict(
        zip(head[1:], (c.text for c in cells.find_elements(By.TAG_NAME, "td")), strict=True)
    )
    assert counts["first.example"] == "3"
    assert counts["second.example"] == "1"


def test_moving_the_threshold_says_what_would_become_of_the_pages(page: Chrome) -> None:
    """Near-duplicates follow the line; exact copies and pages with other figures do not."""
    show(page, "explorer")
    assert "5 dropped, 2 kept of 7" in find(page, "#answer").text
    assert "As now" in find(page, "#answer").text
    higher = move(page, 0.95)
    assert "2 dropped, 5 kept of 7" in higher
    assert "3 more would be kept" in higher
    lower = move(page, 0.5)
    assert "6 dropped, 1 kept of 7" in lower
    assert "1 more would be dropped" in lower
    assert texts(page, "#below td:nth-child(3)") == ["Other numbers or names"]


def test_pages_kept_above_the_line_stay_kept(chrome: Chrome, tmp_path: Path) -> None:
    """A short page needs more than the threshold: at the one in force nothing changes."""
    kept = drop("short", 0.85, outcome="new", reason="too-little-in-common", shared=20)
    journal = SQLiteJournal(tmp_path / "short.db", max_bytes=10_000_000)
    journal.open(create=True)
    with journal:
        journal.append([kept, drop("other", 0.9)], [], {})
        write(collect(journal, Options(), now=0.0), tmp_path / "short.html")
    open_report(chrome, tmp_path / "short.html")
    show(chrome, "explorer")
    assert "1 dropped, 1 kept of 2" in find(chrome, "#answer").text
    assert "As now" in find(chrome, "#answer").text
    assert texts(chrome, "#below td:first-child") == ["0.850"]


@pytest.mark.parametrize("width", [390, 1200])
def test_letters_of_charts_are_whole(chrome: Chrome, tmp_path: Path, width: int) -> None:
    """No number sticks out to the left or overlaps the axis; one hour is named once."""
    activity = {(START, "a.example", name): 1_234_567 for name in ("seen", "stored")}
    journal = SQLiteJournal(tmp_path / "hour.db", max_bytes=10_000_000)
    journal.open(create=True)
    with journal:
        journal.append([drop("a", 0.9)], [], activity)
        write(collect(journal, Options(), now=0.0), tmp_path / "hour.html")
    chrome.set_window_size(width, 900)
    open_report(chrome, tmp_path / "hour.html")
    for view, count in (("overview", 3), ("explorer", 7)):
        show(chrome, view)
        letters = chrome.find_elements(By.CSS_SELECTOR, "main svg text")
        assert len(letters) == count
        chart = find(chrome, "main svg").rect
        for one in letters:
            assert one.rect["x"] >= chart["x"] - 1
            assert one.rect["x"] + one.rect["width"] <= chart["x"] + chart["width"] + 1
            assert one.rect["y"] + one.rect["height"] <= chart["y"] + chart["height"] + 2
    chrome.set_window_size(1200, 1000)


def test_clusters_are_searched_and_opened(page: Chrome) -> None:
    """The largest comes first; a search leaves matching ones; a cluster shows its pages."""
    show(page, "clusters")
    assert texts(page, ".cluster .count") == ["4", "1"]
    find(page, "#filter-q").send_keys("harbour")
    until(page, lambda d: "1 clusters" in find(d, "#found").text)
    find(page, ".cluster summary").click()
    until(page, lambda d: texts(d, ".cluster tbody td.page"))
    assert "https://copy.example/english" in texts(page, ".cluster tbody td.page")[0]


def test_pair_marks_chinese_words(page: Chrome) -> None:
    """Side by side, the one word that differs is marked in both, and the rest is not."""
    show(page, "pair/0")
    assert texts(page, "del") == ["清晨"]
    assert texts(page, "ins") == ["傍晚"]
    assert texts(page, ".sheet .text") == [STORED_TEXT, COPY_TEXT]
    assert find(page, "#places").text == "Places that differ: 1"
    assert texts(page, "dl.figures dd")[-2:] == ["news", "monday"]


def test_words_of_pages_are_text_only(page: Chrome) -> None:
    """Markup in a title runs nowhere, and an address that is a script is no link."""
    for view in (*VIEWS, "pair/5"):
        show(page, view)
        assert page.execute_script("return document.body.dataset.broken") is None
        assert not page.find_elements(By.CSS_SELECTOR, "a[href^='javascript']")
    show(page, "pair/5")
    assert HOSTILE in texts(page, "h2")


def test_labels_of_a_person_are_pairs_for_the_evaluation(page: Chrome, downloads: Path) -> None:
    """Judged by keys alone, nearest the line first; the exported file is read as labelled pairs."""
    show(page, "review")
    ActionChains(page).send_keys("d").perform()
    ActionChains(page).send_keys("k").perform()
    ActionChains(page).send_keys("u").perform()
    assert "3 judged" in find(page, "#position").text
    find(page, "#export").click()
    file = downloads / "pairs.jsonl"
    until(page, lambda _: is_saved(file))
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["label"] for line in lines] == [1, 0, None]
    assert {lines[0]["a_text"], lines[0]["b_text"]} == {COPY_TEXT, STORED_TEXT}
    pairs = list(read_pairs(file))
    assert [pair.label for pair in pairs] == [True, False]
    file.unlink()


def test_labels_outlive_the_page(page: Chrome, report: Path) -> None:
    """Opened again, the report still knows what was judged."""
    show(page, "review")
    find(page, "#judge-d").click()
    until(page, lambda d: "1 judged" in find(d, "#position").text)
    open_report(page, report)
    show(page, "review")
    assert "1 judged" in find(page, "#position").text


def test_both_languages(page: Chrome) -> None:
    """One button turns all words into Chinese, and back."""
    find(page, "#language").click()
    assert texts(page, "nav a") == ["概览", "判定", "阈值", "簇", "变化", "评审"]
    assert page.execute_script("return document.documentElement.lang") == "zh"
    find(page, "#language").click()
    assert texts(page, "nav a") == [
        "Overview", "Decisions", "Threshold", "Clusters", "What changed", "Review",
    ]  # fmt: skip


def test_light_and_dark(page: Chrome) -> None:
    """The button changes the paper's colour."""
    before = find(page, "body").value_of_css_property("background-color")
    find(page, "#scheme").click()
    assert find(page, "body").value_of_css_property("background-color") != before


def test_everything_is_reached_by_keyboard(page: Chrome) -> None:
    """The first stop skips to the content, the next ones are the views, each with a name."""
    names = []
    for _ in range(9):
        ActionChains(page).send_keys(Keys.TAB).perform()
        names.append(page.switch_to.active_element.accessible_name)
    assert names == [
        "Skip to the content", "Overview", "Decisions", "Threshold", "Clusters", "What changed",
        "Review", "中文", "Light or dark",
    ]  # fmt: skip


def test_skipping_to_the_content_stays_in_the_view(page: Chrome) -> None:
    """The focus goes to the content, and the address is still that of the view."""
    show(page, "clusters")
    page.execute_script("document.querySelector('.skip').focus()")
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert page.switch_to.active_element == find(page, "main")
    find(page, "#language").click()
    assert texts(page, "#views a[aria-current]") == ["簇"]


def test_every_control_has_a_name_for_screen_readers(page: Chrome) -> None:
    """Buttons, fields, links and pictures of all views have an accessible name."""
    for view in VIEWS:
        show(page, view)
        for element in page.find_elements(By.CSS_SELECTOR, CONTROLS):
            if element.is_displayed():
                assert element.accessible_name, element.get_attribute("outerHTML")


@pytest.mark.parametrize("width", [390, 1200])
def test_no_view_is_wider_than_the_screen(page: Chrome, width: int) -> None:
    """On a phone as on a desktop nothing has to be pushed sideways but tables in their frames."""
    page.set_window_size(width, 900)
    for view in VIEWS:
        show(page, view)
        wide, screen = page.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= screen
    page.set_window_size(1200, 1000)


def test_two_hundred_thousand_decisions(chrome: Chrome, tmp_path: Path) -> None:
    """They open in one file, in less than two seconds of work, and all views work."""
    many = [
        drop(
            f"{i:x}-{i * 7919 % 200_003:x}",
            0.5 + (i % 500) / 1000,
            time=START + 9.0 * i,
            match=f"https://first.example/{i % 9000}",
            body=Body(f"{COPY_TEXT}{i % 50}"),
        )
        for i in range(200_000)
    ]
    hours = range(START, START + 9 * 200_000, 3600)
    activity = {(hour, f"site{i}.example", "seen"): 9 for hour in hours for i in range(300)}
    path = tmp_path / "large.html"
    journal = SQLiteJournal(tmp_path / "large.db", max_bytes=1_000_000_000)
    journal.open(create=True)
    with journal:
        journal.append(many, [], activity)
        write(collect(journal, Options(), now=0.0), path)
    assert opening(chrome, path) < 2
    show(chrome, "explorer")
    assert "of 200,000" in move(chrome, 0.9)
    show(chrome, "decisions?min=0.99&sort=-similarity")
    assert find(chrome, "#found").text.startswith("4,000 decisions")
    assert len(chrome.find_elements(By.CSS_SELECTOR, "table.list tbody tr")) == 100
    show(chrome, "clusters")
    assert len(chrome.find_elements(By.CSS_SELECTOR, ".cluster")) == 40
    assert chrome.get_log("browser") == []


def opening(chrome: Chrome, path: Path) -> float:
    """Seconds of processor time of the page from the address to the first view.

    Other programs that use the machine don't add to it.
    """
    chrome.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    open_report(chrome, path)
    metrics = chrome.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    chrome.execute_cdp_cmd("Performance.disable", {})
    spent = {one["name"]: one["value"] for one in metrics}["TaskDuration"]
    assert spent > 0
    return float(spent)
