"""Reads nanochat's log: `step 00012/21400 (0.06%) | loss: 3.1 | ... | dt: 1234.56ms | tok/sec: 424,000 | mfu: 48.20`.

nanochat `scripts/base_train.py`. It divides by the peak that it prints at its start (`Peak FLOPS (BF16): 9.89e+14`),
and before 2026 by 989e12 whatever the GPU. The FLOP/s are what is stated: MFU times that peak.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ofu_exporter.flops.log_lines import LineForm, quantity
from ofu_exporter.flops.statements import JobFacts, Statement, with_rate

_OLD_PEAK_FLOPS = 989e12
_PEAK = quantity(r"\bPeak FLOPS \(BF16\):\s*([\d.e+]+)", "Peak FLOPS")
_STEP = LineForm(
    re.compile(r"\bstep (\d+)(?:/\d+)? \("),
    mfu=quantity(r"\bmfu:\s*([\d.]+)", "mfu", 0.01),
    seconds=quantity(r"\bdt:\s*([\d.]+)ms", "dt", 1e-3),
    also="| dt:",
)
_NEW_STEP = replace(_STEP, mfu=quantity(r"\bbf16_mfu:\s*([\d.]+)", "bf16_mfu", 0.01))


class Follower:
    """Remembers the peak that the log states at its start."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._peak_flops: float | None = None

    def line(self, line: str) -> Statement | None:
        self._peak_flops = _PEAK.of(line) or self._peak_flops
        is_new = "bf16_mfu" in line
        one = (_NEW_STEP if is_new else _STEP).statement(line, self._job)
        peak_flops = self._peak_flops or (None if is_new else _OLD_PEAK_FLOPS)
        if one is None or one.mfu is None or peak_flops is None:
            return one
        return with_rate(one, one.mfu * peak_flops, self._job)
