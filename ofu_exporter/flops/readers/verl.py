"""verl's and VeRL-Omni's metrics per step: `perf/mfu/actor`, `perf/mfu/actor_infer` and the like.

verl's console logger writes `step:12 - perf/mfu/actor:0.41 - ...`, others write JSON with the same keys; MFU is a
ratio, forward-only calls are divided by 3 already. verl counts the input embedding as if it were multiplied (convention
`megatron` and 6 V h per token more). VeRL-Omni divides by the data-parallel size and not by the world: with
tensor or sequence parallelism its MFU is world/data-parallel times too high, so with both in the job the right
MFU is reported.
"""

from __future__ import annotations

import json
import re

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.reports import Job, Reported, found, number

_KEY = "perf/mfu/"
_PAIR = re.compile(r"perf/mfu/(\w+):\s*([^\s,]+)")
_STEP = re.compile(r"\bstep:\s*(\d+)")
_SECONDS = re.compile(r"\bperf/time_per_step:\s*([^\s,]+)")


def read(text: str, job: Job) -> list[Reported]:
    """One report per MFU in the text.

    Raises ConfigError when there is none, one is no number, or the job's data-parallel size doesn't divide its
    world size.
    """
    reports = [report for line in text.splitlines() for report in _line(line, job)]
    return found(reports, "verl metric `perf/mfu/...`")


def _line(line: str, job: Job) -> list[Reported]:
    if _KEY not in line:
        return []
    step, seconds, values = _json(line) if line.lstrip().startswith("{") else _console(line)
    return [_report(step, seconds, name, value, job) for name, value in values]


def _console(line: str) -> tuple[int | None, float | None, list[tuple[str, float]]]:
    step, seconds = _STEP.search(line), _SECONDS.search(line)
    values = [(name, number(value, f"{_KEY}{name}")) for name, value in _PAIR.findall(line)]
    return (
        int(step[1]) if step else None,
        number(seconds[1], "perf/time_per_step") if seconds else None,
        values,
    )


def _json(line: str) -> tuple[int | None, float | None, list[tuple[str, float]]]:
    try:
        logged = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"verl metrics: not JSON: {error}") from error
    data = logged.get("data", logged)
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


def _report(step: int | None, seconds: float | None, name: str, value: float, job: Job) -> Reported:
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
    return Reported(
        step=step,
        name=name,
        seconds=seconds,
        flops_per_second=rate,
        mfu=value,
        notes=tuple(notes),
    )
