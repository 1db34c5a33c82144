"""A model of a GPU says its clocks and peaks, and which of them its figures do not imply."""

from __future__ import annotations

import re

import pytest

from ofu_exporter.hardware.gpu_models import ROWS, GpuModel, markdown
from tests.hardware.test_gpu_models import BY_KEY, device, rated
from tests.helpers.every import every


@pytest.mark.parametrize(
    ("key", "low_mhz", "fp64_mhz"),
    [
        ("H100-PCIe-80GB", 1620, 1755),
        ("H100-NVL", 1545, 1785),
        ("H200-NVL", 1545, 1785),
        ("A100-SXM4-80GB", 1410, 1410),
        ("B200", 1856, 1965),
        ("GB200", 2008, 2062),
        ("H20", 1980, 1980),
        ("RTX-4090", 2520, 2520),
    ],
)
def test_clock_domains(key: str, low_mhz: float, fp64_mhz: float) -> None:
    rating = rated(device(BY_KEY[key].names[0]))
    assert rating.tensor_clock_hz == {"low_precision": low_mhz * 1e6, "fp64": fp64_mhz * 1e6}


def clock_marks() -> dict[str, bool]:
    """Whether the table marks the clock of each model that has one."""
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in markdown().splitlines()[2:]]
    named = [(re.sub(r" \(\w+\)", "", row[0]).split(", "), row[2]) for row in rows]
    return {key: "†" in clock for keys, clock in named if clock != "-" for key in keys}


@every(ROWS, lambda row: row.key)
def test_a_clock_that_its_published_peak_does_not_imply_is_marked(row: GpuModel) -> None:
    """Implied by the figure as published, which may be rounded to whole TFLOP/s."""
    if row.tensor_clock_hz is None:
        assert row.key not in clock_marks()
        return
    precision = "bf16" if "bf16" in row.published_peak_flops else "fp16"
    published = row.published_peak_flops.get(precision)
    flops = row.chip.flops_per_cycle_per_sm.get(precision)
    if published is None or flops is None or precision in row.disputed:
        assert clock_marks()[row.key]
        return
    assert row.sm_count is not None
    implied_hz = published / (row.sm_count * flops)
    rounding = 0.5e12 / published if published % 1e12 == 0 else 0.0
    off = abs(row.tensor_clock_hz / implied_hz - 1)
    assert clock_marks()[row.key] == (off > max(0.005, rounding))


def test_the_marked_clocks() -> None:
    assert {key for key, marked in clock_marks().items() if marked} == {
        "V100-SXM3",
        "V100-PCIe",
        "V100S-PCIe",
        "A100-SXM-64GB",
        "L40S",
        "L20",
        "RTX-5090-D",
        "H20",
        "H20-3e",
        "VR200",
        "GB10",
        "RTX-PRO-6000-Server",
        "RTX-PRO-4500",
    }
