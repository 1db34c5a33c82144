"""Finds the pods that hold GPUs among all pods that kubelet lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ofu_exporter.schedulers.kubernetes import dra
from ofu_exporter.schedulers.kubernetes.pod_resources import PodResources
from ofu_exporter.schedulers.kubernetes.workloads import is_sane
from ofu_exporter.values.reasons import ClaimRejection

PodName = tuple[str, str]
"""Namespace and name."""

RESOURCE = "nvidia.com/gpu"
RESOURCE_PREFIXES = ("nvidia.com/gpu.", "nvidia.com/mig-")
"""`nvidia.com/gpu.shared` is the device plugin's own name for shares; other renamed resources have the same form."""
_OBJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(slots=True)
class GpuPod:
    devices: set[str] = field(default_factory=set)
    """Devices from device plugins, by the plugins' names."""
    claimed: set[str] = field(default_factory=set)
    """Devices from ResourceClaims, by the names of NVIDIA's DRA driver."""
    shares: set[str] = field(default_factory=set)
    """Devices of `claimed` that are meant to be shared."""
    containers: set[str] = field(default_factory=set)
    """The containers of the pod that have these devices."""


class GpuPods:
    """Knows which resources are GPUs, and counts rejected names."""

    def __init__(self, more_resources: Iterable[str], rejected: Counter[str]) -> None:
        self._resources = {RESOURCE, *more_resources}
        self._rejected = rejected

    @property
    def marks(self) -> Collection[bytes]:
        """Byte strings, at least one of which is in the entry of every pod that holds a GPU."""
        names = (*self._resources, *RESOURCE_PREFIXES, dra.DRIVER)
        return tuple(name.encode() for name in names)

    def find(self, listed: Iterable[PodResources]) -> dict[PodName, GpuPod]:
        pods: dict[PodName, GpuPod] = {}
        for entry in listed:
            name = (entry.namespace, entry.name)
            pod = pods.get(name) or GpuPod()
            self._add_devices(pod, entry)
            if not pod.devices and not pod.claimed:
                continue
            if all(map(_OBJECT_NAME.fullmatch, name)):
                pods[name] = pod
            else:
                self._rejected[ClaimRejection.MALFORMED.value] += 1
        return pods

    def _add_devices(self, pod: GpuPod, entry: PodResources) -> None:
        for resource, name, container in entry.devices:
            if resource in self._resources or resource.startswith(RESOURCE_PREFIXES):
                self._add(pod.devices, name)
                pod.containers.add(container)
        for claimed in entry.claimed:
            for name in dra.names(claimed):
                self._add(pod.claimed, name)
                pod.containers.add(claimed.container)
                if claimed.share:
                    pod.shares.add(name)

    def _add(self, names: set[str], name: str) -> None:
        if name and is_sane(name):
            names.add(name)
        else:
            self._rejected[ClaimRejection.MALFORMED.value] += 1
