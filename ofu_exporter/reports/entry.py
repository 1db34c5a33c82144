"""Keeps what is known of one job's reports: what they cover, how they compare with OFU, and what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.divergence import DEFAULT, Divergence, Thresholds, compare_sums
from ofu_exporter.reports.coverage import Coverage, recent, summed, time_mean
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.owner import Owner
from ofu_exporter.reports.stated import Hardware
from ofu_exporter.values.job import GpuUsage
from ofu_exporter.values.reported import NOTHING, Adjusted, Causes, Compared, ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView


@dataclass(frozen=True, slots=True)
class Policy:
    """How reports are compared, and whose reports are kept."""

    horizon: float = 600.0
    """Seconds."""
    thresholds: Thresholds = DEFAULT
    unowned: bool = False
    """Whether reports of jobs without a GPU here are kept."""


@dataclass(slots=True)
class Entry:
    """What is known of one job's reports."""

    run: str
    """Tells runs of one job id apart."""
    coverage: Coverage = field(default_factory=Coverage)
    outcomes: Counter[str] = field(default_factory=Counter)
    facts: MfuReport | None = None
    """The last report, with the facts of earlier ones that it did not repeat."""
    hardware: Hardware = field(default_factory=Hardware)
    usage: Sequence[GpuUsage] = ()
    """The usage that the coverage was summed up with."""
    peak_flops: float | None = None
    at: float | None = None
    """Unix time up to which the job has reported."""
    heard_at: float = 0.0
    """Monotonic time of the last report."""
    horizon: Compared = NOTHING
    divergence: Divergence | None = None
    """Divergence over the horizon."""
    total_verdict: Verdict = Verdict.INSUFFICIENT_DATA
    causes: Causes = field(default_factory=Causes)
    explained: tuple[Verdict, float, tuple[object, ...]] | None = None
    """The verdict that the causes are for, when they were looked for, and the facts they were looked for with."""
    is_being_explained: bool = False
    adjusted: Adjusted | None = None
    adjusted_until: tuple[float, float] | None = None
    """The job's utilization and GPU-seconds up to which `adjusted` has counted; None = it has not begun."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the horizon."""
        return self.divergence.verdict if self.divergence else Verdict.INSUFFICIENT_DATA

    @property
    def current_causes(self) -> Causes | None:
        """The causes of the current verdict; None where they are of another verdict, or none were looked for."""
        return self.causes if self.explained and self.explained[0] is self.verdict else None

    def compare(self, owner: Owner, policy: Policy, now: float) -> None:
        """Compare the reports anew with what has been observed until now."""
        anew = owner.usage is not self.usage
        self.usage = owner.usage
        self.coverage = summed(self.coverage, owner.usage, now, policy.horizon, anew)
        self.horizon = recent(self.coverage, now, policy.horizon)
        previous = self.divergence.verdict if self.divergence else None
        if owner.view is not None:
            self._adjust(owner.view)
        number, thresholds = owner.gpu_count, policy.thresholds
        self.divergence = compare_sums(self.horizon, number, thresholds, previous)
        self.total_verdict = divergence.verdict(self.coverage.total, number, thresholds)

    def _adjust(self, view: JobView) -> None:
        """Count what was observed since the last call; nothing from before the overhead was known."""
        totals, before, known = _totals(view), self.adjusted_until, self.adjusted
        self.adjusted_until = totals
        if self.facts is not None and self.facts.tile_overhead is not None:
            overhead = self.facts.tile_overhead
            self.adjusted = (known or Adjusted(overhead)).with_overhead(
                overhead, self.facts.tile_overhead_bound
            )
        if known is not None and before is not None and self.adjusted is not None:
            self.adjusted = self.adjusted.plus(totals[0] - before[0], totals[1] - before[1])

    def shown(self, policy: Policy, now: float) -> ReportsView:
        """What may be shown of the job's reports."""
        mfu = self.horizon.mfu
        return ReportsView(
            outcomes=dict(self.outcomes),
            at=self.at,
            peak_flops=self.peak_flops,
            precision=self.facts.shares() if self.facts else None,
            mfu=time_mean(self.coverage, now, policy.horizon) if mfu is None else mfu,
            horizon=self.horizon,
            settled=self.coverage.life,
            total=self.coverage.total,
            verdict=self.verdict,
            total_verdict=self.total_verdict,
            causes=self.current_causes,
            adjusted=self.adjusted,
        )


def _totals(view: JobView) -> tuple[float, float]:
    return view.utilization_seconds, view.observed_seconds
