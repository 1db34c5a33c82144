"""What the Pod Security Standards say of a pod: https://kubernetes.io/docs/concepts/security/pod-security-standards/

Every control of the two standards that a pod of Linux can break, by its name there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

Object = dict[str, Any]
Level = Literal["privileged", "baseline", "restricted"]

BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    }
)
SELINUX_TYPES = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def level(pod: Object) -> Level:
    """The strictest standard that the pod obeys."""
    if any(baseline(pod)):
        return "privileged"
    return "baseline" if any(restricted(pod)) else "restricted"


def baseline(pod: Object) -> Iterator[str]:
    """The controls of "baseline" that the pod breaks."""
    spec = pod["spec"]
    if any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        yield "Host Namespaces"
    if any("hostPath" in volume for volume in spec.get("volumes", ())):
        yield "HostPath Volumes"
    annotations = pod.get("metadata", {}).get("annotations") or {}
    for name, value in annotations.items():
        ours = name.startswith("container.apparmor.security.beta.kubernetes.io/")
        if ours and value != "runtime/default" and not value.startswith("localhost/"):
            yield "AppArmor"
    for context in contexts(spec):
        yield from _baseline_context(context)
    for each in containers(spec):
        if any(port.get("hostPort") for port in each.get("ports", ())):
            yield "Host Ports"
        if any(handler.get("host") for handler in _handlers(each)):
            yield "Host Probes / Lifecycle Hooks"


def _baseline_context(context: Object) -> Iterator[str]:
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield "HostProcess"
    if context.get("privileged"):
        yield "Privileged Containers"
    if set(context.get("capabilities", {}).get("add", ())) - BASELINE_CAPABILITIES:
        yield "Capabilities"
    if context.get("appArmorProfile", {}).get("type", "RuntimeDefault") == "Unconfined":
        yield "AppArmor"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield "SELinux"
    if context.get("procMount", "Default") != "Default":
        yield "/proc Mount Type"
    if context.get("seccompProfile", {}).get("type", "RuntimeDefault") == "Unconfined":
        yield "Seccomp"
    if {sysctl["name"] for sysctl in context.get("sysctls", ())} - SAFE_SYSCTLS:
        yield "Sysctls"


def restricted(pod: Object) -> Iterator[str]:
    """The controls that "restricted" adds and the pod breaks."""
    spec = pod["spec"]
    for volume in spec.get("volumes", ()):
        if not volume.keys() - {"name"} <= RESTRICTED_VOLUMES:
            yield "Volume Types"
    whole = spec.get("securityContext", {})
    if any(context.get("runAsUser") == 0 for context in contexts(spec)):
        yield "Running as Non-root user"
    for each in containers(spec):
        own = each.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            yield "Privilege Escalation"
        if own.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True:
            yield "Running as Non-root"
        seccomp = own.get("seccompProfile", whole.get("seccompProfile", {}))
        if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "Seccomp"
        capabilities = own.get("capabilities", {})
        added = set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}
        if "ALL" not in capabilities.get("drop", ()) or added:
            yield "Capabilities"


def containers(spec: Object) -> list[Object]:
    names = ("initContainers", "containers", "ephemeralContainers")
    return [each for name in names for each in spec.get(name, ())]


def contexts(spec: Object) -> list[Object]:
    """The security contexts of the pod and of its containers."""
    return [holder.get("securityContext", {}) for holder in (spec, *containers(spec))]


def _handlers(each: Object) -> Iterator[Object]:
    hooks = each.get("lifecycle", {}).values()
    probes = [each.get(f"{name}Probe", {}) for name in ("liveness", "readiness", "startup")]
    for handler in (*hooks, *probes):
        yield handler.get("httpGet", {})
        yield handler.get("tcpSocket", {})
