"""Reads a simulated fleet with what of it is to be written as history."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import AfterValidator, Field, field_validator

from ofu_exporter.fleet.simulation import fleet, spec
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.layout import FleetNode, named
from ofu_exporter.fleet.simulation.spec import FleetSpec, Label, Minutes, PartOfMinute, SpecFile
from ofu_exporter.support import checked_yaml
from ofu_exporter.support.checked_yaml import YamlPart

Level = Literal["job", "owner", "model", "cluster", "node", "hour"]
LEVELS: tuple[Level, ...] = get_args(Level)


def _utc(value: datetime.datetime) -> datetime.datetime:
    zoned = value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
    if zoned.second or zoned.microsecond:
        raise ValueError("is not a whole minute")
    return zoned.astimezone(datetime.timezone.utc)


class RawPages(YamlPart):
    """Nodes whose whole pages are part of the history, for some hours of it."""

    nodes: tuple[str, ...] = Field(min_length=1)
    at: Minutes = 0
    lasts: Minutes = 60


class HistorySpec(YamlPart):
    """The part of the fleet that is written."""

    levels: tuple[Level, ...] = LEVELS
    segment: Minutes = Field(default=360, description="Time in one file.")
    raw: tuple[RawPages, ...] = ()

    @field_validator("segment")
    @classmethod
    def _whole_blocks(cls, value: int) -> int:
        if value < 60 or 1440 % value:
            raise ValueError("is not a part of a day from 1h on")
        return value


class RecordedFleetSpec(FleetSpec):
    """A fleet, when it was there, and what is on record of it."""

    start: Annotated[datetime.datetime, AfterValidator(_utc)] | None = None
    scrape_job: Label = "ofu-exporter"
    scrape_interval: PartOfMinute = Field(default=15, description="Of raw pages.")
    history: HistorySpec = HistorySpec()


class RawNode(NamedTuple):
    """A node whose whole pages are part of the history, in [start, end)."""

    number: int
    start: int
    """Minutes of the fleet."""
    end: int


@dataclass(frozen=True)
class RecordedFleet(SimulatedFleet):
    """A fleet with what of it is to be written."""

    spec: RecordedFleetSpec
    raw: Sequence[RawNode]
    """What of the nodes' pages is part of the history."""


def read(path: Path) -> RecordedFleet:
    """The fleet of a file, or the shipped one of this name. Raises ConfigError, with the line."""
    file: SpecFile = checked_yaml.read(spec.spec_path(path), "fleet", RecordedFleetSpec)
    content = file.content
    assert isinstance(content, RecordedFleetSpec)
    made = fleet.fleet_of(file)
    raw = tuple(_raw(file, content, made.nodes))
    return RecordedFleet(content, made.nodes, made.faults, made.jobs, made.shifts, raw)


def _raw(
    file: SpecFile, content: RecordedFleetSpec, nodes: Sequence[FleetNode]
) -> Iterator[RawNode]:
    """Raises ConfigError for raw pages of a node that does not exist, or from after the end."""
    for number, raw in enumerate(content.history.raw):
        place = ("history", "raw", number)
        if raw.at >= content.length:
            raise file.error((*place, "at"), "is after the end of the fleet")
        for node in named(file, place, raw.nodes, nodes):
            yield RawNode(node, raw.at, raw.at + raw.lasts)
