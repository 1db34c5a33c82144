"""`job start` and `job stop`: quick, and never a failure."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ofu_exporter.cli import COMMANDS, cli
from tests.helpers.agent import COMMAND

ENVIRON = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_GPUS": "0,1",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_PARTITION": "gpu",
}


class Hook:
    """Runs the command as Slurm does: with its own few variables, no PATH, no terminal."""

    def __init__(self, path: Path) -> None:
        self.jobs = path / "jobs"
        self.bin = path / "bin"
        self.bin.mkdir()
        self.squeue("exit 1")

    def squeue(self, script: str) -> None:
        (self.bin / "squeue").write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / "squeue").chmod(0o755)

    def __call__(self, *args: str, **environ: str) -> str:
        """What it says on stderr; it says nothing else, and ends with 0."""
        # No agent, not even one of other tests at the usual port.
        place = {"OFU_JOB_DIR": str(self.jobs), "OFU_AGENT": "http://127.0.0.1:1"}
        done = subprocess.run(
            [*COMMAND, "job", *args, "--slurm-bin", str(self.bin)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**ENVIRON, **place, **environ},
        )
        assert (done.returncode, done.stdout) == (0, "")
        return done.stderr

    def files(self) -> dict[str, dict[str, object]]:
        return {path.name: json.loads(path.read_text()) for path in self.jobs.glob("*.json")}


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path)


def test_a_job_is_noted_and_forgotten(hook: Hook) -> None:
    assert hook("start", "--no-ask") == ""
    file = hook.files()["7.json"]
    assert (file["job_id"], file["gpus"], file["user"]) == ("7", ["0", "1"], "ada")
    assert "the agent does not answer" in hook("stop", "--no-ask")
    assert hook.files() == {}


def test_slurm_is_asked_unless_told_otherwise(hook: Hook) -> None:
    hook.squeue(f"echo asked >>{hook.bin}/log; exit 1")
    hook("start", "--no-ask")
    assert not (hook.bin / "log").exists()
    assert hook("start").startswith("ofu-exporter: Slurm does not answer")
    assert (hook.bin / "log").exists()
    assert "7.json" in hook.files(), "it is written all the same"


def test_flags_serve_a_hand(hook: Hook, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    hook("start", "--no-ask", "--job-id", "8", "--job-dir", str(elsewhere))
    assert [path.name for path in elsewhere.iterdir()] == ["8.json"]


@pytest.mark.slow
def test_a_job_has_a_token_as_long_as_it_runs(hook: Hook, tmp_path: Path) -> None:
    user = {"SLURM_JOB_UID": str(os.geteuid())}
    assert hook("start", "--no-ask", **user) == ""
    token = (tmp_path / "tokens" / "7").read_bytes().strip()
    assert hook.files()["7.json"]["token_sha256"] == hashlib.sha256(token).hexdigest()
    elsewhere = tmp_path / "elsewhere"
    assert hook("start", "--no-ask", "--token-dir", str(elsewhere), **user) == ""
    assert (elsewhere / "7").is_file()
    hook("stop", "--no-ask", **user)
    assert list((tmp_path / "tokens").iterdir()) == []


@pytest.mark.parametrize("hook_name", ["start", "stop"])
@pytest.mark.parametrize(
    ("args", "environ", "line"),
    [
        (["--job-id", "seven"], {}, "--job-id: 'seven' is not the number of a job"),
        (["--job-id", "../7"], {}, "--job-id: '../7' is not the number of a job"),
        ([], {"SLURM_JOB_ID": ""}, "Missing option '--job-id'"),
        (["--job-it", "7"], {}, "--job-it"),
        (["--job-dir", "/proc/version"], {}, "/proc/version is no directory"),
    ],
)
def test_what_goes_wrong_is_said_and_is_no_failure(
    hook: Hook, hook_name: str, args: list[str], environ: dict[str, str], line: str
) -> None:
    said = hook(hook_name, "--no-ask", *args, **environ)
    assert said.startswith("ofu-exporter: ")
    assert line in said
    assert said.count("\n") == 1


def test_a_directory_that_cannot_be_made_is_named(hook: Hook) -> None:
    assert "/proc/version" in hook("start", "--no-ask", OFU_JOB_DIR="/proc/version/x")
    assert hook("stop", "--no-ask", OFU_JOB_DIR="/proc/version/x") == "", "what is nowhere is gone"


def test_help_is_help(hook: Hook) -> None:
    text = CliRunner().invoke(cli, ["job", "start", "--help"]).output
    for flag in ("--job-id", "--job-dir", "--slurm-bin", "--no-ask"):
        assert flag in text


@pytest.mark.skipif(
    os.geteuid() != 0, reason="root writes anywhere; others are told that they can't"
)
def test_a_hook_that_may_not_write_says_so(hook: Hook) -> None:
    hook.jobs.mkdir()
    os.chown(hook.jobs, 4242, 4242)
    assert f"{hook.jobs} is owned by user 4242" in hook("start", "--no-ask")
    assert hook.files() == {}


def test_the_hooks_do_not_wait_for_the_agents_libraries(hook: Hook) -> None:
    """Every job of the cluster pays for what is imported here."""
    code = "import sys; sys.argv[1:] = ['job', 'start', '--no-ask']\n"
    code += "import ofu_exporter.cli as c\ntry: c.main()\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**ENVIRON, "OFU_JOB_DIR": str(hook.jobs)},
    )
    loaded = set(done.stdout.split())
    assert "ofu_exporter.schedulers.slurm.hooks" in loaded
    assert not loaded & {"pydantic", "fastapi", "uvicorn", "prometheus_client", "httpx", "yaml"}
    click = [sys.executable, "-c", "import sys, click; print(*sys.modules)"]
    of_click = set(subprocess.run(click, capture_output=True, text=True, check=True).stdout.split())
    unused = {
        "csv",
        "subprocess",
        "ofu_exporter.values.gpu",
    } - of_click  # by its uuid on Python 3.10
    assert not loaded & unused, "not used by this hook"


def test_every_command_is_where_it_is_said_to_be() -> None:
    assert {name: COMMANDS[name].name for name in COMMANDS} == {name: name for name in COMMANDS}
    assert "No such command" in CliRunner().invoke(cli, ["chekc"]).output
