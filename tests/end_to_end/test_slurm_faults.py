"""A node on which everything around the hooks is broken, in a real Slurm: no node is drained, no job is held."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import Agent, until
from tests.helpers.broken_node import full_disk, full_log, why_no_mounts
from tests.helpers.slurm_cluster import DEPLOYED, GPUS, PROGRAM, Cluster, processes

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

PATIENCE = 60.0
"""Seconds for what happens on a machine with more work than cores."""

needs_mounts = pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts())
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


T = TypeVar("T")


class Faulty:
    """A cluster whose hooks meet a fault, with the time limits that they have on a node."""

    def __init__(self, cluster: Cluster, stack: ExitStack, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._stack = stack

    def enter(self, fault: AbstractContextManager[T]) -> T:
        """Break something until the test is over."""
        return self._stack.enter_context(fault)

    def hooks(self, flags: str = "", before: str = "", after: str = "", **settings: object) -> None:
        """Ours, with something before and after them."""
        scripts = []
        for name in ("prolog", "epilog"):
            script = self.folder / name
            script.write_text(
                f"#!/bin/sh\n{before}\n{DEPLOYED / name}.sh {flags}\n{after}\nexit 0\n"
            )
            script.chmod(0o755)
            scripts.append(script)
        limits: dict[str, Any] = {"OFU_EXPORTER_HOOK_SECONDS": 1, "OFU_EXPORTER_WORK_SECONDS": 5}
        self._stack.enter_context(self.cluster.hooks(*scripts, **limits | settings))

    def program(self, *lines: str) -> Path:
        path = self.folder / "program"
        path.write_text("\n".join(("#!/bin/sh", *lines, "")))
        path.chmod(0o755)
        return path


def log_is_full(node: Faulty) -> None:
    """For the hooks alone: the slurmd of Slurm 24.11 writes to the log itself, and waits."""
    inside = shlex.join(node.enter(full_log(node.folder)))
    talks = node.program(f'{PROGRAM} "$@"', "echo something to say")
    again = f'[ "$LOG" ] || exec /usr/bin/env LOG=full {inside} "$0" "$@"'
    node.hooks(before=again, OFU_EXPORTER_PROGRAM=talks)


def disk_hangs(node: Faulty) -> None:
    node.hooks(**slow_disk(node.cluster.jobs, seconds=1000))


def disk_is_full(node: Faulty) -> None:
    place = node.folder / "full"
    node.enter(full_disk(place))()
    node.hooks(OFU_JOB_DIR=place)


def squeue_hangs(node: Faulty) -> None:
    squeue = node.folder / "squeue"
    squeue.write_text("#!/bin/sh\ntrap '' TERM\nsleep 1000 & wait; wait\n")
    squeue.chmod(0o755)
    node.hooks(f"--slurm-bin {node.folder} --ask-seconds 3")


def slurmctld_is_stopped(node: Faulty) -> None:
    (controller,) = {*processes("cmdline", "slurmctld\0-D\0")} & {*node.cluster.all_processes()}
    node.hooks(before=f"kill -STOP {controller}", after=f"kill -CONT {controller}")


def program_hangs(node: Faulty) -> None:
    node.hooks(OFU_EXPORTER_PROGRAM=node.program("trap '' TERM", "sleep 1000 & wait; wait"))


def program_leaves_a_child(node: Faulty) -> None:
    node.hooks(OFU_EXPORTER_PROGRAM=node.program("setsid sleep 30 &"))


def cores_are_busy(node: Faulty) -> None:
    @contextmanager
    def busy() -> Iterator[None]:
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
        try:
            yield
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()

    node.enter(busy())
    node.hooks()


def agent_is_dead(node: Faulty) -> None:
    """It was there, and was ended with its port open."""
    agent = Agent(["run", "--source", "simulate", "--scheduler", "none", "--listen", "127.0.0.1:0"])
    agent.kill()
    node.hooks(OFU_AGENT=agent.url)


def agent_never_answers(node: Faulty) -> None:
    node.hooks(OFU_AGENT=node.enter(silent_agent()))


@contextmanager
def silent_agent() -> Iterator[str]:
    """Takes every connection, says nothing on any, and was asked in the end by the epilog of each job."""
    kept: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                kept.append(server.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
            until(lambda: len(kept) >= GPUS, PATIENCE)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


FAULTS: list[Callable[[Faulty], None]] = [
    pytest.param(log_is_full, marks=needs_mounts),  # type: ignore[list-item]
    pytest.param(disk_hangs, marks=needs_compiler),  # type: ignore[list-item]
    pytest.param(disk_is_full, marks=needs_mounts),  # type: ignore[list-item]
    squeue_hangs,
    slurmctld_is_stopped,
    program_hangs,
    program_leaves_a_child,
    agent_is_dead,
    agent_never_answers,
    cores_are_busy,
]
WITHOUT_FILES = (disk_hangs, disk_is_full)
"""Where a file has no place, there is none."""


@pytest.fixture
def faulty(cluster: Cluster, tmp_path: Path) -> Iterator[Faulty]:
    tmp_path.chmod(0o755)
    with ExitStack() as stack:
        yield Faulty(cluster, stack, tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_whatever_is_broken_jobs_begin_and_end_and_have_their_files(
    cluster: Cluster, faulty: Faulty, fault: Callable[[Faulty], None]
) -> None:
    fault(faulty)
    gate = uuid.uuid4().hex
    jobs = [cluster.submit("--gres=gpu:1", until_open=gate) for _ in range(GPUS)]
    until(lambda: all(cluster.state(job) == "RUNNING" for job in jobs), PATIENCE)
    until(lambda: all(cluster.processes(job) for job in jobs), PATIENCE)
    files = {path.stem for path in cluster.jobs.glob("*.json")}
    assert files == (set() if fault in WITHOUT_FILES else set(jobs))
    cluster.open(gate)
    until(lambda: all(cluster.state(job) == "COMPLETED" for job in jobs), PATIENCE)
    until(lambda: cluster.call("sinfo", "--noheader", "--format=%T") == "idle", PATIENCE)
    assert [cluster.show(job)["Restarts"] for job in jobs] == ["0"] * GPUS, "none was held"
    assert not list(cluster.jobs.glob("*.json"))
    aside = cluster.jobs / ".ended"
    until(lambda: files <= {path.stem.partition("-")[0] for path in aside.glob("*.json")}, PATIENCE)
