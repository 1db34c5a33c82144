"""A real agent tells of hundreds of ended jobs of a large node, and stays as small as it was."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ofu_exporter.jobs.gpu_totals import GpuTotals
from ofu_exporter.jobs.state_file import open_store
from ofu_exporter.jobs.totals import JobTotals
from tests.bench.process import resident_mib
from tests.helpers.agent import agent, until

JOBS, GPUS = 200, 72
MOST_MORE_MIB = 40.0
"""All of them at once, as objects and as text, took over 150 MiB."""


def ended(now: float, number: int) -> JobTotals:
    gpus = [
        GpuTotals(
            gpu=str(place),
            uuid=f"GPU-{place:08d}-0000-0000-0000-000000000000",
            held_seconds=3600.0,
            observed_seconds=3500.0,
            utilization_seconds=1000.0,
        )
        for place in range(GPUS)
    ]
    at = now - 7200.0 - number
    return JobTotals(
        scheduler="slurm",
        job_id=f"{5000 + number}",
        began=at - 3600.0,
        ended=at,
        updated=at,
        gpus=tuple(gpus),
    )


@pytest.mark.slow
def test_all_are_told_of_once_and_never_are_in_memory_at_once(tmp_path: Path) -> None:
    state, now = tmp_path / "state", time.time()
    store = open_store(state)
    store.save([ended(now, number) for number in range(JOBS)], {}, now)
    store.close()
    flags = ("--source", "simulate", "--scheduler", "simulate", "--interval", "0.5s")
    with agent("run", *flags, "--state-file", str(state), "--state-interval", "0.2s") as node:
        here = [
            job["job_id"]
            for job in json.loads(
                until(lambda: node.get("/v1/jobs")[1].strip("[]") and node.get("/v1/jobs")[1])
            )
        ]
        before = resident_mib(node.process.pid, "VmHWM")
        told = node.get("/v1/jobs?ended=true")[1]
        assert resident_mib(node.process.pid, "VmHWM") - before < MOST_MORE_MIB
    ids = [job["job_id"] for job in json.loads(told)]
    old = [each for each in ids if int(each) >= 5000]
    assert old == [f"{5000 + number}" for number in range(JOBS)]
    assert {*ids} >= {*here}
    assert len({*ids}) == len(ids)
