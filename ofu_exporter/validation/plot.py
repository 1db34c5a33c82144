"""Draws a validation with matplotlib, if that is installed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.extras import install_command
from ofu_exporter.validation import accuracy
from ofu_exporter.validation.findings import SIMULATED, Findings


def draw(findings: Findings, path: Path) -> None:
    """Errors of OFU, the curve of overheads and the speed-ups in one file. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - large and optional
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"--plot needs matplotlib: {install_command('plot')}; the text says the same"
        ) from error
    figure = Figure(figsize=(15, 5), layout="constrained")
    FigureCanvasAgg(figure)
    errors, overheads, speeds = figure.subplots(1, 3)
    _errors(errors, findings)
    _overheads(overheads, findings)
    _speeds(speeds, findings)
    mark = f"\n{SIMULATED}" if findings.header.simulated else ""
    figure.suptitle(f"{findings.header.gpu.name}, source {findings.header.source}{mark}")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--plot: {path}: {error}") from error


def _errors(axes: Any, findings: Findings) -> None:
    chosen = [each for each in findings.compared if each.mfu and each.product.kind == "aligned"]
    for precision in dict.fromkeys(each.product.precision for each in chosen):
        mine = [each for each in chosen if each.product.precision == precision]
        measured = [100 * (each.mfu or 0) for each in mine]
        raw = [100 * (each.utilization - (each.mfu or 0)) for each in mine]
        (drawn,) = axes.plot(measured, raw, "o", fillstyle="none", label=f"{precision} OFU")
        exact = [each for each in mine if each.is_exact]
        if not exact:
            continue
        axes.plot(
            [100 * (each.mfu or 0) for each in exact],
            [100 * ((each.adjusted or 0) - (each.mfu or 0)) for each in exact],
            "x",
            color=drawn.get_color(),
            label=f"{precision} adjusted",
        )
    axes.set(title="Estimate minus MFU", xlabel="MFU, %", ylabel="points")
    _legend(axes)


def _overheads(axes: Any, findings: Findings) -> None:
    points = [each for each in accuracy.curve(findings.compared) if each.kind == "square"]
    for precision in dict.fromkeys(point.precision for point in points):
        mine = [each for each in points if each.precision == precision]
        sides = [each.side for each in mine]
        counted = [_in_percent(each.counted_overhead) for each in mine]
        (drawn,) = axes.plot(sides, counted, "o-", label=f"{precision} counters")
        names = [_in_percent(each.tile_overhead) for each in mine]
        axes.plot(sides, names, "x--", color=drawn.get_color(), label=f"{precision} names")
    axes.set(title="FLOPs that tiles add", xlabel="side", ylabel="%")
    _legend(axes)


def _in_percent(ratio: float | None) -> float:
    """A ratio in percent; NaN, which is not drawn, if it is not known."""
    return math.nan if ratio is None else 100 * ratio


def _speeds(axes: Any, findings: Findings) -> None:
    squares = accuracy.speed_ups(findings.compared)
    for precision in dict.fromkeys(each.precision for each in squares):
        mine = [each for each in squares if each.precision == precision]
        sides = [each.side for each in mine]
        (drawn,) = axes.plot(sides, [each.achieved for each in mine], "o-", label=precision)
        axes.plot(sides, [each.by_ofu for each in mine], "x--", color=drawn.get_color())
    base = squares[0].base if squares else "-"
    axes.set(title=f"Times as fast as {base} (x: by OFU)", xlabel="side")
    _legend(axes)


def _legend(axes: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")
