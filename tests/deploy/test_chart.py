"""The Helm chart: what it renders is what Kubernetes takes, the exporter understands, and a site may run."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ofu_exporter import __version__
from ofu_exporter.cli.settings import configure
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.settings import Settings
from tests.deploy import values_schema, values_table
from tests.deploy.chart import (
    CHART,
    DUMPER,
    EXAMPLES,
    HELMS,
    LOADER,
    Object,
    any_helm,
    container,
    helms,
    kinds,
    need,
    node_terms,
    only,
    pod_spec,
    pods,
    refused,
    render,
    run,
)
from tests.deploy.pod_security import level
from tests.deploy.value_sets import MONITORS, VALUE_SETS
from tests.helpers.agent import agent
from tests.helpers.markdown import with_section

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chart")]

VERSIONS = [f"1.{minor}" for minor in range(25, 38, 3)]
"""Every third Kubernetes, from the oldest that the chart is for to the newest whose schemas there are."""

every_helm = pytest.mark.parametrize("helm", HELMS)
every_value_set = pytest.mark.parametrize("name", VALUE_SETS)
NOT_KUBERNETES = ("monitoring.coreos.com/", "grafana.integreatly.org/", "security.openshift.io/")
"""API groups of operators, of which there are no schemas here."""


@pytest.fixture(scope="module")
def with_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the chart with rules and a dashboard whose text is as awkward as can be."""
    chart = tmp_path_factory.mktemp("with-rules") / "chart"
    shutil.copytree(CHART, chart)
    rule = {"record": "job:a:b", "expr": 'sum(up{a=~".*\\\\d"}) > 1e9'}
    alert = {
        "alert": "Loud",
        "expr": "up == 0",
        "for": "5m",
        "annotations": {"summary": '{{ $labels.gpu }}: {{ $value | printf "%.1f" }} %\nor: `not`'},
    }
    quiet = {"alert": "Quiet", "expr": "up == 0"}
    for name, group in {"rules/a": [rule], "alerts/a": [alert], "alerts/b": [quiet]}.items():
        file = chart / "files" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        text = yaml.safe_dump({"groups": [{"name": name, "rules": group}]})
        file.write_text(f"# a comment with {{{{ braces }}}}\n{text}")
    dashboards = chart / "files" / "dashboards"
    dashboards.mkdir(exist_ok=True)
    (dashboards / "odd.json").write_text('{"legend": "{{gpu}}",\n  "text": "a\\n\\tb"}\n')
    return chart


@every_helm
def test_lint_has_nothing_to_say(helm: str) -> None:
    for values in (CHART / "values.yaml", *EXAMPLES):
        done = run(helm, "lint", "--strict", CHART, "--values", values)
        assert done.returncode == 0, done.stdout + done.stderr


@cache
def validator() -> Any:
    """kubernetes-validate, which is to read a schema once, and not again for each object."""
    found = pytest.importorskip("kubernetes_validate.utils", reason="tests/run installs it")
    found.schema_contents = cache(found.schema_contents)
    found.all_versions = cache(found.all_versions)
    return found


def validate(each: Object, version: str) -> None:
    """As `kubernetes-validate --strict`. Raises ValidationError."""
    kubernetes = validator()
    if not each["apiVersion"].startswith(NOT_KUBERNETES):
        kubernetes.validate(each, version, strict=True)


@cache
def every_object() -> list[Object]:
    """Of all sets of values, each once."""
    rendered = (each for values in VALUE_SETS.values() for each in render(any_helm(), values))
    return list({json.dumps(each): each for each in rendered}.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kubernetes_takes_every_object(version: str) -> None:
    for each in every_object():
        validate(each, version)


@every_value_set
def test_every_helm_renders_the_same(name: str) -> None:
    first, *others = (render(helm, VALUE_SETS[name]) for helm in helms())
    assert all(objects == first for objects in others)


def test_the_versions_are_those_that_the_chart_is_for_and_that_have_schemas() -> None:
    oldest = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert oldest == f">={VERSIONS[0]}.0-0"
    assert validator().latest_version() == f"{VERSIONS[-1]}.0"


@pytest.mark.parametrize("spec", [{"unknown": 1}, {"type": 1}])
def test_the_validator_would_find_what_is_wrong(spec: Object) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}
    with pytest.raises(Exception, match=r"unknown|not of type"):
        validate(service, VERSIONS[-1])


@every_value_set
def test_the_exporter_understands_its_settings(name: str, tmp_path: Path) -> None:
    objects = render(any_helm(), VALUE_SETS[name])
    file = tmp_path / "ofu-exporter.yaml"
    maps = [each for each in objects if each["kind"] == "ConfigMap"]
    (text,) = (each["data"][file.name] for each in maps if file.name in each["data"])
    file.write_text(text)
    variables = {each["name"]: each.get("value", "x") for each in container(objects)["env"]}
    environ = {key: value for key, value in variables.items() if key.startswith("OFU_")}
    settings = configure({}, environ={**environ, "OFU_CONFIG": str(file)}).settings
    (port,) = container(objects)["ports"]
    assert settings.listen.endswith(f":{port['containerPort']}")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"reports": {"nodeService": True}, "config": {"allowed_hosts": "gpu.example.org"}},
        {"fullnameOverride": "a" * 63, "reports": {"nodeService": True}},
        {"namespaceOverride": "elsewhere"},
    ],
)
def test_every_service_is_read_under_each_of_its_names(values: Object) -> None:
    objects = render(any_helm(), values)
    config = only(objects, "ConfigMap")["data"]["ofu-exporter.yaml"]
    allowed = yaml.safe_load(config)["allowed_hosts"]
    hosts = Hosts(allowed)
    services = [each["metadata"] for each in objects if each["kind"] == "Service"]
    assert services
    for service in services:
        name = f"{service['name']}.{service['namespace']}"
        for full in (service["name"], name, f"{name}.svc", f"{name}.svc.cluster.local"):
            assert hosts.matches(f"{full}:9846"), full
    own = values.get("config", {}).get("allowed_hosts")
    assert own is None or hosts.matches(own)
    assert not hosts.matches("attacker.example")


def levels() -> dict[str, tuple[Object, str]]:
    """What is said of Pod Security: values, and the level that the pods reach with them."""
    off: Object = {"podResources": False}
    return {
        "the default, `kubernetes.podResources=true`": ({}, "privileged"),
        "`kubernetes.podResources=false`": ({"kubernetes": off}, "restricted"),
        "the same with `driver.enabled=false` and `config.source=dcgm-exporter`": (
            {
                "kubernetes": off,
                "driver": {"enabled": False},
                "config": {"source": "dcgm-exporter"},
            },
            "restricted",
        ),
        "the same with `state.hostPath`": (
            {"kubernetes": off, "state": {"hostPath": "/var/lib/ofu-exporter"}},
            "privileged",
        ),
        "the same with `reports.tokenSecret` and `tls.secret`": (
            {"kubernetes": off, "reports": {"tokenSecret": "a"}, "tls": {"secret": "b"}},
            "restricted",
        ),
        "the same with `reports.socketHostPath`": (
            {"kubernetes": off, "reports": {"socketHostPath": "/run/ofu-exporter"}},
            "privileged",
        ),
        "the same with `driver.sysAdmin=true`": (
            {"kubernetes": off, "driver": {"sysAdmin": True}},
            "privileged",
        ),
        "the same with `tls.clientCaSecret` and `webConfig.secret`": (
            {"kubernetes": off, **VALUE_SETS["closed"]},
            "restricted",
        ),
        "the same with `hostNetwork=true` or `hostPID=true`": (
            {"kubernetes": off, "hostNetwork": True},
            "privileged",
        ),
        "the same with `securityContext.privileged=true`": (
            {"kubernetes": off, "securityContext": {"privileged": True}},
            "privileged",
        ),
    }


@every_helm
@pytest.mark.parametrize("what", levels())
def test_pods_reach_the_security_level_that_is_promised(helm: str, what: str) -> None:
    values, promised = levels()[what]
    agent, test = sorted(pods(render(helm, values)), key=lambda pod: pod.get("kind", ""))
    assert level(agent) == promised
    assert level(test) == "restricted"


@every_helm
def test_the_example_for_restricted_is_restricted(helm: str) -> None:
    assert {level(pod) for pod in pods(render(helm, VALUE_SETS["restricted"]))} == {"restricted"}


@every_helm
def test_whatever_is_asked_for_the_pod_has_no_more_rights_than_that(helm: str) -> None:
    for name, values in VALUE_SETS.items():
        context = container(render(helm, values))["securityContext"]
        capable = ["SYS_ADMIN"] if name == "older-gpus" else []
        privileged = values.get("securityContext", {}).get("privileged", False)
        root = capable or values.get("kubernetes", {}).get("podResources", True)
        assert context["capabilities"] == {"drop": ["ALL"], **({"add": capable} if capable else {})}
        assert context["allowPrivilegeEscalation"] is privileged
        assert context["readOnlyRootFilesystem"] is True
        assert (context.get("runAsUser") == 0) is bool(root), name


@every_helm
@every_value_set
def test_host_paths_are_read_only_but_for_state_socket_and_traces(helm: str, name: str) -> None:
    objects = render(helm, VALUE_SETS[name])
    spec = pod_spec(objects)
    hosts = {each["name"] for each in spec["volumes"] if "hostPath" in each}
    mounts = {each["name"]: each for each in container(objects)["volumeMounts"]}
    assert all(
        mounts[each].get("readOnly") for each in hosts - {"state", "report-socket", "traces"}
    )


@every_helm
def test_traces_have_one_folder_under_one_path_more_memory_and_sight_of_processes(
    helm: str,
) -> None:
    objects = render(helm, VALUE_SETS["traces"])
    spec, own = pod_spec(objects), container(objects)
    path = "/var/lib/ofu-traces"
    env = {each["name"]: each.get("value") for each in own["env"]}
    assert env["OFU_TRACES"] == "true"
    assert (env["OFU_TRACE_SOCKET_FOLDER"], env["OFU_TRACE_FOLDER"]) == (f"{path}/s", f"{path}/t")
    assert {"name": "traces", "mountPath": path} in own["volumeMounts"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["traces"]["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}
    assert volumes["report-socket"] == {"name": "report-socket", "emptyDir": {}}
    assert spec["hostPID"] is True
    assert own["resources"]["limits"]["memory"] == "512Mi"
    assert own["resources"]["requests"] == {"cpu": "10m", "memory": "96Mi"}
    assert "512 * 2 ^ 20" in json.dumps(only(objects, "PrometheusRule"))
    without = render(helm, {})
    assert "hostPID" not in pod_spec(without)
    assert not any(each["name"].startswith("OFU_TRACE") for each in container(without)["env"])
    limits = {"limits": {"memory": None}}
    unlimited = container(render(helm, {**VALUE_SETS["traces"], "resources": limits}))
    assert "memory" not in (unlimited["resources"].get("limits") or {})


def test_the_agent_runs_with_what_the_chart_gives_it_for_traces(tmp_path: Path) -> None:
    """The variables and folders of the container, which belong to its user."""
    own = container(render(any_helm(), VALUE_SETS["traces"]))
    said = {e["name"]: e["value"] for e in own["env"] if e["name"].startswith("OFU_TRACE")}
    env = {
        name: value.replace("/var/lib/ofu-traces", str(tmp_path)) for name, value in said.items()
    }
    with agent("demo", "--source", "simulate", env=env) as running:
        running.logs(f"and KINETO_IPC_SOCKET_DIR={tmp_path}/s")
        assert (tmp_path / "s" / "dynolog").is_socket()
        modes = {(tmp_path / name).stat().st_mode & 0o7777 for name in "st"}
        assert modes == {0o1733}, "everybody may create files, and remove his own alone"
        assert "system.posix_acl_default" in os.listxattr(tmp_path / "t")


@every_helm
def test_rights_in_the_cluster_come_with_pod_metadata_only(helm: str) -> None:
    assert not {"ClusterRole", "ClusterRoleBinding"} & set(kinds(render(helm, {})))
    objects = render(helm, {"kubernetes": {"metadata": True}})
    rules = only(objects, "ClusterRole")["rules"]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [
        (["pods"], ["get"]),
        (["resourceslices"], ["list"]),
        (["resourceclaims"], ["get"]),
    ]
    (subject,) = only(objects, "ClusterRoleBinding")["subjects"]
    account = only(objects, "ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    spec = pod_spec(objects)
    assert spec["automountServiceAccountToken"] is True
    assert pod_spec(render(helm, {}))["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("values", "scheduler", "says"),
    [
        ({}, "kubernetes", "A pod that runs slurmd is no job: set slurm.jobMapHostPath"),
        ({"slurm": {"jobMapHostPath": "/m"}}, "auto", "must mount /m (job mapping) of the node"),
        (
            {"slurm": {"jobsHostPath": "/j", "jobMapHostPath": "/m"}},
            "auto",
            "must mount /j (files of the hooks) and /m (job mapping) of the node",
        ),
        (
            {"slurm": {"jobsHostPath": "/j"}, "kubernetes": {"podResources": False}},
            "slurm",
            "must mount /j (files of the hooks) of the node",
        ),
        ({"kubernetes": {"podResources": False}}, "none", "Nobody says which job has which GPU"),
        (
            {"slurm": {"jobsHostPath": "/j"}, "config": {"scheduler": "slurm"}},
            "slurm",
            "must mount /j",
        ),
    ],
)
def test_the_jobs_of_slurm_in_pods_are_found_where_its_files_are_mounted(
    values: Object, scheduler: str, says: str, tmp_path: Path
) -> None:
    objects = render(any_helm(), values)
    config = yaml.safe_load(only(objects, "ConfigMap")["data"]["ofu-exporter.yaml"])
    assert config["scheduler"] == scheduler
    notes = notes_of(values, tmp_path)
    assert says in notes
    assert notes.count("Nobody says") == (scheduler == "none")


def notes_of(values: Object, folder: Path) -> str:
    """NOTES.txt is shown by an installation alone, and so by `helm install --dry-run`."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    dry = ["install", "x", str(CHART), "--dry-run=client", "--values", str(file)]
    done = run(helms()[-1], *dry)
    if "cluster unreachable" in done.stderr:
        pytest.skip("Helm 3 renders the notes for a cluster alone")
    return " ".join(done.stdout.partition("NOTES:")[2].split())


DRIVER, OPERATOR = "No pods at all, though nodes fit?", "set podMonitor.enabled=true"
OWN_JOBS, CLOSED = "Every pod counts as a job of its own", "helm -n default test x"


@pytest.mark.parametrize(
    ("values", "says", "says_not"),
    [
        ({"config": {"source": "nvml"}}, (DRIVER, OPERATOR, OWN_JOBS), ("PodMonitor x",)),
        ({"config": {"source": "dcgm"}, "driver": {"enabled": False}}, (OPERATOR,), (DRIVER,)),
        ({"driver": {"runtimeClassName": ""}}, (OWN_JOBS,), (DRIVER,)),
        ({"podMonitor": {"enabled": True}}, ("through the PodMonitor x-ofu",), (OPERATOR,)),
        ({"serviceMonitor": {"enabled": True}}, ("the ServiceMonitor x-ofu",), (OPERATOR,)),
        (
            {"podAnnotations": {"prometheus.io/scrape": "true"}, "config": {"listen": ":9999"}},
            ("the annotation prometheus.io/scrape", "port 9999, path /metrics"),
            (OPERATOR,),
        ),
        ({"kubernetes": {"metadata": True}}, (DRIVER,), (OWN_JOBS, "Nobody says")),
        ({"tests": {"enabled": False}}, (OPERATOR,), (CLOSED,)),
        (
            VALUE_SETS["traces"],
            ("KINETO_IPC_SOCKET_DIR=/var/lib/ofu-traces/s", "ofu-exporter trace NAMESPACE/JOB"),
            (OWN_JOBS,),
        ),
        ({}, (), ("KINETO",)),
    ],
    ids=[
        *("nvml", "dcgm", "runtime", "pods", "service", "annotations", "metadata", "untested"),
        *("traces", "default"),
    ],
)
def test_the_notes_say_what_goes_for_these_values_and_nothing_else(
    values: Object, says: tuple[str, ...], says_not: tuple[str, ...], tmp_path: Path
) -> None:
    notes = notes_of(values, tmp_path)
    assert [each for each in says if each not in notes] == []
    assert [each for each in says_not if each in notes] == []


@every_helm
def test_without_the_driver_there_is_no_way_to_it(helm: str) -> None:
    objects = render(helm, VALUE_SETS["beside-dcgm-exporter"])
    spec = pod_spec(objects)
    assert "runtimeClassName" not in spec
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container(objects)["env"]
    assert pod_spec(render(helm, {}))["runtimeClassName"] == "nvidia"


@every_helm
def test_gpu_nodes_are_chosen_and_their_taint_is_tolerated(helm: str) -> None:
    spec = pod_spec(render(helm, {}))
    (term,) = node_terms(spec)
    present, *_ = term["matchExpressions"]
    assert present == {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}
    assert [each["key"] for each in spec["tolerations"]] == ["nvidia.com/gpu"]


def fits(labels: dict[str, str], expressions: list[Object]) -> bool:
    """Whether a node with these labels fits a term, by the operators as Kubernetes documents them."""
    holds = {
        "In": lambda label, values: label in values,
        "NotIn": lambda label, values: label not in values,  # also where there is no such label
    }
    return all(
        holds[each["operator"]](labels.get(each["key"]), each["values"]) for each in expressions
    )


@every_helm
@pytest.mark.parametrize(
    ("labels", "runs"),
    [
        ({}, True),
        ({"nvidia.com/gpu.deploy.client": "true"}, True),
        ({"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"}, False),
        ({"nvidia.com/gpu.deploy.client": "paused-for-mig-change"}, False),
        ({"nvidia.com/gpu.deploy.client": "false"}, False),
        ({"ofu-exporter/paused": "true"}, False),
        ({"nvidia.com/gpu.present": "false"}, False),
    ],
)
def test_a_node_whose_gpus_are_needed_otherwise_is_left(
    helm: str, labels: dict[str, str], runs: bool
) -> None:
    (term,) = node_terms(pod_spec(render(helm, {})))
    assert fits({"nvidia.com/gpu.present": "true", **labels}, term["matchExpressions"]) == runs


@every_helm
def test_a_pod_that_is_not_ready_is_found_all_the_same(helm: str) -> None:
    objects = render(helm, VALUE_SETS["everything"])
    assert container(objects)["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container(objects)["livenessProbe"]["httpGet"]["path"] == "/healthz"
    service, node = (each for each in objects if each["kind"] == "Service")
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert node["spec"]["internalTrafficPolicy"] == "Local"
    by_service = render(helm, VALUE_SETS[MONITORS["ServiceMonitor"]])
    monitor = only(by_service, "ServiceMonitor")["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    assert wanted <= service["metadata"]["labels"].items()
    assert not wanted <= node["metadata"]["labels"].items(), "it would be scraped twice"
    pod = only(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert only(objects, "PodMonitor")["spec"]["selector"]["matchLabels"].items() <= pod.items()


@every_helm
def test_secrets_are_where_the_exporter_looks_and_closed_enough_for_it(helm: str) -> None:
    objects = render(helm, VALUE_SETS["everything"])
    variables = {each["name"]: each.get("value", "") for each in container(objects)["env"]}
    spec = pod_spec(objects)
    secrets = {each["name"]: each["secret"] for each in spec["volumes"] if "secret" in each}
    folders = {each["name"]: each["mountPath"] for each in container(objects)["volumeMounts"]}
    assert variables["OFU_REPORT_TOKEN_FILE"] == f"{folders['report-tokens']}/tokens"
    assert variables["OFU_TLS_CERT"] == f"{folders['tls']}/tls.crt"
    assert variables["OFU_REPORT_SOCKET"].startswith(folders["report-socket"])
    assert {each["defaultMode"] for each in secrets.values()} == {0o440}
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


@every_helm
def test_with_tls_everybody_asks_with_tls(helm: str) -> None:
    for tls, scheme in (({}, "HTTP"), ({"secret": "a"}, "HTTPS")):
        objects = render(helm, {"tls": tls, "podMonitor": {"enabled": True}})
        probes = [container(objects)[f"{name}Probe"] for name in ("liveness", "readiness")]
        assert {probe["httpGet"]["scheme"] for probe in probes} == {scheme}
        (endpoint,) = only(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
        assert endpoint.get("scheme", "http") == scheme.lower()
        (test,) = only(objects, "Pod")["spec"]["containers"]
        assert test["args"][-2] == scheme.lower()


def test_the_pod_of_helm_test_sees_exporters_that_answer_and_none() -> None:
    """What it runs, run here: over a real agent, and over nothing."""
    (pod,) = only(render(any_helm(), VALUE_SETS["default"]), "Pod")["spec"]["containers"]
    source, _, _, *more = pod["args"]
    assert more == ["http", "open"]
    with agent("run", "--source", "simulate") as running:
        host, port = running.url.removeprefix("http://").split(":")
        done = run(sys.executable, "-c", source, host, port, *more)
        assert done.returncode == 0, done.stdout + done.stderr
    gone = run(sys.executable, "-c", source, host, port, *more)
    assert gone.returncode == 1
    assert f"{host} does not answer" in gone.stdout


@every_helm
def test_series_go_on_when_a_pod_is_replaced(helm: str) -> None:
    by_kind = {kind: only(render(helm, VALUE_SETS[MONITORS[kind]]), kind) for kind in MONITORS}
    (by_pod,) = by_kind["PodMonitor"]["spec"]["podMetricsEndpoints"]
    (by_service,) = by_kind["ServiceMonitor"]["spec"]["endpoints"]
    for endpoint in (by_pod, by_service):
        assert endpoint["honorLabels"] is True
        assert endpoint["relabelings"][:3] == [
            {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"},
            {"action": "labeldrop", "regex": "pod"},
            {"targetLabel": "cluster", "replacement": "north"},
        ]


@every_helm
def test_the_pod_of_helm_test_is_not_taken_for_an_exporter(helm: str) -> None:
    objects = render(helm, VALUE_SETS["own-counters"])
    labels = only(objects, "Pod")["metadata"]["labels"].items()
    selector = only(objects, "Service")["spec"]["selector"].items()
    assert not selector <= labels
    policy = only(objects, "NetworkPolicy")["spec"]
    assert not policy["podSelector"]["matchLabels"].items() <= labels
    (rule,) = policy["ingress"]
    first = rule["from"][0]["podSelector"]["matchLabels"]
    assert first.items() <= labels, "the policy must let it in"


@every_helm
def test_what_is_not_asked_for_does_not_go_out(helm: str) -> None:
    policy: Object = {"networkPolicy": {"enabled": True}}
    closed = only(render(helm, policy), "NetworkPolicy")["spec"]
    assert closed["egress"] == []
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    asking = only(render(helm, {**policy, "kubernetes": {"metadata": True}}), "NetworkPolicy")
    (rule,) = asking["spec"]["egress"]
    assert [port["port"] for port in rule["ports"]] == [443, 6443]


@every_helm
def test_rules_are_taken_as_they_are_written(helm: str, with_rules: Path) -> None:
    objects = render(helm, {"prometheusRule": {"enabled": True}}, with_rules)
    files = sorted((with_rules / "files" / "rules").glob("*.yaml"))
    files += sorted((with_rules / "files" / "alerts").glob("*.yaml"))
    wanted = [group for file in files for group in yaml.load(file.read_text(), LOADER)["groups"]]
    assert only(objects, "PrometheusRule")["spec"]["groups"] == wanted


@every_helm
def test_alerts_can_be_left_out(helm: str, with_rules: Path) -> None:
    without: Object = {"enabled": True, "withoutAlerts": ["Quiet"]}
    objects = render(helm, {"prometheusRule": without}, with_rules)
    groups = only(objects, "PrometheusRule")["spec"]["groups"]
    assert "alerts/a" in {group["name"] for group in groups}
    assert "alerts/b" not in {group["name"] for group in groups}, "a group must not be empty"
    only_rules: Object = {"enabled": True, "alerts": False}
    objects = render(helm, {"prometheusRule": only_rules}, with_rules)
    groups = only(objects, "PrometheusRule")["spec"]["groups"]
    assert not [rule for group in groups for rule in group["rules"] if "alert" in rule]


@pytest.mark.prometheus
@every_helm
def test_promtool_takes_the_rules_of_the_chart(helm: str, with_rules: Path, tmp_path: Path) -> None:
    promtool = need("promtool")
    objects = render(helm, {"prometheusRule": {"enabled": True}}, with_rules)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.dump(only(objects, "PrometheusRule")["spec"], Dumper=DUMPER))
    done = run(promtool, "check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@every_helm
def test_dashboards_are_taken_as_they_are_written(helm: str, with_rules: Path) -> None:
    objects = render(helm, {"dashboards": {"enabled": True}}, with_rules)
    shown = {
        name: text
        for each in objects
        if each["kind"] == "ConfigMap" and "grafana_dashboard" in each["metadata"]["labels"]
        for name, text in each["data"].items()
    }
    files = (with_rules / "files" / "dashboards").glob("*.json")
    assert shown == {file.name: file.read_text() for file in files}


UNKNOWN = [
    "imagee",
    "image.tags",
    "config.intervall",
    "driver.runtimeClass",
    "affinity.nodeAffinty",
    "tolerations.0.keys",
    "env.0.values",
    "extraVolumes.0.hostpath",
    "resources.limit",
    "securityContext.capabilities.added",
    "podSecurityContext.runAsUsers",
    "updateStrategy.rollingUpdate.max",
    "livenessProbe.period",
    "kubernetes.extraRules.0.verb",
    "podMonitor.relabelings.0.label",
    "podMonitor.metricRelabelings.0.label",
    "podMonitor.attachMetadata.pod",
    "podMonitor.basicAuth.user",
    "serviceMonitor.relabeling",
    "prometheusRule.targets",
    "dashboards.grafanaOperator.folders",
    "initContainers.0.imagee",
    "sidecars.0.port",
    "envFrom.0.secret",
    "startupProbe.period",
    "tls.clientSecret",
    "webConfig.file",
    "tests.securityContext.user",
    "networkPolicy.from.0.namespaces",
    "networkPolicy.egress.0.port",
]


@every_helm
def test_an_unknown_value_is_refused_at_every_level(helm: str) -> None:
    said = refused(helm, {path: {"x": "y"} for path in UNKNOWN})
    for path in UNKNOWN:
        place, _, key = path.rpartition(".")
        reasons = (f"Additional property {key} is", f"additional properties '{key}'")  # Helm 3, 4
        assert {(place, f"{reason} not allowed") for reason in reasons} & said, path


def test_the_chart_is_of_this_version() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_the_schema_knows_every_setting_and_kubernetes_own_words(
    generated: Callable[[Path, str], None],
) -> None:
    pytest.importorskip("kubernetes_validate", reason="has Kubernetes' schemas")
    path = CHART / "values.schema.json"
    schema = json.loads(path.read_text())
    config = schema["properties"]["config"]
    wanted = {**schema, "definitions": None}
    own = {"listen": {"pattern": config["properties"]["listen"]["pattern"], "type": "string"}}
    config["properties"] = values_schema.settings(own)
    arguments = {"type": "string", "pattern": values_schema.arguments()}
    schema["properties"]["extraArgs"]["items"] = arguments
    wanted["definitions"] = values_schema.definitions(schema["properties"], f"{VERSIONS[-1]}.0")
    text = values_schema.text(wanted)
    generated(path, text)
    generated(CHART / "files" / "settings.yaml", values_schema.accepted())


def compare(values: Object, schema: Object, path: str = "") -> Iterator[str]:
    """Where the keys of values and of schema differ. What has no `properties` is Kubernetes' own or free, or
    said of another value."""
    properties = schema["properties"]
    yield from (f"{path}.{key} is only in values.yaml" for key in values.keys() - properties.keys())
    if path != ".config":  # whose defaults are the exporter's
        missing = properties.keys() - values.keys()
        yield from (f"{path}.{key} is only in the schema" for key in missing)
    for key in sorted(values.keys() & properties.keys()):
        if "properties" in properties[key] and values[key] != {}:
            yield from compare(values[key], properties[key], f"{path}.{key}")


def test_values_and_their_schema_have_the_same_keys() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert list(compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema)) == []


def test_every_value_at_the_top_has_a_comment() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    top = [number for number, line in enumerate(lines) if re.match(r"\w", line)]
    assert [lines[number] for number in top if not values_table.comment_above(lines, number)] == []


def security_table() -> list[str]:
    rows = [f"| {what} | {standard} |" for what, (_, standard) in levels().items()]
    return ["| values | strictest standard |", "|---|---|", *rows]


@pytest.mark.parametrize("section", ["values", "pod security"])
def test_the_readme_has_every_value(section: str, generated: Callable[[Path, str], None]) -> None:
    lines = values_table.table(CHART / "values.yaml") if section == "values" else security_table()
    page = CHART / "README.md"
    generated(page, with_section(page, section, lines))


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (CHART / "README.md").read_text()):
        assert (CHART / target).exists(), target


def test_the_port_is_the_exporters_own_default() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["config"]["listen"] == Settings.model_fields["listen"].default
