"""The files that GitHub and Read the Docs read are valid, and call what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.docblocks import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("schema", "files"),
    [("github-workflows", WORKFLOWS), ("readthedocs", [ROOT / ".readthedocs.yaml"])],
    ids=["github-workflows", "readthedocs"],
)
def test_follows_the_published_schema(schema: str, files: Sequence[Path]) -> None:
    """Each file is valid by the schema of the service that reads it."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    subprocess.run([*command, *map(str, files)], check=True)


def test_matrix_names_sessions_and_pythons_that_exist() -> None:
    """Each job runs a session of noxfile.py under its Python, and each session has a job."""
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    read = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    jobs = read["jobs"]["matrix"]["strategy"]["matrix"]["include"]
    code = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    listed = re.search(r"python=(\[.*?\])", code)
    assert listed
    sessions = {f"tests-{version}": version for version in yaml.safe_load(listed[1])}
    for python, rest in re.findall(r'^@nox.session\(python="([\d.]+)"(.*\ndef \w+)', code, re.M):
        name = re.search(r'name="([^"]+)"', rest) or re.search(r"def (\w+)", rest)
        assert name
        sessions[name[1]] = python
    assert {job["session"]: job["python"] for job in jobs} == sessions


def test_commands_are_those_of_a_checkout() -> None:
    """The workflows call ``.ci/run`` and targets of the Makefile, as CONTRIBUTING.md describes."""
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for file in WORKFLOWS:
        jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
        for step in (step for job in jobs for step in job["steps"] if "run" in step):
            words = step["run"].split()
            assert words == [".ci/run"] or (
                words[0] == "make" and re.search(rf"^{words[1]}:", targets, re.M)
            ), step
