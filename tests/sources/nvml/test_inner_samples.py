"""Samples inside a window, taken through the stand-in for NVML: how the activity lay, faults, and what is held."""

from __future__ import annotations

import pynvml
import pytest

from ofu_exporter.sources.nvml import inner_samples
from ofu_exporter.sources.nvml.driver import GpuProbe
from ofu_exporter.values.reading import Reading
from tests.helpers.nvml_node import START, NvmlNode


def divided(bench: NvmlNode) -> GpuProbe:
    """A probe that was told to divide its GPU's windows, at the begin of one."""
    probe = bench.began()
    probe.divide(frozenset(gpu.key for gpu in probe.gpus()))
    return probe


def polled(bench: NvmlNode, probe: GpuProbe, *gaps: float) -> Reading:
    """The window with a poll after each of these seconds but the last, which end it."""
    for gap in gaps[:-1]:
        bench.advance(gap)
        probe.poll()
    return bench.window(probe, gaps[-1])


def lay(reading: Reading) -> list[tuple[float, float, float]]:
    return [
        (part.start - START, part.end - START, round(part.tensor_active, 6))
        for part in reading.shape
    ]


def test_a_window_tells_how_its_activity_lay(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.6)
    probe = divided(bench)
    bench.advance(1.0)
    probe.poll()
    bench.scenario.gpu(0, tensor=0.0)
    bench.advance(1.0)
    probe.poll()
    first = bench.window(probe, 2.0)
    assert lay(first) == [(0.0, 1.0, 0.6), (1.0, 2.0, 0.0), (2.0, 4.0, 0.0)]
    assert first.tensor_active == pytest.approx(0.15)
    second = polled(bench, probe, 1.0, 1.0)
    assert lay(second) == [(4.0, 5.0, 0.0), (5.0, 6.0, 0.0)]


def test_nothing_is_sampled_inside_unless_told_to(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.6)
    probe = bench.began()
    assert polled(bench, probe, 1.0, 1.0, 1.0).shape == ()
    assert bench.samples_alive == 2
    probe.divide(frozenset(gpu.key for gpu in probe.gpus()))
    assert len(polled(bench, probe, 1.0, 1.0, 1.0).shape) == 3
    probe.divide(frozenset())
    assert polled(bench, probe, 1.0, 1.0, 1.0).shape == ()


def test_samples_are_as_far_apart_as_the_hardware_needs(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.6)
    reading = polled(bench, divided(bench), 0.05, 0.3, 0.05, 0.55, 0.05)
    assert [(round(a, 2), round(b, 2)) for a, b, _ in lay(reading)] == [(0, 0.35), (0.35, 1.0)]


def test_a_window_that_nobody_ends_holds_a_bounded_number_of_samples(
    bench: NvmlNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inner_samples, "MOST_SAMPLES", 8)
    bench.scenario.gpu(0, tensor=0.6)
    probe = divided(bench)
    for _ in range(50):
        bench.advance(0.5)
        probe.poll()
    assert bench.samples_alive <= 2 + 8
    parts = lay(bench.window(probe, 0.5))
    assert (parts[0][0], parts[-1][1]) == (0.0, 25.5)
    assert 4 <= len(parts) <= 9


@pytest.mark.parametrize("call", ["nvmlGpmSampleAlloc", "nvmlGpmSampleGet"])
def test_a_sample_that_fails_costs_only_itself(
    bench: NvmlNode, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.scenario.gpu(0, tensor=0.6)
    probe = divided(bench)

    def fail(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    with monkeypatch.context() as patch:
        patch.setattr(pynvml, call, fail)
        bench.advance(1.0)
        probe.poll()
    reading = polled(bench, probe, 1.0, 1.0)
    assert lay(reading) == [(0.0, 2.0, 0.6), (2.0, 3.0, 0.6)]


def test_a_value_that_the_driver_does_not_give_leaves_the_window_whole(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, tensor=0.6)
    probe = divided(bench)
    whole, asked = pynvml.nvmlGpmMetricsGet, []

    def only_whole(query: pynvml.c_nvmlGpmMetricsGet_t) -> object:
        asked.append(query.numMetrics)
        if query.numMetrics == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return whole(query)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynvml, "nvmlGpmMetricsGet", only_whole)
        reading = polled(bench, probe, 1.0, 1.0)
    assert 1 in asked
    assert reading.shape == ()
    assert reading.tensor_active == pytest.approx(0.6)


def test_every_sample_is_given_back(bench: NvmlNode) -> None:
    probe = divided(bench)
    polled(bench, probe, *[0.5] * 9)
    bench.advance(0.5)
    probe.poll()
    assert bench.samples_alive > 2
    probe.close()
    assert bench.samples_alive == 0


def test_an_instance_is_divided_alone(bench: NvmlNode) -> None:
    bench.scenario.gpu(0, mig=1)
    bench.scenario.instance(0, 1, "3g.40gb", 60)
    bench.scenario.instance(0, 2, "3g.40gb", 60)
    probe = bench.open()[0]
    probe.read()
    one, other = probe.gpus()
    probe.divide(frozenset({one.key}))
    bench.advance(1.0)
    probe.poll()
    bench.advance(1.0)
    parts = {
        event.gpu.key: len(event.shape) for event in probe.read() if isinstance(event, Reading)
    }
    assert parts == {one.key: 2, other.key: 0}
