"""The checker of the Pod Security Standards sees every control broken, one at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.deploy.pod_security import baseline, level, restricted

GOOD: dict[str, Any] = {
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [
            {
                "name": "only",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
}


def with_change(path: str, value: object) -> dict[str, Any]:
    """GOOD with one thing set, numbers in the path being places in lists."""
    pod = copy.deepcopy(GOOD)
    *way, last = path.split(".")
    place: Any = pod
    for step in way:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    place[last] = value
    return pod


CONTAINER = "spec.containers.0"
CONTEXT = f"{CONTAINER}.securityContext"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/only"


def test_a_good_pod_is_restricted() -> None:
    assert level(GOOD) == "restricted"


@pytest.mark.parametrize(
    ("path", "value", "control"),
    [
        ("spec.hostNetwork", True, "Host Namespaces"),
        ("spec.hostPID", True, "Host Namespaces"),
        ("spec.hostIPC", True, "Host Namespaces"),
        ("spec.volumes", [{"name": "a", "hostPath": {"path": "/"}}], "HostPath Volumes"),
        ("metadata.annotations", {APPARMOR: "unconfined"}, "AppArmor"),
        (f"{CONTAINER}.ports", [{"hostPort": 80}], "Host Ports"),
        (f"{CONTAINER}.livenessProbe.httpGet.host", "x", "Host Probes / Lifecycle Hooks"),
        (f"{CONTAINER}.lifecycle.postStart.tcpSocket.host", "x", "Host Probes / Lifecycle Hooks"),
        (f"{CONTEXT}.windowsOptions.hostProcess", True, "HostProcess"),
        (f"{CONTEXT}.privileged", True, "Privileged Containers"),
        (f"{CONTEXT}.capabilities.add", ["SYS_ADMIN"], "Capabilities"),
        (f"{CONTEXT}.appArmorProfile.type", "Unconfined", "AppArmor"),
        (f"{CONTEXT}.seLinuxOptions.type", "spc_t", "SELinux"),
        (f"{CONTEXT}.seLinuxOptions.user", "root", "SELinux"),
        (f"{CONTEXT}.procMount", "Unmasked", "/proc Mount Type"),
        (f"{CONTEXT}.seccompProfile.type", "Unconfined", "Seccomp"),
        ("spec.securityContext.sysctls", [{"name": "kernel.panic"}], "Sysctls"),
    ],
)
def test_baseline_forbids(path: str, value: object, control: str) -> None:
    pod = with_change(path, value)
    assert list(baseline(pod)) == [control]
    assert level(pod) == "privileged"


@pytest.mark.parametrize(
    ("path", "value", "control"),
    [
        ("spec.volumes", [{"name": "a", "nfs": {"server": "x", "path": "/"}}], "Volume Types"),
        (f"{CONTEXT}.allowPrivilegeEscalation", True, "Privilege Escalation"),
        (f"{CONTEXT}.allowPrivilegeEscalation", None, "Privilege Escalation"),
        ("spec.securityContext.runAsNonRoot", False, "Running as Non-root"),
        (f"{CONTEXT}.runAsNonRoot", False, "Running as Non-root"),
        (f"{CONTEXT}.runAsUser", 0, "Running as Non-root user"),
        ("spec.securityContext.runAsUser", 0, "Running as Non-root user"),
        ("spec.securityContext.seccompProfile", {}, "Seccomp"),
        (f"{CONTEXT}.capabilities.drop", [], "Capabilities"),
        (f"{CONTEXT}.capabilities.add", ["CHOWN"], "Capabilities"),
    ],
)
def test_restricted_forbids_what_baseline_lets_through(
    path: str, value: object, control: str
) -> None:
    pod = with_change(path, value)
    assert list(restricted(pod)) == [control]
    assert level(pod) == "baseline"
