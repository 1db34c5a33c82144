"""Traces of PyTorch's own loops under a real Slurm: asked for, written and read; who may, and what it costs a job.

A build of PyTorch without CUDA writes no kernels: the agent reads the file, and says so. It is root without a
capability, as in the chart, so that modes hold for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.agent import COMMAND, Agent, agent, call, until
from tests.helpers.slurm_cluster import GPUS, Cluster

TORCH = Path(os.environ.get("OFU_TEST_TORCH", "/srv/torch-venv")) / "bin" / "python"
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(not TORCH.exists(), reason=f"no {TORCH} (OFU_TEST_TORCH)"),
]
PROCESSES, USER, STRANGER = 30, 65534, 65533
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", *COMMAND)
PACKAGES = next(TORCH.parents[1].glob("lib/python3*/site-packages"), "")
PUBLIC = ("env", f"PYTHONPATH={PACKAGES}", "/usr/bin/python3")
"""PyTorch for every user, where its own interpreter is in a folder that is not for all."""
NO_KERNEL = "there is no GPU work in the trace"
LOOP = """\
import ctypes, os, sys, time
daemon = os.environ.pop("KINETO_USE_DAEMON")
import torch
os.environ["KINETO_USE_DAEMON"] = daemon
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
ctypes.CDLL("libtorch_cpu.so")._ZN5torch18global_kineto_initEv()
one = torch.ones(64, 64)
steps = open(f"{os.environ['STEPS']}/{os.getpid()}", "wb", buffering=0)
while True:
    one = (one @ one).tanh()
    steps.write(b".")
    time.sleep(0.1)
"""
"""PyTorch is imported once for all processes. Each begins its profiler then, by the function that importing calls."""
ASKED = """\
import http.client, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
agent = http.client.HTTPConnection("localhost")
agent.sock = line
agent.request("POST", f"/v1/jobs/{sys.argv[2]}/trace", sys.argv[3], {"Content-Type": "application/json"})
answer = agent.getresponse()
print(answer.status, answer.read().decode())
"""


class Traced:
    """Where agent and jobs meet on the node."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.steps = folder / "steps"
        self.steps.mkdir(mode=0o777)
        self.steps.chmod(0o777)
        (folder / "loop.py").write_text(LOOP)
        prolog = folder / "task-prolog"
        prolog.write_text(
            "#!/bin/sh\necho export KINETO_USE_DAEMON=1\n"
            f"echo export KINETO_IPC_SOCKET_DIR={folder / 's'}\n"
        )
        prolog.chmod(0o755)

    @contextmanager
    def agent(self, *more: str) -> Iterator[Agent]:
        simulated = ("--source", "simulate", "--simulated-gpus", str(GPUS))
        slurm = ("--scheduler", "slurm", "--job-dir", str(self.cluster.jobs))
        sockets = ("--trace-socket-folder", str(self.folder / "s"), "--report-socket", self.socket)
        flags = ("run", *simulated, *slurm, *sockets, *more)
        with agent(*flags, command=UNPRIVILEGED) as running:
            yield running

    @property
    def socket(self) -> str:
        return str(self.folder / "r.sock")

    @property
    def on(self) -> tuple[str, ...]:
        return ("--traces", "--trace-folder", str(self.folder / "t"))

    @contextmanager
    def job(self, processes: int, user: str = "root") -> Iterator[str]:
        """A job under umask 077 whose loops all run; it ends with the test, and not before."""
        prolog = f"--task-prolog={self.folder}/task-prolog"
        python = str(TORCH) if user == "root" else " ".join(PUBLIC)
        loop = f"srun {prolog} -n 1 {python} {self.folder}/loop.py {processes}"
        first = f"umask 077\nexport STEPS={self.steps} OMP_NUM_THREADS=1\nexec {loop}"
        job_id = self.cluster.submit("--gres=gpu:1", f"--uid={user}", first=first)
        try:
            until(lambda: len([*self.steps.iterdir()]) >= processes, 120.0)
            until(lambda: min(self.counts().values()) > 0, 60.0)
            yield job_id
            assert self.cluster.state(job_id) == "RUNNING", "whatever happened, it goes on"
            self.goes_on()
        finally:
            self.cluster.call("scancel", job_id)
            until(lambda: not self.cluster.call("squeue", "--noheader"), 60.0)

    def counts(self) -> dict[str, int]:
        """The steps of each process."""
        return {file.name: file.stat().st_size for file in self.steps.iterdir()}

    def goes_on(self) -> None:
        """Every process makes further steps."""
        before = self.counts()
        until(lambda: all(steps > before[name] for name, steps in self.counts().items()))

    def ask(self, job_id: str, *more: str) -> subprocess.CompletedProcess[str]:
        return call("trace", job_id, "--agent", f"unix:{self.socket}", "--seconds", "1", *more)

    def asked_by(self, uid: int, job_id: str, request: str = "") -> tuple[str, dict[str, Any]]:
        """The status and the answer that a user of this node gets."""
        said = (ASKED, self.socket, job_id, json.dumps({"request": request}))
        done = as_user(uid, "/usr/bin/python3", "-c", *said)
        status, _, answer = done.stdout.partition(" ")
        return status or done.stderr, json.loads(answer or "{}")


def as_user(uid: int, *command: str) -> subprocess.CompletedProcess[str]:
    line = ["setpriv", "--reuid", str(uid), "--clear-groups", *command]
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd="/")


@pytest.fixture
def traced(cluster: Cluster) -> Iterator[Traced]:
    with tempfile.TemporaryDirectory(prefix="ofu-") as name:  # sockets have short addresses
        Path(name).chmod(0o755)
        yield Traced(cluster, Path(name))


def taken(traced: Traced, job_id: str) -> dict[str, Any] | None:
    """The answer about a trace that was written and read; None before the processes have asked for work."""
    asked = traced.ask(job_id, "--format", "json")
    return json.loads(asked.stdout) if asked.returncode == 0 else None


def test_thirty_processes_of_a_job_write_what_was_asked_for_and_strangers_get_nothing(
    traced: Traced,
) -> None:
    with traced.agent(*traced.on) as running, traced.job(PROCESSES) as job_id:
        until(lambda: running.values("ofu_job_info", job_id=job_id))
        answer: dict[str, Any] = {}
        while answer.get("processes") != PROCESSES:  # each asks once in ten seconds
            answer = taken(traced, job_id) or {}
        assert answer["arrived"] == PROCESSES
        assert NO_KERNEL in answer["detail"]
        assert [*(traced.folder / "t").iterdir()] == [], "read files are deleted"
        assert traced.asked_by(USER, job_id)[0] == "403", "another user"


def test_a_user_has_the_own_job_traced_under_umask_077_and_no_other(traced: Traced) -> None:
    if as_user(USER, *PUBLIC, "-c", "import torch").returncode:
        pytest.skip("PyTorch is root's")
    with traced.agent(*traced.on) as running, traced.job(1, str(USER)) as job_id:
        (steps,) = traced.steps.iterdir()
        assert (steps.stat().st_uid, steps.stat().st_mode & 0o777) == (USER, 0o600)
        until(lambda: running.values("ofu_job_info", job_id=job_id, user="nobody"))
        assert traced.asked_by(STRANGER, job_id)[0] == "403"
        asked: dict[str, Any] = {}
        while not asked.get("request"):  # it asks once in ten seconds
            asked = traced.asked_by(USER, job_id)[1]
        while asked["state"] not in ("done", "failed"):
            asked = traced.asked_by(USER, job_id, asked["request"])[1]
        assert (asked["arrived"], asked["unread"], asked["files"]) == (1, {}, [])
        assert NO_KERNEL in asked["detail"]
        assert traced.asked_by(STRANGER, job_id, asked["request"])[0] == "403"


def test_an_agent_that_is_killed_in_the_middle_costs_the_job_nothing(traced: Traced) -> None:
    """The processes find the folder when they start, and the next agent when that comes."""
    with traced.agent(*traced.on) as running, traced.job(1) as job_id:
        until(lambda: running.values("ofu_job_info", job_id=job_id))
        until(lambda: traced.asked_by(0, job_id)[0] == "200", 60.0)
        until(lambda: [*(traced.folder / "t").iterdir()], 60.0)
        running.kill()
        traced.goes_on()
        with traced.agent(*traced.on) as second:
            until(lambda: second.values("ofu_job_info", job_id=job_id))
            until(lambda: taken(traced, job_id), 120.0)
            assert second.value("ofu_exporter_traces_total", outcome="no_gpu_work") == 1


def test_without_traces_there_is_no_socket_and_the_job_goes_on(traced: Traced) -> None:
    with traced.agent() as running, traced.job(1) as job_id:
        until(lambda: running.values("ofu_job_info", job_id=job_id))
        traced.goes_on()
        assert not (traced.folder / "s").exists()
        assert "traces are off there" in traced.ask(job_id).stderr
