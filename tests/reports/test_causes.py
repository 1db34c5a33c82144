"""The causes of a job's divergence, looked for with what its reports said."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.reports.causes import facts_of, likely_causes, right_mfu
from ofu_exporter.reports.stated import stated_mfu
from ofu_exporter.values.reported import Causes, Compared
from tests.flops.causes.synthetic import LATENT
from tests.flops.counting import config
from tests.helpers.desk import hardware_of, said
from tests.helpers.values import H100, gpu

EIGHT = hardware_of(*(gpu(index) for index in range(8)))
LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}
SUMS = Compared(0.5427 * 600, 0.2558 * 600, 600.0, 0.0)


def found(report: dict[str, Any], sums: Compared = SUMS) -> Causes:
    divergence = compare_sums(sums)
    assert divergence is not None
    of = said(**report)
    return likely_causes(sums, divergence, of, EIGHT, stated_mfu(of, EIGHT).peak_flops)


def test_the_papers_latent_experts_are_the_first_cause() -> None:
    """arXiv:2605.20799, section V-C: 54.27 % reported, 25.58 % measured, 18.45 % when counted right."""
    model = {"config": dict(LATENT.config), "seq_len": 4096}
    told = {"mfu": 0.5427, "model": model, "gpus": 288, "precision": "bf16"}
    first = found(told).first
    assert first is not None
    assert first.cause.split("+")[0] == "latent_moe_full_hidden"
    assert float(first.evidence.rpartition("MFU is ")[2].rstrip("%")) == pytest.approx(
        18.45, abs=0.05
    )


def test_where_one_of_the_two_is_nothing_there_is_no_ratio_to_explain() -> None:
    assert found({"mfu": 0.4}, Compared(0.0, 100.0, 600.0)) == Causes()
    assert found({"mfu": 0.4}, Compared(100.0, 0.0, 600.0)) == Causes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-3-8b", "nemotron-h-8b", "qwen3-30b-a3b"])
def test_no_configuration_breaks_the_explanation(name: str) -> None:
    """Every number of a real configuration in turn as something that it never is."""
    whole = config(name)
    refusals = set()
    for key, value in whole.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        for odd in (0, -1, 0.5):
            report = {"mfu": 0.5427, "model": {"config": {**whole, key: odd}, "seq_len": 64}}
            try:
                ratios = [each.expected_ratio for each in found(report).fitting]
            except ReportError as error:
                refusals.add(error.field)
            else:
                assert all(map(math.isfinite, ratios)), (key, odd)
    assert refusals == {"model"}


def test_what_a_report_does_not_say_is_not_known() -> None:
    facts = facts_of(said(mfu=0.4), EIGHT, 989e12)
    assert facts.gpu == H100
    assert (facts.step, facts.forward_only, facts.recompute, facts.gpus) == (None,) * 4
    assert (facts.precision, facts.tile_overhead) == (None, None)
    assert facts.peak_flops is None, "an MFU alone does not say what it was divided by"
    assert facts_of(said(mfu=0.4, peak_tflops=989), EIGHT, 989e12).peak_flops == 989e12


def test_the_right_mfu_needs_model_throughput_gpus_and_peak() -> None:
    peak = flops.dense_peak(H100, "bf16")
    told: dict[str, Any] = {"model": LLAMA, "tokens_per_second": 1e5, "gpus": 8}
    per_token = (
        flops.count(
            flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192)
        ).model_flops_per_step
        / 8192
    )
    right = right_mfu(said(**told), peak)
    assert right == pytest.approx(1e5 * float(per_token) / (8 * peak))
    assert right_mfu(said(**told), None) is None
    for missing in ("tokens_per_second", "gpus"):
        without = {key: value for key, value in told.items() if key != missing}
        assert right_mfu(said(mfu=0.4, **without), peak) is None, missing
