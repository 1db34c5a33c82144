"""The summary of a job over its nodes, in the AdminComment of a real Slurm without a database."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.schedulers.slurm.admin_comment import Commands, SlurmError
from tests.helpers.agent import Agent, agent, until
from tests.helpers.slurm_cluster import DEPLOYED, PROGRAM, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def measuring(cluster: Cluster) -> Iterator[Agent]:
    flags = ("--interval", "0.3s", "--clock-interval", "0.1s", "--slurm-poll", "0.05s")
    where = ("--scheduler", "slurm", "--job-dir", str(cluster.jobs))
    with agent("run", "--source", "simulate", *flags, *where) as running:
        yield running


@pytest.fixture
def running_job(
    cluster: Cluster, measuring: Agent, request: pytest.FixtureRequest
) -> Iterator[str]:
    """A job with two GPUs, of which something has been observed."""
    gate = request.node.name
    job_id = cluster.submit("--gres=gpu:2", "--job-name=llama AdminComment=x", until_open=gate)
    until(lambda: measuring.value("ofu_job_gpu_seconds_total", job_id=job_id))
    yield job_id
    cluster.open(gate)
    until(lambda: cluster.state(job_id) == "COMPLETED")


def slurm(cluster: Cluster) -> Commands:
    return Commands(cluster.environ, "/usr/bin")


def port(measuring: Agent) -> str:
    return measuring.url.rpartition(":")[2]


def gather(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "job", "gather", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=cluster.environ,
    )


def comment(cluster: Cluster, job_id: str) -> str:
    shown = cluster.call("scontrol", "show", "job", job_id)
    found = re.search(r"^\s*AdminComment=(.*)$", shown, re.MULTILINE)
    return found[1].strip() if found else ""


def test_the_line_is_written_while_the_job_runs(
    cluster: Cluster, measuring: Agent, running_job: str
) -> None:
    done = gather(
        cluster, running_job, "--nodes", "localhost", "--port", port(measuring), "--write"
    )
    assert done.returncode == 0, done.stderr
    assert "(AdminComment, by scontrol)" in done.stdout
    written = comment(cluster, running_job)
    assert written.startswith("ofu=")
    assert "gpus=2" in written
    assert "nodes=1/1" in written
    assert written.endswith("simulated=yes")


@pytest.mark.parametrize("gpus", ["--gpus=1", "--gpus-per-node=1", "--gpus-per-task=1"])
def test_a_job_runs_with_gpus_however_it_asked_for_them(
    cluster: Cluster, request: pytest.FixtureRequest, gpus: str
) -> None:
    gate = request.node.name
    without = cluster.submit(until_open=gate)
    job_id = cluster.submit(gpus, "--ntasks=1", until_open=gate)
    until(lambda: {cluster.state(each) for each in (job_id, without)} == {"RUNNING"})
    assert slurm(cluster).running() == [(job_id, "localhost")]
    cluster.open(gate)
    until(lambda: cluster.state(job_id) == cluster.state(without) == "COMPLETED")


def test_every_job_that_runs_gets_its_line(
    cluster: Cluster, measuring: Agent, running_job: str
) -> None:
    subprocess.run(
        [DEPLOYED / "comment-running-jobs.sh", "--port", port(measuring)],
        check=True,
        timeout=300,
        env={
            **cluster.environ,
            "OFU_EXPORTER_PROGRAM": str(PROGRAM),
            "OFU_EXPORTER_STATE": str(cluster.root / "state"),
        },
    )
    assert comment(cluster, running_job).startswith("ofu=")


def test_a_line_is_replaced_by_a_later_one(cluster: Cluster, running_job: str) -> None:
    for line in ("ofu=1.0%", "ofu=2.0%"):
        assert slurm(cluster).write(running_job, line) == "scontrol"
    assert comment(cluster, running_job) == "ofu=2.0%"


def test_a_comment_of_somebody_else_stays(cluster: Cluster, running_job: str) -> None:
    cluster.call("scontrol", "update", f"jobid={running_job}", "admincomment=JS1:blob")
    with pytest.raises(SlurmError, match="somebody else"):
        slurm(cluster).write(running_job, "ofu=1.0%")
    assert comment(cluster, running_job) == "JS1:blob"


def test_a_task_of_an_array_and_a_part_of_a_job_are_written_alone(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """The last task has the number of the array, and the first part that of the whole job."""
    gate = request.node.name
    array = cluster.submit("--array=1-2", until_open=gate)
    until(
        lambda: cluster.call("squeue", "--noheader", "--format=%i%t") == f"{array}_1R\n{array}_2R"
    )
    parts = cluster.submit("--hold", ":", until_open=gate)
    for job_id in (array, parts):
        assert slurm(cluster).write(job_id, f"ofu={job_id}") == "scontrol"
    names = (f"{array}_1", f"{array}_2", f"{parts}+0", f"{parts}+1")
    written = [comment(cluster, name) for name in names]
    assert written == ["", f"ofu={array}", f"ofu={parts}", ""]
    cluster.call("scancel", parts)
    cluster.open(gate)
    until(lambda: cluster.call("squeue", "--noheader") == "")


def test_a_long_list_of_nodes_is_whole(tmp_path: Path) -> None:
    nodes = ",".join(f"node{number}" for number in range(1000))
    squeue = tmp_path / "squeue"
    squeue.write_text(
        f"""#!/bin/sh
case $* in
  *NodeList:*) exit 1 ;;
  *--Format=*) printf '%-32s%-256s\n' 7 N/A 8 gres:gpu:8 9 gres:gpu:1 ;;
  *) printf '%s\n' '7|cpu' '8|{nodes}' ;; # 9 has ended meanwhile
esac
"""
    )
    squeue.chmod(0o755)
    assert Commands({}, str(tmp_path)).running() == [("8", nodes)]


def test_a_job_that_ended_cannot_be_written_without_a_database(
    cluster: Cluster, measuring: Agent
) -> None:
    job_id = cluster.submit("--gres=gpu:1")
    until(lambda: cluster.state(job_id) == "COMPLETED")
    with pytest.raises(SlurmError, match="scontrol update"):
        slurm(cluster).write(job_id, "ofu=1.0%")


def test_a_slurm_whose_sacctmgr_knows_no_comment_has_it_by_scontrol(tmp_path: Path) -> None:
    """As Slurm 21.08 says it, which keeps in its database what scontrol has set."""
    says = {
        "scontrol": """case $* in
  'show config') echo 'AccountingStorageType   = accounting_storage/slurmdbd' ;;
  update*) echo "$*" >>"$0.updates" ;;
esac""",
        "sacct": "echo '7|7|'",
        "squeue": "echo '7|7'",
        "sacctmgr": """echo ' Unknown option: admincomment=ofu=1%'
echo " Use keyword 'where' to modify condition"
echo " You didn't give me anything to set" >&2
exit 1""",
    }
    for name, script in says.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert Commands({}, str(tmp_path)).write("7", "ofu=1%") == "scontrol"
    written = (tmp_path / "scontrol.updates").read_text()
    assert written == "update jobid=7 admincomment=ofu=1%\n"
    (tmp_path / "sacctmgr").write_text("#!/bin/sh\necho down >&2\nexit 1\n")
    with pytest.raises(SlurmError, match=r"sacctmgr .*: down"):
        Commands({}, str(tmp_path)).write("7", "ofu=1%")


def test_a_list_of_nodes_is_taken_apart(cluster: Cluster) -> None:
    assert slurm(cluster).hostnames("n[1-3],m7") == ["n1", "n2", "n3", "m7"]
    assert slurm(cluster).hostnames("n1,n2") == ["n1", "n2"]
    assert slurm(cluster).hostnames("") == []  # of a job that waits


def test_a_command_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match=r"^scontrol: .*No such file"):
        Commands({}, str(tmp_path)).hostnames("n[1-3]")
