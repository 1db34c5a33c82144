"""`list`: prints what this version knows: sources, schedulers, GPU models, metrics, architectures, conventions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.answers import format_option, print_answer
from ofu_exporter.cli.help import SubjectGroup

if TYPE_CHECKING:
    from ofu_exporter.flops.architectures import ArchitectureRow
    from ofu_exporter.hardware.gpu_models import GpuModel

JsonRows = list[dict[str, Any]]


@click.group(
    "list", cls=SubjectGroup, short_help="What this version knows: sources, GPUs, metrics, ..."
)
def listing() -> None:
    """Show what this version knows: sources, schedulers, GPU models, metrics, architectures, conventions."""


@listing.command("sources")
@format_option
def list_sources(format_: str) -> None:
    """Counter sources, and the order in which `auto` tries them."""
    from ofu_exporter import sources

    place = {name: number for number, name in enumerate(sources.automatic(), 1)}
    rows: JsonRows = [
        {"source": name, "auto": place.get(name), "summary": sources.summary(name)}
        for name in sources.names()
    ]
    _print(format_, rows, lambda row: _driver(row, f"auto, {row['auto']}."))


@listing.command("schedulers")
@format_option
def list_schedulers(format_: str) -> None:
    """Schedulers that can say which job owns which GPU."""
    from ofu_exporter import schedulers

    automatic = schedulers.automatic()
    rows: JsonRows = [
        {"scheduler": name, "auto": name in automatic, "summary": schedulers.summary(name)}
        for name in schedulers.names()
    ]
    _print(format_, rows, lambda row: _driver(row, "auto"))


def _driver(row: Mapping[str, Any], auto: str) -> str:
    """A source or scheduler, whether `auto` tries it, and what it is."""
    name, is_automatic, summary = row.values()
    return f"{name:15}{auto if is_automatic else 'on request':12}{summary}"


def _print(format_: str, rows: JsonRows, line: Callable[[Mapping[str, Any]], str]) -> None:
    print_answer(format_, lambda: "\n".join(map(line, rows)), lambda: rows)


@listing.command("gpus")
@format_option
def list_gpus(format_: str) -> None:
    """GPU models and what they are rated at."""
    from ofu_exporter.hardware import gpu_models

    rows = [_gpu_row(row) for row in gpu_models.ROWS]
    print_answer(format_, gpu_models.markdown, lambda: rows)


def _gpu_row(row: GpuModel) -> dict[str, Any]:
    from ofu_exporter.hardware.gpu_models import PRECISIONS

    peaks = {name: row.peak_flops(name) for name in PRECISIONS}
    return {
        "model": row.key,
        "sm_count": row.sm_count,
        "tensor_clock_hz": row.clock_hz("bf16"),
        "fp64_clock_hz": None if peaks["fp64"] is None else row.clock_hz("fp64"),
        "peak_flops": {name: peak for name, peak in peaks.items() if peak is not None},
        "confidence": row.confidence,
    }


@listing.command("metrics")
@format_option
def list_metrics(format_: str) -> None:
    """Every metric with its type, labels and meaning."""
    from ofu_exporter.serving import metrics

    rows: JsonRows = [
        {"metric": spec.shown_name, "type": spec.kind, "labels": [*spec.labels], "help": spec.help}
        for spec in metrics.every_metric()
    ]
    _print(format_, rows, _metric)


def _metric(row: Mapping[str, Any]) -> str:
    labels = "{" + ", ".join(row["labels"]) + "}" if row["labels"] else ""
    return f"{row['metric']}{labels} ({row['type']})\n    {row['help']}"


@listing.command("architectures")
@format_option
def list_architectures(format_: str) -> None:
    """Model architectures, and how the FLOPs of each are counted."""
    from ofu_exporter.flops import architectures, config_file, families

    closed, listed = families.architectures(), architectures.known_architectures()
    rows: JsonRows = [_architecture_row(each, closed) for each in listed]
    names = {each.architecture for each in listed}
    rows += [
        _architecture_row(architectures.ArchitectureRow("", name), closed)
        for name in sorted(closed.keys() - names)
    ]
    ready = f"Recipes that come with this version: {', '.join(config_file.ready_recipes())}."
    text = [*map(_architecture, rows), "", *architectures.summary(listed, closed), ready]
    print_answer(format_, lambda: "\n".join(text), lambda: rows)


def _architecture_row(row: ArchitectureRow, closed: Mapping[str, str]) -> dict[str, Any]:
    return {
        "architecture": row.architecture,
        "model_type": row.kind,
        "family": closed.get(row.architecture, ""),
        "executed": row.executed,
        "recipe_error": float(row.recipe) if row.recipe else None,
        "parameters": row.theirs,
        "note": row.why,
    }


def _architecture(row: Mapping[str, Any]) -> str:
    ways = [f"closed form {row['family']}"] if row["family"] else []
    ways += [f"executed {row['executed']}"] if row["executed"] else []
    error = row["recipe_error"]
    if error is not None:
        ways.append(f"recipe {f'{error:+.2%}' if error else 'exact'}")
    return f"{row['architecture']:42} {'; '.join(ways) or row['note'] or 'no answer'}"


@listing.command("conventions")
@format_option
def list_conventions(format_: str) -> None:
    """Ways of counting FLOPs."""
    from ofu_exporter.flops import conventions

    rows: JsonRows = [
        {"convention": name, "summary": conventions.summary(name)} for name in conventions.names()
    ]
    _print(format_, rows, lambda row: f"{row['convention']:12}{row['summary']}")
