"""A node with a host engine that a test makes up: the stand-in for libdcgm, and time that moves when told."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ofu_exporter.sources.dcgm import driver
from ofu_exporter.sources.dcgm.library import GPU, Entity
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.doubles import dcgm as double

START = 100.0
"""On the monotonic clock."""
EPOCH = 1.8e9
"""Unix time then."""
FIRST, SECOND = Entity(GPU, 0), Entity(GPU, 1)
A100: dict[str, double.Value] = {
    "gpm": 0,
    "cycles": 0,
    "compute": [8, 0],
    "name": "NVIDIA A100-SXM4-80GB",
}
"""A GPU from before Hopper."""


class DcgmNode:
    """A scenario, the clocks that the host engine and the program share, and the source."""

    def __init__(self, path: Path, library: ctypes.CDLL, gpus: int = 1) -> None:
        self.library = library
        self.now = START
        self.clock_was_set_by = 0.0
        self.scenario = double.Scenario(path, gpus)
        self.scenario.at(EPOCH)
        self.source = self.made()
        self.probe: driver.Probe | None = None

    def made(self, **options: object) -> driver.Source:
        return driver.Source(driver.Options.model_validate(options), lambda: self.now, self.unix)

    def unix(self) -> float:
        return EPOCH + self.now - START + self.clock_was_set_by

    def open(self, **options: object) -> driver.Probe:
        self.source = self.made(**options)
        (self.probe,) = self.source.open()
        return self.probe

    def opened(self, **options: object) -> driver.Probe:
        """A probe whose watches have brought their first two samples: the next window has no gap."""
        probe = self.open(**options)
        self.advance(float(str(options.get("dcgm_interval", 1.0))))
        return probe

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.scenario.at(self.unix())

    def window(self, probe: driver.Probe, seconds: float = 5.0) -> list[Reading]:
        """The readings of the next seconds, of which none may be a fault."""
        events = self.events(probe, seconds)
        assert not [event for event in events if isinstance(event, Fault)], events
        return [event for event in events if isinstance(event, Reading)]

    def events(self, probe: driver.Probe, seconds: float = 5.0) -> Sequence[Reading | Fault]:
        self.advance(seconds)
        return probe.read()

    def close(self) -> None:
        if self.probe is not None:
            self.probe.close()
        self.source.close()

    def is_watched(self, field: int, entity: Entity = Entity(GPU, 0)) -> bool:  # noqa: B008
        return bool(self.library.test_is_watched(*entity, field))

    @property
    def held(self) -> tuple[int, int, int, int]:
        """Watches, groups, connections and initialisations that somebody has."""
        library = self.library
        return (
            library.test_watches(),
            library.test_groups(),
            library.test_connections(),
            library.test_initialised(),
        )


def faults(events: object) -> list[tuple[str, Reason]]:
    assert isinstance(events, list)
    return [(e.gpu.index, e.reason) for e in events if isinstance(e, Fault)]


def readings(events: object) -> list[Reading]:
    assert isinstance(events, list)
    return [e for e in events if isinstance(e, Reading)]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DcgmNode]:
    """A node with one GPU, of which nothing is held when the test is over."""
    path = tmp_path / "scenario"
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(path))
    library = double.load()
    library.test_reset()
    node = DcgmNode(path, library)
    yield node
    node.close()
    assert node.held == (0, 0, 0, 0)
