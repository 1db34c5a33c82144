"""Reads the summary of DeepSpeed's flops profiler: forward FLOPs and latencies of one rank.

DeepSpeed `profiling/flops_profiler/profiler.py: print_model_profile`. The profiler counts what this rank's modules run,
so under pipeline or tensor parallelism that is a share of the model. It counts causal attention in full, but none in
kernels that are no function of torch, such as flash-attn's, and takes the backward pass as twice the forward without
counting it. Its `FLOPS` lines are rates, its `flops` lines amounts.

With gradient accumulation each micro-batch has a summary: its own FLOPs, and the latencies since the first one. The
last one names the next step. Where the engine's `step` is called once for all of them (accelerate), the last one is
alone, and has the FLOPs of one micro-batch in the time of all.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_AMOUNTS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_STEP = re.compile(r"Profile Summary at step (\d+)")
_TIMERS_RESET = re.compile(r"\btime \(ms\) \| (?:fwd|forward): ")
"""In the line after an iteration, whose latencies the next summary no longer has."""
_LONGEST = 200
"""Most lines of a summary, including lines that other ranks print in between."""
_NOTES = (
    "the backward pass is assumed to be twice the forward",
    "attention is counted in full, whether causal or not, and not at all in kernels other than torch's",
)


def read(text: str, job: JobFacts) -> list[Statement]:
    """One statement per summary: 3 forwards' FLOPs over one micro-batch, or over its forward and backward."""
    starts = [match.start() for match in re.finditer(r"Profile Summary", text)]
    if not starts:
        raise ConfigError("no DeepSpeed `Profile Summary` in it")
    ends = [*starts[1:], len(text)]
    iteration = _Iteration(job)
    return [iteration.take(text[start:end]) for start, end in zip(starts, ends, strict=True)]


class _Iteration:
    """Takes the latencies of earlier micro-batches of an iteration from a summary."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._before: Statement | None = None
        """The summary before, where its micro-batch was not the last one."""

    def take(self, text: str) -> Statement:
        """The statement of a summary, and of what follows it."""
        whole, before = _summary(text, self._job), self._before
        self._before = whole
        self.note(text)
        if before is None or None in (whole.step, before.step):
            return whole
        further = (whole.step or 0) - (before.step or 0)
        seconds = (whole.seconds or 0.0) - (before.seconds or 0.0)
        if further not in (0, 1) or seconds <= 0:
            return whole
        self._before = None if further else self._before
        return with_rate(replace(whole, seconds=seconds), (whole.flops or 0.0) / seconds, self._job)

    def note(self, text: str) -> None:
        """Forget the summary before where an iteration ends."""
        if _TIMERS_RESET.search(text):
            self._before = None


class Follower:
    """Gathers the lines of a summary until the dashes that end it."""

    def __init__(self, job: JobFacts) -> None:
        self._iteration = _Iteration(job)
        self._lines: list[str] = []

    def line(self, line: str) -> Statement | None:
        """The statement of a summary about its one micro-batch, once its last line is read."""
        self._iteration.note(line)
        if "Profile Summary" in line:
            self._lines = [line]
            return None
        if not self._lines:
            return None
        self._lines.append(line)
        if "-----" not in line:
            if len(self._lines) > _LONGEST:
                self._lines = []
                raise ConfigError(f"DeepSpeed summary: no end within {_LONGEST} lines")
            return None
        text, self._lines = "\n".join(self._lines), []
        return self._iteration.take(text)


def _summary(text: str, job: JobFacts) -> Statement:
    step = _STEP.search(text)
    forward = _forward_flops(text)
    seconds = _time(text, "iter latency")
    if seconds is None:
        forward_seconds, backward_seconds = _time(text, "fwd latency"), _time(text, "bwd latency")
        if forward_seconds is None or backward_seconds is None:
            raise ConfigError(
                "DeepSpeed summary: `iter latency`, or `fwd` and `bwd latency`, are missing"
            )
        seconds = forward_seconds + backward_seconds
    number_of_step = int(number(step[1], "step")) if step else None
    one = Statement(number_of_step, flops=3 * forward, seconds=seconds, notes=_NOTES)
    return with_rate(one, 3 * forward / seconds, job)


def _value(text: str, label: str, unit: str) -> re.Match[str] | None:
    """The number behind a label, and its unit.

    What stands before the label is a prefix, of `srun -l` or of a host, if it ends in a colon or a bracket. Before 2023
    the label of the forward pass was `fwd flops per GPU = 2 * fwd MACs per GPU`.
    """
    prefix, rest = r"^(?:.*[:\]>)|](?=\s))?\s*", r"(?: = 2 \* fwd MACs per GPU)?:\s*"
    return re.search(rf"{prefix}{label}{rest}([\d.]+)\s*{unit}", text, re.MULTILINE)


def _forward_flops(text: str) -> float:
    label = "fwd flops per GPU"
    match = _value(text, label, "([KMGTP]?)")
    if match is None:
        raise ConfigError(f"DeepSpeed summary: `{label}` is missing")
    return number(match[1], label) * _AMOUNTS[match[2]]


def _time(text: str, label: str) -> float | None:
    match = _value(text, label, r"(us|ms|s)\b")
    if match is None:
        return None
    seconds = number(match[1], label) * _TIMES[match[2]]
    if not seconds:
        raise ConfigError(f"DeepSpeed summary: `{label}` is 0")
    return seconds
