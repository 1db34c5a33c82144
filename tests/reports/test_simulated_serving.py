"""The simulated serving job serves in proportion to its observed GPU-seconds, and no other job serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.reports.simulated_serving import simulated_served
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.values import health

KEY = GpuKey("GPU-0", "")


def view(scheduler: str = "simulate", name: str = "chat-serving") -> JobView:
    usage = GpuUsage("0", KEY, 120.0, 100.0, 20.0)
    return JobView(Job(scheduler, "3", name), 50.0, {KEY: usage}, {}, None, 170.0)


def served(job: JobView) -> object:
    return simulated_served(Snapshot(200.0, (), health(), jobs=(job,)))


def test_tokens_are_so_many_for_each_observed_gpu_second() -> None:
    (found,) = simulated_served(Snapshot(200.0, (), health(), jobs=(view(),))).values()
    assert {kind: count for (_, kind), count in found.tokens.items()} == {
        "prompt": 90_000,
        "cached": 30_000,
        "generation": 24_000,
    }
    assert found.requests == {"simulated/chat-8b": 120}
    assert found.seconds == {"simulated/chat-8b": 120.0}
    assert found.engines == {"both": 1}
    assert found.running == {"simulated/chat-8b": 6}
    assert found.waiting == {"simulated/chat-8b": 0}
    ended = simulated_served(Snapshot(200.0, (), health(), jobs=(replace(view(), ended=180.0),)))
    assert [each.running for each in ended.values()] == [{}]


@pytest.mark.parametrize("job", [view("slurm"), view(name="llama-8b-train")])
def test_nothing_else_serves(job: JobView) -> None:
    assert served(job) == {}
    assert simulated_served(None) == {}
