"""What is measured of an agent is what happened to that agent."""

from __future__ import annotations

import asyncio
import math
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attacks import measure
from tests.attacks.attack import Attack, plain
from tests.attacks.clients import asked
from tests.attacks.target import SIMULATED, Setup, Target

pytestmark = pytest.mark.slow


async def stop_for_seconds(target: Target) -> None:
    """The agent stands still again and again, as an attack that is let in would make it."""
    while target.process.returncode is None:
        await asyncio.sleep(0.5)
        target.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(1.0)
        finally:
            target.process.send_signal(signal.SIGCONT)


def measured(attack: Attack, folder: Path) -> measure.Seen:
    return measure.measured(attack, 3.0, folder)


def test_a_standstill_is_seen_in_scrapes(tmp_path: Path) -> None:
    seen = measured(Attack("still", "", "", stop_for_seconds), tmp_path)
    assert seen.p99_seconds > 0.5
    assert seen.failed_scrapes == 0
    assert math.isfinite(seen.stop_seconds)


def test_a_gpu_that_is_not_there_is_not_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seven(folder: Path, stack: ExitStack) -> Setup:
        return Setup([*SIMULATED, "--simulated-gpus", "7"])

    monkeypatch.setattr(measure, "READY_SECONDS", 2.0)  # nobody waits for the eighth
    assert measured(Attack("seven", "", "", setup=seven), tmp_path).coverage == 0.0


def test_an_agent_that_does_not_start_answers_nothing(tmp_path: Path) -> None:
    def wrong(folder: Path, stack: ExitStack) -> Setup:
        return Setup(["--source", "nothing of the kind"])

    seen = measured(Attack("wrong", "", "", setup=wrong), tmp_path)
    assert (seen.scrapes, seen.failed_scrapes, seen.coverage) == (1, 1, 0.0)


def test_an_attack_that_breaks_is_no_attack_that_was_stood(tmp_path: Path) -> None:
    async def breaks(target: Target) -> None:
        raise ValueError("a mistake of its own")

    with pytest.raises(ValueError, match="a mistake of its own"):
        measured(Attack("broken", "", "", breaks, plain), tmp_path)


def test_answers_that_the_agent_counted_are_no_server_errors_below_500(tmp_path: Path) -> None:
    async def ask(target: Target) -> None:
        while True:
            await asked(target, b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await asyncio.sleep(0.1)

    seen = measured(Attack("asked", "", "", ask), tmp_path)
    assert seen.server_errors == 0
    assert not seen.let_in
