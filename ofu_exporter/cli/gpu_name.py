"""Reads the option `--gpu`: NVML's name of a model, a short one, or a cloud's, for which it prints the full name."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import click

from ofu_exporter.cli.answers import say


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
    if _is_first_time(text):
        say(f"--gpu {text} means {name}{more}", err=True)
    return name


def _is_first_time(text: str) -> bool:
    """Whether this terminal session has not been told yet what a short name means; True if that cannot be noted."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    name = re.sub(r"\W", "-", text.casefold())
    note = folder / f"ofu-exporter-{os.getuid()}-{os.getsid(0)}-gpu-{name}"
    try:
        note.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


GPU_HELP = 'GPU model: H100, the name in `nvidia-smi -L` ("NVIDIA H100 80GB HBM3"), or a cloud\'s p5.48xlarge.'
