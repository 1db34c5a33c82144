"""`trace`: the agent has processes of a job write a trace; a process that speaks as PyTorch does stands for the job."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.agent.trace_desk import NO_GPU_WORK
from ofu_exporter.support.users import uid_of
from tests.helpers.agent import SIMULATED, Agent, agent, until
from tests.helpers.in_process import call
from tests.traces.test_daemon_messages import question

JOB = "1001"
"""Of the simulated node, for its user ada."""
NO_ADA = pytest.mark.skipif(
    uid_of("ada") is not None, reason="this machine has a user of the simulated job's name"
)
pytestmark = NO_ADA
TORCH = Path("/srv/torch-venv/bin/python")
FRAME = b'{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "ts": 1}]}'
EXAMPLE = Path(__file__).parent.parent / "traces" / "example_rank0.json.gz"


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An address of a socket has 107 letters, and PyTorch's names take 53."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def flags(folder: Path) -> tuple[str, ...]:
    return (
        *SIMULATED,
        *("--traces", "--trace-socket-folder", str(folder / "s"), "--trace-folder"),
        *(str(folder / "t"), "--report-socket", str(folder / "r.sock")),
    )


def example(path: Path) -> None:
    path.write_bytes(gzip.decompress(EXAMPLE.read_bytes()))


class Process(threading.Thread):
    """Asks each 0.2 s as PyTorch does, and writes the example where it is told to."""

    def __init__(
        self,
        folder: Path,
        job: int = int(JOB),
        pid: int = 4711,
        empty: int = 0,
        write: Callable[[Path], object] = example,
    ) -> None:
        """The first `empty` files have no events; `write` makes what comes where a file is to be."""
        super().__init__(daemon=True)
        self.pid, self.job, self.daemon_socket = pid, job, str(folder / "s" / "dynolog")
        self.empty, self.write = empty, write
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "s" / f"dynoconfigclient{pid}"))
        self.socket.settimeout(0.2)
        self.ends = False
        self.start()

    def run(self) -> None:
        while not self.ends:
            told = ""
            with suppress(OSError):  # no agent, or no answer: PyTorch goes on as well
                self.socket.sendto(question(self.job, self.pid), self.daemon_socket)
                told = self.socket.recv(4096)[40:].decode()
            if told:
                file = Path(told.split("\n")[0].removeprefix("ACTIVITIES_LOG_FILE="))
                part = file.with_name(f"{file.stem}_{self.pid}.json.tmp")
                if self.empty > 0:
                    part.write_bytes(FRAME)
                else:
                    self.write(part)
                self.empty -= 1
                part.rename(part.with_suffix(""))
            time.sleep(0.2)
        self.socket.close()


@contextmanager
def traced(folder: Path, processes: int = 1, **how: Any) -> Iterator[Agent]:
    """An agent, and processes of its job."""
    with agent(*flags(folder)) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        some = [Process(folder, pid=4711 + n, **how) for n in range(processes)]
        time.sleep(1.0)
        try:
            yield running
        finally:
            for each in some:
                each.ends = True


def ask(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return call("trace", JOB, "--agent", f"unix:{folder / 'r.sock'}", *more)


def test_the_job_is_traced_and_its_page_says_what_was_found(tmp_path: Path) -> None:
    def record(path: Path) -> None:
        time.sleep(2.0)  # as long as a trace takes, so that windows end meanwhile
        example(path)

    with traced(tmp_path, processes=10, write=record) as running:
        done = ask(tmp_path, "--format", "json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["processes"], answer["arrived"]) == (10, 10)
        assert answer["trace"]["findings"][0]["finding"] == "data_loader"
        until(
            lambda: (json.loads(running.get(f"/v1/jobs/{JOB}")[1])["reported"] or {}).get("trace")
        )
        of_job = json.loads(running.get(f"/v1/jobs/{JOB}")[1])["reported"]["trace"]
        assert of_job["parts"] == pytest.approx(answer["trace"]["parts"])
        assert sum(of_job["counters"].values()) == pytest.approx(1, abs=1e-6)
        assert "What the counters saw" in running.get(f"/jobs/{JOB}")[1]
        assert list((tmp_path / "t").iterdir()) == [], "read files are deleted"
        assert running.value("ofu_exporter_traces_total", outcome="done") == 1


def test_a_file_is_kept_for_who_wants_it(tmp_path: Path) -> None:
    with traced(tmp_path):
        done = ask(tmp_path, "--keep", "--format", "json")
        (kept,) = json.loads(done.stdout)["files"]
        assert Path(kept).stat().st_mode & 0o007 == 0, "others cannot read it"


@pytest.mark.parametrize(("empty", "outcome"), [(1, "done"), (2, "empty")])
def test_a_first_file_without_events_is_asked_for_again(
    tmp_path: Path, empty: int, outcome: str
) -> None:
    with traced(tmp_path, empty=empty) as running:
        answer = json.loads(ask(tmp_path, "--format", "json").stdout)
        assert (answer["trace"] is not None) == (outcome == "done")
        assert answer["detail"] == ("" if outcome == "done" else NO_GPU_WORK)
        assert running.logged("it has no events, and is asked for once more")
        assert running.value("ofu_exporter_traces_total", outcome=outcome) == 1
        assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
def test_only_the_user_of_the_processes_may_ask(open_folder: Path) -> None:
    body = "import http.client,socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])\n"
    body += "c=http.client.HTTPConnection('localhost');c.sock=s\n"
    body += (
        f"c.request('POST','/v1/jobs/{JOB}/trace','{{}}',{{'Content-Type':'application/json'}})\n"
    )
    body += "print(c.getresponse().status)"
    command = ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", body]
    with traced(open_folder) as running:
        stranger = subprocess.run(
            [*command, str(open_folder / "r.sock")], capture_output=True, text=True, check=False
        )
        assert stranger.stdout == "403\n", stranger.stderr
        by_tcp = call("trace", JOB, "--agent", running.url)
        assert "no user of this node is called 'ada'), root and the site" in by_tcp.stderr


def test_without_processes_and_without_traces_it_says_so(tmp_path: Path) -> None:
    with agent(*flags(tmp_path)) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        assert "no process of job 1001 has asked for work" in ask(tmp_path).stderr
    off = tmp_path / "off"
    with agent(*SIMULATED, "--trace-socket-folder", str(off)) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        assert not off.exists()
        assert "traces are off there" in call("trace", JOB, "--agent", running.url).stderr


def test_gpus_that_are_no_numbers_are_refused() -> None:
    done = call("trace", JOB, "--gpus", "0,all")
    assert (done.returncode, done.stderr) == (
        2,
        "ofu-exporter: --gpus: '0,all' is not numbers with commas\n",
    )


def test_an_agent_that_is_killed_in_the_middle_leaves_its_socket_and_the_next_goes_on(
    tmp_path: Path,
) -> None:
    with traced(tmp_path) as running:
        running.kill()
        assert (tmp_path / "s" / "dynolog").is_socket()
        gone = tmp_path / "s" / "dynoconfigclient1"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as of_a_process_that_ended:
            of_a_process_that_ended.bind(str(gone))
        with agent(*flags(tmp_path)) as second:
            until(lambda: second.values("ofu_job_info", job_id=JOB))
            time.sleep(1.0)
            assert ask(tmp_path).returncode == 0
            assert not gone.exists()


def test_where_another_daemon_has_the_socket_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(tmp_path / "s" / "dynolog"))
        with agent(*flags(tmp_path)) as running:
            running.logs("another daemon (dynolog?) has it")
            until(lambda: running.values("ofu_job_info", job_id=JOB))
            assert "another daemon" in ask(tmp_path).stderr


def test_where_another_daemon_has_the_abstract_name_it_is_said(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        with suppress(OSError):  # a daemon of this machine may have it
            other.bind(b"\0dynolog\0")
        with agent(*flags(tmp_path), "--trace-abstract-name") as running:
            running.logs("the abstract name dynolog: another daemon (dynolog?) has it")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(600 << 20)


def test_a_file_that_is_too_large_for_a_node_is_kept_for_the_command(tmp_path: Path) -> None:
    with traced(tmp_path, write=large) as running:
        done = ask(tmp_path)
        (kept,) = (tmp_path / "t").iterdir()
        assert "bytes, more than a node reads" in done.stderr
        assert f"(kept: {kept})" in done.stderr
        assert running.logged(f"{kept} is kept for a day")


@pytest.mark.skipif(not TORCH.exists(), reason="PyTorch is not here")
def test_an_unmodified_loop_of_pytorch_is_traced(short_path: Path) -> None:
    """Its steps take a millisecond at least: without that a fast machine writes more events than a node reads."""
    tmp_path = short_path
    loop = "import time, torch\na = torch.ones(64, 64)\nwhile True: a = (a @ a).tanh(); time.sleep(1e-3)"
    env = {
        "SLURM_JOB_ID": JOB,
        "KINETO_USE_DAEMON": "1",
        "KINETO_IPC_SOCKET_DIR": str(tmp_path / "s"),
        "OMP_NUM_THREADS": "1",
    }
    with agent(*flags(tmp_path)) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        with subprocess.Popen([str(TORCH), "-c", loop], env=env, stderr=subprocess.DEVNULL) as job:
            try:
                said = until(
                    lambda: "has asked" not in (found := ask(tmp_path)).stderr and found, 60.0
                )
            finally:
                job.kill()
        assert running.value("ofu_exporter_traces_total", outcome="no_gpu_work") == 1, said
