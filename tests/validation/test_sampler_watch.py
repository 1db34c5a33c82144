"""The agent's own sampler as the watch: a real one, in real time, on simulated GPUs."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator

import pytest

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.sources.dcgm_exporter import driver as dcgm_exporter
from ofu_exporter.sources.simulate import driver as simulate
from ofu_exporter.validation import sampler_watch
from ofu_exporter.validation.sampler_watch import SamplerWatch
from ofu_exporter.values.reasons import Reason
from tests.helpers.agent import page_server

PACE = SamplingPace(0.1, 0.02)
GPU = "SIMULATED-1-1"


@contextlib.contextmanager
def watch(plan: SamplingPlan) -> Iterator[SamplerWatch]:
    made = SamplerWatch(lambda publish: Sampler(plan, publish, time.monotonic), plan.pace.interval)
    with contextlib.closing(made):
        yield made


@pytest.fixture
def simulated() -> Iterator[SamplerWatch]:
    options = simulate.Options(simulated_gpus=3)
    with watch(
        SamplingPlan([SourceBuilder("simulate", lambda: simulate.Source(options))], PACE)
    ) as made:
        yield made


def test_windows_of_one_gpu_cover_the_time_asked_for(simulated: SamplerWatch) -> None:
    assert simulated.gpu(GPU).uuid == GPU
    assert simulated.source == "simulate"
    assert simulated.simulated
    since = time.monotonic() + 0.1
    until = since + 0.5
    readings = simulated.readings(GPU, since, until)
    assert {reading.gpu.uuid for reading in readings} == {GPU}
    assert readings[0].start <= since
    assert readings[-1].end >= until
    assert all(a.end == b.start for a, b in itertools.pairwise(readings))


def test_what_was_asked_for_once_is_let_go_of(simulated: SamplerWatch) -> None:
    simulated.gpu(GPU)
    began = time.monotonic()
    simulated.readings(GPU, began, began + 0.3)
    later = simulated.readings(GPU, began, began + 0.6)
    assert later[0].start > began


def test_a_gpu_that_the_source_does_not_have_is_named(
    simulated: SamplerWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated.gpu(GPU)
    monkeypatch.setattr(simulated, "_patience", 0.2)
    with pytest.raises(GpuError, match="has no GPU GPU-x; it has SIMULATED-1-0, SIMULATED-1-1"):
        simulated.gpu("GPU-x")


def test_a_source_that_cannot_be_opened_ends_it() -> None:
    options = dcgm_exporter.Options(url="http://127.0.0.1:1/metrics")
    plan = SamplingPlan(
        [SourceBuilder("dcgm-exporter", lambda: dcgm_exporter.Source(options))], PACE
    )
    with watch(plan) as made, pytest.raises(SourceError) as raised:
        made.gpu(GPU)
    assert raised.value.reason is Reason.UNREACHABLE
    assert sampler_watch.PATIENCE_SECONDS > 1, "it did not wait for that long"


def test_a_gpu_without_a_tensor_counter_has_readings_that_say_so() -> None:
    row = '{gpu="0",UUID="GPU-a",modelName="NVIDIA L4"}'
    with page_server(lambda: f"DCGM_FI_DEV_SM_CLOCK{row} 210\n") as url:
        options = dcgm_exporter.Options(url=url, collect_interval=0.2)
        plan = SamplingPlan(
            [SourceBuilder("dcgm-exporter", lambda: dcgm_exporter.Source(options))], PACE
        )
        with watch(plan) as made:
            assert made.gpu("GPU-a").name == "NVIDIA L4"
            since = time.monotonic()
            readings = made.readings("GPU-a", since, since + 2.0)
    assert readings
    assert {reading.tensor_active for reading in readings} == {None}
