"""The tests under each Python and Scrapy that is supported: ``make test-matrix``.

One session each; a Python that is missing here is skipped. ``nox -s lowest`` runs one of them. The
tests are those of ``make check``, with as few examples: they need no server, browser or Java.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import nox

# uv installs in a minute what pip takes several for: pip builds PySpark anew in each session.
nox.options.default_venv_backend = "uv|venv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
# Editable installations have no compiled kernels, so their build needs nothing for them.
os.environ.setdefault("DEDUP_SHIP_KERNELS", "0")


def run_tests(session: nox.Session) -> None:
    """Compile the kernels once, not in each process that runs tests; then the tests."""
    quick = re.search("^QUICK := (.+)", Path("Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert quick, "the Makefile names the marks of make check"
    session.run("scrapy", "dedup", "warmup", env={"DEDUP_COMPILE": "1"})
    tests = ("python", "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal")
    session.run(*tests, "--fewer-examples", "-m", quick[1], *session.posargs)


@nox.session(python=["3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def tests(session: nox.Session) -> None:
    """The newest release of every dependency."""
    session.install("--editable", ".[crawler,dev]")
    run_tests(session)


@nox.session(python="3.12", name="scrapy-master")
def scrapy_master(session: nox.Session) -> None:
    """Scrapy as it will be released next."""
    master = "scrapy @ https://github.com/scrapy/scrapy/archive/refs/heads/master.zip"
    session.install("--editable", ".[crawler,dev]", master)
    run_tests(session)


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """The lowest version of every dependency that pyproject.toml allows."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    bounds = [
        re.sub(">=", "==", one.partition(";")[0].strip())
        for one in project["dependencies"]
        if "python_version" not in one
    ]
    # itemadapter 0.11 reads what newer versions of pydantic warn of.
    session.install("--editable", ".[crawler,dev]", *bounds, "pydantic<2.11")
    run_tests(session)


@nox.session(python="3.11", name="old-pip", venv_backend="venv")
def old_pip(session: nox.Session) -> None:
    """The pip of Python 3.11's own venv, which leaves out extras spelt in another way."""
    session.run("python", "-m", "pip", "install", "--quiet", "pip==23.2.1")
    session.run("python", "-m", "pip", "install", "--quiet", ".")
    session.run("python", "-c", "import trafilatura, lxml_html_clean")
    session.run("scrapy", "dedup", "--help", silent=True)


@nox.session(default=False, venv_backend="venv")
def operation(session: nox.Session) -> None:
    """What docs/ shows of other products, with these products.

    Prometheus and Chromium must be on PATH (Debian: prometheus, chromium).
    """
    session.install("--editable", ".[crawler,dev]")
    session.install(
        "kubernetes-validate>=1.30",
        "scrapy-playwright>=0.0.48",
        "scrapy-redis>=0.9.1",
        "scrapyd>=1.6",
        "scrapyd-client>=2.0.3",
    )
    # pywb needs other releases of packages than Scrapy. Not in create_tmp(), which would put the
    # folders of the tests into this project, whose settings Scrapy would then use.
    pywb = Path(session.virtualenv.location).resolve() / "pywb"
    session.run("python", "-m", "venv", str(pywb))
    session.run(str(pywb / "bin" / "pip"), "install", "--quiet", "pywb>=2.8", external=True)
    folders = (session.bin, os.environ["PATH"], str(pywb / "bin"))
    session.env["PATH"] = os.pathsep.join(folders)
    session.env["TEST_OPERATION"] = "1"
    session.run("python", "-m", "pytest", "-q", "tests/operation", *session.posargs)
