"""Every form in which a scheduler names a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.values.device_names import DeviceName, find, parse
from tests.helpers.values import gpu

UUID = "GPU-8f2d7a6e-1c1f-4d51-9b0a-000000000003"


@pytest.mark.parametrize(
    ("name", "device"),
    [
        (UUID, DeviceName(uuid=UUID)),
        ("MIG-5c3e-77", DeviceName(uuid="MIG-5c3e-77")),
        (f"MIG-{UUID}/3/0", DeviceName(uuid=UUID, instance="3")),
        ("nvidia3", DeviceName(number=3)),
        ("nvidia3/gi5", DeviceName(number=3, instance="5")),
        ("3", DeviceName(number=3)),
        ("3.5", DeviceName(number=3, instance="5")),
        (f"{UUID}::2", DeviceName(uuid=UUID, shared=True)),
        ("MIG-5c3e-77::0", DeviceName(uuid="MIG-5c3e-77", shared=True)),
        ("nvidia3/vgpu1", DeviceName(number=3, shared=True)),
        ("nvidia3/gi5/vgpu1", DeviceName(number=3, instance="5", shared=True)),
        ("SIMULATED-1-0", DeviceName(uuid="SIMULATED-1-0")),
        ("nvidia", DeviceName(uuid="nvidia")),
        ("", DeviceName(uuid="")),
    ],
)
def test_forms(name: str, device: DeviceName) -> None:
    assert parse(name) == device


def test_a_number_is_that_of_the_device_file_where_it_is_known() -> None:
    swapped = [replace(gpu(0), minor=1), replace(gpu(1), minor=0)]
    assert find(parse("0"), swapped) == [gpu(1).key]
    assert find(parse("0"), [gpu(0), gpu(1)]) == [gpu(0).key]


def test_a_whole_gpu_that_is_divided_means_all_its_instances() -> None:
    parts = [replace(gpu(0, UUID), instance=part) for part in ("1", "2")]
    assert find(parse(UUID), parts) == [(UUID, "1"), (UUID, "2")]
    assert find(parse(f"MIG-{UUID}/2/0"), parts) == [(UUID, "2")]
    assert find(parse("nvidia0/gi2"), parts) == [(UUID, "2")]


def test_an_instance_is_found_by_its_own_uuid() -> None:
    parts = [replace(gpu(0, UUID), instance=part, mig_uuid=f"MIG-{part}") for part in ("1", "2")]
    assert find(parse("MIG-2"), parts) == [(UUID, "2")]


@pytest.mark.parametrize("name", ["GPU-none", "7", "nvidia0/gi9", "", "MIG-none"])
def test_what_is_not_here_is_not_found(name: str) -> None:
    assert find(parse(name), [gpu(0), gpu(1)]) == []
