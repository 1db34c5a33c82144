"""What an explanation may use of a report, and what the job's own throughput comes to."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.ofu.divergence import Thresholds, compare_sums
from ofu_exporter.reports.causes import facts_of, likely_causes, right_mfu
from ofu_exporter.reports.model_count import counted_job, flops_per_token
from ofu_exporter.reports.stated import Hardware
from ofu_exporter.values.reported import Compared
from tests.flops.counting import config
from tests.helpers.desk import said
from tests.helpers.values import H100

PEAK = flops.dense_peak(H100, "bf16")
ON = Hardware(8, H100, {"bf16": PEAK})
MODEL = {"config": config("llama-3-8b"), "seq_len": 8192}


def test_everything_that_a_job_says_may_be_used() -> None:
    report = said(
        mfu=0.4,
        peak_tflops=1979.0,
        gpus=64,
        precision={"bf16": 0.3, "fp8": 0.7},
        recompute="full",
        model={**MODEL, "forward_only": True},
        tile_overhead=0.02,
        tile_overhead_bound="lower",
    )
    assert report.model is not None
    assert facts_of(report, ON, 1234e12) == CauseFacts(
        job=counted_job(report.model),
        forward_only=True,
        recompute=flops.Recompute.FULL,
        gpu=H100,
        gpus=64,
        precision={"bf16": 0.3, "fp8": 0.7},
        peak_flops=1234e12,
        tile_overhead=0.02,
        tile_overhead_bound="lower",
    )


def test_what_a_job_does_not_say_is_not_assumed() -> None:
    """The peak that its MFU was taken against is the agent's own, not the job's."""
    assert facts_of(said(mfu=0.4), Hardware(), PEAK) == CauseFacts()


def test_a_gpu_that_is_not_in_the_table_is_not_named() -> None:
    unknown = Hardware(8, "NVIDIA Q999", {"bf16": 1e15})
    assert facts_of(said(mfu=0.4), unknown, None).gpu is None
    assert facts_of(said(mfu=0.4), ON, None).gpu == H100


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"mfu": 0.4}, None),
        ({"mfu": 0.4, "peak_tflops": 989.4}, PEAK),
        ({"tflops_per_gpu": 400}, PEAK),  # it was divided here, by the right peak
        ({"tflops_per_gpu": 400, "peak_tflops": 989.4}, PEAK),
    ],
)
def test_the_peak_is_known_where_it_was_said_or_the_agent_divides(
    fields: dict[str, Any], known: float | None
) -> None:
    assert facts_of(said(**fields), ON, PEAK).peak_flops == known


THROUGHPUT: dict[str, Any] = {"tokens_per_second": 1e5, "model": MODEL, "gpus": 64, "mfu": 0.9}


def test_a_throughput_and_a_model_come_to_an_mfu_of_their_own() -> None:
    report = said(**THROUGHPUT)
    assert report.model is not None
    expected = 1e5 * flops_per_token(report.model) / (64 * PEAK)
    assert right_mfu(report, PEAK) == pytest.approx(expected)


@pytest.mark.parametrize("missing", ["tokens_per_second", "model", "gpus"])
def test_it_needs_all_of_them(missing: str) -> None:
    report = said(**{name: value for name, value in THROUGHPUT.items() if name != missing})
    assert right_mfu(report, PEAK) is None
    assert right_mfu(said(**THROUGHPUT), None) is None


def test_clocks_as_noisy_as_can_be_break_no_explanation() -> None:
    sums = Compared(0.9 * 600, 0.4 * 600, 600.0, variance=(3.0 * 600) ** 2)
    found = compare_sums(sums, thresholds=Thresholds(standard_errors=0.0))
    assert found is not None
    assert sums.standard_error == pytest.approx(3.0)
    assert likely_causes(sums, found, said(mfu=0.9), ON, PEAK).fitting
