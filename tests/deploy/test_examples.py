"""The examples for Prometheus and Grafana are accepted by what they are for, and name what exists."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from ofu_exporter.settings import Settings, host_and_port
from tests.deploy.promtool import ALERTS, ROOT, RULES, read_yaml, the_alert

PROMETHEUS = ROOT / "deploy" / "prometheus"
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
