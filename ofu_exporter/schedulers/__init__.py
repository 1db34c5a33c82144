"""What a scheduler is, and how one is found by its file's name.

A scheduler is one module in this package that says which job owns which GPU of this node. Its file
name is its registration (`slurm.py` is `--scheduler slurm`). It has three public names:

- `Options`: a frozen pydantic model; its fields become flags, environment variables and keys of
  the configuration file, with their defaults, checks and help;
- `AUTO`: whether `auto` looks for it; False = never used unasked;
- `Scheduler`: built with its options, and used as the protocol below says.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from pydantic import BaseModel

from ofu_exporter.errors import ConfigError
from ofu_exporter.values.job import Claim


class Scheduler(Protocol):
    """Says who owns the GPUs of this node. One thread asks it, so one that hangs costs nothing else."""

    @property
    def poll_seconds(self) -> float:
        """How long to wait between two questions."""

    @property
    def rejected(self) -> Mapping[str, int]:
        """What it said so far that was not believed, counted by `ClaimRejection`."""

    def claims(self) -> Sequence[Claim]:
        """Every job that holds a device of this node now.

        Raises SchedulerError when that cannot be told; it is asked again, and reopens by itself
        what it needs. With reason `absent` it is no scheduler of this node.
        """

    def close(self) -> None:
        """Let go of every handle. Never raises."""


class SchedulerModule(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    Options: type[BaseModel]
    AUTO: bool

    def Scheduler(self, options: BaseModel) -> Scheduler:
        """Build the scheduler; touches nothing yet."""


def names() -> list[str]:
    """Every scheduler, by its public name."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def load(name: str) -> SchedulerModule:
    """The module of one scheduler. Raises ConfigError that lists the known names."""
    if name not in names():
        raise ConfigError(f"unknown scheduler {name!r}; known: auto, none, {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast(SchedulerModule, module)


def summary(name: str) -> str:
    """The first line of a scheduler's docstring: what it reads."""
    return (load(name).__doc__ or "").strip().split("\n", maxsplit=1)[0]


def automatic() -> list[str]:
    """The schedulers that `auto` looks for."""
    return [name for name in names() if load(name).AUTO]
