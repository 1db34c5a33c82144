"""Monitors, rules and dashboards of the chart say all that a site needs."""

from __future__ import annotations

import re

import promql_parser
import pytest

from ofu_exporter.ofu.ownership.job_state import MOST_ENDED
from ofu_exporter.reports.book import MOST_UNOWNED
from tests.deploy import values_table
from tests.deploy.chart import CHART, HELMS, Object, only, render, run
from tests.deploy.value_sets import MONITORS, VALUE_SETS
from tests.helpers.markdown import anchors

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chart")]
SAMPLES = "`podMonitor.sampleLimit`"
SELDOM = 6
"""Series that a job may have besides: docs/metrics.md#how-many-series."""
every_helm = pytest.mark.parametrize("helm", HELMS)


@every_helm
@pytest.mark.parametrize("kind", MONITORS)
def test_a_monitor_says_all_that_a_site_needs(helm: str, kind: str) -> None:
    monitor = only(render(helm, VALUE_SETS[MONITORS[kind]]), kind)
    given = VALUE_SETS["everything"]["podMonitor"]
    assert monitor["metadata"]["namespace"] == given["namespace"]
    assert monitor["metadata"]["annotations"] == given["annotations"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    spec = monitor["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["monitoring"]}, "not its own"
    assert (spec["sampleLimit"], spec["attachMetadata"]) == (5000, {"node": True})
    (endpoint,) = spec.get("podMetricsEndpoints") or spec["endpoints"]
    assert endpoint["metricRelabelings"] == given["metricRelabelings"]
    assert endpoint["basicAuth"] == given["basicAuth"]
    assert endpoint["relabelings"][-1] == given["relabelings"][-1]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": {"name": "certificate", "key": "ca.crt"}},
        "serverName": "ofu-exporter",
        **given["tlsConfig"],
    }


@every_helm
def test_a_service_monitor_has_its_own_values_before_those_of_the_pod_monitor(helm: str) -> None:
    values: Object = {
        "podMonitor": {"labels": {"a": "b"}, "interval": "30s"},
        "serviceMonitor": {"enabled": True, "interval": "20s", "scheme": "https"},
    }
    monitor = only(render(helm, values), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("20s", "10s")
    assert endpoint["scheme"] == "https"
    assert monitor["metadata"]["labels"]["a"] == "b"
    assert not {"tlsConfig", "basicAuth", "metricRelabelings"} & endpoint.keys()


@every_helm
def test_a_limit_of_millions_is_a_whole_number(helm: str) -> None:
    """Helm reads numbers as floats, and prints 5e+06, which is none."""
    monitor = render(helm, {"podMonitor": {"enabled": True, "sampleLimit": 5_000_000}})
    assert only(monitor, "PodMonitor")["spec"]["sampleLimit"] == 5_000_000


@every_helm
def test_rules_go_where_they_are_sent_with_the_sites_labels_and_target(helm: str) -> None:
    rule = only(render(helm, VALUE_SETS["everything"]), "PrometheusRule")
    assert rule["metadata"]["namespace"] == "prometheus"
    rules = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    alerts = [one for one in rules if "alert" in one]
    assert {one["labels"]["team"] for one in alerts} == {"gpus"}
    assert all(one["labels"]["severity"] for one in alerts)
    assert not [one for one in rules if "record" in one and "labels" in one]
    (target,) = (one for one in rules if one.get("record") == "fleet:ofu_target:ratio")
    assert target["expr"] == "vector(0.35)"


@every_helm
@pytest.mark.parametrize(("target", "taken"), [("0.35", True), ("1", True), ("0", False)])
def test_a_target_may_be_given_on_the_command_line(helm: str, target: str, taken: bool) -> None:
    where = ("--set", "prometheusRule.enabled=true", "--set", f"prometheusRule.target={target}")
    done = run(helm, "template", "ofu", CHART, *where)
    assert (f"vector({target})" in done.stdout) is taken
    assert (done.returncode == 0) is taken


@every_helm
def test_dashboards_go_to_the_namespace_and_the_operator_that_are_named(helm: str) -> None:
    objects = render(helm, VALUE_SETS["everything"])
    maps = {
        each["metadata"]["name"]: each
        for each in objects
        if each["kind"] == "ConfigMap" and each["metadata"]["namespace"] == "grafana"
    }
    boards = [each for each in objects if each["kind"] == "GrafanaDashboard"]
    assert {each["metadata"]["name"] for each in boards} == maps.keys() != set()
    for each in boards:
        spec = each["spec"]
        assert each["metadata"]["namespace"] == "grafana"
        assert spec["configMapRef"]["key"] in maps[spec["configMapRef"]["name"]]["data"]
        assert spec["instanceSelector"] == {"matchLabels": {"dashboards": "grafana"}}
        assert (spec["folder"], spec["allowCrossNamespaceImport"]) == ("GPUs", True)


@every_helm
@pytest.mark.parametrize("base", ["", "https://git.example.com/ofu-exporter/blob/v0.1.0/"])
def test_alerts_lead_to_the_runbook_where_the_site_keeps_it(helm: str, base: str) -> None:
    values: Object = {"prometheusRule": {"enabled": True, "runbookUrl": base}}
    rule = only(render(helm, values), "PrometheusRule")
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"] if "alert" in one]
    assert alerts
    for alert in alerts:
        address = alert["annotations"]["runbook_url"]
        path, _, anchor = address.removeprefix(base).partition("#")
        assert address.startswith(base)
        assert anchor in anchors(CHART.parents[1] / path)


def memory_alerts(helm: str, limits: Object | None) -> list[Object]:
    values: Object = {"prometheusRule": {"enabled": True}, "resources": {"limits": limits}}
    rule = only(render(helm, values), "PrometheusRule")
    rules = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    return [one for one in rules if one.get("alert") == "OfuAgentMemoryHigh"]


@every_helm
@pytest.mark.parametrize(
    ("limit", "mib"),
    [
        ("128Mi", 128),
        ("1.5Gi", 1536),
        ("262144Ki", 256),
        (268435456, 256),
        ("268435456", 256),
        ("512M", 512e6 / 2**20),
        ("2e8", 2e8 / 2**20),
    ],
)
def test_the_alert_of_memory_follows_the_limit(helm: str, limit: object, mib: float) -> None:
    (alert,) = memory_alerts(helm, {"memory": limit})
    threshold = alert["expr"].rpartition("> ")[2]
    promql_parser.parse(alert["expr"])
    assert eval(threshold.replace("^", "**")) == pytest.approx(0.9 * mib * 2**20)
    if isinstance(limit, str) and limit[-1].isalpha():  # YAML has others as numbers
        assert f"limit of {limit} the kernel" in alert["annotations"]["description"]


@every_helm
@pytest.mark.parametrize("limits", [None, {"memory": None}, {"memory": None, "cpu": 1}])
def test_without_a_limit_there_is_no_alert_of_one(helm: str, limits: Object | None) -> None:
    assert not memory_alerts(helm, limits)


def test_a_limit_of_samples_is_advised_by_pages_as_they_were_counted() -> None:
    """They were counted on real agents, for a table that tests/end_to_end/test_series.py makes."""
    page = (CHART.parents[1] / "docs" / "metrics.md").read_text()
    table = page.partition("generated: series")[2].partition("<!-- end -->")[0]
    counted = {name: int(many) for name, many in re.findall(r"^\| (.+?) \| (\d+) \|$", table, re.M)}
    idle = counted["an idle node of 8 GPUs"]
    jobs = counted["the node while 8 jobs have a GPU each"]
    reports = counted["the node while 8 jobs have a GPU each and report"]
    mig = counted["an idle node of 8 GPUs in 7 MIG instances each"]
    (row,) = (line for line in values_table.table(CHART / "values.yaml") if SAMPLES in line)
    assert f"{idle} while they are idle, {jobs} with eight jobs, {reports} when" in row
    assert f"{mig} as 56 MIG instances" in row
    most = mig + (56 + MOST_ENDED + MOST_UNOWNED) * ((reports - idle) // 8 + SELDOM)
    (advised,) = re.findall(r"(\d+) is above any page", row)
    assert most < int(advised)
