"""A GPU in MIG mode as the running agent shows it: instances, their jobs, and what becomes of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.jobs.totals import JobTotals
from tests.doubles.nvml import Scenario
from tests.helpers.agent import agent, until
from tests.helpers.job_node import Node, seconds

FIRST = "MIG-00000000-0000-0000-0001-000000000000"
SECOND = "MIG-00000000-0000-0000-0002-000000000000"


def divided(tmp_path: Path) -> Scenario:
    scenario = Scenario(tmp_path / "nvml")
    scenario.gpu(0, mig=1, clock_mhz=[915])
    scenario.instance(0, 1, "3g.40gb", sms=60, tensor=0.8)
    scenario.instance(0, 2, "1g.10gb", sms=16, tensor=0.2)
    return scenario


def flags(node: Node) -> list[str]:
    return [
        *("run", "--source", "nvml", "--interval", "0.2s", "--clock-interval", "0.1s"),
        *("--scheduler", "slurm", "--job-dir", str(node.jobs), "--slurm-poll", "0.05s"),
    ]


def test_jobs_have_the_instances_that_their_mig_uuids_name(tmp_path: Path) -> None:
    node, scenario = Node(tmp_path), divided(tmp_path)
    node.start("7", FIRST)
    node.start("8", SECOND)
    with agent(*flags(node), env=scenario.environment()) as running:
        until(lambda: min(seconds(running, "7"), seconds(running, "8")) > 1.0)
        assert running.value("ofu_job_gpu", job_id="7", gpu="0", gpu_instance="1") == 1
        assert running.value("ofu_job_gpu", job_id="8", gpu="0", gpu_instance="2") == 1
        assert running.values("ofu_exporter_scheduler_rejected_total") == []
        for job, instance, expected in [("7", "1", 0.4), ("8", "2", 0.1)]:
            ratio = running.value("ofu_gpu_utilization_ratio", gpu_instance=instance)
            assert ratio == pytest.approx(expected, abs=1e-3)
            report = JobTotals.model_validate_json(running.get(f"/v1/jobs/{job}")[1])
            assert report.utilization_ratio == pytest.approx(expected, abs=1e-3)


def test_the_page_has_the_instances_that_there_are_and_no_other(tmp_path: Path) -> None:
    node, scenario = Node(tmp_path), divided(tmp_path)
    with agent(*flags(node), env=scenario.environment()) as running:
        until(lambda: running.values("ofu_gpu_up") == [1, 1])
        assert running.value("ofu_gpu_info", gpu_instance="1", mig_profile="3g.40gb") == 1
        scenario.instance_gone(0, 2)
        until(lambda: running.values("ofu_gpu_up") == [1])
        scenario.instance(0, 5, "1g.10gb", sms=16, tensor=0.5)
        until(lambda: running.value("ofu_gpu_utilization_ratio", gpu_instance="5"))
        assert running.value("ofu_gpu_up", gpu_instance="2") is None
        assert running.values("ofu_gpu_up", gpu_instance="") == []
