"""Who may have a job traced, which of its processes are told to record, and what becomes of it without a file."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.agent import trace_desk
from ofu_exporter.agent.trace_desk import TraceDesk
from ofu_exporter.serving.trace_routes import TraceAnswer, TraceAsker, TraceOrder, TraceRefused
from ofu_exporter.traces.daemon_messages import DaemonQuestion, Registration
from ofu_exporter.traces.registry import Peer, Process, ProcessRegistry
from ofu_exporter.values.job import Job
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.agent import until
from tests.helpers.node import snapshot_of
from tests.helpers.values import reading

OWNER, STRANGER = 4242, 4343
JOB = Job("slurm", "1001", user=str(OWNER))
ASKER = TraceAsker(OWNER, is_site=False)


class Bench:
    """A desk, and processes that have asked it for work over sockets of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.job, self.sockets = folder, JOB, list[socket.socket]()
        self.desk = TraceDesk(folder, self.snapshot, lambda *_: None)
        self.desk.registry = ProcessRegistry(folder / "proc")

    def snapshot(self) -> Snapshot:
        """Of that job, of another of its user that runs, and of one that has ended."""
        others = Job("slurm", "1002", user=str(OWNER)), Job("slurm", "1003", user=str(OWNER))
        views = JobView(self.job, 0.0), JobView(others[0], 0.0), JobView(others[1], 0.0, ended=9.0)
        return replace(snapshot_of(reading()), jobs=views)

    def process(self, uid: int = OWNER, gpu: int | None = None, group: str = "") -> Process:
        number = len(self.sockets) + 10
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        client.bind(str(self.folder / f"c{number}"))
        self.sockets.append(client)
        if group:
            (self.folder / "proc" / str(number)).mkdir(parents=True)
            (self.folder / "proc" / str(number) / "cgroup").write_text(group)
        peer = Peer(number if group else 0, uid, client.getsockname().encode())
        if gpu is not None:
            self.desk.registry.take(Registration(gpu, number, 1001), peer, time.monotonic())
        taken = self.desk.registry.take(DaemonQuestion(3, 1001, (number,)), peer, time.monotonic())
        assert taken is not None
        return taken

    def ask(self, asker: TraceAsker = ASKER, job: str = "1001", **order: object) -> TraceAnswer:
        return self.desk.ask(job, TraceOrder.model_validate(order), asker)

    def refused(self, asker: TraceAsker = ASKER, job: str = "1001", **order: object) -> str:
        with pytest.raises(TraceRefused) as caught:
            self.ask(asker, job, **order)
        return f"{caught.value.status_code} {caught.value.detail}"

    def told(self, process: Process) -> str:
        """The file that a process is told to write; "" = nothing."""
        return self.desk.configuration(process).partition("\n")[0].partition("=")[2]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(trace_desk, "LOOK_SECONDS", 0.01)
    bench = Bench(tmp_path)
    yield bench
    for name in ("ASK_SECONDS", "WRITE_SECONDS"):  # what still waits ends
        monkeypatch.setattr(trace_desk, name, -99.0)
    until(lambda: bench.desk._request is None)
    for each in bench.sockets:
        each.close()


@pytest.mark.parametrize(
    ("uid", "is_site", "may"),
    [
        *((OWNER, False, True), (0, False, True), (None, True, True)),
        *((STRANGER, False, False), (None, False, False)),
    ],
)
def test_a_trace_is_for_the_jobs_user_root_and_the_site(
    bench: Bench, uid: int | None, is_site: bool, may: bool
) -> None:
    bench.process()
    asker = TraceAsker(uid, is_site)
    if may:
        answer = bench.ask(asker)
        assert (answer.state, answer.processes, answer.told) == ("waiting", 1, 0)
        assert bench.ask(asker, request=answer.request) == answer
        assert bench.refused(TraceAsker(STRANGER, False), request=answer.request)[:3] == "403"
        assert bench.refused(asker, "1002", request=answer.request)[:3] == "404"
    else:
        assert bench.refused(asker).startswith("403 a trace of job 1001 is for its own user")


def test_what_cannot_be_traced_is_refused_with_why(bench: Bench) -> None:
    for job in ("7", "1003"):
        assert bench.refused(job=job) == f"404 {job!r} holds no GPU that this agent measures"
    assert bench.refused().startswith("409 no process of job 1001 has asked for work")
    bench.process(gpu=3)
    assert bench.refused(replace(ASKER, gpus=(1,)))[:35] == "409 no process of job 1001 on GPU 1"
    assert bench.refused(request="other")[:3] == "404"
    bench.ask()
    assert bench.refused() == "429 a trace of job 1001 is being taken"
    bench.desk.problem = "no socket"
    assert bench.refused() == "503 no socket"


def test_each_process_of_the_user_is_told_once_and_again_where_it_was_not_reached(
    bench: Bench,
) -> None:
    mine, also, stranger = bench.process(), bench.process(), bench.process(STRANGER)
    assert bench.told(mine) == ""
    answer = bench.ask(seconds=1.5)
    assert (answer.processes, bench.desk.counts()["foreign"]) == (2, 1)
    assert "ACTIVITIES_DURATION_MSECS=1500" in bench.desk.configuration(also)
    first = bench.told(mine)
    assert Path(first).parent == bench.folder
    assert (bench.told(mine), bench.told(stranger)) == ("", "")
    bench.desk.take_back(mine)
    assert bench.told(mine) not in ("", first)
    standing = bench.ask(request=answer.request)
    assert (standing.state, standing.told, standing.arrived) == ("recording", 2, 0)


@pytest.mark.parametrize(("some", "number"), [({"most": 2}, 2), ({"gpus": (1, 7)}, 1), ({}, 3)])
def test_some_processes_may_be_asked_alone(bench: Bench, some: dict[str, Any], number: int) -> None:
    for gpu in range(3):
        bench.process(gpu=gpu)
    assert bench.ask(replace(ASKER, **some)).processes == number


def test_a_process_that_has_gone_is_not_asked(bench: Bench) -> None:
    bench.process()
    bench.process()
    bench.sockets[0].close()
    assert bench.ask().processes == 1


@pytest.mark.parametrize(("proven", "said"), [(False, "403"), (True, "")])
def test_where_nobody_knows_the_user_the_control_group_says_whose_a_job_is(
    bench: Bench, proven: bool, said: str
) -> None:
    bench.job = replace(JOB, user="")
    bench.process(group="0::/slurmstepd.scope/job_1001/step_0/task_0\n" if proven else "")
    if proven:
        assert bench.refused(TraceAsker(STRANGER, False))[:3] == "403"
        assert bench.ask().processes == 1
    else:
        assert bench.refused(TraceAsker(None, True))[:3] == said
        assert bench.desk.counts()["unproven"] == 1


@pytest.mark.parametrize(
    ("is_told", "why"), [(False, "no process has asked again"), (True, "no file")]
)
def test_a_trace_without_a_file_fails_and_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_told: bool, why: str
) -> None:
    process = bench.process()
    answer = bench.ask()
    if is_told:
        assert bench.told(process)
    for name in ("ASK_SECONDS", "WRITE_SECONDS"):
        monkeypatch.setattr(trace_desk, name, -99.0)
    until(lambda: bench.ask(request=answer.request).state == "failed")
    assert bench.ask(request=answer.request).detail.startswith(why)
    assert bench.desk.counts()["failed"] == 1


def test_nobody_waits_for_more_once_every_file_is_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_desk, "WRITE_SECONDS", 3600.0)
    process = bench.process()
    answer = bench.ask()
    file = Path(bench.told(process))
    file.with_name(f"{file.stem}_10.json").write_text("no trace")  # with the process's own number
    until(lambda: bench.ask(request=answer.request).state == "failed")
    assert bench.ask(request=answer.request).arrived == 1
