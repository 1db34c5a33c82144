"""Whatever befalls a host engine, nothing is read that was not measured: faults in any order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import GpuError
from ofu_exporter.values.reading import Fault, Reading
from tests.doubles import dcgm as double
from tests.helpers.dcgm_node import START, DcgmNode

ACTIVITY = {("0", ""): 0.5, ("1", ""): 0.25, ("2", "1"): 0.75, ("2", "2"): 0.125, ("2", "3"): 0.125}

LINES = (
    *("restart", "engine 0", "engine 1", "forget", "disorder 1", "late 1"),
    *("gpu 0 error dcgmGetValuesSince_v2 -19", "gpu 0 error dcgmGetValuesSince_v2 0"),
    *("gpu 1 error dcgmWatchFields -34", "gpu 1 error dcgmWatchFields 0"),
    *("gpu 0 status 4", "gpu 0 status 1", "gpu 1 status 7", "gpu 1 status 1"),
    *("gpu 0 blank 1", "gpu 0 blank 0", "gpu 2 blank 1", "gpu 2 blank 0"),
    *("error dcgmGetValuesSince_v2 -54", "error dcgmGetValuesSince_v2 0"),
    *("error dcgmWatchFields -34", "error dcgmWatchFields 0"),
    *("error dcgmGetGpuInstanceHierarchy -11", "error dcgmGetGpuInstanceHierarchy 0"),
    *("error dcgmEntitiesGetLatestValues -3", "error dcgmEntitiesGetLatestValues 0"),
    *("instance 2 1 gone", "instance 2 1 3g.40gb MIG-1", "instance 2 3 gone"),
    "instance 2 3 1g.10gb MIG-3",
)
RESTARTS = ("restart", "engine 0")

steps = st.tuples(
    st.sampled_from([0.5, 1.0, 3.0, 5.0, 5.0, 5.0, 12.0]),
    st.one_of(st.none(), st.sampled_from(LINES), st.sampled_from([-3600.0, -0.5, 0.5, 3600.0])),
)


def one_node(folder: Path) -> DcgmNode:
    library = double.load()
    library.test_reset()
    node = DcgmNode(folder / "scenario", library, gpus=2)
    node.scenario.gpu(0, tensor=0.5)
    node.scenario.gpu(1, tensor=0.25)
    node.scenario.instance(2, 1, "3g.40gb")
    node.scenario.instance(2, 2)
    _work(node)
    return node


def _work(node: DcgmNode) -> None:
    """Every instance is born idle; a line about one that is gone would make it."""
    for instance in (1, 2, 3):
        node.scenario.set_instance(2, instance, f"tensor {ACTIVITY['2', str(instance)]}")


@pytest.mark.slow
@given(st.lists(steps, min_size=1, max_size=40))
@settings(
    deadline=None,
    max_examples=int(os.environ.get("SOAK_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_nothing_is_read_that_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, actions: list[tuple[float, str | float | None]]
) -> None:
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(tmp_path / "scenario"))
    node = one_node(tmp_path)
    probe = node.open()
    ends: dict[tuple[str, str], float] = {}
    barrier = START
    for seconds, action in actions:
        node.advance(seconds)
        if isinstance(action, float):
            node.clock_was_set_by += action
            barrier = node.now
        elif action is not None:
            node.scenario.add(action)
            _work(node)
            barrier = node.now if action in RESTARTS else barrier
        try:
            events = probe.read()
        except GpuError:
            events = []
        for event in events:
            if isinstance(event, Fault):
                continue
            assert isinstance(event, Reading)
            assert event.start >= max(barrier, ends.get(event.gpu.key, START)) - 1e-6
            assert event.end <= node.now + 1.0
            assert event.tensor_active == pytest.approx(
                ACTIVITY[event.gpu.index, event.gpu.instance]
            )
            ends[event.gpu.key] = event.end
    node.close()
    assert node.held == (0, 0, 0, 0)
