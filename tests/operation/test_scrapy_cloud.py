"""The files on the page of Scrapy Cloud, as far as they can be checked without it."""

from __future__ import annotations

import re

import yaml

from tests.docblocks import ROOT

FOLDER = ROOT / "docs" / "examples" / "scrapy-cloud"


def test_files_fit_together() -> None:
    """The configuration names the list of requirements, with the Scrapy that the plugin needs."""
    config = yaml.safe_load((FOLDER / "scrapinghub.yml").read_text(encoding="utf-8"))
    listed = (FOLDER / config["requirements"]["file"]).read_text(encoding="utf-8").split()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (name,) = re.findall(r'^name = "([^"]+)"', project, re.M)
    (scrapy,) = re.findall(r'^    "(scrapy>=[^"]+)"', project, re.M)
    assert listed == [name, scrapy]
