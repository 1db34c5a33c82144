"""Attacks by the node itself: a log that nobody reads, no descriptors, kill -9."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

from tests.attacks.attack import Attack
from tests.attacks.clients import closed, crowd
from tests.attacks.files import with_config
from tests.attacks.target import PIPE_BYTES, SIMULATED, Setup, Target, target

DESCRIPTORS = 128
KILLS = 10
ALIVE_SECONDS = 1.0


def with_few_descriptors(folder: Path, stack: ExitStack) -> Setup:
    return Setup(descriptors=DESCRIPTORS)


async def take_descriptors(target: Target) -> None:
    await crowd(target, 400, closed, 0.5)


def without_log_reader(folder: Path, stack: ExitStack) -> Setup:
    setup = with_config(folder, stack)
    setup.is_log_read = False
    return setup


async def make_lines(target: Target) -> None:
    """A setting that is not known at every reload: its name nearly fills the pipe, and the next one waits for room."""
    (target.folder / "agent.yaml").write_text(f"{'x' * PIPE_BYTES}: 1\n")
    while True:
        target.hang_up()
        await asyncio.sleep(0.02)


def killed_often(folder: Path, stack: ExitStack) -> Setup:
    """An agent on the state file of ten that were killed while they wrote."""
    args = [*SIMULATED, "--state-file", str(folder / "state.sqlite"), "--state-interval", "0.05s"]
    for number in range(KILLS):
        life = folder / str(number)
        life.mkdir()
        with target(Setup(args), life):
            time.sleep(ALIVE_SECONDS * number / KILLS)  # then killed
    return Setup(args)


ATTACKS = (
    Attack("nothing", f"{8} simulated GPUs, to compare with", "-"),
    Attack(
        "no descriptors",
        f"400 connections to an agent that may open {DESCRIPTORS} files",
        "connections by the descriptors there are",
        take_descriptors,
        with_few_descriptors,
    ),
    Attack(
        "blocked log",
        "nobody reads standard error, and 50 reloads a second fail",
        "a queue of lines that drops and counts",
        make_lines,
        without_log_reader,
    ),
    Attack(
        "kills",
        f"an agent on the state file of {KILLS} that had `kill -9`",
        "writes are whole or not made",
        setup=killed_often,
    ),
)
