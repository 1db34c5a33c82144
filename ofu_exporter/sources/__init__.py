"""What a counter source is, and how one is found by its folder's name.

A source is one folder of this package, and the folder's name its registration (`dcgm_exporter/` is
`--source dcgm-exporter`). Its `driver.py` has three public names, everything else is its own:

- `Options`: a frozen pydantic model; its fields become flags, environment variables and keys of
  the configuration file, with their defaults, checks and help;
- `AUTO_RANK`: its place in what `auto` tries, lowest first; None = never used unasked;
- `Source`: built with its options and a clock, and used as the protocol below says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import BaseModel

from ofu_exporter.support.registry import Registry
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Clock, Fault, Reading

__all__ = ["Clock", "Probe", "Source", "SourceModule", "automatic", "load", "names", "summary"]


class Probe(Protocol):
    """Measures what can only fail together: one GPU of a driver, or one page of another exporter.

    One thread drives a probe, so a call that hangs costs the other probes nothing.
    """

    def gpus(self) -> Sequence[Gpu]:
        """The GPUs it speaks of, as far as they are known."""

    def poll(self) -> None:
        """Take one point read of what is not averaged by the hardware (the SM clock).

        Raises GpuError.
        """

    def read(self) -> Sequence[Reading | Fault]:
        """End the window that the last `read` began, begin the next, and return what was measured.

        Empty when nothing new is known. Raises GpuError when the probe as a whole cannot be read;
        it is called again at the next window, and reopens by itself what it needs.
        """

    def close(self) -> None:
        """Let go of every handle. Never raises."""


class Source(Protocol):
    """A way to read the counters of this node's GPUs."""

    @property
    def simulated(self) -> bool:
        """True when the values were made up, here or in the recording that is replayed."""

    @property
    def rejected(self) -> Mapping[str, int]:
        """Rows that were refused and belong to no GPU, counted by reason."""

    def open(self) -> Sequence[Probe]:
        """Find the GPUs. Raises SourceError when there is nothing to measure with.

        A GPU that is there but cannot be measured is a probe that says so when read.
        """

    def close(self) -> None:
        """Let go of the library or connection, after every probe was closed. Never raises."""


class SourceModule(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    Options: type[BaseModel]
    AUTO_RANK: int | None

    def Source(self, options: BaseModel, clock: Clock) -> Source:
        """Build the source; touches nothing yet."""


_DRIVERS: Registry[SourceModule] = Registry(__name__, "source", inner="driver", reserved=("auto",))
names, load, summary, automatic = (
    _DRIVERS.names,
    _DRIVERS.load,
    _DRIVERS.summary,
    _DRIVERS.automatic,
)
