"""Reads Megatron-LM's log: `throughput per GPU (TFLOP/s/GPU)` and `elapsed time per iteration (ms)` of iterations.

Megatron-LM `training.py: training_log` with --log-throughput. The throughput is model FLOPs without recomputation
over all GPUs, so it's the numerator of MFU. Forks write `compute per GPU (TFLOP/s/GPU): now (avg ...)`; the first
number is taken. The convention `megatron` says what Megatron-LM leaves out or counts otherwise.
"""

from __future__ import annotations

import re
from functools import partial

from ofu_exporter.flops.log_lines import LineForm, SinceLast, quantity, read_lines

ITERATION = LineForm(
    re.compile(r"\biteration\s+(\d+)\s*/"),
    quantity(
        r"(?:throughput|compute) per GPU \(TFLOP/s/GPU\):\s*([^\s|]+)", "throughput per GPU", 1e12
    ),
    seconds=quantity(
        r"elapsed time per iteration \(ms\):\s*([^\s|]+)", "elapsed time per iteration", 1e-3
    ),
    also=" per ",
)

read = partial(
    read_lines,
    ITERATION.statement,
    "Megatron-LM line with `throughput per GPU (TFLOP/s/GPU)` (--log-throughput)",
)
Follower = partial(SinceLast, ITERATION.statement)
