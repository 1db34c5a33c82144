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

from typing import TYPE_CHECKING, Any

from ofu_exporter.flops import modules, trace
from ofu_exporter.flops.lengths import Lengths, fixed, from_moments, packed
from ofu_exporter.flops.models import Counting, Model, Parameters
from ofu_exporter.flops.passes import Lora, Passes, Recompute
from ofu_exporter.flops.step_count import Count, How, TermCount, Total, count, read, read_file
from ofu_exporter.flops.terms import Extent, Part, Per, Term

if TYPE_CHECKING:
    from ofu_exporter.flops.mfu import (
        Pace,
        Utilization,
        band,
        dense_peak,
        effective_peak,
        hint,
        utilization,
    )
    from ofu_exporter.flops.recipes import Recipe
    from ofu_exporter.flops.trace.execution import Executed


def __getattr__(name: str) -> Any:
    """The names of `mfu`, imported at their first use: a count alone needs neither GPUs nor peaks."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ofu_exporter.flops import mfu  # noqa: PLC0415 - the table of GPUs takes milliseconds

    return getattr(mfu, name)


def executed(module: Any, inputs: Any, backward: bool = True) -> Executed:
    """What torch executes of any `torch.nn.Module` on inputs: a tuple of arguments, or a mapping of named ones.

    Needs the extra `executed`; `trace.execution` has the details. Raises ConfigError if torch is missing.
    """
    execution: Executed = trace.load("execution", "executed").executed(module, inputs, backward)
    return execution


def recipe(module: Any, batch: Any, backward: bool = True) -> Recipe:
    """The recipe of any `torch.nn.Module` and an example batch: `recipe(module, batch).save(path)`.

    The batch is what the module is called with: a tensor, a tuple of arguments, or a mapping of them. Needs torch;
    `trace.making` has the details. Raises ConfigError if torch is missing, or the module can't be run.
    """
    of_module: Recipe = trace.load("making", "recipe").recipe_of_module(module, batch, backward)
    return of_module


__all__ = ["Count", "How", "TermCount", "Total", "count", "read", "read_file"]
__all__ += ["Counting", "Lora", "Model", "Parameters", "Passes", "Recompute"]
__all__ += ["Lengths", "fixed", "from_moments", "packed"]
__all__ += ["Extent", "Part", "Per", "Term", "modules"]
__all__ += ["Pace", "Utilization", "band", "dense_peak", "effective_peak", "hint", "utilization"]
__all__ += ["executed", "recipe"]
