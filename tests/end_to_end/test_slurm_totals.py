"""From Slurm's own account of a job to the agent's: both give every job the same GPU-seconds."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.ofu.ownership.holders import HANDOVER_SECONDS
from ofu_exporter.schedulers.slurm.squeue import Squeue
from tests.doubles.kubelet import GPU, Kubelet, pod
from tests.doubles.kubelet import given as devices_of
from tests.helpers.agent import Agent, agent, until
from tests.helpers.in_process import call
from tests.helpers.slurm_cluster import DEPLOYED, GPUS, PROGRAM, Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

WINDOW = 0.5
LONG = 3.0
"""Seconds that a job is to last at least, to be long beside what may be lost of it."""


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Agent]:
    with agent(
        *("run", "--source", "simulate", "--simulated-gpus", str(GPUS)),
        *("--interval", f"{WINDOW}s", "--clock-interval", "0.1s"),
        *("--scheduler", "slurm", "--job-dir", str(cluster.jobs)),
    ) as made:
        until(lambda: len(made.values("ofu_gpu_utilization_ratio")) == GPUS)
        yield made


@pytest.fixture
def gate(cluster: Cluster) -> Iterator[str]:
    yield uuid.uuid4().hex
    cluster.open_all()
    until(lambda: not cluster.call("squeue", "--noheader"))


def elapsed(cluster: Cluster, job_id: str) -> float:
    """How long a job has run, as Slurm says once it is over."""
    shown = cluster.show(job_id)
    return cluster.unix(shown["EndTime"]) - cluster.unix(shown["StartTime"])


def seconds(running: Agent, job_id: str, name: str = "ofu_job_gpu_seconds_total") -> float:
    return running.value(name, job_id=job_id) or 0.0


def wait_for(running: Agent, job_id: str, gpus: int) -> None:
    until(lambda: seconds(running, job_id) > gpus * LONG)


def hooked(cluster: Cluster, job_id: str) -> float:
    """When the prolog has written the file of a running job, in Unix seconds."""
    return (cluster.jobs / f"{job_id}.json").stat().st_mtime


def check(cluster: Cluster, running: Agent, job_id: str, gpus: int, hooked_at: float) -> None:
    """Per start and stop, Slurm's second and a window, in which the hooks and the polls come to pass.

    Slurm may take seconds to come to its prolog. A window may end a quarter of a second after the job.
    """
    until(lambda: not running.values("ofu_gpu_info", job_id=job_id))
    slurm = elapsed(cluster, job_id)
    lost = 2 * (1.0 + WINDOW)
    late = max(0.0, hooked_at - cluster.unix(cluster.show(job_id)["StartTime"]) - 1.0)
    measured = seconds(running, job_id) / gpus
    held = seconds(running, job_id, "ofu_job_held_gpu_seconds_total") / gpus
    assert slurm - lost - late <= measured <= held + HANDOVER_SECONDS
    assert held <= slurm + lost


def test_every_job_has_the_gpu_seconds_that_slurm_says(
    cluster: Cluster, running: Agent, gate: str
) -> None:
    """Two that share the node and overlap, one of which is cancelled, and then an array."""
    first = cluster.submit("--gres=gpu:2", "--job-name=first", until_open=gate)
    wait_for(running, first, 2)
    second = cluster.submit("--gres=gpu:6", "--uid=daemon", until_open="never")
    wait_for(running, second, 6)
    assert running.value("ofu_job_info", job_id=first, job_name="first", user="root") == 1
    assert running.value("ofu_job_info", job_id=second, user="daemon") == 1
    times = [hooked(cluster, job_id) for job_id in (first, second)]
    cluster.open(gate)
    cluster.call("scancel", second)
    until(lambda: cluster.state(first) == "COMPLETED" and cluster.state(second) == "CANCELLED")
    check(cluster, running, first, 2, times[0])
    check(cluster, running, second, 6, times[1])


def test_every_task_of_an_array_is_a_job(cluster: Cluster, running: Agent, gate: str) -> None:
    array = cluster.submit("--gres=gpu:1", f"--array=1-{GPUS}", until_open=gate)
    until(lambda: len(running.values("ofu_job_info", array_job_id=array)) == GPUS)
    ids = cluster.call("squeue", "--noheader", "--format=%A", f"--jobs={array}").split()
    assert len(ids) == GPUS
    for job_id in ids:
        wait_for(running, job_id, 1)
    times = [hooked(cluster, job_id) for job_id in ids]
    cluster.open(gate)
    until(lambda: not cluster.call("squeue", "--noheader"))
    for job_id, hooked_at in zip(ids, times, strict=True):
        check(cluster, running, job_id, 1, hooked_at)


def test_jobs_one_after_the_other_get_what_is_theirs(
    cluster: Cluster, running: Agent, gate: str
) -> None:
    """On the same GPUs, without a pause; what is nobody's is what passes between them."""
    gates = [f"{gate}-{number}" for number in range(2)]
    jobs = [cluster.submit(f"--gres=gpu:{GPUS}", until_open=name) for name in gates]
    times = []
    for job_id, name in zip(jobs, gates, strict=True):
        wait_for(running, job_id, GPUS)
        times.append(hooked(cluster, job_id))
        cluster.open(name)
    until(lambda: not cluster.call("squeue", "--noheader"))
    for job_id, hooked_at in zip(jobs, times, strict=True):
        check(cluster, running, job_id, GPUS, hooked_at)
    assert not running.values("ofu_gpu_shared"), "at no time did two have one GPU"
    assert not any(running.values("ofu_exporter_scheduler_rejected_total", scheduler="slurm"))


def test_jobs_that_share_a_gpu_by_shards_hold_it_together(
    cluster: Cluster, running: Agent, gate: str
) -> None:
    """Three pairs in turn: nobody's claim is refused, and the GPU's time is theirs by halves."""
    if cluster.version() < "22.05":
        pytest.skip("Slurm before 22.05 has no shards")
    for turn in range(3):
        own = f"{gate}-{turn}"
        jobs = [cluster.submit("--gres=shard:2", until_open=own) for _ in range(2)]
        for job_id in jobs:
            wait_until_shared(cluster, running, job_id)
        cluster.open(own)
        until(lambda: not cluster.call("squeue", "--noheader"))
        until(lambda: not running.values("ofu_gpu_shared"))
        together = [held(running, job_id, "shared") for job_id in jobs]
        assert together[0] == pytest.approx(together[1], abs=0.1)
        for job_id, part in zip(jobs, together, strict=True):
            assert seconds(running, job_id) < held(running, job_id) - part + HANDOVER_SECONDS
    assert not any(running.values("ofu_exporter_scheduler_rejected_total"))


def test_a_job_inside_a_pod_has_its_gpus_and_the_pod_has_none(
    cluster: Cluster, gate: str, tmp_path: Path
) -> None:
    """slurmd in a pod that has every GPU of the node; nobody has told the agent which schedulers there are."""
    gpus = [f"SIMULATED-1-{number}" for number in range(GPUS)]
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    kubelet.pods = [pod("slurm-worker-0", devices_of(GPU, *gpus), container="slurmd")]
    kubelet.start()
    flags = ("run", "--source", "simulate", "--simulated-gpus", str(GPUS), "--interval", "0.5s")
    asked = ("--job-dir", str(cluster.jobs), "--kubelet-socket", str(kubelet.path))
    try:
        with agent(*flags, "--clock-interval", "0.1s", *asked) as running:
            job_id = cluster.submit("--gres=gpu:2", until_open=gate)
            until(lambda: seconds(running, job_id) > 2 * LONG)
            assert running.value("ofu_exporter_scheduler_up", scheduler="kubernetes") == 1
            assert len(running.values("ofu_gpu_info", job_id=job_id)) == 2
            assert len(running.values("ofu_gpu_info", job_id="")) == GPUS - 2
            assert held(running, job_id) >= seconds(running, job_id) - 2 * HANDOVER_SECONDS
            assert not any(running.values("ofu_exporter_scheduler_rejected_total"))
            assert not running.values("ofu_gpu_shared")
            assert running.logged("pod ns/slurm-worker-0 runs slurmd")
    finally:
        kubelet.stop()


def gpus_in_file(cluster: Cluster, job_id: str) -> object:
    """None while there is no file."""
    path = cluster.jobs / f"{job_id}.json"
    return json.loads(path.read_text())["gpus"] if path.exists() else None


def wait_until_shared(cluster: Cluster, running: Agent, job_id: str) -> None:
    """The shell's first file names the whole GPU: only Slurm knows of shards, and it is asked later."""
    until(lambda: gpus_in_file(cluster, job_id) == ["0::0"])
    until(lambda: running.values("ofu_gpu_shared", job_id=job_id))
    until(lambda: held(running, job_id) > 1.0)


def held(running: Agent, job_id: str, how: str = "held") -> float:
    return seconds(running, job_id, f"ofu_job_{how}_gpu_seconds_total")


def test_a_requeued_job_has_its_runs_apart_however_late_the_program_is(
    cluster: Cluster, running: Agent, gate: str
) -> None:
    """Until the program has asked Slurm, the second run's file says no start, and the agent sees it so."""
    late = cluster.root / "late"
    late.write_text(f'#!/bin/sh\n[ "$2" != start ] || sleep 2\nexec {PROGRAM} "$@"\n')
    late.chmod(0o755)
    hooks = (DEPLOYED / "prolog.sh", DEPLOYED / "epilog.sh")
    with cluster.hooks(*hooks, OFU_EXPORTER_PROGRAM=late):
        job_id = cluster.submit("--gres=gpu:1", "--requeue", until_open=gate)
        wait_for(running, job_id, 1)
        cluster.call("scontrol", "requeue", job_id)
        until(lambda: not running.values("ofu_gpu_info", job_id=job_id))
        until(lambda: running.values("ofu_gpu_info", job_id=job_id))
        before = seconds(running, job_id)
        until(lambda: seconds(running, job_id) > before + LONG)
        cluster.open(gate)
        check_last_run(cluster, running, job_id)


def test_a_job_that_is_requeued_onto_another_gpu_has_one(
    cluster: Cluster, running: Agent, gate: str
) -> None:
    job_id = cluster.submit("--gres=gpu:1", "--requeue", until_open=gate)
    wait_for(running, job_id, 1)
    assert running.value("ofu_gpu_info", job_id=job_id, gpu="0") == 1
    cluster.call("scontrol", "requeuehold", job_id)
    until(lambda: not running.values("ofu_gpu_info", job_id=job_id))
    other = cluster.submit("--gres=gpu:1", until_open=gate)
    wait_for(running, other, 1)
    cluster.call("scontrol", "release", job_id)
    until(lambda: running.value("ofu_gpu_info", job_id=job_id, gpu="1"))
    nodes = ("--nodes", "127.0.0.1", "--port", running.url.rpartition(":")[2])
    assert " gpus=1 " in call("job", "gather", job_id, *nodes).stdout
    (job,) = [
        one for one in json.loads(running.get("/v1/node")[1])["jobs"] if one["job_id"] == job_id
    ]
    assert job["gpu_count"] == 1


def test_a_task_is_found_by_the_name_that_squeue_shows(
    cluster: Cluster, running: Agent, gate: str
) -> None:
    cluster.submit("--gres=gpu:1", "--array=4-5", until_open=gate)
    until(lambda: "PD" not in cluster.call("squeue", "--noheader", "--format=%t"))
    for line in cluster.call("squeue", "--noheader", "--format=%A %i").splitlines():
        job_id, name = line.split()
        assert re.fullmatch(r"\d+_[45]", name)
        wait_for(running, job_id, 1)
        shown = call("job", "show", name, "--agent", running.url).stdout
        assert shown.startswith(f"Job {job_id}"), name


def test_a_part_of_a_heterogeneous_job_is_known_by_its_name(cluster: Cluster) -> None:
    """Such a job never starts here: its parts must be on different nodes. Slurm tells of them all the same."""
    cluster.submit("--gres=gpu:1", ":", "--gres=gpu:1")
    try:
        parts = cluster.call("squeue", "--noheader", "--format=%A %i").splitlines()
        assert len(parts) == 2
        for job_id, name in map(str.split, parts):
            answer = Squeue(cluster.environ, seconds=10.0).ask(job_id)
            assert answer is not None
            assert answer.component == name
    finally:
        cluster.call("scancel", "--state=PENDING")


def check_last_run(cluster: Cluster, running: Agent, job_id: str) -> None:
    """Its second run has Slurm's seconds, and not those since the first began."""
    until(lambda: cluster.state(job_id) == "COMPLETED")
    until(lambda: not running.values("ofu_gpu_info", job_id=job_id))
    first, second = json.loads(running.get(f"/v1/jobs/{job_id}")[1])["runs"]
    assert first["uid"] != second["uid"]
    assert first["ended"] <= second["began"]
    lost = 2 * (1.0 + WINDOW)
    assert second["held_seconds"] == pytest.approx(elapsed(cluster, job_id), abs=lost)
