"""MIG devices that the DRA driver makes on demand, found by what it and the kernel module write on the node.

The specification is written as `CreateClaimSpecFile` in cmd/gpu-kubelet-plugin/cdi.go of
github.com/NVIDIA/k8s-dra-driver-gpu writes it (commit 2240711), the minors as the comment above `ParseNVCapDeviceInfo`
in its internal/common/nvcaps.go and `processMinorsFile` in internal/nvcaps/nvcaps.go of NVIDIA's container toolkit have
them.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ofu_exporter.schedulers.kubernetes.gpu_pods import Allotted
from ofu_exporter.schedulers.kubernetes.mig_devices import MigDevices
from ofu_exporter.values import device_names
from tests.helpers.every import every
from tests.helpers.values import gpu

UID = "dab5ab50-d59a-42a6-af16-cfd4628c0f7a"
NAME = "gpu-0-mig-1g12gb-19-0"
MADE = Allotted(NAME, UID, ("ns", "c"))
MINORS = "config 1\nmonitor 2\n" + "".join(
    f"gpu{card}/gi{part}{piece}/access {3 + 135 * card + 9 * part + number}\n"
    for card in range(2)
    for part in range(15)
    for number, piece in enumerate(["", *(f"/ci{each}" for each in range(8))])
)
"""As on two H100: nine files for each of 15 instances of a GPU."""


class Driver:
    """Writes what the driver and the kernel module write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.minors = folder / "mig-minors"
        self.minors.write_text(MINORS)
        self.devices = MigDevices(folder, self.minors)

    def prepare(self, *caps: int, name: str = NAME, uid: str = UID) -> None:
        paths = ["/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{cap}" for cap in caps)]
        nodes = [{"path": path, "type": "c", "major": 237} for path in paths]
        hook = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}
        spec = {
            "cdiVersion": "0.7.0",
            "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "hooks": [hook]},
            "devices": [{"containerEdits": {"deviceNodes": nodes}, "name": f"{uid}-{name}"}],
            "kind": "k8s.gpu.nvidia.com/claim",
        }
        self.path(uid).write_text(yaml.safe_dump(spec))

    def path(self, uid: str = UID) -> Path:
        return self.folder / f"k8s.gpu.nvidia.com-claim_{uid}.yaml"


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def test_the_minors_are_those_of_the_documentation() -> None:
    for line in ("gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4", "gpu0/gi0/ci1/access 5"):
        assert f"{line}\n" in MINORS


def test_a_device_is_the_instance_whose_files_its_pod_gets(driver: Driver) -> None:
    """gpu0/gi9 has 84, its first compute instance 85."""
    driver.prepare(84, 85)
    assert driver.devices.places([MADE, Allotted("gpu-1", UID)]) == {NAME: "nvidia0/gi9"}
    instances = [replace(gpu(1, instance=part), minor=0) for part in ("8", "9")]
    assert device_names.find(device_names.parse("nvidia0/gi9"), instances) == [instances[1].key]


def test_a_device_made_again_under_its_name_is_another_instance(driver: Driver) -> None:
    other = "0e4ca4a1-2f3b-4c5d-8e6f-7a8b9c0d1e2f"
    driver.prepare(84, 85)
    assert driver.devices.places([MADE]) == {NAME: "nvidia0/gi9"}
    driver.path().unlink()
    assert driver.devices.places([MADE]) == {NAME: "nvidia0/gi9"}, "what was read is remembered"
    driver.prepare(93, 94, uid=other)
    assert driver.devices.places([MADE._replace(claim_uid=other)]) == {NAME: "nvidia0/gi10"}
    assert driver.devices.places([]) == {}
    assert driver.devices.places([MADE]) == {}, "it is forgotten with the pod"


def test_two_claims_of_one_pod(driver: Driver) -> None:
    second = Allotted("gpu-1-mig-2g24gb-14-4", "0e4ca4a1-2f3b-4c5d-8e6f-7a8b9c0d1e2f")
    driver.prepare(84, 85)
    driver.prepare(138, 139, name=second.name, uid=second.claim_uid)
    assert driver.devices.places([MADE, second]) == {
        NAME: "nvidia0/gi9",
        second.name: "nvidia1/gi0",
    }


def test_files_of_two_instances_are_none(driver: Driver) -> None:
    driver.prepare(84, 94)
    assert driver.devices.places([MADE]) == {}


def test_it_is_found_once_the_files_are_there(driver: Driver) -> None:
    driver.minors.unlink()
    driver.prepare(84, 85)
    assert driver.devices.places([MADE]) == {}
    driver.minors.write_text(MINORS)
    assert driver.devices.places([MADE]) == {NAME: "nvidia0/gi9"}


@every(
    ["", "[]", "devices: 5", "devices: [7]", "devices: [{name: x}]", "\x00", "a: [", "b: &a [*a]"]
)
def test_a_damaged_specification_costs_itself(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder))
        driver.path().write_text(text)
        assert driver.devices.places([MADE]) == {}
