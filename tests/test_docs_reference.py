"""What the documentation lists is what the code has."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

import dedup_middleware
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import setting_name
from dedup_middleware.evaluation import __main__ as evaluation
from dedup_middleware.journal import access
from dedup_middleware.methods import baselines, content
from dedup_middleware.model.documents import Verdict, as_dict
from dedup_middleware.plugin import requestmeta, signals
from docs.picture import VIEWS
from docs.reference import render
from research import __main__ as research
from tests.docblocks import ROOT, pages

PACKAGE = ROOT / "dedup_middleware"
DOCS = ROOT / "docs"
OF_THE_PROJECT = {"crawler", "dev", "bench", "docs"}  # extras that only a checkout needs


def text_of(page: str) -> str:
    """The text of a page of the documentation."""
    return (DOCS / page).read_text(encoding="utf-8")


def nodes(word: str) -> Iterator[tuple[Path, ast.AST]]:
    """The syntax of each file of the package that has a word somewhere, with the file."""
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if word in source:
            yield from ((path, node) for node in ast.walk(ast.parse(source)))


def test_settings_reference_is_up_to_date() -> None:
    """docs/settings.md is what docs/reference.py writes of the options of today."""
    assert text_of("settings.md") == render()


def test_every_stat_is_documented_and_no_other() -> None:
    """Each counter in the code has its line in docs/stats.md, each line its counter."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    counted = {f"dedup/{name}" for name in re.findall(r"count\(\s*\"([a-z/-]+)\"", code)}
    outcomes = {
        f"dedup/{value}"
        for name, value in vars(dedup_middleware.model.documents).items()
        if name in {"NEW", "DUPLICATE", "REVISIT", "EMPTY", "UNCHECKED"}
    }
    listed = set(re.findall(r"^\| `(dedup/[a-z/-]+)`", text_of("stats.md"), re.M))
    assert listed == counted | outcomes


def test_every_reason_is_documented() -> None:
    """The reasons of the methods are listed where the stats of reasons are explained."""
    reasons = {
        value
        for module in (content, baselines)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    assert reasons
    for reason in reasons:
        assert f"`{reason}`" in text_of("stats.md")


def test_item_fields_are_documented() -> None:
    """docs/items.md lists each setting that names a field, with the name it has by default."""
    listed = dict(re.findall(r"^\| `(\w+)` \| `(DEDUP_\w+)` \|", text_of("items.md"), re.M))
    fields = {
        field.default: setting_name(field.name)
        for field in attrs.fields(Options)
        if field.name.endswith("_field")
    }
    assert listed == fields


def test_keys_of_a_verdict_are_documented() -> None:
    """docs/items.md lists the keys that a marked item gets, and no other."""
    section = text_of("items.md").split("## The verdict")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == set(
        as_dict(Verdict("k", "new", "r"))
    )


def test_exceptions_are_documented() -> None:
    """docs/items.md lists the public exceptions of the package."""
    section = text_of("items.md").split("## Exceptions")[1].split("\n## ")[0]
    public = {getattr(dedup_middleware, name): name for name in dedup_middleware.__all__}
    errors = {name for one, name in public.items() if issubclass(one, Exception)}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == errors


def test_request_meta_is_documented() -> None:
    """docs/items.md lists the keys that are read; one module alone reads the meta of a request."""
    section = text_of("items.md").split("## Request meta")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == {requestmeta.SKIP, requestmeta.KEY}
    readers = {
        path.name
        for path, node in nodes("meta")
        if isinstance(node, ast.Attribute) and node.attr == "meta"
    }
    assert readers == {"requestmeta.py"}


def test_signals_are_documented() -> None:
    """docs/signals.md lists each signal with the arguments that it is sent with, and no other."""
    rows = re.findall(r"^\| `(dedup_\w+)` \|[^|]*\| (.*) \|$", text_of("signals.md"), re.M)
    listed = {name: set(re.findall(r"`(\w+)`", arguments)) for name, arguments in rows}
    sent: dict[str, set[str | None]] = {}
    send = "send_catch_log_async"
    for _, node in nodes(send):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(send):
            sent[ast.unparse(node.args[0])] = {word.arg for word in node.keywords}
    assert listed == sent
    assert set(sent) == {name for name in vars(signals) if name.startswith("dedup_")}
    explained = set(re.findall(r"^\| `(\w+)` \| [^|]*\|$", text_of("signals.md"), re.M))
    assert explained == set.union(*listed.values())


def test_journal_is_documented() -> None:
    """docs/journal.md lists the methods, the filters, and the attributes of their results."""
    page = text_of("journal.md")

    def listed(head: str) -> set[str]:
        section = page.split(head)[1].split("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", section, re.M)
        return {name for row in rows for name in re.findall(r"`(\w+)", row)}

    methods = {name for name in vars(dedup_middleware.Journal) if not name.startswith("_")}
    assert listed("# The journal in Python") == methods
    assert listed("## Filters") == set(access.Filters.__annotations__)
    for name in ("Drop", "Cluster"):
        one = getattr(dedup_middleware, name)
        assert listed(f"## {name}\n") == {f.name for f in attrs.fields(one)} | {"host"}
    last = page.split("A mirror has")[1]
    for field in attrs.fields(dedup_middleware.Mirror):
        assert f"`{field.name}`" in last


def test_methods_are_documented() -> None:
    """docs/methods.md has each method in both of its tables, and choosing.md names no other."""
    method = next(field for field in attrs.fields(Options) if field.name == "method")
    assert f"`{method.default}`" in text_of("methods.md")
    rows = re.findall(r"^\| (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*) \|", text_of("methods.md"), re.M)
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
    for name in named:
        Options(method=name)
    for name in dedup_middleware.base.options.METHODS:
        assert name in named


def test_presets_and_measures_are_documented() -> None:
    """docs/choosing.md gives each preset its threshold, and lists every measure."""
    page = text_of("choosing.md")
    for name, threshold in dedup_middleware.base.options.PRESETS.items():
        assert re.search(rf"^\| `{name}`[^|]*\| {threshold:g}".replace("0.", r"\."), page, re.M)
    for name in dedup_middleware.base.options.MEASURES:
        assert re.search(rf"^\| `{name}`", page, re.M)


def test_experiments_are_documented() -> None:
    """docs/methods.md and docs/evaluating.md name each command of the evaluation, and methods.md
    each of the papers."""
    for module, names in (
        (evaluation, ("methods.md", "evaluating.md")),
        (research, ("methods.md",)),
    ):
        (named,) = (
            action.choices
            for action in module.parser()._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        text = "".join(map(text_of, names))
        assert named
        for name in named:
            assert re.search(rf"`{name}`|evaluation {name} ", text), name


def test_every_setting_that_is_named_exists() -> None:
    """No page names a setting that the options do not have."""
    known = {setting_name(field.name) for field in attrs.fields(Options)}
    known |= {"DEDUP_REDIS_PASSWORD", "DEDUP_NAME", "DEDUP_TEST_REDIS"}
    known |= {"DEDUP_CACHE_DIR", "DEDUP_COMPILE", "DEDUP_SHIP_KERNELS"}  # of the environment
    for page in pages():
        named = set(re.findall(r"\bDEDUP_[A-Z_]+[A-Z]\b", page.read_text(encoding="utf-8")))
        assert named <= known, page.name


def test_extras_are_documented() -> None:
    """The README lists each extra that is for users."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = set(re.findall(r"^([a-z]+) = \[", section, re.M))
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| extra |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == extras - OF_THE_PROJECT


def test_pictures_exist_and_are_small() -> None:
    """Pages show only images that docs/picture.py and docs/rooms.py make, and plots;
    together they are small."""
    shown = {
        (page.parent / name).resolve()
        for page in pages()
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    images = set((DOCS / "images").iterdir())
    plots = ("cluster-scale.svg", "growth.svg", "li-sizes.svg", "rooms.svg")
    made = [*(f"{name}.png" for name in VIEWS), *plots]
    assert shown == images == {DOCS / "images" / name for name in made}
    assert sum(image.stat().st_size for image in images) < 700_000


# Code blocks. A language that is not named here is not in the documentation.
