"""`flops --executed`: builds a model without weights, and prints what torch executes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ofu_exporter.cli.answers import print_answer
from ofu_exporter.cli.step import recipe_of, step_lengths
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.config_file import read_configuration
from ofu_exporter.support import tables
from ofu_exporter.support.tables import LEFT, RIGHT, TextBlock, TextTable

if TYPE_CHECKING:
    from ofu_exporter.flops.trace.execution import Executed

CLOSED_FORM_ONLY = {
    "convention": "model",
    "recompute": "none",
    "padded_to": None,
    "causal": None,
    "mtp": False,
    "padded_vocab_size": None,
    "recompute_layers": None,
    "freeze": (),
    "lora_rank": None,
    "lora_targets": None,
    "ignore_field": (),
}
"""Options that describe a count by formulas, and their values when they are not given."""
ALL_PAIRS = (
    "attention counts every pair of query and key; a fused causal kernel executes half of them"
)


def save_recipe(config: Path, options: Mapping[str, Any]) -> Path:
    """Write the recipe of a configuration to the file of `--save`. Raises ConfigError."""
    path: Path = options["save"]
    recipe = recipe_of(config, options)
    try:
        recipe.save(path)
    except OSError as error:
        raise ConfigError(f"--save: {path}: {error}") from error
    return path


def print_executed(config: Path, format_: str, options: Mapping[str, Any]) -> None:
    """Print what torch executes of one step. Raises ConfigError for options that describe formulas."""
    for name, absent in CLOSED_FORM_ONLY.items():
        if options[name] != absent:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option} describes a count by formulas and cannot be used with --executed"
            )
    read = read_configuration(config)
    from ofu_exporter.flops import trace
    from ofu_exporter.flops.recipes import tokens_of

    from_config = trace.load("from_config", "--executed")
    lengths = step_lengths(options)
    streams, samples = from_config.sample_of(lengths)
    executed = from_config.executed_of(read, streams, backward=not options["forward_only"])
    times = samples * options["repeats"]
    named: Any = read.get("_class_name") or read.get("architectures") or read.get("model_type")
    name = named[0] if isinstance(named, list) else str(named)
    data = as_data(name, executed, times, tokens_of(streams) * samples)
    print_answer(format_, lambda: table(data), lambda: data, lambda: data["operators"])


def as_data(name: str, executed: Executed, times: int, tokens: int) -> dict[str, Any]:
    """The FLOPs of a step of `times` samples as plain data."""
    operators = sorted({*executed.forward, *executed.backward})
    return {
        "architecture": name,
        "parameters": {"total": executed.parameters},
        "operators": [
            {
                "name": operator,
                "forward_flops": executed.forward.get(operator, 0) * times,
                "backward_flops": executed.backward.get(operator, 0) * times,
            }
            for operator in operators
        ],
        "executed_flops_per_step": executed.flops * times,
        "executed_flops_per_token": executed.flops * times / tokens if tokens else None,
        "warnings": [*executed.warnings, *([ALL_PAIRS] if executed.attends else [])],
    }


def table(data: Mapping[str, Any]) -> str:
    """The same for people."""
    rows = [
        (each["name"], f"{each['forward_flops']:,}", f"{each['backward_flops']:,}")
        for each in data["operators"]
    ]
    operators = TextTable(("OPERATOR", "FORWARD", "BACKWARD"), (LEFT, RIGHT, RIGHT), rows)
    per_token = data["executed_flops_per_token"]
    lines: list[TextBlock] = [
        f"{data['architecture']}, as torch executes it",
        f"Parameters: {data['parameters']['total']:,} total",
        "",
        operators,
        "",
        f"{'Executed FLOPs per step:':26}{data['executed_flops_per_step']:>28,}",
    ]
    if per_token is not None:
        lines.append(f"{'Executed FLOPs per token:':26}{per_token:>28,.1f}")
    return tables.text([*lines, *(f"Warning: {text}" for text in data["warnings"])])
