"""Reading the content files of the sample site."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.sample_site import SamplePage, SampleSite
from crawler.sample_site.outlets import OUTLETS
from crawler.sample_site.stories import load_stories, set_figures


def write_content(folder: Path, story: str) -> Path:
    """A content folder in which one outlet has one story more than nothing."""
    for outlet in OUTLETS:
        (folder / f"{outlet.name}.txt").write_text("", encoding="utf-8")
    (folder / "gazette.txt").write_text(story, encoding="utf-8")
    return folder


GOOD = "@ /a\nkind: original\nsection: local\ndate: 2026-03-05 08:10\ntitle: T 1\n\nBody 2.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("kind", "kindd"), "unknown field 'kindd'"),
        (GOOD.replace("original", "orignal"), "unknown kind 'orignal'"),
        (GOOD.replace("section: local", "section: nowhere"), "unknown section 'nowhere'"),
        (GOOD.replace("2026-03-05", "5 March"), "write the date as"),
        (GOOD.replace("title: T 1\n", ""), "add a line `title: ...`"),
        (GOOD.replace("title:", "via: post\ntitle:"), "unknown via 'post'"),
        (GOOD.replace("Body 2.", ""), "at least one paragraph"),
        (GOOD + GOOD, "used twice"),
        (GOOD.replace("original", "verbatim"), "needs a line `of: outlet/path`"),
        (GOOD.replace("original", "cut\nof: gazette/b"), "no story 'gazette/b'"),
        (GOOD + GOOD.replace("/a", "/b").replace("original", "cut\nof: gazette/a"), "no paragraph"),
        (
            GOOD + "@ /b\nkind: bulletin\nlike: gazette/a\nfigures: 3\nsection: local\n"
            "date: 2026-03-05 08:10\n\n",
            "2 numerals, `figures:` has 1",
        ),
    ],
)
def test_faults_of_content_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    """A mistake in a content file gives an error with file, story and fix."""
    with pytest.raises(ValueError, match=message) as caught:
        load_stories(write_content(tmp_path, text))
    assert "content/gazette.txt, story /" in str(caught.value)


def test_a_content_file_without_fault_is_read(tmp_path: Path) -> None:
    """A story and a copy of it are read with all their fields."""
    copy = "@ /b\nkind: note\nof: gazette/a\nsection: local\ndate: 2026-03-06 08:10\n\nFrom: \n"
    story, reprint = load_stories(write_content(tmp_path, GOOD + copy))
    assert (story.id, story.title, story.paragraphs) == ("gazette/a", "T 1", ("Body 2.",))
    assert story.published.isoformat() == "2026-03-05T08:10:00+08:00"
    assert (reprint.title, reprint.paragraphs) == ("T 1", ("From:Body 2.",))
    assert reprint.is_copy
    assert reprint.source == story.id


def test_figures_are_set_in_reading_order() -> None:
    """Numerals, decimals included, are replaced one after the other across the texts."""
    assert set_figures(("1 and 2.5", "then 3"), ["7", "8.25", "9"]) == ("7 and 8.25", "then 9")


def test_manifest_needs_no_server() -> None:
    """Pages and expectations can be read before the site is served."""
    site = SampleSite()
    assert all(isinstance(page, SamplePage) for page in site.pages())
    assert sum(page.stored for page in site.pages()) > 50
    assert site.start_urls() == []
    assert site.urls == {}
