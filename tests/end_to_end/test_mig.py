"""A GPU in MIG mode as the running agent shows it: instances, their jobs, and what becomes of both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ofu_exporter.jobs.totals import JobTotals
from tests.doubles import dcgm
from tests.doubles.kubelet import Kubelet, claimed, pod
from tests.doubles.nvml import Scenario, Value
from tests.helpers.agent import COMMAND, agent, page_server, until
from tests.helpers.broken_node import why_no_mounts
from tests.helpers.job_node import Node, seconds
from tests.schedulers.kubernetes.test_mig_devices import NAME, Driver

FIRST = "MIG-00000000-0000-0000-0001-000000000000"
SECOND = "MIG-00000000-0000-0000-0002-000000000000"


def divided(tmp_path: Path) -> Scenario:
    scenario = Scenario(tmp_path / "nvml")
    scenario.gpu(0, mig=1, clock_mhz=[915])
    scenario.instance(0, 1, "3g.40gb", sms=60, tensor=0.8)
    scenario.instance(0, 2, "1g.10gb", sms=16, tensor=0.2)
    return scenario


def flags(node: Node, source: str = "nvml") -> list[str]:
    return [
        *("run", "--source", source, "--interval", "0.2s", "--clock-interval", "0.1s"),
        *("--scheduler", "slurm", "--job-dir", str(node.jobs), "--slurm-poll", "0.05s"),
    ]


def test_jobs_have_the_instances_that_their_mig_uuids_name(tmp_path: Path) -> None:
    node, scenario = Node(tmp_path), divided(tmp_path)
    node.start("7", FIRST)
    node.start("8", SECOND)
    with agent(*flags(node), env=scenario.environment()) as running:
        until(lambda: min(seconds(running, "7"), seconds(running, "8")) > 1.0)
        assert running.value("ofu_gpu_info", job_id="7", gpu="0", gpu_instance="1") == 1
        assert running.value("ofu_gpu_info", job_id="8", gpu="0", gpu_instance="2") == 1
        assert not any(running.values("ofu_exporter_scheduler_rejected_total"))
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


WITH_MINORS = """\
mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia-caps &&
  cp "$0" /proc/driver/nvidia-caps/mig-minors && exec "$@"
"""
"""In a mount namespace of its own, for nobody but the driver's module can write there."""


@pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts())
def test_instances_that_dra_makes_on_demand_are_their_pods(tmp_path: Path) -> None:
    """One is destroyed and made anew under its old name, as another instance; a third pod has none that is known."""
    scenario, dra = divided(tmp_path), Driver(tmp_path)
    first, again = (f"{letter * 8}-59a2-42a6-af16-cfd4628c0f7a" for letter in "ab")
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    dra.prepare(12, 13, uid=first)
    kubelet.pods = [pod("a", claims=[claimed(NAME, uid=first)])]
    kubelet.start()
    command = ["unshare", "--mount", "sh", "-c", WITH_MINORS, str(dra.minors), *COMMAND]
    asked = ("--scheduler", "kubernetes", "--kubelet-socket", str(kubelet.path))
    given = ("--kubernetes-poll", "0.5s", "--cdi-dir", str(tmp_path))
    pace = ("run", "--source", "nvml", "--interval", "0.2s", "--clock-interval", "0.1s")
    try:
        with agent(*pace, *asked, *given, env=scenario.environment(), command=command) as running:
            until(lambda: seconds(running, "ns/a") > 0.5)
            assert running.value("ofu_gpu_info", job_id="ns/a", gpu_instance="1") == 1
            dra.prepare(21, 22, uid=again)
            lost = pod("c", claims=[claimed("gpu-0-mig-1g12gb-19-5", uid=again)])
            kubelet.pods = [pod("b", claims=[claimed(NAME, uid=again)]), lost]
            until(lambda: seconds(running, "ns/b") > 0.1)
            assert running.value("ofu_gpu_info", job_id="ns/b", gpu_instance="2") == 1
            assert running.value("ofu_gpu_info", job_id="", gpu_instance="1") == 1
            rejected = "ofu_exporter_scheduler_rejected_total"
            assert running.value(rejected, reason="unknown_device") == 1
    finally:
        kubelet.stop()


SEVENTHS = range(1, 8)
Started = tuple[list[str], dict[str, str] | None]
"""The flags of a source, and the environment that it needs."""


@contextlib.contextmanager
def cut_in_seven_through_nvml(folder: Path) -> Iterator[Started]:
    scenario = Scenario(folder / "nvml", 2)
    scenario.gpu(0, mig=1, clock_mhz=[915])
    scenario.gpu(1, tensor=0.4, clock_mhz=[915])
    for number in SEVENTHS:
        scenario.instance(0, number, "1g.10gb", sms=16, tensor=0.4)
    yield [], scenario.environment()


@contextlib.contextmanager
def cut_in_seven_through_dcgm(folder: Path) -> Iterator[Started]:
    scenario = dcgm.Scenario(folder / "dcgm", 2)
    scenario.gpu(0, clock_mhz=[915], graphics=1, power=600)
    scenario.gpu(1, tensor=0.4, clock_mhz=[915], graphics=1, power=600)
    for number in SEVENTHS:
        scenario.instance(0, number, "1g.10gb")
        scenario.set_instance(0, number, "tensor 0.4")
    yield ["--dcgm-interval", "0.1s"], scenario.environment()


def exporters_page() -> str:
    """What dcgm-exporter shows of instances, in the form of `tests/pages/mig.prom`; a total of the whole besides."""
    lines = []
    parts = [f',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{number}"' for number in SEVENTHS]
    for gpu, part in [(0, ""), *((0, part) for part in parts), (1, "")]:
        labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3"{part}'
        lines.append(f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 915")
        lines.append(f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} 0.4")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def cut_in_seven_on_a_page(folder: Path) -> Iterator[Started]:
    with page_server(exporters_page) as url:
        yield ["--url", url, "--collect-interval", "0.2s"], None


@pytest.mark.parametrize(
    ("source", "node_of"),
    [
        ("nvml", cut_in_seven_through_nvml),
        ("dcgm", cut_in_seven_through_dcgm),
        ("dcgm-exporter", cut_in_seven_on_a_page),
    ],
    ids=["nvml", "dcgm", "page"],
)
def test_a_gpu_cut_in_seven_is_one_gpu_beside_a_whole_one(
    tmp_path: Path,
    source: str,
    node_of: Callable[[Path], contextlib.AbstractContextManager[Started]],
) -> None:
    node = Node(tmp_path)
    node.start("7", "0")
    node.start("8", "1")
    with (
        node_of(tmp_path) as (extra, environment),
        agent(*flags(node, source), *extra, env=environment) as running,
    ):
        until(lambda: running.values("ofu_gpu_up") == [1] * 8)
        until(lambda: min(seconds(running, "7"), seconds(running, "8")) > 1.0)
        assert sum(running.values("ofu_gpu_instance_share_ratio")) == pytest.approx(1)
        assert len(running.values("ofu_gpu_info", share_basis="slices", mig_profile="1g.10gb")) == 7
        for name in ("ofu_job_gpu_seconds_total", "ofu_job_held_gpu_seconds_total"):
            parts, whole = (running.value(name, job_id=job) or 0.0 for job in ("7", "8"))
            assert 0.5 < parts / whole < 2  # seven if each part were a GPU
        report = JobTotals.model_validate_json(running.get("/v1/jobs/7")[1])
        assert report.utilization_ratio == pytest.approx(0.2, abs=1e-3)
        assert report.gpu_count == pytest.approx(1)
        stamps = running.values("ofu_gpu_sample_timestamp_seconds")
        listed = json.loads(running.get("/v1/gpus")[1])
        assert {gpu["share_basis"] for gpu in listed} == {"slices", "whole"}
        assert sum(gpu["share_ratio"] for gpu in listed) == pytest.approx(2)
        assert all(gpu["sampled"] >= min(stamps) for gpu in listed)
        assert not running.logged("its slices are not known")


def test_a_share_that_is_only_guessed_is_said(tmp_path: Path) -> None:
    """A GPU that no row names, as the page of a new card is before anybody has added the row."""
    page = exporters_page().replace("NVIDIA H100 80GB HBM3", "NVIDIA Z999")
    flags = ("--source", "dcgm-exporter", "--interval", "0.2s", "--scheduler", "none")
    with page_server(lambda: page) as url, agent("run", *flags, "--url", url) as running:
        until(lambda: len(running.values("ofu_gpu_info", share_basis="instances")) == 7)
        assert sum(running.values("ofu_gpu_instance_share_ratio", gpu="0")) == pytest.approx(1)
        assert running.logs("its slices are not known")


def exported(*labels: str) -> Callable[[], str]:
    """The page of a dcgm-exporter that has these GPUs."""
    values = [("DCGM_FI_DEV_SM_CLOCK", 1300), ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4)]
    model = 'modelName="NVIDIA A100-SXM4-80GB"'
    lines = [f"{name}{{{each},{model}}} {value}" for name, value in values for each in labels]
    return lambda: "\n".join(lines) + "\n"


A100: dict[str, Value] = {"gpm": 0, "name": "NVIDIA A100-SXM4-80GB", "compute": [8, 0]}
QUICK = ("--collect-interval", "0.2s", "--url")


def test_a_gpu_that_dcgm_exporter_reads_is_found_by_its_device_file(tmp_path: Path) -> None:
    """On this board /dev/nvidiaN are numbered the other way round, which NVML alone knows."""
    node, scenario, mapped = Node(tmp_path), Scenario(tmp_path / "nvml", 2), tmp_path / "map"
    for index in (0, 1):
        scenario.gpu(index, device_file=1 - index, **A100)
    mapped.mkdir(mode=0o755)
    (mapped / "0").write_text("9\n")
    uuids = [f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in (0, 1)]
    page = exported(*(f'gpu="{index}",UUID="{uuid}"' for index, uuid in enumerate(uuids)))
    with (
        page_server(page) as url,
        agent(
            *flags(node, "auto"),
            *QUICK,
            url,
            "--dcgm-job-dir",
            str(mapped),
            env=scenario.environment(),
        ) as running,
    ):
        until(lambda: seconds(running, "9") > 0.5)
        assert running.value("ofu_gpu_info", job_id="9", uuid=uuids[1], source="dcgm-exporter") == 1
        assert running.value("ofu_gpu_info", job_id="9", uuid=uuids[0]) is None


def test_an_instance_that_dcgm_exporter_reads_is_found_by_its_mig_uuid(tmp_path: Path) -> None:
    """An A100's instances have no counters through NVML, and no uuid of their own on the page."""
    node, scenario = Node(tmp_path), Scenario(tmp_path / "nvml")
    scenario.gpu(0, mig=1, **A100)
    scenario.instance(0, 1, "1g.10gb", 14)
    scenario.instance(0, 2, "1g.10gb", 14)
    node.start("41", FIRST)
    node.start("42", SECOND)
    gpu = 'gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000000"'
    page = exported(*(f'{gpu},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{part}"' for part in (1, 2)))
    with (
        page_server(page) as url,
        agent(*flags(node, "auto"), *QUICK, url, env=scenario.environment()) as running,
    ):
        until(lambda: min(seconds(running, "41"), seconds(running, "42")) > 0.3)
        for job, part in (("41", "1"), ("42", "2")):
            assert running.value("ofu_gpu_info", job_id=job, gpu_instance=part) == 1
        assert not any(running.values("ofu_exporter_scheduler_rejected_total"))
