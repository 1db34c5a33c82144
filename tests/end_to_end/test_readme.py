"""The first ten minutes by the README alone: the demo, and its wrong MFU explained as the README shows it."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.agent import Agent, agent, until
from tests.helpers.early import Early
from tests.helpers.in_process import call

README = Path(__file__).parents[2] / "README.md"
PATIENCE = 300.0
"""Seconds; the README speaks of two minutes."""


def shown(command: str) -> list[str]:
    """The lines that the README shows below a command."""
    _, _, after = README.read_text().partition(f"    $ .venv/bin/{command}\n")
    block = after.partition("\n\n")[0]
    return [line.removeprefix("    ") for line in block.splitlines()]


def shape(line: str) -> str:
    """A line with its numbers and its node left open."""
    host = socket.gethostname()
    return re.sub(r"\d+(\.\d+)?", "N", line.replace(host, "NODE").replace("node1", "NODE"))


@contextlib.contextmanager
def demo(folder: Path) -> Iterator[Agent]:
    with agent("demo") as running:
        yield running


@pytest.mark.early(begin=demo)
def test_the_demo_explains_a_wrong_mfu_as_the_readme_shows(early: Early) -> None:
    text = README.read_text()
    assert "\n    ./demo " in text
    command = "ofu-exporter job show 103"
    expected = [shape(line) for line in shown(command) if line != "..."]
    assert len(expected) >= 4
    with early.of(demo) as running:
        address = {"OFU_AGENT": running.url}

        def told() -> list[str]:
            lines = call(*shlex.split(command)[1:], env=address).stdout.splitlines()
            return [line for line in map(shape, lines) if line in expected]

        until(lambda: '"cause"' in running.get("/v1/jobs/103")[1], PATIENCE)
        until(lambda: told() == expected, PATIENCE)
