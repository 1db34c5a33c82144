"""Finds a counter source by its name, which is the name of its folder, and says what a source offers.

A source is one folder of this package, which needs no other registration (`dcgm_exporter/` is
`--source dcgm-exporter`). Its `driver.py` has `Source`, built with its options and a
clock, and used as the protocol below says. Its `options.py`, which every command loads, has

- `Options`: a frozen pydantic model; its fields become flags, environment variables and keys of
  the configuration file, with their defaults, checks and help;
- `AUTO_RANK`: its place among those that `auto` tries, lowest first; None = only on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import BaseModel

from ofu_exporter.support.registry import Registry
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.reading import Clock, Fault, Reading

__all__ = [
    "Clock",
    "Probe",
    "Source",
    "SourceModule",
    "automatic",
    "load",
    "names",
    "options",
    "summary",
]


class Probe(Protocol):
    """Measures GPUs that can only fail together: one GPU of a driver, or those of one page of another exporter.

    One thread drives a probe, so a call that hangs does not affect the other probes.
    """

    def gpus(self) -> Sequence[Gpu]:
        """The GPUs of this probe that are known now."""

    def poll(self) -> None:
        """Take one point read of the SM clock, which the hardware does not average.

        Raises GpuError. Nothing is to do where the reads bring the clock.
        """
        return

    def read(self) -> Sequence[Reading | Fault]:
        """End the window that the last `read` began, begin the next, and return what was measured.

        Empty when there is nothing new. Raises GpuError when the probe as a whole cannot be read. It is called again
        at the next window, and then reopens what it needs.
        """

    def divide(self, gpus: frozenset[GpuKey]) -> None:  # noqa: ARG002 - nothing to do here
        """Tell of these GPUs, from now on, how the activity lay inside each window. Another thread calls it.

        Nothing is to do where that is always known, or never.
        """
        return

    def close(self) -> None:
        """Release every handle, if any is held. Never raises."""
        return


class Source(Protocol):
    """A way to read the counters of this node's GPUs. Those that derive from it say what is otherwise with them."""

    @property
    def simulated(self) -> bool:
        """Whether the values are made up, by this source or by the one that was recorded."""
        return False

    @property
    def recorded(self) -> str:
        """The day on which the values were measured, if that is not now; "" = now."""
        return ""

    @property
    def rejected(self) -> Mapping[str, int]:
        """Refused rows that belong to no GPU, counted by reason."""
        return {}

    def open(self) -> Sequence[Probe]:
        """Find the GPUs. Raises SourceError when this source cannot be used on this node.

        A GPU that exists but cannot be measured has a probe too, whose reads say why.
        """

    def close(self) -> None:
        """Release the library or connection, if it holds one, after every probe was closed. Never raises."""
        return


class SourceOptions(Protocol):
    """What every `options.py` of this package offers."""

    Options: type[BaseModel]
    AUTO_RANK: int | None


class SourceModule(Protocol):
    """What every `driver.py` of this package offers."""

    def Source(self, options: BaseModel, clock: Clock) -> Source:
        """Build the source; touches nothing yet."""


_RESERVED = ("auto",)
_DRIVERS: Registry[SourceModule] = Registry(__name__, "source", inner="driver", reserved=_RESERVED)
_OPTIONS: Registry[SourceOptions] = Registry(
    __name__, "source", inner="options", reserved=_RESERVED
)
names, load, summary = _DRIVERS.names, _DRIVERS.load, _DRIVERS.summary
options, automatic = _OPTIONS.load, _OPTIONS.automatic
