"""A real Prometheus reads a real crawl, the dashboard's queries and the alert rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.metricscrawl import COUNTS, three_crawls
from tests.operation.required import program
from tests.servers import free_port
from tests.test_grafana import FOLDER, RULES, of_the_dashboard

HERE = Path(__file__).parent


def test_rules_are_valid_and_fire_when_they_should() -> None:
    """promtool accepts the rules, and runs alerts_test.yml."""
    promtool = program("promtool")
    for arguments in (("check", "rules", FOLDER / "alerts.yml"),
                      ("test", "rules", HERE / "alerts_test.yml")):  # fmt: skip
        done = subprocess.run(
            [promtool, *arguments], capture_output=True, text=True, check=False, cwd=HERE
        )
        assert done.returncode == 0, done.stdout + done.stderr


Get = Callable[..., Any]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    """A server that scrapes three crawls every half second; calls ask its API."""
    binary = program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    port, scraped = free_port(), free_port()
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {
        "scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"
    }  # fmt: skip
    (scraping,) = config["scrape_configs"][0]["static_configs"]
    scraping["targets"] = [f"127.0.0.1:{scraped}"]
    shutil.copy(FOLDER / "alerts.yml", folder)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "crawl").mkdir()

    def get(path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    with three_crawls(folder / "crawl", scraped, LOGSTATS_INTERVAL=0.5) as crawls:
        crawls.await_samples(COUNTS)
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [binary, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 f"--web.listen-address=127.0.0.1:{port}"],
                cwd=folder, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while not _scraped_often(get):
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
            yield get
        finally:
            server.kill()
            server.wait()


def _scraped_often(get: Get) -> bool:
    """Whether there are enough samples for a rate, and the rules were evaluated."""
    try:
        found = get("query", query="count_over_time(dedup_events_total{event='pages'}[1m])")
        (group,) = get("rules")["groups"]
    except OSError:
        return False
    results = found["result"]
    return (
        len(results) == 2
        and all(int(one["value"][1]) > 4 for one in results)
        and all(rule["health"] != "unknown" for rule in group["rules"])
    )


def test_scraped(prometheus: Get) -> None:
    """The target is up, and counts are those of the crawls."""
    (target,) = prometheus("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    for (metric, spider, label), value in COUNTS.items():
        name = "reason" if metric == "dedup_reasons_total" else "event"
        found = prometheus("query", query=f'{metric}{{spider="{spider}",{name}="{label}"}}')
        (result,) = found["result"]
        assert float(result["value"][1]) == value


@pytest.mark.parametrize("expression", of_the_dashboard())
def test_every_panel_has_data(prometheus: Get, expression: str) -> None:
    """Each query of the dashboard gives a series."""
    assert prometheus("query", query=expression)["result"]


def test_rules_are_evaluated(prometheus: Get) -> None:
    """Each rule is evaluated without an error, and nothing fires in an honest crawl."""
    (group,) = prometheus("rules")["groups"]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in RULES]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
    assert "firing" not in {alert["state"] for alert in prometheus("alerts")["alerts"]}
