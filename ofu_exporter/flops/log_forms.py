"""The forms of logs of which each line states a step by itself, by the framework that writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ofu_exporter.flops.log_lines import LineForm, quantity

LITGPT = LineForm(re.compile(r"\bEpoch \d+ \| iter \d+ step (\d+) \|"), also="iter time:")
"""litgpt's console: `Epoch 1 | iter 50 step 12 | loss train: 2.3, ... | iter time: 250.00 ms (step)`.

It has steps alone. `metrics.csv` of the same run has FLOPs: the reader `lightning` reads it.
"""
MAXTEXT = LineForm(
    re.compile(r"\bcompleted step:\s*(\d+),"),
    quantity(r"\bTFLOP/s/device:\s*([^\s,]+)", "TFLOP/s/device", 1e12),
    seconds=quantity(r"\bseconds:\s*([^\s,]+)", "seconds"),
)
"""MaxText `metric_logger.py`: `completed step: 3, seconds: 12.000, TFLOP/s/device: 420.404, ...`.

FLOPs come from `maxtext_utils.py: calculate_tflops_training_per_device`, which counts causal attention as half.
"""
MEGATRON = LineForm(
    re.compile(r"\biteration\s+(\d+)\s*/"),
    quantity(
        r"(?:throughput|compute) per GPU \(TFLOP/s/GPU\):\s*([^\s|]+)", "throughput per GPU", 1e12
    ),
    seconds=quantity(
        r"elapsed time per iteration \(ms\):\s*([^\s|]+)", "elapsed time per iteration", 1e-3
    ),
    also=" per ",
    is_since_last=True,
    begins="[before the start of training step]",
    keeps_first=re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\] iteration "),
)
"""Megatron-LM `training.py: training_log` with --log-throughput, and `elapsed time per iteration (ms)`.

The throughput is model FLOPs without recomputation over all GPUs, so it's the numerator of MFU. Forks write `compute
per GPU (TFLOP/s/GPU): now (avg ...)`; the first number is taken. The convention `megatron` says what Megatron-LM leaves
out or counts otherwise. Since core 0.16 the first iteration is logged without a reset of the timer; time stamps have
fractions since then.
"""
NANOTRON = LineForm(
    re.compile(r"\biteration:\s*(\d+)\s*/"),
    quantity(r"\bmodel_tflops_per_gpu:\s*([^\s|]+)", "model_tflops_per_gpu", 1e12),
    seconds=quantity(
        r"\belapsed_time_per_iteration_ms:\s*([^\s|]+)", "elapsed_time_per_iteration_ms", 1e-3
    ),
    also="consumed_tokens:",
)
"""nanotron `trainer.py: train_step_logs`: `iteration: 12 / 100 | ... | model_tflops_per_gpu: 420 | ...`.

Model FLOPs of one iteration, attention in full. Numbers have three digits, as 12.0K.
"""
NEMO = LineForm(
    re.compile(r"\bglobal_step[:=]\s*(\d+)"),
    quantity(r"\b(?:TFLOPS_per_GPU|tflops_per_sec_per_gpu)[:=]\s*([^\s|,\]]+)", "TFLOPS", 1e12),
    seconds=quantity(r"\btrain_step_timing in s[:=]\s*([^\s|,\]]+)", "train_step_timing"),
    also="train_step_timing in s",
    is_since_last=True,
)
"""The lines of NeMo 2 (`... | train_step_timing in s: 12.0 | TFLOPS_per_GPU: 420.4`) and the bar of NeMo 1.

NeMo 2's `ProgressPrinter` prints the means of all steps since the line before, NeMo 1's progress bar the last values.
FLOPs are there with the FLOPs callback only (`utils/flops_formulas.py`); the convention `nemo` has its formulas.
"""
NEMO_AUTOMODEL = LineForm(
    re.compile(r"\bstep (\d+) \| epoch \d+ \| "),
    tokens_per_second=quantity(r"\btps ([\d.]+)\(", "tps"),
    also="/gpu)",
)
"""NeMo AutoModel `train_ft.py: log_train_metrics`: `step 3 | epoch 0 | loss ... | tps 58000.00(7250.00/gpu) | ...`.

Tokens since the step before, without padding at the end. Its own MFU is in `training.jsonl`, many steps at a time.
"""
TORCHTITAN = LineForm(
    re.compile(r"\bstep:\s*(\d+)\s+loss:"),
    quantity(r"\btflops:\s*([\d.,]+)", "tflops", 1e12),
    mfu=quantity(r"\bmfu:\s*([\d.]+)%", "mfu", 0.01),
    also="memory:",
)
"""torchtitan `components/metrics.py: MetricsProcessor.log`: `step: 10  loss: ...  tflops: 420.40  mfu: 42.49%`.

A line is about all steps since the line before, validation excepted. The TFLOP/s are taken, because the MFU is divided
by torchtitan's own peak, which is an A100's for a GPU that it does not know. Lines of 2024 have no TFLOP/s. Attention
is counted in full, whether causal or not.
"""
FORMS: Mapping[str, LineForm] = {
    "litgpt": LITGPT,
    "maxtext": MAXTEXT,
    "megatron": MEGATRON,
    "nanotron": NANOTRON,
    "nemo": NEMO,
    "nemo_automodel": NEMO_AUTOMODEL,
    "torchtitan": TORCHTITAN,
}
