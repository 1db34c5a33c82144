"""The scripts of deploy/slurm: they never fail, never wait, and keep an agent exactly as long as it is needed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers.agent import until
from tests.helpers.hook_node import HookNode
from tests.helpers.slurm_cluster import DEPLOYED, PROGRAM, processes

pytestmark = pytest.mark.slow

SCRIPTS = sorted(DEPLOYED.glob("*.sh"))
HOOKS = [DEPLOYED / f"{name}.sh" for name in ("prolog", "epilog", "prolog-agent", "epilog-agent")]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


without_systemd = pytest.mark.skipif(
    Path("/run/systemd/system").exists(), reason="the unit of this machine would be started"
)


def test_the_hooks_note_a_job_and_forget_it(node: HookNode) -> None:
    node.call("prolog.sh", 7)
    assert (node.files(), node.ended()) == (["7"], [])
    node.call("epilog.sh", 7)
    assert (node.files(), node.ended()) == ([], ["7"])


def test_a_requeued_job_keeps_the_file_of_its_next_run(node: HookNode, tmp_path: Path) -> None:
    """Slurm 25.11 can start it on the same node while the program of the last epilog is at work."""
    late = tmp_path / "program"
    late.write_text(f'#!/bin/sh\n[ "$2" != stop ] || sleep 1\nexec {PROGRAM} "$@"\n')
    late.chmod(0o755)
    slow = {"OFU_EXPORTER_PROGRAM": str(late), "SLURM_JOB_UID": str(os.getuid())}
    for hook in ("prolog.sh", "epilog.sh", "prolog.sh"):
        node.call(hook, 7, **slow)
    until(node.is_quiet)
    assert (node.files(), node.ended()) == (["7"], ["7"])
    assert (node.root / "tokens" / "7").exists()


@pytest.mark.parametrize("hook", HOOKS, ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("program", "limit"),
    [
        ("exit 1", "20"),
        ("kill -9 $$", "20"),
        ("sleep 1000", "0.1"),
        ("trap '' TERM; sleep 1000 & wait; wait", "0.1"),
        ("echo what; echo else >&2", "20"),
        ("setsid sleep 5 & exit 0", "0.1"),
        (None, "20"),
    ],
    ids=["fails", "is killed", "hangs", "ignores SIGTERM", "talks", "leaves a child", "is missing"],
)
def test_whatever_the_program_does_the_hook_ends_well(
    node: HookNode, tmp_path: Path, hook: Path, program: str | None, limit: str
) -> None:
    path = tmp_path / "program"
    if program is not None:
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
    limits = {"OFU_EXPORTER_HOOK_SECONDS": limit, "OFU_EXPORTER_WORK_SECONDS": limit}
    node.call(hook, 7, OFU_EXPORTER_PROGRAM=str(path), **limits)
    left = ["7"] if hook.name.startswith("prolog") else []
    # A shell that gets no core in a tenth of a second goes on in the background.
    until(lambda: node.files() == left)


def test_a_hook_that_waits_for_nothing_loses_no_job(node: HookNode, tmp_path: Path) -> None:
    """Nor on a node without an idle core, on which the wait is over before the work has a session of its own."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    at_once = {"OFU_EXPORTER_HOOK_SECONDS": "0.0001", "OFU_EXPORTER_PROGRAM": str(program)}
    jobs = [str(job_id) for job_id in range(100, 200)]
    for job_id in jobs:
        node.call("prolog.sh", int(job_id), **at_once)
    until(lambda: node.files() == jobs)


@pytest.mark.skipif(
    Path("/run/systemd/system").exists(), reason="the unit of this node would start"
)
def test_the_agent_runs_from_the_first_job_to_the_last(node: HookNode) -> None:
    node.call("prolog-agent.sh", 1)
    until(node.started)
    agents = node.agents()
    assert len(agents) == 1
    node.call("prolog-agent.sh", 2)
    node.call("epilog-agent.sh", 1)
    node.call("prolog-agent.sh", 3)
    node.call("epilog-agent.sh", 3)
    until(node.is_quiet)
    assert node.agents() == agents, "there was a job all along"
    node.call("epilog-agent.sh", 2)
    until(node.is_quiet)
    assert (node.agents(), node.started()) == ([], 1)
    node.call("prolog-agent.sh", 4)
    until(lambda: node.started() == 2)


@without_systemd
def test_a_job_whose_file_comes_late_has_an_agent(node: HookNode, tmp_path: Path) -> None:
    """On a node without an idle core the prolog is over before hook.sh has written it."""
    later = """setsid --fork sh -c 'exec >/dev/null 2>&1; sleep 2; "$0" --no-ask' "${0%/*}/real.sh" | cat"""
    for name in ("prolog-agent", "agent", "hook"):
        shutil.copy(DEPLOYED / f"{name}.sh", tmp_path)
    shutil.copy(DEPLOYED / "prolog.sh", tmp_path / "real.sh")
    (tmp_path / "prolog.sh").write_text(f"#!/bin/sh\n{later}\n")
    (tmp_path / "prolog.sh").chmod(0o755)
    node.call(tmp_path / "prolog-agent.sh", 7)
    until(node.started)
    assert node.files() == ["7"]


@without_systemd
def test_a_job_without_a_gpu_stops_no_agent_that_outlives_the_last(node: HookNode) -> None:
    node.call("prolog-agent.sh", 1)
    until(node.started)
    agents = node.agents()
    node.call("epilog.sh", 1)  # epilog-agent.sh looks once OFU_EXPORTER_LINGER is over
    node.call("prolog-agent.sh", 2, SLURM_JOB_GPUS="")
    until(node.is_quiet)
    assert node.agents() == agents
    node.call("epilog-agent.sh", 2)
    until(lambda: node.agents() == [])


@without_systemd
def test_the_agent_outlives_the_last_of_two_jobs_as_long_as_the_first(node: HookNode) -> None:
    """The look after the first job's end comes soon after the second's: nobody has scraped that yet."""
    node.call("prolog-agent.sh", 1)
    until(node.started)
    agents = node.agents()
    node.call("prolog-agent.sh", 2)
    node.call("epilog-agent.sh", 1, OFU_EXPORTER_LINGER="4.25")
    looks, sleeps = "agent.sh\x004.25\0", "sleep\x004.25\0"
    until(lambda: processes("cmdline", sleeps))
    before = processes("cmdline", sleeps)
    node.call("epilog-agent.sh", 2, OFU_EXPORTER_LINGER="20")
    until(lambda: processes("cmdline", sleeps) != before)
    until(lambda: processes("cmdline", sleeps) or not processes("cmdline", looks))
    assert node.agents() == agents


@without_systemd
def test_prologs_at_once_start_one_agent(node: HookNode) -> None:
    calls = [
        subprocess.Popen(
            [DEPLOYED / "prolog-agent.sh", "--no-ask"],
            env={**node.settings, "SLURM_JOB_ID": str(job_id), "SLURM_JOB_GPUS": str(job_id)},
        )
        for job_id in range(1, 9)
    ]
    assert [call.wait(60) for call in calls] == [0] * 8
    until(node.is_quiet)
    until(node.started)
    assert len(node.agents()) == 1


@without_systemd
def test_jobs_that_end_at_once_leave_no_agent(node: HookNode) -> None:
    for job_id in range(1, 5):
        node.call("prolog-agent.sh", job_id)
        node.call("epilog-agent.sh", job_id)
    until(node.is_quiet)
    assert node.agents() == []


@without_systemd
def test_an_agent_that_was_killed_is_started_anew(node: HookNode) -> None:
    node.call("prolog-agent.sh", 1)
    until(node.started)
    for process in node.agents():
        os.kill(process, signal.SIGKILL)
    until(lambda: node.agents() == [])
    node.call("prolog-agent.sh", 2)
    until(lambda: node.started() == 2)
