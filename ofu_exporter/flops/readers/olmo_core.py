"""Reads OLMo-core's console: `[step=12/100,epoch=1]`, and below it `throughput/device/MFU=41.2` and `.../BPS=0.083`.

OLMo-core `train/callbacks/speed_monitor.py`: MFU and steps per second (BPS) of one step. It divides by the peak that
it logs at its start, half of an A100's for a GPU that it does not know, so the FLOP/s are what is stated: MFU times
that peak, or `TFLOPs_per_GPU`, which 3.0 adds. Before 3.0 attention is counted in full, whether causal or not; since
then as it attends.
"""

from __future__ import annotations

import re

from ofu_exporter.flops.log_lines import quantity
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_STEP = re.compile(r"\[step=(\d+)/[^,\]]*,epoch=\d+[^\]]*\]")
_PEAK = quantity(r"\bDevice peak (?:FLOPS|Flops/s):\s*([\d.e+]+)", "Device peak FLOPS")
_VALUE = r"=([\d.,eE+-]+)"
_TFLOPS = quantity(rf"\bthroughput/device/TFLOPs_per_GPU{_VALUE}", "TFLOPs_per_GPU", 1e12)
_MFU = quantity(rf"\bthroughput/device/MFU{_VALUE}", "MFU", 0.01)
_BPS = quantity(rf"\bthroughput/device/BPS{_VALUE}", "BPS")


class Follower:
    """Gathers the lines of a step, until both FLOP/s, or an MFU, and steps per second are there."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._peak_flops: float | None = None
        self._step: int | None = None
        self._rate: float | None = None
        self._is_rate_stated = False
        """Whether the log has FLOP/s, of several ranks below the MFU."""
        self._mfu: float | None = None
        self._steps_per_second: float | None = None

    def line(self, line: str) -> Statement | None:
        """The statement of a step at the line that completes it; a step whose block had no MFU is stated alone."""
        self._peak_flops = _PEAK.of(line) or self._peak_flops
        if step := _STEP.search(line):
            alone, self._step = self._step, int(number(step[1], "step"))
            self._rate = self._mfu = self._steps_per_second = None
            return None if alone is None else Statement(alone)
        if "throughput/device/" not in line:
            return None
        self._rate = _TFLOPS.of(line) or self._rate
        self._is_rate_stated = self._is_rate_stated or self._rate is not None
        self._mfu = _MFU.of(line) or self._mfu
        self._steps_per_second = _BPS.of(line) or self._steps_per_second
        return None if self._step is None else self._complete()

    def _complete(self) -> Statement | None:
        mfu = None if self._is_rate_stated else self._mfu
        if not self._steps_per_second or self._rate is mfu is None:
            return None
        one = Statement(self._step, seconds=1 / self._steps_per_second, mfu=mfu)
        rate = mfu * self._peak_flops if mfu is not None and self._peak_flops else self._rate
        self._step = None
        return one if rate is None else with_rate(one, rate, self._job)
