"""Reads OneLogger-style JSON: `train_tflop` over `train_iterations_time_total` and `world_size`.

Megatron-LM `one_logger_utils.py`: total TFLOPs since the start of the loop, seconds in training iterations, GPUs.
arXiv:2605.20799, section V-B, takes its MFU from these (eq. 10). Time for validation, checkpoints and start-up isn't in
`train_iterations_time_total`, so MFU is above the value of a hardware counter over the whole job.

`train_iterations_start` is the step from which a run goes on, `save_checkpoint_sync_time_total` the seconds in which it
saved, and `train_iterations_productive_end` the step that was saved. The other productive totals follow from these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, number, some, with_rate

_NAMES = ("train_tflop", "train_throughput_per_gpu", "world_size", "train_iterations_time_total")
_START, _SAVED = "train_iterations_start", "train_iterations_productive_end"
_SAVING = ("save_checkpoint_sync_time_total", "save_checkpoint_sync_time_total_productive")
_NOTE = "time of training iterations only; checkpoints, validation and start-up are left out"


def read(text: str, job: JobFacts) -> list[Statement]:
    """One statement per object with `train_tflop` or `train_throughput_per_gpu`; later objects add to earlier ones.

    `world_size` is logged once at the start; the job's own is preferred.
    """
    return some(
        [*_statements(text, {}, job)],
        "OneLogger metric `train_tflop` or `train_throughput_per_gpu`",
    )


class Follower:
    """Makes the difference between two objects, whose values are totals since the start of the loop."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._known: dict[str, object] = {}
        self._total: Statement | None = None
        self._saving = 0.0

    def line(self, line: str) -> Statement | None:
        """FLOPs and seconds since the last object. The first object, and one after a restart, only mark a beginning."""
        names = (*_NAMES, _START, _SAVED, *_SAVING)
        if not line.lstrip().startswith("{") or not any(name in line for name in names):
            return None
        total = next(_statements(line, self._known, self._job), None)
        return self._since(total) if total else self._event(next(_records(line), {}))

    def _event(self, record: Mapping[str, object]) -> Statement | None:
        """The step from which a run goes on, or a checkpoint since the last one."""
        if _START in record:
            self._saving, self._total = 0.0, None
            return Statement(_step(record, _START))
        seconds = max((_value(record, name) or 0.0 for name in _SAVING), default=0.0)
        before, self._saving = self._saving, max(seconds, self._saving)
        if seconds <= before:
            return None
        return Statement(_step(self._known, _SAVED), seconds=seconds - before, event="checkpoint")

    def _since(self, total: Statement) -> Statement:
        if total.flops is None or total.seconds is None:
            return replace(total, seconds=None)
        before, self._total = self._total, total
        beginning = Statement(step=total.step, notes=total.notes)
        if before is None or before.flops is None or before.seconds is None:
            return beginning
        flops, seconds = total.flops - before.flops, total.seconds - before.seconds
        if flops < 0 or seconds <= 0:
            return beginning
        return with_rate(replace(total, flops=flops, seconds=seconds), flops / seconds, self._job)


def _records(text: str) -> Iterator[Mapping[str, object]]:
    """The objects of a JSON object, of a list of them, or of JSON lines; `metrics` inside an object is unpacked."""
    try:
        whole = json.loads(text)
        values = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        values = [_parsed(line) for line in text.splitlines() if line.strip()]
    for value in values:
        if not isinstance(value, Mapping):
            raise ConfigError(f"OneLogger JSON: {value!r} is not an object")
        inner = value.get("metrics")
        yield inner if isinstance(inner, Mapping) else value


def _statements(text: str, fields: dict[str, object], job: JobFacts) -> Iterator[Statement]:
    """The statements of a text, whose objects add to the fields."""
    for record in _records(text):
        fields.update(record)
        if "train_tflop" in record or "train_throughput_per_gpu" in record:
            yield _statement(fields, job)


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"OneLogger JSON: {line[:80]!r}: {error}") from error


def _statement(fields: Mapping[str, object], job: JobFacts) -> Statement:
    world = job.world_size if job.world_size is not None else _value(fields, "world_size")
    seconds, tflop = _value(fields, "train_iterations_time_total"), _value(fields, "train_tflop")
    if tflop is None:
        rate = (_value(fields, "train_throughput_per_gpu") or 0.0) * 1e12
        flops = None
    elif not seconds or not world:
        raise ConfigError(
            "OneLogger JSON: train_tflop needs train_iterations_time_total and world_size above 0"
        )
    else:
        flops = tflop * 1e12 / world
        rate = flops / seconds
    one = Statement(
        _step(fields, "train_iterations_end"), flops=flops, seconds=seconds, notes=(_NOTE,)
    )
    return with_rate(one, rate, job)


def _step(fields: Mapping[str, object], name: str) -> int | None:
    value = _value(fields, name)
    return None if value is None else int(value)


def _value(fields: Mapping[str, object], name: str) -> float | None:
    value = fields.get(name)
    return None if value is None else number(str(value), name)
