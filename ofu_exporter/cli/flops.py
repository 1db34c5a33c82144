"""`flops` and `mfu`: what a model's step costs, each term shown, and what its throughput makes of the GPUs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ofu_exporter.errors import ConfigError

if TYPE_CHECKING:
    from ofu_exporter.flops import Count, How, Lengths, Model, Utilization
    from ofu_exporter.flops.terms import Exact

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

STEP_OPTIONS = (
    click.option("--seq-len", type=int, help="Tokens per sequence; the same as --length tokens=N."),
    click.option(
        "--batch-size", type=int, default=1, show_default=True, help="Samples per step, all GPUs."
    ),
    click.option(
        "--length", multiple=True, metavar="STREAM=N", help="Tokens per sample of another stream."
    ),
    click.option(
        "--lengths",
        type=click.Path(path_type=Path),
        help="File of sequence lengths, one per line: a packed step.",
    ),
    click.option("--moments", metavar="MEAN,MEAN_SQUARE", help="E[L] and E[L^2] of the sequences."),
    click.option("--padded-to", type=int, help="Tokens that each sequence is padded to; HFU only."),
    click.option(
        "--causal/--full-attention", default=None, help="Override how attention is counted."
    ),
    click.option("--mtp", is_flag=True, help="Multi-token-prediction layers are trained."),
    click.option(
        "--padded-vocab-size", type=int, help="Rows of the head as it's really multiplied."
    ),
    click.option("--recompute-layers", type=int, help="How many layers recompute; default all."),
    click.option(
        "--freeze", multiple=True, metavar="PART", help="A part that isn't trained, such as vision."
    ),
    click.option("--lora-rank", type=int, help="Adapters of this rank; everything else is frozen."),
    click.option("--lora-targets", help="Linear layers with adapters, separated by commas."),
    click.option(
        "--repeats",
        type=int,
        default=1,
        show_default=True,
        help="Timesteps * guidance passes, or epochs.",
    ),
    click.option(
        "--ignore-field", multiple=True, help="An unknown field that doesn't change the count."
    ),
)
"""What a step is of any model: `explain` has them too."""

FORMAT = click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table")

MODEL_OPTIONS = (
    click.argument("config", type=click.Path(path_type=Path)),
    click.option(
        "--convention",
        default="model",
        show_default=True,
        help="model, palm, megatron, kaplan, chinchilla or kempner.",
    ),
    click.option("--forward-only", is_flag=True, help="No backward pass."),
    click.option("--recompute", default="none", show_default=True, help="none, selective or full."),
    *STEP_OPTIONS,
    FORMAT,
)


def model_options(command: CommandT) -> CommandT:
    """The options that say what is counted, in their order."""
    for option in reversed(MODEL_OPTIONS):
        command = option(command)
    return command


@click.command()
@model_options
def flops(config: Path, format_: str, **options: Any) -> None:
    """FLOPs of one training step of a model, from its own configuration (config.json)."""
    model, counted = _count(config, options)
    click.echo(_json(counted) if format_ == "json" else table(model, counted))


@click.command()
@model_options
@click.option("--gpu", required=True, help='As `nvidia-smi -L` names it: "NVIDIA H100 80GB HBM3".')
@click.option("--gpus", type=int, required=True, help="All GPUs of the job: the world size.")
@click.option("--tokens-per-second", type=float, help="Over all GPUs.")
@click.option("--samples-per-second", type=float, help="Over all GPUs.")
@click.option("--step-seconds", type=float, help="Wall time of one step.")
@click.option(
    "--precision",
    default="bf16",
    show_default=True,
    help="Or shares of the FLOPs: bf16=0.3,fp8=0.7.",
)
@click.option("--peak-tflops", type=float, help="Peak per GPU to divide by instead of the table's.")
@click.option(
    "--reported-mfu", type=float, help="What the job itself reports, 0..1: names causes of a gap."
)
def mfu(config: Path, format_: str, **options: Any) -> None:
    """MFU and HFU of a job: its throughput over the dense peak of its GPUs."""
    from ofu_exporter import flops as package

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
        precision=shares(options["precision"]),
        peak_flops=None if peak is None else peak * 1e12,
    )
    reported = options["reported_mfu"]
    causes = [] if reported is None else _causes(config, options, reported, used.mfu)
    if format_ == "json":
        click.echo(_json(counted, used, causes))
    else:
        click.echo(table(model, counted, used, causes))


def shares(text: str) -> dict[str, float]:
    """`bf16`, or `bf16=0.3,fp8=0.7`. Raises ConfigError for what is neither."""
    if "=" not in text:
        return {text.strip(): 1.0}
    found: dict[str, float] = {}
    for item in text.split(","):
        name, _, share = item.partition("=")
        if name.strip() in found:
            raise ConfigError(f"--precision: {name.strip()} is given twice")
        found[name.strip()] = _number("--precision", share)
    return found


def _number(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {text!r} is not a number") from error
    if not math.isfinite(value):
        raise ConfigError(f"{option}: {text!r} is not a finite number")
    return value


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {text!r} is not a whole number") from error


def _count(config: Path, options: Mapping[str, Any]) -> tuple[Model, Count]:
    from ofu_exporter import flops as package

    model, lengths, executed = step(config, options)
    return model, package.count(model, lengths, how(options), executed)


def step(config: Path, options: Mapping[str, Any]) -> tuple[Model, Lengths, Lengths | None]:
    """The model, its samples, and these as they are padded, where they are."""
    from ofu_exporter import flops as package

    model = package.read_file(config, options["ignore_field"])
    lengths, padded = _lengths(options), options["padded_to"]
    missing = [stream for stream in model.streams if stream not in lengths.streams]
    if missing:
        flags = ["--seq-len N" if name == "tokens" else f"--length {name}=N" for name in missing]
        raise ConfigError(f"{model.architecture} needs {' and '.join(flags)}")
    executed = None if padded is None else package.fixed(lengths.sequences(), tokens=padded)
    return model, lengths, executed


def _lengths(options: Mapping[str, Any]) -> Lengths:
    from ofu_exporter import flops as package

    streams = dict(_stream(item) for item in options["length"])
    if options["seq_len"] is not None:
        streams["tokens"] = options["seq_len"]
    ways = [name for name in ("lengths", "moments") if options[name]]
    if len(ways) + bool(streams) > 1:
        raise ConfigError(
            "give the lengths in one way: --seq-len and --length, --lengths or --moments"
        )
    if options["lengths"]:
        return package.packed(_whole("--lengths", line) for line in _lines(options["lengths"]))
    if options["moments"]:
        mean, _, square = options["moments"].partition(",")
        first, second = _number("--moments", mean), _number("--moments", square)
        return package.from_moments(options["batch_size"], first, second)
    return package.fixed(options["batch_size"], **streams)


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").split() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--lengths: {path}: {error}") from error


def _stream(item: str) -> tuple[str, int]:
    name, equals, length = item.partition("=")
    if not equals:
        raise ConfigError(f"--length: {item!r} is not STREAM=N")
    return name, _whole("--length", length)


def how(options: Mapping[str, Any]) -> How:
    """What else changes the count."""
    from ofu_exporter import flops as package

    known = [recompute.value for recompute in package.Recompute]
    if options["recompute"] not in known:
        raise ConfigError(
            f"--recompute: {options['recompute']!r} is not known; known: {', '.join(known)}"
        )
    lora = None
    if options["lora_rank"] is not None:
        targets = options["lora_targets"]
        lora = package.Lora(options["lora_rank"], *([tuple(targets.split(","))] if targets else []))
    elif options["lora_targets"]:
        raise ConfigError("--lora-targets needs --lora-rank")
    return package.How(
        options["convention"],
        package.Counting(options["causal"], options["mtp"], options["padded_vocab_size"]),
        package.Passes(
            forward_only=options["forward_only"],
            recompute=package.Recompute(options["recompute"]),
            recompute_layers=options["recompute_layers"],
            frozen=frozenset(options["freeze"]),
            lora=lora,
            repeats=options["repeats"],
        ),
    )


def _causes(config: Path, options: Mapping[str, Any], reported: float, right: float) -> list[str]:
    """What may have made a reported MFU another than the right one."""
    from ofu_exporter import explain
    from ofu_exporter.causes import Facts, Job
    from ofu_exporter.flops import Recompute

    (model, lengths, executed), chosen = step(config, options), how(options)
    facts = Facts(
        Job(model, lengths, chosen.counting, chosen.passes),
        executed,
        chosen.passes.forward_only,
        Recompute(options["recompute"]),
        options["gpu"],
        options["gpus"],
        shares(options["precision"]),
    )
    return [
        f"reported MFU is {reported / right:.3f} times the right one, {each.cause} makes it "
        f"{each.expected_ratio:.3f}: {each.evidence}"
        for each in explain.of_report(reported, right, facts)
    ]


def report(
    counted: Count, used: Utilization | None = None, causes: list[str] | None = None
) -> dict[str, Any]:
    """A count, and what a job makes of its GPUs, as plain data; None for what was not asked."""
    warnings = [*(used.warnings if used else counted.warnings), *(causes or [])]
    return {
        "family": counted.family,
        "convention": counted.convention,
        "parameters": {
            "total": counted.parameters.total,
            "active": counted.parameters.active,
            "embedding": counted.parameters.embedding,
        },
        "terms": [
            {"name": line.term.name, "flops_per_token": plain(counted.per_token(line))}
            for line in counted.lines
        ],
        "model_flops_per_token": plain(counted.model_flops_per_token),
        "hardware_flops_per_token": plain(counted.hardware_flops_per_token),
        "model_flops_per_step": plain(counted.model_flops_per_step),
        "mfu": used.mfu if used else None,
        "hfu": used.hfu if used else None,
        "peak_tflops": used.peak_flops / 1e12 if used else None,
        "warnings": warnings,
    }


def plain(value: Exact) -> int | float:
    """An integer where it is one, else the nearest float."""
    return value if isinstance(value, int) else float(value)


def _json(counted: Count, used: Utilization | None = None, causes: list[str] | None = None) -> str:
    return json.dumps(report(counted, used, causes), indent=2)


def table(
    model: Model, counted: Count, used: Utilization | None = None, causes: list[str] | None = None
) -> str:
    """A count for people."""
    size = counted.parameters
    rows = [("TERM", "FLOPs PER TOKEN", "SHARE")]
    total = float(counted.model_flops_per_step)
    rows += [
        (line.term.name, _shown(counted.per_token(line)), f"{float(line.model) / total:.1%}")
        for line in counted.lines
    ]
    width = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{model.architecture}, family {counted.family}, convention {counted.convention}",
        f"Parameters: {size.total:,} total, {size.active:,} active, {size.embedding:,} embedding",
        "",
        *(
            f"{name:{width[0]}}  {value:>{width[1]}}  {share:>{width[2]}}"
            for name, value, share in rows
        ),
        "",
        *_totals(counted),
        *_used(used),
        *(f"Warning: {text}" for text in (used.warnings if used else counted.warnings)),
        *(f"Cause: {text}" for text in causes or ()),
    ]
    return "\n".join(lines)


def _totals(counted: Count) -> list[str]:
    rows = (
        ("Model FLOPs per token", counted.model_flops_per_token),
        ("Model FLOPs per sequence", counted.model_flops_per_sequence),
        ("Model FLOPs per step", counted.model_flops_per_step),
        ("Hardware FLOPs per token", counted.hardware_flops_per_token),
        ("Hardware FLOPs per step", counted.hardware_flops_per_step),
    )
    return [f"{name + ':':26}{_shown(value):>28}" for name, value in rows]


def _used(used: Utilization | None) -> list[str]:
    from ofu_exporter import flops as package

    if used is None:
        return []
    return [
        "",
        f"MFU {used.mfu:.2%}, HFU {used.hfu:.2%} of {used.peak_flops / 1e12:.1f} dense TFLOP/s per GPU",
        f"Hint: {package.band(used.mfu)}",
    ]


def _shown(value: Exact) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.1f}"
