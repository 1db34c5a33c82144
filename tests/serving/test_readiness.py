"""Readiness: a fresh sample of one GPU, or why there is none and what to do."""

from __future__ import annotations

from ofu_exporter.serving.readiness import unready
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot, SourceHealth
from tests.helpers.node import snapshot_of
from tests.helpers.values import fault, gpu, reading


def test_readiness_says_what_to_do() -> None:
    down = SourceHealth("nvml", reason=Reason.NO_LIBRARY, detail="libnvidia-ml.so.1 not found")
    problem = unready(Snapshot(0.0, (), down))
    assert problem is not None
    assert "no_library (libnvidia-ml.so.1 not found)" in problem
    assert "Install the NVIDIA driver" in problem


def test_activity_and_clock_without_an_ofu_are_a_fresh_sample() -> None:
    assert unready(snapshot_of(reading(device=gpu(name="NVIDIA Z999")))) is None


def test_one_measured_gpu_is_enough_to_be_ready() -> None:
    assert unready(snapshot_of(reading(), fault(5, device=gpu(1)))) is None
