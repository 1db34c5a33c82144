"""Reads Megatron-LM's log: `throughput per GPU (TFLOP/s/GPU)` and `elapsed time per iteration (ms)` of iterations.

Megatron-LM `training.py: training_log` with --log-throughput. The throughput is model FLOPs without recomputation
over all GPUs, so it's the numerator of MFU. Forks write `compute per GPU (TFLOP/s/GPU): now (avg ...)`; the first
number is taken. The convention `megatron` says what Megatron-LM leaves out or counts otherwise.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ofu_exporter.flops.readers import JobFacts, Statement, number, rated, some

_ITERATION = re.compile(r"\biteration\s+(\d+)\s*/")
_THROUGHPUT = re.compile(r"(?:throughput|compute) per GPU \(TFLOP/s/GPU\):\s*([^\s|]+)")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*([^\s|]+)")


def read(text: str, job: JobFacts) -> list[Statement]:
    """One statement per iteration that logs a throughput. MFU needs the job's peak."""
    return some(
        [each for line in text.splitlines() if (each := _line(line, job)) is not None],
        "Megatron-LM line with `throughput per GPU (TFLOP/s/GPU)` (--log-throughput)",
    )


class Follower:
    """Remembers the last logged iteration, because a line covers all iterations since then (--log-interval)."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._step: int | None = None

    def line(self, line: str) -> Statement | None:
        """The statement of a line: elapsed time per iteration x iterations since the line before.

        The first line, and one after a restart from an earlier iteration, counts for one iteration.
        """
        one = _line(line, self._job)
        if one is None or one.step is None:
            return one
        before, self._step = self._step, one.step
        count = one.step - before if before is not None and before < one.step else 1
        if one.seconds is None or one.flops is None:
            return one
        return replace(one, seconds=one.seconds * count, flops=one.flops * count)


def _line(line: str, job: JobFacts) -> Statement | None:
    iteration, throughput = _ITERATION.search(line), _THROUGHPUT.search(line)
    if iteration is None or throughput is None:
        return None
    rate = number(throughput[1], "throughput per GPU") * 1e12
    elapsed = _ELAPSED.search(line)
    seconds = number(elapsed[1], "elapsed time per iteration") / 1e3 if elapsed else None
    flops = None if seconds is None else rate * seconds
    step = int(number(iteration[1], "iteration"))
    return rated(Statement(step, flops=flops, seconds=seconds), rate, job)
