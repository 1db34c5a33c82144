"""Reads OLMo-core's console: `[step=12/100,epoch=1]`, and below it `throughput/device/MFU=41.2` and `.../BPS=0.083`.

OLMo-core `train/callbacks/speed_monitor.py`: MFU and steps per second (BPS) of one step. It divides by the peak that
it logs at its start, half of an A100's for a GPU that it does not know, so the FLOP/s are what is stated: MFU times
that peak. Attention is counted in full, whether causal or not.
"""

from __future__ import annotations

import re

from ofu_exporter.flops.log_lines import quantity
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_STEP = re.compile(r"\[step=(\d+)/[^,\]]*,epoch=\d+[^\]]*\]")
_PEAK = quantity(r"\bDevice peak FLOPS:\s*([\d.e+]+)", "Device peak FLOPS")
_MFU = quantity(r"\bthroughput/device/MFU=([\d.,e+-]+)", "MFU", 0.01)
_BPS = quantity(r"\bthroughput/device/BPS=([\d.,e+-]+)", "BPS")


class Follower:
    """Gathers the lines of a step, until both MFU and steps per second are there."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._peak_flops: float | None = None
        self._step: int | None = None
        self._mfu: float | None = None
        self._steps_per_second: float | None = None

    def line(self, line: str) -> Statement | None:
        """The statement of a step at the line that completes it; a step whose block had no MFU is stated alone."""
        self._peak_flops = _PEAK.of(line) or self._peak_flops
        if step := _STEP.search(line):
            alone, self._step = self._step, int(number(step[1], "step"))
            self._mfu = self._steps_per_second = None
            return None if alone is None else Statement(alone)
        if self._step is None or "throughput/device/" not in line:
            return None
        self._mfu = _MFU.of(line) or self._mfu
        self._steps_per_second = _BPS.of(line) or self._steps_per_second
        return self._complete()

    def _complete(self) -> Statement | None:
        if self._mfu is None or not self._steps_per_second:
            return None
        one = Statement(self._step, seconds=1 / self._steps_per_second, mfu=self._mfu)
        self._step = None
        return with_rate(one, self._mfu * self._peak_flops, self._job) if self._peak_flops else one
