"""Finds the GPU that a scheduler means, from every form of device name that schedulers and device plugins use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ofu_exporter.values.gpu import Gpu, GpuKey

_REPLICA = re.compile(r"(?:::\d+|/vgpu\d+)$")
"""The end of a name that stands for one of several shares of a device: NVIDIA's time slicing and MPS, GKE's time
sharing."""
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/\d+")
_NODE = re.compile(r"nvidia(\d+)(?:/gi(\d+))?")
_INDEX = re.compile(r"(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device as a scheduler named it, taken apart."""

    uuid: str = ""
    """UUID of a GPU or of a MIG instance."""
    number: int | None = None
    """N of /dev/nvidiaN."""
    instance: str = ""
    """GPU-instance id."""
    shared: bool = False
    """Whether the name means a share of the device, which other jobs may use as well."""


def parse(name: str) -> DeviceName:
    """Take a device's name apart.

    These forms are understood: `GPU-...`, `MIG-...`, `MIG-GPU-.../gi/ci` (drivers before R470),
    `nvidiaN` and `nvidiaN/giM` (GKE), `N` and `N.M` (Slurm, dcgm-exporter's job mapping), each also
    as one of several shares: `...::K` (NVIDIA's device plugin), `.../vgpuK` (GKE).
    """
    base = _REPLICA.sub("", name)
    shared = base != name
    if match := _OLD_MIG.fullmatch(base):
        return DeviceName(uuid=match[1], instance=match[2], shared=shared)
    if match := _NODE.fullmatch(base) or _INDEX.fullmatch(base):
        return DeviceName(number=int(match[1]), instance=match[2] or "", shared=shared)
    return DeviceName(uuid=base, shared=shared)


def find(device: DeviceName, gpus: Iterable[Gpu]) -> list[GpuKey]:
    """The measured devices that a name stands for; empty when there is none.

    The name of a whole GPU that is divided stands for all of its instances.
    """
    return [gpu.key for gpu in gpus if _means(device, gpu)]


def _means(device: DeviceName, gpu: Gpu) -> bool:
    if device.uuid:
        if device.uuid == gpu.mig_uuid:
            return True
        named = device.uuid == gpu.uuid
    elif gpu.minor is not None:
        named = device.number == gpu.minor
    else:
        named = str(device.number) == gpu.index
    return named and device.instance in ("", gpu.instance)
