"""Reads Megatron-Bridge's two lines of an iteration: `Step Time : 12.00s GPU utilization: 420.4MODEL_TFLOP/s/GPU`.

Megatron-Bridge `training/utils/train_utils.py: training_log`. The other line is Megatron-LM's, with the iteration and
without a throughput. Two ranks write them, so either may come first, or the other may be in another file.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops.log_forms import MEGATRON
from ofu_exporter.flops.log_lines import SinceLast, quantity
from ofu_exporter.flops.statements import JobFacts, Statement, with_rate

_SECONDS = quantity(r"\bStep Time\s*:\s*([\d.]+)s", "Step Time")
_RATE = quantity(r"\bGPU utilization:\s*([\d.]+)MODEL_TFLOP/s/GPU", "GPU utilization", 1e12)
_ROUNDING_SECONDS = 0.006
"""The two lines of an iteration state its time to 10 ms and to 0.1 ms."""


class Follower:
    """Pairs the two lines of an iteration by their times."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._iterations = SinceLast(MEGATRON, job)
        self._iteration: Statement | None = None
        self._of_step: Statement | None = None
        self._seconds = 0.0
        """Of one iteration, as the waiting line of an iteration states it."""

    def line(self, line: str) -> Statement | None:
        """The statement at the second line of an iteration; the iteration alone, or the rate alone, without it."""
        rate, seconds = _RATE.of(line), _SECONDS.of(line)
        if rate is not None and seconds is not None:
            return self._stepped(with_rate(Statement(seconds=seconds), rate, self._job))
        one = MEGATRON.statement(line, self._job)
        if one is None or one.seconds is None or one.has_rate:
            return None
        self._iteration, self._seconds = self._iterations.line(line), one.seconds
        waiting, self._of_step = self._of_step, None
        return self._paired(waiting) if waiting and self._fits(waiting) else None

    def _stepped(self, of_step: Statement) -> Statement | None:
        if self._iteration is not None and self._fits(of_step):
            return self._paired(of_step)
        alone, self._of_step = self._of_step, of_step
        return of_step if alone else None

    def _fits(self, of_step: Statement) -> bool:
        return abs((of_step.seconds or 0.0) - self._seconds) <= _ROUNDING_SECONDS

    def _paired(self, of_step: Statement) -> Statement:
        assert self._iteration is not None
        whole = self._iteration
        self._iteration = None
        return replace(of_step, step=whole.step, seconds=whole.seconds)
