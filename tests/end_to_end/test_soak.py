"""Hours of random faults in accelerated time, and ten minutes of one fault among eight GPUs."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench import coverage
from tests.doubles import nvml as double
from tests.helpers.soak import DIVIDED, FAULTS, GPUS, SPARED, Soak


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Soak]]:
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(tmp_path / "scenario"))
    made: list[Soak] = []

    def make(seed: int = 1, faults: bool = True) -> Soak:
        made.append(Soak(tmp_path, double.load(), seed, faults))
        return made[-1]

    yield make
    for soak in made:
        soak.close()
    assert double.load().test_samples_alive() == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_an_hour_of_faults_leaves_no_false_value(make: Callable[..., Soak], seed: int) -> None:
    soak = make(seed)
    soak.run(3600.0)
    assert sum(soak.happened.values()) > 5
    assert soak.checked_windows > 3000
    assert soak.coverage(SPARED) == pytest.approx(1.0, abs=1e-9)


def test_memory_is_flat(make: Callable[..., Soak]) -> None:
    soak = make(3)
    soak.run(1800.0)
    gc.collect()
    tracemalloc.start()
    try:
        soak.run(300.0)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        soak.run(900.0)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 1 << 19


@pytest.mark.parametrize("kind", FAULTS)
def test_ten_minutes_of_a_fault_cost_the_other_gpus_no_window(
    make: Callable[..., Soak], kind: str
) -> None:
    soak = make(faults=False)
    soak.run(60.0)
    soak.begin(3, kind, 600.0)
    soak.run(720.0)
    others = [gpu for gpu in range(GPUS) if gpu not in (3, DIVIDED)]
    assert {round(soak.coverage(gpu), 9) for gpu in others} == {1.0}
    assert soak.coverage(3) < 0.25
    assert soak.last is not None
    assert [view.reason for view in soak.last.gpus] == [None] * len(soak.last.gpus)


@pytest.mark.parametrize("kind", ["lost", "hung", "blank"])
def test_threads_and_all_the_others_lose_no_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    scenario = double.Scenario(tmp_path / "scenario", coverage.GPUS)
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(scenario.path))
    double.load().test_reset()
    watched = coverage.observe(scenario, kind, 30)
    others = [gpu for gpu in range(coverage.GPUS) if gpu != coverage.BROKEN]
    assert [watched.coverage(gpu) for gpu in others] == pytest.approx([1.0] * 7, abs=1e-9)
    assert watched.windows[coverage.BROKEN] < 30
