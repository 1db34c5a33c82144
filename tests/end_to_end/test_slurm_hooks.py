"""The hooks in a real Slurm: at every moment the job files say who has which GPU, whatever becomes of a job."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.values.text import shown
from tests.helpers.agent import until
from tests.helpers.slurm_cluster import DEPLOYED, GPUS, Cluster, processes

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

ALL = {str(number) for number in range(GPUS)}


@pytest.fixture
def gate(cluster: Cluster) -> Iterator[str]:
    """Jobs wait for it; at the end of the test it is open and they are gone."""
    name = uuid.uuid4().hex
    yield name
    cluster.open(name)
    until(lambda: not cluster.call("squeue", "--noheader"))
    until(lambda: files(cluster) == {})


def files(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """What the job files say, by job id."""
    if not cluster.jobs.exists():
        return {}
    names = [path for path in cluster.jobs.iterdir() if not path.name.startswith(".")]
    return {path.stem: content for path in names if (content := load(path)) is not None}


def load(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    assert isinstance(content, dict)
    return content


def complete(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The files to which Slurm's answer was added; a shell writes them first."""
    return {job_id: file for job_id, file in files(cluster).items() if "name" in file}


def file_of(cluster: Cluster, job_id: str) -> dict[str, Any]:
    until(lambda: job_id in complete(cluster))
    return files(cluster)[job_id]


def test_a_batch_job(cluster: Cluster, gate: str) -> None:
    # Slurm 26.05 takes no job of a user by the name of nobody.
    options = ("--uid=daemon", "--job-name=train llama", "--account=physics", "--time=5")
    job_id = cluster.submit("--gres=gpu:2", *options, until_open=gate)
    file = file_of(cluster, job_id)
    assert file["gpus"] == ["0", "1"]
    assert (file["user"], file["name"], file["account"]) == ("daemon", "train llama", "physics")
    assert (file["partition"], file["nodes"]) == ("main", "localhost")
    assert (file["array_job_id"], file["array_task_id"]) == ("", "")
    shown = cluster.show(job_id)
    assert file["started"] == cluster.unix(shown["StartTime"])
    assert file["ends"] - file["started"] == 300
    cluster.open(gate)
    until(lambda: cluster.state(job_id) == "COMPLETED")
    assert files(cluster) == {}
    assert cluster.call("sinfo", "--noheader", "--format=%T") == "idle", "the hooks have not failed"


def test_an_interactive_job_without_a_time_limit(cluster: Cluster, gate: str) -> None:
    command = f"while [ ! -e {cluster.gate(gate)} ]; do sleep 0.02; done"
    with cluster.popen("srun", "--gres=gpu:3", "--job-name=look", "sh", "-c", command) as srun:
        until(lambda: complete(cluster))
        ((_, file),) = files(cluster).items()
        assert (file["gpus"], file["name"], file["user"]) == (["0", "1", "2"], "look", "root")
        cluster.open(gate)
        assert srun.wait(20) == 0
    until(lambda: files(cluster) == {})


def test_the_file_is_there_before_the_job_is(cluster: Cluster, gate: str) -> None:
    """So that not even its first second goes to nobody."""
    seen = cluster.root / "seen"
    job_id = cluster.submit(
        "--gres=gpu:1", until_open=gate, first=f"cp {cluster.jobs}/$SLURM_JOB_ID.json {seen}"
    )
    until(seen.exists)
    assert json.loads(seen.read_text())["job_id"] == job_id


def test_an_array_of_20_on_8_gpus(cluster: Cluster, gate: str) -> None:
    seen = cluster.root / "seen-array"
    seen.mkdir(mode=0o777)
    note = f"cp {cluster.jobs}/$SLURM_JOB_ID.json {seen}/$SLURM_ARRAY_TASK_ID-$SLURM_JOB_GPUS"
    array = cluster.submit(
        "--gres=gpu:1", "--array=0-19", "--job-name=sweep", until_open=gate, first=note
    )
    until(lambda: len(files(cluster)) == GPUS)
    held = [file["gpus"] for file in files(cluster).values()]
    assert sorted(held) == [[gpu] for gpu in sorted(ALL)], "each GPU has one owner"
    cluster.open(gate)
    until(lambda: len(list(seen.iterdir())) == 20)
    for path in seen.iterdir():
        task, gpu = path.name.split("-")
        file = json.loads(path.read_text())
        assert (file["array_job_id"], file["array_task_id"]) == (array, task)
        assert (file["gpus"], file["name"]) == ([gpu], "sweep")


def test_two_jobs_share_the_node(cluster: Cluster, gate: str) -> None:
    first = cluster.submit("--gres=gpu:5", until_open=gate)
    second = cluster.submit("--gres=gpu:3", "--uid=daemon", until_open=gate)
    one, other = file_of(cluster, first), file_of(cluster, second)
    assert (len(one["gpus"]), len(other["gpus"])) == (5, 3)
    assert {*one["gpus"], *other["gpus"]} == ALL
    assert (one["user"], other["user"]) == ("root", "daemon")
    cluster.call("scancel", first)
    until(lambda: set(files(cluster)) == {second})


def test_a_job_without_a_gpu_has_no_file(cluster: Cluster, gate: str) -> None:
    job_id = cluster.submit(until_open=gate)
    until(lambda: cluster.state(job_id) == "RUNNING")
    assert files(cluster) == {}


@pytest.mark.parametrize("how", ["scancel", "kill"])
def test_however_a_job_ends_its_file_goes(cluster: Cluster, gate: str, how: str) -> None:
    job_id = cluster.submit("--gres=gpu:1", "--no-requeue", until_open=gate)
    file_of(cluster, job_id)
    until(lambda: cluster.processes(job_id))
    if how == "scancel":
        cluster.call("scancel", job_id)
    else:
        for process in cluster.processes(job_id):
            with suppress(ProcessLookupError):  # a child of the job that came to its own end
                os.kill(process, signal.SIGKILL)
    until(lambda: files(cluster) == {})


def test_a_restart_of_slurmd_changes_nothing(cluster: Cluster, gate: str) -> None:
    job_id = cluster.submit("--gres=gpu:2", until_open=gate)
    before = file_of(cluster, job_id)
    cluster.stop_slurmd()
    assert files(cluster) == {job_id: before}
    cluster.start_slurmd()
    until(lambda: cluster.call("sinfo", "--noheader", "--format=%T") in ("mixed", "allocated"))
    assert files(cluster) == {job_id: before}
    cluster.open(gate)
    until(lambda: files(cluster) == {})


def test_a_job_that_ends_while_slurmd_is_away(cluster: Cluster, gate: str) -> None:
    job_id = cluster.submit("--gres=gpu:2", until_open=gate)
    file_of(cluster, job_id)
    cluster.stop_slurmd()
    cluster.open(gate)
    assert job_id in files(cluster), "as long as there is no epilog"
    cluster.start_slurmd()
    until(lambda: files(cluster) == {})


def test_a_requeued_job_is_another_run(cluster: Cluster, gate: str) -> None:
    job_id = cluster.submit("--gres=gpu:1", "--requeue", until_open=gate)
    before = file_of(cluster, job_id)
    cluster.call("scontrol", "requeue", job_id)
    until(lambda: files(cluster) == {})
    after = file_of(cluster, job_id)
    assert after["gpus"] == before["gpus"]
    assert after["started"] > before["started"]


def test_no_job_name_passes_for_anything_else(cluster: Cluster, gate: str) -> None:
    name = "x|physics\n1|R|1|N/A|1|1|physics|root\tJobId=1 UserId=root(0) \u202e\x1b[31m"
    job_id = cluster.submit(
        "--gres=gpu:1", "--uid=daemon", "--account=a|b", f"--job-name={name}", until_open=gate
    )
    file = file_of(cluster, job_id)
    assert (file["user"], file["account"], file["array_job_id"]) == ("daemon", "a|b", "")
    assert file["name"] == shown(name)


def test_an_array_cannot_forge_the_line_of_its_last_task(cluster: Cluster, gate: str) -> None:
    """It keeps the array's own id, for which Slurm tells of every task."""
    job_id = str(int(cluster.submit()) + 1)
    name = f"x\n{job_id}|R|1|N/A|1|1|root|root"
    array = cluster.submit("--gres=gpu:1", "--array=0-2", f"--job-name={name}", until_open=gate)
    assert array == job_id
    until(lambda: len(complete(cluster)) == 3)
    tasks = {file["array_task_id"] for file in files(cluster).values()}
    assert tasks == {"0", "1", "2"}
    assert files(cluster)[array]["account"] == ""


def test_whoever_gets_a_gpu_clears_away_what_an_epilog_left(cluster: Cluster, gate: str) -> None:
    with cluster.hooks(DEPLOYED / "prolog.sh", Path("/bin/true")):  # the node was lost for a moment
        orphan = cluster.submit(f"--gres=gpu:{GPUS}")
        until(lambda: cluster.state(orphan) == "COMPLETED")
    assert set(files(cluster)) == {orphan}
    job_id = cluster.submit("--gres=gpu:1", until_open=gate)
    file_of(cluster, job_id)
    assert set(files(cluster)) == {job_id}


def test_an_owner_that_lives_is_left_alone(cluster: Cluster, gate: str) -> None:
    """Here by a file that claims another's GPU; with shared GPUs that is as it should be."""
    first = cluster.submit("--gres=gpu:1", until_open=gate)
    file = {**file_of(cluster, first), "gpus": sorted(ALL)}
    (cluster.jobs / f"{first}.json").write_text(json.dumps(file))
    second = cluster.submit("--gres=gpu:1", until_open=gate)
    file_of(cluster, second)
    assert set(files(cluster)) == {first, second}


@pytest.mark.skipif(
    Path("/run/systemd/system").exists(), reason="the unit of this machine would be started"
)
def test_an_agent_for_the_life_of_the_jobs(cluster: Cluster, gate: str) -> None:
    config, log = cluster.root / "agent.yaml", cluster.root / "agent.log"
    config.write_text("source: simulate\nscheduler: slurm\nlisten: 127.0.0.1:0\n")
    settings: dict[str, Any] = {
        "OFU_EXPORTER_CONFIG": config,
        "OFU_EXPORTER_LOG": log,
        "OFU_EXPORTER_STATE": cluster.root / "agent",
        "OFU_EXPORTER_LINGER": 0,
    }
    scripts = (DEPLOYED / "prolog-agent.sh", DEPLOYED / "epilog-agent.sh")
    with cluster.hooks(*scripts, **settings):
        jobs = [cluster.submit("--gres=gpu:1", until_open=gate) for _ in range(2)]
        until(lambda: log.exists() and "serving on" in log.read_text())
        cluster.call("scancel", jobs[0])
        until(lambda: set(files(cluster)) == {jobs[1]})
        assert len(processes("cmdline", str(config))) == 1
        cluster.open(gate)
        until(lambda: not processes("cmdline", str(config)))
    assert log.read_text().count("serving on") == 1
