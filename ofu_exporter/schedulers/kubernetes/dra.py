"""Finds the GPUs that are given out through ResourceClaims, by the names that NVIDIA's DRA driver gives them.

The driver calls a GPU `gpu-N` after /dev/nvidiaN, and a MIG device after its profile and place, which
does not name the instance. The uuids of both are in the ResourceSlices that it writes for each node,
except for MIG devices that are made on demand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import Get
from ofu_exporter.schedulers.kubernetes.pod_resources import ClaimedDevice
from ofu_exporter.values.reasons import SchedulerReason

DRIVER = "gpu.nvidia.com"
_VERSIONS = ("v1", "v1beta2", "v1beta1")
_GPU = re.compile(r"gpu-(\d+)")
_CDI = re.compile(
    rf"k8s\.{re.escape(DRIVER)}/(?:device=|claim=[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}-)(.+)"
)
"""The driver's name of a device for the container runtime: one name for all claims, or one for each."""


def names(claimed: ClaimedDevice) -> list[str]:
    """The driver's names of the GPUs of a claim; empty where they are not NVIDIA's."""
    if claimed.driver:
        return [claimed.device] if claimed.driver == DRIVER and claimed.device else []
    matches = [_CDI.fullmatch(name) for name in claimed.cdi]
    return [match[1] for match in matches if match]


def device(name: str, uuids: Mapping[str, str]) -> str:
    """The name by which a GPU can be found; a name that is not understood stays unchanged."""
    if name in uuids:
        return uuids[name]
    match = _GPU.fullmatch(name)
    return f"nvidia{match[1]}" if match else name


def uuids(get: Get, node: str) -> dict[str, str]:
    """The uuid of every device that the driver offers on a node, by the driver's name. Raises SchedulerError."""
    selector = quote(f"spec.nodeName={node},spec.driver={DRIVER}", safe="")
    for version in _VERSIONS:
        document = get(
            f"/apis/resource.k8s.io/{version}/resourceslices"
            f"?fieldSelector={selector}&resourceVersion=0"
        )
        if document is not None:
            return read(document)
    return {}


def read(document: object) -> dict[str, str]:
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
