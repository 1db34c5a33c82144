"""What the chart's examples promise of their platforms; that Kubernetes takes them is tested with all value sets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart import (
    CHART,
    EXAMPLES,
    HELMS,
    ROOT,
    container,
    node_terms,
    only,
    pod_spec,
    render,
    run,
)
from tests.deploy.value_sets import VALUE_SETS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chart")]
every_helm = pytest.mark.parametrize("helm", HELMS)
PAGES = [ROOT / "docs" / "kubernetes.md", ROOT / "tests" / "deploy" / "on_a_cluster.md"]
PAGES += [CHART / "README.md"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_readme_says_what_it_is_for(path: object) -> None:
    name = getattr(path, "name", "")
    assert f"| [{name}](examples/{name}) |" in (CHART / "README.md").read_text()


@every_helm
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_pod_leaves_a_node_that_is_paused(helm: str, path: Path) -> None:
    """docs/configuration.md says so of every affinity."""
    objects = render(helm, yaml.safe_load(path.read_text()))
    for term in node_terms(pod_spec(objects)):
        keys = {each["key"] for each in term["matchExpressions"]}
        assert {"ofu-exporter/paused", "nvidia.com/gpu.deploy.client"} <= keys


def helm_commands(page: Path) -> list[list[str]]:
    """The words of every `helm install` and `helm upgrade` of a page."""
    text = page.read_text().replace("\\\n", " ")
    commands = [
        shlex.split(line, comments=True) for line in re.findall(r"^    (helm .*)", text, re.M)
    ]
    return [words for words in commands if {"install", "upgrade"} & set(words)]


@every_helm
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_commands_of_the_documentation_render(helm: str, page: Path) -> None:
    """As `helm template`, which takes the same words; what is kept of an earlier version is nothing here."""
    assert helm_commands(page)
    for words in helm_commands(page):
        asked = ["template" if word in {"install", "upgrade"} else word for word in words[1:]]
        done = run(helm, *(word for word in asked if not word.endswith("reuse-values")))
        assert done.returncode == 0, done.stderr


@every_helm
def test_on_gke_the_library_is_found_where_googles_driver_is_mounted(helm: str) -> None:
    objects = render(helm, VALUE_SETS["gke"])
    spec, own = pod_spec(objects), container(objects)
    (driver,) = (each for each in spec["volumes"] if each["name"] == "driver")
    (mount,) = (each for each in own["volumeMounts"] if each["name"] == "driver")
    (library,) = (each for each in own["env"] if each["name"] == "LD_LIBRARY_PATH")
    assert driver["hostPath"]["path"] == "/home/kubernetes/bin/nvidia"
    assert library["value"] == f"{mount['mountPath']}/lib64"
    assert mount["readOnly"] is True
    assert own["securityContext"]["privileged"] is True
    assert "runtimeClassName" not in spec
    (term,) = node_terms(spec)
    assert term["matchExpressions"][0]["key"] == "cloud.google.com/gke-accelerator"


@every_helm
def test_on_eks_any_label_that_tells_of_gpus_is_enough(helm: str) -> None:
    spec = pod_spec(render(helm, VALUE_SETS["eks"]))
    wanted = [
        [each for each in term["matchExpressions"] if each["operator"] == "In"]
        for term in node_terms(spec)
    ]
    assert all(len(of_term) == 1 for of_term in wanted), "or, not and"
    assert len(node_terms(spec)) == 4
    assert "runtimeClassName" not in spec
    assert not spec["containers"][0]["securityContext"].get("privileged")


@every_helm
def test_on_openshift_the_account_may_use_the_constraint_and_the_test_has_no_user(
    helm: str,
) -> None:
    objects = render(helm, VALUE_SETS["openshift"])
    rule = only(objects, "ClusterRole")["rules"][-1]
    assert (rule["apiGroups"], rule["verbs"]) == (["security.openshift.io"], ["use"])
    (subject,) = only(objects, "ClusterRoleBinding")["subjects"]
    assert subject["name"] == pod_spec(objects)["serviceAccountName"]
    assert container(objects)["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    assert container(objects)["securityContext"]["allowPrivilegeEscalation"] is False
    test = only(objects, "Pod")["spec"]["securityContext"]
    assert not {"runAsUser", "runAsGroup"} & test.keys()


@every_helm
def test_without_the_operator_the_runtime_class_is_made_that_the_pods_ask_for(helm: str) -> None:
    objects = render(helm, VALUE_SETS["without-operator"])
    made = only(objects, "RuntimeClass")
    assert made["metadata"]["name"] == pod_spec(objects)["runtimeClassName"] == made["handler"]


@every_helm
def test_with_the_operator_its_runtime_class_is_used(helm: str) -> None:
    objects = render(helm, VALUE_SETS["own-counters"])
    assert pod_spec(objects)["runtimeClassName"] == "nvidia"
    assert "RuntimeClass" not in {each["kind"] for each in objects}
