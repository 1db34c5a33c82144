"""Reads verl's and VeRL-Omni's metrics per step: `perf/mfu/actor`, `perf/mfu/actor_infer` and the like.

verl's console logger writes `step:12 - perf/mfu/actor:0.41 - ...`, others write JSON with the same keys. MFU is a
ratio; that of forward-only calls is divided by 3 already. verl counts the input embedding as if it were multiplied
(convention `megatron` and 6 V h per token more). VeRL-Omni divides by the data-parallel size and not by the world: with
tensor or sequence parallelism its MFU is world/data-parallel times too high. The statement has the right MFU where the
job's facts have both sizes. Supervised fine-tuning writes `train/mfu` and no time, so it is taken for the seconds since
the line before; validation and a checkpoint end with lines of their own (`trainer/sft_trainer.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, number, some

_KEY = "perf/mfu/"
_TUNING = "train/mfu"
_PAUSE_ENDS = re.compile(r'\bstep:\d+ - val/loss:|"val/loss": |\bUpdated checkpoint tracker: ')
NULL = str(None)
"""A value of JSON that is null."""
_VALUE = r"\s*(?:np\.\w+\()?([^\s,)]+)"
"""NumPy 2 prints its scalars as `np.float64(0.41)`."""
_PAIR = re.compile(
    rf"\b(perf/mfu/\w+|train/mfu|perf/time_per_step|timing_s/\w+|perf/delta_time/\w+):{_VALUE}"
)
_STEP = re.compile(r"\bstep:\s*(\d+)")
_UNKNOWN = "verl step: MFU is 0, which verl prints if it does not know the GPU or the model"
_PHASES = {
    "actor": "timing_s/update_actor",
    "critic": "timing_s/update_critic",
    "actor_infer": "timing_s/old_log_prob",
    "ref": "timing_s/ref",
}
"""The part of a step that an MFU covers: the workers divide by that part's time, not by the step's."""


def read(text: str, job: JobFacts) -> list[Statement]:
    statements = [each for line in text.splitlines() for each in _line(line, job)]
    return some(statements, "verl metric `perf/mfu/...`")


class Follower:
    """Reads line by line: a line is a whole step, and needs no earlier one."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job

    def line(self, line: str) -> Statement | None:
        """MFU over the whole step: each part's MFU x its seconds, over the step's seconds; without one the step alone.

        Generation has no MFU in verl and adds nothing. Raises ConfigError when a value is no number, or no
        part's time is in the line.
        """
        if _PAUSE_ENDS.search(line):
            return Statement()
        parts = _line(line, self._job)
        if parts and parts[0].name == _TUNING:
            return _known(parts[0])
        if parts:
            return _whole_step(parts, _times(_logged(line).values))
        step = _STEP.search(line) if "perf/time_per_step:" in line else None
        if step is None:
            return None
        seconds = _logged(line).values.get("perf/time_per_step", NULL)
        taken = None if seconds == NULL else number(seconds, "perf/time_per_step")
        return Statement(int(number(step[1], "step")), seconds=taken)


def _known(part: Statement) -> Statement:
    if not part.mfu:
        raise ConfigError(_UNKNOWN)
    return part


def _whole_step(parts: list[Statement], times: dict[str, float]) -> Statement:
    step, seconds = parts[0].step, parts[0].seconds or times.get("timing_s/step")
    if not seconds:
        raise ConfigError("verl step: `perf/time_per_step` is missing or 0")
    weighted: dict[str, float] = {}
    for part in parts:
        seconds_of_part = times.get(
            f"perf/delta_time/{part.name}", times.get(_PHASES.get(part.name, ""))
        )
        if seconds_of_part is not None and part.mfu is not None:
            weighted[part.name] = part.mfu * seconds_of_part
    if not weighted:
        names = ", ".join(f"`{_PHASES.get(part.name, 'a time')}`" for part in parts)
        raise ConfigError(f"verl step: {names} is missing, the time that the MFU covers")
    if not any(weighted.values()):
        raise ConfigError(_UNKNOWN)
    left = sorted({part.name for part in parts} - {*weighted})
    notes = [*parts[0].notes, *(f"{name} has no time and is left out" for name in left)]
    return Statement(
        step=step, seconds=seconds, mfu=sum(weighted.values()) / seconds, notes=tuple(notes)
    )


def _times(values: Mapping[str, str]) -> dict[str, float]:
    """The seconds of each part of a step, by the metric's name."""
    return {
        key: number(value, key)
        for key, value in values.items()
        if key.startswith(("timing_s/", "perf/delta_time/")) and value != NULL
    }


def _line(line: str, job: JobFacts) -> list[Statement]:
    if _KEY not in line and _TUNING not in line:
        return []
    step, values = _logged(line)
    seconds = values.get("perf/time_per_step", NULL)
    of_line = Statement(
        step=None if step is None else int(number(step, "step")),
        seconds=None if seconds == NULL else number(seconds, "perf/time_per_step"),
    )
    return [
        _with_mfu(replace(of_line, name=key.removeprefix(_KEY)), number(value, key), job)
        for key, value in values.items()
        if key.startswith((_KEY, _TUNING))
    ]


class _Logged(NamedTuple):
    """The step of a line, and the values of its metrics as text."""

    step: str | None
    values: dict[str, str]


def _logged(line: str) -> _Logged:
    if not line.lstrip().startswith("{"):
        step = _STEP.search(line)
        return _Logged(step[1] if step else None, dict(_PAIR.findall(line)))
    try:
        logged = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"verl metrics: not JSON: {error}") from error
    data = logged.get("data", logged)
    if not isinstance(data, dict):
        raise ConfigError(f"verl metrics: {data!r} is not an object")
    number_of_step = logged.get("step", data.get("training/global_step"))
    values = {key: str(value) for key, value in data.items()}
    return _Logged(None if number_of_step is None else str(number_of_step), values)


def _with_mfu(of: Statement, value: float, job: JobFacts) -> Statement:
    """The statement with the right MFU, as far as the job's sizes are known."""
    world, parallel = job.world_size, job.data_parallel_size
    notes: tuple[str, ...] = ()
    if world is not None and parallel is not None and world != parallel:
        if world % parallel:
            raise ConfigError(f"data_parallel_size: {parallel} does not divide world_size {world}")
        notes = (f"divided by {world}, the world, instead of {parallel}, the data-parallel size",)
        value = value * parallel / world
    rate = None if job.peak_flops is None else value * job.peak_flops
    return replace(of, flops_per_second=rate, mfu=value, notes=notes)
