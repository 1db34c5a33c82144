"""Finds the pods that hold GPUs, by device plugins or ResourceClaims, among all pods that kubelet lists.

NVIDIA's DRA driver, which serves claims, calls a GPU `gpu-N` after /dev/nvidiaN, and a MIG device after its profile and
place, which does not name the instance. The uuids of both are in the ResourceSlices that it writes for each node,
except for MIG devices that are made on demand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import Get
from ofu_exporter.schedulers.kubernetes.pod_resources import ClaimedDevice, PodResources
from ofu_exporter.schedulers.kubernetes.workloads import is_sane
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason

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
        names = (*self._resources, *RESOURCE_PREFIXES, DRIVER)
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
            for name in names_of_claim(claimed):
                self._add(pod.claimed, name)
                pod.containers.add(claimed.container)
                if claimed.share:
                    pod.shares.add(name)

    def _add(self, names: set[str], name: str) -> None:
        if name and is_sane(name):
            names.add(name)
        else:
            self._rejected[ClaimRejection.MALFORMED.value] += 1


DRIVER = "gpu.nvidia.com"
"""The name of that driver."""
_VERSIONS = ("v1", "v1beta2", "v1beta1")
_GPU = re.compile(r"gpu-(\d+)")
_CDI = re.compile(
    rf"k8s\.{re.escape(DRIVER)}/(?:device=|claim=[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}-)(.+)"
)
"""The driver's name of a device for the container runtime: one name for all claims, or one for each."""


def names_of_claim(claimed: ClaimedDevice) -> list[str]:
    """The driver's names of the GPUs of a claim; empty where they are not NVIDIA's."""
    if claimed.driver:
        return [claimed.device] if claimed.driver == DRIVER and claimed.device else []
    matches = [_CDI.fullmatch(name) for name in claimed.cdi]
    return [match[1] for match in matches if match]


def claimed_device(name: str, uuids: Mapping[str, str]) -> str:
    """The name by which a GPU can be found; a name that is not understood stays unchanged."""
    if name in uuids:
        return uuids[name]
    match = _GPU.fullmatch(name)
    return f"nvidia{match[1]}" if match else name


def uuids_of_claimed(get: Get, node: str) -> dict[str, str]:
    """The uuid of every device that the driver offers on a node, by the driver's name. Raises SchedulerError."""
    selector = quote(f"spec.nodeName={node},spec.driver={DRIVER}", safe="")
    for version in _VERSIONS:
        document = get(
            f"/apis/resource.k8s.io/{version}/resourceslices"
            f"?fieldSelector={selector}&resourceVersion=0"
        )
        if document is not None:
            return uuids_of_slices(document)
    return {}


def uuids_of_slices(document: object) -> dict[str, str]:
    """The uuids in a list of ResourceSlices, of any version. Raises SchedulerError."""
    uuids = {}
    try:
        for item in document["items"] or ():  # type: ignore[index]
            if item["spec"]["driver"] != DRIVER:
                continue
            for offered in item["spec"].get("devices") or ():
                attributes = offered.get("basic", offered).get("attributes") or {}
                uuid = (attributes.get("uuid") or {}).get("string")
                if isinstance(uuid, str) and uuid:
                    uuids[str(offered["name"])] = uuid
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        detail = f"API server: no ResourceSlices: {type(error).__name__}: {error}"
        raise SchedulerError(SchedulerReason.BAD_ANSWER, detail) from error
    return uuids
