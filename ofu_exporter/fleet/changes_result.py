"""Defines what `fleet changes` answers. Its JSON schema is published; null is what is not known, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.answer import AskedTime, ClusterRow, MissingRow, ReadingCost, ResultRow
from ofu_exporter.support.small_files import read_small

SeriesKind = Literal["name", "model", "node", "job"]
"""What each point is: a job of one name and user, an hour of all jobs on a GPU model, six hours of a node, an hour of a
job."""
ComparedValue = Literal["ofu", "sm_clock"]
MOST_BYTES = 64 << 20
_NEEDED: Mapping[SeriesKind, Set[str]] = {
    "name": {"job_name", "user", "model"},
    "job": {"job_id"},
    "model": {"model"},
    "node": {"node"},
}
"""Labels without which nobody can tell what a change is of."""


class NeighbourRow(ResultRow):
    """A job, or a stretch of time, beside a change."""

    job_id: str | None = Field(description="Null where the point is a stretch of time.")
    begin: str
    ofu: float = Field(description="Of a node: its OFU / that of its peers.")
    gpus: float | None
    gpu_hours: float


class ShareRow(ResultRow):
    """What jobs of one name and user have to do with a change of a GPU model."""

    job_name: str
    user: str
    share_before: float = Field(description="Of the measured GPU-hours on the days before.")
    share_after: float
    ofu_before: float | None
    ofu_after: float | None
    points: float = Field(description="Of the change of OFU, in percentage points.")


class ChangeRow(ResultRow):
    """A change of level."""

    kind: SeriesKind
    labels: dict[str, str]
    direction: Literal["regression", "improvement"]
    sure: bool = Field(
        description="Whether it holds for the whole answer, in spite of the number of series."
    )
    at: str = Field(description="Begin of the first job or hour after it; UTC, ISO 8601.")
    after_last: str = Field(description="Begin of the last job or hour before it.")
    factor: float = Field(description="Level after / level before, at equal size of jobs.")
    factor_low: float
    factor_high: float
    ofu_before: float = Field(description="Geometric mean up to the neighbouring changes.")
    ofu_after: float
    chance_of_series: float = Field(
        description="Probability that this series shows such a change while nothing changed."
    )
    chance_in_report: float = Field(description="Probability that any of all series does (Holm).")
    lost_gpu_hours: float = Field(
        description="That the work since then took beyond what it took before; below 0 saved."
    )
    before: list[NeighbourRow]
    after: list[NeighbourRow]
    shares: list[ShareRow]


class SlowRow(ResultRow):
    """A GPU or node that is slower than its peers in the same jobs and hours."""

    cluster: str
    node: str
    gpu: str | None = Field(description="Null where the whole node is slow.")
    uuid: str | None
    compared: ComparedValue
    slower: float = Field(description="By this part of its peers' value.")
    slower_low: float
    slower_high: float
    sure: bool = Field(description="Seen in two jobs at least.")
    chance: float = Field(
        description="Probability that any healthy one of all that were compared looks as slow."
    )
    hours: int = Field(description="Beside peers.")
    jobs: list[str]

    @property
    def shown_node(self) -> str:
        """The node, with the cluster where there is one: two clusters may have nodes of one name."""
        return f"{self.cluster}/{self.node}" if self.cluster else self.node


class PeerRow(ResultRow):
    """How much could be compared."""

    compared: ComparedValue
    of: Literal["gpu", "node"]
    count: int
    too_few_hours: int
    spread: float = Field(description="Standard deviation of the healthy ones.")


class KindRow(ResultRow):
    """How many series of a kind were looked at."""

    kind: SeriesKind
    tested: int
    too_short: int
    likeness: float = Field(description="Autocorrelation of neighbours in its series.")


class ChangesReport(ResultRow):
    """What changed in a fleet, and what is slow."""

    schema_version: Literal[1] = 1
    server: str
    headline: str
    time: AskedTime
    clusters: list[ClusterRow]
    series: list[KindRow]
    report_level: float = Field(
        description="Share of whole reports over made noise that called a change sure that was none, at most."
    )
    expected_false: float = Field(
        description="Changes that are not sure and are none, expected at most up to an autocorrelation of 0.8."
    )
    least_factor: float
    smaller: int = Field(description="Changes that were found and are smaller than that.")
    changes: list[ChangeRow]
    slow: list[SlowRow]
    peers: list[PeerRow]
    missing: list[MissingRow]
    notes: list[str]
    reading: ReadingCost


def read_changes(path: Path) -> ChangesReport:
    """What `fleet changes --format json` wrote. Raises ConfigError, which names what cannot be used."""
    content = read_small(path, "--changes:", MOST_BYTES)
    try:
        report = ChangesReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(
            f"--changes: {path}: {place}: {first['msg']}; it takes what fleet changes --format json writes"
        ) from error
    for place_of, row in enumerate(report.changes):
        if missing := _NEEDED[row.kind] - row.labels.keys():
            raise ConfigError(
                f"--changes: {path}: changes.{place_of}.labels: no {', '.join(sorted(missing))}"
            )
    return report
