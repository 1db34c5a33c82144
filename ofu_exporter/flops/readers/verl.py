"""Reads verl's and VeRL-Omni's metrics per step: `perf/mfu/actor`, `perf/mfu/actor_infer` and the like.

verl's console logger writes `step:12 - perf/mfu/actor:0.41 - ...`, others write JSON with the same keys. MFU is a
ratio; that of forward-only calls is divided by 3 already. verl counts the input embedding as if it were multiplied
(convention `megatron` and 6 V h per token more). VeRL-Omni divides by the data-parallel size and not by the world: with
tensor or sequence parallelism its MFU is world/data-parallel times too high. The statement has the right MFU where the
job's facts have both sizes.
"""

from __future__ import annotations

import json
import re

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.readers import JobFacts, Statement, number, some

_KEY = "perf/mfu/"
_VALUE = r"\s*(?:np\.\w+\()?([^\s,)]+)"
"""NumPy 2 prints its scalars as `np.float64(0.41)`."""
_PAIR = re.compile(rf"perf/mfu/(\w+):{_VALUE}")
_STEP = re.compile(r"\bstep:\s*(\d+)")
_SECONDS = re.compile(rf"\bperf/time_per_step:{_VALUE}")
_TIMES = re.compile(rf"\b(timing_s/\w+|perf/delta_time/\w+):{_VALUE}")
_PHASES = {
    "actor": "timing_s/update_actor",
    "critic": "timing_s/update_critic",
    "actor_infer": "timing_s/old_log_prob",
    "ref": "timing_s/ref",
}
"""The part of a step that an MFU covers: the workers divide by that part's time, not by the step's."""


def read(text: str, job: JobFacts) -> list[Statement]:
    """One statement per MFU in the text.

    Raises ConfigError when there is none, one is no number, or the job's data-parallel size doesn't divide its
    world size.
    """
    statements = [each for line in text.splitlines() for each in _line(line, job)]
    return some(statements, "verl metric `perf/mfu/...`")


class Follower:
    """Reads line by line: a line is a whole step, and needs no earlier one."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job

    def line(self, line: str) -> Statement | None:
        """MFU over the whole step: each part's MFU x its seconds, over the step's seconds.

        Generation has no MFU in verl and adds nothing. Raises ConfigError when a value is no number, or no
        part's time is in the line.
        """
        parts = _line(line, self._job)
        return _whole_step(parts, _times(line)) if parts else None


def _whole_step(parts: list[Statement], times: dict[str, float]) -> Statement:
    step, seconds = parts[0].step, parts[0].seconds or times.get("timing_s/step")
    if not seconds:
        raise ConfigError("verl step: `perf/time_per_step` is missing or 0")
    weighted: dict[str, float] = {}
    for part in parts:
        own = times.get(f"perf/delta_time/{part.name}", times.get(_PHASES.get(part.name, "")))
        if own is not None and part.mfu is not None:
            weighted[part.name] = part.mfu * own
    if not weighted:
        names = ", ".join(f"`{_PHASES.get(part.name, 'a time')}`" for part in parts)
        raise ConfigError(f"verl step: {names} is missing, the time that the MFU covers")
    if not any(weighted.values()):
        raise ConfigError(
            "verl step: MFU is 0, which verl prints if it does not know the GPU or the model"
        )
    left = sorted({part.name for part in parts} - {*weighted})
    notes = [*parts[0].notes, *(f"{name} has no time and is left out" for name in left)]
    return Statement(
        step=step, seconds=seconds, mfu=sum(weighted.values()) / seconds, notes=tuple(notes)
    )


def _times(line: str) -> dict[str, float]:
    """The seconds of each part of a step, by the metric's name."""
    if line.lstrip().startswith("{"):
        logged = json.loads(line)  # `_json` has read it before
        pairs = [(key, str(value)) for key, value in logged.get("data", logged).items()]
    else:
        pairs = _TIMES.findall(line)
    return {
        key: number(value, key)
        for key, value in pairs
        if key.startswith(("timing_s/", "perf/delta_time/")) and value != "None"
    }


def _line(line: str, job: JobFacts) -> list[Statement]:
    if _KEY not in line:
        return []
    step, seconds, values = _json(line) if line.lstrip().startswith("{") else _console(line)
    return [_statement(step, seconds, name, value, job) for name, value in values]


def _console(line: str) -> tuple[int | None, float | None, list[tuple[str, float]]]:
    step, seconds = _STEP.search(line), _SECONDS.search(line)
    values = [(name, number(value, f"{_KEY}{name}")) for name, value in _PAIR.findall(line)]
    return (
        int(number(step[1], "step")) if step else None,
        number(seconds[1], "perf/time_per_step") if seconds else None,
        values,
    )


def _json(line: str) -> tuple[int | None, float | None, list[tuple[str, float]]]:
    try:
        logged = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"verl metrics: not JSON: {error}") from error
    data = logged.get("data", logged)
    if not isinstance(data, dict):
        raise ConfigError(f"verl metrics: {data!r} is not an object")
    step = logged.get("step", data.get("training/global_step"))
    seconds = data.get("perf/time_per_step")
    values = [
        (key.removeprefix(_KEY), number(str(value), key))
        for key, value in data.items()
        if key.startswith(_KEY)
    ]
    return (
        None if step is None else int(number(str(step), "step")),
        None if seconds is None else number(str(seconds), "perf/time_per_step"),
        values,
    )


def _statement(
    step: int | None, seconds: float | None, name: str, value: float, job: JobFacts
) -> Statement:
    world, parallel = job.world_size, job.data_parallel_size
    notes = []
    if world is not None and parallel is not None and world != parallel:
        if world % parallel:
            raise ConfigError(f"data_parallel_size: {parallel} does not divide world_size {world}")
        notes.append(
            f"divided by {world}, the world, instead of {parallel}, the data-parallel size"
        )
        value = value * parallel / world
    rate = None if job.peak_flops is None else value * job.peak_flops
    return Statement(
        step=step,
        name=name,
        seconds=seconds,
        flops_per_second=rate,
        mfu=value,
        notes=tuple(notes),
    )
