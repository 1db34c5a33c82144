"""The demonstration with Prometheus and Grafana is put together from files that are there."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from ofu_exporter import __version__
from ofu_exporter.cli import cli
from tests.deploy.chart import ROOT, need, run

FILE = ROOT / "deploy" / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]


def mounts(service: str) -> dict[PurePosixPath, Path]:
    """What is where in a container."""
    pairs = [text.split(":") for text in SERVICES[service]["volumes"]]
    assert all(mode == "ro" for *_, mode in pairs)
    return {PurePosixPath(inside): (FILE.parent / here).resolve() for here, inside, _ in pairs}


def provisioned(name: str) -> Any:
    """What Grafana is told at its start."""
    folder = mounts("grafana")[PurePosixPath("/etc/grafana/provisioning")]
    return yaml.safe_load((folder / name).read_text())


def test_the_agent_is_of_this_version_and_has_no_rights() -> None:
    agent = SERVICES["agent"]
    assert agent["image"] == f"ofu-exporter:{__version__}"
    assert agent["command"][0] in cli.commands
    assert agent["read_only"]
    assert agent["cap_drop"] == ["ALL"]


def test_the_agent_is_built_from_here_and_asked_whether_it_lives() -> None:
    agent = SERVICES["agent"]
    assert (FILE.parent / agent["build"]["context"] / "Dockerfile").exists()
    assert "/healthz" in agent["healthcheck"]["test"][-1]


def test_nothing_is_open_to_other_machines() -> None:
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name


@pytest.mark.parametrize("service", ["prometheus", "grafana"])
def test_what_is_mounted_is_there(service: str) -> None:
    for here in mounts(service).values():
        assert here.exists(), here


def test_services_call_each_other_by_their_names() -> None:
    (scrape,) = yaml.safe_load((FILE.parent / "compose" / "prometheus.yml").read_text())[
        "scrape_configs"
    ]
    (target,) = scrape["static_configs"][0]["targets"]
    assert target == f"agent:{SERVICES['agent']['ports'][0].rpartition(':')[2]}"
    (source,) = provisioned("datasources/prometheus.yaml")["datasources"]
    assert source["url"] == f"http://prometheus:{SERVICES['prometheus']['ports'][0].split(':')[1]}"


def test_the_dashboards_are_looked_for_where_they_are_mounted() -> None:
    (provider,) = provisioned("dashboards/ofu.yaml")["providers"]
    assert PurePosixPath(provider["options"]["path"]) in mounts("grafana")


@pytest.mark.prometheus
def test_promtool_takes_the_configuration_with_its_rules(tmp_path: Path) -> None:
    for inside, here in mounts("prometheus").items():
        target = tmp_path / inside.relative_to("/etc/prometheus")
        (shutil.copytree if here.is_dir() else shutil.copy)(here, target)
    done = run(need("promtool"), "check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
