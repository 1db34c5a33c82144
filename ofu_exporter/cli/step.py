"""Reads a step from the command line: its options, and from these the model, lengths and passes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.help import SubjectOption
from ofu_exporter.cli.option_types import INTEGER, MOST_WHOLE, Option
from ofu_exporter.errors import ConfigError
from ofu_exporter.support.small_files import read_small
from ofu_exporter.values import quantities

if TYPE_CHECKING:
    from ofu_exporter.flops import How, Lengths, Model
    from ofu_exporter.flops.recipes import Recipe

MOST_BYTES = 64 << 20
"""The largest file of lengths, some ten million of them."""
NUMBER: dict[str, Any] = {"type": INTEGER, "metavar": "N"}
PATH = click.Path(path_type=Path)


def step_option(name: str, help_: str, **settings: Any) -> Option:
    """An option that describes a step."""
    return click.option(name, help=help_, cls=SubjectOption, subject="Step", **settings)


STEP_OPTIONS: tuple[Option, ...] = (
    step_option("--seq-len", "Tokens per sequence; short for --length tokens=N.", **NUMBER),
    step_option("--batch-size", "Samples per step, over all GPUs. Default: 1.", **NUMBER),
    step_option(
        "--length",
        "Tokens per sample of one stream, such as image=4096.",
        metavar="STREAM=N",
        multiple=True,
    ),
    step_option("--lengths", "File of sequence lengths, one per line: a packed step.", type=PATH),
    step_option("--moments", "Means of length and squared length.", metavar="MEAN,MEAN_SQUARE"),
    step_option(
        "--padded-to", "Tokens that each sequence is padded to; counts in HFU only.", **NUMBER
    ),
    step_option("--causal/--full-attention", "Override how attention is counted.", default=None),
    step_option("--mtp", "Multi-token-prediction layers are trained.", is_flag=True),
    step_option("--padded-vocab-size", "Rows of the output head, padding included.", **NUMBER),
    step_option("--recompute-layers", "How many layers recompute. Default: all.", **NUMBER),
    step_option(
        "--freeze", "A part that isn't trained, such as vision.", metavar="PART", multiple=True
    ),
    step_option("--lora-rank", "Train adapters of this rank; freeze the rest.", **NUMBER),
    step_option(
        "--lora-targets", "Linear layers with adapters, separated by commas.", metavar="NAMES"
    ),
    step_option(
        "--repeats",
        "Runs of each sample: timesteps * guidance passes, or epochs. Default: 1.",
        default=1,
        **NUMBER,
    ),
    step_option(
        "--ignore-field",
        "Unknown field of the configuration that changes no product.",
        metavar="NAME",
        multiple=True,
    ),
)
"""Options that describe a step of any model; `explain` has them too."""


def precision_shares(text: str) -> dict[str, float]:
    """The shares in `bf16`, or in `bf16=0.3,fp8=0.7`; a name as frameworks write it is known. Raises ConfigError."""
    from ofu_exporter.hardware.precision_names import precision

    if "=" not in text:
        return {precision(text.strip()): 1.0}
    share_of: dict[str, float] = {}
    for item in text.split(","):
        name, _, share = item.partition("=")
        name = precision(name.strip())
        if name in share_of:
            raise ConfigError(f"--precision: {name} is given twice")
        share_of[name] = _share(share)
    return share_of


def _share(text: str) -> float:
    try:
        return quantities.parsed_ratio(text)
    except ValueError as error:
        raise ConfigError(f"--precision: {error}") from error


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
        number = int(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {text[:40]!r} is not a whole number") from error
    if number > MOST_WHOLE:
        raise ConfigError(f"{option}: {text[:40]}... is above {MOST_WHOLE}")
    return number


def read_step(config: Path, options: Mapping[str, Any]) -> tuple[Model, Lengths, Lengths | None]:
    """The model, its samples, and the samples with their padding; None where there is none."""
    from ofu_exporter import flops as package

    if options.get("executed"):
        model = recipe_of(config, options).model()
    else:
        model = package.read_file(config, options["ignore_field"])
    lengths, padded = step_lengths(options, model.usual), options["padded_to"]
    missing = [stream for stream in model.streams if stream not in lengths.streams]
    if missing:
        flags = ["--seq-len N" if name == "tokens" else f"--length {name}=N" for name in missing]
        beside = [name for name in missing if name in model.merged]
        alone = f" (--length {beside[0]}=0 for text alone)" if beside else ""
        raise ConfigError(f"{model.architecture} needs {' and '.join(flags)}{alone}")
    first = model.counted[0]
    if first in lengths.streams and not lengths.sequences(first):
        option = "--seq-len" if first == "tokens" else f"--length {first}"
        raise ConfigError(f"{option} must be at least 1")
    if padded is not None and padded < lengths.longest():
        raise ConfigError(f"--padded-to {padded} is shorter than a sequence ({lengths.longest()})")
    executed = None if padded is None else package.fixed(lengths.sequences(), tokens=padded)
    return model, lengths, executed


def recipe_of(config: Path, options: Mapping[str, Any]) -> Recipe:
    """The recipe of a configuration, through the longest sample of the step. Raises ConfigError."""
    from ofu_exporter.flops import trace
    from ofu_exporter.flops.config_file import read_configuration

    making = trace.load("making", "--executed")
    lengths = step_lengths(options)
    streams = {stream: lengths.longest(stream) for stream in sorted(lengths.streams)}
    recipe: Recipe = making.recipe_of_config(read_configuration(config), streams)
    return recipe


def step_lengths(options: Mapping[str, Any], usual: Mapping[str, int] | None = None) -> Lengths:
    """The lengths of the samples of a step, the usual ones where none are given.

    Raises ConfigError where they are given in two ways.
    """
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
        lines = read_small(options["lengths"], "--lengths", MOST_BYTES).split()
        return package.packed(_whole("--lengths", line) for line in lines)
    batch = 1 if options["batch_size"] is None else options["batch_size"]
    if options["moments"]:
        mean, _, square = options["moments"].partition(",")
        first, second = _number("--moments", mean), _number("--moments", square)
        return package.from_moments(batch, first, second)
    return package.fixed(batch, **{**(usual or {}), **streams})


def _stream(item: str) -> tuple[str, int]:
    name, equals, length = item.partition("=")
    if not equals:
        raise ConfigError(f"--length: {item!r} is not STREAM=N")
    return name, _whole("--length", length)


def how(options: Mapping[str, Any]) -> How:
    """The convention, counting and passes that the options choose. Raises ConfigError."""
    from ofu_exporter import flops as package

    names = [recompute.value for recompute in package.Recompute]
    if options["recompute"] not in names:
        raise ConfigError(
            f"--recompute: {options['recompute']!r} is not known; known: {', '.join(names)}"
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
