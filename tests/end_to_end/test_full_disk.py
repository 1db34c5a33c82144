"""A full disk under the state file costs totals only what an agent that is killed meanwhile has not written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ofu_exporter.jobs.state_rows import find_in_file
from tests.helpers.agent import Agent, agent, until
from tests.helpers.job_node import Node, seconds

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node, disk = Node(tmp_path), tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    node.state = disk / "state.sqlite"
    yield node
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(512)):
            pass
    assert os.statvfs(disk).f_bfree == 0


def in_file(node: Node) -> float:
    return sum(job.gpu_seconds for job in find_in_file(node.state, "7"))


def writes(running: Agent, outcome: str) -> float:
    return running.value("ofu_exporter_state_writes_total", outcome=outcome) or 0.0


@pytest.mark.parametrize("is_new", [False, True])
def test_totals_outlive_a_full_disk(node: Node, is_new: bool) -> None:
    """It is full before the file is there, or later; an agent is killed, and the next one starts, while it is full."""
    if is_new:
        fill(node.state.parent)
    with agent(*node.flags()) as running:
        node.start("7", "0")
        kept = 0.0
        if not is_new:
            until(lambda: writes(running, "written") and seconds(running) > 1)
            kept = in_file(node)
            fill(node.state.parent)
        failed = writes(running, "failed")
        until(lambda: writes(running, "failed") > failed + 2)
        assert running.logged("disk is full")
        running.kill()
    with agent(*node.flags()) as running:
        until(lambda: writes(running, "failed") > 1)
        assert seconds(running) >= kept
        assert running.get("/healthz")[0] == 200
        (node.state.parent / "filler").unlink()
        written, before = writes(running, "written"), seconds(running)
        until(lambda: writes(running, "written") > written)
        assert running.stop() == 0
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > before)
        assert running.value("ofu_exporter_state_files_set_aside_total") == 0.0
        assert running.stop() == 0
