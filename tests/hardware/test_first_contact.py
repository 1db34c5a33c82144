"""The questions to a first GPU: asked of the driver's stand-in here, and all of them where there is a GPU."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from ofu_exporter.validation import Mark
from tests.bench import agent_cost
from tests.doubles.nvml import SCENARIO_VARIABLE, Scenario, load
from tests.hardware import first_contact
from tests.hardware.counters import METRICS


def has_gpu() -> bool:
    if not importlib.util.find_spec("torch"):
        return False
    import torch

    return bool(torch.cuda.is_available())


@pytest.fixture
def handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    node = Scenario(tmp_path / "scenario")
    monkeypatch.setenv(SCENARIO_VARIABLE, str(node.path))
    node.gpu(
        0, uuid="GPU-a", name="NVIDIA H100 80GB HBM3", tensor=0.5, clock_mhz=[1340, 1352, 1364]
    )
    load()
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


def test_facts_have_the_code_of_what_does_not_answer(handle: Any) -> None:
    found = first_contact.facts(handle)
    assert found["uuid"] == "GPU-a"
    assert found["metrics"]["5"] == pytest.approx(50.0)
    assert len(found["metrics"]) == len(METRICS)
    refused = [answer for answer in found["metrics"].values() if not isinstance(answer, float)]
    assert all("code" in answer or "refused" in answer for answer in refused)
    assert "refused" in found["clock_samples"], "the stand-in has no such call"


def test_every_call_is_timed(handle: Any) -> None:
    found = first_contact.costs(handle)
    for name, answer in found.items():
        if name != "GetPowerUsage":
            assert 0 < answer["median"] <= answer["p99"] <= answer["max"]


def test_the_clock_is_described(handle: Any) -> None:
    found = first_contact.clock_noise(handle, 0.3)
    assert (found["lowest_mhz"], found["highest_mhz"]) == (1340, 1364)
    assert found["mean_mhz"] == pytest.approx(1352, abs=2)


def test_totals_of_cycles_are_taken_apart() -> None:
    """132 SMs summed up, at 1.4 GHz, half of them busy."""
    ends = [
        {
            "at": at,
            "clock_hz": 1.4e9,
            "values": {5: 50.0, 248: at * 132 * 1.4e9, 250: at * 66 * 1.4e9},
        }
        for at in (10.0, 12.0)
    ]
    found = first_contact._between(*ends)
    assert found["elapsed_over_clock"] == pytest.approx(132)
    assert found["ratio"] == pytest.approx(0.5)
    missing = {"at": 1.0, "clock_hz": 1.0, "values": {5: 50.0, 248: "code 3", 250: "code 3"}}
    assert first_contact._between(missing, missing) == {"elapsed": None}


def test_a_step_that_fails_costs_no_other(
    handle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> dict[str, Any]:
        raise RuntimeError("no")

    monkeypatch.setattr(
        first_contact, "steps", lambda *_: iter([("bad", refuse), ("good", lambda: {"x": 1})])
    )
    outcomes = first_contact.run(tmp_path / "out")
    assert outcomes == {"bad": "RuntimeError: no", "good": "done"}
    assert json.loads((tmp_path / "out" / "bad.json").read_text())["failed"] == "RuntimeError: no"
    assert json.loads((tmp_path / "out" / "good.json").read_text())["x"] == 1


def test_the_cost_of_the_agent_is_taken_inside_the_turns() -> None:
    """100 launches a second alone, 99 beside the agent; chunks at the edges of a turn belong to neither."""
    turns = [agent_cost.Turn(False, 0.0, 4.0), agent_cost.Turn(True, 4.0, 8.0)]
    marks, launches = [], 0.0
    for step in range(161):
        at = step * 0.05
        marks.append(Mark(at, launches))
        launches += 0.05 * (100.0 if at < 4.0 else 99.0)
    assert agent_cost.of_pair(marks, *turns) == pytest.approx((100.0, 99.0))
    assert agent_cost.of_pair(marks, *reversed(turns)) == pytest.approx((100.0, 99.0))


def test_the_cost_and_its_interval() -> None:
    lost, half = agent_cost.cost([(100.0, 99.0), (100.0, 98.0), (100.0, 97.0)])
    assert lost == pytest.approx(0.02)
    assert half == pytest.approx(1.96 * 0.01 / 3**0.5)


@pytest.mark.skipif(not has_gpu(), reason="needs a GPU, and torch with CUDA")
def test_on_a_gpu_everything_is_answered(tmp_path: Path) -> None:
    outcomes = first_contact.run(tmp_path / "out")
    assert set(outcomes.values()) == {"done"}
