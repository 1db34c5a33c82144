"""The pair of Prometheus and the targets of partitions that docs/start.md shows do what it says."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import textwrap
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.deploy.monitoring import alertmanager
from tests.deploy.promtool import ORDER, ROOT, RULES, read_yaml, said
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus

PAGE = ROOT / "docs" / "start.md"
TARGETS = ROOT / "deploy" / "prometheus" / "rules" / "partition-targets.yaml"


def blocks(begin: str) -> list[dict[str, Any]]:
    """The YAML documents of the page that begin with this key."""
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", PAGE.read_text(), re.MULTILINE)
    texts = [textwrap.dedent(text).strip() for text in found]
    return [yaml.safe_load(text) for text in texts if text.startswith(f"{begin}:")]


def jobs(
    scraped: float, used: float, partition: str, job: str, cluster: str = "c"
) -> list[dict[str, str]]:
    """A job on four GPUs for a day and a half: GPU-seconds a minute that are measured, and that are used."""
    labels = f'{{cluster="{cluster}",instance="n{job}",job_id="{job}"'
    return [
        {
            "series": f'ofu_job_info{labels},user="ada",partition="{partition}"}}',
            "values": "1x2000",
        },
        {"series": f"ofu_job_gpu_seconds_total{labels}}}", "values": f"0+{scraped}x2000"},
        {"series": f"ofu_job_held_gpu_seconds_total{labels}}}", "values": f"0+{scraped}x2000"},
        {"series": f"ofu_job_utilization_seconds_total{labels}}}", "values": f"0+{used}x2000"},
    ]


def verdict(test: dict[str, Any], folder: Path) -> str:
    """What promtool says about a test over all rules and those of the targets."""
    document = {
        "rule_files": [str(path) for path in (*RULES, TARGETS)],
        "evaluation_interval": "5m",
        "group_eval_order": [*ORDER, "ofu-partition-targets"],
        "tests": [{"interval": "1m", **test}],
    }
    path = folder / "test.yaml"
    path.write_text(json.dumps(document))  # JSON is YAML
    return said(path)


@pytest.mark.prometheus
@pytest.mark.slow
def test_a_partition_is_held_to_its_own_target(tmp_path: Path) -> None:
    """OFU 0.3 in both: below the 0.45 of `batch`, above the 0.10 of `interactive`; `other` has no target.

    In the cluster `west` it is 0.35, above the 0.30 of `batch` there; its `interactive` has the target of all clusters.

    promtool evaluates rules of hours every five minutes, so waste is compared as a share of the hours.
    """
    series = [
        *jobs(240, 72, "batch", "1"),
        *jobs(240, 72, "interactive", "2"),
        *jobs(240, 2.4, "other", "3"),
        *jobs(240, 84, "batch", "4", "west"),
        *jobs(240, 48, "interactive", "5", "west"),
    ]
    (alert,) = (rule for rule in read_yaml(TARGETS)["groups"][0]["rules"] if "alert" in rule)
    told = {
        "exp_labels": {"cluster": "c", "partition": "batch", "severity": "info"},
        "exp_annotations": {
            "summary": "The jobs of partition batch had an OFU of 30% in the last day, which is below its target.",
            "description": alert["annotations"]["description"],
        },
    }
    hours = "sum by (cluster, partition) (sum_over_time(owner:observed_gpu_hours:increase1h[1d]))"
    test = {
        "input_series": series,
        "alert_rule_test": [
            {"eval_time": "30h", "alertname": alert["alert"], "exp_alerts": [told]}
        ],
        "promql_expr_test": [
            {
                "expr": f"round(partition:wasted_gpu_hours:sum1d / {hours}, 0.001)",
                "eval_time": "30h",
                "exp_samples": [
                    {"labels": '{cluster="c", partition="batch"}', "value": 0.15},
                    {"labels": '{cluster="c", partition="interactive"}', "value": -0.2},
                    {"labels": '{cluster="west", partition="batch"}', "value": -0.05},
                    {"labels": '{cluster="west", partition="interactive"}', "value": -0.1},
                ],
            }
        ],
    }
    assert verdict(test, tmp_path) == "SUCCESS"
    test["alert_rule_test"][0]["exp_alerts"] = []
    del test["promql_expr_test"]
    assert verdict(test, tmp_path) != "SUCCESS"


@pytest.mark.prometheus
def test_prometheus_takes_the_configuration_of_a_pair(tmp_path: Path) -> None:
    (pair,) = blocks("global")
    check(pair, tmp_path)
    (rule,) = pair["alerting"]["alert_relabel_configs"]
    assert rule["action"] == "labeldrop"
    assert re.fullmatch(rule["regex"], *set(pair["global"]["external_labels"]) - {"cluster"})


ALWAYS = {
    "groups": [{"name": "g", "interval": "1s", "rules": [{"alert": "Always", "expr": "vector(1)"}]}]
}


RESENT = ("--rules.alert.resend-delay=1s",)
"""The first is lost where Prometheus has not yet discovered the Alertmanager."""


@contextlib.contextmanager
def pair_of(relabelled: bool, folder: Path) -> Iterator[str]:
    """A pair that has sent its alert; the address of its Alertmanager."""
    (pair,) = blocks("global")
    rules = folder / "always.yaml"
    rules.write_text(json.dumps(ALWAYS))
    receiver = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
    with contextlib.ExitStack() as stack:
        manager = stack.enter_context(alertmanager(folder / "alertmanager", receiver))
        alerting = {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]}
        if relabelled:
            alerting["alert_relabel_configs"] = pair["alerting"]["alert_relabel_configs"]
        for replica in "ab":
            (folder / replica).mkdir()
            labels = {**pair["global"]["external_labels"], "replica": replica}
            sections = {"global": {"external_labels": labels}, "rule_files": [str(rules)]}
            one = Prometheus(folder / replica, {}, RESENT, alerting=alerting, **sections)
            stack.callback(one.stop)
            until(partial(has_sent, one.port))
        yield manager


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.parametrize(("relabelled", "alerts"), [(True, 1), (False, 2)])
def test_a_pair_sends_one_alert_because_the_replica_is_taken_off(
    relabelled: bool, alerts: int, tmp_path: Path
) -> None:
    (pair,) = blocks("global")
    with (
        pair_of(relabelled, tmp_path) as manager,
        urllib.request.urlopen(f"http://{manager}/api/v2/alerts", timeout=60) as answer,
    ):
        found = [alert["labels"] for alert in json.load(answer)]
    assert len(found) == alerts
    assert all(
        labels["cluster"] == pair["global"]["external_labels"]["cluster"] for labels in found
    )


def has_sent(port: int) -> bool:
    """Whether this Prometheus has delivered an alert."""
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5, verify=False).text
    except httpx.HTTPError:
        return False
    sent = re.findall(r"^prometheus_notifications_sent_total\{.*\} (\S+)$", text, re.MULTILINE)
    return any(float(one) > 0 for one in sent)


def check(config: dict[str, Any], folder: Path) -> None:
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(config))
    command = ["promtool", "check", "config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
