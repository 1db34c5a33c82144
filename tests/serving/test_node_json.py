"""A whole node in one answer: the same numbers as elsewhere, and nothing where nothing was measured."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import NodeJson, idle_seconds, mean_ofu, node_state
from ofu_exporter.values.snapshot import Snapshot, SourceHealth
from tests.helpers.agent import SIMULATED, agent, until
from tests.helpers.node import Node
from tests.helpers.shown_node import LLAMA, MOE, NOTEBOOK, node_after
from tests.helpers.values import reading

pytestmark = pytest.mark.xdist_group("shown node")


@pytest.fixture(scope="module")
def node() -> NodeJson:
    shown = node_after()
    return node_state(shown.snapshot, shown.history, "node-17", 1.5, Faults())


def test_every_gpu_is_there_with_its_last_hour(node: NodeJson) -> None:
    assert [gpu.gpu for gpu in node.gpus] == [str(index) for index in range(8)]
    assert all(len(gpu.last_hour) == 60 for gpu in node.gpus)
    away = node.gpus[2].last_hour[26:30]
    assert away == [None] * 4, "four minutes without a reading are a gap"


def test_what_is_not_measured_has_a_reason_and_no_number(node: NodeJson) -> None:
    lost = node.gpus[7]
    assert lost.window is None
    assert (lost.unavailable, lost.idle_seconds) == ("lost", None)
    assert "fell off the bus" in lost.advice


def test_a_gpu_that_does_nothing_has_been_idle_for_a_time(node: NodeJson) -> None:
    assert [gpu.idle_seconds for gpu in node.gpus[:7]] == [0.0] * 6 + [3600.0]


def test_jobs_say_how_they_compare(node: NodeJson) -> None:
    jobs = {job.job_id: job for job in node.jobs}
    moe, notebook = jobs[MOE.job_id], jobs[NOTEBOOK.job_id]
    assert (moe.gpus, moe.gpu_count, moe.user) == (("4", "5"), 2.0, "grace")
    assert moe.verdict is not None
    assert moe.verdict.diverged
    assert moe.mfu_ratio == pytest.approx(0.567, abs=0.01)
    assert (notebook.verdict, notebook.mfu_ratio) == (None, None)
    assert jobs[LLAMA.job_id].causes == ()


def test_the_ofu_of_the_node_is_the_mean_of_those_that_are_measured(node: NodeJson) -> None:
    ofus = [gpu.window.utilization_ratio for gpu in node.gpus if gpu.window]
    known = [ofu for ofu in ofus if ofu is not None]
    assert node.utilization_ratio == pytest.approx(sum(known) / 7)
    assert mean_ofu([(0.5, 0.25), (None, 1.0), (0.1, 0.75)]) == pytest.approx(0.2)
    assert mean_ofu([(None, 1.0)]) is None


def test_before_the_first_snapshot_nothing_is_known() -> None:
    empty = node_state(None, History(), "n", 0.0, Faults())
    assert (empty.unix, empty.utilization_ratio, empty.gpus, empty.sources) == (None, None, [], [])
    untimed = Snapshot(0.0, (), SourceHealth("nvml"))
    assert node_state(untimed, History(), "n", 0.0, Faults()).unix is None


@given(st.lists(st.none() | st.floats(0, 1)))
def test_idle_time_ends_at_work_and_at_a_gap(steps: list[float | None]) -> None:
    idle = idle_seconds(0.0, steps)
    assert idle_seconds(0.0, [*steps, None]) == idle  # not measured yet
    while steps and steps[-1] is None:
        steps.pop()
    tail = steps[len(steps) - int(idle / 10) :]
    assert all(step is not None and step < 0.001 for step in tail)
    assert idle_seconds(0.5, steps) == 0.0
    if len(tail) < len(steps):
        last = steps[-len(tail) - 1]
        assert last is None or last >= 0.001


@pytest.mark.parametrize(("late", "window"), [(0.1, 5.0), (1.5, 5.0), (15.0, 30.0)])
@pytest.mark.parametrize("phase", [0.0, 4.0])
def test_a_gpu_is_idle_also_where_its_windows_are_read_late(
    late: float, window: float, phase: float
) -> None:
    """A page of dcgm-exporter stands for the collection before."""
    node, history = Node(1), History()
    ends = [phase + number * window for number in range(1, 21)]
    for end in ends:
        history.take(node.tick(end + late, reading(end - window, end, 0.0)))
    (idle,) = node_state(node.last, history, "n", 0.0, Faults()).gpus
    assert idle.idle_seconds == pytest.approx(ends[-1], abs=2 * window)


def test_a_thousandth_of_the_peak_is_work() -> None:
    assert idle_seconds(0.0, [0.0, 0.001, 0.0009, 0.0]) == 20.0
    assert idle_seconds(0.0009, [0.0]) == 10.0
    assert idle_seconds(0.001, [0.0]) == 0.0


def test_what_is_no_number_is_refused_from_another_agent(node: NodeJson) -> None:
    text = node.model_dump_json()
    assert NodeJson.model_validate_json(text) == node
    for wrong in ("1e999", "NaN"):
        data = text.replace('"idle_seconds":0.0', f'"idle_seconds":{wrong}', 1)
        with pytest.raises(ValueError, match="finite"):
            NodeJson.model_validate_json(data)
    for part in ("-1.0", "0.0", "1.5", "1e300"):
        data = re.sub(r'"share_ratio":[\d.]+', f'"share_ratio":{part}', text, count=1)
        with pytest.raises(ValueError, match="share_ratio"):
            NodeJson.model_validate_json(data)


@pytest.mark.slow
def test_a_real_agent_answers_for_its_node() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: json.loads(running.get("/v1/node")[1])["utilization_ratio"])
        answer = NodeJson.model_validate_json(running.get("/v1/node")[1])
    assert len(answer.gpus) == 8
    assert (answer.sources[0].simulated, answer.sources[0].recorded) == (True, "")
    assert 0 <= answer.age_seconds < 60
