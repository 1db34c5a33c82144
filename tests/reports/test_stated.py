"""The MFU that a report comes to: whichever way it is said, against the right dense peak."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ReportError
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.stated import completed, stated_mfu
from ofu_exporter.values.quantities import LEAST_PEAK_TFLOPS
from ofu_exporter.values.reasons import ReportRejection
from tests.flops.counting import config
from tests.helpers.desk import hardware_of, said
from tests.helpers.every import every
from tests.helpers.values import H100, gpu

A100 = "NVIDIA A100-SXM4-80GB"
PEAK, FP8, TF32 = (flops.dense_peak(H100, name) for name in ("bf16", "fp8", "tf32"))
LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}


EIGHT = hardware_of(*(gpu(index) for index in range(8)))


def mfu(on: Hardware = EIGHT, **fields: Any) -> float:
    found = completed(said(**fields), None, on, None).stated.mfu
    assert found is not None
    return found


def refused(on: Hardware = EIGHT, **fields: Any) -> tuple[ReportRejection, str]:
    with pytest.raises(ReportError) as error:
        completed(said(**fields), None, on, None)
    return error.value.reason, error.value.field


def test_every_way_to_say_it_comes_to_the_same() -> None:
    per_token = (
        flops.count(
            flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192)
        ).model_flops_per_step
        / 8192
    )
    rate_ = 0.4 * 64 * PEAK
    ways: list[dict[str, Any]] = [
        {"mfu": 0.4},
        {"model_flops_per_second": rate_},
        {"tflops_per_gpu": 0.4 * PEAK / 1e12},
        {"tokens_per_second": rate_ / 6e10, "flops_per_token": 6e10},
        {"tokens_per_second": rate_ / float(per_token), "model": LLAMA},
    ]
    for way in ways:
        assert mfu(gpus=64, precision="bf16", **way) == pytest.approx(0.4), way


def test_without_a_world_size_the_gpus_on_this_node_are_taken_for_all() -> None:
    found = stated_mfu(said(model_flops_per_second=0.4 * 8 * PEAK), EIGHT)
    assert found.mfu == pytest.approx(0.4)
    assert "assuming that the job has only its 8 on this node" in found.warnings[0]


def test_a_job_without_gpus_here_has_to_say_how_many_it_has() -> None:
    nothing = hardware_of()
    assert nothing == Hardware()
    one = {"peak_tflops": 989.4, "model_flops_per_second": 0.4 * 989.4e12}
    assert refused(nothing, **one) == (ReportRejection.OUT_OF_RANGE, "gpus")
    assert mfu(nothing, **one, gpus=1) == pytest.approx(0.4)


@every(
    [
        (2 * PEAK, "the sparse (2:4) peak of bf16"),
        (TF32, "the tf32 peak"),
        (123e12, "none of its dense peaks"),
    ]
)
def test_an_mfu_against_another_peak_is_converted_and_the_peak_is_named(
    peak: float, name: str
) -> None:
    found = stated_mfu(said(mfu=0.2, peak_tflops=peak / 1e12, precision="bf16"), EIGHT)
    assert found.mfu == pytest.approx(0.2 * peak / PEAK)
    assert found.peak_flops == pytest.approx(PEAK)
    assert name in found.warnings[0]
    assert "converted to the dense peak of 989.4 TFLOP/s" in found.warnings[1]


@every([PEAK / 1e12, 989, 989.5, 990])
def test_the_right_peak_in_three_digits_is_the_right_one(peak: float) -> None:
    found = stated_mfu(said(mfu=0.4, peak_tflops=peak), EIGHT)
    assert found.mfu == pytest.approx(0.4, rel=1e-3)
    assert found.warnings == ()


def test_the_peak_of_mixed_precision_is_the_harmonic_mean_by_flops() -> None:
    """arXiv:2605.20799, eq. 12."""
    found = stated_mfu(said(mfu=0.3, precision={"bf16": 0.3, "fp8": 0.7}), EIGHT)
    assert found.peak_flops == pytest.approx(1 / (0.3 / PEAK + 0.7 / FP8))
    assert found.mfu == 0.3
    throughput = 0.3 * 8 * (found.peak_flops or 0.0)
    assert mfu(
        model_flops_per_second=throughput, gpus=8, precision={"bf16": 0.3, "fp8": 0.7}
    ) == pytest.approx(0.3)


def test_a_job_that_changes_its_precision_is_measured_against_the_new_peak() -> None:
    before = said(tflops_per_gpu=400, precision="bf16")
    after = said(tflops_per_gpu=400, precision="fp8").with_facts(before)
    one, other = stated_mfu(before, EIGHT), stated_mfu(after, EIGHT)
    assert one.peak_flops == pytest.approx(PEAK)
    assert other.peak_flops == pytest.approx(FP8)
    assert one.mfu == pytest.approx(2 * (other.mfu or 0.0))


def test_who_does_not_say_the_precision_computes_in_bf16() -> None:
    assert stated_mfu(said(mfu=0.4), EIGHT).peak_flops == pytest.approx(PEAK)
    volta = hardware_of(replace(gpu(name="Tesla V100-SXM2-32GB"), sm_count=80))
    assert "bf16" not in volta.peaks
    assert stated_mfu(said(mfu=0.4), volta).peak_flops == volta.peaks["fp16"]


def test_a_precision_that_the_gpus_lack_is_refused() -> None:
    assert refused(mfu=0.4, precision="fp4") == (ReportRejection.OUT_OF_RANGE, "precision")


@every([{"bf16": 0.5}, {"bf16": 0.6, "fp8": 0.6}, {}])
def test_shares_that_are_not_all_of_the_flops_are_refused(shares: dict[str, float]) -> None:
    assert refused(mfu=0.4, precision=shares) == (ReportRejection.OUT_OF_RANGE, "precision")


UNKNOWN = replace(gpu(name="NVIDIA Q999"), max_sm_clock_hz=2e9)


def test_gpus_of_which_no_peak_is_known_are_measured_against_the_one_that_is_said() -> None:
    on = hardware_of(UNKNOWN)
    assert on.peaks == {}
    assert not on.is_in_table
    assert stated_mfu(said(mfu=0.4), on).peak_flops is None
    found = stated_mfu(said(tflops_per_gpu=100, peak_tflops=250), on)
    assert found.mfu == pytest.approx(0.4)
    assert found.peak_flops == 250e12
    assert refused(on, tflops_per_gpu=100) == (ReportRejection.OUT_OF_RANGE, "peak_tflops")


def test_a_mig_instance_has_the_peak_of_its_share() -> None:
    whole = gpu()
    parts = [
        replace(whole, instance=str(number), profile="3g.40gb", sm_count=60) for number in (1, 2)
    ]
    rating = rate(parts[0])
    assert rating is not None
    on = hardware_of(*parts)
    assert on.number == 2
    assert on.peaks == dict(sorted(rating.peak_flops.items()))


def test_gpus_of_two_models_have_the_mean_of_the_peaks_that_both_have() -> None:
    other = replace(gpu(1, name=A100), sm_count=108, compute_capability=(8, 0))
    on = hardware_of(gpu(0), other)
    assert on.name == ""
    assert on.peaks["bf16"] == pytest.approx((PEAK + flops.dense_peak(A100, "bf16")) / 2)
    assert "fp8" not in on.peaks
    assert not on.is_in_table
    assert refused(on, mfu=0.4, precision="fp8")[1] == "precision"


@every(
    [
        {"tflops_per_gpu": 9e5},
        {"model_flops_per_second": 1e308, "gpus": 1},
        {"tokens_per_second": 1e300, "flops_per_token": 1e300},
        {"mfu": "900%", "peak_tflops": 999999.0},
    ]
)
def test_what_makes_an_mfu_that_cannot_be_is_named(fields: dict[str, Any]) -> None:
    assert refused(**fields) == (ReportRejection.OUT_OF_RANGE, next(iter(fields)))
    with pytest.raises(
        ReportError, match=r"makes an MFU of \S+ on this hardware, which is impossible"
    ):
        stated_mfu(said(**fields), EIGHT)


@every(product([LEAST_PEAK_TFLOPS, 999999.0], [EIGHT, hardware_of(UNKNOWN), Hardware()]))
def test_whatever_is_said_the_mfu_is_a_number(peak: float, on: Hardware) -> None:
    found = stated_mfu(said(mfu=0, peak_tflops=peak), on)
    assert found.mfu == 0.0
    assert found.peak_flops is None or math.isfinite(found.peak_flops)


def test_an_mfu_above_one_is_taken_and_doubted() -> None:
    found = stated_mfu(said(mfu=1.2), EIGHT)
    assert found.mfu == 1.2
    assert "over 100 % is impossible" in found.warnings[0]


def test_facts_alone_come_to_no_mfu() -> None:
    assert stated_mfu(said(gpus=64, precision="fp8"), EIGHT).mfu is None


def test_a_model_that_cannot_be_counted_is_named() -> None:
    model = {"config": {"architectures": ["NoSuchModel"]}, "seq_len": 8192}
    assert refused(tokens_per_second=1e5, model=model) == (ReportRejection.OUT_OF_RANGE, "model")


def test_a_model_that_breaks_whoever_counts_it_is_refused_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No such configuration is known; the text is the reporter's own, and so is the fault."""

    def broken(*_: object) -> None:
        raise RecursionError("round and round")

    monkeypatch.setattr(flops, "read", broken)
    model = {"config": {"architectures": ["Breaks"]}, "seq_len": 8}
    with pytest.raises(ReportError, match="cannot be counted: RecursionError: round and round"):
        completed(said(tokens_per_second=1e5, model=model), None, EIGHT, None)


def test_tokens_alone_say_nothing() -> None:
    assert refused(tokens_per_second=1e5) == (ReportRejection.OUT_OF_RANGE, "tokens_per_second")
    with pytest.raises(ReportError, match="needs flops_per_token or model"):
        stated_mfu(said(tokens_per_second=1e5), EIGHT)


def test_flops_of_a_token_in_gflops_are_warned_about() -> None:
    """51.47 GFLOPs of an 8B model, written without the thousand million; it makes an MFU of nearly 0."""
    found = stated_mfu(said(tokens_per_second=1e5, flops_per_token=51.47, gpus=8), EIGHT)
    assert any(
        "flops_per_token: 51.47 is fewer than any model needs; in GFLOPs it is 5.147e+10" in each
        for each in found.warnings
    )
    for few, doubted in ((51.47e9, False), (1.01e5, False), (0.99e5, True)):
        warnings = stated_mfu(
            said(tokens_per_second=1e5, flops_per_token=few, gpus=8), EIGHT
        ).warnings
        assert any("flops_per_token" in each for each in warnings) is doubted


def test_a_throughput_of_one_gpu_is_noticed_where_the_job_says_how_many_it_has() -> None:
    one: dict[str, Any] = {"model_flops_per_second": 0.4 * PEAK}
    (warning,) = stated_mfu(said(gpus=64, **one), EIGHT).warnings
    assert "MFU would be 40.0% if the throughput were of one GPU: is it of all 64" in warning
    (assumed,) = stated_mfu(said(**one), EIGHT).warnings
    assert "assuming that the job has only its 8 on this node" in assumed


def test_a_gpu_that_is_not_rated_has_no_peak_and_takes_it_from_the_others() -> None:
    unrated = replace(gpu(1, name="NVIDIA Q999"), max_sm_clock_hz=None)
    assert hardware_of(unrated) == Hardware(1, "NVIDIA Q999")
    assert hardware_of(gpu(0), unrated) == Hardware(2, "")
    assert hardware_of(gpu(0), gpu(1)).name == H100
