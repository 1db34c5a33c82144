"""Restarts, starts and steps done again of jobs under a real Slurm, against what their loops and hooks have noted.

The GPUs are NVML's stand-in, which each loop sets to work; everything else is as on a node.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.doubles.nvml import Scenario
from tests.helpers import training_loop
from tests.helpers.agent import Agent, agent, until
from tests.helpers.slurm_cluster import DEPLOYED, GPUS, Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

TORCH = Path(os.environ.get("OFU_TEST_TORCH", "/srv/torch-venv")) / "bin"
WINDOW = 0.5
needs_torch = pytest.mark.skipif(
    not (TORCH / "torchrun").exists(), reason=f"no PyTorch in {TORCH.parent} (OFU_TEST_TORCH)"
)


class Step(NamedTuple):
    number: int
    begin: float
    end: float


class Site:
    """A cluster with an agent, and what jobs and hooks note."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.scenario = Scenario(folder / "nvml", GPUS)
        self.running: Agent
        self.first = self.torchrun = ""
        """Jobs that run beside the one that is requeued."""

    def submit(self, name: str, steps: int, *fails: int, run: str = "", launcher: str = "") -> str:
        script = Path(training_loop.__file__)
        arguments = (script, self.notes(name), self.scenario.path, steps, *fails)
        lines = (
            f"export OFU_EXPORTER_URL={self.running.url} OFU_RUN={run}",
            f"exec {launcher or sys.executable} {' '.join(map(str, arguments))}",
        )
        return self.cluster.submit("--gres=gpu:1", "--requeue", first="\n".join(lines))

    def notes(self, name: str) -> Path:
        return self.folder / f"{name}.notes"

    def lines(self, name: str) -> list[list[str]]:
        file = self.notes(name)
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def steps(self, name: str) -> list[Step]:
        lines = (words for words in self.lines(name) if words[0] == "step")
        return [Step(int(words[1]), *map(float, words[2:])) for words in lines]

    def times(self, name: str, what: str) -> list[float]:
        return [float(words[1]) for words in self.lines(name) if words[0] == what]

    def prologs(self, job_id: str) -> list[float]:
        lines = (line.split() for line in self.notes("prologs").read_text().splitlines())
        return [float(at) for noted, at in lines if noted == job_id]

    def lost(self, job_id: str, reason: str) -> float | None:
        name = "ofu_job_lost_progress_gpu_seconds_total"
        return self.running.value(name, job_id=job_id, reason=reason)

    def restarts(self, job_id: str) -> float | None:
        return self.running.value("ofu_job_restarts_total", job_id=job_id)

    def is_over(self, job_id: str) -> bool:
        return self.cluster.state(job_id) in ("COMPLETED", "FAILED") and not self.running.values(
            "ofu_gpu_info", job_id=job_id
        )


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(cluster, tmp_path_factory.mktemp("progress"))
    flags = ("run", "--source", "nvml", "--interval", f"{WINDOW}s", "--clock-interval", "0.1s")
    slurm = ("--scheduler", "slurm", "--job-dir", str(cluster.jobs))
    with cluster.hooks(DEPLOYED / "prolog.sh", DEPLOYED / "epilog.sh"):
        prolog = cluster.root / "hooks" / "prolog"
        noting = f'echo "$SLURM_JOB_ID $(date +%s.%N)" >>{made.notes("prologs")}'
        idle = f'echo "gpu $SLURM_JOB_GPUS tensor 0.0" >>{made.scenario.path}'
        ours = prolog.read_text().partition("\n")[2]
        prolog.write_text(f"#!/bin/sh\n{idle}\n{noting}\n{ours}")
        with agent(*flags, *slurm, env=made.scenario.environment()) as made.running:
            until(lambda: len(made.running.values("ofu_gpu_utilization_ratio")) == GPUS)
            made.first = made.submit("line", 38, run="llama-7b")
            if (TORCH / "torchrun").exists():
                launcher = f"{TORCH / 'torchrun'} --standalone --nproc-per-node=1 --max-restarts=3"
                made.torchrun = made.submit("torchrun", 60, 35, 55, launcher=launcher)
            yield made


def done_again(steps: list[Step], reached: int = 0) -> float:
    """Seconds of the steps that had been reached before."""
    seconds = 0.0
    for step in steps:
        seconds += (step.end - step.begin) * (step.number <= reached)
        reached = max(reached, step.number)
    return seconds


def starts(site: Site, name: str, job_id: str) -> list[float]:
    """How long each start of a job's runs by Slurm took: from its prolog until its loop began to work."""
    works = site.times(name, "works")
    return [next(at for at in works if at > noted) - noted for noted in site.prologs(job_id)]


def runs_of(site: Site, job_id: str) -> list[dict[str, float]]:
    runs: list[dict[str, float]] = json.loads(site.running.get(f"/v1/jobs/{job_id}")[1])["runs"]
    return runs


def check(site: Site, job_id: str, starting: list[float], again: float) -> None:
    """Each start and each beginning of steps done again within three windows: only then the agent is sure of them.

    A start counts from when the agent hears of the run: a prolog's file may be seconds late on a busy node.
    """
    late = len(starting) * 3 * WINDOW
    unheard = math.fsum(run["began"] for run in runs_of(site, job_id))
    unheard -= math.fsum(site.prologs(job_id))
    truth = math.fsum(starting) - unheard
    assert unheard > -0.1
    assert site.lost(job_id, "starting") == pytest.approx(truth, abs=late)
    assert site.lost(job_id, "done_again") == pytest.approx(again, abs=late)


def requeue(site: Site, name: str, job_id: str) -> None:
    """Have Slurm start a job again, with its prolog: slurmd 22.05 starts some requeued jobs without (it says twice that
    it has "reissued" the credential), and no agent can know of those. Such a one is requeued before its first step."""
    prologs = len(site.prologs(job_id))
    while len(site.prologs(job_id)) == prologs:
        begun = len(site.times(name, "begins"))
        site.cluster.call("scontrol", "requeue", job_id)
        until(lambda: len(site.times(name, "begins")) > begun, 60.0)  # noqa: B023


def test_a_job_that_is_requeued_three_times(site: Site) -> None:
    job_id = site.submit("requeued", 60)
    for reached in (15, 33, 51):
        until(lambda: max(site.steps("requeued"), default=(0,))[0] >= reached, 60.0)  # noqa: B023
        requeue(site, "requeued", job_id)
        until(lambda: site.restarts(job_id) == float(site.cluster.show(job_id)["Restarts"]))
    until(lambda: site.is_over(job_id), 60.0)
    assert site.restarts(job_id) == float(site.cluster.show(job_id)["Restarts"]) >= 3
    until(lambda: site.running.value("ofu_job_step", job_id=job_id) == 60)
    again = done_again(site.steps("requeued"))
    assert again > 5.0
    check(site, job_id, starts(site, "requeued", job_id), again)
    assert len(runs_of(site, job_id)) == 4


def test_a_job_that_continues_another_by_its_run(site: Site) -> None:
    first = site.first
    until(lambda: site.is_over(first), 60.0)
    second = site.submit("line", 60, run="llama-7b")
    until(lambda: site.is_over(second), 60.0)
    assert site.lost(first, "done_again") == 0
    assert site.restarts(first) == site.restarts(second) == 0
    steps = site.steps("line")
    again = itertools.dropwhile(lambda step: step.number != 38, steps)
    truth = done_again([*again][1:], reached=38)
    assert truth > 3.0
    check(site, second, starts(site, "line", second), truth)


@needs_torch
def test_a_loop_that_torchrun_starts_again(site: Site) -> None:
    job_id = site.torchrun
    until(lambda: site.is_over(job_id), 120.0)
    assert site.cluster.show(job_id)["Restarts"] == "0"
    assert site.cluster.state(job_id) == "COMPLETED", site.lines("torchrun")
    assert len(site.times("torchrun", "begins")) == 3
    assert site.restarts(job_id) == 2
    again = done_again(site.steps("torchrun"))
    assert again > 5.0
    starting = starts(site, "torchrun", job_id)
    # A window that begins with counters of the work before a restart is none of the start.
    assert site.lost(job_id, "starting") == pytest.approx(math.fsum(starting), abs=2 * 2 * WINDOW)
    assert site.lost(job_id, "done_again") == pytest.approx(again, abs=2 * 2 * WINDOW)
