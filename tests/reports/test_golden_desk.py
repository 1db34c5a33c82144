"""Jobs that compute, stop, change and report in many ways: each answer, and what is shown in the end, golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from ofu_exporter.errors import ReportError
from ofu_exporter.values.job import Job
from tests.helpers.desk import OFU, WITHOUT_NOISE, Desk
from tests.helpers.node import EPOCH

pytestmark = pytest.mark.slow

STEPS = 14
NOISE = 1e-9
"""What is below it is of rounding."""


class Dice:
    """Numbers by chance, the same in every version of Python."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 7919 + 1

    def below(self, most: int) -> int:
        self._state = (self._state * 1103515245 + 12345) % 2**31
        return (self._state >> 8) % most

    def one(self, *of: Any) -> Any:
        return of[self.below(len(of))]


def fields_of(value: object) -> dict[str, Any] | None:
    """A value's fields, if it has any."""
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    return dict(value.model_dump()) if hasattr(value, "model_dump") else None


def number(value: float) -> float | str:
    if EPOCH / 2 < value < 2 * EPOCH:
        return f"EPOCH{value - EPOCH:+.7g}"
    return float(f"{value:.7g}") if abs(value) > NOISE else 0.0


def plain(value: object) -> Any:
    """What is shown, without what is not known; of a long list its length and its end."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if (named := fields_of(value)) is not None:
        kept = {key: plain(each) for key, each in named.items() if key not in ("gpu", "rating")}
        return {key: each for key, each in kept.items() if each not in (None, 0, "", {}, [])}
    if isinstance(value, (list, tuple, frozenset)):
        listed = sorted(map(plain, value)) if isinstance(value, frozenset) else [*map(plain, value)]
        return listed if len(listed) < 12 else [len(listed), *listed[-2:]]
    return value if value is None or isinstance(value, (bool, int, str)) else type(value).__name__


def rate(dice: Dice) -> dict[str, Any]:
    """How fast the job says that it is."""
    factor = dice.one(1.0, 1.0, 1.02, 0.9, 1.6, 2.5)
    return dice.one(  # type: ignore[no-any-return]
        {"mfu": OFU * factor},
        {"mfu": OFU * factor},
        {"mfu": OFU * factor, "precision": dice.one("bf16", "fp8", {"bf16": 0.5, "fp8": 0.5})},
        {"tflops_per_gpu": 989.4 * OFU * factor},
        {"tflops_per_gpu": 989.4 * OFU * factor, "peak_tflops": dice.one(989.4, 1979.0, 312.0)},
        {"tokens_per_second": 1e4 * factor, "flops_per_token": 7.5e10, "gpus": dice.one(2, 8)},
        {"model_flops_per_second": 2 * 989.4e12 * OFU * factor},
        {},
    )


def when(dice: Dice, now: float) -> dict[str, Any]:
    """Which seconds it speaks of."""
    return dice.one(  # type: ignore[no-any-return]
        {},
        {},
        {"start": now - 30.0},
        {"start": now - 30.0, "end": now - 5.0},
        {"start": now - 400.0, "end": now - 340.0},
        {"end": now + 0.5},
        {"end": now + 100.0},
        {"start": now, "end": now - 1.0},
    )


def what(dice: Dice, desk: Desk, step: int) -> dict[str, Any]:
    now = EPOCH + desk.clock.now
    told = dice.one({}, {"step": step * 10}, {"step": step * 10, "run": dice.one("a", "b")})
    if dice.below(6) == 0:
        kind = dice.one("evaluation", "checkpoint", "restart")
        return {**told, "event": kind, "start": now - 20.0, "end": now - 3.0}
    more = dice.one({}, {"accumulation": 4}, {"recompute": "full"}, {"framework": "nemo"})
    overhead = dice.one({}, {}, {"tile_overhead": 0.02, "tile_overhead_bound": "lower"})
    return {**rate(dice), **when(dice, now), **told, **more, **overhead}


def turn(dice: Dice, desk: Desk, number: int) -> str:
    kind = dice.below(10)
    if kind < 4:
        seconds, tensor = dice.one(5.0, 12.0, 60.0, 130.0, 640.0), dice.one(0.5, 0.5, 0.25, 0.0)
        window, hz = dice.one(5.0, 5.0, 30.0), dice.one(1400e6, 1400e6, 1830e6, 900e6)
        desk.run(seconds, tensor, window, (hz,) * 10)
        return f"{seconds:g} s at {tensor} and {hz / 1e6:g} MHz, windows of {window:g} s"
    if kind == 4:
        job, gpus = (
            dice.one(Job("slurm", "1"), Job("slurm", "1", uid="2"), Job("slurm", "2")),
            dice.one(("0",), ("0", "1")),
        )
        desk.give(job, *gpus)
        return f"job {job.job_id} {job.uid} holds {gpus}"
    told = what(dice, desk, number)
    try:
        answer = str(plain(desk.report(dice.one("1", "1", "1", "2"), **told)))
    except ReportError as error:
        answer = f"{error.reason.value} {error.field}: {error}"
    except ValueError:
        answer = "no report"
    return f"report {plain(told)}: {answer}"


def story(seed: int) -> Iterator[str]:
    dice = Dice(seed)
    desk = Desk(policy=WITHOUT_NOISE if seed % 3 == 0 else None)
    desk.give(Job("slurm", "1", user="ada"), *dice.one(("0", "1"), ("0",)))
    desk.run(70.0)
    for number in range(STEPS):
        yield turn(dice, desk, number)
    desk.run(65.0)
    for view in desk.shown.jobs:
        yield f"in the end: {plain(view)}"
    for gpu in desk.shown.gpus:
        yield f"  {plain(gpu)}"
    yield f"refused: {dict(sorted(desk.book.rejected.items()))}"


@pytest.mark.parametrize("seed", range(20))
def test_a_story_is_told_as_it_was(seed: int, golden: Callable[[str, str], None]) -> None:
    golden(f"desk/{seed:02}.txt", "\n".join(story(seed)) + "\n")
