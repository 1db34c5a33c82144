"""Rows of GPUs and nodes: the numbers of the node, and words where there are none."""

from __future__ import annotations

import pytest

from ofu_exporter.serving.node_json import NodeGpu
from ofu_exporter.terminal.gpu_rows import gpu_rows, held_idle_seconds, mean_hour, node_rows
from ofu_exporter.terminal.pictures import AWAY, EMPTY_SMS, NO_TENSOR
from ofu_exporter.terminal.scene import Scene, SceneAnswer, ofu_of
from ofu_exporter.terminal.table import TableRow
from ofu_exporter.values.losses import Loss, Losses
from tests.helpers.scenes import many_nodes, one_node, shown_node

pytestmark = pytest.mark.xdist_group("shown node")


def shown(row: TableRow, key: str, width: int = 40) -> str:
    return "".join(segment.text for segment in row.cells[key].draw(width, False)).strip()


def with_window(ofu: float, lost: Losses, share: float = 1.0) -> NodeGpu:
    gpu = shown_node().gpus[0]
    assert gpu.window is not None
    window = gpu.window.model_copy(update={"utilization_ratio": ofu, "lost_ratio": lost})
    return gpu.model_copy(update={"window": window, "share_ratio": share})


@pytest.mark.slow
def test_each_gpu_has_its_number_and_its_job() -> None:
    rows = gpu_rows(one_node())
    assert [shown(row, "gpu") for row in rows] == [str(index) for index in range(8)]
    for row, gpu in zip(rows[:7], shown_node().gpus, strict=False):
        ofu = ofu_of(gpu)
        assert ofu is not None
        assert shown(row, "ofu") == f"{100 * ofu:.1f}"
    assert (shown(rows[4], "job"), shown(rows[4], "user")) == ("moe-pretrain", "grace")


@pytest.mark.slow
def test_a_gpu_that_is_not_measured_says_why_and_what_to_do() -> None:
    row = gpu_rows(one_node())[7]
    assert shown(row, "ofu") == "\u2013"
    said = shown(row, row.rest_from, 200)
    assert said.startswith("lost (detail): The GPU fell off") or said.startswith("lost: The GPU")


def test_a_gpu_that_is_held_without_work_says_for_how_long() -> None:
    assert shown(gpu_rows(one_node())[6], "note") == "idle 1 h+"


def test_what_holds_a_clock_down_is_said_where_it_is_known() -> None:
    rows = gpu_rows(one_node())
    assert [shown(row, "limit") for row in rows[2:4]] == ["power cap", "too warm"]
    assert shown(rows[6], "limit") == "", "nothing holds it down"
    assert ("clock held down by", "nothing") in rows[6].details()


def test_each_part_of_the_peak_is_drawn_and_named() -> None:
    lost = {Loss.CLOCK: 0.1, Loss.NO_TENSOR: 0.3, Loss.EMPTY_SMS: 0.2, Loss.IDLE: 0.152}
    node = shown_node().model_copy(update={"gpus": [with_window(0.248, lost)]})
    (row,) = gpu_rows(Scene((SceneAnswer("n", node),), ""))
    drawn = shown(row, "bar", 100)
    assert (drawn.count(NO_TENSOR), drawn.count(EMPTY_SMS)) == (30, 20)
    named = [value for name, value in row.details() if name == "lost of the peak"]
    assert len(named) == len(lost)
    assert "15.2% idle: no kernel ran" in named


def test_nobody_holds_a_gpu_longer_than_since_the_job_began() -> None:
    node = shown_node()
    notebook = next(job for job in node.jobs if job.gpus == ("6",))
    assert node.unix is not None
    late = notebook.model_copy(update={"began": node.unix - 90.0})
    late_node = node.model_copy(update={"jobs": [late]})
    assert held_idle_seconds(late_node, node.gpus[6]) == pytest.approx(90.0)
    soon = notebook.model_copy(update={"began": node.unix - 30.0})
    assert held_idle_seconds(node.model_copy(update={"jobs": [soon]}), node.gpus[6]) is None
    assert held_idle_seconds(node.model_copy(update={"jobs": []}), node.gpus[6]) is None
    assert held_idle_seconds(node, node.gpus[0]) is None


def test_mig_instances_come_in_the_order_of_their_numbers() -> None:
    gpu = shown_node().gpus[0]
    others = [("10", ""), ("9", "11"), ("9", "2")]
    gpus = [gpu.model_copy(update={"gpu": one, "gpu_instance": two}) for one, two in others]
    node = shown_node().model_copy(update={"gpus": gpus})
    rows = gpu_rows(Scene((SceneAnswer("n", node),), ""))
    by_place = sorted(rows, key=lambda row: str(row.cells["gpu"].order))
    assert [shown(row, "gpu") for row in by_place] == ["9/2", "9/11", "10"]


def test_a_node_has_a_character_for_each_gpu_and_one_that_is_away_a_sentence() -> None:
    first, _, _, gone = node_rows(many_nodes("node-99"))
    levels = shown(first, "gpus")
    assert len(levels) == 8
    assert levels[7] == AWAY
    assert shown(first, "measured") == "7/8"
    assert shown(gone, "gpus") == "does not answer: timed out"
    assert {"node-17", "ada", "grace", "alan"} <= {*first.words.split()}
    assert gone.words == "node-99 does not answer: timed out"


def test_the_mean_of_hours_weighs_gpus_and_leaves_gaps_out() -> None:
    hours: list[tuple[list[float | None], float]] = [([0.4, None, None], 1.0), ([0.1, 0.2], 3.0)]
    assert mean_hour(hours) == [pytest.approx(0.4), pytest.approx(0.1), pytest.approx(0.2)]
    assert mean_hour([([None], 1.0)]) == [None]
