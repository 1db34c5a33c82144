"""How far lines of runs have come, over jobs: nobody changes the numbers of another's jobs."""

from __future__ import annotations

import pytest

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.owner import Owner
from ofu_exporter.reports.run_lines import MOST_OWNERS, RunLines
from ofu_exporter.values.job import Job
from ofu_exporter.values.progress import MOST_RUN_LINES, Progress
from ofu_exporter.values.snapshot import GpuView, JobView
from tests.helpers.values import gpu

NOW = 1_800_000_000.0


def told(lines: RunLines, job: Job, step: int, run: str = "llama") -> Progress:
    report = MfuReport(job_id=job.job_id, step=step, start=NOW - 10)
    owner = Owner(job.key, JobView(job, NOW - 3600))
    return lines.after_report(Progress(), report, run, owner, NOW)


def test_a_mistaken_step_is_forgotten_for_the_next_job_too() -> None:
    lines, progress = RunLines(lambda: NOW), Progress()
    owner = Owner(job(1, "ada").key, JobView(job(1, "ada"), NOW - 3600))
    for second, step in enumerate((100, 110, 10**12, 120, 130)):
        report = MfuReport(job_id="1", step=step)
        progress = lines.after_report(progress, report, "llama", owner, NOW - 10 + second)
    assert progress.highest_step == 130
    assert told(lines, job(2, "ada"), 131).highest_before == 130


def test_where_the_clock_was_set_back_what_is_stated_counts_by_the_new_one() -> None:
    """Of two jobs of one GPU an hour back: one has stated steps before, one only began before."""
    now = [NOW]
    lines, began = RunLines(lambda: now[0]), NOW - 60
    view = JobView(job(1, "ada"), began)
    owner = Owner(view.job.key, view, (GpuView(gpu(), None),))

    def stated(progress: Progress, **fields: object) -> Progress:
        now[0] += 10
        report = MfuReport.model_validate({"job_id": "1", "start": now[0] - 10, **fields})
        return lines.after_report(progress, report, "", owner, now[0])

    before = stated(Progress(), step=100)
    now[0] -= 3600
    for first in (before, Progress()):
        after = stated(stated(first, step=101), event="evaluation")
        assert after.evaluation_seconds == 10
        after = stated(stated(stated(after, event="restart"), step=90), step=95)
        assert (after.restarts, after.done_again_seconds) == (1, 20)


def job(number: int, user: str, namespace: str = "") -> Job:
    return Job("slurm", str(number), user=user, namespace=namespace)


@pytest.mark.parametrize("is_another_agent", [False, True])
def test_a_job_of_the_same_user_goes_on_from_the_highest_step(is_another_agent: bool) -> None:
    lines = RunLines(lambda: NOW)
    first = told(lines, job(1, "ada"), 150)
    if is_another_agent:
        lines = RunLines(lambda: NOW)
        lines.resume(job(1, "ada"), first)
    after = told(lines, job(2, "ada"), 110)
    assert (after.highest_before, after.highest_step) == (150, 150)


@pytest.mark.parametrize("other", [job(2, "eve"), job(2, ""), job(2, "ada", "elsewhere")])
def test_a_job_of_another_changes_nothing(other: Job) -> None:
    lines = RunLines(lambda: NOW)
    told(lines, other, (1 << 53) - 1)
    after = told(lines, job(1, "ada"), 110)
    assert (after.highest_before, after.highest_step) == (None, 110)


@pytest.mark.slow
def test_whoever_states_ten_thousand_runs_displaces_only_own_ones() -> None:
    lines = RunLines(lambda: NOW)
    told(lines, job(1, "ada"), 150)
    for number in range(10_000):
        told(lines, job(2, "eve"), number, f"run{number}")
    assert told(lines, job(3, "ada"), 110).highest_before == 150
    assert max(map(len, lines._of_owner.values())) == MOST_RUN_LINES
    for number in range(2 * MOST_OWNERS):
        told(lines, job(number, f"user{number}"), 1)
    assert len(lines._of_owner) == MOST_OWNERS
