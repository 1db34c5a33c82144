"""What single values of the chart do, each where somebody once needed it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from ofu_exporter.cli.fleet_report import report
from ofu_exporter.fleet.history.prices import read_prices
from ofu_exporter.settings import PROBE_PATHS
from tests.deploy.chart import (
    CHART,
    HELMS,
    Object,
    container,
    kinds,
    only,
    pod_of,
    pod_spec,
    pods,
    refused,
    render,
    run,
    template,
)
from tests.deploy.value_sets import VALUE_SETS
from tests.helpers.agent import agent, page_server
from tests.helpers.certificates import Certificates
from tests.helpers.in_process import call

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chart")]
every_helm = pytest.mark.parametrize("helm", HELMS)


def all_labels(objects: list[Object]) -> list[Object]:
    return [each["metadata"]["labels"] for each in (*objects, *pods(objects))]


@every_helm
def test_common_labels_are_on_every_object_and_pod(helm: str) -> None:
    for labels in all_labels(render(helm, VALUE_SETS["everything"])):
        assert labels["team"] == "gpus"


@every_helm
@pytest.mark.parametrize("value", ["commonLabels", "podLabels"])
def test_no_label_takes_the_pods_away_from_their_selector(helm: str, value: str) -> None:
    objects = render(helm, {value: {"app.kubernetes.io/name": "other"}})
    spec = only(objects, "DaemonSet")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()


@every_helm
def test_another_namespace_is_everywhere(helm: str) -> None:
    values: Object = {
        "namespaceOverride": "gpus",
        "kubernetes": {"metadata": True},
        "podMonitor": {"enabled": True},
        "networkPolicy": {"enabled": True},
    }
    objects = render(helm, values)
    of_cluster = {"ClusterRole", "ClusterRoleBinding"}
    for each in objects:
        assert (each["kind"] in of_cluster) is ("namespace" not in each["metadata"])
        assert each["metadata"].get("namespace", "gpus") == "gpus"
    (subject,) = only(objects, "ClusterRoleBinding")["subjects"]
    assert subject["namespace"] == "gpus"
    assert only(objects, "PodMonitor")["spec"]["namespaceSelector"] == {"matchNames": ["gpus"]}
    assert "gpus" in only(objects, "ClusterRole")["metadata"]["name"]
    assert only(objects, "Pod")["spec"]["containers"][0]["args"][1].endswith(".gpus.svc")


@every_helm
@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, "ofu-exporter:0.1.0"),
        ({"image": {"registry": "r.example.com/gpu"}}, "r.example.com/gpu/ofu-exporter:0.1.0"),
        (
            {"image": {"registry": "r.example.com"}, "global": {"imageRegistry": "g.example.com"}},
            "g.example.com/ofu-exporter:0.1.0",
        ),
    ],
)
def test_the_image_comes_from_the_registry_that_is_named(
    helm: str, values: Object, image: str
) -> None:
    objects = render(helm, values)
    assert [pod["spec"]["containers"][0]["image"] for pod in pods(objects)] == [image, image]


@every_helm
def test_the_test_runs_where_the_exporter_may_and_with_its_secrets(helm: str) -> None:
    values: Object = {
        "imagePullSecrets": ["a"],
        "global": {"imagePullSecrets": ["b", {"name": "c"}]},
        "nodeSelector": {"pool": "gpus"},
        "tolerations": [{"operator": "Exists"}],
    }
    for pod in pods(render(helm, values)):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
        assert pod["spec"]["nodeSelector"] == {"pool": "gpus"}
        assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
        assert "nodeAffinity" in pod["spec"]["affinity"]


@every_helm
def test_a_platform_may_choose_the_users_of_both_pods(helm: str) -> None:
    """As OpenShift does, which refuses a user that is not of the namespace's range."""
    nobody: Object = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    values: Object = {
        "podSecurityContext": nobody,
        "kubernetes": {"podResources": False},
        "tests": {"podSecurityContext": {"runAsUser": None, "runAsGroup": None}},
    }
    for pod in pods(render(helm, values)):
        assert pod["spec"]["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert "runAsUser" not in pod["spec"]["containers"][0]["securityContext"]


@every_helm
@pytest.mark.parametrize(
    "right", [{"privileged": True}, {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}]
)
def test_a_right_brings_the_escalation_that_kubernetes_demands_with_it(
    helm: str, right: Object
) -> None:
    """ "cannot set `allowPrivilegeEscalation` to false and `privileged` to true", an API server says.

    It says the same of `capabilities.Add` CAP_SYS_ADMIN.
    """
    context = container(render(helm, {"securityContext": right}))["securityContext"]
    assert context["allowPrivilegeEscalation"] is True
    assert container(render(helm, {}))["securityContext"]["allowPrivilegeEscalation"] is False


@every_helm
def test_extra_rules_are_rules_without_metadata_as_well_and_give_no_token(helm: str) -> None:
    rule = {
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": ["privileged"],
        "verbs": ["use"],
    }
    objects = render(helm, {"kubernetes": {"extraRules": [rule]}})
    assert only(objects, "ClusterRole")["rules"] == [rule]
    assert only(objects, "ClusterRoleBinding")["subjects"]
    assert pod_spec(objects)["automountServiceAccountToken"] is False
    both = render(helm, {"kubernetes": {"extraRules": [rule], "metadata": True}})
    assert only(both, "ClusterRole")["rules"][-1] == rule
    assert len(only(both, "ClusterRole")["rules"]) == 4


@every_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"kubernetes": {"metadata": True, "podResources": False}},
            "kubernetes.metadata=true needs kubernetes.podResources=true",
        ),
        ({"tls": {"clientCaSecret": "authorities"}}, "tls.clientCaSecret needs tls.secret"),
        ({"traces": {"hostPath": "/t"}}, "traces.hostPath needs kubernetes.metadata=true"),
        (
            {"config": {"interval": "50s"}},
            "config.interval=50s is not at least 0.1 and at most 30 seconds",
        ),
        (
            {"prometheusRule": {"enabled": True, "withoutAlerts": ["NoSuch"]}},
            "names no alert: NoSuch",
        ),
        (
            {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
            "every agent would be scraped twice",
        ),
        ({"podMonitor": {"enabled": True, "scrapeTimeout": "1m"}}, "is above its interval 15s"),
        ({"config": {"listen": "127.0.0.1:9846"}}, "neither Prometheus nor the probes get there"),
        ({"config": {"listen": "localhost:9846"}}, "neither Prometheus nor the probes get there"),
        ({"config": {"listen": "[::1]:9846"}}, "neither Prometheus nor the probes get there"),
        ({"config": {"listen": "0.0.0.0:99999"}}, "ends in no port from 1 to 65535"),
        ({"driver": {"enabled": False}}, "leaves config.source=auto without a driver"),
        (
            {"driver": {"enabled": False}, "config": {"source": "nvml"}},
            "leaves config.source=nvml without a driver",
        ),
        (
            {"config": {"scheduler": "kubernetes"}, "kubernetes": {"podResources": False}},
            "needs kubernetes.podResources=true",
        ),
        ({"image": {"repository": "x:1.2"}}, "image.repository=x:1.2 has a tag"),
        ({"image": {"repository": "r:5000/x:1.2"}}, "has a tag: that is image.tag"),
        (
            {"resources": {"limits": {"memory": "128m"}}},
            "memory=128m is in thousandths of a byte: write 128Mi",
        ),
        ({"updateStrategy": {"type": "Recreate"}}, "updateStrategy.type=Recreate is none of a"),
        ({"tolerations": [{"operator": "Exist"}]}, "operator Exist is not known"),
        (
            {"prometheusRule": {"enabled": True, "additionalRuleLabels": {"a-b": "c"}}},
            "Prometheus takes no label a-b",
        ),
        (
            {"extraArgs": ["--interval=99h"]},
            "--interval=99h is not at least 0.1 and at most 30 seconds",
        ),
        (
            {"env": [{"name": "OFU_INTERVAL", "value": "never"}]},
            "env: OFU_INTERVAL=never is not a duration such as 5s",
        ),
        (
            {"extraArgs": ["--loop", "--interval", "banana"]},
            "extraArgs: --interval=banana is not a duration such as 5s",
        ),
        ({"extraArgs": ["--interval"]}, "extraArgs: --interval has no value"),
        ({"extraArgs": ["banana"]}, "extraArgs: banana is no flag, nor the value of one"),
        ({"extraArgs": ["--loop=yes"]}, "extraArgs: --loop takes no value"),
        (
            {"extraArgs": ["--scheduler=nonsense"]},
            "extraArgs: --scheduler=nonsense is not of auto, none, kubernetes",
        ),
        ({"extraArgs": ["--source", "x"]}, "extraArgs: --source=x is not one of auto, dcgm"),
        (
            {"extraArgs": ["--mfu-above=2"]},
            "extraArgs: --mfu-above=2 is not at least 0 and at most 1",
        ),
        ({"extraArgs": ["--trace-below=0"]}, "--trace-below=0 is not above 0 and below 1"),
        ({"env": [{"name": "OFU_MOST_GPUS", "value": "few"}]}, "OFU_MOST_GPUS=few is not a whole"),
        ({"env": [{"name": "OFU_JOB_TOKENS", "value": "si"}]}, "=si is not true or false"),
        ({"env": [{"name": "OFU_GPUS", "value": "[]"}]}, "OFU_GPUS=[] is not to be set as text"),
        ({"env": [{"name": "OFU_LOUD", "value": "1"}]}, "env: OFU_LOUD is no setting"),
        (
            {"prometheusRule": {"enabled": True, "additionalRuleLabels": {"__x": "c"}}},
            "Prometheus takes no label __x",
        ),
        (
            {"serviceMonitor": {"enabled": True, "interval": "5s"}},
            "serviceMonitor.scrapeTimeout=10s is above its interval 5s",
        ),
        (
            {"podMonitor": {"enabled": True}, "webConfig": {"secret": "users"}},
            "give podMonitor.basicAuth or podMonitor.authorization",
        ),
        ({"fleetReport": {"enabled": True}}, "needs fleetReport.prometheus"),
    ],
)
def test_what_could_do_nothing_is_refused_and_not_ignored(
    helm: str, values: Object, said: str
) -> None:
    done = template(helm, values)
    assert done.returncode != 0
    assert said in done.stderr


@every_helm
def test_a_schedule_that_kubernetes_refuses_is_refused(helm: str) -> None:
    """As its controller reads one: cron.ParseStandard of github.com/robfig/cron/v3, and no time zone."""
    for at in ("@every 5", "@reboot", "0 24 * * *", "0 0 * * 7", "*/0 * * * *", "TZ=UTC 0 6 * * 1"):
        assert "fleetReport.schedule" in {
            place for place, _ in refused(helm, {"fleetReport.schedule": at})
        }, at


@every_helm
def test_a_schedule_is_in_the_time_zone_that_is_given_or_the_cluster_s(helm: str) -> None:
    """The field has been on since Kubernetes 1.25, which the chart demands; "Local" is refused there, too."""
    for values, zone in (("report", "Europe/Berlin"), ("report-into-a-claim", None)):
        assert only(render(helm, VALUE_SETS[values]), "CronJob")["spec"].get("timeZone") == zone
    for wrong in ("Local", "local", "+02:00", "Europe/", "/Berlin", "Europe/Berlin time", 2):
        assert {place for place, _ in refused(helm, {"fleetReport.timeZone": wrong})} == {
            "fleetReport.timeZone"
        }, wrong
    for zone in ("UTC", "Etc/GMT+1", "America/Argentina/Buenos_Aires", "America/Port-au-Prince"):
        report: Object = {"enabled": True, "prometheus": "http://p", "timeZone": zone}
        spec = only(render(helm, {"fleetReport": report}), "CronJob")["spec"]
        assert (spec["timeZone"], spec["schedule"]) == (zone, "0 6 * * 1")


@every_helm
def test_each_wrong_value_is_refused_beside_others(helm: str) -> None:
    wrong: Object = {
        "config.source": "nvmll",
        "config.scheduler": "slum",
        "config.horizon": "1m30s",
        "config.collect_interval": 31,
        "config.interval": "soon",
        "config.gpus": 3,
        "config.log_level": "loud",
        "config.mfu_above": 2,
        "config.job_tokens": "yes",
        "resources.limits.memory": "lots",
        "extraArgs.0": "--no-such=1",
        "service.type": "ExternalName",
        "service.port": 70000,
        "fleetReport.schedule": "daily",
        "fleetReport.since": "0d",
        "traces.hostPath": "/var/../etc",
        "state.hostPath": "/..",
    }
    again: Object = {
        **{"config.source": "nvml,dcgm", "config.gpus.0.tensor_clock_hz": 1},
        **{"fleetReport.schedule": "0 6 * *", "fleetReport.since": "59m"},
    }
    for values in (wrong, again):
        assert not values.keys() - {place for place, _ in refused(helm, values)}


@every_helm
@pytest.mark.parametrize(
    "values",
    [
        {"config": {"interval": "500ms", "horizon": 120, "collect_interval": "0.5m"}},
        {"config": {"source": "dcgm-exporter", "scheduler": "kubernetes,slurm"}},
        {"config": {"kubernetes_metadata": True, "state_file": "/state/file", "log_level": "warn"}},
        {"config": {"gpus": [{"name": "X", "tensor_clock_hz": 1.8e9}], "unowned_reports": True}},
        {"config": {"pull": [{"job_id": "a", "url": "http://a:1/metrics", "every": "15s"}]}},
        {"extraArgs": ["--interval", "5s", "--web.config.file=/x", "--loop", "--mfu-above=0.03"]},
        {"resources": {"limits": {"memory": "1.5Gi", "cpu": 2, "x/y": "1e3"}}},
        {"driver": {"enabled": False}, "config": {"source": "dcgm"}},
        {"image": {"repository": "registry.example.com:5000/gpus/ofu-exporter"}},
        {"extraArgs": ["--interval=2s"], "env": [{"name": "OFU_INTERVAL", "value": "2s"}]},
        {"config": {"listen": ":9846"}},
        *(
            {
                "fleetReport": {
                    "enabled": True,
                    "prometheus": "http://p",
                    "schedule": at,
                    "since": long,
                }
            }
            for at, long in (
                ("@daily", "0.5d"),
                ("@every 12h", "90m"),
                ("*/5 6-8 1,15 * 1", "1h"),
                ("05 06 ? Jan-3 mon,SAT", "2w"),
            )
        ),
        {"state": {"hostPath": "/var/lib/..x/ofu"}},
        {
            "extraArgs": [
                "--path",
                "--loop",
                "--no-traces",
                "--scheduler=kubernetes,slurm",
                "--seed=-3",
            ]
        },
        {"env": [{"name": "OFU_EXPORTER_PORT", "value": "tcp"}, {"name": "A", "value": "b"}]},
        {
            "env": [
                {"name": "OFU_LOG_LEVEL", "value": "warn"},
                {"name": "OFU_TRACES", "value": "No"},
            ]
        },
        {
            "env": [
                {"name": "OFU_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
            ]
        },
    ],
)
def test_what_the_exporter_takes_the_chart_takes(helm: str, values: Object) -> None:
    assert template(helm, values).returncode == 0


@every_helm
@pytest.mark.parametrize("release", ["n", "on", "123", "1e3", "null"])
def test_a_release_may_be_called_what_yaml_takes_for_something_else(
    helm: str, release: str
) -> None:
    given = ["--set", f"fullnameOverride={release}", "--set", "podMonitor.enabled=true"]
    shown = run(helm, "template", release, CHART, "--set-string", *given[1:2], *given[2:])
    assert shown.returncode == 0, shown.stderr
    for each in yaml.safe_load_all(shown.stdout):
        assert isinstance(each["metadata"]["name"], str)
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == release


@every_helm
def test_a_monitor_has_its_limits_its_token_and_the_pods_labels(helm: str) -> None:
    limits = ("targetLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit")
    token = {"credentials": {"name": "prometheus", "key": "token"}}
    monitor: Object = {"authorization": token, "podTargetLabels": ["team"]}
    monitor |= {"enabled": True, **{limit: 10 + place for place, limit in enumerate(limits)}}
    by_service: Object = {
        "podMonitor": {**monitor, "enabled": False},
        "serviceMonitor": {"enabled": True},
    }
    for kind, endpoints, values in (
        ("PodMonitor", "podMetricsEndpoints", {"podMonitor": monitor}),
        ("ServiceMonitor", "endpoints", by_service),
    ):
        spec = only(render(helm, values), kind)["spec"]
        assert [spec[limit] for limit in limits] == [10, 11, 12, 13]
        assert spec["podTargetLabels"] == ["team"]
        assert spec[endpoints][0]["authorization"] == token


@every_helm
def test_the_service_has_the_type_and_the_port_that_are_given(helm: str) -> None:
    headless = only(render(helm, {}), "Service")["spec"]
    assert (headless["clusterIP"], headless["ports"][0]["port"]) == ("None", 9846)
    asked = only(render(helm, {"service": {"port": 80}}), "Pod")["spec"]["containers"][0]["args"][2]
    assert asked == "9846", "a headless service leads to the pods' own port"
    given = {
        "service": {"type": "NodePort", "port": 80},
        "dnsConfig": {"nameservers": ["10.0.0.2"]},
    }
    objects = render(helm, given)
    spec = only(objects, "Service")["spec"]
    assert (spec["type"], spec["ports"][0]["port"]) == ("NodePort", 80)
    assert spec["ports"][0]["targetPort"] == "metrics"
    assert "clusterIP" not in spec
    assert only(objects, "Pod")["spec"]["containers"][0]["args"][2] == "80", "`helm test` asks it"
    assert pod_spec(objects)["dnsConfig"] == {"nameservers": ["10.0.0.2"]}


@every_helm
def test_the_log_of_the_test_can_be_read_after_it(helm: str) -> None:
    """Helm 3 deletes a pod that succeeded before it asks for its log."""
    annotations = only(render(helm, {}), "Pod")["metadata"]["annotations"]
    assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation"


@every_helm
@pytest.mark.parametrize(
    ("values", "scheduler"),
    [
        ({}, "kubernetes"),
        ({"kubernetes": {"podResources": False}}, "none"),
        ({"config": {"scheduler": "slurm"}}, "slurm"),
        ({"config": {"scheduler": "auto"}, "kubernetes": {"podResources": False}}, "auto"),
    ],
)
def test_the_scheduler_is_known_from_the_place(helm: str, values: Object, scheduler: str) -> None:
    (text,) = (
        each["data"]["ofu-exporter.yaml"]
        for each in render(helm, values)
        if each["kind"] == "ConfigMap"
    )
    assert yaml.safe_load(text) == {
        "listen": "0.0.0.0:9846",
        "scheduler": scheduler,
        "allowed_hosts": "ofu-ofu-exporter.monitoring",
    }


@every_helm
def test_what_a_site_adds_to_the_pods_is_in_them(helm: str) -> None:
    objects = render(helm, VALUE_SETS["pods"])
    daemon_set, spec, own = only(objects, "DaemonSet"), pod_spec(objects), container(objects)
    added = VALUE_SETS["pods"]
    for name in ("minReadySeconds", "revisionHistoryLimit"):
        assert daemon_set["spec"][name] == added[name]
    assert daemon_set["metadata"]["annotations"] == {"team": "gpus"}
    assert daemon_set["spec"]["template"]["metadata"]["annotations"]["team"] == "gpus"
    for name in ("terminationGracePeriodSeconds", "hostNetwork", "hostPID", "initContainers"):
        assert spec[name] == added[name]
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert spec["containers"] == [own, *added["sidecars"]]
    assert own["envFrom"] == added["envFrom"]
    assert own["args"] == ["run", "--log-format=json"]
    assert own["startupProbe"]["httpGet"] == own["livenessProbe"]["httpGet"]
    assert own["startupProbe"]["failureThreshold"] == 30
    extra = [each["metadata"]["name"] for each in objects if each["kind"] == "Secret"]
    assert extra == ["ofu-text", "object"]


@every_helm
def test_what_nobody_asked_for_is_not_in_the_pods(helm: str) -> None:
    spec = pod_spec(render(helm, {}))
    assert not {"hostNetwork", "hostPID", "dnsPolicy", "initContainers"} & spec.keys()
    assert not {"envFrom", "startupProbe"} & spec["containers"][0].keys()


@every_helm
def test_a_probe_can_be_left_out(helm: str) -> None:
    own = container(render(helm, {"livenessProbe": None}))
    assert "livenessProbe" not in own
    assert own["readinessProbe"]["httpGet"]["path"] == "/readyz"


@every_helm
def test_a_given_handler_replaces_the_charts_and_dns_policy_can_be_given(helm: str) -> None:
    shell = {"command": ["true"]}
    objects = render(helm, {"livenessProbe": {"exec": shell}, "dnsPolicy": "Default"})
    probe = container(objects)["livenessProbe"]
    assert probe["exec"] == shell
    assert not {"httpGet", "tcpSocket"} & probe.keys()
    assert pod_spec(objects)["dnsPolicy"] == "Default"


@every_helm
def test_a_closed_exporter_gets_its_files_and_probes_that_need_no_way_in(helm: str) -> None:
    objects = render(helm, VALUE_SETS["closed"])
    own, spec = container(objects), pod_spec(objects)
    variables = {each["name"]: each.get("value") for each in own["env"]}
    mounts = {each["name"]: each["mountPath"] for each in own["volumeMounts"]}
    secrets = {each["name"]: each["secret"] for each in spec["volumes"] if "secret" in each}
    assert variables["OFU_TLS_CLIENT_CA"] == f"{mounts['client-ca']}/ca.crt"
    assert own["args"] == ["run", f"--web.config.file={mounts['web-config']}/web-config.yaml"]
    assert {name: secret["secretName"] for name, secret in secrets.items()} == {
        "client-ca": "authorities",
        "tls": "certificate",
        "web-config": "users",
    }
    assert {secret["defaultMode"] for secret in secrets.values()} == {0o440}
    for name in ("livenessProbe", "readinessProbe"):
        assert own[name]["tcpSocket"] == {"port": "metrics"}
        assert "httpGet" not in own[name]
    assert only(objects, "Pod")["spec"]["containers"][0]["args"][-1] == "closed"


@every_helm
def test_probes_need_no_password_where_reading_does(helm: str) -> None:
    objects = render(helm, {"webConfig": {"secret": "users"}})
    paths = {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for name, path in paths.items():
        assert container(objects)[name]["httpGet"]["path"] == path
    assert set(paths.values()) <= PROBE_PATHS
    assert only(objects, "Pod")["spec"]["containers"][0]["args"][-1] == "closed"


@every_helm
def test_the_agent_knows_every_flag_that_the_chart_gives_it(helm: str) -> None:
    known = call("run", "--help-all").stdout
    for name in ("default", "pods", "closed"):
        args = container(render(helm, VALUE_SETS[name]))["args"]
        first, *flags = [word.partition("=")[0] for word in args]
        assert first == "run"
        for flag in flags:
            assert re.search(rf"^ +{re.escape(flag)}\b", known, re.MULTILINE), flag


def look(url: str, access: str) -> tuple[int, str]:
    """What the pod of `helm test` says of an exporter."""
    scheme, _, place = url.removesuffix("/metrics").partition("://")
    host, port = place.split(":")
    script = (CHART / "files" / "test_pages.py").read_text()
    done = run(sys.executable, "-c", script, host, port, scheme, access)
    return done.returncode, done.stdout


def test_the_test_sees_that_an_exporter_is_closed_and_that_it_is_gone(tmp_path: Path) -> None:
    own = Certificates(tmp_path / "tls")
    flags = ("--tls-client-ca", own.ca, "--tls-cert", own.cert, "--tls-key", own.key)
    with agent("run", "--source", "simulate", *map(str, flags)) as running:
        code, said = look(running.url, "closed")
    assert (code, "lets in nobody" in said) == (0, True), said
    code, said = look(running.url, "closed")
    assert (code, "does not answer" in said) == (1, True), said


def test_the_test_sees_that_an_exporter_should_be_closed_and_is_open() -> None:
    with page_server(lambda: "ofu_exporter_build_info 1") as url:
        code, said = look(url, "closed")
    assert (code, "/metrics 200: everybody is let in" in said) == (1, True)


@every_helm
def test_the_report_is_made_by_a_command_that_the_exporter_takes(helm: str, tmp_path: Path) -> None:
    objects = render(helm, VALUE_SETS["report"])
    pod = pod_of(only(objects, "CronJob"))
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    assert container["args"][:2] == ["fleet", "report"]
    asked = report.make_context("report", list(container["args"][2:])).params
    assert asked["server"] == "http://prometheus.monitoring:9090"
    assert (asked["since"], asked["by"], asked["folder"]) == (
        "7d",
        "account",
        Path("/reports/pages"),
    )
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert asked["prices"].parent == Path("/config")
    maps = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ConfigMap"}
    text = maps[volumes[mounts["/config"]]["configMap"]["name"]]["data"][asked["prices"].name]
    (tmp_path / "prices.yaml").write_text(text)
    assert read_prices(tmp_path / "prices.yaml").of("NVIDIA H100 80GB HBM3") == 2.1
    claim = only(objects, "PersistentVolumeClaim")
    of_folder = volumes[mounts["/reports"]]["persistentVolumeClaim"]["claimName"]
    assert of_folder == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    labels = only(objects, "DaemonSet")["spec"]["selector"]["matchLabels"]
    assert not labels.items() <= pod["metadata"]["labels"].items()


@every_helm
def test_the_report_goes_into_a_claim_that_is_there(helm: str) -> None:
    objects = render(helm, VALUE_SETS["report-into-a-claim"])
    pod = pod_of(only(objects, "CronJob"))
    assert pod is not None
    assert "PersistentVolumeClaim" not in kinds(objects)
    assert pod["spec"]["volumes"] == [
        {"name": "reports", "persistentVolumeClaim": {"claimName": "pages"}}
    ]
    assert [each["name"] for each in pod["spec"]["containers"][0]["volumeMounts"]] == ["reports"]


@every_helm
def test_helm_test_makes_a_report_without_the_folder(helm: str) -> None:
    objects = render(helm, VALUE_SETS["report"])
    (pod,) = (each for each in objects if each["metadata"]["name"].endswith("-test-report"))
    (container,) = pod["spec"]["containers"]
    asked = report.make_context("report", list(container["args"][2:])).params
    assert (asked["folder"], asked["prices"], asked["no_changes"]) == (None, None, True)
    assert "volumes" not in pod["spec"]


@every_helm
def test_service_labels_leave_the_two_services_apart(helm: str) -> None:
    values: Object = {
        "service": {"labels": {"team": "gpus", "app.kubernetes.io/component": "other"}},
        "reports": {"nodeService": True},
    }
    services = [each for each in render(helm, values) if each["kind"] == "Service"]
    labels = [each["metadata"]["labels"] for each in services]
    assert [one["app.kubernetes.io/component"] for one in labels] == ["metrics", "reports"]
    assert {one["team"] for one in labels} == {"gpus"}
