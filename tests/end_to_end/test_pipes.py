"""A named pipe that nobody writes into is named at once, wherever a command takes a file to read."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from ofu_exporter.cli.bundle import log_tail
from tests.end_to_end.test_foreign_names import COMMANDS
from tests.flops.counting import CONFIGS
from tests.helpers.agent import call
from tests.traces.formats.tracing import NVJET

pytestmark = pytest.mark.slow

CONFIG = str(CONFIGS / "gemma-7b.json")
FLEET = ("--prometheus", "http://127.0.0.1:9")
REPORT = ("fleet", "report", "--prometheus", "https://127.0.0.1:9")
MFU = ("mfu", CONFIG, "--gpu", "H100", "--gpus", "1", "--step-seconds", "1", "--batch-size", "1")
EXPLAIN = ("explain", "--mfu", "0.5", "--ofu", "0.3")
TILE = ("tile", NVJET, "--groups")
READ: dict[tuple[str, str], tuple[str, ...]] = {
    ("check", "config"): ("check", "--config", "PIPE"),
    ("run", "config"): ("run", "--config", "PIPE", "--source", "simulate"),
    ("top", "hosts_file"): ("top", "--once", "--hosts-file", "PIPE"),
    ("flops", "configs"): ("flops", "PIPE"),
    ("flops", "lengths"): ("flops", CONFIG, "--lengths", "PIPE"),
    ("mfu", "config"): ("mfu", "PIPE", *MFU[2:]),
    ("mfu", "lengths"): (*MFU, "--lengths", "PIPE"),
    ("explain", "config"): (*EXPLAIN, "--config", "PIPE"),
    ("explain", "lengths"): (*EXPLAIN, "--config", CONFIG, "--lengths", "PIPE"),
    ("profile", "files"): ("profile", "PIPE"),
    ("profile", "shapes"): ("profile", CONFIG, "--shapes", "PIPE"),
    ("tile", "groups"): (*TILE, "PIPE"),
    ("tail", "log"): ("tail", "PIPE", "--job", "1"),
    ("validate", "output"): ("validate", "--report", "--output", "PIPE"),
    ("job show", "state_file"): ("job", "show", "7", "--agent", FLEET[1], "--state-file", "PIPE"),
    ("check", "path"): ("check", "--source", "replay", "--path", "PIPE"),
    ("fleet simulate", "spec"): ("fleet", "simulate", "PIPE"),
    ("fleet report", "prices"): ("fleet", "report", *FLEET, "--prices", "PIPE"),
    ("fleet report", "changes"): ("fleet", "report", *FLEET, "--changes", "PIPE"),
    ("fleet report", "hosts_file"): ("fleet", "report", "--hosts-file", "PIPE"),
    ("fleet report", "config"): (
        *("fleet", "report", *FLEET),
        *("--folder", "none", "--send", "--config", "PIPE"),
    ),
    ("fleet report", "bearer_token_file"): (
        "fleet",
        "report",
        *FLEET,
        "--bearer-token-file",
        "PIPE",
    ),
    ("fleet report", "ca"): (
        "fleet",
        "report",
        "--prometheus",
        "https://127.0.0.1:9",
        "--ca",
        "PIPE",
    ),
    ("fleet report", "password_file"): (*REPORT, "--user", "x", "--password-file", "PIPE"),
    ("fleet report", "client_cert"): (*REPORT, "--client-cert", "PIPE"),
    ("fleet report", "client_key"): (*REPORT, "--client-cert", CONFIG, "--client-key", "PIPE"),
    ("fleet digest", "config"): ("fleet", "digest", *FLEET, "--config", "PIPE"),
}


@pytest.mark.parametrize("place", READ, ids=" ".join)
def test_a_pipe_is_not_waited_for(place: tuple[str, str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    done = call(*(str(pipe) if word == "PIPE" else word for word in READ[place]))
    assert done.returncode in (2, 3), done.stderr
    assert "it is not a file" in done.stdout + done.stderr


def test_an_archive_without_a_log_says_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a file" in log_tail(tmp_path / "pipe")


WRITTEN = {
    "given",
    "output",
    "save",
    "plot_file",
    "bundle",
    "file",
    "directory",
    "folder",
    "job_dir",
    "token_dir",
}
"""Files and folders that a command writes, and the pause file, which is replaced."""


def test_every_file_that_a_command_reads_is_tried() -> None:
    tried = {name for _, name in READ}
    for command in COMMANDS.values():
        files = {each.name for each in command.params if isinstance(each.type, click.Path)}
        assert files <= tried | WRITTEN | {"log_file"}, command.name
