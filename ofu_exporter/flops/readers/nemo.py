"""Reads the lines of NeMo 2 (`... | train_step_timing in s: 12.0 | TFLOPS_per_GPU: 420.4`) and the bar of NeMo 1.

NeMo 2's `ProgressPrinter` prints the means of all steps since the line before, NeMo 1's progress bar the last values.
FLOPs are there with the FLOPs callback only (`utils/flops_formulas.py`); the convention `nemo` has its formulas.
"""

from __future__ import annotations

import re
from functools import partial

from ofu_exporter.flops.log_lines import LineForm, SinceLast, quantity, read_lines

_STEP = LineForm(
    re.compile(r"\bglobal_step[:=]\s*(\d+)"),
    quantity(r"\b(?:TFLOPS_per_GPU|tflops_per_sec_per_gpu)[:=]\s*([^\s|,\]]+)", "TFLOPS", 1e12),
    seconds=quantity(r"\btrain_step_timing in s[:=]\s*([^\s|,\]]+)", "train_step_timing"),
    also="train_step_timing in s",
)

read = partial(read_lines, _STEP.statement, "NeMo line with `TFLOPS_per_GPU`")
Follower = partial(SinceLast, _STEP.statement)
