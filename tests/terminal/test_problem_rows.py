"""What is wrong: each fault of a node is a row that says what to do, and a sound node has none."""

from __future__ import annotations

from typing import Any

from ofu_exporter.serving.node_json import SourceJson
from ofu_exporter.terminal.problem_rows import problem_rows
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from tests.helpers.scenes import many_nodes, one_node, shown_node


def problems(scene: Scene) -> list[str]:
    """Every problem as one text."""
    return [" | ".join(value for _, value in row.details()) for row in problem_rows(scene)]


def altered(age: float = 1.0, **fields: Any) -> Scene:
    """A node without faults, but for these fields."""
    sound = {"gpus": shown_node().gpus[:2], "jobs": []}
    return Scene((SceneAnswer("n", shown_node().model_copy(update=sound | fields), age=age),), "")


def test_a_sound_node_has_no_problem() -> None:
    assert problems(altered()) == []


def test_the_faults_of_the_shown_node_are_named_worst_first() -> None:
    lost, apart, warm, idle = problems(one_node())
    assert lost.startswith("node-17 GPU 7 | not measured: lost")
    assert "look for Xid messages" in lost
    assert apart.startswith("job 48230 on node-17 | MFU too high by")
    assert "Likeliest: " in apart
    assert warm == (
        "node-17 GPU 3 | its clock is held down: too warm | "
        "The GPU or its memory is too warm: check the cooling of the node."
    )
    assert idle.startswith("node-17 GPU 6 | held by job 48144 of alan without tensor work for")


def test_a_node_that_does_not_answer_is_a_problem() -> None:
    assert any(
        each.startswith("x | does not answer: timed out") for each in problems(many_nodes("x"))
    )


def test_an_agent_that_answers_and_does_not_sample_is_a_problem() -> None:
    assert problems(altered(age=59.0)) == []
    assert "its newest sample is 61 s old" in problems(altered(age=61.0))[0]


def test_a_pause_and_a_source_that_cannot_be_read_are_problems() -> None:
    assert "the agent is paused" in problems(altered(paused=True))[0]
    source = SourceJson(
        source="nvml", up=False, simulated=False, reason="no_driver", detail="d", advice="Load it."
    )
    assert problems(altered(sources=[source])) == ["n | source nvml: no driver (d) | Load it."]


def test_a_job_that_holds_a_gpu_for_a_few_minutes_without_work_is_no_problem() -> None:
    idle = shown_node().gpus[6].model_copy(update={"idle_seconds": 599.0})
    notebook = [job for job in shown_node().jobs if job.gpus == ("6",)]
    assert problems(altered(gpus=[idle], jobs=notebook)) == []
    longer = idle.model_copy(update={"idle_seconds": 600.0})
    assert len(problems(altered(gpus=[longer], jobs=notebook))) == 1
