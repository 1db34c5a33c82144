"""Finds the pods that hold GPUs, by device plugins or ResourceClaims, among all pods that kubelet lists.

NVIDIA's DRA driver, which serves claims, calls a GPU `gpu-N` after /dev/nvidiaN, and a MIG device after its profile and
place, which does not name the instance. The uuids of both are in the ResourceSlices that it writes for each node,
except for MIG devices that are made on demand, which `mig_devices` finds.

A pod that runs slurmd has its GPUs for Slurm's jobs, which Slurm's hooks name. It is no job itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
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
ClaimName = tuple[str, str]
"""Namespace and name of a ResourceClaim."""
_OBJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class Allotted(NamedTuple):
    """A device that a ResourceClaim gives to a pod."""

    name: str
    """The name of NVIDIA's DRA driver."""
    claim_uid: str
    claim: ClaimName = ("", "")


@dataclass(slots=True)
class GpuPod:
    devices: set[str] = field(default_factory=set)
    """Devices from device plugins, by the plugins' names."""
    allotted: set[Allotted] = field(default_factory=set)
    """Devices from ResourceClaims."""
    shares: set[str] = field(default_factory=set)
    """Devices of `claimed` that are meant to be shared."""
    containers: set[str] = field(default_factory=set)
    """The containers of the pod that have these devices."""

    @property
    def claimed(self) -> set[str]:
        """The names of the devices from ResourceClaims."""
        return {each.name for each in self.allotted}


class GpuPods:
    """Knows which resources are GPUs, and counts rejected names."""

    def __init__(
        self, more_resources: Iterable[str], slurmd: Iterable[str], rejected: Counter[str]
    ) -> None:
        """`slurmd` are the names of containers whose GPUs Slurm gives to its jobs."""
        self._resources = {RESOURCE, *more_resources}
        self._slurmd = frozenset(slurmd)
        self._rejected = rejected
        self.slurm_pods: frozenset[PodName] = frozenset()
        """The pods of the last answer that have GPUs for Slurm's jobs."""

    @property
    def marks(self) -> Collection[bytes]:
        """Byte strings, at least one of which is in the entry of every pod that holds a GPU."""
        names = (*self._resources, *RESOURCE_PREFIXES, DRIVER)
        return tuple(name.encode() for name in names)

    def find(self, listed: Iterable[PodResources]) -> dict[PodName, GpuPod]:
        pods: dict[PodName, GpuPod] = {}
        of_slurm: set[PodName] = set()
        for entry in listed:
            name = (entry.namespace, entry.name)
            of_devices = {each.container for each in entry.devices}
            if self._slurmd & (of_devices | {each.container for each in entry.claimed}):
                of_slurm.add(name)
            pod = pods.get(name) or GpuPod()
            self._add_devices(pod, entry)
            if not pod.devices and not pod.claimed:
                continue
            if all(map(_OBJECT_NAME.fullmatch, name)):
                pods[name] = pod
            else:
                self._rejected[ClaimRejection.MALFORMED.value] += 1
        self.slurm_pods = frozenset(of_slurm)
        return pods

    def _add_devices(self, pod: GpuPod, entry: PodResources) -> None:
        for resource, name, container in entry.devices:
            is_gpu = resource in self._resources or resource.startswith(RESOURCE_PREFIXES)
            if is_gpu and container not in self._slurmd:
                if self._is_name(name):
                    pod.devices.add(name)
                pod.containers.add(container)
        for claimed in entry.claimed:
            for each in allotted(claimed) if claimed.container not in self._slurmd else ():
                if self._is_name(each.name):
                    pod.allotted.add(each)
                pod.containers.add(claimed.container)
                if claimed.share:
                    pod.shares.add(each.name)

    def _is_name(self, name: str) -> bool:
        is_name = bool(name) and is_sane(name)
        self._rejected[ClaimRejection.MALFORMED.value] += not is_name
        return is_name


DRIVER = "gpu.nvidia.com"
"""The name of that driver."""
_VERSIONS = ("v1", "v1beta2", "v1beta1")
_GPU = re.compile(r"gpu-(\d+)")
_CDI = re.compile(
    rf"k8s\.{re.escape(DRIVER)}/(?:device=|claim=([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})-)(.+)"
)
"""The driver's name of a device for the container runtime: one name for all claims, or one for each."""


def allotted(claimed: ClaimedDevice) -> list[Allotted]:
    """The GPUs of an entry of kubelet's; empty where they are not NVIDIA's.

    Kubelet gives each device the CDI names of those before it, too.
    """
    matches = [match for name in claimed.cdi if (match := _CDI.fullmatch(name))]
    named = [Allotted(match[2], match[1] or "", claimed.claim) for match in matches]
    if not claimed.driver:
        return named
    if claimed.driver != DRIVER or not claimed.device:
        return []
    of_device = (each for each in named if each.name == claimed.device)
    return [next(of_device, Allotted(claimed.device, "", claimed.claim))]


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


def admin_devices(get: Get, claim: ClaimName) -> frozenset[str]:
    """The devices of a claim that it only looks at: with `adminAccess` a pod has no GPU. Raises SchedulerError."""
    namespace, name = (quote(part, safe="") for part in claim)
    for version in _VERSIONS:
        path = f"namespaces/{namespace}/resourceclaims/{name}?resourceVersion=0"
        document = get(f"/apis/resource.k8s.io/{version}/{path}")
        if document is not None:
            return admin_of_claim(document)
    return frozenset()


def admin_of_claim(document: object) -> frozenset[str]:
    """The same, of a ResourceClaim of any version. Raises SchedulerError."""
    try:
        allocation = document["status"].get("allocation") or {}  # type: ignore[index]
        results = (allocation.get("devices") or {}).get("results") or ()
        return frozenset(
            str(each["device"])
            for each in results
            if each["driver"] == DRIVER and each.get("adminAccess") is True
        )
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        detail = f"API server: no ResourceClaim: {type(error).__name__}: {error}"
        raise SchedulerError(SchedulerReason.BAD_ANSWER, detail) from error
