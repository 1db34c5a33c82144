"""`flops` and `mfu`: count the FLOPs of a model's step, term by term, and compute MFU from a throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.answers import format_option, print_answer
from ofu_exporter.cli.gpu_name import GPU_HELP, gpu_name
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import INTEGER, NUMBER, RATIO, TFLOPS, flag, option, with_options
from ofu_exporter.cli.step import STEP_OPTIONS, how, precision_shares, read_step
from ofu_exporter.errors import ConfigError
from ofu_exporter.support import tables
from ofu_exporter.support.tables import LEFT, RIGHT, TextBlock, TextTable

if TYPE_CHECKING:
    from ofu_exporter.flops import Count, Model, Utilization
    from ofu_exporter.flops.terms import Exact

MODEL_OPTIONS = (
    option(
        "--convention",
        "How FLOPs are counted; see `list conventions`. Default: model.",
        default="model",
        metavar="NAME",
    ),
    flag("--forward-only", "No backward pass."),
    option(
        "--recompute",
        "Activations that are recomputed: none, selective or full. Default: none.",
        default="none",
        metavar="HOW",
    ),
    *STEP_OPTIONS,
    format_option,
)
FLOPS = (
    *("model_flops_per_token", "hardware_flops_per_token"),
    *("model_flops_per_step", "hardware_flops_per_step"),
)
OF_A_ROW = (
    *("config", "architecture", "family", "convention", "parameters", "active_parameters"),
    *FLOPS,
    *("mfu", "hfu", "error"),
)
SHOWN = ("config", "parameters", "active_parameters", "model_flops_per_token", "error")
"""The keys of a row, and those that the table shows."""


@click.command(
    cls=SubjectCommand,
    short_help="FLOPs of a training step, from a config.json.",
    common="convention recompute forward_only executed seq_len batch_size length freeze lora_rank format_",
)
@click.argument("configs", type=click.Path(path_type=Path), nargs=-1, required=True)
@with_options(MODEL_OPTIONS)
@flag("--executed", "Build the model without weights; count what torch executes.")
@option(
    "--save",
    "With --executed: write a recipe, which is counted like a config.json, without torch.",
    click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
)
def flops(configs: tuple[Path, ...], format_: str, executed: bool, **options: Any) -> None:
    """FLOPs of one training step of a model, from its own config.json, its folder or a cached model's id.

    Several configurations give one row each. The exit code is 2 where one of them cannot be counted.
    """
    if executed and len(configs) > 1:
        raise click.UsageError("--executed takes one configuration")
    if options["save"] is not None:
        from ofu_exporter.cli.executed import save_recipe

        if not executed:
            raise click.UsageError("--save needs --executed")
        configs = (save_recipe(configs[0], options),)
        if not configs[0].is_file():  # /dev/stdout has it already
            return
    elif executed:
        from ofu_exporter.cli.executed import print_executed

        print_executed(configs[0], format_, options)
        return
    if len(configs) > 1 or format_ == "csv":
        rows = [_row(config, options) for config in configs]
        print_answer(format_, lambda: rows_table(rows), lambda: rows)
        raise SystemExit(2 if any(each["error"] for each in rows) else 0)
    model, counted = _count(configs[0], options)
    print_answer(format_, lambda: table(model, counted), lambda: as_data(counted), list)


def _row(config: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a configuration; one with an error where it cannot be counted."""
    try:
        model, counted = _count(config, options)
    except ConfigError as error:
        return {**dict.fromkeys(OF_A_ROW), "config": str(config), "error": str(error)}
    return _one_row(str(config), model.architecture, as_data(counted))


@click.command(
    cls=SubjectCommand,
    short_help="MFU and HFU of a job, from its throughput.",
    common="recompute gpu gpus tokens_per_second step_seconds precision seq_len batch_size lora_rank format_",
)
@click.argument("config", type=click.Path(path_type=Path))
@with_options(MODEL_OPTIONS)
@flag("--executed", "Count what torch executes of the model, built without weights.")
@option("--gpu", GPU_HELP, required=True, callback=gpu_name, metavar="NAME")
@option("--gpus", "All GPUs of the job: the world size.", INTEGER, required=True, metavar="N")
@option("--tokens-per-second", "Rate of all GPUs together: 12000, 12,000 or 12k.", NUMBER)
@option("--samples-per-second", "Rate of all GPUs together.", NUMBER)
@option("--step-seconds", "Wall time of one step.", float, metavar="N")
@option(
    "--precision",
    "bf16, or shares of the FLOPs: bf16=0.3,fp8=0.7. Default: bf16.",
    default="bf16",
    metavar="NAMES",
)
@option("--peak-tflops", "Peak per GPU, instead of the table's.", TFLOPS)
@option("--reported-mfu", "MFU that the job reports, to name causes of a gap.", RATIO)
def mfu(config: Path, format_: str, **options: Any) -> None:
    """MFU and HFU of a job: its throughput over the dense peak of its GPUs."""
    from ofu_exporter import flops as package

    if options["step_seconds"] is not None and not any(options[name] for name in BATCHES):
        step = "the samples of a step over all GPUs"
        raise ConfigError(f"--step-seconds needs --batch-size: {step}; 1 if it is one")
    model, counted = _count(config, options)
    pace = package.Pace(
        options["tokens_per_second"], options["samples_per_second"], options["step_seconds"]
    )
    peak = options["peak_tflops"]
    used = package.utilization(
        counted,
        pace,
        gpu=options["gpu"],
        number=options["gpus"],
        precision=precision_shares(options["precision"]),
        peak_flops=None if peak is None else peak * 1e12,
    )
    reported = options["reported_mfu"]
    causes = [] if reported is None else _causes(config, options, reported, used.mfu)
    hint = package.hint(counted, used.mfu, options["gpu"])
    data = as_data(counted, used, causes)
    print_answer(
        format_,
        lambda: table(model, counted, used, causes, hint),
        lambda: data,
        lambda: [_one_row(str(config), model.architecture, data)],
    )


BATCHES = ("batch_size", "lengths", "moments")
"""Options that say how many samples a step has."""


def _count(config: Path, options: Mapping[str, Any]) -> tuple[Model, Count]:
    from ofu_exporter import flops as package

    model, lengths, executed = read_step(config, options)
    return model, package.count(model, lengths, how(options), executed)


def _causes(config: Path, options: Mapping[str, Any], reported: float, right: float) -> list[str]:
    """The causes that may have made a reported MFU differ from the right one."""
    from ofu_exporter.flops import Recompute, explain
    from ofu_exporter.flops.causes import CauseFacts
    from ofu_exporter.flops.counted_step import CountedStep

    (model, lengths, executed), chosen = read_step(config, options), how(options)
    facts = CauseFacts(
        CountedStep(model, lengths, chosen.counting, chosen.passes),
        executed,
        chosen.passes.forward_only,
        Recompute(options["recompute"]),
        options["gpu"],
        options["gpus"],
        precision_shares(options["precision"]),
    )
    return [
        f"reported MFU is {reported / right:.3f} times the right one, {each.cause} makes it "
        f"{each.expected_ratio:.3f}: {each.evidence}"
        for each in explain.causes_of_report(reported, right, facts)
    ]


def as_data(
    counted: Count, used: Utilization | None = None, causes: list[str] | None = None
) -> dict[str, Any]:
    """A count, and a job's MFU where one was computed, as plain data."""
    warnings = [*(used.warnings if used else counted.warnings), *(causes or [])]
    return {
        "family": counted.family,
        "convention": counted.convention,
        "parameters": {
            name: getattr(counted.parameters, name) for name in ("total", "active", "embedding")
        },
        "terms": [
            {"name": line.term.name, "flops_per_token": plain(counted.per_token(line))}
            for line in counted.lines
        ],
        **{name: plain(getattr(counted, name)) for name in FLOPS},
        "mfu": used.mfu if used else None,
        "hfu": used.hfu if used else None,
        "tflops_per_gpu": used.tflops_per_gpu if used else None,
        "peak_tflops": used.peak_flops / 1e12 if used else None,
        "warnings": warnings,
    }


def plain(value: Exact) -> int | float:
    """The value as an integer where it is whole, else as the nearest float."""
    return value if isinstance(value, int) else float(value)


def table(
    model: Model,
    counted: Count,
    used: Utilization | None = None,
    causes: list[str] | None = None,
    hint: str | None = None,
) -> str:
    """A count, and a job's MFU where one was computed, for people."""
    size = counted.parameters
    total = float(counted.model_flops_per_step)
    rows = [
        (line.term.name, _shown(counted.per_token(line)), f"{float(line.model) / total:.1%}")
        for line in counted.lines
    ]
    terms = TextTable(("TERM", "FLOPs PER TOKEN", "SHARE"), (LEFT, RIGHT, RIGHT), rows)
    lines: list[TextBlock] = [
        f"{model.architecture}, family {counted.family}, convention {counted.convention}",
        f"Parameters: {size.total:,} total, {size.active:,} active, {size.embedding:,} embedding",
        "",
        terms,
        "",
        *_totals(counted),
        *_used(used, hint),
        *(f"Warning: {text}" for text in (used.warnings if used else counted.warnings)),
        *(f"Cause: {text}" for text in causes or ()),
    ]
    return tables.text(lines)


def _totals(counted: Count) -> list[str]:
    rows = (
        ("Model FLOPs per token", counted.model_flops_per_token),
        ("Model FLOPs per sequence", counted.model_flops_per_sequence),
        ("Model FLOPs per step", counted.model_flops_per_step),
        ("Hardware FLOPs per token", counted.hardware_flops_per_token),
        ("Hardware FLOPs per step", counted.hardware_flops_per_step),
    )
    return [f"{name + ':':26}{_shown(value):>28}" for name, value in rows]


def _used(used: Utilization | None, hint: str | None) -> list[str]:
    if used is None:
        return []
    return [
        "",
        f"MFU {used.mfu:.2%}, HFU {used.hfu:.2%} of {used.peak_flops / 1e12:.1f} dense TFLOP/s per GPU",
        f"{used.tflops_per_gpu:.1f} model TFLOP/s per GPU",
        *([f"Hint: {hint}"] if hint else []),
    ]


def _shown(value: Exact | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.1f}"


def _one_row(config: str, architecture: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a configuration, from its count as plain data."""
    size = data["parameters"]
    of_model = {"config": config, "architecture": architecture}
    values = {**data, **of_model, "parameters": size["total"], "active_parameters": size["active"]}
    return {name: values.get(name) for name in OF_A_ROW}


def rows_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows for people."""
    heads = [name.upper().replace("_", " ").replace("FLOPS", "FLOPs") for name in SHOWN]
    cells = [[_cell(each[name]) for name in SHOWN] for each in rows]
    return TextTable(heads, (LEFT, RIGHT, RIGHT, RIGHT, LEFT), cells).plain()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return _shown(value) if isinstance(value, int | float) else str(value)
