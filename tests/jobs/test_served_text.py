"""A job that serves is told by what it served and by its memory; truths are counted by hand."""

from __future__ import annotations

import pytest

from ofu_exporter.jobs.gpu_totals import GpuTotals
from ofu_exporter.jobs.served_totals import ServedTotals
from ofu_exporter.jobs.summary import summary_text
from ofu_exporter.jobs.totals import JobTotals
from tests.helpers.documents import reporting

SERVED = ServedTotals(
    served_model="org/m",
    seconds=100.0,
    tokens={"prompt": 1_500_000.0, "cached": 0.0, "generation": 20_000.0},
    requests=42.0,
    moved_bytes={"read": 2.4e14, "write": 0.1e14},
    flops=5e15,
)
"""2.5 TB/s of one GPU, and 20 FLOPs a byte."""


def on_h100(
    dram: float, ofu: float, is_rated: bool = True, served: tuple[ServedTotals, ...] = (SERVED,)
) -> JobTotals:
    """1000 GPU-seconds on a card of 3.35 TB/s and 989.4 TFLOP/s."""
    gpu = GpuTotals(
        gpu="0",
        uuid="GPU-0",
        node="n1",
        held_seconds=1000.0,
        observed_seconds=1000.0,
        utilization_seconds=1000.0 * ofu,
        memory_busy_seconds=1000.0 * dram,
        memory_seconds=1000.0,
        memory_moved_bytes=1000.0 * dram * 3.35e12 if is_rated else None,
    )
    return reporting().model_copy(update={"gpus": (gpu,), "served": served})


def test_a_job_that_decodes_is_bound_by_memory_and_not_wasted() -> None:
    said = summary_text(on_h100(dram=0.85, ofu=0.03))
    assert "Bound by memory: 85.0% of what the card can move, 2.85 TB/s a GPU." in said
    assert "Served org/m: tokens prompt 1,500,000, generation 20,000; requests 42" in said


def test_the_engines_bytes_stand_beside_the_counters() -> None:
    """2.5 / 3.35 = 74.6 %; 20 FLOPs a byte * 2.8475 TB/s = 56.95 TFLOP/s of 989.4 are 5.8 %."""
    said = summary_text(on_h100(dram=0.85, ofu=0.03))
    assert "memory moved 2.5 TB/s a GPU, MBU 74.6%; by the card's counter 85.0%" in said
    assert "At its 20 FLOPs a byte so busy a memory allows an OFU of 5.8%" in said


@pytest.mark.parametrize(
    ("dram", "ofu", "served"), [(0.4, 0.03, (SERVED,)), (0.7, 0.75, (SERVED,)), (0.85, 0.03, ())]
)
def test_other_jobs_are_not_called_bound(
    dram: float, ofu: float, served: tuple[ServedTotals, ...]
) -> None:
    said = summary_text(on_h100(dram, ofu, served=served))
    assert "Bound by memory" not in said
    assert f"Memory was busy for {100 * dram:.1f}% of the cycles" in said


def test_without_a_bandwidth_nothing_is_said_of_bytes() -> None:
    said = summary_text(on_h100(0.85, 0.03, is_rated=False))
    assert "Bound by memory: 85.0% of what the card can move. " in said
    assert "TB/s" not in said
    assert "FLOPs a byte" not in said


def test_without_counted_flops_no_ofu_is_promised() -> None:
    said = summary_text(on_h100(0.85, 0.03, served=(SERVED.model_copy(update={"flops": None}),)))
    assert "MBU 74.6%" in said
    assert "FLOPs a byte" not in said


def test_without_a_counter_of_memory_nothing_is_said_of_it() -> None:
    silent = reporting().model_copy(update={"served": (SERVED,)})
    assert silent.memory_ratio is None
    assert silent.memory_bytes_per_second is None
    assert "Memory was" not in summary_text(silent)
    assert "Bound by" not in summary_text(silent)


def test_a_name_of_a_model_cannot_break_a_line() -> None:
    served = SERVED.model_copy(update={"served_model": "a\nJob 1 (running)"})
    assert "\nJob 1" not in summary_text(on_h100(0.85, 0.03, served=(served,)))
