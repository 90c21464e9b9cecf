"""The list of decisions: filters, order, files, and the command that restores."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.commands.running import crawl, dedup, item, settings_for
from tests.report.driving import (
    fill,
    find,
    open_filters,
    pick,
    saved,
    show,
    texts,
    titles,
    wait_for,
)
from tests.report.opening import open_report
from tests.report.samples import DROPS, START
from tests.texts import article

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def test_filters_narrow_the_list(page: Chrome) -> None:
    """By site, site of the stored page, reason, outcome and similarity; the address has them."""
    show(page, "decisions")
    assert find(page, "#found").text == "8 decisions: 6 dropped, 2 kept"
    open_filters(page)
    fill(page, "site", "copy.example")
    wait_for(page, "7 decisions")
    fill(page, "original", "second")
    wait_for(page, "1 decisions")
    assert titles(page) == ["english"]
    assert "original=second" in page.current_url
    find(page, "#clear").click()
    wait_for(page, "8 decisions")
    open_filters(page)
    pick(page, "filter-reason", "exact-copy")
    wait_for(page, "1 decisions")
    assert titles(page) == ["exact"]
    pick(page, "filter-reason", "")
    pick(page, "filter-outcome", "kept")
    wait_for(page, "2 decisions: 0 dropped")
    assert titles(page) == ["below", "figures"]
    fill(page, "min", "0.9")
    wait_for(page, "1 decisions")
    assert titles(page) == ["figures"]


def test_filters_by_spider_crawl_and_date(whole_page: Chrome) -> None:
    """What a spider, a crawl or a span of time did; the fields show the time of the reader."""
    show(whole_page, "changes")
    assert titles(whole_page) == ["Fees", "ferry"]
    open_filters(whole_page)
    pick(whole_page, "filter-spider", "press")
    wait_for(whole_page, "1 changes of 1 pages")
    pick(whole_page, "filter-spider", "")
    pick(whole_page, "filter-crawl", "monday")
    wait_for(whole_page, "1 changes of 1 pages")
    assert titles(whole_page) == ["ferry"]
    show(whole_page, f"changes?since={START + 8000}")
    assert titles(whole_page) == ["Fees"]
    field = whole_page.execute_script("return document.getElementById('filter-since').value")
    assert field == whole_page.execute_script(
        "const d = new Date(arguments[0] * 1000); d.setMinutes(d.getMinutes() -"
        "d.getTimezoneOffset()); return d.toISOString().slice(0, 16)", START + 8000,
    )  # fmt: skip
    whole_page.execute_script(
        "const f = document.getElementById('filter-since'); f.value = '';"
        "f.dispatchEvent(new Event('change'));"
        "const u = document.getElementById('filter-until'); u.value = arguments[0];"
        "u.dispatchEvent(new Event('change'))", field,
    )  # fmt: skip
    wait_for(whole_page, "1 changes of 1 pages")
    assert titles(whole_page) == ["ferry"]


def test_filters_go_from_view_to_view(page: Chrome) -> None:
    """The links of the views take them along, and back again shows them."""
    show(page, "decisions?original=second.example")
    find(page, "#views a[data-view='clusters']").click()
    wait_for(page, "1 clusters, 1 dropped pages")
    find(page, "#views a[data-view='explorer']").click()
    wait_for(page, "1 dropped, 0 kept of 1", "#answer")
    find(page, "#views a[data-view='review']").click()
    wait_for(page, "1 of 1", "#position")
    page.back()
    wait_for(page, "1 dropped, 0 kept of 1", "#answer")


def test_search_reads_addresses_titles_and_on_request_texts(page: Chrome) -> None:
    """Words of a text are found where the reader wants it, those of the stored page too."""
    show(page, "decisions")
    fill(page, "q", "TITLE FAR")
    wait_for(page, "1 decisions")
    assert titles(page) == ["far"]
    fill(page, "q", "boats")
    wait_for(page, "0 decisions")
    find(page, "#filter-texts").click()
    wait_for(page, "1 decisions")
    assert titles(page) == ["english"]
    fill(page, "q", "清晨")
    wait_for(page, "6 decisions")


def test_lists_are_sorted_by_their_heads_and_by_a_field(page: Chrome) -> None:
    """By keyboard: a head sorts, and turns round; the focus stays; screen readers hear it."""
    show(page, "decisions")
    head = find(page, "[data-sort='similarity']")
    head.send_keys(Keys.ENTER)
    assert titles(page) == [
        "exact", "far", "figures", "english", "'yes'</script>", "near", "below", "empty",
    ]  # fmt: skip
    assert texts(page, "th[aria-sort='descending']") == ["Similarity ▾"]
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert titles(page)[:2] == ["below", "near"]
    assert titles(page)[-1] == "empty"
    assert texts(page, "th[aria-sort='ascending']") == ["Similarity ▴"]
    pick(page, "sort", "reason")
    assert texts(page, "td.why") == sorted(texts(page, "td.why"))
    assert "sort=reason" in page.current_url


def test_files_hold_what_is_shown(page: Chrome, downloads: Path) -> None:
    """CSV and JSON of the filtered decisions in the order of the list."""
    show(page, "decisions?outcome=dropped&site=copy.example&sort=-similarity")
    made = json.loads(saved(page, downloads, "#export-json", "decisions.json"))
    assert [row["key"].split("/")[-1] for row in made] == [
        "exact",
        "far",
        "english",
        "near",
        "empty",
    ]
    first = made[0]
    assert first == {
        "key": "https://copy.example/exact", "host": "copy.example", "title": "Title exact",
        "time": "2023-11-14T22:14:20Z", "outcome": "duplicate", "reason": "exact-copy",
        "stored": "https://first.example/1", "stored_host": "first.example", "similarity": 1,
        "spider": "news", "crawl": "monday",
    }  # fmt: skip
    text = saved(page, downloads, "#export-csv", "decisions.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows == [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in made
    ]


def test_csv_keeps_quotes_and_lines(page: Chrome, downloads: Path) -> None:
    """Whatever a page calls itself, one row is one decision."""
    show(page, "decisions?q=javascript")
    text = saved(page, downloads, "#export-csv", "decisions.csv").decode()
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["key"], row["title"]) == (DROPS[5].key, DROPS[5].title)


def test_bars_cells_and_rows_lead_to_their_decisions(page: Chrome) -> None:
    """Of both charts, the matrix, the reasons and the sites."""
    for link, reported in (
        ("main svg a", "8 decisions"),
        ("table.matrix a[aria-label='1: copy.example repeats second.example']", "1 decisions"),
        ("a[href='#decisions?reason=exact-copy']", "1 decisions"),
        ("table.sites a[href='#decisions?site=copy.example']", "7 decisions"),
    ):
        show(page, "overview")
        page.execute_script("arguments[0].scrollIntoView({block: 'center'})", find(page, link))
        find(page, link).click()
        wait_for(page, reported)


def test_every_bar_has_the_decisions_that_it_counts(page: Chrome) -> None:
    """The last bar holds similarity 1 as well."""
    show(page, "explorer")
    bars = [
        (bar.accessible_name, str(bar.get_dom_attribute("href"))[1:])
        for bar in page.find_elements(By.CSS_SELECTOR, "main svg a")
    ]
    assert bars[-1][0] == "0.98–1.00: 1 Dropped, 0 Stored"
    for name, address in bars:
        dropped, kept = (int(part.split()[0]) for part in name.split(": ")[1].split(", "))
        show(page, address)
        reported = f"{dropped + kept} decisions: {dropped} dropped, {kept} kept"
        assert find(page, "#found").text == reported


def test_charts_are_one_stop_of_the_tab_key(page: Chrome) -> None:
    """Arrow keys go from bar to bar and from cell to cell; enter follows."""
    show(page, "explorer")
    bars = page.find_elements(By.CSS_SELECTOR, "main svg a")
    stops = [bar.get_attribute("tabindex") for bar in bars]
    assert stops == ["0", *["-1"] * (len(bars) - 1)]
    page.execute_script("arguments[0].focus()", bars[0])
    ActionChains(page).send_keys(Keys.END, Keys.ARROW_LEFT).perform()
    assert page.switch_to.active_element == bars[-2]
    ActionChains(page).send_keys(Keys.ENTER).perform()
    wait_for(page, "1 decisions")


@pytest.fixture
def crawled(tmp_path: Path, chrome: Chrome) -> Iterator[dict[str, Any]]:
    """A crawl with four drops on two sites, and its report in the browser."""
    made = settings_for(tmp_path)
    crawl(
        made,
        *(item("one.example", n) for n in (1, 2)),
        item("two.example", 1),
        item("two.example", 2, text=article(2)[8:]),
        item("three.example", 1, title="It's $(here) 新"),
        item("three.example", 2),
    )
    path = tmp_path / "report.html"
    assert dedup("report", "-o", str(path), **made).code == 0
    open_report(chrome, path)
    yield made
    assert chrome.get_log("browser") == []
    chrome.execute_script("localStorage.clear()")


def restored(command: str, out: Path, settings: dict[str, Any], *more: str) -> list[str]:
    """Type a command of the report into a shell; the keys of the pages that came back."""
    program, name, sub, *words = shlex.split(command)
    assert (program, name, sub, *words[:2]) == (
        "scrapy",
        "dedup",
        "restore",
        "-o",
        "restored.jsonl",
    )
    out.unlink(missing_ok=True)
    done = dedup(sub, "-o", str(out), *words[2:], *more, "--no-index", **settings)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return sorted(row["url"].removeprefix("https://") for row in rows)


def command_for(page: Chrome, view: str) -> str:
    """The command that the report gives for what is shown."""
    show(page, view)
    find(page, "#restore-these").click()
    return str(find(page, "#command").get_attribute("value"))


def test_command_restores_what_is_shown(
    crawled: dict[str, Any], chrome: Chrome, tmp_path: Path
) -> None:
    """Filters that the command has become its options; what was dropped later is left out."""
    later = item("two.example", 1, title="later")
    crawl(crawled, {**later, "url": "https://two.example/later"})
    out = tmp_path / "restored.jsonl"
    command = command_for(chrome, "decisions?site=two.example")
    assert "--host=two.example" in command
    assert "the 2 dropped pages" in find(chrome, "#restore p").text
    until = command.split("--until=")[1]
    # The report is rounded to the second, and the crawl above may be in the same one.
    assert until.endswith("Z")
    found = restored(command, out, crawled)
    assert set(found) - {"two.example/later"} == {"two.example/1", "two.example/2"}
    command = command_for(chrome, "decisions?site=example&reason=exact-copy")
    assert "--reason=exact-copy" in command
    found = restored(command, out, crawled)
    assert set(found) - {"two.example/later"} == {
        "two.example/1",
        "three.example/1",
        "three.example/2",
    }


def test_command_with_a_file_restores_any_choice(
    crawled: dict[str, Any],
    chrome: Chrome,
    tmp_path: Path,
    downloads: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search is no option of the command, so that it reads the exported decisions."""
    command = command_for(chrome, "decisions?q=It's")
    assert "--keys=decisions.json" in command
    assert "First save these decisions as JSON" in find(chrome, "#restore p").text
    monkeypatch.chdir(tmp_path)
    data = saved(chrome, downloads, "#export-json", "decisions.json")
    Path("decisions.json").write_bytes(data)
    assert restored(command, tmp_path / "restored.jsonl", crawled) == ["three.example/1"]


def test_nothing_of_a_page_gets_into_the_shell(chrome: Chrome, tmp_path: Path) -> None:
    """A name with quotes and orders to the shell is one word of the command."""
    made = {**settings_for(tmp_path), "DEDUP_CRAWL_ID": "it's $(touch x); `y`"}
    crawl(made, item("one.example", 1), item("two.example", 1))
    path = tmp_path / "report.html"
    assert dedup("report", "-o", str(path), **made).code == 0
    open_report(chrome, path)
    show(chrome, "decisions")
    open_filters(chrome)
    pick(chrome, "filter-crawl", made["DEDUP_CRAWL_ID"])
    find(chrome, "#restore-these").click()
    command = str(find(chrome, "#command").get_attribute("value"))
    assert restored(command, tmp_path / "restored.jsonl", made) == ["two.example/1"]
    assert f"--crawl={made['DEDUP_CRAWL_ID']}" in shlex.split(command)


def test_command_names_the_journal_that_the_report_was_told(tmp_path: Path, chrome: Chrome) -> None:
    """A report of another journal than the project's is restored from that one."""
    journal = tmp_path / "batch journal.db"
    made = {**settings_for(tmp_path), "DEDUP_JOURNAL": str(journal)}
    crawl(made, item("one.example", 1), item("two.example", 1))
    path = tmp_path / "report.html"
    done = dedup("report", "-o", str(path), "-s", f"DEDUP_JOURNAL={journal}")
    assert done.code == 0, done.err
    open_report(chrome, path)
    command = command_for(chrome, "decisions")
    out = tmp_path / "restored.jsonl"
    assert restored(command, out, {}) == ["two.example/1"]
