"""An OFU that no card can have is no mistake of a report, and facts that were not given are named: those that a cause
needs, and those that tell causes apart."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ofu_exporter.flops.candidates import Candidate
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.explain import BESIDES, Observation, _weight, explain
from ofu_exporter.values.reported import best_fitting
from tests.flops.causes.synthetic import BF16, H100, LLAMA


def test_what_was_not_tried_is_said() -> None:
    untried = dict(explain(Observation(0.5, 0.3)).untried)
    assert untried["hybrid_as_dense"] == "config"
    assert untried["wrong_device"] == "gpu"
    assert "sparse_peak" not in untried
    assert explain(Observation(0.5, 0.3), LLAMA.facts()).untried == ()


def test_the_facts_that_would_tell_causes_apart_are_named() -> None:
    """Twice the peak is one number on an H100, whether sparse or FP8: no peak tells these two apart, the throughput
    none of the three."""
    half = explain(Observation(0.2, 0.4), CauseFacts(gpu=H100, precision=BF16))
    assert {"sparse_peak", "fp8_peak_for_bf16", "gradient_accumulation"} <= {
        each.cause for each in best_fitting(half.causes)
    }
    assert {"peak_tflops", "accumulation"} <= {*half.telling}
    assert not {"gpu", "precision"} & {*half.telling}
    settled = replace(LLAMA.facts(), accumulation=1)
    report = explain(Observation(0.2, 0.4, right_mfu=0.4), settled)
    peaks = {"sparse_peak", "fp8_peak_for_bf16"}
    assert {each.cause for each in report.causes} == {*peaks, "wrong_gpu_count", "warm_up_in_mean"}
    assert report.telling == ("peak_tflops",), "twice the GPUs are the same number"
    alone = explain(Observation(0.2, 0.4, right_mfu=0.4), replace(settled, gpus=None))
    assert {each.cause for each in alone.causes} == {*peaks, "warm_up_in_mean"}
    assert alone.telling == ("peak_tflops",)


def test_what_the_hardware_runs_besides_a_mistake_is_no_second_mistake() -> None:
    besides, mistakes = (
        Candidate(f"recompute_counted+{other}", 1.2, 1.2, 0.0, "", 4.0)
        for other in ("activation_recompute", "head_omitted")
    )
    assert _weight(besides) == pytest.approx(math.exp(BESIDES) * _weight(mistakes))
