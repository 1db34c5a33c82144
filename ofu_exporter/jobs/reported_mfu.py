"""What a job reported of itself as JSON, and how it compares with OFU: part of the job's totals."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from pydantic import ConfigDict, NonNegativeFloat, computed_field, model_validator
from pydantic.dataclasses import dataclass

from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.honest_ratio import NOT_MEASURED, HonestRatio, honest_ratio
from ofu_exporter.ofu.observed import total_sums
from ofu_exporter.values import quantities
from ofu_exporter.values.instant import UNIX_LIMIT
from ofu_exporter.values.progress import Progress
from ofu_exporter.values.reported import Adjusted, Compared, Reported
from ofu_exporter.values.trace import are_seconds


@dataclass(frozen=True)
class ComparedSums:
    """The fields of `Compared`."""

    mfu_seconds: NonNegativeFloat = 0.0
    utilization_seconds: NonNegativeFloat = 0.0
    gpu_seconds: NonNegativeFloat = 0.0
    variance: NonNegativeFloat = 0.0
    point_seconds: NonNegativeFloat = 0.0
    point_utilization_seconds: NonNegativeFloat = 0.0
    point_reads: NonNegativeFloat = 0.0
    point_hz: NonNegativeFloat = 0.0
    point_hz_squares: NonNegativeFloat = 0.0
    edge_seconds: NonNegativeFloat = 0.0
    overstated_seconds: NonNegativeFloat = 0.0


MOST_OUTCOMES = 64
_OUTCOME = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True, config=ConfigDict(allow_inf_nan=False))
class ReportedMfu(Reported, ComparedSums):
    """What a job reported of itself, and how it compares with OFU over the same seconds.

    It may come from a file or another agent: raises ValueError for what no agent has written.
    """

    @model_validator(mode="after")
    def _is_possible(self) -> ReportedMfu:
        adjusted, shares = self.adjusted, self.precision or {}
        wrong = {
            "finding_seconds": not are_seconds(self.finding_seconds),
            "traced_seconds": self.traced_seconds < 0,
            "outcomes": len(self.outcomes) > MOST_OUTCOMES
            or not all(_OUTCOME.fullmatch(name) for name in self.outcomes)
            or min(self.outcomes.values(), default=0) < 0,
            "peak_flops": self.peak_flops is not None and self.peak_flops <= 0,
            "precision": not all(0 < each <= 1 for each in shares.values())
            or math.fsum(shares.values()) > 1.01,
            "last": self.last is not None and not 0 <= self.last <= UNIX_LIMIT,
            "mfu_seconds": self.mfu_seconds > quantities.MOST_EXPLAINED * self.gpu_seconds,
            "adjusted": adjusted is not None and not _is_possible(adjusted),
            "progress": self.progress is not None and not self.progress.is_possible,
        }
        if names := [name for name, is_wrong in wrong.items() if is_wrong]:
            raise ValueError(f"impossible: {', '.join(names)}")
        return self

    @property
    def total(self) -> Compared:
        return Compared(*map(self.__getattribute__, Compared._fields))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mfu_ratio(self) -> float | None:
        """Mean reported MFU; None if no OFU was observed in the same time."""
        return self.total.mfu

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU over the same GPU-seconds."""
        return self.total.ofu

    @computed_field  # type: ignore[prop-decorator]
    @property
    def adjusted_utilization_ratio(self) -> float | None:
        """Mean OFU without the tile overhead, from when that overhead was known.

        With a lower bound of the overhead, the true value is at most this one.
        """
        return self.adjusted.utilization_ratio if self.adjusted else None


def _is_possible(adjusted: Adjusted) -> bool:
    """Whether there is such an overhead, and such sums."""
    numbers = adjusted.tile_overhead, adjusted.utilization_seconds, adjusted.gpu_seconds
    return all(0 <= each < math.inf for each in numbers)


def merged_reported(reports: Sequence[ReportedMfu], gpus: float) -> ReportedMfu | None:
    """Sums are added. Values of a moment are those of the one with the last report.

    `gpus` is the least number of GPUs that the compared GPU-seconds belong to.
    """
    if not reports:
        return None
    ordered = sorted(reports, key=lambda one: one.last or 0.0)
    latest = ordered[-1]
    if len(reports) == 1:
        return latest
    outcomes: Counter[str] = Counter()
    for one in reports:
        outcomes.update(one.outcomes)
    compared = total_sums(one.total for one in reports)
    progress = [one.progress for one in reports if one.progress]
    error = compared.error(gpus)
    sums: dict[str, Any] = compared._asdict()
    limits = divergence.Thresholds(honest=_honest(reports))
    return replace(
        latest,
        **sums,
        outcomes=dict(outcomes),
        framework=next((one.framework for one in reversed(ordered) if one.framework), ""),
        verdict=divergence.verdict(compared, gpus, limits),
        stderr_ratio=error.ratio,
        stderr_method=error.method,
        adjusted=_merged_adjusted([one.adjusted for one in ordered if one.adjusted]),
        trace=max((one.trace for one in reports if one.trace), key=attrgetter("at"), default=None),
        finding_seconds=_added(one.finding_seconds for one in reports),
        traced_seconds=math.fsum(one.traced_seconds for one in reports),
        progress=functools.reduce(Progress.plus, progress) if progress else None,
    )


def _honest(reports: Sequence[ReportedMfu]) -> HonestRatio:
    """What an honest MFU is of OFU, from the least to the most of all nodes whose reports were compared."""
    of_nodes = [honest_ratio(one.card, one.precision) for one in reports if one.total.gpu_seconds]
    if not of_nodes:
        return NOT_MEASURED
    return HonestRatio(min(each.low for each in of_nodes), max(each.high for each in of_nodes))


def _added(of_nodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, seconds in (item for one in of_nodes for item in one.items()):
        sums[name] = sums.get(name, 0.0) + seconds
    return sums


def _merged_adjusted(adjusted: Sequence[Adjusted]) -> Adjusted | None:
    """Sums are added, and the overhead is the last one. If one is a lower bound, so is the whole."""
    if not adjusted:
        return None
    return replace(
        adjusted[-1],
        bound="lower" if any(one.bound == "lower" for one in adjusted) else adjusted[-1].bound,
        utilization_seconds=math.fsum(one.utilization_seconds for one in adjusted),
        gpu_seconds=math.fsum(one.gpu_seconds for one in adjusted),
    )
