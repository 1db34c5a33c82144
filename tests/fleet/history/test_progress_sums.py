"""What of a job's GPU-hours was no progress, as far as anybody counts it."""

from __future__ import annotations

from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.reports.chain_rows import ProgressRow
from tests.fleet.reports.test_chain import STEPS, told


def row(progress: ProgressSums) -> ProgressRow:
    (whole,) = (each for each in told(progress).progress if each.by == "all")
    return whole


def test_what_no_agent_counts_is_not_known() -> None:
    """Agents that count neither starts nor restarts; the engines of the job's GPUs are watched."""
    whole = row(ProgressSums(100.0, {"held_idle": 10.0}))
    assert (whole.held_idle_gpu_hours, whole.alone_gpu_hours) == (10.0, 0.0)
    assert whole.starting_gpu_hours is None
    assert whole.done_again_gpu_hours is None
    assert whole.restarts is None


def test_no_hour_is_lost_for_two_reasons() -> None:
    """Of 100 the first two have all: what is left for the second is 40, and for the others nothing."""
    sums = ProgressSums(100.0, {"starting": 60.0, "held_idle": 60.0, "done_again": 20.0})
    lost = {reason.value: hours for reason, hours in sums.cut(100.0).items() if hours}
    assert lost == {"starting": 60.0, "held_idle": 40.0}


def test_a_job_that_says_its_steps_alone_says_nothing_of_evaluations() -> None:
    whole = row(ProgressSums(100.0, STEPS, step=90.0, restarts=0.0))
    assert (whole.done_again_gpu_hours, whole.restarts) == (20.0, 0)
    assert (whole.evaluation_gpu_hours, whole.checkpoint_gpu_hours) == (None, None)


def test_a_job_whose_engines_nobody_watched_has_no_row() -> None:
    assert told(ProgressSums()).progress == []
