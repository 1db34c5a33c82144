"""The simulated jobs that report: one agrees with its GPUs, one counts attention in full and is found out."""

from __future__ import annotations

import pytest

from ofu_exporter.flops.causes import CauseFacts, causes
from ofu_exporter.reports import simulated
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.model_count import counted_step
from ofu_exporter.reports.simulated import REPORTING, SimulatedReports
from ofu_exporter.values.job import Job
from ofu_exporter.values.reported import ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import FakeClock

HONEST, OVER = "llama-8b-train", "moe-pretrain"


def a_job(name: str, job_id: str, scheduler: str = "simulate") -> Job:
    return Job(scheduler, job_id, name)


class Simulation:
    """A node of two GPUs with a job on each, both of which report for three minutes."""

    def __init__(self, *jobs: Job) -> None:
        self.node = Node(len(jobs))
        self.clock = FakeClock(0.0)
        self.book = ReportBook(
            lambda: self.node.last, clock=self.clock, unix=lambda: EPOCH + self.clock.now
        )
        reporter = SimulatedReports(lambda: self.node.last, self.book)
        self.node.give(0.0, *(whole(job, str(index)) for index, job in enumerate(jobs)))
        for end in range(5, 185, 5):
            self.node.run(end - 5.0, float(end))
            self.clock.now = float(end)
            for view in self.node.last.jobs:
                reporter.report(view)

    def of(self, job_id: str) -> ReportsView | None:
        reviewed: Snapshot = self.book.reviewed(self.node.last)
        found: JobView = next(view for view in reviewed.jobs if view.job.job_id == job_id)
        return found.reports


def test_one_agrees_and_the_other_is_explained() -> None:
    simulation = Simulation(a_job(HONEST, "1"), a_job(OVER, "2"))
    honest, over = simulation.of("1"), simulation.of("2")
    assert honest
    assert honest.verdict is Verdict.AGREE
    assert over
    assert over.verdict is Verdict.MFU_ABOVE_OFU
    assert over.causes
    assert over.causes.first
    assert over.causes.first.cause == "full_attention_counted"


def test_what_a_real_scheduler_names_is_never_spoken_for() -> None:
    assert Simulation(a_job(OVER, "2", scheduler="slurm")).of("2") is None


def test_jobs_that_are_not_in_the_table_report_nothing() -> None:
    assert Simulation(a_job("chat-serving", "3")).of("3") is None


def test_the_over_report_is_what_the_formula_makes_of_its_model() -> None:
    job = counted_step(ModelBody(**REPORTING[OVER].facts["model"]))
    facts = CauseFacts(step=job)
    (cause,) = [each for each in causes() if each.slug == "full_attention_counted"]
    (hypothesis,) = cause.hypotheses(facts)
    assert hypothesis.miscount is not None
    ratio = hypothesis.miscount(job).flops() / job.flops()
    assert ratio == pytest.approx(simulated._FULL_OVER_CAUSAL, rel=1e-4)
