"""What the clock is set by while no agent runs is nobody's time: not held, and no reason to stop counting."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.doubles.set_clock import SetClock
from tests.helpers.agent import Agent, agent, until
from tests.helpers.job_node import WINDOW, Node, seconds

HOUR, DAY, YEARS = 3600, 86400, 56 * 365 * 86400
SET = [(0, 2 * DAY), (40, 0), (6 * HOUR, 0), (0, -YEARS), (-DAY, 0)]
"""By how much the clock was off before and after the restart."""


class ClockedNode(Node):
    """A node whose clock, and with it that of its hooks, is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clock = SetClock(folder / "clock")

    def start(self, job_id: str, *gpus: str) -> None:
        now = float(int(time.time())) + self.clock.seconds
        job = Job("slurm", job_id, name="llama", user="ada", started=now)
        job_files.write(self.jobs, JobFile(Claim(job, gpus), None, boot_id()))


@pytest.fixture
def node(tmp_path: Path) -> ClockedNode:
    return ClockedNode(tmp_path)


def totals(running: Agent, job_id: str) -> JobTotals:
    return JobTotals.model_validate_json(running.get(f"/v1/jobs/{job_id}")[1])


def held(job: JobTotals) -> float:
    return sum(gpu.held_seconds for gpu in job.gpus)


@pytest.mark.parametrize(("before", "after"), SET)
def test_a_job_holds_what_it_held_whatever_the_clock_was_set_to(
    node: ClockedNode, before: int, after: int
) -> None:
    """Job 7 runs all the time, job 8 starts while no agent runs, shortly before the clock is set."""
    node.clock.set_by(before)
    began = time.monotonic()
    with agent(*node.flags(), env=node.clock.env) as running:
        node.start("7", "0", "1")
        until(lambda: seconds(running) > 4 * WINDOW)
        measured = totals(running, "7").gpu_seconds
        assert running.stop() == 0
    node.start("8", "2")
    node.clock.set_by(after)
    with agent(*node.flags(), env=node.clock.env) as running:
        until(lambda: seconds(running) > measured + 8 * WINDOW)
        until(lambda: seconds(running, "8") > 4 * WINDOW)
        seven, eight = totals(running, "7"), totals(running, "8")
        passed = time.monotonic() - began
        assert seven.gpu_seconds <= held(seven) <= 2 * (passed + 1.5)
        assert eight.gpu_seconds <= held(eight) <= passed + 1.5
        assert (seven.observed_ratio or 2) <= 1
        running.stop()
        (line,) = [each for each in running.log if "the clock was set" in each]
        assert ("forward" if after > before else "back") in line


def test_a_clock_that_nobody_sets_is_not_said_to_be(node: ClockedNode) -> None:
    for _ in range(2):
        with agent(*node.flags(), env=node.clock.env) as running:
            node.start("7", "0")
            until(lambda: seconds(running) > 2 * WINDOW)
            running.stop()
            assert not running.logged("the clock was set")


@pytest.mark.parametrize("jump", [6 * HOUR, -DAY])
def test_a_clock_that_is_set_while_the_agent_runs_adds_no_time(
    node: ClockedNode, jump: int
) -> None:
    """Job 7 runs all the time, and job 8 begins behind the jump; both end, and are told of by the file."""
    with agent(*node.flags(), env=node.clock.env) as running:
        began = time.monotonic()
        node.start("7", "0", "1")
        until(lambda: seconds(running) > 4 * WINDOW)
        node.clock.set_by(jump)
        before = seconds(running)
        node.start("8", "2")
        until(lambda: seconds(running) > before + 8 * WINDOW)
        until(lambda: seconds(running, "8") > 4 * WINDOW)
        for job_id, gpus in (("7", 2), ("8", 1)):
            job, passed = totals(running, job_id), time.monotonic() - began
            assert job.gpu_seconds <= held(job) <= gpus * (passed + 1.5)
            assert (job.observed_ratio or 2) <= 1
            node.end(job_id)
        until(lambda: totals(running, "7").ended and totals(running, "8").ended)
        for job_id, gpus in (("7", 2), ("8", 1)):
            assert held(totals(running, job_id)) <= gpus * (time.monotonic() - began + 1.5)
