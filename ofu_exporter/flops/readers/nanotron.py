"""Reads nanotron's log: `iteration: 12 / 100 | ... | model_tflops_per_gpu: 420 | ...`, numbers as 12.0K.

nanotron `trainer.py: train_step_logs`: model FLOPs of one iteration, attention in full. Numbers have three digits.
"""

from __future__ import annotations

import re
from functools import partial

from ofu_exporter.flops.log_lines import LineFollower, LineForm, quantity, read_lines

_STEP = LineForm(
    re.compile(r"\biteration:\s*(\d+)\s*/"),
    quantity(r"\bmodel_tflops_per_gpu:\s*([^\s|]+)", "model_tflops_per_gpu", 1e12),
    seconds=quantity(
        r"\belapsed_time_per_iteration_ms:\s*([^\s|]+)", "elapsed_time_per_iteration_ms", 1e-3
    ),
    also="consumed_tokens:",
)

read = partial(read_lines, _STEP.statement, "nanotron line with `model_tflops_per_gpu`")
Follower = partial(LineFollower, _STEP.statement)
