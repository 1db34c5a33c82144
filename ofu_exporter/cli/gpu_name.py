"""Reads the option `--gpu`: NVML's name of a model, or a short one, for which it prints the full name."""

from __future__ import annotations

import click


def gpu_name(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """The NVML name; the text itself for an unknown model, which is refused later where a peak is needed."""
    from ofu_exporter.hardware import gpu_models

    if text is None or any(text in row.names for row in gpu_models.ROWS):
        return text
    taken = gpu_models.by_short_name(text)
    if taken is None:
        return text
    name, others = taken
    more = f" (not for {', '.join(others)})" if others else ""
    click.echo(f"--gpu {text} means {name}{more}", err=True)
    return name


GPU_HELP = 'H100, or as `nvidia-smi -L` names it: "NVIDIA H100 80GB HBM3".'
