"""Finds the MIG instance that NVIDIA's DRA driver made for a claim, by the device files that the claim's pod gets.

Such a device is called after the GPU, the profile and its place (`gpu-0-mig-1g12gb-19-0`), made when a pod needs it and
destroyed afterwards; no ResourceSlice has its uuid. The driver writes a CDI specification for each claim, with the
container's `/dev/nvidia-caps/nvidia-capN`, and the kernel module says in `mig-minors` whose N that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from ofu_exporter.errors import ConfigError
from ofu_exporter.schedulers.kubernetes.gpu_pods import DRIVER, Allotted
from ofu_exporter.support.small_files import read_small

MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
_IS_MADE = re.compile(r"gpu-\d+-mig-.+-\d+-\d+")
_MINOR = re.compile(r"(?m)^gpu(\d+)/gi(\d+)(?:/ci\d+)?/access (\d+)$")
_NO_SPEC = (AttributeError, TypeError, ValueError)
"""What reading a specification raises that has another form."""
_CAP = re.compile(r"/dev/nvidia-caps/nvidia-cap(\d+)")


class MigDevices:
    """Remembers what it found while a pod has it: the specification of a claim never changes."""

    def __init__(self, cdi: Path, minors: Path) -> None:
        self._cdi = cdi
        self._minors = minors
        self._places: dict[Allotted, str] = {}

    def places(self, allotted: Iterable[Allotted]) -> Mapping[str, str]:
        """Of each MIG device that can be found, by the driver's name: `nvidiaN/giM`."""
        devices = {each for each in allotted if each.claim_uid and _IS_MADE.fullmatch(each.name)}
        places = {each: place for each, place in self._places.items() if each in devices}
        for uid in {each.claim_uid for each in devices - places.keys()}:
            for name, place in self._read(uid).items():
                places |= {each: place for each in devices if each[:2] == (name, uid)}
        self._places = places
        return {each.name: place for each, place in places.items()}

    def _read(self, uid: str) -> dict[str, str]:
        """The devices of one claim; none where its specification cannot be read: the device stays unknown."""
        path = self._cdi / f"k8s.{DRIVER}-claim_{uid}.yaml"
        with suppress(ConfigError, yaml.YAMLError, RecursionError, LookupError, *_NO_SPEC):
            owners = _owners(read_small(self._minors, "the MIG minors"))
            spec = yaml.safe_load(read_small(path, "the CDI specification"))
            return {
                str(device["name"]).removeprefix(f"{uid}-"): place
                for device in spec["devices"]
                if (place := _place(device, owners))
            }
        return {}


def _owners(text: str) -> dict[int, str]:
    """The MIG instance to which each minor number gives access."""
    return {int(minor): f"nvidia{gpu}/gi{part}" for gpu, part, minor in _MINOR.findall(text)}


def _place(device: Any, owners: Mapping[int, str]) -> str:
    """The one instance whose files a device has; "" for any other device."""
    nodes = device["containerEdits"].get("deviceNodes") or ()
    caps = [match for node in nodes if (match := _CAP.fullmatch(str(node["path"])))]
    instances = {owners.get(int(cap[1]), "") for cap in caps}
    return instances.pop() if len(instances) == 1 else ""
