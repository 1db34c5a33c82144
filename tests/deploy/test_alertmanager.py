"""The example for Alertmanager: who is told of an alert, and which alerts are no news beside another.

A real Alertmanager has the file as it is, but for the time that it waits and the place that it sends to.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.monitoring import alertmanager, receiver
from tests.deploy.promtool import ALERTS, ROOT, read_yaml, the_alert
from tests.helpers.agent import until

EXAMPLE = ROOT / "deploy" / "alertmanager" / "alertmanager.yaml"
RULE_TESTS = Path(__file__).parent / "alerts"
FILES = {the_alert(path)["alert"]: path for path in ALERTS}

MATCHERS = ("source_matchers", "target_matchers")

Labels = dict[str, str]
Firing = tuple[str, Labels]

CLUSTER = {"cluster": "c"}
NODE = {"cluster": "c", "instance": "n1"}
OTHER_NODE = {"cluster": "c", "instance": "n2"}
NODE_ELSEWHERE = {"cluster": "d", "instance": "n1"}
JOB = {"cluster": "c", "job_id": "7"}
OTHER_JOB = {"cluster": "c", "job_id": "8"}


def labels(firing: Firing) -> Labels:
    """What promtool saw this alert have, at the given place."""
    name, place = firing
    cases = read_yaml(RULE_TESTS / f"{FILES[name].stem}.test.yaml")["tests"]
    checks = [check for case in cases for check in case["alert_rule_test"]]
    seen = next(one["exp_labels"] for check in checks for one in check["exp_alerts"])
    assert place.keys() <= {*seen, "cluster"}, f"{name} is never about such a place"
    own = {key: value for key, value in seen.items() if key != "cluster"}
    return {**own, **place, **the_alert(FILES[name])["labels"], "alertname": name}


def test_the_page_of_alerts_has_the_alerts_that_are_quiet() -> None:
    """Of all alerts of a place it names none."""
    page = (ROOT / "docs" / "alerts.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) of its (\w+) \|$", page, re.MULTILINE)
    place = {"cluster": "cluster", "instance": "node", "job_id": "job"}
    rules = [
        [*(re.findall(r"Ofu\w+", rule[of][0]) for of in MATCHERS), place[rule["equal"][-1]]]
        for rule in read_yaml(EXAMPLE)["inhibit_rules"]
    ]
    assert [[[one], re.findall(r"Ofu\w+", quiet), at] for one, quiet, at in rows] == rules


def ask(address: str, alerts: list[Any] | None = None) -> Any:
    """Posts alerts, or gives those that Alertmanager has."""
    request = urllib.request.Request(
        f"http://{address}/api/v2/alerts",
        None if alerts is None else json.dumps(alerts).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or "null")


def in_order(found: list[Labels]) -> list[list[tuple[str, str]]]:
    return sorted(sorted(one.items()) for one in found)


@pytest.mark.prometheus
def test_it_takes_its_configuration() -> None:
    subprocess.run(["amtool", "check-config", str(EXAMPLE)], check=True, capture_output=True)


def test_it_names_alerts_that_exist() -> None:
    assert set(re.findall(r"\bOfu\w+", EXAMPLE.read_text())) <= FILES.keys()


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("alert", "who"),
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
def test_alerts_go_to_whom_they_concern(alert: str, who: str) -> None:
    severity = the_alert(FILES[alert])["labels"]["severity"]
    command = ("amtool", "config", "routes", "test", f"--config.file={EXAMPLE}")
    done = subprocess.run(
        [*command, f"alertname={alert}", f"severity={severity}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == who


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("told", "quiet"),
    [
        pytest.param(
            [
                ("OfuManyNodesUnmeasured", CLUSTER),
                ("OfuAgentDown", NODE_ELSEWHERE),
                ("OfuSchedulerUnavailable", OTHER_NODE),
                ("OfuAgentsGone", CLUSTER),
                ("OfuMfuAboveOfu", CLUSTER),
            ],
            [
                ("OfuAgentDown", NODE),
                ("OfuSourceUnavailable", OTHER_NODE),
                ("OfuGpuNotMeasured", OTHER_NODE),
                ("OfuSamplesStale", {"cluster": "c", "instance": "n3"}),
            ],
            id="one for the cluster and none for each of its nodes",
        ),
        pytest.param(
            [("OfuManyNodesUnmeasured", {}), ("OfuClaimsRejected", {"instance": "n2"})],
            [("OfuAgentDown", {"instance": "n1"}), ("OfuSamplesStale", {"instance": "n2"})],
            id="the same where no cluster has a name",
        ),
        pytest.param(
            [
                ("OfuAgentDown", NODE),
                ("OfuMeasuredShareLow", OTHER_NODE),
                ("OfuMeasuredShareLow", NODE_ELSEWHERE),
                ("OfuJobOfuDropped", CLUSTER),
                ("OfuClusterOfuDropped", CLUSTER),
            ],
            [
                ("OfuMeasuredShareLow", NODE),
                ("OfuAgentRestarting", NODE),
                ("OfuAgentMemoryHigh", NODE),
                ("OfuClockLoss", NODE),
            ],
            id="a node that is down, and nothing that was known of it",
        ),
        pytest.param(
            [
                ("OfuSourceUnavailable", NODE),
                ("OfuReloadFailed", NODE),
                ("OfuGpuNotMeasured", OTHER_NODE),
            ],
            [("OfuGpuNotMeasured", NODE)],
            id="a source that cannot be read, and none of its GPUs",
        ),
        pytest.param(
            [
                ("OfuJobStalled", JOB),
                ("OfuJobDoesWorkAgain", JOB),
                ("OfuJobEngineIdle", OTHER_JOB),
                ("OfuReportsStopped", {"job_id": JOB["job_id"]}),
            ],
            [
                ("OfuJobEngineIdle", JOB),
                ("OfuGpusIdle", JOB),
                ("OfuJobOfuDropped", JOB),
                ("OfuReportsStopped", JOB),
            ],
            id="a job that hangs, and not that it is idle, slow and silent",
        ),
    ],
)
def test_what_follows_from_another_alert_is_no_news(
    told: list[Firing], quiet: list[Firing], tmp_path: Path
) -> None:
    config = read_yaml(EXAMPLE)
    config["route"]["group_wait"] = "1s"
    with receiver() as (received, hook):
        for each in config["receivers"]:
            each["webhook_configs"] = [{"url": hook}]
        with alertmanager(tmp_path / "alertmanager", config) as address:
            ask(address, [{"labels": labels(one)} for one in [*told, *quiet]])
            until(lambda: len(received.alerts) >= len(told))
            arrived = in_order([one["labels"] for one in received.alerts])
            held = [one["labels"] for one in ask(address) if one["status"]["inhibitedBy"]]
    assert in_order(held) == in_order([labels(one) for one in quiet])
    assert arrived == in_order([labels(one) for one in told])
