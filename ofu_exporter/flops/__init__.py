"""FLOPs of a model's step, each term shown, and MFU and HFU from its throughput.

    model = flops.read(json.loads(Path("config.json").read_text()))
    count = flops.count(model, flops.fixed(512, tokens=4096), flops.How(convention="megatron"))
    count.model_flops_per_step

Pure integers and exact fractions; a multiply-add is two FLOPs; a peak is dense, never sparse. `docs/flops.md` has
every formula with its source.
"""

from __future__ import annotations

from ofu_exporter.flops.counting import Count, How, Line, Total, count, read, read_file
from ofu_exporter.flops.lengths import Lengths, fixed, from_moments, packed, samples
from ofu_exporter.flops.models import Counting, Model, Parameters, padded_vocabulary
from ofu_exporter.flops.passes import Lora, Passes, Recompute
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
    "Parameters",
    "Part",
    "Passes",
    "Per",
    "Recompute",
    "Term",
    "Total",
    "count",
    "fixed",
    "from_moments",
    "packed",
    "padded_vocabulary",
    "read",
    "read_file",
    "samples",
]
