"""Puts counts of configurations into rows, one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAMES = (
    *("config", "architecture", "family", "convention", "parameters", "active_parameters"),
    *("model_flops_per_token", "hardware_flops_per_token", "model_flops_per_step"),
    *("mfu", "hfu", "error"),
)
SHOWN = ("config", "parameters", "active_parameters", "model_flops_per_token", "error")
"""The keys of a row, and those that the table shows."""


def row(config: str, architecture: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a configuration, from its count as plain data."""
    size = data["parameters"]
    values = {
        **{name: data[name] for name in NAMES if name in data},
        "config": config,
        "architecture": architecture,
        "parameters": size["total"],
        "active_parameters": size["active"],
    }
    return {name: values.get(name) for name in NAMES}


def refused(config: str, why: str) -> dict[str, Any]:
    """The row of a configuration that cannot be counted."""
    return {**dict.fromkeys(NAMES), "config": config, "error": why}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows for people."""
    lines = [[name.upper().replace("_", " ").replace("FLOPS", "FLOPs") for name in SHOWN]]
    lines += [[_cell(each[name]) for name in SHOWN] for each in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(SHOWN))]
    return "\n".join(
        "  ".join(
            f"{cell:{'<' if column in (0, 4) else '>'}{widths[column]}}"
            for column, cell in enumerate(line)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
