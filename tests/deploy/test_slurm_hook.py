"""The hooks on a node on which everything is broken: they end, in time and well, and the job's file is right."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ofu_exporter.schedulers.slurm import ended_files, job_files
from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import until
from tests.helpers.broken_node import full_disk, full_log, why_no_mounts
from tests.helpers.hook_node import HookNode
from tests.helpers.slurm_cluster import PROGRAM

pytestmark = pytest.mark.slow

HOOKS = ("prolog.sh", "epilog.sh")
SHORT = {"OFU_EXPORTER_HOOK_SECONDS": "1"}
JOBS = range(8)

needs_mounts = pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts())


def program(folder: Path, *lines: str) -> dict[str, str]:
    """A program in the place of ours."""
    path = folder / "program"
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return {"OFU_EXPORTER_PROGRAM": str(path)}


def name_of(node: HookNode, job_id: str = "7") -> str:
    file = job_files.read(node.jobs).values.get(f"{job_id}.json")
    return file.claim.job.name if file else "no file"


# It leaves work that takes ten seconds, in which the others are tested.


def test_a_lock_that_the_caller_holds_is_not_handed_on(node: HookNode, tmp_path: Path) -> None:
    hangs = program(tmp_path, "sleep 1000")
    lock = tmp_path / "lock"
    held = ["flock", str(lock), "env"]
    short = {"OFU_EXPORTER_HOOK_SECONDS": "0.2", "OFU_EXPORTER_WORK_SECONDS": "10"}
    node.finish(node.start("prolog.sh", 7, prefix=held, PATH=os.environ["PATH"], **hangs, **short))
    assert not node.is_quiet()
    assert subprocess.run(["flock", "--nonblock", lock, "true"], check=False).returncode == 0


# The file is the shell's: it is there whatever becomes of the program.


def test_a_job_that_cannot_wait_at_all_has_its_file(node: HookNode) -> None:
    """As on a node whose cores are busy: the limit is over before anything has run."""
    node.call("prolog.sh", 7, OFU_EXPORTER_HOOK_SECONDS="0.0001")
    until(node.files)
    node.call("epilog.sh", 7, OFU_EXPORTER_HOOK_SECONDS="0.0001")
    until(node.ended)
    assert (node.files(), node.ended()) == ([], ["7"])


def test_a_program_that_does_not_come_to_its_turn_costs_no_job_its_file(
    node: HookNode, tmp_path: Path
) -> None:
    hangs = program(tmp_path, "sleep 1000")
    limits = {"OFU_EXPORTER_HOOK_SECONDS": "0.5", "OFU_EXPORTER_WORK_SECONDS": "0.5"}
    told = {"SLURM_JOB_USER": "ada", "SLURM_JOB_PARTITION": 'a"b', "CUDA_VISIBLE_DEVICES": "0"}
    node.call("prolog.sh", 7, **hangs, **limits, **told)
    until(node.files)
    (file,) = job_files.read(node.jobs).values.values()
    job = file.claim.job
    assert (file.claim.devices, job.user, job.partition) == (("7",), "ada", "")
    assert job.started == file.noted
    assert file.is_first, "nobody has asked Slurm what the job has of the GPU"
    node.call("epilog.sh", 7, **hangs, **limits)
    until(node.ended)
    (ended,) = ended_files.names(node.jobs)
    assert ended_files.read_one(node.jobs, ended) == file


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        ({"SLURM_JOB_GPUS": "0,1,12"}, ("0", "1", "12")),
        ({"CUDA_VISIBLE_DEVICES": "GPU-5d-a,MIG-GPU-8a/1/0"}, ("GPU-5d-a", "MIG-GPU-8a/1/0")),
        ({"SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "MIG-x,1"}, ("3",)),
        ({"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": "1"}, None),
        ({"SLURM_JOB_GPUS": "0-3"}, None),
        ({"SLURM_JOB_GPUS": "*"}, None),
        ({"SLURM_JOB_GPUS": '0"'}, None),
        ({"SLURM_JOB_GPUS": "0,"}, ("0",)),
        ({"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": "GPU-$(id)"}, None),
        ({"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": 'GPU-"'}, None),
        ({"SLURM_JOB_ID": "../7"}, None),
        ({"SLURM_JOB_GPUS": "0", "SLURM_JOB_USER": "ada\\", "SLURM_JOB_PARTITION": "a\nb"}, ("0",)),
        ({"SLURM_JOB_GPUS": "0", "SLURM_JOB_USER": "x" * 300}, ("0",)),
    ],
)
def test_what_the_shell_writes_is_right_or_left_to_the_program(
    node: HookNode, tmp_path: Path, environ: dict[str, str], devices: tuple[str, ...] | None
) -> None:
    node.call("prolog.sh", 7, **program(tmp_path, "exit 0"), **environ)
    files = job_files.read(node.jobs)
    assert not files.refused
    assert [file.claim.devices for file in files.values.values()] == ([devices] if devices else [])
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("told", "restarts"),
    [("0", 0), ("12", 12), (None, None), ("", None), ("x", None), ("007", None), ("9" * 40, None)],
)
def test_the_shell_writes_how_often_slurm_says_that_the_job_was_requeued(
    node: HookNode, tmp_path: Path, told: str | None, restarts: int | None
) -> None:
    environ = {} if told is None else {"SLURM_JOB_RESTART_COUNT": told}
    node.call("prolog.sh", 7, **program(tmp_path, "exit 0"), **environ)
    (file,) = job_files.read(node.jobs).values.values()
    assert file.claim.job.restarts == restarts


def test_the_program_completes_what_the_shell_has_written(node: HookNode) -> None:
    node.call("prolog.sh", 7, SLURM_JOB_NAME="train llama", SLURM_JOB_START_TIME="1000")
    (file,) = job_files.read(node.jobs).values.values()
    job = file.claim.job
    assert (job.name, job.started) == ("train llama", 1000.0)
    assert file.noted is not None
    assert job.uid == job_files.milliseconds(file.noted), "the run that the shell has told of"
    assert not file.is_first


def test_a_slow_program_completes_the_file_after_the_job_has_begun(
    node: HookNode, tmp_path: Path
) -> None:
    slow = program(tmp_path, "sleep 2", f'exec {PROGRAM} "$@"')
    node.call("prolog.sh", 7, **slow, OFU_EXPORTER_HOOK_SECONDS="0.2", SLURM_JOB_NAME="llama")
    until(lambda: name_of(node) == "")  # the wait may be over before the shell has written it
    until(lambda: name_of(node) == "llama")


def test_a_slow_program_brings_no_file_of_a_job_back_that_is_over(
    node: HookNode, tmp_path: Path
) -> None:
    slow = program(tmp_path, "sleep 2", f'exec {PROGRAM} "$@"')
    node.call("prolog.sh", 7, **slow, OFU_EXPORTER_HOOK_SECONDS="0.2", SLURM_JOB_NAME="llama")
    node.call("epilog.sh", 7)
    until(node.is_quiet)
    assert (node.files(), node.ended()) == ([], ["7"])


@pytest.mark.parametrize(
    ("hook", "environ"),
    [
        ("epilog.sh", {}),
        ("epilog.sh", {"SLURM_JOB_GPUS": ""}),
        ("prolog.sh", {"SLURM_JOB_GPUS": ""}),
    ],
)
def test_an_epilog_and_a_job_without_gpus_wait_for_no_program(
    node: HookNode, tmp_path: Path, hook: str, environ: dict[str, str]
) -> None:
    """Even where they might: the hook ends before the program does."""
    hangs = program(tmp_path, "sleep 1000")
    node.call(hook, 7, **hangs, **environ, OFU_EXPORTER_HOOK_SECONDS="1000")
    assert not node.is_quiet()
    node.kill()


def test_the_flags_count_for_the_shell_as_well(node: HookNode, tmp_path: Path) -> None:
    hangs = program(tmp_path, "sleep 1000")
    short = {"OFU_EXPORTER_HOOK_SECONDS": "0.5", "OFU_EXPORTER_WORK_SECONDS": "0.5"}
    elsewhere = tmp_path / "elsewhere"
    node.call("prolog.sh", 7, "--job-dir", str(elsewhere), "--job-id=8", **hangs, **short)
    until(lambda: elsewhere.exists() and [path.name for path in elsewhere.iterdir()] == ["8.json"])
    node.call("epilog.sh", 7, f"--job-dir={elsewhere}", "--job-id", "8", **hangs, **short)
    until(lambda: not list(elsewhere.glob("*.json")))
    assert not node.jobs.exists()


def test_the_shell_writes_nothing_where_a_link_leads(node: HookNode, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    node.jobs.symlink_to(tmp_path / "target")
    node.call("prolog.sh", 7)
    assert list((tmp_path / "target").iterdir()) == []


# What hangs, hangs on its own.


@needs_mounts
@pytest.mark.parametrize("hook", HOOKS)
def test_a_log_that_nobody_reads_holds_up_no_hook(
    node: HookNode, tmp_path: Path, hook: str
) -> None:
    talks = program(tmp_path, f'{PROGRAM} "$@"', "echo something to say")
    with full_log(tmp_path) as inside:
        node.finish(node.start(hook, 7, prefix=inside, **talks))
    assert node.files() == (["7"] if hook == "prolog.sh" else [])


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_disk_that_hangs_holds_up_no_hook(node: HookNode, tmp_path: Path, hook: str) -> None:
    if hook == "epilog.sh":
        node.call("prolog.sh", 7)
    node.call(hook, 7, **SHORT, **slow_disk(node.jobs, seconds=1000))
    assert not node.is_quiet(), "the work hangs on"
    node.kill()


@needs_mounts
@pytest.mark.parametrize("hook", HOOKS)
def test_a_full_disk_costs_the_file_and_nothing_else(
    node: HookNode, tmp_path: Path, hook: str
) -> None:
    with ExitStack() as stack:
        fill = stack.enter_context(full_disk(node.jobs))
        if hook == "epilog.sh":
            node.call("prolog.sh", 7)
            assert node.files() == ["7"]
        fill()
        node.call(hook, 7)
        until(node.is_quiet)
        assert node.files() == [], "none that is cut short"
        assert not list(node.jobs.glob(".*.tmp"))


@pytest.mark.parametrize("hook", HOOKS)
def test_a_squeue_that_hangs_holds_up_no_hook(node: HookNode, tmp_path: Path, hook: str) -> None:
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\ntrap '' TERM\nsleep 1000 & wait; wait\n")
    squeue.chmod(0o755)
    patient = ("--slurm-bin", str(squeue.parent), "--ask-seconds", "3")
    node.call(hook, 7, *patient, **SHORT)
    until(lambda: node.files() == (["7"] if hook == "prolog.sh" else []))


@contextmanager
def silent_agent() -> Iterator[str]:
    """An agent that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_an_agent_that_never_answers_holds_up_no_epilog(node: HookNode) -> None:
    node.call("prolog.sh", 7)
    with silent_agent() as url:
        node.call("epilog.sh", 7, "--no-ask", "--agent", url)
        until(node.is_quiet)
    assert (node.files(), node.ended()) == ([], ["7"])


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.send_signal(signal.SIGKILL)
            loop.wait()


def test_on_a_busy_node_every_job_has_its_file_when_it_begins_and_none_when_it_ended(
    node: HookNode,
) -> None:
    with busy_loops(4 * (os.cpu_count() or 1)):
        starting = [node.start("prolog.sh", job, SLURM_JOB_NAME="x", **SHORT) for job in JOBS]
        for process in starting:
            node.finish(process)
        assert node.files() == [str(job) for job in JOBS]
        ending = [node.start("epilog.sh", job, **SHORT) for job in JOBS]
        for process in ending:
            node.finish(process)
        assert (node.files(), node.ended()) == ([], [str(job) for job in JOBS])
    until(node.is_quiet)
    assert node.files() == []
