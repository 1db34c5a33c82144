"""Rows of jobs, users and idle GPUs: sums over nodes, and the verdict of the node that disagrees most."""

from __future__ import annotations

import math

import pytest

from ofu_exporter.serving.node_json import NodeJob
from ofu_exporter.terminal.job_rows import (
    idle_rows,
    job_rows,
    likeliest_cause,
    styled_verdict,
    total_ofu,
    user_rows,
)
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from ofu_exporter.terminal.table import TableRow
from ofu_exporter.values.reported import LikelyCause, Verdict
from tests.helpers.scenes import many_nodes, one_node, shown_node
from tests.helpers.shown_node import LLAMA, MOE

pytestmark = pytest.mark.xdist_group("shown node")


def shown(row: TableRow, key: str) -> str:
    return "".join(segment.text for segment in row.cells[key].draw(40, False)).strip()


def job(**fields: object) -> NodeJob:
    base = next(each for each in shown_node().jobs if each.job_id == MOE.job_id)
    return base.model_copy(update=fields)


def test_a_job_on_several_nodes_is_one_row_with_sums() -> None:
    rows = {shown(row, "job"): row for row in job_rows(many_nodes(nodes=3))}
    assert len(rows) == 3
    assert shown(rows[MOE.job_id], "gpus") == "6"
    assert shown(rows[MOE.job_id], "node") == "node-17, node-18, node-19"


def test_jobs_of_two_clusters_with_one_id_are_two_rows() -> None:
    of_users = [shown_node().model_copy(update={"jobs": [job(user=user)]}) for user in ("a", "b")]
    scene = Scene(tuple(SceneAnswer(f"n{at}", each) for at, each in enumerate(of_users)), "")
    rows = job_rows(scene)
    assert [(shown(row, "user"), shown(row, "node")) for row in rows] == [("a", "n0"), ("b", "n1")]
    assert len({row.subject for row in rows}) == 2


def test_the_ofu_of_a_job_is_of_sums_and_no_mean_of_ratios() -> None:
    parts = [
        job(utilization_ratio=0.5, observed_seconds=900.0),
        job(utilization_ratio=0.1, observed_seconds=100.0),
        job(utilization_ratio=None, observed_seconds=0.0),
    ]
    assert total_ofu(parts) == pytest.approx((450 + 10) / 1000)
    assert total_ofu(parts[2:]) is None


def test_verdicts_are_in_words_with_points() -> None:
    rows = {shown(row, "job"): row for row in job_rows(one_node())}
    moe, llama = rows[MOE.job_id], rows[LLAMA.job_id]
    both = next(each for each in shown_node().jobs if each.job_id == MOE.job_id)
    assert both.mfu_ratio is not None
    assert both.compared_utilization_ratio is not None
    points = round(100 * (both.mfu_ratio - both.compared_utilization_ratio))
    assert shown(moe, "verdict") == f"MFU {points} points above OFU"
    assert shown(llama, "verdict") == "agrees"


def test_the_node_that_disagrees_is_not_hidden_by_the_others() -> None:
    found = [("a", job(verdict=Verdict.AGREE)), ("b", job()), ("c", job(verdict=None))]
    words, style = styled_verdict(found)
    assert words.endswith(", on 1 of 3 nodes")
    assert style == "bad"
    assert styled_verdict([("a", job(verdict=None))])[0] == "reports nothing"


def compared(verdict: Verdict, mfu: float, ofu: float, seconds: float = 600.0) -> NodeJob:
    return job(
        verdict=verdict,
        mfu_ratio=mfu,
        compared_utilization_ratio=ofu,
        compared_seconds=seconds,
        ended=None,
    )


def test_the_points_of_a_verdict_are_those_of_the_nodes_that_have_it() -> None:
    """Over all four, MFU is below OFU."""
    found = [
        ("a", compared(Verdict.MFU_ABOVE_OFU, 0.6, 0.5)),
        ("b", compared(Verdict.MFU_ABOVE_OFU, 0.5, 0.2, 1800.0)),
        ("c", compared(Verdict.MFU_BELOW_OFU, 0.1, 0.9, 6000.0)),
        ("d", compared(Verdict.AGREE, 0.4, 0.4)),
    ]
    assert styled_verdict(found)[0] == "MFU 25 points above OFU, on 2 of 4 nodes"
    causes = [LikelyCause(name, 1.0, 0.0, "") for name in ("above", "below")]
    of_each = {"b": causes[:1], "c": causes[1:]}
    found = [(at, job.model_copy(update={"causes": of_each.get(at, ())})) for at, job in found]
    assert likeliest_cause(found[::-1]) is causes[0]
    assert likeliest_cause(found[:1]) is None


def test_a_job_has_ended_once_it_has_on_all_nodes_and_then_its_user_has_it_no_more() -> None:
    running, ended = job(ended=None), job(ended=1.0)
    for on_nodes, words, users in (((running, ended), "", 1), ((ended, ended), " (ended)", 0)):
        nodes = [shown_node().model_copy(update={"jobs": [each]}) for each in on_nodes]
        scene = Scene(tuple(SceneAnswer(f"n{at}", node) for at, node in enumerate(nodes)), "")
        (row,) = job_rows(scene)
        assert shown(row, "name") == f"{MOE.name}{words}"
        assert len(user_rows(scene)) == users


def test_users_have_their_jobs_gpus_and_idle_ones() -> None:
    rows = {shown(row, "user"): row for row in user_rows(many_nodes(nodes=2))}
    assert set(rows) == {"ada", "grace", "alan"}
    assert [shown(rows["ada"], key) for key in ("jobs", "gpus", "idle", "apart")] == [
        *("1", "8", "", "")
    ]
    assert shown(rows["alan"], "idle") == "2"
    assert shown(rows["grace"], "apart") == "1"
    hours = math.fsum(each.observed_seconds for each in shown_node().jobs if each.user == "ada")
    assert shown(rows["ada"], "hours") == f"{2 * hours / 3600:.1f}"


def test_only_gpus_that_are_held_without_work_are_idle() -> None:
    (row,) = idle_rows(one_node())
    assert (shown(row, "gpu"), shown(row, "user")) == ("6", "alan")
    assert shown(row, "idle") == "1 h+"
    node = shown_node()
    gpus = [node.gpus[6].model_copy(update={"idle_seconds": each}) for each in (70.0, 90.0)]
    twice = Scene((SceneAnswer("n", node.model_copy(update={"gpus": gpus})),), "")
    assert [shown(each, "idle") for each in idle_rows(twice)] == ["2 min", "70 s"]
    assert {"6", "alan"} <= {*row.words.split()}


def test_rows_of_jobs_and_users_are_found_by_names_and_verdicts() -> None:
    rows = {shown(row, "job"): row for row in job_rows(many_nodes(nodes=2))}
    for words in (MOE.job_id, MOE.name, MOE.user, MOE.account, "node-17 node-18", "above OFU"):
        assert words in rows[MOE.job_id].words
    by_user = {shown(row, "user"): row for row in user_rows(one_node())}
    assert {"grace", MOE.job_id} <= {*by_user["grace"].words.split()}
