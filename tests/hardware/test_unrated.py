"""What is said of a GPU that has no OFU because of what it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter.agent.build import custom_rows
from ofu_exporter.cli.settings import build, file_layer
from ofu_exporter.hardware import gpu_models
from ofu_exporter.hardware.unrated import explain, has_no_tensor_pipes, is_vgpu, row_to_write
from ofu_exporter.settings import Settings
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason
from tests.helpers.every import every

UNKNOWN = Gpu("0", "GPU-0", name="NVIDIA Z999", pci_device_id="1234", max_sm_clock_hz=2e9)


@pytest.mark.parametrize(
    "gpu",
    [
        UNKNOWN,
        replace(UNKNOWN, pci_device_id=""),
        replace(UNKNOWN, name=""),
        replace(UNKNOWN, max_sm_clock_hz=None),
        replace(UNKNOWN, name='NVIDIA "Z" {999}: #1'),
        replace(UNKNOWN, name="NVIDIA L2", pci_device_id="27b6"),
    ],
)
def test_the_row_to_write_is_a_setting_that_the_agent_takes(gpu: Gpu, tmp_path: Path) -> None:
    found = re.search(r"`(gpus: .*)`", row_to_write(gpu))
    assert found is not None
    path = tmp_path / "config.yaml"
    path.write_text(found[1].replace("HZ", "1.83e+9"), encoding="utf-8")
    settings = build(Settings, file_layer(path))
    rating = gpu_models.rate(gpu, custom_rows(settings.gpus))
    assert rating is not None
    assert rating.tensor_clock_hz["low_precision"] == 1.83e9
    assert rating.origin == "configured"


def test_the_row_to_write_says_what_is_known_of_its_clock() -> None:
    assert row_to_write(UNKNOWN).startswith("the model is not in the table; write `gpus: [{name:")
    assert row_to_write(UNKNOWN).endswith("at most 2000000000")
    assert "its row has no clock" in row_to_write(replace(UNKNOWN, name="NVIDIA L2"))


def test_a_gpu_without_name_and_id_gets_no_row_that_could_not_match() -> None:
    text = row_to_write(Gpu("0", "GPU-0"))
    assert text == "the source tells neither the model's name nor its PCI device id"


@pytest.mark.parametrize(
    "name",
    [
        "Tesla P100-PCIE-16GB",
        "Tesla P4",
        "Tesla K80",
        "Tesla M40 24GB",
        "NVIDIA GeForce GTX 1080 Ti",
        "GeForce GTX 1660 SUPER",
        "NVIDIA GeForce GT 1030",
        "NVIDIA TITAN Xp",
        "NVIDIA TITAN X (Pascal)",
        "Quadro P6000",
        "Quadro GP100",
        "Quadro T1000",
        "NVIDIA T400 4GB",
        "NVIDIA T1000 8GB",
    ],
)
def test_a_gpu_without_tensor_pipes_is_known_by_its_name(name: str) -> None:
    assert has_no_tensor_pipes(Gpu("0", "GPU-0", name=name))
    found = explain(Gpu("0", "GPU-0", name=name), Reason.UNKNOWN_MODEL)
    assert found == (Reason.NO_TENSOR_PIPES, f"{name} has none")


@pytest.mark.parametrize(
    "name", ["NVIDIA TITAN V", "NVIDIA TITAN RTX", "Tesla T4", "NVIDIA T4G", "Quadro GV100"]
)
def test_a_gpu_with_tensor_pipes_is_not_taken_for_one_without(name: str) -> None:
    assert not has_no_tensor_pipes(Gpu("0", "GPU-0", name=name))


@every(gpu_models.ROWS, lambda row: row.key)
def test_no_model_of_the_table_is_taken_for_a_vgpu_or_for_one_without_tensor_pipes(
    row: gpu_models.GpuModel,
) -> None:
    for name in row.names:
        gpu = Gpu("0", "GPU-0", name=name, compute_capability=row.chip.compute_capability)
        assert not has_no_tensor_pipes(gpu)
        assert not is_vgpu(gpu)


def test_the_compute_capability_tells_what_the_name_does_not() -> None:
    gpu = replace(UNKNOWN, compute_capability=(6, 1))
    assert explain(gpu, Reason.NO_TENSOR_COUNTER)[0] is Reason.NO_TENSOR_PIPES
    volta = replace(UNKNOWN, compute_capability=(7, 0))
    assert explain(volta, Reason.NO_TENSOR_COUNTER) == (Reason.NO_TENSOR_COUNTER, "")


@pytest.mark.parametrize(
    "name",
    ["GRID T4-16Q", "GRID V100DX-32C", "NVIDIA A40-48Q", "NVIDIA A100-1-5CME", "NVIDIA L40S-8B"],
)
def test_a_vgpu_is_known_by_its_name(name: str) -> None:
    reason, detail = explain(Gpu("0", "GPU-0", name=name), Reason.NOT_SUPPORTED, "no counters")
    assert (reason, detail) == (Reason.VGPU, f"{name} is a vGPU, not a whole GPU")


def test_a_vgpu_is_known_by_what_its_driver_says() -> None:
    nameless = replace(UNKNOWN, name="", is_vgpu=True)
    detail = "the GPU is a vGPU, not a whole GPU"
    assert explain(nameless, Reason.UNKNOWN_MODEL) == (Reason.VGPU, detail)


def test_of_an_unknown_model_the_row_to_write_is_the_detail() -> None:
    detail = row_to_write(UNKNOWN)
    assert explain(UNKNOWN, Reason.UNKNOWN_MODEL) == (Reason.UNKNOWN_MODEL, detail)


@pytest.mark.parametrize("reason", [Reason.LOST, Reason.NO_CLOCK, Reason.NO_PERMISSION])
def test_other_troubles_stay_what_they_are(reason: Reason) -> None:
    assert explain(replace(UNKNOWN, is_vgpu=True), reason, "why") == (reason, "why")
