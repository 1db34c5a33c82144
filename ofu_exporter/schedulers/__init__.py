"""Finds a scheduler by its name, which is the name of its folder, and says what a scheduler offers.

A scheduler says which job owns which GPU of this node. It is one folder of this package, which needs no
other registration (`slurm/` is `--scheduler slurm`). Its `driver.py` has `Scheduler`, built with its
options, and used as the protocol below says. Its `options.py`, which every command loads, has

- `Options`: a frozen pydantic model; its fields become flags, environment variables and keys of
  the configuration file, with their defaults, checks and help;
- `AUTO_RANK`: its place among those that `auto` tries, lowest first; None = only on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ofu_exporter.support.registry import Registry
from ofu_exporter.values.job import Claim

if TYPE_CHECKING:  # imported late: Slurm's hooks load this package and must load no library
    from pydantic import BaseModel


class Scheduler(Protocol):
    """Says which job owns which GPU of this node. It has a thread of its own, so a scheduler that hangs blocks
    nothing else."""

    @property
    def poll_seconds(self) -> float:
        """How long to wait between two questions."""

    @property
    def rejected(self) -> Mapping[str, int]:
        """The rejected parts of its answers, counted by `ClaimRejection`."""
        return {}

    def claims(self) -> Sequence[Claim]:
        """Every job that holds a device of this node now, and jobs that held one before, with their end.

        Raises SchedulerError when the owners are not known. The scheduler is then asked again, and reopens what it
        needs. The reason `absent` means that this node does not have the scheduler, `no_job_yet` that it may not have
        it.
        """

    def close(self) -> None:
        """Release every handle, if any is held. Never raises."""
        return


class SchedulerOptions(Protocol):
    """What every `options.py` of this package offers."""

    Options: type[BaseModel]
    AUTO_RANK: int | None


class SchedulerModule(Protocol):
    """What every `driver.py` of this package offers."""

    def Scheduler(self, options: BaseModel) -> Scheduler:
        """Build the scheduler; touches nothing yet."""


_RESERVED = ("auto", "none")
_DRIVERS: Registry[SchedulerModule] = Registry(
    __name__, "scheduler", inner="driver", reserved=_RESERVED
)
_OPTIONS: Registry[SchedulerOptions] = Registry(
    __name__, "scheduler", inner="options", reserved=_RESERVED
)
names, load, summary = _DRIVERS.names, _DRIVERS.load, _DRIVERS.summary
options, automatic = _OPTIONS.load, _OPTIONS.automatic
