"""Counts the FLOPs of a model's step, term by term, and computes MFU and HFU from its throughput.

    model = flops.read(json.loads(Path("config.json").read_text()))
    count = flops.count(model, flops.fixed(512, tokens=4096), flops.How(convention="megatron"))
    count.model_flops_per_step
    pace = flops.Pace(tokens_per_second=2e6)
    flops.utilization(count, pace, gpu="NVIDIA H100 80GB HBM3", number=256, precision={"bf16": 1.0}).mfu

Pure integers and exact fractions; a multiply-add is two FLOPs; a peak is dense, never sparse. `docs/flops.md` has
every formula with its source.
"""

from __future__ import annotations

from ofu_exporter.flops import modules
from ofu_exporter.flops.lengths import Lengths, fixed, from_moments, packed, samples
from ofu_exporter.flops.mfu import (
    Pace,
    Utilization,
    band,
    dense_peak,
    effective_peak,
    hint,
    utilization,
)
from ofu_exporter.flops.models import Counting, Model, Parameters, padded_vocabulary
from ofu_exporter.flops.passes import Lora, Passes, Recompute
from ofu_exporter.flops.step_count import Count, How, Line, Total, count, read, read_file
from ofu_exporter.flops.terms import Extent, Part, Per, Term

__all__ = [
    "Count",
    "Counting",
    "Extent",
    "How",
    "Lengths",
    "Line",
    "Lora",
    "Model",
    "Pace",
    "Parameters",
    "Part",
    "Passes",
    "Per",
    "Recompute",
    "Term",
    "Total",
    "Utilization",
    "band",
    "count",
    "dense_peak",
    "effective_peak",
    "fixed",
    "from_moments",
    "hint",
    "modules",
    "packed",
    "padded_vocabulary",
    "read",
    "read_file",
    "samples",
    "utilization",
]
