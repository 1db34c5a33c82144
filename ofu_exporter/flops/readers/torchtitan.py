"""Reads torchtitan's log: `step: 10  loss: ...  tps: 7,250  tflops: 420.40  mfu: 42.49%`.

torchtitan `components/metrics.py: MetricsProcessor.log`. A line is about all steps since the line before, validation
excepted. The TFLOP/s are taken, because the MFU is divided by torchtitan's own peak, which is an A100's for a GPU that
it does not know. Lines of 2024 have no TFLOP/s. Attention is counted in full, whether causal or not.
"""

from __future__ import annotations

import re
from functools import partial

from ofu_exporter.flops.log_lines import LineFollower, LineForm, quantity, read_lines

_STEP = LineForm(
    re.compile(r"\bstep:\s*(\d+)\s+loss:"),
    quantity(r"\btflops:\s*([\d.,]+)", "tflops", 1e12),
    mfu=quantity(r"\bmfu:\s*([\d.]+)%", "mfu", 0.01),
    also="memory:",
)

read = partial(read_lines, _STEP.statement, "torchtitan line with `tflops:` or `mfu:`")
Follower = partial(LineFollower, _STEP.statement)
