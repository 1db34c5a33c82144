"""The page of a job sets its OFU against the MFU that it reports, and says what makes the difference."""

from __future__ import annotations

import pytest

from ofu_exporter.jobs.gpu_totals import GpuTotals, RunTotals
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.serving.history import History
from ofu_exporter.serving.pages.job_page import _counted_parts, job_page
from ofu_exporter.values.reported import Verdict
from ofu_exporter.values.trace import Finding, TimeParts, TraceSummary
from tests.helpers.documents import reporting
from tests.helpers.shown_node import LLAMA, MOE, NOTEBOOK, ShownNode, node_after

pytestmark = pytest.mark.xdist_group("shown node")

JOB = JobTotals(scheduler="slurm", job_id="7", nodes=("n1",), began=1.0, updated=2.0)


def node() -> ShownNode:
    return node_after(1200.0)


def shown(job: JobTotals) -> str:
    return job_page(job, History())


def test_a_job_that_over_reports_is_told_by_how_much_and_why() -> None:
    page = node().job_page(MOE.job_id)
    assert "MFU 14 points above OFU" in page
    assert "likeliest first" in page
    assert page.count("<polyline") >= 2, "OFU and MFU on one chart"
    assert "OFU of its windows" in page
    assert "SIMULATED" not in page


def test_a_recorded_job_is_told_from_one_that_runs_here() -> None:
    assert "from a recording" in shown(JOB.model_copy(update={"scheduler": "replay"}))
    assert "from a recording" not in shown(JOB)


def test_an_honest_job_agrees() -> None:
    assert "agrees with OFU" in node().job_page(LLAMA.job_id)


def test_the_causes_of_the_last_minutes_are_told_from_those_of_another_verdict() -> None:
    page = " ".join(shown(reporting()).split())
    assert "agrees with OFU" in page
    assert (
        'Of the last minutes: <span class="chip bad">MFU above OFU</span></p> '
        "<p>What makes such a difference" in page
    )
    alike = shown(reporting(verdict=Verdict.MFU_ABOVE_OFU))
    assert "What makes such a difference" in alike
    assert "last minutes" not in alike


def test_a_job_that_reports_nothing_has_no_verdict() -> None:
    page = node().job_page(NOTEBOOK.job_id)
    assert "the job reports no MFU" in page
    assert "MFU against OFU" not in page


def test_a_job_of_which_nothing_was_observed_has_no_number() -> None:
    page = shown(JOB)
    assert "OFU not measured" in page
    assert "%" not in page.partition("</style>")[2].partition("<footer")[0].replace("25 %", "")


def test_a_job_over_many_nodes_names_them_all() -> None:
    gpus = tuple(
        GpuTotals(
            gpu="0",
            uuid=f"GPU-{place}",
            node=f"n{place}",
            held_seconds=100.0,
            observed_seconds=90.0,
            utilization_seconds=30.0,
        )
        for place in range(8)
    )
    page = shown(JOB.model_copy(update={"gpus": gpus, "nodes": tuple(f"n{n}" for n in range(8))}))
    assert "on n0, n1, n2, n3, n4, n5, n6, n7" in page
    assert page.count("33.3%") >= 9


def test_a_gpu_was_observed_for_the_same_share_as_its_job() -> None:
    """What the job waited, or was not alone, is held and not observed."""
    gpu = GpuTotals(
        gpu="0",
        uuid="GPU-0",
        held_seconds=100.0,
        waiting_seconds=40.0,
        shared_seconds=20.0,
        observed_seconds=30.0,
        utilization_seconds=9.0,
    )
    page = shown(JOB.model_copy(update={"gpus": (gpu,)}))
    assert page.count(">75.0%<") == 2


def test_every_run_of_a_requeued_job_is_there() -> None:
    sums = {"held_seconds": 10.0, "observed_seconds": 10.0, "utilization_seconds": 4.0}
    runs = tuple(RunTotals(uid=f"r{n}", node="n1", began=n, ended=n + 10, **sums) for n in (1, 50))
    page = shown(JOB.model_copy(update={"runs": runs}))
    assert "1 r1" in page
    assert "2 r50" in page


def test_simulated_totals_say_so() -> None:
    assert "Simulated data" in shown(JOB.model_copy(update={"simulated": True}))


def test_no_name_can_inject_markup() -> None:
    name = '"><script>alert(1)</script>'
    fields = {"job_name": name, "user": name, "nodes": (name,), "job_id": name}
    assert shown(JOB.model_copy(update=fields)).count("<script") == 1


def test_a_trace_is_drawn_with_what_it_found_and_what_to_do() -> None:
    finding = Finding("host_bound", 0.31, 0.6, "<b>9000 launches</b>", "fuse & compile")
    parts = TimeParts(0.4, 0.2, 0.05, 0.04, 0.31)._asdict()
    traced = reporting(trace=TraceSummary(5.0, 2, 4.0, parts, (finding,), slowest_rank=1))
    page = shown(traced)
    assert "A trace of 2 ranks, 2 s" in page
    assert "the others waited most for rank 1" in page
    assert "at most 31.0%: &lt;b&gt;9000 launches&lt;/b&gt;. fuse &amp; compile" in page
    assert "tensor 40.0%, other 20.0%, communication 5.0%, copies 4.0%, idle 31.0%" in page
    assert "What the counters saw" not in page
    seen = TraceSummary(5.0, 1, 4.0, parts, counters={"used": 0.3, "no_tensor": 0.5, "idle": 0.2})
    beside = shown(reporting(trace=seen))
    assert "What the counters saw" in beside
    assert "used 30.0%, no tensor work 50.0%, idle 20.0%" in beside
    assert [*_counted_parts(seen.counters or {})] == [
        ("used", "used", 0.3),
        ("no_tensor", "no tensor work", 0.5),
        ("rest", "idle", 0.2),
    ]
    nothing = shown(reporting(trace=TraceSummary(5.0, 1, 4.0, parts)))
    assert "No cause of lost time was found" in nothing
    assert "Where the time went" not in shown(reporting())
