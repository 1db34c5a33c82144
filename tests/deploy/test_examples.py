"""The examples for Prometheus, Alertmanager and Grafana are accepted by what they are for, and name what exists."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from ofu_exporter.settings import Settings, host_and_port
from tests.deploy.promtool import ALERTS, ROOT, RULES, read_yaml, the_alert

PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yaml"
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"
SCRAPE_EXAMPLES = sorted(PROMETHEUS.glob("*.yaml"))


@pytest.mark.prometheus
def test_prometheus_takes_its_configuration_with_every_rule() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", str(PROMETHEUS / "prometheus.yaml")],
        capture_output=True,
        text=True,
        check=True,
    )
    for path in (*RULES, *ALERTS):
        assert f"/{path.name}\n" in done.stdout


@pytest.mark.prometheus
def test_alertmanager_takes_its_configuration() -> None:
    subprocess.run(["amtool", "check-config", str(ALERTMANAGER)], check=True, capture_output=True)


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("alert", "receiver"),
    [
        ("OfuMfuAboveOfu", "jobs"),
        ("OfuReportsStopped", "jobs"),
        ("OfuClusterOfuDropped", "jobs"),
        ("OfuAgentDown", "nodes"),
        ("OfuManyNodesUnmeasured", "nodes"),
        ("OfuDeadlinesMissed", "nodes"),
        ("OfuClockLoss", "nodes"),
    ],
)
def test_alerts_go_to_whom_they_concern(alert: str, receiver: str) -> None:
    (severity,) = (
        found["labels"]["severity"] for found in map(the_alert, ALERTS) if found["alert"] == alert
    )
    done = subprocess.run(
        [
            *("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}"),
            *(f"alertname={alert}", f"severity={severity}"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == receiver


def test_alertmanager_names_alerts_that_exist() -> None:
    known = {the_alert(path)["alert"] for path in ALERTS}
    assert set(re.findall(r"\bOfu\w+", ALERTMANAGER.read_text())) <= known


@pytest.mark.parametrize("path", SCRAPE_EXAMPLES, ids=lambda path: path.stem)
def test_a_scrape_job_is_named_so_that_its_agents_are_missed_when_down(path: Any) -> None:
    (down,) = (the_alert(one)["expr"] for one in ALERTS if one.stem == "agent-down")
    (pattern,) = re.findall(r'job=~"(.*)"', down)
    for job in read_yaml(path)["scrape_configs"]:
        assert re.fullmatch(pattern, job["job_name"])


def test_prometheus_scrapes_the_default_port() -> None:
    (job,) = read_yaml(PROMETHEUS / "prometheus.yaml")["scrape_configs"]
    ports = {host_and_port(one)[1] for group in job["static_configs"] for one in group["targets"]}
    assert ports == {host_and_port(str(Settings.model_fields["listen"].default))[1]}


def test_grafana_is_given_a_data_source_and_a_folder() -> None:
    (source,) = read_yaml(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == f"{scrape_interval()}"
    (provider,) = read_yaml(PROVISIONING / "dashboards" / "ofu.yaml")["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"]


def scrape_interval() -> str:
    return str(read_yaml(PROMETHEUS / "prometheus.yaml")["global"]["scrape_interval"])
