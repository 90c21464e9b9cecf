"""The dashboard and the alert rules name what the exporter exports."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from promql_parser import VectorSelector

from dedup_middleware.plugin.metrics import FROM_THE_START, Samples, add_crawl, families
from dedup_middleware.plugin.reports import PERCENTILES, STAGES

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
ALERTS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
VALUES = {
    "stage": set(STAGES),
    "quantile": {f"{percent / 100:g}" for percent in PERCENTILES},
}


def filled(expression: str) -> str:
    """An expression of the dashboard as Grafana sends it."""
    for variable, value in {"$__rate_interval": "1m", "$__range": "1h", "$spider": ".*"}.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return expression


def of_the_dashboard() -> list[str]:
    """The queries of all panels."""
    return [filled(one["expr"]) for panel in DASHBOARD["panels"] for one in panel["targets"]]


EXPRESSIONS = [*of_the_dashboard(), *(rule["expr"] for rule in RULES)]


def selectors(expression: str) -> Iterator[VectorSelector]:
    """The series that an expression reads; one that is no PromQL raises."""
    found: list[VectorSelector] = []
    promql_parser.walk(
        promql_parser.parse(expression),
        lambda one: found.append(one) if isinstance(one, VectorSelector) else None,
    )
    assert found
    return iter(found)


def exported() -> dict[str, set[str]]:
    """Names of the exporter's series and of their labels."""
    samples: Samples = defaultdict(float)
    stats = {"dedup/reason/x": 1, "dedup/seconds/index": 1, "dedup/seconds/index/p95": 1}
    add_crawl(samples, "s", stats, running=True)
    return {
        sample.name: set(sample.labels) for family in families(samples) for sample in family.samples
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_name_is_exported(expression: str) -> None:
    """Metrics and labels are the exporter's; events begin at 0; stages and quantiles exist."""
    known = exported()
    for selector in selectors(expression):
        assert selector.name in known
        for matcher in selector.matchers.matchers:
            assert matcher.name in known[selector.name]
            if matcher.name == "event":
                assert matcher.value in FROM_THE_START
            elif matcher.name != "spider":
                assert matcher.value in VALUES[matcher.name]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_labels_of_aggregations_are_exported(expression: str) -> None:
    """What results are grouped by is a label of each series that is read."""
    known = exported()
    labels = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression))))
    for selector in selectors(expression):
        if not re.search(r"on \(\)", expression):
            assert labels <= known[str(selector.name)]


def test_a_wrong_name_is_found() -> None:
    """The parser finds names that a pattern would miss."""
    names = [one.name for one in selectors("sum(rate(dedup_event_total[5m])) / on () up > 0")]
    assert names == ["dedup_event_total", "up"]
    assert names[0] not in exported()


def test_dashboard_is_whole() -> None:
    """Panels have ids of their own, lie side by side, and use the data source that is chosen."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels:
        assert panel["datasource"] == chosen
        assert all(one["datasource"] == chosen for one in panel["targets"])
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "spider"}
    metric, label = re.findall(r"\w+", variables["spider"]["definition"])[1:]
    assert label in exported()[metric]


def test_rules_are_described() -> None:
    """Each has a severity and says what happened, of which spider; docs/monitoring.md lists it."""
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Dedup\w+)` \|", page, re.M)) == {one["alert"] for one in RULES}
    for rule in RULES:
        assert rule["labels"]["severity"] in {"info", "warning"}
        assert "{{ $labels.spider }}" in rule["annotations"]["summary"]


def test_what_to_look_at_begins_at_zero() -> None:
    """Stats that the page on monitoring says to watch are exported before they are counted."""
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    watched = set(re.findall(r"^\| `dedup/([a-z/-]+)` \|", page, re.M))
    assert watched
    assert watched <= set(FROM_THE_START)
    documented = (ROOT / "docs" / "stats.md").read_text(encoding="utf-8")
    for name in FROM_THE_START:
        assert f"| `dedup/{name}` |" in documented
