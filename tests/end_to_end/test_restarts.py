"""A job that NVRx starts again: its files, its steps and what every face of the agent says of them."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ofu_exporter.client import Reporter
from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.helpers.agent import Agent, agent, call, until

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).parents[1] / "recordings/nvrx/cycle_infos"
LOST = "ofu_job_lost_progress_gpu_seconds_total"


def restarts(node: Agent, number: float) -> bool:
    return node.value("ofu_job_restarts_total", job_id="4711") == number


def write_cycle(folder: Path, number: int) -> None:
    """A file of NVRx as one that it has written, with a begin of now."""
    name = f"cycle_info.4711.0.{number}"
    content = json.loads((RECORDED / name).read_text())
    content["cycle_start_time"] = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    (folder / name).write_text(json.dumps(content, indent=2))


def step(reporter: Reporter, number: int, start: float) -> None:
    """State a step, and wait until the agent has it."""
    accepted = reporter.counts["accepted"]
    reporter.report(step=number, start=start)
    until(lambda: reporter.counts["accepted"] > accepted)


def with_job(jobs: Path) -> tuple[str, ...]:
    """A folder with the file of a job that holds two GPUs, and the flags of an agent that reads it."""
    jobs.mkdir(mode=0o755)
    job = Job("slurm", "4711", name="train", user="ada", started=time.time())
    job_files.write(jobs, JobFile(Claim(job, ("0", "1")), None, boot_id()))
    flags = ("--source", "simulate", "--scheduler", "slurm", "--job-dir", str(jobs))
    return (*flags, "--interval", "0.5s", "--slurm-poll", "0.1s", "--listen", "127.0.0.1:0")


def test_restarts_of_nvrx_are_counted_once_and_steps_below_are_done_again(tmp_path: Path) -> None:
    cycles = tmp_path / "nvrx" / "4711"
    cycles.mkdir(parents=True)
    flags = (*with_job(tmp_path / "jobs"), "--nvrx-folder", str(tmp_path / "nvrx" / "%j"))
    with agent("run", *flags) as node:
        until(lambda: restarts(node, 0))
        with Reporter("4711", node.url, every=0.01) as first:
            step(first, 99, time.time() - 0.5)
            step(first, 100, time.time() - 0.2)
        write_cycle(cycles, 0)
        write_cycle(cycles, 1)
        until(lambda: restarts(node, 1))
        begun = time.time()
        with Reporter("4711", node.url, every=0.01) as again:
            time.sleep(0.5)
            step(again, 60, begun)  # until then it starts
            time.sleep(2.0)
            step(again, 70, begun + 0.5)
            done = time.time() - begun
        write_cycle(cycles, 2)
        until(lambda: restarts(node, 2))
        counted = node.value(LOST, job_id="4711", reason="done_again")
        assert counted is not None
        assert 2 * 0.5 <= counted <= 2 * done
        totals = json.loads(node.get("/v1/jobs/4711")[1])
        (recovery,) = totals["reported"]["progress"]["recoveries"]
        assert recovery[1:3] == [60, 100]
        assert len(totals["starts"]) == 3
        assert "Over time" in node.get("/jobs/4711")[1]
        shown = call("job", "show", "4711", "--agent", node.url)
        assert shown.returncode == 0
        assert "Over time: [" in shown.stdout
        assert "After its last restarts: not yet beyond its highest step" in shown.stdout


def test_a_job_that_goes_on_on_another_node_does_there_again_what_its_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "steps"))
    flags = with_job(tmp_path / "jobs")
    again, failed, last_step = [], [], []
    for first, last in ((100, 200), (150, 250)):
        with agent("run", *flags) as node:
            until(lambda: restarts(node, 0))
            until(lambda: not json.loads(node.get("/v1/jobs/4711")[1])["is_starting"])
            with Reporter("4711", node.url, every=0.01) as reporter:
                begun = time.time()
                for each in (first, last):
                    time.sleep(1.0)
                    step(reporter, each, begun)
                    begun = time.time()
                last_step.append(begun)
            until(lambda: node.value("ofu_job_step", job_id="4711") == last)  # noqa: B023
            again.append(node.value(LOST, job_id="4711", reason="done_again"))
            totals = json.loads(node.get("/v1/jobs/4711")[1])["reported"]["progress"]
            failed.append([each[0] for each in totals["recoveries"]])
    assert again[0] == 0
    assert failed == [[], [pytest.approx(last_step[0], abs=5)]], "as the first node's loop knows"
    assert again[1] is not None
    assert again[1] >= 2 * 0.5 * 1.0, "half of the steps between its two reports at least"
