"""Reads MaxText's log: `completed step: 3, seconds: 12.000, TFLOP/s/device: 420.404, ...`.

MaxText `metric_logger.py`. FLOPs come from `maxtext_utils.py: calculate_tflops_training_per_device`, which counts
causal attention as half.
"""

from __future__ import annotations

import re
from functools import partial

from ofu_exporter.flops.log_lines import LineFollower, LineForm, quantity, read_lines

_STEP = LineForm(
    re.compile(r"\bcompleted step:\s*(\d+),"),
    quantity(r"\bTFLOP/s/device:\s*([^\s,]+)", "TFLOP/s/device", 1e12),
    seconds=quantity(r"\bseconds:\s*([^\s,]+)", "seconds"),
)

read = partial(read_lines, _STEP.statement, "MaxText line with `TFLOP/s/device`")
Follower = partial(LineFollower, _STEP.statement)
