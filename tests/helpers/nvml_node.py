"""A node whose driver is the stand-in for NVML, and whose time a test moves."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ofu_exporter.errors import GpuError
from ofu_exporter.sources.nvml import driver
from ofu_exporter.values.reading import Reading
from tests.doubles import nvml as double

START = 100.0


class NvmlNode:
    """A node: a scenario, the clock that the driver and the program share, and the source."""

    def __init__(self, path: Path, library: ctypes.CDLL) -> None:
        self.library = library
        self.now = START
        self.scenario = double.Scenario(path)
        self.scenario.at(self.now)
        self.source = driver.Source(driver.Options(), lambda: self.now)
        self.probes: Sequence[driver.GpuProbe] = ()

    def open(self) -> Sequence[driver.GpuProbe]:
        self.probes = self.source.open()
        return self.probes

    def began(self) -> driver.GpuProbe:
        """The first GPU's probe, with its first window begun."""
        probe = self.open()[0]
        assert probe.read() == ()
        return probe

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.scenario.at(self.now)

    def window(self, probe: driver.GpuProbe, seconds: float = 10.0) -> Reading:
        """What the probe measures over the next seconds."""
        self.advance(seconds)
        (reading,) = probe.read()
        assert isinstance(reading, Reading)
        return reading

    def close(self) -> None:
        for probe in self.probes:
            probe.close()
        self.source.close()

    @property
    def samples_alive(self) -> int:
        return int(self.library.test_samples_alive())


def failure(call: Callable[[], object]) -> GpuError:
    with pytest.raises(GpuError) as caught:
        call()
    return caught.value
